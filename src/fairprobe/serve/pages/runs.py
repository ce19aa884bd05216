"""The list of all runs."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from fairprobe.serve.desk import answer, desk_of, is_part, part
from fairprobe.serve.index import KINDS, SORTS, chosen

PAGE = 50  # runs on a page
COLUMNS = (
    ("name", "Run"),
    ("kind", "Kind"),
    ("result", "Result"),
    ("affected", "Affected"),
    ("findings", "Findings"),
    ("accuracy", "Accuracy"),
    ("created", "Date"),
)


def show(request: Request) -> Response:
    """All runs, those that a search finds, a page at a time."""
    desk, given = desk_of(request), request.query_params
    lines = desk.index.lines()
    sort = given.get("sort", "created")
    descending = given.get("order", "desc") != "asc"
    kind = given.get("kind", "")
    some = chosen(lines, words=given.get("words", ""), kind=kind, sort=sort, descending=descending)
    pages = max(1, -(-len(some) // PAGE))
    number = given.get("page", "1")
    page = min(int(number), pages) if number.isascii() and number.isdigit() and int(number) else 1
    shown = {
        "active": "runs",
        "folder": desk.settings.runs,
        "lines": some[(page - 1) * PAGE : page * PAGE],
        "total": len(lines),
        "matching": len(some),
        "kinds": {key: title for key, title in KINDS.items() if any(x.kind == key for x in lines)},
        "titles": KINDS,
        "columns": COLUMNS,
        "sort": sort if sort in SORTS else "created",
        "descending": descending,
        "words": given.get("words", ""),
        "kind": kind,
        "page": page,
        "pages": pages,
    }
    if is_part(request):
        return HTMLResponse(part("runs.html.j2", "list", **shown))
    return answer(request, "runs.html.j2", **shown)
