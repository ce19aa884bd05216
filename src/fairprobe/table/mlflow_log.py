"""Audits in MLflow: numbers as metrics, what they depend on as parameters, the verdict as a tag,
files as artifacts.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fairprobe.catalogue import MEASURES
from fairprobe.documents.people import SelectionTable
from fairprobe.documents.table import TableRun
from fairprobe.errors import SettingError, StorageError
from fairprobe.findings import Findings
from fairprobe.measures import added_readings
from fairprobe.report import html
from fairprobe.report.formats import shortened
from fairprobe.report.markdown import markdown
from fairprobe.results import encode
from fairprobe.storage import scratch, write_text
from fairprobe.table.groups import lowest_ratio
from fairprobe.table.report import report
from fairprobe.table.words import rule_in_short, status, tolerance, verdict

AT_ONCE = 500  # metrics in one request; stores take at most 1,000
# Characters of an attribute or a prefix: a metric's name may have 250, and a file store makes file
# names of them.
LONGEST_NAME = 60
LONGEST_VALUE = 500  # characters of a parameter or a tag, which every version of MLflow takes
PREFIX = re.compile(rf"(?=.{{1,{LONGEST_NAME}}}$)\w[\w.\- ]*(/\w[\w.\- ]*)*")


def log_to_mlflow(run: TableRun, findings: Findings | None, *, prefix: str = "fairprobe") -> str:
    """Write the audit to the active MLflow run, or to a new one if none is active; return the
    MLflow run's id.

    All names begin with `prefix`, also the folder of the files, so that an MLflow run can hold
    several audits. Without `findings`, which can be large, their table is left out.
    """
    if not PREFIX.fullmatch(prefix):
        raise SettingError(
            f"`prefix` begins the names in MLflow: at most {LONGEST_NAME} letters, digits, '_',"
            f" '-', '.', ' ', in parts that '/' divides; got {prefix!r}."
        )
    mlflow = _mlflow()
    with scratch() as folder:
        tree = report(run)
        write_text(folder / "audit.json", encode(run).decode())
        write_text(folder / "report.html", html.page(tree))
        write_text(folder / "model-card.md", markdown(tree))
        if findings is not None:
            findings.save(folder / "findings.parquet")
        with _reporting(prefix):
            if active := mlflow.active_run():
                return _log(mlflow, active.info.run_id, run, prefix, folder)
            with mlflow.start_run() as started:
                return _log(mlflow, started.info.run_id, run, prefix, folder)


def _mlflow() -> Any:
    try:
        import mlflow
    except ImportError as error:
        raise SettingError(
            'MLflow is not installed. Install it with: pip install "fairprobe[mlflow]"'
        ) from error
    return mlflow


@contextmanager
def _reporting(prefix: str) -> Iterator[None]:
    """Turn errors of MLflow, or of the program that stores its files, into a sentence that says
    what became of the audit.
    """
    try:
        yield
    except Exception as error:
        why = " ".join(str(error).split()).rstrip(".")
        again = (
            " A run keeps the parameters of its first audit: start another run, or give another"
            f" prefix than '{prefix}'."
            if "Changing param values" in why
            else ""
        )
        raise StorageError(
            f"MLflow could not store the audit: {shortened(why, LONGEST_VALUE)}.{again} The audit"
            " itself is as it was; keep it with audit.save(folder)."
        ) from error


def _log(mlflow: Any, run_id: str, run: TableRun, prefix: str, folder: Path) -> str:
    from mlflow.entities import Metric, Param, RunTag

    client, now = mlflow.MlflowClient(), int(time.time() * 1000)
    client.log_batch(
        run_id,
        params=[Param(f"{prefix}/{name}", value) for name, value in _texts(_params(run))],
        tags=[RunTag(f"{prefix}/{name}", value) for name, value in _texts(_tags(run))],
        synchronous=True,
    )
    metrics = [
        Metric(f"{prefix}/{name}", float(value), now, 0) for name, value in _metrics(run).items()
    ]
    for start in range(0, len(metrics), AT_ONCE):
        client.log_batch(run_id, metrics=metrics[start : start + AT_ONCE], synchronous=True)
    client.log_artifacts(run_id, str(folder), prefix)
    return run_id


# -- what is logged --------------------------------------------------------------------------------


def _params(run: TableRun) -> dict[str, Any]:
    """Return what the numbers depend on."""
    search, repair, decision = run.generation, run.repair, run.model.decision
    rule = "" if decision is None else rule_in_short(decision)
    if run.amounts is not None:
        rule = f"tolerance {tolerance(run.amounts.tolerance)}"
    return {
        "dataset": run.dataset,
        "sensitive": ", ".join(run.sensitive),
        "counterparts": run.counterparts.kind,
        "model": run.model.network,
        "decision": rule,
        "method": search.method,
        "variant": search.variant,
        "seed": run.seed,
        "seeds": search.seeds,
        "samples": run.dm_rs.samples,
        "repair": "" if repair is None else repair.name,
        **{f"version_{program}": version for program, version in run.versions.items()},
    }


def _tags(run: TableRun) -> dict[str, Any]:
    repair = run.repair
    outcome = "" if repair is None else "accepted" if repair.accepted else repair.outcome
    return {
        "verdict": verdict(run),
        "status": status(run),
        "created": run.created,
        "repair": outcome,
    }


def _texts(values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Shorten the values that are not empty."""
    for name, value in values.items():
        if text := shortened(str(value), LONGEST_VALUE):
            yield name, text


def _metrics(run: TableRun) -> dict[str, float]:
    """Return the numbers that are defined. Those of groups are named after what divides the people,
    and ΔEO also after the true answer.
    """
    search = run.generation
    numbers: dict[str, float | None] = {
        "tried": search.tried,
        "gsr": search.gsr,
        "spread": search.spread,
        "cells": search.cells,
    }
    for measured, measure in MEASURES.all().items():
        for reading in added_readings(measure, run):
            if not reading.group:
                name = _fresh(measured, numbers)
                numbers |= {
                    name: reading.estimate,
                    f"{name}_low": reading.low,
                    f"{name}_high": reading.high,
                }
    if run.amounts is not None:
        for groups in run.amounts.groups:
            name = _fresh(f"mean_difference_sd/{_allowed(groups.attribute)}", numbers)
            numbers[name] = groups.mean_difference_sd.estimate
    elif run.fairness is not None and (group := run.fairness.group) is not None:
        numbers["selected"] = group.selected.estimate
        numbers |= _of_groups(group.tables)
    return {name: value for name, value in numbers.items() if value is not None}


def _of_groups(tables: list[SelectionTable]) -> dict[str, float | None]:
    numbers: dict[str, float | None] = {}
    for table in tables:
        least, by = lowest_ratio(table), _allowed(table.attribute)
        numbers[_fresh(f"dp/{by}", numbers)] = table.dp.estimate
        numbers[_fresh(f"lowest_impact_ratio/{by}", numbers)] = (
            None if least is None else least.impact_ratio.estimate
        )
        for each in table.eo:
            numbers[_fresh(f"eo/{by}/{_allowed(each.given)}", numbers)] = each.estimate
    return numbers


def _allowed(text: str) -> str:
    """Replace the characters that MLflow does not allow everywhere."""
    return re.sub(r"[^\w.\- ]", "_", text)[:LONGEST_NAME].strip(" .") or "_"


def _fresh(name: str, taken: dict[str, Any]) -> str:
    """Add a number to a name that is taken: two attributes can look alike without the characters
    that MLflow does not allow.
    """
    fresh, number = name, 2
    while fresh in taken:
        fresh, number = f"{name}_{number}", number + 1
    return fresh
