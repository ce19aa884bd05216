"""The table of models in the documentation: every line is run."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairprobe.models import one_thread
from tests.model_matrix import CELLS, PAGE, lines, run


def test_the_page_has_a_line_for_every_cell() -> None:
    shown = [line.split(" | ")[:2] for line in PAGE.read_text("utf-8").splitlines() if "| " in line]
    assert [[f"| {kind}", form] for kind, form in CELLS] == shown[2:]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("cell", CELLS, ids=" as ".join)
def test_every_line_of_the_matrix_is_true(cell: tuple[str, str], tmp_path: Path) -> None:
    with one_thread():
        row = lines([run(cell, tmp_path)])[-1]
    assert row in PAGE.read_text("utf-8").splitlines()
