"""`uncertain = "more"`: sampling until it is decided, without being wrong more often for having
looked often.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import fairprobe as fp
from fairprobe.arrays import Rows
from fairprobe.cli import app
from fairprobe.errors import SettingError
from fairprobe.gate import Policy, Ruling, check, sampler
from fairprobe.gate.more import More, until_decided
from fairprobe.gate.ruling import side
from fairprobe.judgement import judge
from fairprobe.metrics.rates import dm_rs
from fairprobe.models import Model, TorchModel
from fairprobe.networks import dense
from fairprobe.results import Rate
from fairprobe.statistics.rates import confidence_at_look
from fairprobe.table.audit import Audit
from fairprobe.table.subject import as_model
from tests.gate.test_gate import CUT, audit_of, document, toy
from tests.helpers import everybody, planted, read_document

TOY_RATE = (
    4 / 31
)  # gender decides where skill + race lies in (CUT − 4, CUT): for each race, four of the 31 skills


def flips(rate: float, seed: int = 0) -> More:
    """A model whose true rate is known."""
    rng = np.random.default_rng(seed)
    return lambda n: Rate.of(int(rng.binomial(n, rate)), n)


def true_rate() -> float:
    domain = toy().domain
    return float(
        judge(
            domain, TorchModel(planted(domain, bias=4, cut=CUT)), everybody(domain)
        ).is_discriminatory.mean()
    )


def ruling_of(run: Audit | Path, limit: float, most_samples: int = 2_000_000) -> Ruling:
    (ruling,) = check(
        run, Policy(limits={"dm_rs": limit}, uncertain="more", most_samples=most_samples)
    ).rulings
    return ruling


# -- looks -----------------------------------------------------------------------------------------


def test_the_confidences_of_all_looks_spend_no_more_than_the_first_promised() -> None:
    spent = [1 - confidence_at_look(0.95, look) for look in range(1, 10_000)]
    assert spent[:3] == pytest.approx([0.05 / 2, 0.05 / 6, 0.05 / 12])
    assert 0.0499 < sum(spent) <= 0.05


def test_each_look_doubles_the_sample_and_pools_it() -> None:
    asked: list[int] = []

    def more(n: int) -> Rate:
        asked.append(n)
        return Rate.of(n // 10, n)

    rate, looks = until_decided(Rate.of(10, 100), 0.1, more, 1000)
    assert asked == [100, 200, 400, 200]
    assert (rate.hits, rate.samples, looks) == (100, 1000, 5)
    assert rate.confidence == pytest.approx(1 - 0.05 / 30)


def test_a_clear_case_is_decided_at_the_first_look_without_drawing() -> None:
    def never(n: int) -> Rate:
        raise AssertionError(n)

    for first, limit in ((Rate.of(0, 10_000), 0.01), (Rate.of(500, 10_000), 0.01)):
        rate, looks = until_decided(first, limit, never, 10**6)
        assert (rate.samples, looks) == (10_000, 1)
        assert rate.confidence == pytest.approx(0.975)


def test_what_draws_must_draw_what_it_is_asked_for() -> None:
    with pytest.raises(SettingError, match="asked for 100 people and gave 7"):
        until_decided(Rate.of(10, 100), 0.1, lambda n: Rate.of(0, 7), 1000)


@pytest.mark.parametrize("rate", [0.02, 0.0200001])
def test_looking_again_and_again_is_wrong_in_at_most_one_of_twenty(rate: float) -> None:
    """At the limit, or a hair above it, where it is hardest: 0.02 must never fail and what lies
    above must never pass.
    """
    limit, runs, start, most = 0.02, 400, 1000, 16_000
    wrong = "fail" if rate <= limit else "pass"
    errors = naive = 0
    for seed in range(runs):
        more = flips(rate, seed)
        asked: list[Rate] = [more(start)]

        def remembered(n: int, more: More = more, asked: list[Rate] = asked) -> Rate:
            asked.append(more(n))
            return asked[-1]

        decided, _ = until_decided(asked[0], limit, remembered, most)
        errors += side(decided.low, decided.high, limit, "at most") == wrong
        sums = [
            Rate.of(sum(part.hits for part in asked[:k]), sum(part.samples for part in asked[:k]))
            for k in range(1, len(asked) + 1)
        ]
        naive += (
            next(
                (
                    found
                    for each in sums
                    if (found := side(each.low, each.high, limit, "at most")) != "uncertain"
                ),
                "",
            )
            == wrong
        )
    assert errors / runs <= 0.05
    assert naive > 2 * errors  # what the same looks cost when each pretends to be the only one


@pytest.mark.parametrize(("rate", "outcome"), [(0.008, "pass"), (0.0125, "fail")])
def test_rates_on_both_sides_are_told_apart(rate: float, outcome: str) -> None:
    found: list[str] = []
    for seed in range(20):
        more = flips(rate, seed)
        decided, looks = until_decided(more(500), 0.01, more, 2_000_000)
        found.append(side(decided.low, decided.high, 0.01, "at most"))
        assert looks < 13
    assert found.count(outcome) >= 19  # one error in twenty is the promise


# -- models ----------------------------------------------------------------------------------------


def test_a_planted_model_is_decided_rightly_on_both_sides_of_its_rate() -> None:
    audit, rate = audit_of(), true_rate()
    assert rate == pytest.approx(TOY_RATE)
    for limit, outcome in ((0.97 * rate, "fail"), (1.03 * rate, "pass")):
        assert side(audit.run.dm_rs.low, audit.run.dm_rs.high, limit, "at most") == "uncertain"
        ruling = ruling_of(audit, limit)
        assert (ruling.outcome, ruling.decided) == (outcome, outcome)
        assert ruling.low is not None
        assert ruling.high is not None
        assert ruling.low <= rate <= ruling.high
        assert "possible people in" in ruling.why


def test_the_gate_asks_the_same_people_each_time_and_never_those_of_the_audit() -> None:
    audit = audit_of()
    assert ruling_of(audit, true_rate() * 1.03) == ruling_of(audit, true_rate() * 1.03)
    data, asked = toy(), list[list[bytes]]()

    def spy() -> Model:
        mine: list[bytes] = []
        asked.append(mine)

        def answer(x: Rows) -> Rows:
            mine.append(x.tobytes())
            return audit.model.probabilities(x)

        return Model(answer)

    dm_rs(data.domain, spy(), rng=np.random.default_rng(0).spawn(4)[1], samples=50)
    for seed in (0, 1, 0):
        sampler(data, spy(), seed)(50)
    own, first, other_seed, again = asked
    assert first == again
    assert own != first != other_seed


def test_at_the_cap_it_fails_and_says_so() -> None:
    audit = audit_of()
    ruling = ruling_of(audit, true_rate(), most_samples=10_000)
    assert (ruling.outcome, ruling.decided) == ("uncertain", "fail")
    assert (
        "After 10,000 possible people in 4 looks it is not decided, and most_samples allows no"
        " more; that is a fail." in ruling.why
    )
    ruling = ruling_of(audit, true_rate(), most_samples=100)
    assert "After 2,000 possible people in 1 look " in ruling.why


def test_a_document_alone_cannot_draw_more_and_fails() -> None:
    (ruling,) = check(document(), Policy(limits={"dm_rs": true_rate()}, uncertain="more")).rulings
    assert (ruling.outcome, ruling.decided) == ("uncertain", "fail")
    assert "a document has no model" in ruling.why
    assert check(document(), Policy(limits={"dm_rs": 0.9}, uncertain="more")).passed


def test_a_run_whose_data_is_not_here_any_more_fails_and_says_so(tmp_path: Path) -> None:
    fp.save(audit_of(), tmp_path / "run")
    ruling = ruling_of(tmp_path / "run", true_rate())
    assert (ruling.outcome, ruling.decided) == ("uncertain", "fail")
    assert "More possible people cannot be drawn: " in ruling.why
    assert "data that is not here" in ruling.why


@pytest.fixture(scope="module")
def german(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a network that lies in it, drawn from a few possible people only."""
    data = fp.datasets.german()
    model = as_model(dense(data.domain, (8,)), data)
    p = model.probabilities(data.x)
    assert isinstance(model, TorchModel)
    with torch.no_grad():  # about half of the people get each answer
        model.module.output.bias[1] -= float(np.median(np.log(p[:, 1] / p[:, 0])))  # type: ignore[union-attr,index,operator]
    audit = fp.audit(data, model, "gender", method="random", budget=fp.Budget(seeds=5), samples=400)
    folder = tmp_path_factory.mktemp("more") / "german"
    fp.save(audit, folder)
    return folder


def test_a_folder_is_opened_again_and_the_command_line_decides_as_python_does(
    german: Path, tmp_path: Path
) -> None:
    first = read_document(german)["dm_rs"]
    assert 0 < first["hits"] < first["samples"]
    for factor in (0.9, 1.1):
        limit = factor * first["estimate"]
        (tmp_path / "fairness.toml").write_text(
            f'uncertain = "more"\nmost_samples = 200_000\n[limits]\ndm_rs = {limit}\n'
        )
        ruling = check(german, tmp_path / "fairness.toml").rulings[0]
        assert "looks" in ruling.why
        done = CliRunner().invoke(
            app, ["check", str(german), "--policy", str(tmp_path / "fairness.toml")]
        )
        assert done.exit_code == (0 if ruling.decided == "pass" else 1), done.output
