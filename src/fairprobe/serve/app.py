"""The application: which address is which page, and how errors are answered."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fairprobe.errors import FairprobeError
from fairprobe.serve.desk import Desk, answer, asset, fill, is_part
from fairprobe.serve.guard import Guard, TooLargeError
from fairprobe.serve.index import RunIndex
from fairprobe.serve.jobs import Queue
from fairprobe.serve.opened import OpenRuns
from fairprobe.serve.pages import compare, findings, jobs, pictures, run, runs, start, what_if
from fairprobe.serve.places import NotServedError
from fairprobe.serve.settings import ServeSettings

ROUTES = [
    Route("/", runs.show),
    Route("/run/{name:path}", run.show),
    Route("/report/{name:path}", run.whole),
    Route("/export/{name:path}", run.export),
    Route("/findings/{name:path}", findings.show),
    Route("/histograms/{name:path}", findings.histograms),
    Route("/pair/{name:path}", findings.pair),
    Route("/csv/{name:path}", findings.download),
    Route("/what-if/{name:path}", what_if.show),
    Route("/person/{name:path}", what_if.pick),
    Route("/flip/{name:path}", what_if.flip),
    Route("/pictures/{name:path}", pictures.show),
    Route("/picture/{name:path}", pictures.picture),
    Route("/compare", compare.show),
    Route("/start", start.show),
    Route("/start", start.begin, methods=["POST"]),
    Route("/upload", start.upload, methods=["POST"]),
    Route("/repair/{name:path}", start.show_repair),
    Route("/repair/{name:path}", start.begin_repair, methods=["POST"]),
    Route("/jobs", jobs.show),
    Route("/jobs/{id}", jobs.one),
    Route("/jobs/{id}/log", jobs.log),
    Route("/jobs/{id}/events", jobs.events),
    Route("/jobs/{id}/cancel", jobs.cancel, methods=["POST"]),
]


def application(settings: ServeSettings) -> Starlette:
    """Build the dashboard as an ASGI application. Its queue starts jobs while somebody runs it
    (`Queue.running`).
    """
    app = Starlette(
        routes=[*ROUTES, Route("/static/{file}", static)],
        middleware=[Middleware(Guard, token=settings.token, most_upload=settings.most_upload)],
        exception_handlers={
            FairprobeError: _mistake,
            HTTPException: _not_here,
            Exception: _bug,
        },
    )
    app.state.desk = Desk(settings, RunIndex(settings), OpenRuns(settings), Queue(settings))
    return app


def static(request: Request) -> Response:
    """Serve a style sheet or a script. Its address changes with its content."""
    try:
        content, kind = asset(request.path_params["file"])
    except LookupError:
        raise HTTPException(404) from None
    return Response(content, media_type=kind, headers={"cache-control": "private, max-age=604800"})


def _mistake(request: Request, error: Exception) -> Response:
    """Answer with a sentence about what is wrong."""
    return _error(request, 404 if isinstance(error, NotServedError) else 400, str(error))


def _not_here(request: Request, error: Exception) -> Response:
    code = error.status_code if isinstance(error, HTTPException) else 500
    why = {404: "There is no such page. Go back to the list of runs."}
    detail = error.detail if isinstance(error, HTTPException) else ""
    return _error(request, code, why.get(code, f"{detail}."))


def _bug(request: Request, error: Exception) -> Response:
    if isinstance(error, TooLargeError):
        raise error
    return _error(
        request,
        500,
        "Something went wrong that nobody expected. The terminal in which the server runs shows"
        " what; please report it.",
    )


def _error(request: Request, code: int, why: str) -> Response:
    if is_part(request):
        return Response(fill("error_part.html.j2", why=why), code, media_type="text/html")
    page = answer(request, "error.html.j2", why=why, code=code)
    page.status_code = code
    return page
