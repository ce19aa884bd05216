"""Reading Parquet files, with words as dictionaries."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fairprobe.errors import DataError

MAGIC = b"PAR1"
SUFFIXES = {".parquet", ".pq"}
PANDAS_INDEX = re.compile(r"__index_level_\d+__")  # how pandas stores row numbers


def is_parquet(path: Path) -> bool:
    """Whether the file is Parquet by its name or its first bytes."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC or path.suffix.lower() in SUFFIXES


def arrow_of_parquet(
    path: Path, choose: Callable[[Sequence[str]], list[str]]
) -> tuple[Any, frozenset[str], str]:
    """The chosen columns as an Arrow table, those of them that are categories, and the file's
    SHA-256.
    """
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    try:
        schema = pq.ParquetFile(path).schema_arrow
        chosen = choose([name for name in schema.names if not PANDAS_INDEX.fullmatch(name)])
        words = [
            entry.name
            for entry in schema
            if pa.types.is_string(entry.type) or pa.types.is_large_string(entry.type)
        ]
        table = pq.ParquetFile(path, read_dictionary=words).read(
            columns=chosen, use_pandas_metadata=False
        )
        table.validate(full=True)  # a damaged file may name words that it does not have
    except (pa.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise DataError(
            f"{path} is not a complete Parquet file ({reason}). Write it again, or check that it"
            " was copied completely."
        ) from error
    return table, categories_of(schema), digest


def categories_of(schema: Any) -> frozenset[str]:
    """The dictionary columns of an Arrow table: the categories of pandas and polars."""
    return frozenset(entry.name for entry in schema if pa.types.is_dictionary(entry.type))
