"""Reading tables: CSV, CSV in gzip, Parquet, a pandas or a polars DataFrame become one pandas
DataFrame.

    in the table                                   in the frame
    "", "?", "NA", "N/A", "NaN", "null", "None"    a gap (NaN)
    numbers                                        int64, or float64 with fractions or gaps
    True, False                                    bool
    words                                          pandas categories, sorted (compact: a million
                                                   cells of 40 words take a megabyte)

Blanks around the cells and column names of a text file are removed. Tables that are probably wrong
are refused with the line, or the column and the row, counted from 0: rows of different length,
dates, a column of numbers with a few words among them.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, time
from numbers import Number
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from fairprobe.arrays import Ints
from fairprobe.datasets.text import GAPS, TextFile
from fairprobe.errors import DataError, SettingError, StorageError, suggest
from fairprobe.storage import check_regular

if TYPE_CHECKING:
    import polars

Source: TypeAlias = "Path | str | pd.DataFrame | polars.DataFrame"

MOST_NAMED = 10  # columns that cannot be used and are named with the reason
DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T]\d.*)?")
PARQUET, PARQUET_SUFFIXES = b"PAR1", (".parquet", ".pq")
PANDAS_INDEX = re.compile(r"__index_level_\d+__")  # how pandas stores row numbers
DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")


@dataclass(frozen=True)
class Read:
    """Table as read, which of its columns were categories already, its file with its digest, and
    the word in the gaps of each column.

    `gap_words` has the columns in which all gaps are the same word, such as "?". Text files have
    none, because there it depends on the reader which words are gaps.
    """

    frame: pd.DataFrame
    categories: frozenset[str]
    path: Path | None = None
    sha256: str | None = None
    gap_words: dict[str, str] = field(default_factory=dict)


def read_table(source: Source, *, drop: Sequence[str] = ()) -> pd.DataFrame:
    """Return the table without the columns to drop."""
    return read(source, drop=drop).frame


def read(
    source: Source,
    *,
    drop: Sequence[str] = (),
    words: Collection[str] = (),
    unusable: dict[str, DataError] | None = None,
) -> Read:
    """Return the table and its origin; columns named in `words` may mix words with numbers. Columns
    that cannot be used are left out and added to `unusable`; without it, they are refused.
    """
    found: dict[str, DataError] = {}
    table = _read(source, drop, words, found)
    if unusable is None:
        refuse(found)
    else:
        unusable |= found
    return table


def refuse(unusable: Mapping[str, DataError]) -> None:
    """Refuse columns that cannot be used, all at once."""
    if len(unusable) == 1:
        raise next(iter(unusable.values()))
    if unusable:
        reasons = [str(error).partition(";")[0] for error in unusable.values()]
        more = f"\n- and {len(reasons) - MOST_NAMED:,} more" if len(reasons) > MOST_NAMED else ""
        raise DataError(
            f"{len(unusable):,} columns cannot be used as they are:\n- "
            + "\n- ".join(reasons[:MOST_NAMED])
            + f"{more}\nConvert them, or leave them out: --drop {quote(','.join(unusable))}"
        )


def _read(
    source: Source, drop: Sequence[str], words: Collection[str], unusable: dict[str, DataError]
) -> Read:
    if isinstance(source, pd.DataFrame):
        return _read_frame(source, drop, words, unusable)
    if isinstance(source, Path | str):
        return _read_file(Path(source), drop, words, unusable)
    if hasattr(source, "collect") and not hasattr(source, "to_arrow"):
        raise SettingError(
            "The table is a lazy frame, which has no rows yet. Call its collect() first."
        )
    if not hasattr(source, "to_arrow"):
        raise SettingError(
            "A table is the path of a CSV or Parquet file, or a pandas or polars DataFrame; got"
            f" {type(source).__name__}."
        )
    table = source.to_arrow()
    categories = _categories_of(table.schema)
    keep = kept(table.schema.names, drop, what="The table")
    columns = _usable(
        keep,
        lambda name: _series(name, table.column(name), categories, mixed=name in words),
        unusable,
    )
    frame = _frame(columns, table.num_rows, unusable)
    return Read(frame, categories, gap_words=_gap_words(table, frame))


def _usable(
    names: Iterable[str], column: Callable[[str], pd.Series[Any]], unusable: dict[str, DataError]
) -> dict[str, pd.Series[Any]]:
    """Return the columns; those that cannot be used are added to `unusable`."""
    found = {}
    for name in names:
        try:
            found[name] = column(name)
        except DataError as error:
            unusable[name] = error
    return found


def _read_file(
    path: Path, drop: Sequence[str], words: Collection[str], unusable: dict[str, DataError]
) -> Read:
    if not path.exists():
        raise StorageError(f"There is no file {path}. Check the path.")
    if path.is_dir():
        raise StorageError(
            f"{path} is a folder; expected a CSV or Parquet file. Name the file in it."
        )
    check_regular(path)
    try:
        packed = _is_parquet(path)
        categories: frozenset[str] = frozenset()
        if packed:
            table, categories, sha256 = _arrow_of_parquet(
                path, lambda names: kept(names, drop, what=str(path))
            )
        else:
            text = TextFile.scan(path)
            table, sha256 = text.arrow(kept(text.names, drop, what=str(path))), text.sha256
    except PermissionError as error:
        raise StorageError(f"Cannot read {path}: {error.strerror}.") from error
    columns = _usable(
        table.schema.names,
        lambda name: _series(
            name, table.column(name), categories, text=not packed, mixed=name in words
        ),
        unusable,
    )
    frame = _frame(columns, table.num_rows, unusable)
    return Read(frame, categories, path, sha256, _gap_words(table, frame) if packed else {})


def kept(names: Sequence[str], drop: Sequence[str], *, what: str) -> list[str]:
    """Return the columns to keep; each name must occur once, and those to drop must exist."""
    unnamed = [place for place, name in enumerate(names) if not name.strip()]
    if unnamed:
        raise DataError(
            f"{what} has a column without a name (column {unnamed[0] + 1} of {len(names)}). Name"
            " it, or leave it out if it only numbers the rows (pandas: index=False)."
        )
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(
            f"{what} has more than one column named {', '.join(map(repr, twice))}. Rename or remove"
            " all but one."
        )
    for name in drop:
        if name not in names:
            raise SettingError(f"{what} has no column '{name}' to drop.{suggest(name, names)}")
    return [name for name in names if name not in drop]


def _frame(
    columns: dict[str, pd.Series[Any]], rows: int, unusable: Mapping[str, DataError]
) -> pd.DataFrame:
    if rows == 0:
        raise DataError("The table has no rows, only column names.")
    if not columns:
        refuse(unusable)
        raise DataError("All columns of the table are dropped. Drop fewer.")
    return pd.DataFrame(columns)


def _gap_words(table: Any, frame: pd.DataFrame) -> dict[str, str]:
    """Return the word in all gaps of each column, from the original table and the frame that was
    read.
    """
    found = {}
    for name in frame.columns:
        gaps = frame[name].isna().to_numpy()
        if gaps.any():
            if isinstance(table, pa.Table):
                cells = table[name].filter(pa.array(gaps)).unique().to_pylist()
            else:
                cells = list(table[name][gaps].unique())
            if len(cells) == 1 and isinstance(cells[0], str):
                found[str(name)] = cells[0]
    return found


# -- Parquet --------------------------------------------------------------------------------------


def _is_parquet(path: Path) -> bool:
    """Return True for a Parquet file, by its name or its first bytes."""
    with path.open("rb") as file:
        return file.read(len(PARQUET)) == PARQUET or path.suffix.lower() in PARQUET_SUFFIXES


def _arrow_of_parquet(
    path: Path, choose: Callable[[Sequence[str]], list[str]]
) -> tuple[Any, frozenset[str], str]:
    """Read the chosen columns; return the Arrow table, its categories, and the file's SHA-256."""
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
    return table, _categories_of(schema), digest


def _categories_of(schema: Any) -> frozenset[str]:
    """Name the dictionary columns of an Arrow table: the categories of pandas and polars."""
    return frozenset(entry.name for entry in schema if pa.types.is_dictionary(entry.type))


# -- columns of Arrow ------------------------------------------------------------------------------


def _series(
    name: str, column: Any, categories: Collection[str], *, text: bool = False, mixed: bool
) -> pd.Series[Any]:
    kind = column.type
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    is_text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    if any(is_kind(value) for is_kind in is_text):
        return _words(name, column, ordered=name in categories, text=text, mixed=mixed)
    if pa.types.is_temporal(kind):
        raise _date(name, str(kind))
    if pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    elif not (pa.types.is_primitive(value) or pa.types.is_boolean(value) or pa.types.is_null(kind)):
        raise DataError(
            f"Column '{name}' holds {kind}; expected one number or word in each cell. Convert it,"
            " or drop the column."
        )
    series: pd.Series[Any] = column.to_pandas()
    if pa.types.is_null(kind):
        return series.astype(np.float64)
    # An object column holds True, False and None.
    return series.where(series.notna(), np.nan) if series.dtype == np.object_ else series


def _words(name: str, column: Any, *, ordered: bool, text: bool, mixed: bool) -> pd.Series[Any]:
    """Return a column of words as pandas categories, sorted unless they are `ordered`; as numbers
    if only blanks made the numbers look like words.
    """
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    array = column.combine_chunks()
    found = [str(word) for word in array.dictionary.to_pylist()]
    places = array.indices.fill_null(len(found)).to_numpy(zero_copy_only=False)
    cleaned = [
        None if word is None or word.strip() in GAPS else word.strip() if text else word
        for word in [*found, None]
    ]
    known = dict.fromkeys(word for word in cleaned if word is not None)
    distinct = list(known) if ordered else sorted(known)
    code = {word: place for place, word in enumerate(distinct)}
    codes = np.array([-1 if word is None else code[word] for word in cleaned])[places]
    if distinct and all(DATE.fullmatch(word) for word in distinct):
        raise _date(name, distinct[0])
    if text and not mixed and distinct:
        as_numbers = pd.to_numeric(pd.Series(distinct, dtype=object), errors="coerce")
        if as_numbers.notna().all():
            return pd.Series(np.append(as_numbers.to_numpy(dtype=np.float64), np.nan)[codes])
        _refuse_odd_words(name, codes, distinct, as_numbers.notna().to_numpy())
        _refuse_decimal_commas(name, distinct)
    names = pd.Index(distinct, dtype="str" if distinct else object)
    return pd.Series(pd.Categorical.from_codes(codes, categories=names))


def _refuse_odd_words(name: str, codes: Ints, values: Sequence[object], is_number: Any) -> None:
    """Refuses a column of numbers with a few words among them, which are probably mistakes."""
    counts = np.bincount(codes[codes >= 0], minlength=len(values))
    words, total = int(counts[~is_number].sum()), int(counts.sum())
    if 0 < words < total - words:
        odd = np.append(~is_number, False)[codes]  # the code of a gap, -1, is the last
        row = int(odd.argmax())
        raise DataError(
            f"Column '{name}' holds numbers, but row {row} has '{values[codes[row]]}' ({words:,} of"
            f" {total:,} cells are not numbers). Correct them or leave them empty; if all are names"
            " of categories, say so in a domain file or drop the column."
        )


def _refuse_decimal_commas(name: str, words: Iterable[str]) -> None:
    written = [word for word in words if not word.lstrip("+-").isdigit()]
    if all(DECIMAL_COMMA.fullmatch(word) for word in written):
        raise DataError(
            f"Column '{name}' writes numbers with a comma ('{written[0]}'); write them with a"
            " point, as in 3.5."
        )


def _date(name: str, example: str) -> DataError:
    return DataError(
        f"Column '{name}' holds dates or times ({example}); expected numbers or words. Convert it"
        " to a number (a year, an age in days) or drop the column."
    )


# -- columns of pandas -----------------------------------------------------------------------------


def _read_frame(
    table: pd.DataFrame,
    drop: Sequence[str],
    words: Collection[str],
    unusable: dict[str, DataError],
) -> Read:
    named = table.set_axis([str(name) for name in table.columns], axis=1).reset_index(drop=True)
    keep = kept(list(named.columns), drop, what="The table")
    columns = _usable(keep, lambda name: _cleaned(named[name], mixed=name in words), unusable)
    frame = _frame(columns, len(named), unusable)
    categories = frozenset(
        name for name in columns if isinstance(frame[name].dtype, pd.CategoricalDtype)
    )
    return Read(frame, categories, gap_words=_gap_words(named, frame))


def _cleaned(column: pd.Series[Any], *, mixed: bool) -> pd.Series[Any]:
    """Return the column with gaps in place of "?" and similar words; other values stay as they are,
    because the user's model expects them.
    """
    name, kind = str(column.name), column.dtype
    if kind.kind in "mM":
        raise _date(name, str(kind))
    if isinstance(kind, pd.PeriodDtype | pd.IntervalDtype) or kind.kind == "c":
        raise DataError(
            f"Column '{name}' holds {kind}; expected numbers or words. Convert it, or drop the"
            " column."
        )
    if kind.kind in "biuf":
        return column
    try:
        codes, values = pd.factorize(column)
    except TypeError as error:
        raise DataError(
            f"Column '{name}' holds lists or similar values ({error}); expected one number or word"
            " in each cell."
        ) from error
    if dates := [value for value in values if isinstance(value, date | time | np.datetime64)]:
        raise _date(name, str(dates[0]))
    gap = np.array([isinstance(value, str) and value.strip() in GAPS for value in values] + [False])
    if gap.any():
        column = column.mask(gap[codes])
        codes = np.where(gap[codes], -1, codes)
    if isinstance(kind, pd.CategoricalDtype):
        return column.cat.remove_unused_categories() if gap.any() else column
    is_number = [isinstance(each, Number) and not isinstance(each, bool) for each in values]
    if not mixed and any(is_number):
        _refuse_odd_words(name, codes, list(values), np.array(is_number))
    return column.infer_objects()
