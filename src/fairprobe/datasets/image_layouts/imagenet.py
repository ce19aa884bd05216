"""Pictures in a folder for each class, as ImageNet has them, `train` and `val` above or not: the
pictures without a face.

Russakovsky et al., "ImageNet Large Scale Visual Recognition Challenge", IJCV 2015. The classes are
of no interest here.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fairprobe.datasets.image_layouts.base import ENDINGS, Listing, own_test_part

HELD_OUT = ("val", "test")


def listing(root: Path) -> Listing | None:
    """All pictures below the folder; None if there are none."""
    paths = [
        path
        for path in sorted(root.rglob("*"))
        if path.suffix.lower() in ENDINGS and not path.name.startswith(".")
    ]
    held_out = np.array([path.relative_to(root).parts[0] in HELD_OUT for path in paths], dtype=bool)
    if not paths:
        return None
    return Listing("others", tuple(paths), {}, own_test_part(held_out))
