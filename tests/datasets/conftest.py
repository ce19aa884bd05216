"""What the tests of the data sets share: the reference files, which are too large for the
repository.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def assets() -> Path:
    """The folder of reference files that FAIRPROBE_ASSETS names."""
    folder = os.environ.get("FAIRPROBE_ASSETS")
    if not folder:
        pytest.skip(
            "compares with reference files that are not in the repository: set FAIRPROBE_ASSETS to"
            " their folder"
        )
    return Path(folder)
