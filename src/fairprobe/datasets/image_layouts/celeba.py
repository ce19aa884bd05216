"""CelebA: `img_align_celeba/000001.jpg`, forty attributes in `list_attr_celeba`, the test part in
`list_eval_partition`, the people in `identity_CelebA`.

Liu, Luo, Wang and Tang, "Deep Learning Face Attributes in the Wild", ICCV 2015. The lists come as
text or, from other places, as CSV. `Male` is read as gender and `Young` as age; the others keep
their names. There is no race; `pale_skin` is not the same.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from fairprobe.arrays import Ints
from fairprobe.datasets.image_layouts.base import (
    ImageAttribute,
    Listing,
    below,
    first_file,
    first_folder,
    own_test_part,
    table,
)
from fairprobe.errors import DataError

NAMES = {"Male": ("gender", ("female", "male")), "Young": ("age", ("old", "young"))}
ALIGNED = "img_align_celeba"
FOLDERS = (f"{ALIGNED}/{ALIGNED}", ALIGNED, f"Img/{ALIGNED}", "img_celeba", "")
TEST = "2"  # 0 is for learning, 1 for validation


def listing(root: Path) -> Listing | None:
    """The pictures of a CelebA folder; None for any other folder."""
    listed = _list(root, "Anno/", "list_attr_celeba")
    if listed is None:
        return None
    frame = _read(listed, ["Male"], skiprows=1)
    pictures = first_folder(root, FOLDERS) or root
    signs = {name: frame[name].to_numpy() for name in frame.columns}
    known = ["-1", "0", "1"]
    if listed.suffix == ".csv":  # in a text file, a missing word would shift those after it
        known.append("")
    for name, column in signs.items():
        strange = ~np.isin(column, known)
        if strange.any():
            which, word = frame.index[strange][0], column[strange][0]
            raise DataError(
                f"{listed}: the attribute {name} must be 1 or -1; {which} has '{word}'. Download"
                " the file again."
            )
    attributes = dict(
        _attribute(name, np.where(column == "", -1, column == "1").astype(np.int64))
        for name, column in signs.items()
    )
    divided = _list(root, "Eval/", "list_eval_partition")
    held_out = None
    if divided is not None:
        parts = _read(divided, [], names=["image_id", "partition"])
        part = parts.loc[~parts.index.duplicated(), "partition"].reindex(frame.index)
        held_out = own_test_part(part.eq(TEST).to_numpy(dtype=bool))
    return Listing(
        "CelebA",
        tuple(below(pictures, str(name)) for name in frame.index),
        attributes,
        held_out,
        _identities(root, frame.index),
    )


def _identities(root: Path, names: pd.Index[str]) -> Ints | None:
    listed = _list(root, "Anno/", "identity_CelebA")
    if listed is None:
        return None
    frame = _read(listed, [], names=["image_id", "identity"])
    known = frame.loc[~frame.index.duplicated()].iloc[:, 0].reindex(names)
    numbers = pd.to_numeric(known, errors="coerce").fillna(-1)
    found: Ints = numbers.to_numpy(dtype=np.int64)
    return found


def _list(root: Path, folder: str, name: str) -> Path | None:
    endings = ("txt", "csv")
    return first_file(root, [f"{each}{name}.{end}" for each in ("", folder) for end in endings])


def _attribute(
    name: str, codes: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> tuple[str, ImageAttribute]:
    key, values = NAMES.get(name, (name.lower(), ("no", "yes")))
    return key, ImageAttribute(values, codes)


def _read(path: Path, columns: list[str], **text_options: object) -> pd.DataFrame:
    """One row for each picture, by its name. Only the text files have no header for the names."""
    if path.suffix == ".csv":
        return table(path, ["image_id", *columns]).set_index("image_id")
    if "names" in text_options:
        return table(path, columns, sep=r"\s+", header=None, **text_options).set_index("image_id")
    return table(path, columns, sep=r"\s+", index_col=0, **text_options)
