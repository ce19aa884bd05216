"""Jobs: the queue, one job with its progress and log, and the wish to cancel it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse

from fairprobe.escapes import printable
from fairprobe.serve.desk import address, answer, desk_of, fill
from fairprobe.serve.jobs import JobView

PAUSE = 0.4  # seconds between two looks at a job
MOST = 200  # jobs in the list
TITLES = {
    "waiting": "Waiting",
    "running": "Running",
    "done": "Done",
    "refused": "Done: not accepted",
    "failed": "Failed",
    "cancelled": "Cancelled",
}


def show(request: Request) -> Response:
    """All jobs."""
    every = desk_of(request).queue.jobs()
    return answer(
        request,
        "jobs.html.j2",
        active="jobs",
        jobs=every[:MOST],
        titles=TITLES,
        cores=desk_of(request).settings.jobs,
    )


def one(request: Request) -> Response:
    """One job."""
    view = _view(request)
    return answer(request, "job.html.j2", active="jobs", **_shown(request, view))


def log(request: Request) -> Response:
    """Return the log as text."""
    text = desk_of(request).queue.log(request.path_params["id"])
    return PlainTextResponse(printable(text))


async def cancel(request: Request) -> Response:
    """End a job."""
    name = request.path_params["id"]
    await run_in_threadpool(desk_of(request).queue.cancel, name)
    return RedirectResponse(address(f"jobs/{name}"), 303)


async def events(request: Request) -> Response:
    """Send the state of a job whenever it changed, until it is over (server-sent events)."""
    await run_in_threadpool(_view, request)

    async def stream() -> AsyncIterator[str]:
        last = ""
        while True:
            view = await run_in_threadpool(_view, request)
            text = fill("job_part.html.j2", **_shown(request, view))
            if text != last:
                yield _event("end" if view.is_over else "progress", text)
                last = text
            if view.is_over:
                return
            await asyncio.sleep(PAUSE)

    return StreamingResponse(stream(), media_type="text/event-stream")


def _view(request: Request) -> JobView:
    return desk_of(request).queue.job(request.path_params["id"])


def _shown(request: Request, view: JobView) -> dict[str, object]:
    text = printable(desk_of(request).queue.log(view.id))
    return {"job": view, "titles": TITLES, "log": text.strip()}


def _event(kind: str, text: str) -> str:
    lines = "".join(f"data: {line}\n" for line in text.splitlines())
    return f"event: {kind}\n{lines}\n"
