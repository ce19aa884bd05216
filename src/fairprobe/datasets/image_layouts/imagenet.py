"""Pictures without a face in a folder for each class, like ImageNet's, with or without `train` and
`val` above them.

Russakovsky et al., "ImageNet Large Scale Visual Recognition Challenge", IJCV 2015. The classes are
not used.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fairprobe.datasets.image_layouts.base import Listing, own_test_part
from fairprobe.datasets.pictures import picture_files

HELD_OUT = ("val", "test")


def listing(root: Path) -> Listing | None:
    """All pictures in the folder; None if there are none."""
    paths = picture_files(root)
    held_out = np.array([path.relative_to(root).parts[0] in HELD_OUT for path in paths], dtype=bool)
    if not paths:
        return None
    return Listing("others", tuple(paths), {}, own_test_part(held_out))
