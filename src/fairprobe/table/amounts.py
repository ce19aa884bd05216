"""The kind of a run whose answers are amounts."""

from __future__ import annotations

from dataclasses import replace

from fairprobe.documents import ScoresDocument
from fairprobe.table import report

KIND = replace(report.KIND, name="scores", title="amounts", run=ScoresDocument)
