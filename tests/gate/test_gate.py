"""The gate: verdicts at and around every threshold, what is missing, what changed, and one decision
for everybody who asks.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from math import inf, nan, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from typer.testing import CliRunner

import fairprobe as fp
from fairprobe.catalogue import MEASURES
from fairprobe.cli import app
from fairprobe.datasets import Dataset
from fairprobe.errors import SettingError, StorageError
from fairprobe.gate import Policy, Ruling, check
from fairprobe.gate.ruling import side
from fairprobe.measures import required
from fairprobe.models import Model, TorchModel
from fairprobe.pytest_plugin import Fairness
from fairprobe.schema.domain import Attribute, Domain
from fairprobe.statistics.rates import newcombe
from fairprobe.table.audit import Audit
from tests.helpers import planted

Document = dict[str, Any]
ATTRIBUTES = (
    Attribute(name="skill", low=0, high=30),
    Attribute(name="gender", kind="categorical", categories=("female", "male")),
    Attribute(name="race", kind="categorical", categories=("a", "b", "c", "d")),
)
CUT = 15.25
COUNTERPARTS = ("dm_rs", "people", "plausible_people", "ifr_b", "ifr_p", "proved_people")
CHAT = "leaning"  # a measure of chat endpoints alone
AMOUNTS = ("change", "change_sd", "change_p90", "scoring_ratio", "mean_difference", "r2")
TABLES = [
    name
    for name, measure in MEASURES.all().items()
    if measure.of == "table" and name not in (CHAT, *AMOUNTS)
]
LOOSEST: dict[str, float] = {
    name: 1 if MEASURES[name].direction == "at most" else 0 for name in TABLES
}  # what every number keeps to


def toy(*sensitive: str, name: str = "toy", n: int = 400) -> Dataset:
    """Nobody is of race "d", and one in a hundred of race "c"."""
    domain = Domain(ATTRIBUTES, sensitive=sensitive or ("gender",))
    x = domain.sample(n, rng=np.random.default_rng(5))
    x[:, 2] = np.where(np.arange(n) % 100 == 0, 2, x[:, 2] % 2)
    y = (x[:, 0] > CUT).astype(np.int64)
    return Dataset(
        name=name, domain=domain, x=x, y=y, label="job", classes=("refused", "hired"), favourable=1
    )


@cache
def audit_of(*sensitive: str, bias: float = 4) -> Audit:
    data = toy(*sensitive)
    model = TorchModel(planted(data.domain, bias=bias, cut=CUT))
    budget = fp.Budget(seeds=40, local_iterations=5)
    return fp.audit(data, model, list(data.domain.sensitive), budget=budget, samples=2000)


def document(*sensitive: str) -> Document:
    return deepcopy(_document(*sensitive))


@cache
def _document(*sensitive: str) -> Document:
    """All people of the toy are in the data, so nobody new is plausible; their rate stands in."""
    body = audit_of(*sensitive).to_dict()
    assert body["plausible"] is None
    rate = {name: body["people"][name] for name in body["dm_rs"]}
    alike = {"auc": None, "compared": 0, "distance": None, "distance_of_held_out": None}
    made = {"affected": rate, "records": 80, "limit": 0.05, "resemblance": alike}
    found = certified(*sensitive)
    made |= {"findings": None}
    return body | {"plausible": made, "no_plausible": "", "certificate": found}


@cache
def certified(*sensitive: str) -> Document:
    names = sensitive or ("gender",)
    return fp.certify(toy(*sensitive), audit_of(*sensitive).model, names, seconds=1).to_dict()


def entries(name: str, body: Document) -> list[Document]:
    """Where a document holds a measure that has an interval."""
    fairness = body["fairness"]
    places: dict[str, Callable[[], list[Document]]] = {
        "dm_rs": lambda: [body["dm_rs"]],
        "people": lambda: [body["people"]],
        "ties": lambda: [body["people"]["ties"]],
        "plausible_people": lambda: [body["plausible"]["affected"]],
        "ifr_b": lambda: [fairness["individual"]["b"]],
        "ifr_p": lambda: [fairness["individual"]["p"]],
        "demographic_parity": lambda: [table["dp"] for table in fairness["group"]["tables"]],
        "demographic_parity_sd": lambda: [table["dp_sd"] for table in fairness["group"]["tables"]],
        "equalized_odds_sd": lambda: [
            each for table in fairness["group"]["tables"] for each in table["eo_sd"]
        ],
        "equalized_odds": lambda: [
            each for table in fairness["group"]["tables"] for each in table["eo"]
        ],
        "impact_ratio": lambda: [
            row["impact_ratio"] for table in fairness["group"]["tables"] for row in table["rows"]
        ],
        "accuracy": lambda: [fairness["quality"]["accuracy"]],
        "f1": lambda: [fairness["quality"]["scores"]["f1"]],
        "mcc": lambda: [fairness["quality"]["scores"]["mcc"]],
        "severity_median": lambda: [body["people"]["severity"]["gap_median"]],
        "severity_p90": lambda: [body["people"]["severity"]["gap_p90"]],
        "proved_people": lambda: body["certificate"]["people"][1:2],
    }
    return places[name]()


def with_interval(
    name: str, low: float | None, estimate: float | None, high: float | None
) -> Document:
    body = document()
    for entry in entries(name, body):
        entry.update(estimate=estimate, low=low, high=high)
    return body


def ruled(
    body: Document | Audit | Path, limits: dict[str, float], **options: Any
) -> tuple[Ruling, ...]:
    return check(body, Policy(limits=limits, **options)).rulings


EXACT = ("auc", "idis", "input_space", "distance", "proved_share", "upper_bound")
COUNTS = {"idis": 5, "input_space": 5}
INTERVALS = [name for name in TABLES if name not in EXACT]

# -- thresholds ------------------------------------------------------------------------------------

# Where an interval lies by a limit of 0.5, for a measure that must be at most that; mirrored for
# one that must be at least that.
CASES = {
    "far inside": (0.1, 0.2, 0.3, "pass"),
    "just inside": (0.3, 0.4, 0.499999, "pass"),
    "touching from inside": (0.3, 0.4, 0.5, "pass"),
    "no width, at the limit": (0.5, 0.5, 0.5, "pass"),
    "just beyond the limit": (0.3, 0.4, 0.500001, "uncertain"),
    "estimate at the limit": (0.4, 0.5, 0.6, "uncertain"),
    "touching from outside": (0.5, 0.6, 0.7, "uncertain"),
    "just outside": (0.500001, 0.6, 0.7, "fail"),
    "far outside": (0.7, 0.8, 0.9, "fail"),
}


# By "more", DM-RS is looked at again by its own rules: see test_gate_more.py.
@pytest.mark.parametrize(
    ("name", "uncertain"),
    [
        (name, how)
        for name in INTERVALS
        for how in ("fail", "pass", "more")
        if (name, how) != ("dm_rs", "more")
    ],
)
@pytest.mark.parametrize("case", CASES)
def test_an_interval_passes_fails_or_is_uncertain_by_where_its_limit_lies(
    name: str, case: str, uncertain: Any
) -> None:
    low, estimate, high, outcome = CASES[case]
    if MEASURES[name].direction == "at least":
        low, estimate, high = 1 - high, 1 - estimate, 1 - low
    rulings = ruled(with_interval(name, low, estimate, high), {name: 0.5}, uncertain=uncertain)
    decided = outcome if outcome != "uncertain" else "pass" if uncertain == "pass" else "fail"
    assert rulings
    for ruling in rulings:
        assert (ruling.outcome, ruling.decided, ruling.estimate, ruling.low, ruling.high) == (
            outcome,
            decided,
            estimate,
            low,
            high,
        )
        assert (ruling.name, ruling.limit, ruling.direction) == (
            name,
            0.5,
            MEASURES[name].direction,
        )


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("auc", (0.4999, 0.5, 0.5001)),
        ("idis", (999, 1000, 1001)),
        ("input_space", (1_000_001, 1_000_000, 999_999)),
        ("distance", (0.2999, 0.3, 0.3001)),
    ],
)
def test_a_number_without_interval_is_compared_as_it_is(
    name: str, values: tuple[float, float, float]
) -> None:
    body = document()
    for value, expected in zip(values, ("pass", "pass", "fail"), strict=True):
        part = "interpretation" if name == "auc" else "generation"
        body[part]["tried" if name == "input_space" else name] = value
        (ruling,) = ruled(body, {name: values[1]})
        assert (ruling.outcome, ruling.estimate, ruling.low, ruling.high) == (
            expected,
            value,
            None,
            None,
        )


@given(st.lists(st.floats(0, 1), min_size=3, max_size=3), st.sampled_from(["at most", "at least"]))
def test_a_side_is_good_or_bad_only_if_every_point_of_the_interval_is(
    numbers: list[float], direction: Any
) -> None:
    limit, *ends = numbers
    low, high = sorted(ends)
    points = [
        low,
        *(
            point
            for point in (limit, np.nextafter(limit, 0), np.nextafter(limit, 1))
            if low <= point <= high
        ),
        high,
    ]
    good = [point <= limit if direction == "at most" else point >= limit for point in points]
    assert side(low, high, limit, direction) == (
        "pass" if all(good) else "uncertain" if any(good) else "fail"
    )


def test_the_reason_names_the_number_its_interval_and_the_limit() -> None:
    (ruling,) = ruled(with_interval("people", 0.04, 0.05, 0.0612345), {"people": 0.01})
    expected = (
        "Share of the people in the data affected by gender is 5.0 % (95 % interval 4.0 % to"
        " 6.1 %); it must be at most 1 %."
    )
    assert ruling.why == expected
    (ruling,) = ruled(with_interval("people", 0.0, 0.0, 0.02), {"people": 0.01})
    assert ruling.why.endswith(
        "the limit, at most 1 %, lies within. By the policy that is a fail. More people are needed"
        " to tell, not more samples."
    )


# -- tables and groups -----------------------------------------------------------------------------


def test_every_table_class_and_group_is_ruled_on_but_small_and_empty_groups_are_not() -> None:
    body = document("gender", "race")
    names = ("demographic_parity", "equalized_odds", "impact_ratio")
    whats = [ruling.what for ruling in ruled(body, {name: LOOSEST[name] for name in names})]
    tables = ("gender", "race", "gender and race")
    assert whats[:3] == [f"demographic parity difference by {table}" for table in tables]
    assert whats[3:9] == [
        f"equalized odds difference by {table} given {label}"
        for table in tables
        for label in ("refused", "hired")
    ]
    assert whats[9:13] == [
        f"impact ratio of {who}"
        for who in ("female by gender", "male by gender", "a by race", "b by race")
    ]
    assert {name.split(" by ")[0] for name in whats[13:]} == {
        f"impact ratio of {gender}, {race}" for gender in ("female", "male") for race in "ab"
    }


def test_one_bad_group_fails_the_whole() -> None:
    body = with_interval("impact_ratio", 0.9, 0.95, 1.0)
    body["fairness"]["group"]["tables"][0]["rows"][0]["impact_ratio"].update(
        low=0.5, estimate=0.6, high=0.7
    )
    verdict = check(body, Policy(limits={"impact_ratio": 0.8}))
    assert (verdict.passed, verdict.exit_code, verdict.headline) == (
        False,
        1,
        "FAILED: 1 of 2 rules",
    )
    assert [ruling.what for ruling in verdict.failed] == ["impact ratio of female by gender"]


# -- what is missing -------------------------------------------------------------------------------


@pytest.mark.parametrize("uncertain", ["fail", "pass", "more"])
@pytest.mark.parametrize(
    "name", ["ifr_b", "ifr_p", "demographic_parity", "equalized_odds", "impact_ratio"]
)
@pytest.mark.parametrize("estimate", [None, 0.5])
def test_a_number_that_is_not_there_fails_whatever_the_policy_says_of_doubt(
    name: str, estimate: Any, uncertain: Any
) -> None:
    low, high = None, None
    rulings = ruled(
        with_interval(name, low, estimate, high), {name: LOOSEST[name]}, uncertain=uncertain
    )
    assert rulings
    for ruling in rulings:
        assert (ruling.outcome, ruling.decided, ruling.estimate) == ("fail", "fail", None)
        assert "It is missing: " in ruling.why


@pytest.mark.parametrize("name", ["dm_rs", "people", "accuracy"])
def test_a_share_of_nobody_is_missing(name: str) -> None:
    body = document()
    (entry,) = entries(name, body)
    entry.update(estimate=0.0, low=0.0, high=1.0, hits=0, samples=0)
    (ruling,) = ruled(body, {name: LOOSEST[name]}, uncertain="pass")
    assert ruling.decided == "fail"


def test_a_black_box_has_no_auc_and_is_told_what_to_do() -> None:
    data = toy()
    network = TorchModel(planted(data.domain, bias=4, cut=CUT))
    audit = fp.audit(
        data,
        Model(network.probabilities),
        "gender",
        budget=fp.Budget(seeds=5),
        method="random",
        samples=500,
    )
    (ruling,) = ruled(audit, {"auc": 1.0}, uncertain="pass")
    assert ruling.decided == "fail"
    assert "take auc out of the policy" in ruling.why


@pytest.mark.parametrize("name", ["demographic_parity", "equalized_odds", "impact_ratio"])
def test_without_a_favourable_answer_groups_are_missing(name: str) -> None:
    body = document()
    body["fairness"].update(group=None, positive=None)
    (ruling,) = ruled(body, {name: LOOSEST[name]}, uncertain="pass")
    assert ruling.decided == "fail"
    assert "favorable" in ruling.why


def test_where_all_groups_are_small_or_empty_impact_ratios_are_missing() -> None:
    body = document()
    for row in body["fairness"]["group"]["tables"][0]["rows"]:
        row["is_small"] = True
    (ruling,) = ruled(body, {"impact_ratio": 0.0}, uncertain="pass")
    assert ruling.decided == "fail"
    assert "merge groups" in ruling.why


@pytest.mark.parametrize(
    ("stopped", "decided"),
    [("complete", "pass"), ("seconds", "pass"), ("interrupted", "fail"), ("wanted", "fail")],
)
def test_a_search_that_was_cut_short_proves_nothing_by_finding_little(
    stopped: str, decided: str
) -> None:
    body = document()
    body["generation"].update(stopped=stopped, idis=10)
    (ruling,) = ruled(body, {"idis": 10}, uncertain="pass")
    assert (ruling.decided, ruling.estimate) == (decided, 10)
    assert ("might have found more" in ruling.why) == (decided == "fail")


def test_that_a_model_is_not_given_the_attribute_is_said_where_it_makes_a_number_good() -> None:
    body = document()
    body["model"]["blind_to"] = ["gender"]
    for ruling in ruled(body, LOOSEST):
        assert ("by construction" in ruling.why) == (ruling.name in COUNTERPARTS)


@pytest.mark.parametrize("name", INTERVALS)
@pytest.mark.parametrize("number", [nan, inf, -1, 2, "0.5", None])
def test_an_impossible_number_is_refused_before_anything_is_decided(name: str, number: Any) -> None:
    body = with_interval(name, number, number, number)
    if name not in ("dm_rs", "people", "accuracy"):
        if number is None:
            pytest.skip("these need not be defined")
        if not name.startswith("ifr") and number in (-1, 2):
            pytest.skip("these are no shares")
    with pytest.raises(StorageError, match="not a valid document"):
        ruled(body, {name: LOOSEST[name]})


@pytest.mark.parametrize("key", ["dm_rs", "people", "fairness", "generation", "pairs", "model"])
def test_a_document_that_was_cut_is_refused_with_a_sentence(key: str) -> None:
    body = document()
    del body[key]
    with pytest.raises(StorageError, match=f"missing required field `{key}`"):
        ruled(body, {"dm_rs": 1})


@pytest.mark.parametrize("run", [{}, {"format": 0}])
def test_a_document_of_something_else_is_refused(run: Any) -> None:
    with pytest.raises(StorageError, match=r"not a valid document.*Run the audit again"):
        check(run, Policy(limits={"dm_rs": 1}))


@pytest.mark.parametrize("run", [3, None])
def test_what_is_not_a_run_is_refused(run: Any) -> None:
    with pytest.raises(SettingError, match="A run is an audit"):
        check(run, Policy(limits={"dm_rs": 1}))


# -- changes against a baseline --------------------------------------------------------------------


def test_newcombes_interval_is_the_one_worked_out_by_hand() -> None:
    # 56 of 70 less 48 of 80. Wilson: 0.8 (0.6918 to 0.8775) and 0.6 (0.4905 to 0.7003), rounded. So
    # from 0.2 − √(0.1082² + 0.1003²) to 0.2 + √(0.0775² + 0.1095²): 0.0525 to 0.3342. From limits
    # that are not rounded it is Newcombe's own example, 0.0524 to 0.3339.
    rough = newcombe((0.8, 0.6918, 0.8775), (0.6, 0.4905, 0.7003))
    assert rough == pytest.approx(
        (0.2, 0.2 - sqrt(0.1082**2 + 0.1003**2), 0.2 + sqrt(0.0775**2 + 0.1095**2)), abs=1e-9
    )
    wilson = [binomtest(hits, n).proportion_ci(method="wilson") for hits, n in ((56, 70), (48, 80))]
    change, low, high = newcombe(
        (0.8, wilson[0].low, wilson[0].high), (0.6, wilson[1].low, wilson[1].high)
    )
    assert change == pytest.approx(0.2)
    assert (round(low, 4), round(high, 4)) == (0.0524, 0.3339)


def test_a_three_four_five_triangle_adds_squares() -> None:
    assert newcombe((0.5, 0.47, 0.56), (0.3, 0.22, 0.34)) == pytest.approx((0.2, 0.15, 0.3))


@pytest.mark.parametrize("name", INTERVALS)
def test_a_change_is_ruled_on_in_the_direction_that_is_worse(name: str) -> None:
    worse = 1 if MEASURES[name].direction == "at most" else -1
    before = with_interval(name, 0.5, 0.5, 0.5)
    for change, margin, outcome in (
        (0.1, 0.1, "pass"),
        (0.1, 0.0999, "fail"),
        (-0.1, 0.0, "pass"),
        (0.0, 0.0, "pass"),
    ):
        now = 0.5 + worse * change
        rulings = check(
            with_interval(name, now, now, now), Policy(baseline={name: margin}), baseline=before
        ).rulings
        assert rulings
        for ruling in rulings:
            assert ruling.outcome == outcome, (change, margin)
            assert (ruling.name, ruling.limit) == (f"baseline.{name}", worse * margin)
            assert ruling.estimate == pytest.approx(worse * change)


@pytest.mark.parametrize(
    ("uncertain", "decided"), [("fail", "fail"), ("pass", "pass"), ("more", "fail")]
)
def test_a_change_within_the_noise_of_both_runs_is_uncertain(uncertain: Any, decided: str) -> None:
    policy = Policy(baseline={"people": 0.01}, uncertain=uncertain)
    (ruling,) = check(
        with_interval("people", 0.04, 0.05, 0.06),
        policy,
        baseline=with_interval("people", 0.04, 0.05, 0.06),
    ).rulings
    assert (ruling.outcome, ruling.decided) == ("uncertain", decided)
    assert (ruling.low, ruling.high) == pytest.approx((-0.01 * sqrt(2), 0.01 * sqrt(2)))


def test_numbers_without_interval_change_plainly_and_decimals_do_not_trip() -> None:
    now, before = document(), document()
    now["interpretation"]["auc"], before["interpretation"]["auc"] = 0.8, 0.7
    now["generation"]["idis"], before["generation"]["idis"] = 120, 100
    assert 0.8 - 0.7 > 0.1
    for margins, passed in (
        ({"auc": 0.1, "idis": 20}, True),
        ({"auc": 0.0999}, False),
        ({"idis": 19}, False),
    ):
        assert check(now, Policy(baseline=margins), baseline=before).passed == passed


def test_a_baseline_that_lacks_the_number_fails() -> None:
    before = document()
    before["interpretation"] = None
    (ruling,) = check(
        document(), Policy(baseline={"auc": 1.0}, uncertain="pass"), baseline=before
    ).rulings
    assert ruling.decided == "fail"
    assert "the baseline does not have it" in ruling.why


@pytest.mark.parametrize(
    "margin", [{"idis": 10**9}, {"input_space": 10**9}, {"distance": 1.0}], ids=str
)
def test_searches_with_different_budgets_are_not_compared(margin: dict[str, float]) -> None:
    before = document()
    before["generation"]["seeds"] += 1
    (ruling,) = check(document(), Policy(baseline=margin), baseline=before).rulings
    assert ruling.decided == "fail"
    assert "budgets" in ruling.why


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("method", "random", "it was made by the search 'random' among possible people"),
        ("people", "plausible", "it was made by the search 'probe' among plausible people"),
    ],
)
def test_a_baseline_made_by_another_search_is_refused_where_findings_are_counted(
    key: str, value: str, named: str
) -> None:
    before = document()
    before["generation"][key] = value
    with pytest.raises(SettingError, match=named):
        check(document(), Policy(baseline={"idis": 10**9}), baseline=before)
    assert check(document(), Policy(baseline={"dm_rs": 0.1}), baseline=before).passed


def test_a_group_that_was_small_in_the_baseline_is_compared_all_the_same() -> None:
    before = document()
    for row in before["fairness"]["group"]["tables"][0]["rows"]:
        row["is_small"] = True
    assert all(
        ruling.estimate == 0
        for ruling in check(
            document(), Policy(baseline={"impact_ratio": 1}), baseline=before
        ).rulings
    )


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("dataset", "adult", "data set is 'adult'"),
        ("sensitive", ["race"], "sensitive attributes is 'race'"),
    ],
)
def test_a_baseline_about_something_else_is_refused_by_name(
    key: str, value: Any, named: str
) -> None:
    before = document() | {key: value}
    with pytest.raises(SettingError, match=named):
        check(document(), Policy(baseline={"dm_rs": 1}), baseline=before)


def test_a_baseline_and_what_to_compare_with_it_need_each_other() -> None:
    with pytest.raises(SettingError, match="none is named"):
        check(document(), Policy(baseline={"dm_rs": 1}))
    with pytest.raises(SettingError, match="does not say by how much"):
        check(document(), Policy(limits={"dm_rs": 1}), baseline=document())
    with pytest.raises(SettingError, match="does not say by how much"):
        check(document(), Policy(limits={"dm_rs": 1}, baseline={"run": "somewhere"}))


def test_the_policys_own_baseline_lies_beside_the_policy(tmp_path: Path) -> None:
    fp.save(audit_of(), tmp_path / "runs" / "main")
    (tmp_path / "fairness.toml").write_text('[baseline]\nrun = "runs/main"\naccuracy = 0.5\n')
    (ruling,) = fp.check(audit_of(bias=8), tmp_path / "fairness.toml").rulings
    assert ruling.estimate == pytest.approx(
        required(audit_of(bias=8).run.fairness).quality.accuracy.estimate
        - required(audit_of().run.fairness).quality.accuracy.estimate
    )


# -- one decision for all --------------------------------------------------------------------------


def decisions(run: Path, policy: Path) -> tuple[bool, bool, bool]:
    """Whether it passes for Python, the command line, and pytest."""
    done = CliRunner().invoke(app, ["check", str(run), "--policy", str(policy), "--quiet"])
    assert done.exit_code in (0, 1), done.output
    try:
        Fairness().assert_policy(run, policy)
        asserted = True
    except AssertionError:
        asserted = False
    return fp.check(run, policy).passed, done.exit_code == 0, asserted


@given(
    name=st.sampled_from(INTERVALS),
    ends=st.lists(st.sampled_from([0.0, 0.2, 0.4, 0.5, 0.6, 0.8, 1.0]), min_size=3, max_size=3).map(
        sorted
    ),
    limits=st.dictionaries(
        st.sampled_from([name for name in TABLES if name not in COUNTS]),
        st.sampled_from([0.0, 0.5, 1.0]),
        min_size=1,
    ),
    uncertain=st.sampled_from(["fail", "pass"]),
)
def test_python_the_command_line_and_pytest_never_disagree(
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    ends: list[float],
    limits: dict[str, float],
    uncertain: str,
) -> None:
    folder = tmp_path_factory.mktemp("run")
    (folder / "audit.json").write_text(json.dumps(with_interval(name, *ends)))
    lines = [
        f'uncertain = "{uncertain}"',
        "[limits]",
        *(f"{key} = {value}" for key, value in limits.items()),
    ]
    (folder / "fairness.toml").write_text("\n".join(lines))
    assert len(set(decisions(folder, folder / "fairness.toml"))) == 1


def test_an_audit_its_folder_and_its_document_are_ruled_alike(tmp_path: Path) -> None:
    fp.save(audit_of(), tmp_path / "run")
    policy = Policy(limits=dict.fromkeys(TABLES, 0.5) | COUNTS)
    verdict = check(audit_of(), policy)
    assert (
        check(tmp_path / "run", policy).rulings
        == check(str(tmp_path / "run"), policy).rulings
        == verdict.rulings
    )
    assert check(audit_of().to_dict(), policy).rulings == verdict.rulings
    assert (verdict.dataset, verdict.sensitive, verdict.run, verdict.policy) == (
        "toy",
        ("gender",),
        None,
        None,
    )
    assert check(tmp_path / "run", policy).run == str(tmp_path / "run")
    assert json.loads(json.dumps(verdict.to_dict(), allow_nan=False)) == verdict.to_dict()
    assert {"passed", "exit_code", "rulings"} < verdict.to_dict().keys()
