"""Text files of a table: their encoding, separator and column names, found before the table is
read.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.csv

from fairprobe.errors import DataError
from fairprobe.storage import check_unpacked

# Words for a gap: those of pandas, and "?".
GAPS = ("", *["?", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "null", "NULL", "None", "<NA>"])
SEPARATORS = (",", ";", "\t", "|")
SAMPLE = 1 << 18  # bytes read to find the separator
LINES = 100  # of the sample that must have the same number of cells
CHUNK = 1 << 22
LONGEST_LINE = 1 << 24  # bytes
MOST_DICTIONARY = 100_000  # words of a block; a larger dictionary saves no memory
GZIP, ZIP = b"\x1f\x8b", b"PK\x03\x04"
UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True)
class TextFile:
    """File that was scanned: UTF-8 without a zero byte, a header of `header_lines` lines with
    `names` between `separator`s.
    """

    path: Path
    separator: str
    names: list[str]
    header_lines: int
    sha256: str
    odd_quotes: bool

    @classmethod
    def scan(cls, path: Path) -> TextFile:
        """Read the whole file once, for its digest and to refuse bytes that are not text."""
        sha256, quotes, sample = _scan(path)
        text = sample.decode("utf-8-sig", errors="ignore")
        if not text.strip():
            raise DataError(
                f"{path} is empty. Expected a line with the column names, then one line for each"
                " row."
            )
        separator = _separator(text)
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
        try:
            header = next(record for record in reader if record)
        except csv.Error as error:
            raise DataError(
                f"The header of {path} cannot be read ({error}). Expected a line with the column"
                " names."
            ) from error
        names = [name.strip() for name in header]
        return cls(path, separator, names, reader.line_num, sha256, odd_quotes=quotes % 2 == 1)

    def arrow(self, columns: Sequence[str]) -> Any:
        """Return the chosen columns as an Arrow table, words as dictionaries."""
        reading = pa.csv.ReadOptions(column_names=self.names, skip_rows=self.header_lines)
        parsing = pa.csv.ParseOptions(delimiter=self.separator, newlines_in_values=True)
        converting = pa.csv.ConvertOptions(
            include_columns=list(columns),
            null_values=list(GAPS),
            strings_can_be_null=True,
            true_values=["true", "True", "TRUE"],
            false_values=["false", "False", "FALSE"],
            auto_dict_encode=True,
            auto_dict_max_cardinality=MOST_DICTIONARY,
        )
        with _stream(self.path) as stream:
            try:
                table = pa.csv.read_csv(stream, reading, parsing, converting)
            except pa.ArrowInvalid as error:
                if "Empty CSV" in str(error):
                    raise DataError(f"{self.path} has column names and no rows.") from error
                self._refuse_ragged()
                reason = str(error).partition("\n")[0].rstrip(".")
                raise DataError(
                    f"{self.path} cannot be read as a table: {reason[:200]}."
                ) from error
        if table.num_rows == 0:
            raise DataError(f"{self.path} has column names and no rows.")
        if self.odd_quotes:
            self._refuse_open_quote()
        return table

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """Each row as text, with the line where it begins."""
        with _stream(self.path) as stream:
            text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
            reader = csv.reader(text, delimiter=self.separator)
            begins = 1
            try:
                for record in reader:
                    if record and begins > self.header_lines:
                        yield begins, record
                    begins = reader.line_num + 1
            except csv.Error as error:
                raise DataError(f"Line {begins} of {self.path} cannot be read: {error}.") from error

    def _refuse_ragged(self) -> None:
        """Names the first row that is longer or shorter than the header."""
        for line, record in self._records():
            if len(record) != len(self.names):
                raise DataError(
                    f"Line {line} of {self.path} has {len(record)} cells; the header has"
                    f" {len(self.names)} columns. Add or remove cells, or put cells that hold the"
                    " separator in quotation marks."
                )

    def _refuse_open_quote(self) -> None:
        """Refuses an unclosed quotation mark, which would swallow all lines after it."""
        line, last = 0, [""]
        for line, last in self._records():  # noqa: B007
            pass
        if "\n" in last[-1]:
            raise DataError(
                f"Line {line} of {self.path} opens a quotation mark that is not closed. Close it or"
                " remove it."
            )


def _separator(text: str) -> str:
    """Return the separator with which the first lines have the same and greatest number of cells;
    if there is none, the one with which the header has the most.
    """
    best = (False, 0, ",")
    for separator in SEPARATORS:
        try:
            reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
            widths = [len(record) for record in islice(reader, LINES) if record]
        except csv.Error:
            continue
        agreed = len(set(widths)) == 1 and widths[0] > 1
        if (agreed, widths[0]) > best[:2]:
            best = (agreed, widths[0], separator)
    return best[2]


def _scan(path: Path) -> tuple[str, int, bytes]:
    """Return the file's SHA-256, the number of quotation marks in its text, and the start of the
    text.
    """
    with path.open("rb") as file:
        first = file.read(4)
        file.seek(0)
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    if first.startswith(ZIP):
        raise DataError(
            f"{path} is a ZIP archive or a spreadsheet; expected CSV or Parquet. Unpack it, or save"
            " the sheet as CSV."
        )
    if first.startswith(UTF16):
        raise DataError(f"{path} is written in UTF-16; expected UTF-8. Save it again as UTF-8.")
    decoder = codecs.getincrementaldecoder("utf-8")()
    quotes, lines, sample = 0, 1, b""
    size, line_begins = 0, 0  # bytes
    with _stream(path) as stream:
        while chunk := stream.read(CHUNK):
            line_end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1
            line_begins = size + line_end if line_end else line_begins
            size += len(chunk)
            check_unpacked(path, size)
            if size - line_begins > LONGEST_LINE:
                raise DataError(
                    f"{path} has a line of more than {LONGEST_LINE // 2**20} MiB; expected one line"
                    " for each row."
                )
            sample = sample or chunk[:SAMPLE]
            if b"\0" in chunk:
                raise DataError(
                    f"{path} is not text (it holds a zero byte); expected CSV or Parquet."
                )
            try:
                decoder.decode(chunk)
            except UnicodeDecodeError as error:
                line = lines + error.object.count(b"\n", 0, error.start)
                byte = error.object[error.start]
                raise DataError(
                    f"{path} is not UTF-8 (line {line} holds the byte 0x{byte:02x}). Save it as"
                    f" UTF-8; from Latin-1: iconv -f latin1 -t utf-8 {path.name} > utf8.csv."
                ) from error
            quotes += chunk.count(b'"')
            lines += chunk.count(b"\n")
    whole_lines = sample[: sample.rfind(b"\n") + 1] if len(sample) == SAMPLE else sample
    return sha256, quotes, whole_lines or sample


@contextmanager
def _stream(path: Path) -> Iterator[BinaryIO]:
    """Return the file's bytes, unpacked if it is in gzip."""
    with path.open("rb") as file:
        packed = file.read(2) == GZIP
    with gzip.open(path) if packed else path.open("rb") as stream:
        try:
            yield cast("BinaryIO", stream)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DataError(
                f"{path} is not a complete gzip file ({error}). Check that it was copied"
                " completely."
            ) from error
