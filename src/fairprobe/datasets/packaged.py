"""The tables that come with the package: each is checked against its SHA-256 before a value of it
is believed.

The checksum finds every way in which an installed file can be broken (cut short, edited, a
text-mode copy) with one rule. `files/README.md` says where each table comes from and which columns
were kept.
"""

from __future__ import annotations

import gzip
import hashlib
from importlib.resources import files
from importlib.resources.abc import Traversable
from io import BytesIO

import pandas as pd

from fairprobe.errors import SettingError, StorageError, suggest

SHA256 = {
    "adult": "eb06da7b236511760fd5242fe5c637d03daa1aeb09d533e51fcbf9ccf5b41f9b",
    "german": "079d5afe95b517b19cfbb59aa1c277ad40b2b27452949d858b01382ac0c92967",
    "bank": "7730a7cfd81ba994978555d2d62293b8e6e075e9a5abb3a775eaa54fec1e76d7",
    "compas": "7d164e98c412db62c55e47ffc4b153b8a65f4783dc58e2fb9a0141e58a1b9d3b",
}
UNKNOWN = ("", "?")  # how the sources write a value that is not known; any other text is a value


def packaged_file(name: str) -> Traversable:
    """Where the packaged table of this data set lies."""
    return files("fairprobe.datasets").joinpath("files", f"{name}.csv.gz")


def read_packaged(name: str) -> pd.DataFrame:
    """The raw table as its source gives it: original values, missing where the source has no
    value.
    """
    if name not in SHA256:
        raise SettingError(f"There is no packaged table '{name}'.{suggest(str(name), SHA256)}")
    return pd.read_csv(
        BytesIO(gzip.decompress(_checked_bytes(name))),
        keep_default_na=False,
        na_values=list(UNKNOWN),
    )


def _checked_bytes(name: str) -> bytes:
    file = packaged_file(name)
    advice = "Reinstall fairprobe: `pip install --force-reinstall --no-deps fairprobe`."
    try:
        content = file.read_bytes()
    except OSError as error:
        raise StorageError(
            f"The packaged data file {file} cannot be read: {error}. {advice}"
        ) from error
    digest = hashlib.sha256(content).hexdigest()
    if digest != SHA256[name]:
        raise StorageError(
            f"The packaged data file {file} is damaged: its {len(content):,} bytes have SHA-256"
            f" {digest[:16]}…, expected {SHA256[name][:16]}…. {advice}"
        )
    return content
