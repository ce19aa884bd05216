"""An audit and its run folder: what the document says, that it is true, and that a folder is
complete or not there.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import fairprobe as fp
from fairprobe import networks, storage
from fairprobe.arrays import Rows
from fairprobe.datasets import Dataset
from fairprobe.documents.table import TableRun
from fairprobe.errors import (
    DataError,
    DomainError,
    FairprobeError,
    ModelError,
    SettingError,
    StorageError,
)
from fairprobe.findings import Findings
from fairprobe.judgement import Verdict, judge
from fairprobe.measures import required
from fairprobe.models import Model, TorchModel, one_thread
from fairprobe.present import render
from fairprobe.report import html
from fairprobe.results import to_dict
from fairprobe.runs import store as base_module
from fairprobe.runs.store import RunFolder
from fairprobe.schema.domain import Attribute, Domain
from fairprobe.search import ADF, Budget, Themis, loop
from fairprobe.search.neuron_bias import neuron_bias
from fairprobe.table.audit import Audit
from fairprobe.table.searched import describe_search
from fairprobe.table.words import verdict
from tests.helpers import VARIANTS, blind, linear, merit, planted, read_document, typed

FILES = {
    "audit.json",
    "findings.parquet",
    "report.html",
    "model/model.safetensors",
    "model/model.json",
}
SMALL = Budget(seeds=40, local_iterations=30)
CUT = 25.25

ATTRIBUTES = (
    Attribute(name="skill", low=0, high=30),
    Attribute(name="gender", kind="categorical", categories=("female", "male")),
    Attribute(name="effort", low=1, high=20),
    Attribute(name="race", kind="categorical", categories=("a", "b", "c")),
)
DOMAIN = Domain(ATTRIBUTES, sensitive=("gender",))


def people(n: int = 400) -> Dataset:
    """People who get what they deserve: by merit, whatever their gender."""
    x = DOMAIN.sample(n, rng=np.random.default_rng(5))
    y = (merit(DOMAIN, x) > CUT).astype(np.int64)
    return Dataset(
        name="toy",
        domain=Domain(ATTRIBUTES),
        x=x,
        y=y,
        classes=("refused", "hired"),
        label="job",
        favourable=1,
    )


DATA = people()


def run_audit(network: nn.Module | Model | None = None, **options: Any) -> Audit:
    how: dict[str, Any] = {"budget": SMALL, "samples": 2000} | options
    return fp.audit(
        DATA, planted(DOMAIN, bias=4, cut=CUT) if network is None else network, "gender", **how
    )


@pytest.fixture(autouse=True, scope="module")
def one_core() -> Iterator[None]:
    """Networks this small are faster on one core, much faster on a busy machine."""
    with one_thread():
        yield


@pytest.fixture(scope="module")
def done() -> Audit:
    return run_audit()


@pytest.fixture(scope="module")
def document(done: Audit) -> dict[str, Any]:
    return done.to_dict()


@pytest.fixture(scope="module")
def other() -> Audit:
    """An audit with another seed."""
    return run_audit(seed=1)


@pytest.fixture
def run(done: Audit, tmp_path: Path) -> Path:
    fp.save(done, tmp_path / "run")
    return tmp_path / "run"


def files_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def content_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def no_constant(name: str) -> NoReturn:
    raise AssertionError(f"{name} is no JSON")


# -- what the document says ------------------------------------------------------------------------


def test_the_counts_of_the_document_agree_with_each_other(document: dict[str, Any]) -> None:
    found = document["generation"]
    assert found["idis"] == found["global_idis"] + found["local_idis"] > 0
    assert found["gsr"] == found["idis"] / found["tried"]
    assert found["seeds"] == 40
    assert found["cpu_ms_per_1000_idis"] == pytest.approx(
        found["cpu_seconds"] * 1e6 / found["idis"]
    )
    assert (found["method"], found["variant"], found["stopped"]) == (
        "probe",
        "",
        "complete",
    )
    assert 0 < found["spread"] < 1
    assert 0 < found["cells"] <= 1
    rate = document["dm_rs"]
    assert rate["samples"] == 2000
    assert rate["estimate"] == rate["hits"] / rate["samples"]
    assert rate["low"] < rate["estimate"] < rate["high"]


def test_the_counts_of_the_document_are_those_of_the_findings(
    done: Audit, document: dict[str, Any]
) -> None:
    assert (
        document["generation"]["idis"]
        == len(done.findings)
        == len(np.unique(done.findings.x[:, DOMAIN.other_columns], axis=0))
    )
    assert document["generation"]["global_idis"] == done.findings.count("global")


def test_the_rates_are_what_can_be_worked_out_by_hand(document: dict[str, Any]) -> None:
    score = merit(DOMAIN, DATA.x)
    affected = int(((score < CUT) & (score + 4 > CUT)).sum())
    assert document["people"]["hits"] == affected
    assert document["people"]["samples"] == len(DATA)
    axes = np.meshgrid(np.arange(31), np.arange(20), np.arange(3), indexing="ij")
    every = np.sum(axes, axis=0)
    true_rate = float(((every < CUT) & (every + 4 > CUT)).mean())
    assert document["dm_rs"]["low"] <= true_rate <= document["dm_rs"]["high"]
    test = DATA.split(0).test
    right = (score[test] + 4 * (DATA.x[test, 1] == 1) > CUT) == (DATA.y[test] == 1)
    assert document["fairness"]["quality"]["accuracy"]["estimate"] == pytest.approx(right.mean())


def test_the_layers_are_those_of_the_network_and_the_most_biased_is_one_of_them(
    done: Audit, document: dict[str, Any]
) -> None:
    inside = document["interpretation"]
    assert [(layer["name"], layer["neurons"]) for layer in inside["layers"]] == [
        ("hidden1", 2),
        ("hidden2", 2),
    ]
    assert [(layer["name"], layer["neurons"]) for layer in document["model"]["layers"]] == [
        ("hidden1", 2),
        ("hidden2", 2),
    ]
    best = max(inside["layers"], key=lambda layer: float(layer["auc"]))
    assert inside["most_biased"] == best["name"]
    assert inside["auc"] == best["auc"] > 0
    assert best["biased"] == len(best["biased_neurons"]) > 0
    assert inside["ablation"]["biased_zeroed"] < inside["ablation"]["before"]
    assert done.interpretation is not None
    assert done.interpretation.auc == inside["auc"]


def test_every_pair_shown_is_a_finding_that_holds(done: Audit, document: dict[str, Any]) -> None:
    assert document["pairs"]
    assert judge(
        DOMAIN, done.model, np.stack([pair.x for pair in done.pairs])
    ).is_discriminatory.all()
    for pair in document["pairs"]:
        assert {pair["label"], pair["label_other"]} == {"refused", "hired"}
        assert sorted(pair["sensitive"]["gender"]) == ["female", "male"]
        assert set(pair["shared"]) == {"skill", "effort", "race"}


def test_the_document_says_what_it_was_made_of(document: dict[str, Any]) -> None:
    assert document["dataset"] == "toy"
    assert document["sensitive"] == ["gender"]
    assert document["seed"] == 0
    assert document["versions"]["fairprobe"] == fp.__version__
    assert document["versions"]["torch"] == torch.__version__


def without_times(body: dict[str, Any]) -> dict[str, Any]:
    body = deepcopy(body)
    del body["created"]
    body["generation"] = {
        name: value
        for name, value in body["generation"].items()
        if "seconds" not in name and "_ms_" not in name
    }
    return body


def test_the_same_seed_gives_the_same_document_but_for_the_times(document: dict[str, Any]) -> None:
    assert without_times(run_audit().to_dict()) == without_times(document)


def test_another_seed_gives_another_document_that_says_so(
    document: dict[str, Any], other: Audit
) -> None:
    body = other.to_dict()
    assert body["seed"] == 1
    assert body["generation"]["tried"] != document["generation"]["tried"]


def test_training_is_repeatable_too() -> None:
    one, two = (
        fp.networks.train(networks.dense(DOMAIN, (8, 4), seed=3), DATA, seed=3) for _ in range(2)
    )
    np.testing.assert_array_equal(one.probabilities(DATA.x), two.probabilities(DATA.x))


def test_several_sensitive_attributes_are_audited_in_all_their_combinations() -> None:
    both = Domain(ATTRIBUTES, sensitive=("gender", "race"))
    body = fp.audit(
        DATA, planted(both, bias=2), ("gender", "race"), budget=SMALL, samples=500
    ).to_dict()
    assert body["sensitive"] == ["gender", "race"]
    assert body["generation"]["idis"] > 0
    assert all(set(pair["sensitive"]) == {"gender", "race"} for pair in body["pairs"])


def test_with_single_pairs_each_held_out_person_counts_once_and_every_page_says_so() -> None:
    small: dict[str, Any] = {"budget": Budget(seeds=5, local_iterations=5), "samples": 100}
    network = planted(Domain(ATTRIBUTES, sensitive=("race",)), bias=2, cut=CUT)
    every, single = (
        fp.audit(DATA, network, "race", pairs=pairs, **small) for pairs in ("all", "single")
    )
    held_out = len(DATA.split(0).test)
    rates = required(single.document.fairness).individual
    assert (required(every.document.fairness).individual.b.pairs, rates.b.pairs) == (
        2 * held_out,
        held_out,
    )
    assert rates.over == "single"
    assert rates.b.groups != required(every.document.fairness).individual.b.groups
    text = render(single.document)
    assert "pairs=&#39;single&#39;," in text
    assert "drawn at random for each" not in render(every.document)
    assert f"{held_out} pairs, one for each person" in single.model_card()
    with pytest.raises(
        SettingError, match="'all' pairs of a person, or a 'single' one; got 'some'"
    ):
        fp.audit(DATA, network, "race", pairs="some", **small)  # type: ignore[arg-type]


@pytest.mark.parametrize("variant", ["revert", "walk", "paper"])
def test_every_mode_can_be_audited_and_is_named(variant: str) -> None:
    budget = Budget(seeds=10, local_iterations=5)
    body = run_audit(method="neuronfair", variant=variant, budget=budget).to_dict()
    assert body["generation"]["variant"] == variant


@pytest.mark.parametrize("method", [name for name in VARIANTS if name != "neuronfair"])
def test_every_method_audits_a_network_by_name_and_interprets_it(method: str) -> None:
    body = run_audit(
        method=method,
        people="possible",
        budget=Budget(seeds=10, local_iterations=5, seconds=3),
    ).to_dict()
    assert body["generation"]["method"] == method
    assert body["generation"]["variant"] == (VARIANTS[method] or ("",))[0]
    assert body["generation"]["settings"] == {}
    assert body["generation"]["idis"] > 0
    assert body["interpretation"]["most_biased"]
    assert "changes the decision" in verdict(typed(body))
    assert json.loads(json.dumps(body, allow_nan=False)) == body


def test_data_that_are_no_dataset_are_refused_with_what_makes_one() -> None:
    given: Any = "german"
    with pytest.raises(SettingError, match=r"datasets.load\('adult'\).*open_table.*got a str\."):
        fp.audit(given, lambda x: x, "gender")


def test_a_method_may_be_an_object_and_what_is_special_about_it_is_kept() -> None:
    audit = run_audit(
        method=ADF(variant="walk", step=2.0), budget=Budget(seeds=10, local_iterations=5)
    )
    found = audit.to_dict()["generation"]
    assert (found["method"], found["variant"], found["settings"]) == ("adf", "walk", {"step": 2.0})


def test_the_scores_of_themis_agree_with_the_findings_the_sampled_rate_and_the_words() -> None:
    audit = run_audit(method=Themis(error=0.05))
    body = audit.to_dict()
    scores = body["generation"]["scores"]
    assert (
        scores["causal_low"] <= scores["causal"] <= scores["causal_high"] <= scores["causal"] + 0.05
    )
    assert scores["group_low"] <= scores["group"] <= scores["group_high"]
    assert scores["causal_low"] <= body["dm_rs"]["estimate"] <= scores["causal_high"]
    assert body["generation"]["settings"] == {"error": 0.05}
    assert f"{scores['draws']:,} draws" in audit.model_card()


def test_a_score_that_is_no_number_does_not_break_the_document(done: Audit) -> None:
    scores = {"causal": float("nan"), "draws": float(np.float32(3))}
    findings = replace(done.findings, generation=replace(done.findings.generation, scores=scores))
    how: dict[str, Any] = {"people": "possible", "refuted": None, "noun": "network", "seed": 0}
    search = describe_search(Themis(), findings, DATA.x[:1], **how)
    assert search.scores == {"causal": None, "draws": 3.0}
    json.dumps(to_dict(search), allow_nan=False)


def test_a_plain_module_and_a_wrapped_one_give_the_same_audit(document: dict[str, Any]) -> None:
    wrapped = run_audit(TorchModel(planted(DOMAIN, bias=4, cut=CUT))).to_dict()
    assert (document["model"]["kind"], wrapped["model"]["kind"]) == ("torch module", "")
    wrapped["model"]["kind"] = "torch module"
    assert without_times(wrapped) == without_times(document)


def test_a_network_without_hidden_layer_is_asked_like_a_black_box_and_still_has_gradients() -> None:
    weight, bias = torch.tensor([[0, 0, 0, 0], [1.0, 4, 1, 0]]), torch.tensor([CUT, 0.0])
    network = nn.Sequential(linear(weight, bias))
    for method in ("auto", "eidig"):
        audit = run_audit(network, method=method)
        assert audit.interpretation is None
        assert len(audit.findings) > 0


def test_a_model_that_answers_at_random_is_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ModelError, match="answers the same row differently each time"):
        run_audit(Model(lambda x: rng.random(len(x))))


def test_an_audit_reports_every_stage_within_its_total() -> None:
    seen: list[tuple[str, int, int]] = []
    run_audit(progress=lambda stage, at, total, note: seen.append((stage, at, total)))
    assert all(0 <= at <= total for _, at, total in seen)
    stages = list(dict.fromkeys(stage for stage, _, _ in seen))
    assert len(stages) >= 5
    assert "Searching" in stages


def test_a_report_can_be_written_alone(done: Audit, tmp_path: Path) -> None:
    path = done.report(tmp_path / "report.html")
    text = path.read_text(encoding="utf-8")
    assert "<html" in text
    assert f"{len(done.findings):,}" in text
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


# -- verdicts --------------------------------------------------------------------------------------


def test_a_network_that_does_not_look_is_cleared_calmly() -> None:
    body = run_audit(blind(DOMAIN, hidden=(8, 4), seed=1)).to_dict()
    assert body["generation"]["idis"] == body["dm_rs"]["hits"] == body["people"]["hits"] == 0
    assert body["interpretation"]["auc"] == 0
    assert all(layer["biased"] == 0 for layer in body["interpretation"]["layers"])
    assert not body["model"]["constant"]
    assert "No decision changed when" in verdict(typed(body))
    assert "95\u00a0% confidence" in verdict(typed(body))
    assert body["pairs"] == []
    assert body["generation"]["spread"] is body["generation"]["cells"] is None
    assert body["generation"]["cpu_ms_per_1000_idis"] is None
    ablated = body["interpretation"]["ablation"]
    assert ablated["before"] == ablated["biased_zeroed"] == ablated["random_zeroed"] == 0


def constant() -> nn.Sequential:
    network = planted(DOMAIN)
    last = network.output
    assert isinstance(last, nn.Linear)
    with torch.no_grad():
        last.weight.zero_()
        last.bias.copy_(torch.tensor([3.0, 0.0]))
    return network


def test_a_network_that_always_says_the_same_is_reported_as_such_and_not_as_fair(
    tmp_path: Path,
) -> None:
    audit = run_audit(constant())
    body = audit.to_dict()
    assert body["model"]["constant"]
    assert "same answer" in verdict(typed(body))
    assert "not fairness" in verdict(typed(body))
    assert body["generation"]["idis"] == 0
    fp.save(audit, tmp_path / "run")
    assert files_in(tmp_path / "run") == FILES


def one_corner(corner: float) -> nn.Sequential:
    """Class 1 only where merit + 4 · gender > corner; one hidden neuron that tells how far away
    that is.
    """
    weight = -torch.tensor([[1.0, 4.0, 1.0, 1.0]])
    return nn.Sequential(
        linear(weight, torch.tensor([corner + 1])),
        nn.ReLU(),
        linear(torch.tensor([[1.0], [0.0]]), torch.tensor([0.0, 0.6])),
    )


def test_the_verdict_never_denies_what_the_search_found() -> None:
    # Nobody in the data, and none of a few drawn people, reaches the corner where gender decides;
    # the search climbs there.
    x = DATA.x.copy()
    x[:, 0] = np.minimum(x[:, 0], 15)
    data = Dataset(name="toy", domain=Domain(ATTRIBUTES), x=x, y=DATA.y, classes=DATA.classes)
    network = one_corner(50)
    audit = fp.audit(data, network, "gender", people="possible", budget=SMALL, samples=3)
    body = audit.to_dict()
    assert body["generation"]["idis"] > 0
    assert body["dm_rs"]["hits"] == body["people"]["hits"] == 0
    assert not body["model"]["constant"]
    assert "changes nothing" not in verdict(typed(body))
    assert f"{body['generation']['idis']:,}" in audit.model_card()


# -- what an audit refuses -------------------------------------------------------------------------


def table(**columns: Any) -> Dataset:
    fields: dict[str, Any] = {
        "name": "toy",
        "domain": Domain(ATTRIBUTES),
        "x": DATA.x,
        "y": DATA.y,
        "classes": DATA.classes,
    }
    return Dataset(**(fields | columns))


def only_women() -> Rows:
    x = DATA.x.copy()
    x[:, 1] = 0
    return x


NO_MODEL: Any = "model.pkl"
REFUSED: dict[str, tuple[Callable[[], object], type[FairprobeError], str]] = {
    "an unknown attribute": (
        lambda: fp.audit(DATA, planted(DOMAIN), "gendr"),
        DomainError,
        "Did you mean 'gender'",
    ),
    "no attribute": (
        lambda: fp.audit(DATA, planted(DOMAIN), ()),
        DomainError,
        "at least one sensitive attribute",
    ),
    "an attribute twice": (
        lambda: fp.audit(DATA, planted(DOMAIN), ("race", "race")),
        DomainError,
        "named twice",
    ),
    "every attribute": (lambda: fp.audit(DATA, planted(DOMAIN), DOMAIN.names), DomainError, "."),
    "an unknown method": (
        lambda: run_audit(method="magic"),
        SettingError,
        "no method 'magic'.*neuronfair",
    ),
    "an unknown variant": (
        lambda: run_audit(method="neuronfair", variant="jump"),
        SettingError,
        "revert, walk, paper; got 'jump'",
    ),
    "a variant of no method": (
        lambda: run_audit(variant="walk"),
        SettingError,
        "goes with a method, and none is named",
    ),
    "a negative seed": (lambda: run_audit(seed=-1), SettingError, "seed"),
    "no sample": (lambda: run_audit(samples=0), SettingError, "samples"),
    "a negative sample": (lambda: run_audit(samples=-5), SettingError, "samples"),
    "a variant of another method": (
        lambda: run_audit(method="adf", variant="paper"),
        SettingError,
        "seed, walk; got 'paper'",
    ),
    "a variant where there is none": (
        lambda: run_audit(method="themis", variant="fast"),
        SettingError,
        "has no variants; got 'fast'",
    ),
    "a variant beside a method": (
        lambda: run_audit(method=ADF(), variant="walk"),
        SettingError,
        "goes with a method's name",
    ),
    "a method that is none": (
        lambda: run_audit(method=ADF),
        SettingError,
        r"such as fairprobe\.search\.ADF\(\); got <class",
    ),
    "a model that is none": (
        lambda: run_audit(NO_MODEL),
        ModelError,
        "is a pickle, and opening a pickle runs whatever program is in it",
    ),
    "a black box to look into": (
        lambda: run_audit(Model(lambda x: np.full(len(x), 0.5)), method="neuronfair"),
        ModelError,
        "a black box was given.*or give the network itself",
    ),
    "an empty group": (
        lambda: fp.audit(table(x=only_women()), planted(DOMAIN), "gender"),
        DataError,
        r"same value of 'gender' \(female\).*Add rows of another group",
    ),
    "too narrow a network": (
        lambda: run_audit(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))),
        ModelError,
        r"takes 3 columns; 'toy' has 4.*not given gender, say so \(`blind_to`\)",
    ),
    "too wide a network": (
        lambda: run_audit(nn.Sequential(nn.Linear(9, 4), nn.ReLU(), nn.Linear(4, 2))),
        ModelError,
        "takes 9 columns; 'toy' has 4, a number for each attribute",
    ),
    "more answers than classes": (
        lambda: run_audit(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3))),
        ModelError,
        "3.*2",
    ),
    "no hidden layer": (
        lambda: run_audit(nn.Sequential(nn.Linear(4, 2)), method="neuronfair"),
        ModelError,
        "no hidden layer",
    ),
    "attributes called like columns of the findings": (
        lambda: fp.audit(
            Dataset(
                name="toy",
                domain=Domain(
                    (Attribute(name="gap", low=0, high=9), Attribute(name="g", low=0, high=1))
                ),
                x=np.array([[1, 0], [2, 1]], dtype=np.float32),
                y=np.array([0, 1]),
                classes=("no", "yes"),
            ),
            nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)),
            "g",
        ),
        DomainError,
        "cannot be called 'gap'",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_audited_is_refused_in_words(what: str) -> None:
    attempt, kind, message = REFUSED[what]
    with pytest.raises(kind, match=message):
        attempt()


def test_a_group_that_is_only_missing_values_is_no_group() -> None:
    domain = Domain(
        (Attribute(name="a", low=0, high=9), Attribute(name="g", low=0, high=1, missing=9))
    )
    x = np.array([[i % 10, 0 if i % 3 else 9] for i in range(100)], dtype=np.float32)
    data = Dataset(
        name="toy", domain=domain, x=x, y=(x[:, 0] > 4).astype(np.int64), classes=("no", "yes")
    )
    with pytest.raises(DataError, match="no groups to compare"):
        data.with_sensitive("g")


def test_an_unknown_mode_is_refused_before_any_work_is_done() -> None:
    stages: list[str] = []
    with pytest.raises(SettingError):
        run_audit(variant="jump", progress=lambda stage, *_: stages.append(stage))
    assert stages == []


# -- interrupts ------------------------------------------------------------------------------------


def test_an_interrupted_search_still_gives_a_whole_audit(tmp_path: Path) -> None:
    def stop(stage: str, at: int, total: int, note: str) -> None:
        if stage == "Searching" and "local" in note:
            raise KeyboardInterrupt

    audit = run_audit(progress=stop, people="possible")
    body = audit.to_dict()
    assert body["generation"]["stopped"] == "interrupted"
    assert body["generation"]["idis"] > 0
    fp.save(audit, tmp_path / "run")
    assert files_in(tmp_path / "run") == FILES
    assert (
        len(Findings.load(tmp_path / "run" / "findings.parquet", DOMAIN))
        == body["generation"]["idis"]
    )


def test_an_interrupt_before_the_search_leaves_no_folder(tmp_path: Path) -> None:
    def stop(stage: str, *_: Any) -> None:
        if stage == "Sampling the domain":
            raise KeyboardInterrupt

    def interrupted() -> None:
        with RunFolder(tmp_path / "run") as staged:
            staged.fill(run_audit(progress=stop, findings_to=staged.findings))

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


# -- the folder ------------------------------------------------------------------------------------


def test_a_run_folder_is_complete_and_nothing_lies_beside_it(run: Path) -> None:
    assert files_in(run) == FILES
    assert [path.name for path in run.parent.iterdir()] == ["run"]
    assert run.stat().st_mode & 0o777 == 0o755
    assert all((run / name).stat().st_mode & 0o777 == 0o644 for name in FILES)


def test_the_json_of_a_run_is_plain_json_and_the_document(
    run: Path, document: dict[str, Any]
) -> None:
    text = (run / "audit.json").read_text(encoding="utf-8")
    body = json.loads(text, parse_constant=no_constant)
    assert without_times(body) == without_times(document) | {"command": ""}
    assert read_document(run) == read_document(str(run)) == body


def test_the_findings_of_a_run_are_those_of_the_audit(run: Path, done: Audit) -> None:
    again = Findings.load(run / "findings.parquet", DOMAIN)
    np.testing.assert_array_equal(again.x, done.findings.x)
    assert judge(DOMAIN, done.model, again.x).is_discriminatory.all()


def test_saving_returns_the_audit_with_its_findings_on_disk(done: Audit, tmp_path: Path) -> None:
    saved = fp.save(done, tmp_path / "run")
    assert saved.findings.path == tmp_path / "run" / "findings.parquet"
    assert saved.findings.table is None
    assert len(saved.findings) == len(done.findings)
    assert without_times(saved.to_dict()) == without_times(done.to_dict())


def test_the_network_of_a_run_answers_as_the_one_that_was_audited(tmp_path: Path) -> None:
    trained = fp.networks.train(networks.dense(DOMAIN, (8, 4), seed=0), DATA, seed=0)
    fp.save(run_audit(trained), tmp_path / "run")
    again = networks.load(tmp_path / "run" / "model", DOMAIN)
    np.testing.assert_array_equal(again.probabilities(DATA.x), trained.probabilities(DATA.x))


def test_a_network_of_the_users_own_keeps_its_weights(run: Path, done: Audit) -> None:
    assert isinstance(done.model, TorchModel)
    weights = load_file(run / "model" / "model.safetensors")
    assert {name: value.tolist() for name, value in weights.items()} == {
        name: value.tolist() for name, value in done.model.module.state_dict().items()
    }
    with pytest.raises(ModelError, match="network of your own"):
        networks.load(run / "model", DOMAIN)


def test_findings_streamed_into_the_folder_are_not_written_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any) -> NoReturn:
        raise AssertionError("saved again")

    with RunFolder(tmp_path / "run") as staged:
        audit = run_audit(findings_to=staged.findings)
        monkeypatch.setattr(Findings, "save", never)
        document = staged.fill(audit, command="fairprobe audit toy")
    assert files_in(tmp_path / "run") == FILES
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert isinstance(document, TableRun)
    assert document.generation.idis == len(
        Findings.load(tmp_path / "run" / "findings.parquet", DOMAIN)
    )
    assert to_dict(document) == read_document(tmp_path / "run")
    assert document.command == "fairprobe audit toy"


def test_folders_above_the_run_are_made(done: Audit, tmp_path: Path) -> None:
    fp.save(done, tmp_path / "a" / "b" / "run")
    assert files_in(tmp_path / "a" / "b" / "run") == FILES


def test_an_empty_folder_may_become_the_run(done: Audit, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    fp.save(done, tmp_path / "run")
    assert files_in(tmp_path / "run") == FILES
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_the_folder_one_stands_in_may_become_the_run_or_is_refused_at_once(
    done: Audit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, temporary: Path
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    try:
        RunFolder(".").__exit__(None, None, None)
    except FairprobeError:
        return  # said before any work was done
    fp.save(done, ".")
    assert files_in(here) == FILES


# -- folders that are there already ----------------------------------------------------------------


def test_an_existing_run_is_not_touched_unless_allowed(run: Path, done: Audit) -> None:
    before = content_of(run)
    with pytest.raises(SettingError, match=r"exists and is not empty.*--overwrite"):
        fp.save(done, run)
    assert content_of(run) == before
    assert [path.name for path in run.parent.iterdir()] == ["run"]


def test_a_run_that_may_be_replaced_is_replaced_whole(run: Path, other: Audit) -> None:
    (run / "left-over.txt").write_text("from the older run")
    fp.save(other, run, overwrite=True)
    assert files_in(run) == FILES
    assert read_document(run)["seed"] == 1
    assert [path.name for path in run.parent.iterdir()] == ["run"]


SOMETHING_ELSE: dict[str, dict[str, str]] = {
    "no audit.json at all": {"thesis.tex": "years of work"},
    "an audit.json of another program": {
        "audit.json": '{"auditReportVersion": 2}',
        "thesis.tex": "years of work",
    },
    "an audit.json that is no JSON": {
        "audit.json": "see thesis.tex",
        "thesis.tex": "years of work",
    },
}


@pytest.mark.parametrize("what", SOMETHING_ELSE)
def test_a_folder_that_is_no_run_is_never_replaced_even_if_allowed(
    done: Audit, tmp_path: Path, what: str
) -> None:
    folder = tmp_path / "precious"
    folder.mkdir()
    for name, text in SOMETHING_ELSE[what].items():
        (folder / name).write_text(text)
    with pytest.raises(SettingError, match="no fairprobe run"):
        fp.save(done, folder, overwrite=True)
    assert {name: text.decode() for name, text in content_of(folder).items()} == SOMETHING_ELSE[
        what
    ]


def test_a_file_in_the_place_of_the_folder_is_refused_and_kept(done: Audit, tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file")
    for overwrite in (False, True):
        with pytest.raises(SettingError, match="is a file; name a folder"):
            fp.save(done, tmp_path / "run", overwrite=overwrite)
    assert (tmp_path / "run").read_text() == "a file"


def test_a_run_that_appeared_meanwhile_is_not_replaced_and_nothing_is_lost(
    done: Audit, other: Audit, tmp_path: Path, temporary: Path
) -> None:
    place = tmp_path / "runs" / "run"
    with RunFolder(place) as late:
        fp.save(other, tmp_path / "run")
        shutil.copytree(tmp_path / "run", place)  # somebody else was faster
        with pytest.raises(FairprobeError) as caught:
            late.fill(done)
    assert read_document(place)["seed"] == 1
    assert files_in(place) == FILES
    assert [path.name for path in place.parent.iterdir()] == ["run"]
    assert files_in(rescued_in(str(caught.value))) == FILES


# -- things that go wrong in the middle ------------------------------------------------------------


def full(*_: Any, **__: Any) -> NoReturn:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def crash(*_: Any, **__: Any) -> NoReturn:
    raise RuntimeError("a bug")


def rescued_in(message: str) -> Path:
    """The folder that the message names."""
    match = re.search(r"(/\S*fairprobe-rescued-\w+)", message)
    assert match is not None, message
    return Path(match[1])


STEPS: dict[str, tuple[Any, str]] = {
    "the findings": (Findings, "save"),
    "the network": (networks, "save"),
    "the document": (base_module, "write_text"),
    "the report": (html, "page"),
    "the last move": (RunFolder, "take_place"),
}


@contextmanager
def failing(
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    error: Callable[..., NoReturn],
    *,
    times: int = 10**9,
) -> Iterator[list[int]]:
    """One step of writing a run fails, the first so many times."""
    place, name = STEPS[step]
    real, calls = getattr(place, name), list[int]()

    def sometimes(*args: Any, **options: Any) -> Any:
        calls.append(len(calls))
        return error() if len(calls) <= times else real(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(place, name, sometimes)
        yield calls


@pytest.mark.parametrize("step", STEPS)
def test_a_failure_in_the_middle_leaves_no_folder(
    done: Audit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    with failing(monkeypatch, step, crash) as calls, pytest.raises(RuntimeError, match="a bug"):
        fp.save(done, tmp_path / "run")
    assert calls
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [full, crash])
@pytest.mark.parametrize("step", STEPS)
def test_a_failure_in_the_middle_leaves_an_existing_run_as_it_was(
    run: Path,
    other: Audit,
    monkeypatch: pytest.MonkeyPatch,
    temporary: Path,
    step: str,
    error: Callable[..., NoReturn],
) -> None:
    before = content_of(run)
    with failing(monkeypatch, step, error), pytest.raises((RuntimeError, StorageError)):
        fp.save(other, run, overwrite=True)
    assert content_of(run) == before
    assert sorted(path.name for path in run.parent.iterdir()) == ["run", "system-tmp"]


@pytest.mark.parametrize("step", STEPS)
def test_a_disk_that_is_full_at_the_end_costs_nothing_the_whole_run_is_rescued(
    done: Audit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, temporary: Path, step: str
) -> None:
    with (
        failing(monkeypatch, step, full, times=1),
        pytest.raises(StorageError, match="No space left on device") as caught,
    ):
        fp.save(done, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    rescued = rescued_in(str(caught.value))
    assert rescued.parent == temporary
    assert files_in(rescued) == FILES
    assert read_document(rescued)["generation"]["idis"] == len(done.findings)
    np.testing.assert_array_equal(
        Findings.load(rescued / "findings.parquet", DOMAIN).x, done.findings.x
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["system-tmp"]


def test_streamed_findings_are_rescued_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, temporary: Path
) -> None:
    def stream_and_fail() -> None:
        with RunFolder(tmp_path / "run") as staged:
            audit = run_audit(findings_to=staged.findings)
            assert audit.findings.path is not None
            counts.append(len(audit.findings))
            staged.fill(audit)

    counts: list[int] = []
    with failing(monkeypatch, "the network", full, times=1), pytest.raises(StorageError) as caught:
        stream_and_fail()
    assert (
        len(Findings.load(rescued_in(str(caught.value)) / "findings.parquet", DOMAIN))
        == counts[0]
        > 0
    )


@pytest.mark.parametrize("step", ["the network", "the report"])
def test_when_a_part_can_be_written_nowhere_the_findings_are_still_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, temporary: Path, step: str
) -> None:
    # A network that cannot be written, say: the findings, already on disk, must not go down with
    # it.
    def stream_and_fail() -> None:
        with RunFolder(tmp_path / "run") as staged:
            staged.fill(run_audit(findings_to=staged.findings))

    with failing(monkeypatch, step, full), pytest.raises(StorageError) as caught:
        stream_and_fail()
    named = [
        Path(word.rstrip(".,;:")) for word in str(caught.value).split() if word.startswith("/")
    ]
    kept = [path for path in named if path.is_file() or (path / "findings.parquet").is_file()]
    assert kept, f"no findings where the message says: {caught.value}"


def test_a_disk_that_is_full_everywhere_says_so_and_the_findings_stay_in_memory(
    done: Audit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, temporary: Path
) -> None:
    with (
        failing(monkeypatch, "the findings", full),
        pytest.raises(StorageError, match="still in memory"),
    ):
        fp.save(done, tmp_path / "run")
    assert files_in(tmp_path) == set()
    assert len(done.findings) > 0
    assert len(Findings.load(done.findings.save(tmp_path / "later.parquet"), DOMAIN)) == len(
        done.findings
    )


def test_the_message_of_a_full_disk_reads_well(
    done: Audit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, temporary: Path
) -> None:
    real = storage.write_text

    def sometimes(path: Path, text: str) -> None:
        if path.parent.name == "run":
            raise StorageError(
                f"Cannot write {path}: No space left on device. Free some space or choose another"
                " place."
            )
        real(path, text)

    monkeypatch.setattr(base_module, "write_text", sometimes)
    with pytest.raises(StorageError) as caught:
        fp.save(done, tmp_path / "run")
    message = str(caught.value)
    assert ".." not in message
    assert message.count("Cannot write") == 1, message
    assert "/.run." not in message, "a hidden folder that will be gone when this is read"


def test_a_move_that_fails_half_way_puts_the_older_run_back(
    run: Path, other: Audit, monkeypatch: pytest.MonkeyPatch, temporary: Path
) -> None:
    before, real = content_of(run), Path.rename

    def rename(path: Path, target: Path) -> Path:
        if Path(target) == run and path.name == "run":
            full()
        return real(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(storage, "_exchange", lambda *_: False)
        patch.setattr(Path, "rename", rename)
        with pytest.raises(StorageError) as caught:
            fp.save(other, run, overwrite=True)
    assert run.is_dir(), sorted(path.name for path in run.parent.iterdir())
    assert content_of(run) == before
    assert files_in(rescued_in(str(caught.value))) == FILES


def somewhere_below(folder: Path) -> list[dict[str, bytes]]:
    """The content of every folder that holds a document."""
    return [content_of(path.parent) for path in folder.rglob("audit.json")]


def test_a_disk_that_fails_at_every_move_never_costs_the_older_run(
    run: Path, other: Audit, monkeypatch: pytest.MonkeyPatch, temporary: Path
) -> None:
    before, real = content_of(run), Path.rename

    def rename(path: Path, target: Path) -> Path:
        return full() if Path(target) == run else real(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(storage, "_exchange", lambda *_: False)
        patch.setattr(Path, "rename", rename)
        with pytest.raises(StorageError):
            fp.save(other, run, overwrite=True)
    assert before in somewhere_below(run.parent), "the older run was deleted"


def test_an_interrupt_between_the_two_moves_never_costs_the_older_run(
    run: Path, other: Audit, monkeypatch: pytest.MonkeyPatch, temporary: Path
) -> None:
    before, real = content_of(run), Path.rename

    def rename(path: Path, target: Path) -> Path:
        if Path(target) == run and path.name == "run":
            raise KeyboardInterrupt
        return real(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(storage, "_exchange", lambda *_: False)
        patch.setattr(Path, "rename", rename)
        with pytest.raises(KeyboardInterrupt):
            fp.save(other, run, overwrite=True)
    assert before in somewhere_below(run.parent), "the older run was deleted"


@pytest.mark.parametrize("kind", [ModelError, StorageError])
def test_an_error_that_ends_a_search_names_the_place_of_what_was_found_before(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch, kind: type[FairprobeError]
) -> None:
    calls: list[int] = []

    def fail(domain: Domain, model: Model, x: Rows) -> Verdict:
        calls.append(len(x))
        if len(calls) > 20:
            raise kind("Something broke.")
        return judge(domain, model, x)

    def stream() -> None:
        with RunFolder(tmp_path / "run") as staged:
            staged.fill(run_audit(findings_to=staged.findings, people="possible"))

    monkeypatch.setattr(loop, "judge", fail)
    with pytest.raises(kind, match="Something broke") as caught:
        stream()
    match = re.search(r"(/\S+\.parquet)", str(caught.value))
    assert match is not None, f"no place is named: {caught.value}"
    assert len(Findings.load(match[1], DOMAIN)) > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["system-tmp"]


# -- places that cannot be written -----------------------------------------------------------------


def test_a_place_below_a_file_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "file" / "run", tmp_path / "file" / "deeper" / "run"):
        with pytest.raises(StorageError, match=r"Cannot write to .*file.*Choose another place"):
            RunFolder(place)
    assert (tmp_path / "file").read_text() == "x"


def test_a_name_too_long_for_the_disk_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="too long"):
        RunFolder(tmp_path / ("x" * 300))


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root may write anywhere; nobody may not."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("mode", [0o555, 0o000])
def test_a_folder_without_the_right_to_write_or_to_look_is_refused_in_words(mode: int) -> None:
    closed = Path(tempfile.mkdtemp())
    try:
        closed.chmod(mode)
        with as_nobody(), pytest.raises(StorageError, match="Permission denied"):
            RunFolder(closed / "run")
    finally:
        closed.chmod(0o755)
        shutil.rmtree(closed)


# -- reading a run ---------------------------------------------------------------------------------


def cut(text: str) -> bytes:
    return text[: len(text) // 2].encode()


BROKEN: dict[str, Callable[[str], bytes]] = {
    "truncated": cut,
    "empty": lambda _: b"",
    "garbage": lambda _: bytes(range(256)),
    "a list": lambda _: b"[1, 2]",
    "a number": lambda _: b"3",
    "somebody else's": lambda _: b'{"auditReportVersion": 2}',
    "a verdict of somebody else's": lambda _: b'{"verdict": "guilty"}',
    "of a later version": lambda text: json.dumps(json.loads(text) | {"format": 99}).encode(),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_document_that_cannot_be_read_is_refused_by_name(run: Path, what: str) -> None:
    path = run / "audit.json"
    path.write_bytes(BROKEN[what](path.read_text(encoding="utf-8")))
    with pytest.raises(
        StorageError, match=r"audit\.json.*Run the audit again|written by another version"
    ):
        read_document(run)


@pytest.mark.parametrize("place", ["nowhere", "run/model", "run/audit.json"])
def test_a_folder_that_is_no_run_is_refused_with_what_to_do(run: Path, place: str) -> None:
    with pytest.raises(StorageError, match=r"audit"):
        read_document(run.parent / place)


# -- networks on disk ------------------------------------------------------------------------------


@pytest.fixture
def saved_network(tmp_path: Path) -> Path:
    networks.save(TorchModel(networks.dense(DOMAIN, (8, 4), seed=0)), tmp_path / "model")
    return tmp_path / "model"


def edit(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        about = json.loads((folder / "model.json").read_text())
        change(about)
        (folder / "model.json").write_text(json.dumps(about))

    return apply


def shorten(name: str) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: len(content) // 2])

    return apply


NETWORK_DAMAGE: dict[str, Callable[[Path], None]] = {
    "no folder": shutil.rmtree,
    "no weights": lambda folder: (folder / "model.safetensors").unlink(),
    "no description": lambda folder: (folder / "model.json").unlink(),
    "truncated weights": shorten("model.safetensors"),
    "truncated description": shorten("model.json"),
    "a description without widths": edit(lambda about: about.pop("inputs")),
    "a description without layers": edit(lambda about: about.pop("hidden")),
    "a description with layers of another network": edit(lambda about: about.update(hidden=[5, 5])),
    "a description with layers that are no numbers": edit(
        lambda about: about.update(hidden="many")
    ),
}


@pytest.mark.parametrize("damage", NETWORK_DAMAGE)
def test_a_network_that_cannot_be_read_is_refused_by_its_place(
    saved_network: Path, damage: str
) -> None:
    NETWORK_DAMAGE[damage](saved_network)
    with pytest.raises(FairprobeError, match=re.escape(str(saved_network))):
        networks.load(saved_network, DOMAIN)


def test_a_network_for_rows_of_another_width_is_refused(saved_network: Path) -> None:
    with pytest.raises(ModelError, match="takes 4 columns; this data has 3"):
        networks.load(saved_network, Domain(ATTRIBUTES[:3]))


def test_an_untouched_network_is_read(saved_network: Path) -> None:
    assert neuron_bias(DOMAIN, networks.load(saved_network, DOMAIN), DATA.x).layers


def test_a_plain_module_on_one_hot_data_gets_the_encoder_of_its_domain() -> None:
    domain = Domain(
        (
            Attribute(name="job", kind="categorical", categories=("a", "b", "c"), one_hot=True),
            Attribute(name="g", low=0, high=1),
        )
    )
    x = domain.sample(200, rng=np.random.default_rng(0))
    data = Dataset(
        name="toy", domain=domain, x=x, y=(x[:, 0] == 1).astype(np.int64), classes=("no", "yes")
    )
    audit = fp.audit(
        data,
        nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)),
        "g",
        budget=SMALL,
        samples=50,
    )
    assert audit.to_dict()["model"]["inputs"] == 4


# -- in a notebook ---------------------------------------------------------------------------------


def test_an_audit_prints_as_one_short_line(done: Audit) -> None:
    assert repr(done) == str(done)
    assert repr(done).startswith("<Audit: ")
    assert len(repr(done)) < 250
    assert "\n" not in repr(done)


def test_a_notebook_shows_the_verdict_and_the_numbers(done: Audit) -> None:
    html = done._repr_html_()
    assert "DM-RS" in html
    assert "<script" not in html


def test_an_audit_saves_and_checks_itself(done: Audit, tmp_path: Path) -> None:
    assert done.save(tmp_path / "run") == tmp_path / "run"
    assert files_in(tmp_path / "run") == FILES
    policy = fp.Policy(limits={"accuracy": 0.0})
    assert done.check(policy).rulings == fp.check(tmp_path / "run", policy).rulings
