"""What the report and the terminal say of a repair: from a real proof to plain data, and from plain
data to words and pictures.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairprobe.audits.repair_document import repair_document as typed_repair_document
from fairprobe.datasets import Dataset
from fairprobe.documents import (
    EstimateDocument,
    RepairDocument,
    TradeoffPoint,
    from_dict,
    to_dict,
)
from fairprobe.errors import StorageError
from fairprobe.metrics import as_estimate, fairness, individual_fairness
from fairprobe.metrics.rates import affected_rate, dm_rs
from fairprobe.models import TorchModel
from fairprobe.present import repair_figures, repair_sentences
from fairprobe.present.table import Table
from fairprobe.repairs import Counterfactual
from fairprobe.repairs.comparisons import Answers, Trial
from fairprobe.repairs.curve import Point
from fairprobe.repairs.measured import Measured, OtherAttribute
from fairprobe.repairs.proof import Proof
from fairprobe.repairs.retrain import Retrain
from fairprobe.repairs.verdict import Decision, Limits
from fairprobe.search import Budget
from fairprobe.search.neuron_bias import neuron_bias
from tests.helpers import known, merit, planted, tiny_domain
from tests.present.test_report import parsed, read
from tests.present.test_report_documents import (
    Document,
    collapsed,
    document,
    point,
    refused,
    repair,
    repair_verdict,
    repaired,
)

DOMAIN = tiny_domain("gender")
X = DOMAIN.sample(300, rng=np.random.default_rng(3))
DATA = Dataset(
    name="toy",
    domain=DOMAIN,
    x=X,
    y=(merit(DOMAIN, X) > 7).astype(np.int64),
    classes=("no", "yes"),
    label="job",
    favourable=1,
)


def repair_document(proof: Proof) -> dict[str, Any]:
    return to_dict(typed_repair_document(proof))


def network(bias: float) -> TorchModel:
    return TorchModel(planted(DOMAIN, bias=bias, cut=7.25))


def measured_network(model: TorchModel) -> Measured:
    held_out, inside = fairness(DATA, model, DATA.split(0).test), neuron_bias(DOMAIN, model, X)
    assert held_out.group is not None
    whole, scores = held_out.group.tables[0], held_out.quality.scores
    other = DOMAIN.with_sensitive("race")
    return Measured(
        accuracy=held_out.quality.accuracy,
        f1=as_estimate(scores["f1"]),
        mcc=as_estimate(scores["mcc"]),
        selected=held_out.group.selected,
        ifr_b=held_out.individual.b,
        ifr_p=held_out.individual.p,
        dp=whole.dp,
        eo=tuple(map(as_estimate, whole.eo)),
        people=affected_rate(DOMAIN, model, X),
        plausible=None,
        dm_rs=dm_rs(DOMAIN, model, rng=np.random.default_rng(0), samples=2000),
        idis=12,
        tried=34,
        auc=inside.auc,
        auc_scale_free=float("nan"),
        others=(
            OtherAttribute(
                name="race",
                dm_rs=dm_rs(other, model, rng=np.random.default_rng(0), samples=500),
                ifr_b=individual_fairness(other, model, X).b,
            ),
        ),
        is_constant=False,
        alone={},
    )


@pytest.fixture(scope="module")
def proof() -> Proof:
    before, after = measured_network(network(4)), measured_network(network(0))
    chosen = Point(
        setting=2.0,
        accuracy=after.accuracy,
        ifr_b=after.ifr_b,
        ifr_p=after.ifr_p,
        dm_rs=after.dm_rs,
        dp=after.dp,
        is_constant=False,
        is_best=True,
        is_chosen=True,
    )
    labels = DATA.y[DATA.split(0).test]
    answers = Answers(labels, labels > 1)
    return Proof(
        repair=Counterfactual(strength=2.0, start="fine-tune"),
        model=network(0),
        before=before,
        after=after,
        controls={"blind": after, "retrained": before},
        curve=(chosen,),
        trials=(Trial(0, answers, answers),),
        truth=labels,
        delivered=0,
        decision=Decision((), (), ()),
        groups=(),
        forced=False,
        limits=Limits(),
    )


# -- a proof as plain data -------------------------------------------------------------------------


def test_a_proof_becomes_plain_data_that_says_the_same(proof: Proof) -> None:
    body = repair_document(proof)
    assert json.loads(json.dumps(body, allow_nan=False)) == body
    assert (body["name"], body["start"]) == ("counterfactual", "fine-tune")
    assert body["dial"] == {"name": "strength", "means": Counterfactual.dial_means, "value": 2.0}
    assert (body["accepted"], body["forced"], body["reasons"]) == (True, False, [])
    assert body["limits"] == {"max_accuracy_drop": 0.02, "max_harm": 1.3}
    assert list(body["controls"]) == ["blind", "retrained"]
    assert body["controls"]["retrained"] == body["before"] != body["after"]
    assert body["before"]["dm_rs"]["hits"] == proof.before.dm_rs.hits > 0
    assert body["after"]["dm_rs"]["hits"] == 0
    assert [each["name"] for each in body["after"]["others"]] == ["race"]
    assert len(body["after"]["eo"]) == 2
    assert body["curve"][0]["is_chosen"]
    assert body["before"]["auc_scale_free"] is None


def test_the_changes_are_worked_out_once(proof: Proof) -> None:
    change = repair_document(proof)["change"]
    assert change["dm_rs"] == -1.0
    assert change["accuracy"] == pytest.approx(
        known(proof.after.accuracy).estimate - known(proof.before.accuracy).estimate
    )
    nothing_to_lower = replace(proof, before=proof.after)
    assert repair_document(nothing_to_lower)["change"] == {"accuracy": 0.0, "dm_rs": None}


def test_settings_within_settings_are_kept_and_the_dial_stands_apart(proof: Proof) -> None:
    body = repair_document(replace(proof, repair=Retrain(share=0.2, budget=Budget(seeds=7))))
    assert body["dial"]["value"] == 0.2
    assert "share" not in body["settings"]
    assert "start" not in body["settings"]
    assert body["settings"]["budget"]["seeds"] == 7
    assert body["settings"]["training"]["optimizer"] == "adam"


def test_a_real_proof_is_shown(proof: Proof) -> None:
    body = document() | {"repair": repair_document(proof)}
    text = read(body).text
    assert "Repair accepted" in text
    assert "changes it for 0 % after it" in text
    assert "100 % less" in text


# -- the banner ------------------------------------------------------------------------------------


def test_an_accepted_repair_says_what_changed_with_intervals() -> None:
    text = parsed(repaired).text
    for words in (
        "Fairness audit of a repaired network", "Repair accepted",
        "Changing gender changed the decision for 4.5 % of the people in the data before the"
        " repair (95 % interval 4.0 % to 5.0 %) "
        "and changes it for 0.31 % after it (0 % to 0.81 %), 93.1 % less. Of plausible people, it"
        " was 4.5 % and is 0.31 % (0 % to 0.81 %), 93.1 % less. Of all possible people, it was"
        " 4.5 % and is 0.31 %, 93.1 % less.",
        "Accuracy goes from 84.0 % to 83.7 % (−0.3 points), IFRb"
        " from 90.9 % to 98.7 %, IFRp from 37.5 % to 97.1 %.",
        "The verdict rests on 4 seeds: on average the repaired networks discriminate against 0.30 %"
        " of people held out instead of 4.4 % and 0.40 % of plausible people instead of 5.0 % with"
        " the same network trained again without a repair.",
        "Over 4 seeds",
        "Delivered is the network of seed 17",
        "322 comparisons of groups",
        "relationship Wife",
    ):  # fmt: skip
        assert words in text, words


def test_a_refused_repair_says_why_and_that_a_change_may_be_chance() -> None:
    text = parsed(refused).text
    assert "Repair refused: the accuracy falls by 7.9 points; at most 1.5 are allowed" in text
    assert "2.0 % more, which may be chance: the intervals overlap." in text
    assert "IFRp from 37.5 % to not defined" in text
    assert "Repair accepted" not in text


def test_a_repair_accepted_all_the_same_names_every_reason_and_the_collapse() -> None:
    text = parsed(collapsed).text
    assert "Accepted although 2 reasons speak against it" in text
    assert "It gives everybody the same answer." in text
    assert "it treats all alike because it decides nothing" in text
    assert "“after” gives everybody the same answer: such numbers look perfect" in text


REASONS = {
    "Repair refused: it costs too much": (False, ["It costs too much."]),
    "Repair refused: IFR_b falls": (False, ["IFR_b falls."]),
    "Repair refused for 2 reasons": (False, ["a", "b"]),
    "Accepted although a network remains that decides nothing": (
        True,
        ["A network remains that decides nothing."],
    ),
    "Repair accepted": (True, []),
}


@pytest.mark.parametrize("words", REASONS)
def test_the_headline_is_a_sentence(words: str) -> None:
    accepted, reasons = REASONS[words]
    verdict = repair_verdict("refused" if reasons else "accepted")
    body = {"accepted": accepted, "forced": accepted, "reasons": reasons, "verdict": verdict}
    assert repair_sentences.headline(from_dict(repair() | body, RepairDocument)) == words


def test_an_undecided_repair_says_so_with_its_doubts() -> None:
    body = repaired()
    verdict = repair_verdict("undecided", ("After 4 seeds it is open.",))
    body["repair"] |= {"accepted": False, "verdict": verdict}
    text = read(body).text
    assert "Repair undecided: 4 seeds did not settle whether it helps" in text
    assert "After 4 seeds it is open." in text
    body["repair"] |= {"accepted": True, "forced": True}
    assert "Accepted although 4 seeds did not settle whether it helps" in read(body).text


def test_a_document_that_contradicts_its_verdict_is_refused() -> None:
    with pytest.raises(StorageError, match="accepted against its verdict"):
        from_dict(repair() | {"verdict": repair_verdict("refused")}, RepairDocument)
    with pytest.raises(StorageError, match="was not trained"):
        from_dict(repair() | {"verdict": repair_verdict() | {"delivered": 3}}, RepairDocument)


# -- before and after ------------------------------------------------------------------------------


def repair_of(body: Document) -> RepairDocument:
    return from_dict(body["repair"], RepairDocument)


def shown_table(body: Document) -> Table:
    return repair_figures.before_and_after(repair_of(body), body["data"]["classes"])


def row(body: Document, name: str) -> list[Any]:
    return next(
        list(cells) for label, *cells in shown_table(body).rows if str(label).startswith(name)
    )


def test_the_table_has_a_column_for_before_after_and_each_control() -> None:
    table = shown_table(repaired())
    assert table.head == ("", "before", "after", "blind", "retrained", "random points")
    names = [label for label, *_ in table.rows]
    wanted = [
        "accuracy",
        "F1",
        "MCC",
        "share selected",
        "people in the data affected",
        "plausible people affected",
        "DM-RS",
        "IFR_b",
        "IFR_p",
        "ΔDP",
        "ΔEO, truth “<=50K”",
        "ΔEO, truth “>50K”",
    ]
    assert all(
        str(label).startswith(name)
        for label, name in zip(names, [*wanted, "IDIs", "AUC", "scale-free AUC"], strict=True)
    )
    assert all(len(cells) == 5 for _, *cells in table.rows)


def test_only_what_lies_apart_from_before_is_marked() -> None:
    body = repaired()
    assert [cell.kind for cell in row(body, "accuracy")] == ["", "", "", "", ""]
    assert [cell.kind for cell in row(body, "DM-RS")] == ["", "better", "better", "", "worse"]
    assert [cell.kind for cell in row(body, "IFR_p")] == ["", "better", "better", "", "worse"]
    assert {
        cell.kind for name in ("share selected", "IDIs", "AUC") for cell in row(body, name)
    } == {""}


def test_a_network_that_decides_nothing_is_never_better_but_can_be_worse() -> None:
    body = collapsed()
    assert [cell.kind for cell in row(body, "DM-RS")][:2] == ["", ""]
    assert [cell.kind for cell in row(body, "accuracy")][:2] == ["", "worse"]
    assert row(body, "AUC")[1].text == "–"


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 0.2))
def test_nothing_is_marked_while_intervals_touch(was: float, now: float, half: float) -> None:
    one, other, without = (
        EstimateDocument(estimate=at, low=low, high=high, samples=9, confidence=0.95)
        for at, low, high in (
            (was, was - half, was + half),
            (now, now - half, now + half),
            (now, None, None),
        )
    )
    assert repair_sentences.lie_apart(one, other) == (
        was + half < now - half or now + half < was - half
    )
    assert not repair_sentences.lie_apart(one, one)
    assert not repair_sentences.lie_apart(one, without)


def test_attributes_that_fare_worse_are_marked_and_named() -> None:
    shown, calm = repair_of(refused()), repair_of(repaired())
    table = repair_figures.other_attributes(shown)
    assert table is not None
    assert [[cell.kind for cell in cells] for _, *cells in table.cells] == [
        ["", "worse", "", ""],
        ["", "", "", ""],
    ]
    assert repair_sentences.harmed(shown) == "Significantly worse after the repair, by DM-RS: race."
    assert repair_sentences.harmed(calm).startswith("For none of them")
    assert "Other sensitive attributes" not in parsed(collapsed).text


def typed_point(*numbers: float, **marks: bool) -> TradeoffPoint:
    return from_dict(point(*numbers, **marks), TradeoffPoint)


# -- the trade-off ---------------------------------------------------------------------------------


def test_the_picture_labels_every_point_and_the_table_has_its_numbers() -> None:
    text = parsed(repaired).text
    for words in (
        "The trade-off: accuracy and IFRp, by strength",
        "The ringed one, strength 20, was chosen",
        "chosen, not beaten",
        "96.7 % to 97.7 %",
    ):
        assert words in text, words


def test_points_without_a_rate_are_not_drawn_but_listed() -> None:
    assert "same answer for all" in parsed(collapsed).text
