"""An audit in MLflow: its numbers as metrics, what they depend on as parameters, its verdict as a
tag, its files as artifacts.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairprobe.catalogue import MEASURES
from fairprobe.documents import (
    ScoresDocument,
    SelectionTable,
    TableDocument,
    encode,
)
from fairprobe.errors import SettingError, StorageError
from fairprobe.measures import added_readings
from fairprobe.report import html
from fairprobe.report.formats import shortened
from fairprobe.report.markdown import markdown
from fairprobe.storage import scratch, write_text
from fairprobe.table.groups import lowest_ratio
from fairprobe.table.report import report
from fairprobe.table.words import rule_in_short, status, tolerance, verdict

if TYPE_CHECKING:
    from fairprobe.audits.scores import ScoreAudit
    from fairprobe.audits.table import Audit

AT_ONCE = 500  # metrics in one request; stores take at most 1,000
# Characters of an attribute or a prefix: a metric's name may have 250, and a file store makes file
# names of them.
LONGEST_NAME = 60
LONGEST_VALUE = 500  # characters of a parameter or a tag, which every version of MLflow takes
PREFIX = re.compile(rf"(?=.{{1,{LONGEST_NAME}}}$)\w[\w.\- ]*(/\w[\w.\- ]*)*")


def log_to_mlflow(
    audit: Audit | ScoreAudit, *, prefix: str = "fairprobe", findings: bool = True
) -> str:
    """Write the audit to the active MLflow run, or to a new one if none is active; return the
    run's id.

    All names begin with `prefix`, also the folder of the files, so that a run can hold several
    audits. `findings` says whether the table of findings, which can be large, goes along.
    """
    if not PREFIX.fullmatch(prefix):
        raise SettingError(
            f"`prefix` begins the names in MLflow: at most {LONGEST_NAME} letters, digits, '_',"
            f" '-', '.', ' ', in parts that '/' divides; got {prefix!r}."
        )
    mlflow, document = _mlflow(), audit.document
    with scratch() as folder:
        _write(audit, document, folder, findings=findings)
        with _reporting(prefix):
            if active := mlflow.active_run():
                return _log(mlflow, active.info.run_id, document, prefix, folder)
            with mlflow.start_run() as run:
                return _log(mlflow, run.info.run_id, document, prefix, folder)


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


def _write(
    audit: Audit | ScoreAudit,
    document: TableDocument | ScoresDocument,
    folder: Path,
    *,
    findings: bool,
) -> None:
    write_text(folder / "audit.json", encode(document).decode())
    tree = report(document)
    write_text(folder / "report.html", html.page(tree))
    write_text(folder / "model-card.md", markdown(tree))
    if findings:
        audit.findings.save(folder / "findings.parquet")


def _log(
    mlflow: Any, run: str, document: TableDocument | ScoresDocument, prefix: str, folder: Path
) -> str:
    from mlflow.entities import Metric, Param, RunTag

    client, now = mlflow.MlflowClient(), int(time.time() * 1000)
    client.log_batch(
        run,
        params=[Param(f"{prefix}/{name}", value) for name, value in _texts(_params(document))],
        tags=[RunTag(f"{prefix}/{name}", value) for name, value in _texts(_tags(document))],
        synchronous=True,
    )
    metrics = [
        Metric(f"{prefix}/{name}", float(value), now, 0)
        for name, value in _metrics(document).items()
    ]
    for start in range(0, len(metrics), AT_ONCE):
        client.log_batch(run, metrics=metrics[start : start + AT_ONCE], synchronous=True)
    client.log_artifacts(run, str(folder), prefix)
    return run


# -- what is logged --------------------------------------------------------------------------------


def _params(document: TableDocument | ScoresDocument) -> dict[str, Any]:
    """What the numbers depend on."""
    found, repair = document.generation, document.repair
    if isinstance(document, ScoresDocument):
        rule = f"tolerance {tolerance(document.tolerance)}"
    else:
        decision = document.model.decision
        rule = "" if decision is None else rule_in_short(decision)
    return {
        "dataset": document.dataset,
        "sensitive": ", ".join(document.sensitive),
        "counterparts": document.counterparts.kind,
        "model": document.model.network,
        "decision": rule,
        "method": found.method,
        "variant": found.variant,
        "seed": document.seed,
        "seeds": found.seeds,
        "samples": document.dm_rs.samples,
        "repair": "" if repair is None else repair.name,
        **{f"version_{program}": version for program, version in document.versions.items()},
    }


def _tags(document: TableDocument | ScoresDocument) -> dict[str, Any]:
    if isinstance(document, ScoresDocument):
        repaired = document.repair
        outcome = "" if repaired is None else repaired.outcome
        is_accepted = repaired is not None and repaired.accepted
    else:
        repair = document.repair
        outcome = "" if repair is None else repair.verdict.outcome
        is_accepted = repair is not None and repair.accepted
    return {
        "verdict": verdict(document),
        "status": status(document),
        "created": document.created,
        "repair": "accepted" if is_accepted else outcome,
    }


def _texts(values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The values that are not empty, as short texts."""
    for name, value in values.items():
        if text := shortened(str(value), LONGEST_VALUE):
            yield name, text


def _metrics(document: TableDocument | ScoresDocument) -> dict[str, float]:
    """The numbers that are defined. Those of groups are named after what divides the people, and
    ΔEO also after the true answer.
    """
    found = document.generation
    numbers: dict[str, float | None] = {
        "tried": found.tried,
        "gsr": found.gsr,
        "spread": found.spread,
        "cells": found.cells,
    }
    for measured, measure in MEASURES.all().items():
        for each in added_readings(measure, document):
            if not each.group:
                name = _fresh(measured, numbers)
                numbers |= {name: each.estimate, f"{name}_low": each.low, f"{name}_high": each.high}
    if isinstance(document, ScoresDocument):
        numbers |= {
            _fresh(f"mean_difference_sd/{_allowed(table.attribute)}", numbers): (
                table.mean_difference_sd.estimate
            )
            for table in document.groups
        }
    elif (group := document.fairness.group) is not None:
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
    """A part of a name with the characters that MLflow allows everywhere."""
    return re.sub(r"[^\w.\- ]", "_", text)[:LONGEST_NAME].strip(" .") or "_"


def _fresh(name: str, taken: dict[str, Any]) -> str:
    """The name, with a number if it is taken: two attributes can look alike without what MLflow
    does not allow.
    """
    fresh, number = name, 2
    while fresh in taken:
        fresh, number = f"{name}_{number}", number + 1
    return fresh
