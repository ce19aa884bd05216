"""Data sets: coded rows with labels, the domain they live in, and where they come from.

`load("adult")` or `adult()` gives a `Dataset`; `catalogue()` lists what there is. Four tables are
packaged; MEPS is fetched with `fetch_meps()` after its `TERMS` were shown. `rows_from_frame` codes
any table in human words for a domain; `dataset_of` infers the domain as well. `open_table` makes a
data set of a CSV or Parquet file or a DataFrame, `write_domain` and `read_domain` keep its domain
in a file.
"""

from __future__ import annotations

from fairprobe.datasets.adult import adult
from fairprobe.datasets.bank import bank
from fairprobe.datasets.base import Card, Dataset, Split
from fairprobe.datasets.compas import compas
from fairprobe.datasets.files import read_table
from fairprobe.datasets.german import german
from fairprobe.datasets.meps import meps
from fairprobe.datasets.meps_fetch import TERMS, fetch_meps
from fairprobe.datasets.own import dataset_of, open_table, write_domain
from fairprobe.datasets.packaged import read_packaged
from fairprobe.datasets.registry import Entry, catalogue, load, names
from fairprobe.schema.coding import Coding, domain_of, rows_from_frame
from fairprobe.schema.domain_file import Declared, read_domain

__all__ = [
    "TERMS",
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
    "fetch_meps",
    "german",
    "load",
    "meps",
    "names",
    "open_table",
    "read_domain",
    "read_packaged",
    "read_table",
    "rows_from_frame",
    "write_domain",
]
