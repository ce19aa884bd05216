"""Report of a repair, as sections of a run's report: its verdict, before and after and controls,
the seeds, the trade-off, groups of people, other attributes. Models of classes and of amounts have
the same report; what was not measured is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

from fairprobe.catalogue import MEASURES
from fairprobe.documents.repair import Measured, Point, Proof, Spread
from fairprobe.metrics.individual import IFR_B
from fairprobe.metrics.rates import DM_RS
from fairprobe.repairs.comparisons import MIN_HELP
from fairprobe.repairs.series import BLIND, RANDOM, RETRAINED
from fairprobe.report import Cell, Line, Lines, Notes, Number, Plot, Section, Table, Text, Verdict
from fairprobe.report.formats import (
    change,
    count,
    decimal,
    interval,
    level,
    listed,
    percent,
    plural,
    points,
)
from fairprobe.report.sections import Status, Unit, WithInterval

Ending: TypeAlias = Literal["accepted", "refused", "undecided", "forced"]
Value: TypeAlias = Any  # a number, with or without an interval, or None
STATUSES: dict[Ending, Status] = {"accepted": "none", "refused": "found"}
CONTROLS = {
    BLIND: "without the sensitive columns",
    RETRAINED: "trained again",
    RANDOM: "with random people",
}
LOWER_IS_BETTER, HIGHER_IS_BETTER, NEITHER = -1, 1, 0


def repair_summary(proof: Proof, name: str) -> Section:
    """Say what came of the repair; `name` joins the sensitive attributes."""
    return Section(
        "Repair",
        [
            Verdict(headline(proof), "", STATUSES.get(ending(proof), "unclear")),
            Notes([*_objections(proof), *changes(proof, name)]),
        ],
        level="summary",
    )


def repair_section(proof: Proof, classes: Sequence[str]) -> Section:
    """Show what the repair did, compared with its controls."""
    return Section(
        "What the repair did",
        [
            Text(_how(proof)),
            before_and_after(proof, classes),
            Text(_constant(proof), "warning"),
            _tradeoff(proof),
            _over_seeds(proof),
            Text(_groups_compared(proof), "note"),
            _subgroups(proof),
            _other_attributes(proof),
        ],
        anchor="repair",
    )


# -- the verdict -----------------------------------------------------------------------------------


def ending(proof: Proof) -> Ending:
    """Tell the four ways apart in which a repair can end."""
    return "forced" if proof.accepted and proof.outcome != "accepted" else proof.outcome


def headline(proof: Proof) -> str:
    """State whether the repair was accepted, with the only reason or the number of reasons."""
    forced = proof.accepted
    if proof.outcome == "accepted":
        return "Repair accepted"
    if proof.outcome == "undecided":
        who = "the people held out do" if proof.is_post_hoc else f"{_seeds(proof)} did"
        open_ = f"{who} not settle whether it helps"
        return f"Accepted although {open_}" if forced else f"Repair undecided: {open_}"
    if len(proof.reasons) > 1:
        many = plural(len(proof.reasons), "reason")
        return (
            f"Accepted although {many} speak against it" if forced else f"Repair refused for {many}"
        )
    reason = proof.reasons[0].rstrip(".")
    if reason[1:2].islower() or reason[1:2] == " ":  # a sentence as a part of another one
        reason = reason[:1].lower() + reason[1:]
    return f"Accepted although {reason}" if forced else f"Repair refused: {reason}"


def _objections(proof: Proof) -> Sequence[str]:
    """List the reasons and doubts that the headline has no room for."""
    if proof.outcome == "undecided":
        return proof.doubts
    return proof.reasons if len(proof.reasons) > 1 else []


def changes(proof: Proof, name: str) -> list[str]:
    """Describe what changed: the rate that the repair was for, its cost, the people held out."""
    before, after = proof.before, proof.after
    was, now = before.people, after.people
    answer = "the answer by more than the tolerance" if proof.is_of_amounts else "the decision"
    affected = (
        f"Changing {name} changed {answer} for {percent(was.estimate)} of the people in the data"
        f" before the repair ({level(was.confidence)} interval {interval(was)}) and changes it for"
        f" {percent(now.estimate)} after it ({interval(now)}){_relative(was, now)}."
    )
    if before.plausible is not None and after.plausible is not None:
        affected += (
            f" Of plausible people, it was {percent(before.plausible.estimate)} and is"
            f" {percent(after.plausible.estimate)} ({interval(after.plausible)})"
            f"{_relative(before.plausible, after.plausible)}."
        )
    affected += (
        f" Of all possible people, it was {percent(before.dm_rs.estimate)} and is"
        f" {percent(after.dm_rs.estimate)}{_relative(before.dm_rs, after.dm_rs)}."
    )
    sentences = [affected, _cost(before, after)]
    sentences += _handed_over(proof) if proof.is_post_hoc else [_verdict_over_seeds(proof, name)]
    if after.is_constant:
        sentences.append(
            "The repaired network gives everybody the same answer: nobody is treated differently,"
            " because it decides nothing."
        )
    return sentences


def _cost(before: Measured, after: Measured) -> str:
    if before.accuracy is not None and after.accuracy is not None:
        return (
            f"Accuracy goes from {percent(before.accuracy.estimate)} to"
            f" {percent(after.accuracy.estimate)}"
            f" ({change(after.accuracy.estimate - before.accuracy.estimate)}), IFR_b from"
            f" {_text(before.ifr_b)} to {_text(after.ifr_b)}, IFR_p from {_text(before.ifr_p)} to"
            f" {_text(after.ifr_p)}."
        )
    change_was, change_is, error_was, error_is = (
        _text(value, "amount")
        for value in (_change(before), _change(after), _error(before), _error(after))
    )
    return (
        f"The mean change goes from {change_was} to {change_is}, the mean error on people held out"
        f" from {error_was} to {error_is}."
    )


def _change(model: Measured) -> Value:
    return None if model.change is None else model.change.mean


def _error(model: Measured) -> Value:
    return None if model.quality is None else model.quality.error


def _handed_over(proof: Proof) -> list[str]:
    """Say who is handed to a human, if anybody can be."""
    if (everybody := proof.handed_over.get("")) is None:
        return []
    groups = [f"{percent(rate.estimate)} of {of}" for of, rate in proof.handed_over.items() if of]
    return [
        f"Of the people held out, {percent(everybody.estimate)} are handed to a human"
        f" ({level(everybody.confidence)} interval {interval(everybody)}): {listed(groups)}."
        " Accuracy and group measures after the repair are about the others."
    ]


def _verdict_over_seeds(proof: Proof, name: str) -> str:
    shares = [
        f"{percent(each.repaired.mean)} of {each.what} instead of {percent(each.control.mean)}"
        for each in proof.decision.comparisons
        if each.by == name and each.is_judged
    ]
    if not shares:
        return f"The verdict rests on {_seeds(proof)}."
    return (
        f"The verdict rests on {_seeds(proof)}: on average the repaired networks discriminate"
        f" against {listed(shares)} with the same network trained again without a repair."
    )


def _seeds(proof: Proof) -> str:
    return plural(len(proof.seeds), "seed")


def _relative(was: WithInterval, now: WithInterval) -> str:
    """Write the relative change, and whether it may be chance."""
    if not was.estimate or now.estimate is None or now.estimate == was.estimate:
        return ""
    relative = (now.estimate - was.estimate) / was.estimate
    direction = "less" if relative < 0 else "more"
    chance = "" if lie_apart(was, now) else ", which may be chance: the intervals overlap"
    return f", {percent(abs(relative))} {direction}{chance}"


def lie_apart(first: WithInterval, second: WithInterval) -> bool:
    """Return True if two intervals have nothing in common."""
    if first.low is None or first.high is None or second.low is None or second.high is None:
        return False
    return first.high < second.low or second.high < first.low


# -- how it was judged -----------------------------------------------------------------------------


def _how(proof: Proof) -> str:
    """Explain which repair it was, and when a repair is refused."""
    limits, drop = proof.limits, proof.limits.max_accuracy_drop
    if proof.is_post_hoc:
        judged = [each.name for each in proof.decision.comparisons if each.is_judged]
        way = (
            f"The post-hoc repair “{proof.name}”: nothing is trained, and the model stays as it is"
            " behind it. So there are no seeds; the control is the given model, and the noise is"
            f" that of the people. Judged: {listed(judged)}."
        )
    else:
        start = (
            "trained a network of the same shape from scratch"
            if proof.start == "scratch"
            else "went on training the network from its weights"
        )
        dial = proof.dial
        strength = "" if dial.value is None else f", with {dial.name} {dial.value:g} ({dial.means})"
        way = (
            f"The repair “{proof.name}” {start}{strength}. It did so with {_seeds(proof)}, each"
            " compared with a control: the same network trained again without a repair, from the"
            f" same initial weights. Delivered is the network of seed {proof.delivered}, chosen on"
            " validation people only: of the half that discriminates against the fewest of them,"
            " the most accurate. “After” and the controls are networks of this seed."
        )
    cost = f"loses more than {change(drop).lstrip('+')} of accuracy"
    if proof.is_of_amounts:
        cost = f"adds more than {points(drop)} of error (100 %: always answering the mean)"
    return (
        f"{way} A repair is accepted if what it is for is at least {percent(MIN_HELP)} smaller than"
        " with the control, beyond noise. It is refused if it helps less, if the model then decides"
        f" nothing or by ties, {cost}, makes another attribute decide for more than"
        f" {limits.max_harm:g} times as many people, or harms a group. Otherwise it is undecided."
    )


def _constant(proof: Proof) -> str:
    """Name the networks that decide nothing."""
    dead = [f"“{name}”" for name, each in _models(proof).items() if each.is_constant]
    if not dead:
        return ""
    return (
        f"{listed(dead)} {'gives' if len(dead) == 1 else 'give'} everybody the same answer: such"
        " numbers look perfect where they compare people, and mean nothing."
    )


def _groups_compared(proof: Proof) -> str:
    harmed = sum(group.is_harm for group in proof.subgroups)
    found = plural(harmed, "of them shows", "of them show") if harmed else "No group shows"
    return (
        f"{plural(proof.subgroups_compared, 'comparison')} of groups of at least 30 people held"
        " out: every value of every attribute, alone and within each sensitive value. Harm is a"
        " share that is more than 10 points higher than with the control and the given network,"
        " beyond noise, corrected for all comparisons (Holm), and more than 10 points higher than"
        f" among all others. {found} harm."
    )


# -- tables ----------------------------------------------------------------------------------------


def _models(proof: Proof) -> dict[str, Measured]:
    """Name all models that were measured."""
    return {"before": proof.before, "after": proof.after, **proof.controls}


def before_and_after(proof: Proof, classes: Sequence[str]) -> Table:
    """List every measure of every model, marked where it lies apart from before."""
    models = _models(proof)
    rows: list[list[str | Cell]] = []

    def add(
        label: str,
        read: Callable[[Measured], Value],
        unit: Unit = "share",
        better: int = LOWER_IS_BETTER,
    ) -> None:
        values = [read(model) for model in models.values()]
        if all(value is None for value in values):
            return
        title = label
        if label in MEASURES:
            measure = MEASURES[label]
            title, unit = measure.title, measure.unit
            better = HIGHER_IS_BETTER if measure.direction == "at least" else LOWER_IS_BETTER
        cells = [
            _compared(values[0], value, unit, better, is_constant=model.is_constant)
            for value, model in zip(values, models.values(), strict=True)
        ]
        rows.append([title, *cells])

    add("accuracy", lambda model: model.accuracy)
    add("f1", lambda model: model.f1)
    add("mcc", lambda model: model.mcc)
    add("Share selected", lambda model: model.selected, better=NEITHER)
    add("Mean error, people held out", _error, "amount")
    add("r2", lambda model: model.quality and model.quality.r2)
    add(MEASURES["change"].title, _change, "amount")
    add("people", lambda model: model.people)
    for name in proof.before.alone:
        add(f"… by {name} alone", lambda model, name=name: model.alone.get(name))  # type: ignore[misc]
    add("plausible_people", lambda model: model.plausible)
    add("dm_rs", lambda model: model.dm_rs)
    add("ifr_b", lambda model: model.ifr_b)
    add("ifr_p", lambda model: model.ifr_p)
    add("demographic_parity", lambda model: model.dp)
    for number, name in enumerate(classes if proof.before.eo else ()):
        odds = f"ΔEO, truth “{name}”"
        add(odds, lambda model, number=number: model.eo[number], "number")  # type: ignore[misc]
    cells = [Cell(count(each.idis), f"of {count(each.tried)} tried") for each in models.values()]
    rows.append([MEASURES["idis"].title, *cells])
    add("Possible people proved", lambda model: model.proved, better=NEITHER)
    add("AUC of the neurons", lambda model: model.auc, "number", NEITHER)
    add("Scale-free AUC", lambda model: model.auc_scale_free, "number", NEITHER)
    head = ("", *(CONTROLS.get(name, name) for name in models))
    return Table(head, rows, "Before, after, and controls. In small print: intervals.")


def _compared(was: Value, now: Value, unit: Unit, better: int, *, is_constant: bool) -> Cell:
    """Write a number, marked only where its interval lies apart from what it was. A network that
    decides nothing is never better.
    """
    number = Number(now, unit=unit)
    cell = Cell(number.text, number.interval)
    if better == NEITHER or now is None or isinstance(now, float) or not lie_apart(was, now):
        return cell
    rises = (now.estimate or 0) > (was.estimate or 0)
    if rises != (better == HIGHER_IS_BETTER):
        return Cell(cell.text, cell.small, "worse", "worse")
    return cell if is_constant else Cell(cell.text, cell.small, "", "better")


def _text(value: Value, unit: Unit = "share") -> str:
    number = Number(value, unit=unit)
    return "not defined" if number.estimate is None else number.text


def _over_seeds(proof: Proof) -> Table:
    """Compare repaired networks with their controls, over the seeds."""
    post_hoc = proof.is_post_hoc
    rows = [
        (
            comparison.name,
            _spread(comparison.control, is_single=post_hoc),
            _spread(comparison.repaired, is_single=post_hoc),
            f"{100 * comparison.low:.1f} to {100 * comparison.high:.1f} points".replace("-", "−"),
            "yes" if comparison.is_judged else "no",
        )
        for comparison in proof.decision.comparisons
    ]
    caption = (
        "The given model and the repaired one, on the same people."
        if post_hoc
        else f"Over {_seeds(proof)}: means; small: the smallest and largest value."
    )
    return Table(
        ("", "given" if post_hoc else "trained again", "repaired", "lower by", "judged"),
        rows,
        f"{caption} “Lower by”: two one-sided bounds, which hold over all looks together.",
        words=(0, 4),
        folded=True,
    )


def _spread(spread: Spread, *, is_single: bool) -> Cell:
    ends = f"{percent(spread.least)} to {percent(spread.most)}"
    return Cell(percent(spread.mean), "" if is_single else ends)


def _subgroups(proof: Proof) -> Table:
    """List the groups whose share rose most clearly."""
    rows = [
        (
            group.name,
            group.share,
            count(group.people),
            *(percent(share) for share in (group.given, group.control, group.repaired, group.rest)),
            decimal(group.p),
            "harm" if group.is_harm else "",
        )
        for group in proof.subgroups
    ]
    head = ("group", "share", "people", "given", "control", "repaired", "all others", "p", "")
    return Table(head, rows, "Groups whose share rose most", words=(0, 1, 8), folded=True)


def _other_attributes(proof: Proof) -> Table:
    """List the attributes that the repair was not for, before and after."""
    is_constant, rows = proof.after.is_constant, []
    for was, now in zip(proof.before.others, proof.after.others, strict=True):
        row: list[str | Cell] = [was.name]
        for first, last, better in (
            (was.dm_rs, now.dm_rs, LOWER_IS_BETTER),
            (was.ifr_b, now.ifr_b, HIGHER_IS_BETTER),
        ):
            row += [
                _compared(first, value, "share", better, is_constant=is_constant)
                for value in (first, last)
                if value is not None
            ]
        rows.append(row)
    head = ("attribute", f"{DM_RS.title}, before", "after", f"{IFR_B.title}, before", "after")
    width = len(rows[0]) if rows else 0
    return Table(head[:width], rows, "Other protected attributes", folded=True)


def _tradeoff(proof: Proof) -> Plot | None:
    """Show accuracy and individual fairness for each strength of the repair."""
    if not proof.curve:
        return None
    dial, amounts = proof.dial, proof.is_of_amounts
    chosen = next((point for point in proof.curve if point.is_chosen), None)
    which = "" if chosen is None else f" {dial.name.capitalize()} {chosen.setting:g} was chosen."
    marks = [
        (f"{point.setting:g}", point.quality, fairness)
        for point in proof.curve
        if (fairness := point.change if amounts else point.fairness) is not None
    ]
    line = Line("strengths", [x for _, x, _ in marks], [y for *_, y in marks], is_dashed=True)
    fair = "mean change (sd)" if amounts else "IFR_p"
    quality = "1 − error" if amounts else "accuracy"
    return Plot(
        f"The trade-off: {quality} and {fair}, by {dial.name}",
        Lines([line], quality, fair, "share", "number" if amounts else "share", marks),
        f"Each point is a network repaired with this {dial.name} ({dial.means}), measured on"
        f" validation people; the test people are kept out of every choice.{which}",
        Table(
            (
                "point",
                dial.name,
                quality,
                fair,
                "affected" if amounts else IFR_B.title,
                DM_RS.title,
                "remark",
            ),
            [_point(number, point) for number, point in enumerate(proof.curve, start=1)],
            words=(0, 6),
        ),
    )


def _point(number: int, point: Point) -> Sequence[str | Number]:
    remarks = {
        "chosen": point.is_chosen,
        "not beaten": point.is_best,
        "same answer for all": point.is_constant,
        f"{percent(point.proved or 0)} proved": point.proved is not None,
    }
    return (
        str(number),
        f"{point.setting:g}",
        Number(point.quality if point.accuracy is None else point.accuracy),
        Number(point.change, unit="number") if point.ifr_p is None else Number(point.ifr_p),
        Number(point.affected if point.ifr_b is None else point.ifr_b),
        Number(point.dm_rs),
        ", ".join(word for word, holds in remarks.items() if holds),
    )
