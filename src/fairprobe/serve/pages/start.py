"""Start an audit of a packaged data set or an uploaded table, or a repair of a run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import PurePosixPath
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from fairprobe import datasets
from fairprobe.catalogue import REPAIRS
from fairprobe.errors import SettingError, suggest
from fairprobe.options import AUDIT_FORM, REPAIR_FORM, TRAINED, Field
from fairprobe.serve.desk import Desk, Given, address, answer, desk_of, run_of
from fairprobe.serve.jobs import NAME, AuditJob, RepairJob
from fairprobe.serve.opened import models_in
from fairprobe.serve.pages.run import links
from fairprobe.serve.uploads import columns_of, keep, upload_of, upload_with, uploads

AT_ONCE = 2**20  # bytes


def show(request: Request) -> Response:
    """Show what can be audited; and, once that is chosen, how."""
    desk, given = desk_of(request), request.query_params
    chosen = Given()
    if key := given.get("table", ""):
        table = upload_of(desk.settings, key)
        chosen = Given(
            table=table.key,
            title=table.name,
            columns=columns_of(table.path),
            name=table.name.split(".")[0],
        )
    elif name := given.get("data", ""):
        entry = datasets.find(name)
        domain = datasets.load(name).domain
        chosen = Given(
            data=name,
            title=entry.title,
            about=entry.card.about,
            attributes=[each.name for each in domain.attributes if each.size is not None],
            protected=entry.protected,
            name=name,
        )
    return answer(
        request,
        "start.html.j2",
        active="start",
        entries=datasets.catalogue(),
        uploads=uploads(desk.settings),
        most=desk.settings.most_upload // 10**6,
        chosen=chosen,
        networks=TRAINED,
        fields=AUDIT_FORM.values(),
        models=models_in(desk.settings),
        folder=desk.settings.models,
    )


async def upload(request: Request) -> Response:
    """Take a table."""
    async with request.form(max_files=1, max_fields=2) as form:
        file = form.get("table")
        if not isinstance(file, UploadFile) or not file.filename:
            raise SettingError("No file was chosen. Choose a CSV or Parquet file.")

        async def parts() -> AsyncIterator[bytes]:
            while part := await file.read(AT_ONCE):
                yield part

        kept = await keep(desk_of(request).settings, file.filename, parts())
    return RedirectResponse(address("start", table=kept.key), 303)


async def begin(request: Request) -> Response:
    """Put an audit into the queue."""
    async with request.form(max_files=0, max_fields=200) as form:
        name = await run_in_threadpool(_add_audit, desk_of(request), form)
    return RedirectResponse(address(f"jobs/{name}"), 303)


def _add_audit(desk: Desk, form: FormData) -> str:
    settings = desk.settings
    given = {key: value for key, value in form.items() if isinstance(value, str)}
    sensitive = [value for value in form.getlist("sensitive") if isinstance(value, str)]
    table, model = given.get("table", ""), given.get("model", "auto")
    encoder = given.get("encoder", "") if model not in TRAINED else ""
    if table:
        known = [column.name for column in columns_of(upload_of(settings, table).path)]
        label = _among(given.get("label", ""), known, "column to predict")
        title = f"{PurePosixPath(table).name}, by {', '.join(sensitive)}"
    else:
        data = _among(given.get("data", ""), datasets.names(), "data set")
        known, label = list(datasets.load(data).domain.names), ""
        title = f"{datasets.find(data).title}, by {', '.join(sensitive)}"
    if not sensitive:
        raise SettingError("Which attribute is sensitive? Tick at least one.")
    for each in sensitive:
        _among(each, known, "sensitive attribute")
        if "," in each:
            raise SettingError(f"The column '{each}' has a comma in its name. Rename it.")
    files = [path.name for path in models_in(settings)]
    _among(model, [*TRAINED, *files], "model")
    _among(encoder, ["", *files], "encoder")
    return desk.queue.add(
        AuditJob(
            out=_name(given.get("name", "")),
            title=title,
            dataset="" if table else data,
            table=table,
            label=label,
            favorable=given.get("favorable", "") if table else "",
            sensitive=sensitive,
            model=model,
            encoder=encoder,
            options=_options(given, AUDIT_FORM),
        )
    )


def show_repair(request: Request) -> Response:
    """How a run can be repaired."""
    run = run_of(request)
    return answer(
        request,
        "repair_page.html.j2",
        **links(run),
        active="runs",
        document=run.table,
        repairs=REPAIRS.all(),
        fields=REPAIR_FORM.values(),
        needs_table=run.table.data.origin is not None
        and upload_with(run.settings, run.table.data.origin.sha256) is None,
    )


async def begin_repair(request: Request) -> Response:
    """Put a repair into the queue."""
    async with request.form(max_files=0, max_fields=20) as form:
        name = await run_in_threadpool(_add_repair, request, form)
    return RedirectResponse(address(f"jobs/{name}"), 303)


def _add_repair(request: Request, form: FormData) -> str:
    run = run_of(request)
    given = {key: value for key, value in form.items() if isinstance(value, str)}
    how = _among(given.get("repair", ""), REPAIRS, "repair")
    origin = run.table.data.origin
    table = None if origin is None else upload_with(run.settings, origin.sha256)
    if origin is not None and table is None:
        raise SettingError(
            "The table of this run is your own. Upload the same file on the page Start first."
        )
    if run.is_endpoint:
        raise SettingError(
            "The model of this run is a server, so there are no weights to repair. What stands"
            " behind it can be repaired on the command line: fairprobe repair --help."
        )
    named = {} if run.model_origin is None else run.own_model()
    own: dict[str, Any] = {
        name: PurePosixPath(named[key] or "").name if named else ""
        for name, key in (("model", "source"), ("encoder", "encoder"), ("weights", "weights"))
    }
    if named:
        own |= {name: named[name] for name in ("inputs", "outputs", "blind_to")}
        own["classes"] = named["classes"] or []
    return desk_of(request).queue.add(
        RepairJob(
            out=_name(given.get("name", "")),
            title=f"{REPAIRS[how].title}: {run.name}",
            run=run.name,
            table="" if table is None else table.key,
            **own,
            repair=how,
            options=_options(given, REPAIR_FORM),
        )
    )


# -- what may be given -----------------------------------------------------------------------------


def _among(given: str, known: Any, what: str) -> str:
    if given not in known:
        raise SettingError(f"There is no {what} '{given[:80]}'.{suggest(given[:80], known)}")
    return given


def _name(given: str) -> str:
    name = given.strip()
    if not NAME.fullmatch(name):
        raise SettingError(
            f"'{name[:80]}' cannot be the name of a run. Use letters, digits, spaces, points and"
            " hyphens, a letter or digit first, at most 80."
        )
    return name


def _options(given: dict[str, str], fields: dict[str, Field]) -> dict[str, str | int | float]:
    """Read the options of a form; what was left empty keeps its default."""
    read = {name: field.read(given.get(name, "").strip()) for name, field in fields.items()}
    return {name: value for name, value in read.items() if value is not None}
