"""What is said about a repair: whether it was accepted, what it changed, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from fairprobe.documents import EstimateDocument, GroupIFR, Measured, RateDocument, RepairDocument
from fairprobe.report.formats import change, interval, level, listed, percent, plural

Outcome = Literal["accepted", "refused", "undecided", "forced"]
WithInterval = RateDocument | EstimateDocument | GroupIFR

CONTROLS = {
    "blind": (
        "the sensitive columns taken away, and the same network trained without them: what never"
        " looking costs"
    ),
    "retrained": (
        "the same network trained again without any repair: what a new training alone changes"
    ),
    "random points": (
        "trained again with as many possible people added, labeled by the network: what more data"
        " alone changes"
    ),
}


def outcome(repair: RepairDocument) -> Outcome:
    """The four ways a repair can end."""
    if repair.verdict.outcome == "accepted":
        return "accepted"
    return "forced" if repair.accepted else repair.verdict.outcome


def headline(repair: RepairDocument) -> str:
    """Accepted, refused, undecided, or accepted although; with the reason or their number."""
    kind, reasons = outcome(repair), repair.reasons
    if kind == "accepted":
        return "Repair accepted"
    if repair.verdict.outcome == "undecided" and repair.is_post_hoc:
        said = "the people held out do not settle whether it helps"
        return f"Repair undecided: {said}" if kind == "undecided" else f"Accepted although {said}"
    if repair.verdict.outcome == "undecided":
        said = f"{plural(len(repair.verdict.seeds), 'seed')} did not settle whether it helps"
        return f"Repair undecided: {said}" if kind == "undecided" else f"Accepted although {said}"
    if len(reasons) == 1:
        text = reasons[0].rstrip(".")
        if text[1:2].islower() or text[1:2] == " ":  # a sentence as a part of another one
            text = text[:1].lower() + text[1:]
        return f"Repair refused: {text}" if kind == "refused" else f"Accepted although {text}"
    many = plural(len(reasons), "reason")
    return (
        f"Repair refused for {many}"
        if kind == "refused"
        else f"Accepted although {many} speak against it"
    )


def reasons(repair: RepairDocument) -> list[str]:
    """The reasons and doubts that the headline has no room for."""
    if repair.verdict.outcome == "undecided":
        return repair.verdict.doubts
    return repair.reasons if len(repair.reasons) > 1 else []


def changed(repair: RepairDocument, sensitive: str) -> list[str]:
    """What the repair changed: the rate that it was for, what it cost, and the people held out."""
    before, after = repair.before, repair.after
    was, now = before.people, after.people
    written = [
        (
            f"Changing {sensitive} changed the decision for {percent(was.estimate)} of the people"
            f" in the data before the repair ({level(was.confidence)} interval {interval(was)}) and"
            f" changes it for {percent(now.estimate)} after it"
            f" ({interval(now)}){_relative(was, now)}.{_plausible(repair)} Of all possible people,"
            f" it was {percent(before.dm_rs.estimate)} and is {percent(after.dm_rs.estimate)}"
            f"{_relative(before.dm_rs, after.dm_rs)}."
        ),
        (
            f"Accuracy goes from {percent(before.accuracy.estimate)} to"
            f" {percent(after.accuracy.estimate)} ({change(repair.change.accuracy)}),"
            f" IFR_b from {share(before.ifr_b)} to {share(after.ifr_b)}, IFR_p from"
            f" {share(before.ifr_p)} to {share(after.ifr_p)}."
        ),
    ]
    written += [over_seeds(repair, sensitive)] if not repair.is_post_hoc else handed_over(repair)
    if after.is_constant:
        written.append(
            "The repaired network gives everybody the same answer: it treats all alike because it"
            " decides nothing."
        )
    return written


def handed_over(repair: RepairDocument) -> list[str]:
    """Who is handed to a human, if anybody can be."""
    if (everybody := repair.handed_over.get("")) is None:
        return []
    groups = [
        f"{percent(rate.estimate)} of {name}" for name, rate in repair.handed_over.items() if name
    ]
    return [
        f"Of the people held out, {percent(everybody.estimate)} are handed to a human"
        f" ({level(everybody.confidence)} interval {interval(everybody)}): {listed(groups)}."
        " Accuracy and group measures after the repair are about the others."
    ]


def over_seeds(repair: RepairDocument, sensitive: str) -> str:
    """What the verdict rests on: repaired networks beside networks trained again."""
    seeds = plural(len(repair.verdict.seeds), "seed")
    shares = [
        f"{percent(each.repaired.mean)} of {each.what} instead of {percent(each.control.mean)}"
        for each in repair.verdict.comparisons
        if each.by == sensitive and each.is_judged
    ]
    if not shares:
        return f"The verdict rests on {seeds}."
    return (
        f"The verdict rests on {seeds}: on average the repaired networks discriminate against"
        f" {listed(shares)} with the same network trained again without a repair."
    )


def _plausible(repair: RepairDocument) -> str:
    was, now = repair.before.plausible, repair.after.plausible
    if was is None or now is None:
        return ""
    return (
        f" Of plausible people, it was {percent(was.estimate)} and is {percent(now.estimate)}"
        f" ({interval(now)}){_relative(was, now)}."
    )


def _relative(was: RateDocument, now: RateDocument) -> str:
    """How much that is, and whether it can be chance."""
    if was.estimate in (0, now.estimate):
        return ""
    relative = (now.estimate - was.estimate) / was.estimate
    share = f", {percent(abs(relative))} {'less' if relative < 0 else 'more'}"
    if lie_apart(was, now):
        return share
    return f"{share}, which may be chance: the intervals overlap"


def share(measure: GroupIFR) -> str:
    """A rate, or that it is not defined."""
    return "not defined" if measure.estimate is None else percent(measure.estimate)


def lie_apart(one: WithInterval, other: WithInterval) -> bool:
    """Whether two intervals have nothing in common."""
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return False
    return one.high < other.low or other.high < one.low


def how(repair: RepairDocument) -> str:
    """Which repair it was, and when it is refused."""
    if repair.is_post_hoc:
        return _how_post_hoc(repair)
    start = (
        "trained a network of the same shape from scratch"
        if repair.start == "scratch"
        else "went on training the network from its weights"
    )
    dial, limits = repair.dial, repair.limits
    strength = f", with {dial.name} {dial.value:g} ({dial.means})" if dial.value is not None else ""
    return (
        f"The repair “{repair.name}” {start}{strength}. It did so with"
        f" {plural(len(repair.verdict.seeds), 'seed')}, each beside a control: the same network"
        " trained again without a repair, from the same initial weights. It is accepted if at least"
        f" {percent(repair.verdict.min_help)} fewer people are discriminated against than with the"
        " control, beyond the noise of seeds and people. It is refused if it helps fewer, if the"
        " network then decides nothing or by ties, loses more than"
        f" {change(limits.max_accuracy_drop).lstrip('+')} of accuracy, makes another attribute"
        f" decide for more than {limits.max_harm:g} times as many people, or harms a group."
        " Otherwise it is undecided."
    )


def _how_post_hoc(repair: RepairDocument) -> str:
    """What a repair that trains nothing is judged by."""
    verdict, limits = repair.verdict, repair.limits
    judged = listed(
        [
            f"{each.what}, by {each.by}" if each.by else each.what
            for each in verdict.comparisons
            if each.is_judged
        ]
    )
    return (
        f"The post-hoc repair “{repair.name}”: nothing is trained, and the model stays as it is"
        " behind it. So there are no seeds; the control is the given model, and the noise is that"
        f" of the people. Judged: {judged}. It is accepted if what it is for is at least"
        f" {percent(verdict.min_help)} smaller than with the given model, beyond noise. It is"
        " refused if it helps less, if the model then decides nothing or by ties, loses more than"
        f" {change(limits.max_accuracy_drop).lstrip('+')} of accuracy, makes another attribute"
        f" decide for more than {limits.max_harm:g} times as many people, or harms a group."
        " Otherwise it is undecided."
    )


def compared(repair: RepairDocument) -> str:
    """What the table of comparisons shows."""
    if repair.is_post_hoc:
        return (
            "Shares of people who are discriminated against, accuracy on the people held out, and"
            " the difference between groups if the repair is for them; the same people answered by"
            " both. “Lower by”: two one-sided bounds."
        )
    return (
        "Shares of people who are discriminated against, and accuracy on the people held out, in"
        " pairs of networks trained from the same weights. “Lower by”: two one-sided bounds that"
        f" hold over all looks together. {delivered(repair)}"
    )


def measured_alike(repair: RepairDocument) -> str:
    """On whom the model was measured, before and after."""
    people = (
        "the same fifth of the data (whether your model has learned from these people is not known"
        " here; the repair has not)"
        if repair.is_post_hoc
        else "the same people held out, from whom neither the repair nor its controls learned, and"
        " by whom no setting was chosen"
    )
    return (
        f"Everything was measured in the same way before and after: on {people}, on the same number"
        " of possible people, and by a fresh search with the same budget."
    )


def compared_title(repair: RepairDocument) -> str:
    """The title of that table."""
    if repair.is_post_hoc:
        return "The given model beside the repaired one"
    seeds = plural(len(repair.verdict.seeds), "seed")
    return f"Over {seeds}: means; small: the smallest and largest value"


def delivered(repair: RepairDocument) -> str:
    """Which of the networks is kept."""
    return (
        f"Delivered is the network of seed {repair.verdict.delivered}, chosen on validation people"
        " only: of the half that discriminates against the fewest of them, the most accurate."
        " “After” and the controls are networks of this seed."
    )


def groups_compared(repair: RepairDocument) -> str:
    """Whether groups are harmed, and how many were looked at."""
    verdict = repair.verdict
    harmed = sum(each.is_harm for each in verdict.subgroups)
    found = (
        f"{plural(harmed, 'of them shows', 'of them show')} harm"
        if harmed
        else "No group shows harm"
    )
    return (
        f"{plural(verdict.subgroups_compared, 'comparison')} of groups of at least 30 people held"
        " out: every value of every attribute, alone and within each sensitive value. Harm is a"
        " share that is more than 10 points higher than with the control and the given network,"
        " beyond noise, corrected for all comparisons (Holm), and more than 10 points higher than"
        f" among all others. {found}."
    )


def networks(repair: RepairDocument) -> dict[str, Measured]:
    """All networks that were measured, by name."""
    return {"before": repair.before, "after": repair.after, **repair.controls}


def which_are_constant(repair: RepairDocument) -> str:
    """Which networks decide nothing, if any."""
    dead = [f"“{name}”" for name, each in networks(repair).items() if each.is_constant]
    if not dead:
        return ""
    verb = "gives everybody the same answer" if len(dead) == 1 else "give everybody the same answer"
    return (
        f"{listed(dead)} {verb}: such numbers look perfect where they compare people, and mean"
        " nothing."
    )


def harmed(repair: RepairDocument) -> str:
    """Which other attributes decide for more people after the repair."""
    worse = [
        now.name
        for was, now in zip(repair.before.others, repair.after.others, strict=True)
        if lie_apart(was.dm_rs, now.dm_rs) and now.dm_rs.estimate > was.dm_rs.estimate
    ]
    if worse:
        return f"Significantly worse after the repair, by DM-RS: {listed(worse)}."
    return "For none of them the share of possible people affected rose significantly."


def settings_in_words(settings: Mapping[str, Any], within: str = "") -> list[tuple[str, str]]:
    """Names and values, those of nested settings after the name of what they belong to."""
    rows: list[tuple[str, str]] = []
    for name, value in settings.items():
        label = f"{within}{name.replace('_', ' ')}"
        if isinstance(value, dict):
            rows += settings_in_words(value, f"{label}: ")
        else:
            rows.append((label, "none" if value is None else str(value)))
    return rows
