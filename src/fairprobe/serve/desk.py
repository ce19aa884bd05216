"""Shared by all pages: settings, the list of runs, open runs, the queue, and rendering."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from fairprobe.report.html import environment
from fairprobe.serve.index import RunIndex
from fairprobe.serve.jobs import Queue
from fairprobe.serve.opened import OpenRun, OpenRuns
from fairprobe.serve.settings import ServeSettings

ROOM = "fairprobe.serve"
STYLES = ("report.css", "serve.css")
COMMON = {"busy": 0, "active": ""}  # variables of every template
SCRIPTS = ("htmx.min.js", "serve.js")


@dataclass(frozen=True)
class Desk:
    """State that the pages share."""

    settings: ServeSettings
    index: RunIndex
    runs: OpenRuns
    queue: Queue


class Given(dict[str, Any]):
    """Values of an address or a form; anything else is empty."""

    def __missing__(self, key: str) -> str:
        return ""


def desk_of(request: Request) -> Desk:
    """Return the desk of the application."""
    desk: Desk = request.app.state.desk
    return desk


def run_of(request: Request) -> OpenRun:
    """Return the run that the address names."""
    return desk_of(request).runs(request.path_params["name"])


def is_part(request: Request) -> bool:
    """Return True if a page requests a part of itself."""
    return "hx-request" in request.headers


def address(page: str, name: str = "", /, **query: Any) -> str:
    """Return the address of a page, of a run, with a query; what is None is left out."""
    given = {key: value for key, value in query.items() if value is not None}
    path = f"/{page}/{quote(name)}" if name else f"/{page}"
    return f"{path}?{urlencode(given)}" if given else path


def fill(template: str, /, **variables: Any) -> str:
    """Fill in a template of the dashboard."""
    return _templates().get_template(template).render(COMMON | variables)


def part(template: str, block: str, /, **variables: Any) -> str:
    """Fill in one block of a template."""
    found = _templates().get_template(template)
    return "".join(found.blocks[block](found.new_context(COMMON | variables)))


def answer(request: Request, template: str, /, **variables: Any) -> Response:
    """Respond with a page."""
    queue = desk_of(request).queue
    return HTMLResponse(fill(template, busy=queue.busy(), **variables))


@cache
def _templates() -> Environment:
    """Load the templates of the dashboard and of the reports."""
    templates = environment(ROOM)
    templates.globals.update(address=address, assets=_assets())
    return templates


@cache
def asset(name: str) -> tuple[bytes, str]:
    """Return a style sheet or script, and its type."""
    if name == "app.css":
        texts = (environment(ROOM).get_template(each).render() for each in STYLES)
        return "\n".join(texts).encode(), "text/css; charset=utf-8"
    if name not in SCRIPTS:
        raise LookupError(name)
    content = files(ROOM).joinpath("static", name).read_bytes()
    return content, "text/javascript; charset=utf-8"


@cache
def _assets() -> dict[str, str]:
    """Addresses of style sheets and scripts, which change with their content."""
    return {
        name: f"/static/{name}?v={sha256(asset(name)[0]).hexdigest()[:12]}"
        for name in ("app.css", *SCRIPTS)
    }
