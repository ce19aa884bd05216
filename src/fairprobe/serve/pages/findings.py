"""Findings: a table page by page, histograms, a single pair, a CSV file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse

from fairprobe.documents.table import TableRun
from fairprobe.errors import SettingError
from fairprobe.findings import PHASES
from fairprobe.report.formats import listed
from fairprobe.serve.browse import SORTS, query_of
from fairprobe.serve.desk import Given, answer, fill, is_part, part, run_of
from fairprobe.serve.pages.run import links
from fairprobe.table.affected import pair_block
from fairprobe.table.searched import describe_pair

TITLES = {
    "gap": "Change in probability",
    "probability": "Probability, as is",
    "probability_other": "Probability, with the other value",
    "plausibility": "How usual, as is",
    "plausibility_other": "How usual, with the other value",
}


def show(request: Request) -> Response:
    """Show a page of findings."""
    run, given = run_of(request), request.query_params
    browser = run.browser
    query = query_of(given, browser.findings)
    number = given.get("page", "1")
    page = int(number[:12]) - 1 if number.isascii() and number.isdigit() else 0
    found = browser.page(query, page)
    kept = {key: value for key, value in given.items() if value and key not in ("page", "row")}
    shown = {
        **links(run),
        "active": "runs",
        "document": run.table,
        "domain": run.outline.domain,
        "classes": run.outline.classes,
        "groups": [
            run.outline.domain.describe_value(place)
            for place in range(run.outline.domain.value_count)
        ],
        "found": found,
        "rows": [(row, describe_pair(run.outline, pair)) for row, pair in found.pairs],
        "everything": len(browser),
        "query": query,
        "given": Given(kept),
        "kept": urlencode(kept),
        "filters": urlencode({k: v for k, v in kept.items() if k not in ("sort", "order")}),
        "sorts": {name: TITLES[name] for name in SORTS},
        "phases": PHASES,
        "has_plausibility": run.table.plausible is not None,
    }
    if is_part(request):
        return HTMLResponse(part("findings.html.j2", "list", **shown))
    return answer(request, "findings.html.j2", **shown)


def histograms(request: Request) -> Response:
    """How the findings are spread over each attribute; a part of the page, loaded after it."""
    run = run_of(request)
    query = query_of(request.query_params, run.browser.findings)
    return HTMLResponse(
        fill(
            "histograms.html.j2",
            histograms=run.browser.histograms(query.filters),
            query=query,
            given=dict(request.query_params),
            run=run,
            sensitive=run.outline.domain.sensitive,
        )
    )


def pair(request: Request) -> Response:
    """One finding."""
    run, number = run_of(request), request.query_params.get("row", "")
    if not (number.isascii() and number.isdigit() and len(number) < 18):
        raise SettingError(f"'{number}' is not the number of a finding. Choose one in the table.")
    row, document = int(number), run.document
    assert isinstance(document, TableRun)
    shown = links(run) | {"active": "runs", "row": row}
    return answer(
        request,
        "pair_page.html.j2",
        **shown,
        pair=pair_block(
            document, describe_pair(run.outline, run.browser.pair(row)), f"Finding {row:,}"
        ),
        everything=len(run.browser),
        changing=listed(run.outline.domain.changing),
    )


def download(request: Request) -> Response:
    """Return the findings that the filters keep, as CSV."""
    run = run_of(request)
    query = query_of(request.query_params, run.browser.findings)
    name = f"{PurePosixPath(run.name).name}-findings.csv"

    def lines() -> Iterator[str]:
        yield from run.browser.csv(query.filters)

    return StreamingResponse(
        lines(),
        media_type="text/csv; charset=utf-8",
        headers={"content-disposition": f"attachment; filename*=UTF-8''{quote(name)}"},
    )
