"""The run of an audit of a table: of classes, or of amounts."""

from __future__ import annotations

from typing import TypeAlias

from fairprobe.documents import ScoresDocument, TableDocument

TableRun: TypeAlias = TableDocument | ScoresDocument
