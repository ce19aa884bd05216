"""Audits by twins: what they find, what bare counterparts find, and that a run keeps to its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fairprobe as fp
from fairprobe.arrays import Rows
from fairprobe.datasets import Dataset
from fairprobe.errors import SettingError
from fairprobe.measures import required
from fairprobe.models import Model
from fairprobe.networks import Training, dense, train
from fairprobe.runs.store import read_table_run
from fairprobe.schema import Constraint
from fairprobe.schema.twins import CounterpartKind
from fairprobe.table.audit import Audit
from fairprobe.table.partial import people_in_data, prepare
from fairprobe.table.repair import repair_run
from tests.cli.test_cli import ask
from tests.helpers import reopened
from tests.schema.test_twins import RELATIONSHIPS, family, husbands_are_men, wives_are_women

TINY = fp.Budget(seeds=20, local_iterations=20)
SHORT = Training(learning_rate=0.02, batch=64, epochs=3, patience=None)


def families(n: int = 1_200, *, crossed: int = 4) -> Dataset:
    """Half of all people are spouses; `crossed` of these are female husbands."""
    rng = np.random.default_rng(0)
    domain = family()
    gender, old, income = (rng.integers(0, high, n) for high in (2, 2, 3))
    single = rng.choice([1, 3], n)
    relationship = np.where(rng.random(n) < 0.5, np.where(gender == 1, 2, 0), single)
    x = np.stack([income, relationship, gender, old], axis=1).astype(np.float32)
    x[:crossed, 1:3] = (2, 0)
    y = ((relationship == 2) ^ (rng.random(n) < 0.1)).astype(np.int64)
    return Dataset("families", domain, x, y, ("no", "yes"), favourable=1)


def favours_husbands(x: Rows) -> Rows:
    return np.where(x[:, 1] == 2, 0.9, 0.1).astype(np.float32)


def run_audit(model: object = None, data: Dataset | None = None, **more: object) -> Audit:
    given: dict[str, object] = {"budget": TINY, "samples": 500} | more
    answers = Model(favours_husbands) if model is None else model
    return fp.audit(data or families(), answers, "gender", **given)  # type: ignore[arg-type]


def test_a_model_that_sees_the_coupled_attribute_is_found_out_by_twins_only() -> None:
    data, audit = families(), run_audit()
    spouses = int(np.isin(data.x[:, 1], (0, 2)).sum())
    assert audit.run.people.hits == spouses
    assert len(audit.findings) > 0
    assert "relationship_other" in audit.findings.to_pandas().columns
    assert audit.run.dm_rs.hits == 0  # possible people are compared bare
    used = audit.document.counterparts
    assert used.kind == "twins"
    (coupling,) = used.couplings
    assert (coupling.people, coupling.crossed, coupling.source) == (spouses, 4, "declared")
    assert used.both is not None
    assert (used.both.bare.hits, used.both.twins.hits) == (0, spouses)
    assert used.both.affected_coupled is None
    assert used.both.twins_coupled.estimate == 1
    assert audit.document.pairs[0].sensitive["relationship"] in (
        ("Husband", "Wife"),
        ("Wife", "Husband"),
    )

    bare = run_audit(counterparts="bare")
    assert (bare.run.people.hits, len(bare.findings)) == (0, 0)
    assert bare.document.counterparts.kind == "bare"
    assert bare.document.counterparts.both == used.both
    assert bare.document.counterparts.couplings == used.couplings


def test_what_each_kind_finds_is_counted_as_by_hand() -> None:
    """A model that looks at gender for husbands and wives, and at nothing else."""
    data = families()
    model = Model(lambda x: np.where(np.isin(x[:, 1], (0, 2)) & (x[:, 2] == 1), 0.9, 0.1))
    both = run_audit(model, data).document.counterparts.both
    assert both is not None
    spouses = np.isin(data.x[:, 1], (0, 2))
    assert both.bare.hits == both.twins.hits == spouses.sum()
    assert (both.bare.samples, both.bare_coupled.samples) == (len(data), spouses.sum())
    assert (both.others.hits, both.others.samples) == (0, (~spouses).sum())
    assert (both.affected_coupled, both.others_of_everybody) == (1, 0)
    blind_to_spouses = Model(lambda x: np.where((x[:, 1] == 1) & (x[:, 2] == 1), 0.9, 0.1))
    both = run_audit(blind_to_spouses, data).document.counterparts.both
    assert both is not None
    children = int((data.x[:, 1] == 1).sum())
    assert both.bare.hits == both.twins.hits == both.others.hits == children
    assert both.others_of_everybody == pytest.approx(children / len(data))


def test_a_model_that_ignores_the_attribute_and_what_is_coupled_yields_exactly_zero() -> None:
    model = Model(lambda x: 0.1 + 0.3 * np.isin(x[:, 1], (0, 2)) + 0.25 * x[:, 0])
    audit = run_audit(model)
    assert (audit.run.people.hits, len(audit.findings), audit.run.dm_rs.hits) == (0, 0, 0)
    assert required(audit.run.fairness).individual.b.estimate == 1


def test_people_without_a_counterpart_are_counted_apart_in_the_whole_document() -> None:
    rules = (Constraint("men", husbands_are_men), Constraint("women", wives_are_women))
    data = families(crossed=0)
    data = replace(data, domain=replace(data.domain, constraints=rules))
    spouses = int(np.isin(data.x[:, 1], (0, 2)).sum())
    bare = run_audit(data=data, counterparts="bare").document
    assert bare.people.no_counterpart == spouses
    assert bare.people.samples == len(data) - spouses
    assert sum(value.samples for value in bare.people.values) == len(data) - spouses
    twins = run_audit(data=data).document
    assert (twins.people.no_counterpart, twins.people.hits) == (0, spouses)


def test_another_kind_of_counterparts_is_refused() -> None:
    with pytest.raises(SettingError, match="Counterparts are 'twins' or 'bare', not 'siblings'"):
        run_audit(counterparts="siblings")


def test_a_measurement_alone_has_the_number_of_the_audit() -> None:
    data = families()
    kinds: tuple[CounterpartKind, ...] = ("twins", "bare")
    for kind in kinds:
        part = people_in_data(*prepare(data, Model(favours_husbands), "gender", kind))
        assert part.people is not None
        assert part.people == run_audit(counterparts=kind).document.people


def own_table(folder: Path, rows: int = 4_000) -> Path:
    """A table in which husbands and wives can be mined, if it has enough rows."""
    data = families(rows, crossed=0)
    frame = data.words(data.x).rename(columns={"gender": "sex"})
    frame["y"] = np.array(data.classes)[data.y]
    frame.to_csv(folder / "people.csv", index=False)
    return folder / "people.csv"


@pytest.mark.parametrize("kind", ["twins", "bare"])
def test_a_run_on_a_table_of_ones_own_is_opened_and_repaired_with_its_counterparts(
    kind: CounterpartKind, tmp_path: Path
) -> None:
    data = fp.datasets.open_table(own_table(tmp_path), label="y", favourable="yes")
    model = train(dense(data.domain, (6,)), data, training=SHORT)
    done = fp.audit(data, model, "sex", counterparts=kind, budget=TINY, samples=500)
    done.save(tmp_path / "run")
    used = read_table_run(tmp_path / "run").counterparts
    assert (used.kind, [each.source for each in used.couplings]) == (kind, ["mined"])
    again, _ = reopened(tmp_path / "run")
    assert [each.roles for each in again.domain.couplings] == (
        [({"Female": "Wife", "Male": "Husband"},)] if kind == "twins" else []
    )
    assert len(fp.Findings.load(tmp_path / "run" / "findings.parquet", again.domain)) == len(
        done.findings
    )
    repaired = repair_run(
        tmp_path / "run",
        fp.repairs.Blind(training=SHORT),
        table=tmp_path / "people.csv",
        curve=False,
        samples=300,
        force=True,
    )
    assert repaired.document.counterparts.kind == kind
    assert repaired.run.people.hits == 0
    merges = "merge.source" in repaired.model.module.state_dict()  # type: ignore[attr-defined]
    assert merges == (kind == "twins")
    repaired.save(tmp_path / "repaired")
    data, network = reopened(tmp_path / "repaired")
    np.testing.assert_array_equal(
        network.probabilities(data.x), repaired.model.probabilities(data.x)
    )


def test_the_words_of_a_table_may_be_numbers() -> None:
    data = families(4_000, crossed=0)
    frame = pd.DataFrame(data.x.astype(int), columns=list(data.domain.names))
    frame["relationship"] = frame["relationship"].astype("category")
    frame["y"] = data.y
    opened = fp.datasets.open_table(frame, label="y", sensitive="gender")
    (coupling,) = opened.domain.couplings
    assert coupling.roles == ({"0": "0", "1": "2"},)
    assert len(RELATIONSHIPS) == len(opened.domain["relationship"].categories)


def test_a_small_table_suggests_twins_and_compares_bare_counterparts_until_they_are_declared(
    tmp_path: Path,
) -> None:
    path, model = own_table(tmp_path, 700), Model(lambda x: np.where(x[:, 1] == 0, 0.9, 0.1))
    data = fp.datasets.open_table(path, label="y", favourable="yes")
    audit = fp.audit(data, model, "sex", budget=TINY, samples=300)
    used = audit.document.counterparts
    assert (used.couplings, used.suggested) == ([], ["relationship (Wife ↔ Husband) with sex"])
    audit.save(tmp_path / "run")
    text = (tmp_path / "run" / "domain.toml").read_text(encoding="utf-8")
    assert "\n# [[twins]]\n" in text
    declared = tmp_path / "domain.toml"
    entry = 'attribute = "relationship"\nwith = "sex"\n'
    roles = 'roles = [{Female = "Wife", Male = "Husband"}]\n'
    declared.write_text(f"{text}\n[[twins]]\n{entry}{roles}", encoding="utf-8")
    data = fp.datasets.open_table(path, label="y", favourable="yes", domain=declared)
    audit = fp.audit(data, model, "sex", budget=TINY, samples=300)
    assert [each.source for each in audit.document.counterparts.couplings] == ["declared"]
    assert audit.document.counterparts.suggested == []
    assert audit.run.people.hits > 0


def test_the_command_takes_the_kind_of_counterparts(tmp_path: Path) -> None:
    path = own_table(tmp_path)
    few = ["--seeds", "10", "--set", "local_iterations=5", "--samples", "300", "--model", "lfcn"]
    command = ["audit", str(path), "--label", "y", "--sensitive", "sex", *few, "--quiet"]
    for kind in ("twins", "bare"):
        run = tmp_path / kind
        assert ask(*command, "--counterparts", kind, "--out", run).code == 0
        assert read_table_run(run).counterparts.kind == kind
    answer = ask(*command, "--counterparts", "siblings", "--out", tmp_path / "other")
    assert answer.code == 2
    assert "Counterparts are 'twins' or 'bare', not 'siblings'" in answer.err
    policy = tmp_path / "policy.toml"
    policy.write_text("[baseline]\npeople = 0.5\n", encoding="utf-8")
    answer = ask("check", tmp_path / "twins", "--policy", policy, "--baseline", tmp_path / "bare")
    assert answer.code == 2
    assert "its kind of counterparts is 'bare', that of the run 'twins'" in answer.err
    same = ask("check", tmp_path / "twins", "--policy", policy, "--baseline", tmp_path / "twins")
    assert same.code == 0
    answer = ask(
        "data", "schema", path, "--label", "y", "--sensitive", "sex", "--out", tmp_path / "d.toml"
    )
    assert "Twins: relationship (Wife ↔ Husband) with sex." in answer.out
