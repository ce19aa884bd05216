"""FairFace: `train/1.jpg`, `val/1.jpg`, with `fairface_label_train.csv` and
`fairface_label_val.csv`. `val` is the test part.

Kärkkäinen and Joo, "FairFace: Face Attribute Dataset for Balanced Race, Gender, and Age for Bias
Measurement and Mitigation", WACV 2021.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from fairprobe.datasets.image_layouts.base import Listing, below, coded, own_test_part, table

GENDERS = ("Male", "Female")
RACES = (
    "White",
    "Black",
    "Latino_Hispanic",
    "East Asian",
    "Southeast Asian",
    "Indian",
    "Middle Eastern",
)
AGES = ("0-2", "3-9", "10-19", "20-29", "30-39", "40-49", "50-59", "60-69", "more than 70")
PARTS = ("train", "val")


def listing(root: Path) -> Listing | None:
    """The pictures of a FairFace folder; None for any other folder."""
    frames = []
    for part in PARTS:
        path = root / f"fairface_label_{part}.csv"
        if path.is_file():
            frames.append(table(path, ["file", "age", "gender", "race"]).assign(part=part))
    if not frames:
        return None
    frame = pd.concat(frames, ignore_index=True)
    values = {"gender": GENDERS, "race": RACES, "age": AGES}
    attributes = {name: coded(frame[name].tolist(), known) for name, known in values.items()}
    held_out = own_test_part((frame["part"] == "val").to_numpy(dtype=bool))
    paths = tuple(below(root, name) for name in frame["file"])
    return Listing("FairFace", paths, attributes, held_out)
