"""One run: its report inside the dashboard, and its exports."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from fairprobe.documents.table import TableRun
from fairprobe.images.run import ImagesRun
from fairprobe.report import html
from fairprobe.report.markdown import markdown
from fairprobe.results import encode
from fairprobe.scenes.audit import ScenesRun
from fairprobe.serve.desk import answer, desk_of, fill, run_of
from fairprobe.serve.opened import OpenRun
from fairprobe.table.evidence import bias_audit

EXPORTS = {
    "report.html": ("The report in one file", "text/html"),
    "audit.json": ("All numbers as JSON", "application/json"),
    "card.md": ("A section for a model card", "text/markdown"),
    "bias-audit.md": ("The table of a bias audit", "text/markdown"),
}


def show(request: Request) -> Response:
    """Show the report's head. Its sections, which take a moment to draw, are loaded after it."""
    return answer(request, "run.html.j2", **_variables(run_of(request)), lazy=True)


def whole(request: Request) -> Response:
    """Show the whole report inside the dashboard."""
    run = run_of(request)
    made = desk_of(request).runs.kept(
        run, "report", lambda: fill("run.html.j2", **_variables(run), lazy=False)
    )
    return HTMLResponse(made)


def _variables(run: OpenRun) -> dict[str, Any]:
    shown = html.variables(run.report) | links(run)
    return shown | {"active": "runs", "template": html.TEMPLATE}


def links(run: OpenRun) -> dict[str, Any]:
    """Return the variables of links between the pages of a run."""
    is_table = isinstance(run.document, TableRun)
    has_pictures = isinstance(run.document, ImagesRun | ScenesRun)
    return {
        "run": run,
        "is_table": is_table,
        "has_pictures": has_pictures,
        "exports": {name: EXPORTS[name][0] for name in exports_of(run)},
    }


def exports_of(run: OpenRun) -> list[str]:
    """List the files that can be exported."""
    every = list(EXPORTS)
    return every if isinstance(run.document, TableRun) else every[:2]


def export(request: Request) -> Response:
    """Export a file, made from the validated run: what is in the folder under the same name could
    be anything.
    """
    run, name = run_of(request), request.query_params.get("file", "")
    if name not in exports_of(run):
        raise HTTPException(404)
    document = run.document
    if name == "report.html":
        content = html.page(run.report)
    elif name == "audit.json":
        content = encode(document).decode()
    else:
        assert isinstance(document, TableRun)
        content = markdown(run.report if name == "card.md" else bias_audit(document))
    return download(content, f"{PurePosixPath(run.name).name}-{name}", EXPORTS[name][1])


def download(content: str, name: str, kind: str) -> Response:
    """Respond with a file to be saved, never shown in the place of a page."""
    said = f"attachment; filename*=UTF-8''{quote(name)}"
    return Response(content, media_type=kind, headers={"content-disposition": said})
