"""The document of an audit of a table: whatever is wrong with the file, every command that reads it
ends with exit code 2 and one sentence.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import fairprobe as fp
from fairprobe.catalogue import MEASURES
from fairprobe.documents.table import TableRun
from fairprobe.errors import FairprobeError, StorageError
from fairprobe.present import render
from fairprobe.report.markdown import markdown
from fairprobe.report.terminal import terminal
from fairprobe.results import encode, from_dict
from fairprobe.runs.reopen import reopen
from fairprobe.runs.store import read_table_run
from fairprobe.table.report import report
from tests.cli.test_cli import ask
from tests.helpers import reopened
from tests.present.test_report_documents import repaired

Body = dict[str, Any]
CODE = """import numpy as np

def predict(rows):
    chance = np.where(rows[:, 0] + 20 * rows[:, 1] > 50, 0.9, 0.1)
    return np.stack([1 - chance, chance], axis=1)
"""
GIVEN = "--label pay --favorable high --seeds 20 --set local_iterations=5 --samples 200 --quiet"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs of a user's own table: with a network trained here, and with the user's own model."""
    place, rng, n = tmp_path_factory.mktemp("documents"), np.random.default_rng(0), 120
    table = pd.DataFrame(
        {
            "age": rng.integers(18, 70, n),
            "sex": rng.choice(["f", "m"], n),
            "race": rng.choice(["a", "b"], n),
        }
    )
    table["pay"] = np.where(table["age"] + 20 * (table["sex"] == "m") > 50, "high", "low")
    table.to_csv(place / "people.csv", index=False)
    (place / "own.py").write_text(CODE)
    (place / "policy.toml").write_text(
        "[limits]\n" + "".join(f"{name} = 1\n" for name in MEASURES.own)
    )
    for words in (
        f"--sensitive sex,race --model lfcn --out {place / 'trained'}",
        f"--sensitive sex --model {place / 'own.py'}:predict --out {place / 'own'}",
    ):
        answer = ask("audit", place / "people.csv", *GIVEN.split(), *words.split())
        assert answer.code == 0, answer
    return {name: place / name for name in ("trained", "own")}


@pytest.fixture
def run(runs: dict[str, Path]) -> Iterator[Path]:
    """A run whose document may be damaged; it is put right afterwards."""
    whole = (runs["trained"] / "audit.json").read_bytes()
    yield runs["trained"]
    (runs["trained"] / "audit.json").write_bytes(whole)


def body_of(run: Path) -> Body:
    body: Body = json.loads((run / "audit.json").read_text(encoding="utf-8"))
    return body


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


# -- the commands ----------------------------------------------------------------------------------

DAMAGE: dict[str, tuple[Callable[[Body], object], str]] = {
    "a word for a number": (
        lambda body: body["dm_rs"].update(estimate="many"),
        r"$.dm_rs.estimate",
    ),
    "a number for a word": (lambda body: body.update(dataset=7), r"$.dataset"),
    "a list for an object": (lambda body: body.update(people=[]), r"$.people"),
    "nothing for a number": (lambda body: body["people"].update(low=None), r"$.people.low"),
    "a rate of -1": (lambda body: body["dm_rs"].update(estimate=-1), r"$.dm_rs.estimate"),
    "a rate of 2": (lambda body: body["people"].update(high=2), r"$.people.high"),
    "not a number": (lambda body: body["dm_rs"].update(estimate=nan), "not an audit of fairprobe"),
    "infinity": (lambda body: body["dm_rs"].update(high=inf), "not an audit of fairprobe"),
    "a number too large": (
        lambda body: body["interpretation"].update(auc=1.79e308),
        r"$.interpretation.auc",
    ),
    "an interval above its estimate": (
        lambda body: body["dm_rs"].update(low=1.0, estimate=0.5, high=1.0),
        "does not contain the estimate",
    ),
    "an accuracy above its interval": (
        lambda body: body["fairness"]["quality"]["accuracy"].update(
            estimate=1.0, low=0.1, high=0.2
        ),
        "does not contain the estimate",
    ),
    "more hits than samples": (lambda body: body["dm_rs"].update(hits=10**9), "10**9 hits"),
    "a negative count": (lambda body: body["generation"].update(idis=-3), r"$.generation.idis"),
    "a missing field": (lambda body: body.pop("fairness"), "`fairness`"),
    "a missing field deep inside": (
        lambda body: body["fairness"]["individual"]["b"].pop("pairs"),
        r"$.fairness.individual.b",
    ),
    "an unknown field": (lambda body: body["data"].update(surprise=1), "`surprise`"),
    "a class that does not exist": (
        lambda body: body["fairness"].update(positive=2),
        "not one of the 2 classes",
    ),
    "a layer that does not exist": (
        lambda body: body["interpretation"].update(most_biased="attic"),
        "'attic' is not among the layers",
    ),
    "groups without a table": (
        lambda body: body["fairness"]["group"].update(tables=[]),
        r"$.fairness.group.tables",
    ),
    "odds of a class left out": (
        lambda body: body["fairness"]["group"]["tables"][0].update(eo=[]),
        "0 values of ΔEO for 2 classes",
    ),
    "a layer without neurons": (
        lambda body: body["model"]["layers"][0].update(neurons=0),
        r"$.model.layers[0].neurons",
    ),
    "a model of unknown origin": (
        lambda body: body["model"].update(origin={"source": "own.py:predict"}),
        r"$.model.origin",
    ),
    "an old format": (lambda body: body.update(format=1), "written by another version"),
    "a future format": (lambda body: body.update(format=999), "written by another version"),
    "an unknown kind": (lambda body: body.update(kind="smells"), "unknown kind, 'smells'"),
    "an old kind with our format": (lambda body: body.update(kind="images"), "another version"),
}


def refused_by_all(run: Path, reason: str) -> None:
    check = f"check --policy {run.parent / 'policy.toml'}"
    for words in ("show", "show --as json", "show --as card", "show --as bias-audit", check):
        answer = ask(*words.split(), run)
        assert (answer.code, answer.out) == (2, ""), (words, answer)
        assert answer.err.startswith("Error: ")
        assert answer.err.count("\n") == 1
        assert reason in answer.said
        assert "audit again" in answer.said or "unknown kind" in answer.said
    with pytest.raises(StorageError):
        reopen(run)


@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_document_ends_every_command_with_one_sentence(what: str, run: Path) -> None:
    change, reason = DAMAGE[what]
    body = body_of(run)
    change(body)
    (run / "audit.json").write_text(json.dumps(body), encoding="utf-8")
    refused_by_all(run, reason.replace("10**9", str(10**9)))


TEXTS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut in the middle": lambda whole: whole[: len(whole) // 2],
    "cut by a byte": lambda whole: whole.rstrip()[:-1],
    "not UTF-8": lambda whole: whole.replace(b'"created": "', b'"created": "\xff'),
    "half a surrogate": lambda whole: whole.replace(b'"created": "', b'"created": "\\ud800'),
    "nested 10,000 deep": lambda _: nested(10_000).encode(),
    "settings nested 10,000 deep": lambda whole: whole.replace(
        b'"settings": {', b'"settings": {"x": ' + nested(10_000).encode() + b",", 1
    ),
    "a list": lambda whole: b"[" + whole + b"]",
    "two documents": lambda whole: whole + whole,
}


@pytest.mark.parametrize("what", TEXTS)
def test_a_file_that_is_not_whole_ends_every_command_with_one_sentence(
    what: str, run: Path
) -> None:
    file = run / "audit.json"
    file.write_bytes(TEXTS[what](file.read_bytes()))
    refused_by_all(run, "damaged")


def test_settings_are_plain_values(run: Path) -> None:
    whole = (run / "audit.json").read_text(encoding="utf-8")
    text = whole.replace('"settings": {', '"settings": {"x": ' + nested(900) + ",", 1)
    (run / "audit.json").write_text(text.replace(",}", "}"), encoding="utf-8")
    refused_by_all(run, "$.generation.settings")


# -- every field -----------------------------------------------------------------------------------

VALUES: tuple[object, ...] = (
    None,
    "",
    "x",
    -1,
    0,
    2,
    0.5,
    1e300,
    10**30,
    True,
    [],
    {},
    ["x"],
    {"a": 1},
)
REMOVED = object()


def places(node: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The path of every field, with the first entry of each list."""
    if at:
        yield at
    if isinstance(node, dict):
        for name in node:
            yield from places(node[name], (*at, name))
    elif isinstance(node, list) and node:
        yield from places(node[0], (*at, 0))


def changed(body: Body, at: tuple[str | int, ...], value: object) -> Body:
    body = deepcopy(body)
    node: Any = body
    for step in at[:-1]:
        node = node[step]
    if value is REMOVED:
        del node[at[-1]]
    else:
        node[at[-1]] = value
    return body


def read_everywhere(run: Path) -> None:
    document = read_table_run(run)
    Console(file=io.StringIO()).print(terminal(report(document)))
    markdown(report(document))
    encode(document)
    render(document)
    fp.check(document, fp.Policy(limits=dict.fromkeys(MEASURES.own, 1)))


@pytest.mark.parametrize("kind", ["trained", "own", "repaired"])
def test_any_field_may_hold_anything_and_no_reader_breaks(
    kind: str, runs: dict[str, Path], tmp_path: Path
) -> None:
    """A changed document is refused, or it can be read by all; nothing raises anything else. Every
    field is changed to one of the values in turn.
    """
    body = repaired() if kind == "repaired" else body_of(runs[kind])
    values, refused = (*VALUES, REMOVED), 0
    changes = [(at, value) for at in places(body) for value in values]
    for number, (at, value) in enumerate(changes):
        if number % (13 if kind == "repaired" else 7):
            continue
        (tmp_path / "audit.json").write_text(json.dumps(changed(body, at, value)))
        try:
            read_everywhere(tmp_path)
        except FairprobeError:
            refused += 1
        except Exception as error:
            raise AssertionError(f"{at} = {value!r}: {type(error).__name__}: {error}") from error
    assert refused > 100


def test_a_run_with_a_changed_origin_is_reopened_or_refused(runs: dict[str, Path]) -> None:
    run = runs["own"]
    whole = body_of(run)
    data, _ = reopened(run)
    assert len(data) == 120
    for part in ("model", "data"):
        for at in places(whole[part]["origin"]):
            for value in (*VALUES, REMOVED):
                body = deepcopy(whole)
                body[part]["origin"] = changed(whole[part]["origin"], at, value)
                (run / "audit.json").write_text(json.dumps(body))
                try:
                    reopened(run)
                except FairprobeError as error:
                    assert "\n" not in str(error)  # noqa: PT017
    (run / "audit.json").write_text(json.dumps(whole))


def test_no_number_that_the_gate_reads_can_be_impossible(runs: dict[str, Path]) -> None:
    """Whole intervals are altered, so that each still holds its estimate."""
    body, accepted, altered = body_of(runs["trained"]), [], 0
    for at in places(body):
        node: Any = body
        for step in at:
            node = node[step]
        if not isinstance(node, dict) or not node.keys() >= {"estimate", "low", "high"}:
            continue
        for value in (-2.0, *(() if "impact_ratio" in at else (3.0,))):
            impossible = node | dict.fromkeys(("estimate", "low", "high"), value)
            altered += 1
            try:
                from_dict(changed(body, at, impossible), TableRun)
            except FairprobeError:
                continue
            accepted.append(at)
    assert altered > 20
    assert accepted == []
    with pytest.raises(FairprobeError):
        from_dict(changed(body, ("interpretation", "auc"), -1.0), TableRun)
