"""Verdict on an audit of a table, in words, and what the other parts of its report share.

Numbers of the run are compared here, never computed. The tone: what was found and what was not,
never that a model is fair.
"""

from __future__ import annotations

from typing import Literal

from fairprobe.documents.people import Change, ToleranceInfo
from fairprobe.documents.table import DecisionInfo, Search, TableRun
from fairprobe.measures import FRAGILE
from fairprobe.report.formats import (
    amount,
    count,
    decimal,
    interval,
    level,
    listed,
    percent,
    quoted,
    with_interval,
)
from fairprobe.results import Rate

Status = Literal["found", "none", "constant"]
SCORES = (  # of Themis
    *("causal", "causal_low", "causal_high", "group", "group_low", "group_high"),
    *("confidence", "error", "draws"),
)


def name(run: TableRun) -> str:
    """Join the sensitive attributes: gender, or gender and age."""
    return listed(run.sensitive)


def is_amount_network(run: TableRun) -> bool:
    """Return True if the model of amounts is a network."""
    return run.amounts is not None and run.model.parameters is not None


def majority(run: TableRun) -> float:
    """Return the share of the majority class."""
    return getattr(run.model, "majority", 0.0)


def noun(run: TableRun) -> str:
    """Return "network" if the weights are known, else "model"."""
    return "model" if run.interpretation is None and not is_amount_network(run) else "network"


def measured(run: TableRun) -> str:
    """Describe the people measured as held out, where that is known."""
    return "held out" if run.model.trained_here else "measured"


def title(run: TableRun) -> str:
    """Name the data, the amount if it is one, and the sensitive attributes."""
    if run.amounts is not None:
        return f"{run.data.title}: {run.data.label} by {name(run)}"
    return f"{run.data.title}, by {name(run)}"


def changing(run: TableRun) -> str:
    """Name what changes in a counterpart: gender, or gender and, with it, relationship."""
    return f"{name(run)} and, with it, {listed(run.coupled)}" if run.coupled else name(run)


def only(run: TableRun) -> str:
    """Name the same as the subject of a sentence: only gender."""
    return changing(run) if run.coupled else f"only {name(run)}"


def status(run: TableRun) -> Status:
    """Distinguish the three results of an audit."""
    if run.model.constant:
        return "constant"
    hits = [run.generation.idis, run.dm_rs.hits, run.people.hits]
    if run.plausible is not None:
        hits.append(run.plausible.affected.hits)
    return "found" if any(hits) else "none"


def is_blind(run: TableRun) -> bool:
    """Return True if the model is given no sensitive attribute and nothing coupled to one."""
    return {*run.sensitive, *run.coupled} <= set(run.model.blind_to)


def is_no_better(run: TableRun) -> bool:
    """Return True if the majority class is right at least as often as the model."""
    if run.fairness is None:
        return False
    accuracy = run.fairness.quality.accuracy
    return accuracy.samples > 0 and not run.model.constant and accuracy.estimate <= majority(run)


def is_fragile(run: TableRun) -> bool:
    """Return True if more than a few answers change within rounding."""
    return run.people.ties.estimate > FRAGILE and not run.model.constant


def headline(run: TableRun) -> str:
    """State the result in a few words."""
    what, beyond = noun(run), "" if run.amounts is None else " by more than the tolerance"
    case = "Decisions that depend on" if run.amounts is None else "Answers that change with"
    if is_no_better(run):
        return f"The {what} is no better than the majority class"
    if is_fragile(run) and run.amounts is None:
        on = "rounding" if run.chat is None else "answers that vary"
        return f"Decisions of the {what} depend on {on}"
    if status(run) == "none" and is_blind(run):
        return f"The {what} does not use {name(run)}"
    return {
        "found": f"{case} {name(run)}{beyond} were found",
        "none": f"{case} {name(run)}{beyond} were not found",
        "constant": f"The {what} gives everybody the same answer",
    }[status(run)]


def verdict(run: TableRun) -> str:
    """State the result in a few sentences, after what to know before reading it."""
    result = _verdict(run) if run.amounts is None else _amount_verdict(run)
    return " ".join([*_warnings(run), result])


def _warnings(run: TableRun) -> list[str]:
    warnings = []
    if is_no_better(run) and run.fairness is not None:
        warnings.append(
            f"The {noun(run)} is right for {percent(run.fairness.quality.accuracy.estimate)}, no"
            f" better than the majority class ({percent(majority(run))}). Whether such answers are"
            " given fairly means little."
        )
    if is_fragile(run) and run.amounts is None:
        why = "the leading answers are equal up to rounding"
        if run.chat is not None:
            why = "the model's answers to the same question differ, or it gives none"
        warnings.append(
            f"For {percent(run.people.ties.estimate)} of the people in the data the answer changes"
            f" with {name(run)}, but {why}. Such ties are never counted as discrimination, so what"
            " was not found here is no evidence of fairness."
        )
    return warnings


def _verdict(run: TableRun) -> str:
    people, common, found = run.people, run.dm_rs, run.generation
    if status(run) == "constant":
        return _constant(run)
    if status(run) == "none" and is_blind(run):
        return (
            f"The {noun(run)} does not use {name(run)}, so changing {name(run)} alone cannot change"
            " its answer; this holds by construction and does not prove fairness. Other attributes"
            f" may stand in for {name(run)}: see the selection rates by group, and audit the"
            f" {noun(run)} by those attributes as well."
        )
    wider, whom = (
        (common, "possible people")
        if run.plausible is None
        else (run.plausible.affected, "plausible people")
    )
    if status(run) == "none":
        made = "" if wider is common else f"{count(wider.samples)} plausible people, "
        bare = f" (of whom only {name(run)} changed)" if run.coupled else ""
        return (
            f"No decision changed when {only(run)} changed, for {count(people.samples)} people in"
            f" the data, {made}{count(common.samples)} possible people{bare} and"
            f" {count(found.tried)} people tried by the search. With {level(wider.confidence)}"
            f" confidence at most {percent(wider.high)} of {whom} are affected."
        )
    changed = changing(run) if run.coupled else f"only {name(run)}"
    if run.coupled and wider is common:
        whom += f" (changing only {name(run)})"
    return (
        f"Changing {changed} changes the decision for {percent(people.estimate)} of the"
        f" {count(people.samples)} people in the data, and for {percent(wider.estimate)} of {whom}"
        f" ({level(wider.confidence)} interval {interval(wider)})."
    )


def _amount_verdict(run: TableRun) -> str:
    amounts = run.amounts
    assert amounts is not None
    if status(run) == "constant":
        return _constant(run)
    change = amounts.change
    if change.largest == 0 and status(run) == "none":
        return (
            f"For all {count(change.above.samples)} people in the data the answer stays exactly the"
            f" same when {only(run)} changes, and the search found nobody else."
        )
    return (
        f"For {percent(change.above.estimate)} of the people in the data ({_within(change.above)})"
        f" the answer changes with {name(run)} by more than the tolerance"
        f" ({tolerance(amounts.tolerance)}). On average it changes by"
        f" {with_interval(change.mean, amount)}{_deviations(change)}."
    )


def _constant(run: TableRun) -> str:
    return (
        f"The {noun(run)} gives everybody the same answer, so changing {name(run)} changes nothing."
        " That is not fairness: it decides nothing at all."
    )


def _within(rate: Rate) -> str:
    return f"{level(rate.confidence)} interval {interval(rate)}"


def _deviations(change: Change) -> str:
    if change.deviations.estimate is None:
        return ""
    return f", {decimal(change.deviations.estimate)} standard deviations of all answers"


def tolerance(given: ToleranceInfo) -> str:
    """Describe the tolerance."""
    if given.unit == "percent":
        return f"{percent(given.value)} of a person's own answer"
    if given.unit == "amount":
        return amount(given.value)
    spread = "" if given.amount is None else f", that is {amount(given.amount)}"
    return f"{given.value:g} standard deviations of the answers{spread}"


# -- the decision rule and the search --------------------------------------------------------------


def rule_in_short(rule: DecisionInfo) -> str:
    """Describe the decision rule in a few words: decided at 0.30."""
    if rule.costs is not None:
        at = "" if rule.threshold is None else f", which is at {_number(rule.threshold)}"
        return f"decided at the lowest expected cost{at}"
    if not rule.thresholds:
        return f"decided at {_number(rule.threshold)}"
    groups = [f"{_number(value)} for {group}" for group, value in rule.thresholds.items()]
    if rule.threshold is not None:
        groups.append(f"{_number(rule.threshold)} for everybody else")
    return f"decided by {rule.by} at {listed(groups)}"


def rule_sentence(rule: DecisionInfo) -> str:
    """Describe what the decision rule does."""
    if rule.costs is not None and rule.threshold is None:
        text = "Everybody gets the answer with the lowest expected cost."
    else:
        text = (
            f"People get {quoted([rule.answer])} if its probability reaches their threshold: they"
            f" are {rule_in_short(rule)}."
        )
    return f"{text} The probabilities shown are the model’s own."


def _number(threshold: float | None) -> str:
    """Write two digits, or as many as the threshold has."""
    if threshold is None:
        return ""
    short = f"{threshold:.2f}"
    return short if abs(float(short) - threshold) < 1e-9 else f"{threshold:.4g}"


def has_phases(search: Search) -> bool:
    """Return True if the search had a global and a local phase."""
    about = search.description
    return about is None or (about.uses_seeds and about.has_phases)


def themis(run: TableRun) -> dict[str, float]:
    """Return the scores that Themis measured; nothing if another method searched."""
    scores = run.generation.scores
    complete = {key: value for key in SCORES if (value := scores.get(key)) is not None}
    return complete if len(complete) == len(SCORES) and complete["draws"] else {}
