"""Runs of texts and names in the dashboard: a line, a page, exports; pages of tables refuse."""

from __future__ import annotations

from pathlib import Path

from starlette.testclient import TestClient

from fairprobe.language.names import audit_names
from fairprobe.language.text import audit_text
from fairprobe.serve.app import application
from fairprobe.serve.settings import ServeSettings
from tests.language.test_text import TEXTS, harsh
from tests.serve.conftest import ADDRESS, TOKEN


def test_a_run_of_texts_has_a_line_a_page_and_exports(
    tmp_path: Path,
) -> None:
    runs = tmp_path / "runs"
    audit_text(TEXTS, harsh, "orientation", classes=["fine", "toxic"]).save(runs / "letters")
    audit_names(lambda texts: [0.5] * len(texts)).save(runs / "names")
    settings = ServeSettings(runs=runs, state=tmp_path / "state", token=TOKEN)
    with TestClient(application(settings), base_url=ADDRESS) as client:
        client.get(f"/?token={TOKEN}")
        assert '<td data-title="Kind">Text</td>' in client.get("/").text
        assert '<td data-title="Kind">Names</td>' in client.get("/").text
        for run in ("letters", "names"):
            for page in (f"run/{run}", f"report/{run}", f"export/{run}?file=audit.json"):
                assert client.get(f"/{page}").status_code == 200, page
            for page in ("findings", "what-if", "pictures"):
                assert client.get(f"/{page}/{run}").status_code == 400, page
