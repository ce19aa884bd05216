"""The gate under suspicion: rulings worked out again by plain code, promises simulated, mistakes
made on purpose.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from math import sqrt
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta
from typer.testing import CliRunner

import fairprobe as fp
from fairprobe.arrays import Rows
from fairprobe.cli import app
from fairprobe.cli import check as command
from fairprobe.cli.common import Interrupts
from fairprobe.datasets import Dataset
from fairprobe.documents.table import PairDocument
from fairprobe.errors import SettingError, StorageError
from fairprobe.gate import GateResult, Policy, check, junit, markdown, read_policy, sarif
from fairprobe.gate.more import until_decided
from fairprobe.gate.words import difference, shared, written
from fairprobe.measures import required
from fairprobe.models import Model, TorchModel
from fairprobe.networks import dense
from fairprobe.pytest_plugin import Fairness
from fairprobe.report import Notes
from fairprobe.results import Rate
from fairprobe.table.audit import Audit, streams
from fairprobe.table.groups import groups_section
from fairprobe.table.partial import possible_people, prepare
from fairprobe.table.subject import as_model
from fairprobe.table.words import verdict as verdict_of
from tests.gate.test_gate import document, toy
from tests.helpers import typed

Document = dict[str, Any]
AT_LEAST = ("ifr_b", "ifr_p", "impact_ratio", "accuracy")
GROUPS = ("demographic_parity", "equalized_odds", "impact_ratio")
SHARES = ("dm_rs", "people", "ifr_b", "ifr_p", *GROUPS, "auc", "accuracy")
COMPARED = ("german", "german by two", "three answers")
KINDS = (*COMPARED, "black box", "no favourable")


# -- real runs -------------------------------------------------------------------------------------


def network(data: Dataset, seed: int = 0) -> TorchModel:
    """An untrained network that gives each answer to about half of the people."""
    model = as_model(dense(data.domain, (8,), seed=seed), data)
    assert isinstance(model, TorchModel)
    p = model.probabilities(data.x)
    with torch.no_grad():
        model.module.output.bias[1] -= float(np.median(np.log(p[:, 1] / p[:, 0])))  # type: ignore[union-attr,index,operator]
    return model


@cache
def grades(*, has_favourable: bool) -> Dataset:
    """A table with three answers, and names with commas, of which one is of very few people."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], 600),
            "region": rng.choice(["north", "south, east", "west"], 600, p=[0.5, 0.49, 0.01]),
            "score": rng.integers(0, 20, 600),
        }
    )
    table["grade"] = np.array(["low", "mid", "top"])[
        np.digitize(table["score"] + rng.integers(-3, 4, 600), [6, 13])
    ]
    return fp.datasets.open_table(
        table,
        label="grade",
        sensitive=["sex", "region"],
        favourable="top" if has_favourable else None,
        name="grades",
    )


def grade(x: Rows) -> Rows:
    score = x[:, 2] + 3 * x[:, 0] - x[:, 1]
    logits = np.stack([8.3 - score, np.full(len(x), 1.0), score - 12.4], axis=1)
    p: Rows = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return p


@cache
def real(kind: str, seed: int = 0) -> Audit:
    data = fp.datasets.german()
    budget = fp.Budget(seeds=10, local_iterations=2)
    options: dict[str, Any] = {"method": "random", "budget": budget, "samples": 400, "seed": seed}
    if kind == "german":
        return fp.audit(data, network(data, seed), "gender", **options)
    if kind == "german by two":
        return fp.audit(data, network(data, seed), ["gender", "age"], **options)
    if kind == "black box":
        return fp.audit(data, Model(network(data, seed).probabilities), "gender", **options)
    return fp.audit(
        grades(has_favourable=kind == "three answers"), grade, ["sex", "region"], **options
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    for kind in KINDS:
        for seed in (0, 1) if kind in COMPARED else (0,):
            fp.save(real(kind, seed), folder / kind / str(seed))
    return {kind: folder / kind for kind in KINDS}


# -- each ruling again, from the document, by plain code -------------------------------------------


def numbers(name: str, body: Document) -> list[tuple[str, tuple[float, float, float] | None]]:
    """(whose, (estimate, low, high)) of all that a limit is held against; None where there is
    nothing to hold it against.
    """
    held_out = body["fairness"]
    if name == "auc":
        inside = body["interpretation"]
        return [("", None if inside is None else (inside["auc"],) * 3)]
    if name == "idis":
        return [("", (body["generation"]["idis"],) * 3)]
    if name in GROUPS and held_out["group"] is None:
        return [("", None)]
    entries: list[tuple[str, Document]] = []
    if name in GROUPS:
        for table in held_out["group"]["tables"]:
            by = table["attribute"]
            if name == "demographic_parity":
                entries.append((by, table["dp"]))
            elif name == "demographic_parity_sd":
                entries.append((by, table["dp_sd"]))
            elif name in ("equalized_odds", "equalized_odds_sd"):
                key = "eo_sd" if name.endswith("sd") else "eo"
                entries += [(f"{by} {each['given']}", each) for each in table[key]]
            else:
                rows = [row for row in table["rows"] if not row["is_small"] and not row["is_empty"]]
                entries += [(f"{by} {row['name']}", row["impact_ratio"]) for row in rows]
    else:
        place = {
            "ifr_b": held_out["individual"]["b"],
            "ifr_p": held_out["individual"]["p"],
            "accuracy": held_out["quality"]["accuracy"],
            **held_out["quality"]["scores"],
        }
        entries.append(("", place[name] if name in place else body[name]))
    return [
        (whose, None if e["low"] is None else (e["estimate"], e["low"], e["high"]))
        for whose, e in entries
    ]


def ruled(
    ends: tuple[float, float, float] | None, limit: float, *, at_least: bool, doubt: str
) -> tuple[str, str]:
    """(outcome, decided)"""
    if ends is None:
        return "fail", "fail"
    _, low, high = ends
    if low >= limit if at_least else high <= limit:
        return "pass", "pass"
    if high < limit if at_least else low > limit:
        return "fail", "fail"
    return "uncertain", doubt


def expected(body: Document, limits: dict[str, float], doubt: str) -> list[tuple[str, str, str]]:
    return [
        (name, *ruled(ends, limit, at_least=name in AT_LEAST, doubt=doubt))
        for name, limit in limits.items()
        for _, ends in numbers(name, body)
    ]


def expected_changes(
    body: Document, before: Document, margins: dict[str, float], doubt: str
) -> list[tuple[str, str, str]]:
    found = []
    for name, margin in margins.items():
        old = dict(numbers(name, before))
        for whose, now in numbers(name, body):
            was = old.get(whose)
            ends = None
            if now is not None and was is not None:
                d = now[0] - was[0]
                low = d - sqrt((now[0] - now[1]) ** 2 + (was[2] - was[0]) ** 2)
                ends = (
                    d,
                    round(low, 12),
                    round(d + sqrt((now[2] - now[0]) ** 2 + (was[0] - was[1]) ** 2), 12),
                )
            at_least = name in AT_LEAST
            found.append(
                (
                    f"baseline.{name}",
                    *ruled(ends, -margin if at_least else margin, at_least=at_least, doubt=doubt),
                )
            )
    return found


def told_by(rulings: tuple[Any, ...]) -> list[tuple[str, str, str]]:
    return [(ruling.name, ruling.outcome, ruling.decided) for ruling in rulings]


@st.composite
def policies(draw: st.DrawFn, body: Document) -> dict[str, float]:
    """Limits anywhere, and exactly at the ends of the run's own intervals."""
    limits: dict[str, float] = {}
    for name in draw(st.lists(st.sampled_from([*SHARES, "idis"]), min_size=1, unique=True)):
        own = [
            end for _, ends in numbers(name, body) if ends is not None for end in ends if end <= 1
        ]
        if name == "idis":
            limits[name] = (
                body["generation"]["idis"] + draw(st.integers(-1, 1))
                if body["generation"]["idis"]
                else 0
            )
        else:
            limits[name] = draw(st.sampled_from([0.0, 1.0, 0.5, *own]) | st.floats(0, 1))
    return limits


@settings(max_examples=12)
@given(data=st.data())
@pytest.mark.parametrize("kind", KINDS)
def test_every_ruling_is_what_plain_code_makes_of_the_document_whoever_asks(
    runs: dict[str, Path], fairness: Fairness, kind: str, data: st.DataObject
) -> None:
    run = runs[kind] / "0"
    body = json.loads((run / "audit.json").read_text())
    limits, doubt = data.draw(policies(body)), data.draw(st.sampled_from(["fail", "pass"]))
    path = runs[kind] / "fairness.toml"
    path.write_text(
        "\n".join(
            [
                f'uncertain = "{doubt}"',
                "[limits]",
                *(f"{name} = {limit!r}" for name, limit in limits.items()),
            ]
        )
    )
    wanted = expected(body, limits, doubt)
    passes = all(decided == "pass" for *_, decided in wanted)
    assert told_by(fp.check(run, path).rulings) == wanted
    done = CliRunner().invoke(app, ["check", str(run), "--policy", str(path), "--json"])
    assert done.exit_code == (0 if passes else 1)
    answer = json.loads(done.stdout)
    assert [
        (each["name"], each["outcome"], each["decided"]) for each in answer["rulings"]
    ] == wanted
    assert answer["passed"] == passes
    if passes:
        fairness.assert_policy(run, path)
    else:
        with pytest.raises(AssertionError, match="FAILED"):
            fairness.assert_policy(run, path)


@settings(max_examples=20)
@given(data=st.data())
@pytest.mark.parametrize("kind", COMPARED)
def test_every_change_is_what_plain_code_makes_of_two_documents(
    runs: dict[str, Path], kind: str, data: st.DataObject
) -> None:
    body, before = (json.loads((runs[kind] / seed / "audit.json").read_text()) for seed in "01")
    names = data.draw(st.lists(st.sampled_from(SHARES), min_size=1, unique=True))
    margins = {name: data.draw(st.floats(0, 1)) for name in names}
    doubt: Any = data.draw(st.sampled_from(["fail", "pass"]))
    found = fp.check(
        runs[kind] / "0", Policy(baseline=margins, uncertain=doubt), baseline=runs[kind] / "1"
    ).rulings
    assert told_by(found) == expected_changes(body, before, margins, doubt)


# -- more ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [0.95, 1.0, 1.0001, 1.05])
def test_more_is_wrong_in_at_most_one_of_twenty_around_the_limit(factor: float) -> None:
    limit, runs, most = 0.1, 200, 12_800
    rng = np.random.default_rng(int(1000 * factor))

    def flips(n: int) -> Rate:
        return Rate.of(int(rng.binomial(n, factor * limit)), n)

    wrong = 0
    for _ in range(runs):
        rate, look = until_decided(flips(400), limit, flips, most)
        alpha = 0.05 / (look * (look + 1))
        low = beta.ppf(alpha / 2, rate.hits, rate.samples - rate.hits + 1)
        high = beta.ppf(1 - alpha / 2, rate.hits + 1, rate.samples - rate.hits)
        assert rate.samples == min(400 * 2 ** (look - 1), most)
        assert low > limit or high <= limit or rate.samples == most
        wrong += bool(low > limit if factor <= 1 else high <= limit)
    assert wrong / runs <= 0.05


def test_where_there_is_only_one_look_it_has_the_whole_confidence_of_the_run() -> None:
    """Otherwise "more" would refuse, for want of samples, what "fail" lets pass."""
    body = document()
    body["dm_rs"].update(
        hits=200,
        samples=2000,
        estimate=0.1,
        low=Rate.of(200, 2000).low,
        high=Rate.of(200, 2000).high,
    )
    limits = {"dm_rs": Rate.of(200, 2000).high}
    for uncertain in ("fail", "more"):
        assert check(body, Policy(limits=limits, uncertain=uncertain, most_samples=2000)).passed
    (ruling,) = check(body, Policy(limits=limits, uncertain="more")).rulings
    assert ruling.outcome == "uncertain"


def test_a_run_that_does_not_count_its_people_is_refused_with_a_sentence() -> None:
    body = document()
    del body["dm_rs"]["hits"]
    with pytest.raises(StorageError, match="missing required field `hits`"):
        check(body, Policy(limits={"dm_rs": 0.1}, uncertain="more"))


def test_parts_of_an_audit_are_measured_with_its_own_random_numbers() -> None:
    children = np.random.default_rng(5).spawn(6)
    mine = streams(5)
    assert list(mine) == ["ablation", "domain", "seeds", "search", "people", "single"]
    assert [generator.integers(10**9) for generator in mine.values()] == [
        child.integers(10**9) for child in children
    ]
    audit = real("german", 1)
    body = possible_people(*prepare(audit.data, audit.model, "gender"), samples=400, seed=1)
    assert body.dm_rs is not None
    assert body.dm_rs.hits == audit.run.dm_rs.hits
    assert body.model.network == audit.document.model.network == "dense 8"


# -- baselines and searches that are not alike -----------------------------------------------------


def test_a_baseline_with_another_favourable_answer_is_refused() -> None:
    before = document()
    before["fairness"]["positive"] = 0
    with pytest.raises(
        SettingError, match="its favourable answer is 'refused', that of the run 'hired'"
    ):
        check(document(), Policy(baseline={"impact_ratio": 0.1}), baseline=before)
    before["fairness"].update(positive=None, group=None)
    (ruling,) = check(
        document(), Policy(baseline={"demographic_parity": 1.0}), baseline=before
    ).rulings
    assert ruling.decided == "fail"


@pytest.mark.parametrize("stopped", ["seconds", "interrupted", "wanted"])
def test_searches_that_did_not_end_alike_are_not_compared(stopped: str) -> None:
    now, before = document(), document()
    now["generation"].update(stopped=stopped, idis=0)
    for body, other in ((now, before), (before, now)):
        (ruling,) = check(body, Policy(baseline={"idis": 10**9}), baseline=other).rulings
        assert ruling.decided == "fail"
        assert "did not end alike" in ruling.why


def test_a_damaged_baseline_is_a_sentence() -> None:
    for key in ("data", "fairness"):
        before = document()
        del before[key]
        with pytest.raises(StorageError, match=f"missing required field `{key}`"):
            check(document(), Policy(baseline={"dm_rs": 0.1}), baseline=before)


def test_a_search_that_tried_nobody_proves_nothing() -> None:
    body = document()
    body["generation"].update(tried=0, idis=0, stopped="seconds")
    (ruling,) = check(body, Policy(limits={"idis": 0}, uncertain="pass")).rulings
    assert ruling.decided == "fail"
    assert "tried nobody" in ruling.why


# -- models of which a good number says little -----------------------------------------------------


def test_that_a_model_says_the_same_to_everybody_is_said_with_every_number_it_makes_good() -> None:
    data = toy()
    audit = fp.audit(
        data, lambda x: np.full(len(x), 0.9), "gender", budget=fp.Budget(seeds=5), samples=300
    )
    verdict = check(
        audit,
        Policy(
            limits={
                "dm_rs": 0.05,
                "people": 0.05,
                "demographic_parity": 0.5,
                "idis": 0,
                "accuracy": 0.1,
            }
        ),
    )
    assert verdict.passed
    for ruling in verdict.rulings:
        assert ("gives everybody the same answer" in ruling.why) == (ruling.name != "accuracy")


def test_a_difference_in_which_very_small_groups_count_as_much_says_so() -> None:
    rulings = check(real("three answers"), Policy(limits={"demographic_parity": 1.0})).rulings
    assert ["very few people" in ruling.why for ruling in rulings] == [False, True, True]


# -- words -----------------------------------------------------------------------------------------


def test_a_number_never_looks_like_the_limit_that_it_misses() -> None:
    assert written(0.200001, "number", limit=0.2) == "0.200001"
    assert written(0.01000001, "share", limit=0.01) == "1.000001 %"
    assert written(0.07, "share", limit=0.07) == "7 %"
    assert written(0.0000002, "share") == "0.000020 %"
    body = document()
    body["interpretation"]["auc"] = 0.200001
    (ruling,) = check(body, Policy(limits={"auc": 0.2})).rulings
    assert ruling.why.endswith("is 0.200001; it must be at most 0.2.")


@given(st.floats(0, 1), st.floats(0, 1))
def test_what_is_shown_lies_on_the_side_of_the_limit_where_the_number_lies(
    value: float, limit: float
) -> None:
    shown, mark = (
        float(written(number, "share", limit=limit).removesuffix(" %")) for number in (value, limit)
    )
    if abs(value - limit) > 1e-10:
        assert (shown > mark) == (value > limit)


def test_what_does_not_change_in_a_pair_is_told_as_shared_and_commas_do_not_mislead() -> None:
    pair = PairDocument(
        sensitive={"gender": ("Male", "Male"), "age": ("young", "old")},
        shared={"savings": "unknown, or none", "job": "clerk"},
        label="bad",
        label_other="good",
        favourable=None,
        probability=0.6,
        probability_other=0.7,
        gap=0.3,
        phase="local",
        origin=0,
    )
    assert difference(pair).startswith(
        "Changing only age from young to old changes the answer from “bad” (60.0 %)"
    )
    assert shared(pair) == "gender Male; savings unknown, or none; job clerk"
    many = msgspec.structs.replace(pair, shared={f"a{place}": str(place) for place in range(100)})
    assert shared(many).endswith("a28 28; and 71 attributes more")


def test_sentences_are_sentences() -> None:
    verdict = check(document(), Policy(limits={"ifr_b": 1.0, "ifr_p": 1.0, "idis": 0}))
    starts = [ruling.why.split(" is ")[0] for ruling in verdict.rulings]
    assert starts == [
        "Share of pairs differing only in gender that get the same answer (IFR_b)",
        "Share of pairs differing only in gender that get nearly the same answer (IFR_p)",
        "Number of cases by gender that the search found (IDIs)",
    ]


def test_three_attributes_are_listed_and_only_telling_tables_are_in_the_notes() -> None:
    by = ["gender", "age", "foreign-worker"]
    data = fp.datasets.german()
    body = fp.audit(
        data,
        network(data),
        by,
        method="random",
        budget=fp.Budget(seeds=5, local_iterations=5),
        samples=100,
    ).to_dict()
    assert len(body["fairness"]["group"]["tables"]) == 7
    assert "Changing only gender, age and foreign-worker changes" in verdict_of(typed(body))
    fairness = typed(body).fairness
    blocks = groups_section(typed(body), required(fairness)).content
    (listed,) = [block for block in blocks if isinstance(block, Notes)]
    small = [note for note in listed.items if note.startswith("Small groups by")]
    assert [note.split(",")[0] for note in small] == [
        f"Small groups by {part}" for part in ("age", " and ".join(by))
    ]
    assert re.search(r"the people: (“\w+, \d+–\d+, (yes|no)”(, | and )){6}\d+ more\.", small[-1])
    assert (
        "by gender, age and foreign-worker"
        in check(body, Policy(limits={"dm_rs": 0.0})).rulings[0].what
    )


# -- policies --------------------------------------------------------------------------------------


def test_numbers_of_numpy_are_numbers_and_can_be_written() -> None:
    limits: dict[str, Any] = {"dm_rs": np.float32(0.5), "idis": np.int64(3)}
    policy = Policy(limits=limits, baseline={"auc": np.float64(0.25)})
    assert (
        json.dumps([policy.limits, policy.margins]) == '[{"dm_rs": 0.5, "idis": 3}, {"auc": 0.25}]'
    )
    for wrong in (np.bool_(True), np.float32("nan")):
        with pytest.raises(SettingError, match="number from 0 to 1"):
            Policy(limits={"dm_rs": wrong})  # type: ignore[dict-item]


def test_a_huge_number_and_a_mark_of_windows_at_the_start_are_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "huge.toml").write_text(f"[limits]\nidis = {10**400}\n")
    assert check(document(), read_policy(tmp_path / "huge.toml")).passed
    (tmp_path / "share.toml").write_text(f"[limits]\ndm_rs = {10**400}\n")
    with pytest.raises(SettingError, match="number from 0 to 1"):
        read_policy(tmp_path / "share.toml")
    (tmp_path / "bom.toml").write_bytes(b"\xef\xbb\xbf[limits]\r\nauc = 0.0\r\n")
    found = check(document(), tmp_path / "bom.toml")
    assert (
        json.loads(sarif(found))["runs"][0]["results"][0]["locations"][0]["physicalLocation"][
            "region"
        ]["startLine"]
        == 2
    )


# -- what is written -------------------------------------------------------------------------------


def many(rulings: int, text: str = "impact ratio of somebody by something") -> GateResult:
    one = check(document(), Policy(limits={"dm_rs": 0.0}))
    return replace(
        one,
        rulings=tuple(
            replace(one.rulings[0], what=f"{text} {number}", why=text) for number in range(rulings)
        ),
    )


@pytest.mark.parametrize(
    ("rulings", "text"), [(2000, "impact ratio"), (300, "[x]" * 300), (5, "|" * 50_000)]
)
def test_a_comment_is_never_longer_than_a_code_host_takes(rulings: int, text: str) -> None:
    written = markdown(many(rulings, text))
    assert len(written) < 65_536
    assert written.startswith(f"### ❌ Fairness: FAILED: {rulings:,} of {rulings:,} rules\n")
    assert written.count("<details>") == written.count("</details>")
    assert ("more." in written) == (rulings > 5)


def test_the_counts_of_junit_add_up() -> None:
    found = check(
        real("german by two"), Policy(limits=dict.fromkeys(("dm_rs", *GROUPS, "accuracy"), 0.5))
    )
    root = ElementTree.fromstring(junit(found))
    cases = root.findall("./testsuite/testcase")
    failures = root.findall("./testsuite/testcase/failure")
    for element in (root, root[0]):
        assert (int(element.attrib["tests"]), int(element.attrib["failures"])) == (
            len(cases),
            len(failures),
        )
    assert len(cases) == len(found.rulings) > len(failures) == len(found.failed) > 0


def test_sarif_names_a_file_of_a_repository_from_its_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "ci").mkdir()
    (tmp_path / "fairness.toml").write_text("[limits]\ndm_rs = 0.0\n")
    for here, policy in (("ci", "../fairness.toml"), (".", "fairness.toml")):
        monkeypatch.chdir(tmp_path / here)
        (result,) = json.loads(sarif(check(document(), Path(policy))))["runs"][0]["results"]
        assert (
            result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "fairness.toml"
        )


# -- the command line ------------------------------------------------------------------------------


@pytest.fixture
def given_model(tmp_path: Path) -> list[str]:
    """A model in somebody's own code, and the table to audit it on."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"sex": rng.choice(["f", "m"], 300), "skill": rng.integers(0, 31, 300)})
    table["job"] = np.where(table["skill"] > 15, "hired", "refused")
    table.to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "mine.py").write_text(
        "import numpy as np\n\n\ndef model(x):\n    return 1 / (1 + np.exp(x[:, 1] + 4 * x[:, 0] -"
        " 17.3))\n"
    )
    (tmp_path / "good.toml").write_text("[limits]\ndm_rs = 0.9\n")
    (tmp_path / "bad.toml").write_text("[limits]\ndm_rs = 0.0001\n")
    options = [
        "people.csv",
        "--label",
        "job",
        "--favorable",
        "hired",
        "--sensitive",
        "sex",
        "--samples",
        "500",
        "--time",
        "0.3",
        "--model",
        f"{tmp_path / 'mine.py'}:model",
    ]
    return [
        "audit",
        *(str(tmp_path / word) if word == "people.csv" else word for word in options),
    ]


def ask(*words: str | Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, " ".join(result.stderr.split())


def test_what_cannot_be_written_or_compared_is_told_first(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "good.toml").write_text("[limits]\ndm_rs = 0.9\n")
    for option, value, said in (
        ("--junit", tmp_path / "no" / "x.xml", "Cannot write"),
        ("--sarif", tmp_path, "it is a folder"),
        ("--baseline", tmp_path / "none", "does not say by how much"),
    ):
        policy = ["--policy", str(tmp_path / "good.toml")]
        code, out, err = ask("check", runs["german"] / "0", *policy, option, value)
        assert (code, out) == (2, "")
        assert said in err


def test_a_baseline_that_is_not_there_is_told_before_anything_is_audited(
    given_model: list[str], tmp_path: Path
) -> None:
    (tmp_path / "both.toml").write_text("[baseline]\nrun = 'gone'\ndm_rs = 0.1\n")
    code, _, err = ask(*given_model, "--policy", tmp_path / "both.toml", "--out", tmp_path / "run")
    assert code == 2
    assert "gone is not a run folder" in err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("policy", "code"), [("good", 0), ("bad", 1)])
def test_a_model_is_audited_and_judged_in_one_step(
    given_model: list[str], tmp_path: Path, policy: str, code: int
) -> None:
    rules = tmp_path / f"{policy}.toml"
    done, out, _ = ask(*given_model, "--policy", rules, "--out", tmp_path / "run")
    assert done == code
    assert ("PASSED: 1 rule" in out) == (code == 0)
    assert check(tmp_path / "run", rules).exit_code == code


def test_a_search_that_was_interrupted_is_kept_and_not_judged(
    given_model: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Interrupts, "requests", 0)
    monkeypatch.setattr(Interrupts, "is_raised", False)
    searching: Callable[..., Any] = Interrupts.check.__func__  # type: ignore[attr-defined]

    def check_now(cls: type[Interrupts]) -> None:
        frame = sys._getframe(1)
        if frame.f_locals.get("stage") == "Searching":
            cls.requests = 1
        searching(cls)

    monkeypatch.setattr(Interrupts, "check", classmethod(check_now))
    code, out, err = ask(
        *given_model, "--policy", tmp_path / "good.toml", "--out", tmp_path / "run"
    )
    assert code == 130
    assert "PASSED" not in out
    assert "Interrupted: kept all" in err
    assert (
        json.loads((tmp_path / "run" / "audit.json").read_text())["generation"]["stopped"]
        == "interrupted"
    )


def test_a_file_that_cannot_be_written_after_all_hides_neither_the_verdict_nor_the_others(
    runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "_require_writable", lambda *_: None)
    (tmp_path / "bad.toml").write_text("[limits]\ndm_rs = 0.0\n")
    words = [
        "check",
        str(runs["german"] / "0"),
        "--policy",
        str(tmp_path / "bad.toml"),
        "--junit",
        str(tmp_path / "no" / "x.xml"),
    ]
    code, out, err = ask(*words, "--sarif", tmp_path / "x.sarif", "--json")
    assert code == 2
    assert not json.loads(out)["passed"]
    assert (tmp_path / "x.sarif").exists()
    assert "FAILED: 1 of 1 rule. Cannot write" in err


@pytest.mark.parametrize(
    "option",
    [
        ["--sensitive", "age"],
        ["--out", "x"],
        ["--overwrite"],
        ["--samples", "50000"],
        ["--label", "credit"],
    ],
)
def test_an_option_that_would_be_of_no_effect_on_a_run_is_refused(
    runs: dict[str, Path], tmp_path: Path, option: list[str]
) -> None:
    (tmp_path / "good.toml").write_text("[limits]\naccuracy = 0.0\n")
    code, _, err = ask("check", runs["german"] / "0", "--policy", tmp_path / "good.toml", *option)
    assert code == 2
    assert f"{option[0]} of 'fairprobe check' is now: nothing" in err


# -- the plugin, as it is installed ----------------------------------------------------------------


def run_pytest(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """A suite of its own, with all plugins that are installed."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--strict-markers",
        "--strict-config",
        *options,
    ]
    return subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=120)


@pytest.mark.slow
def test_the_installed_plugin_is_light_gives_way_and_can_be_switched_off(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    (tmp_path / "test_light.py").write_text(
        "import sys\nimport pytest\n\nHEAVY = {'torch', 'numpy', 'pandas', 'scipy', 'rich',"
        " 'typer', 'fairprobe.table.audit', 'fairprobe.gate'}\n\ndef test_light():\n    assert"
        " 'fairprobe.pytest_plugin' in sys.modules\n    assert not HEAVY &"
        " set(sys.modules)\n\n@pytest.fixture\ndef fairness():\n    return"
        " 7\n\n@pytest.mark.fairness\ndef test_clash(fairness):\n    assert fairness == 7\n"
    )
    assert "2 passed" in run_pytest(tmp_path, "-n", "1").stdout
    off = run_pytest(tmp_path, "-p", "no:fairprobe", "-o", "markers=fairness: mine")
    assert "1 failed, 1 passed" in off.stdout  # it is not even imported
