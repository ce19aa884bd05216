"""Data sets: coded rows with labels, their schema, and where they come from.

`load("adult")` or `adult()` gives a `Dataset`; `catalogue()` describes the four packaged ones.
`open_table` makes a data set of a CSV or Parquet file or a DataFrame, `dataset_of` of a table and
its labels. `write_domain` and `read_domain` keep a schema in a file.
"""

from __future__ import annotations

from fairprobe.datasets.base import Card, Dataset, Split
from fairprobe.datasets.files import read_table
from fairprobe.datasets.own import dataset_of, open_table, write_domain
from fairprobe.datasets.packaged import (
    Entry,
    adult,
    bank,
    catalogue,
    compas,
    find,
    german,
    load,
    names,
    read_packaged,
)
from fairprobe.schema.coding import Coding, domain_of, rows_from_frame
from fairprobe.schema.domain_file import Declared, read_domain

__all__ = [
    "Card",
    "Coding",
    "Dataset",
    "Declared",
    "Entry",
    "Split",
    "adult",
    "bank",
    "catalogue",
    "compas",
    "dataset_of",
    "domain_of",
    "find",
    "german",
    "load",
    "names",
    "open_table",
    "read_domain",
    "read_packaged",
    "read_table",
    "rows_from_frame",
    "write_domain",
]
