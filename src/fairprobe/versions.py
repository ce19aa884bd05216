"""What the numbers of a run depend on besides its settings."""

from __future__ import annotations

import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version


def versions(*packages: str) -> dict[str, str]:
    """fairprobe's, Python's, and those of the packages that are installed."""
    found = {"fairprobe": version("fairprobe"), "python": platform.python_version()}
    for name in packages:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
