"""`audit.plot()`: a matplotlib figure with the numbers of the report."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import msgspec
import pytest

from fairprobe.documents import TableDocument
from fairprobe.present.notebook import figure
from tests.present.test_report_documents import document


def test_a_plot_has_the_numbers_of_the_document_and_takes_texts_as_they_are() -> None:
    body = document()
    body["people"]["values"][0]["value"] = "$x^$"
    run = msgspec.convert(body, TableDocument, strict=False)
    made = figure(run)
    by_whom, by_value, layers = made.axes
    shares = [run.people.estimate, run.dm_rs.estimate]
    if run.plausible is not None:
        shares.insert(1, run.plausible.affected.estimate)
    bars: Any = by_whom.patches
    assert [bar.get_width() for bar in bars] == pytest.approx([100 * s for s in shares])
    words = [text.get_text() for text in by_value.get_yticklabels()]
    assert sorted(words) == sorted(each.value for each in run.people.values)
    assert run.interpretation is not None
    assert len(layers.lines) == len(run.interpretation.layers) + 1
    file = BytesIO()
    made.savefig(file, format="png")
    assert file.getvalue().startswith(b"\x89PNG")


def test_a_black_box_has_no_layers_to_plot() -> None:
    run = msgspec.convert(document() | {"interpretation": None}, TableDocument, strict=False)
    assert len(figure(run).axes) == 2
