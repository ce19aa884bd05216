"""Reading the document of any run: which kinds there are, and which format each has.

A new kind of run adds its document to `RunDocument` and `KINDS`; `read_run`, `fairprobe show` and
the run folder then know it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from fairprobe.documents import images, names, scenes, table, text
from fairprobe.documents.base import decode, header_of
from fairprobe.documents.files import file_in, read_bytes
from fairprobe.documents.images import ImagesDocument
from fairprobe.documents.names import NamesDocument
from fairprobe.documents.scenes import ScenesDocument
from fairprobe.documents.scores import ScoresDocument
from fairprobe.documents.table import TableDocument
from fairprobe.documents.text import TextDocument
from fairprobe.errors import StorageError, suggest
from fairprobe.storage import restore

AUDIT = "audit.json"  # the file of a run folder that holds its document

RunDocument: TypeAlias = (
    TableDocument | ImagesDocument | ScenesDocument | ScoresDocument | TextDocument | NamesDocument
)
KINDS: dict[str, tuple[int, type[RunDocument]]] = {
    "table": (table.FORMAT, TableDocument),
    "images": (images.FORMAT, ImagesDocument),
    "scenes": (scenes.FORMAT, ScenesDocument),
    "text": (text.FORMAT, TextDocument),
    "names": (names.FORMAT, NamesDocument),
    "scores": (table.FORMAT, ScoresDocument),
}


def read_run(folder: Path | str, *, what: str = "run") -> RunDocument:
    """Read and validate the document of a run folder; messages call it a `what`."""
    path = Path(folder) / AUDIT
    try:
        restore(Path(folder))
        data = read_bytes(file_in(folder, AUDIT))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise StorageError(
            f"{folder} is not a run folder: it has no {AUDIT}. `fairprobe audit`, `repair`,"
            " `audit-images`, `audit-text`, `names` and `scenes` write run folders."
        ) from error
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(f"Cannot read {path}: {error.strerror}. Run the audit again.") from error
    header = header_of(data, name=str(path))
    if header.kind not in KINDS:
        raise StorageError(
            f"The {what} {folder} is of an unknown kind, '{header.kind}'."
            f"{suggest(header.kind, KINDS)}"
        )
    wanted, kind = KINDS[header.kind]
    if header.format != wanted:
        raise StorageError(
            f"The {what} {folder} was written by another version of fairprobe (its {AUDIT} has"
            f" format {header.format}, this version reads {wanted}). Run the audit again."
        )
    return decode(data, kind, name=str(path))


def read_measured_run(
    folder: Path | str, *, what: str = "run"
) -> TableDocument | ScoresDocument | TextDocument | NamesDocument:
    """Read the document of a run that the gate can judge: of a table, of texts or of names."""
    document = read_run(folder, what=what)
    if not isinstance(document, TableDocument | ScoresDocument | TextDocument | NamesDocument):
        raise StorageError(
            f"The {what} {folder} is an audit of {document.kind}. Name one of a table, texts or"
            " names, as `fairprobe audit`, `audit-text` and `names` write it."
        )
    return document


def read_table_run(folder: Path | str, *, what: str = "run") -> TableDocument:
    """Read the document of a run that must be an audit of a table."""
    return _table(read_run(folder, what=what), folder, what)


def read_repairable_run(folder: Path | str, *, what: str = "run") -> TableDocument | ScoresDocument:
    """Read the document of a run that must be an audit of a table, of classes or of amounts."""
    document = read_run(folder, what=what)
    return document if isinstance(document, ScoresDocument) else _table(document, folder, what)


def _table(document: RunDocument, folder: Path | str, what: str) -> TableDocument:
    if not isinstance(document, TableDocument):
        raise StorageError(
            f"The {what} {folder} is an audit of {document.kind}. Name one of a table, as"
            " `fairprobe audit` writes it."
        )
    return document
