"""`fairprobe serve`: look at runs in a browser."""

from __future__ import annotations

import os
from pathlib import Path
from secrets import token_urlsafe
from typing import Annotated

import typer

from fairprobe.cli.common import app, output, report_errors
from fairprobe.errors import SettingError
from fairprobe.options import LOOK, RUN, option

PORT, UPLOAD = 8742, 200
MODEL = "The server that is the model of a run, to ask it what if. Repeat it for other runs."
NEEDS = "The dashboard needs more packages. Install them: pip install 'fairprobe[serve]'."


@app.command(rich_help_panel=LOOK)
def serve(
    runs: Annotated[
        Path, typer.Argument(help="The folder whose runs are shown, folders below included.")
    ] = Path("runs"),
    models: Annotated[
        Path | None,
        option(RUN, "A folder with models of your own, to audit and to ask.", metavar="DIR"),
    ] = None,
    model: Annotated[
        list[str] | None,
        option(RUN, MODEL, metavar="RUN=URL", show_default=False),
    ] = None,
    port: Annotated[int, option(RUN, "The port on this machine; 0 for any that is free.")] = PORT,
    jobs: Annotated[
        int | None,
        option(RUN, "How many audits and repairs run at once.", show_default="one a core"),
    ] = None,
    max_upload: Annotated[int, option(RUN, "The largest table to upload, in MB.")] = UPLOAD,
    state: Annotated[
        Path | None,
        option(
            RUN,
            "The folder for the queue and the uploads.",
            show_default="one in your state folder",
            metavar="DIR",
        ),
    ] = None,
) -> None:
    """Show runs in a browser: compare them, look through their findings, ask what if, start audits
    and repairs.

    It answers to this machine only, and only with the token of the address that it prints (or that
    FAIRPROBE_SERVE_TOKEN holds). Ctrl-C ends it; jobs that run go on, and the queue is there again
    at the next start.

    Examples:

      fairprobe serve

      fairprobe serve experiments/runs --models models --port 0

      fairprobe serve --model credit=https://example.com/predict
    """
    with report_errors():
        try:
            from fairprobe.serve.server import serve as serve_runs
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in ("starlette", "uvicorn"):
                raise
            raise SettingError(NEEDS) from error
        from fairprobe.serve.settings import ServeSettings, state_folder

        if runs == Path("runs"):
            runs.mkdir(exist_ok=True)
        settings = ServeSettings(
            runs=runs,
            models=models,
            endpoints=_endpoints(model or [], runs),
            jobs=_cores() if jobs is None else jobs,
            most_upload=max_upload * 10**6,
            state=state or state_folder(runs),
            token=os.environ.get("FAIRPROBE_SERVE_TOKEN") or token_urlsafe(24),
        )
        up: list[str] = []

        def when_up(address: str) -> None:
            up.append(address)
            _tell(address)

        try:
            serve_runs(settings, port=port, when_up=when_up)
        except KeyboardInterrupt:
            if not up:
                raise
            output.print("Stopped. Jobs that run go on.", highlight=False)


def _endpoints(given: list[str], runs: Path) -> dict[str, str]:
    """Return the servers that may be queried, by run. None is contacted yet."""
    from fairprobe.models.formats.endpoint import Endpoint
    from fairprobe.serve.places import find

    found = {}
    for each in given:
        name, _, address = each.partition("=")
        if not address.startswith(("http://", "https://")):
            raise SettingError(
                f"--model is a run and the address of its model, RUN=URL; got '{each}'. Write"
                " --model credit=https://host/predict."
            )
        Endpoint(address)
        find(runs, name)
        found[name] = address
    return found


def _tell(address: str) -> None:
    output.print(f"Open {address}", markup=False, highlight=False, soft_wrap=True)
    output.print("Ctrl-C stops the server.", highlight=False)
    output.file.flush()


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1
