"""What is said about an audit of scores, in words."""

from __future__ import annotations

from fairprobe.documents import ScoresDocument
from fairprobe.documents.scores import Change, Level, ScoredGroups
from fairprobe.report.formats import (
    amount,
    count,
    decimal,
    interval,
    level,
    listed,
    percent,
    plural,
    with_interval,
)

LAW = (
    "The scoring rate is the share of a group whose score is above the median of all people"
    " measured, as New York City's Local Law 144 defines it. The median counts as known. The impact"
    " ratio is a group's rate over the highest one; whether a ratio is acceptable is for people to"
    " decide, and no law is applied here."
)


def sensitive(document: ScoresDocument) -> str:
    """Gender, or gender and age."""
    return listed(document.sensitive)


def noun(document: ScoresDocument) -> str:
    """What the audited thing is called."""
    return "model" if document.model.parameters is None else "network"


def title(document: ScoresDocument) -> str:
    """Which data, which answer, and by what."""
    return f"{document.data.title}: {document.data.label} by {sensitive(document)}"


def is_blind(document: ScoresDocument) -> bool:
    """Whether the model is given none of the sensitive attributes and of what changes along."""
    return {*document.sensitive, *document.coupled} <= set(document.model.blind_to)


def status(document: ScoresDocument) -> str:
    """The three kinds of result: found, none, constant."""
    if document.model.constant:
        return "constant"
    made = document.plausible
    hits = [document.generation.idis, document.dm_rs.hits, document.people.hits]
    return "found" if any(hits) or (made is not None and made.affected.hits) else "none"


def headline(document: ScoresDocument) -> str:
    """The status in a few words, above the verdict."""
    name = sensitive(document)
    if status(document) == "none" and document.change.largest == 0 and is_blind(document):
        return f"The {noun(document)} is not given {name}"
    return {
        "found": f"Answers that change with {name} by more than the tolerance were found",
        "none": f"No answer that changes with {name} by more than the tolerance was found",
        "constant": f"The {noun(document)} gives everybody the same answer",
    }[status(document)]


def tolerance(document: ScoresDocument) -> str:
    """The tolerance in words."""
    given = document.tolerance
    if given.unit == "percent":
        return f"{percent(given.value)} of a person's own answer"
    if given.unit == "amount":
        return amount(given.value)
    spread = "" if given.amount is None else f", that is {amount(given.amount)}"
    return f"{given.value:g} standard deviations of the answers{spread}"


def verdict(document: ScoresDocument) -> str:
    """The result in a few sentences."""
    name, found = sensitive(document), document.change
    if status(document) == "constant":
        return (
            f"The {noun(document)} gives everybody the same answer, so changing {name} changes"
            " nothing. That is not fairness: it decides nothing at all."
        )
    if found.largest == 0 and status(document) == "none":
        return (
            f"For all {count(found.above.samples)} people in the data the answer stays exactly the"
            f" same, whatever {name} is, and the search found nobody else."
        )
    return (
        f"For {percent(found.above.estimate)} of the people in the data"
        f" ({level(found.above.confidence)} interval {interval(found.above)}) the answer changes"
        f" with {name} by more than the tolerance ({tolerance(document)}). On average it changes by"
        f" {with_interval(found.mean, amount)}{_deviations(found)}; the largest change of anybody"
        f" in the data is {amount(found.largest)}."
    )


def _deviations(found: Change) -> str:
    if found.deviations.estimate is None:
        return ""
    return f", {decimal(found.deviations.estimate)} standard deviations of all answers"


def advantage(document: ScoresDocument) -> str:
    """Which sensitive value brings the highest answer to those affected."""
    shares = [each for each in document.people.advantages if each.share > 0]
    if not shares:
        return ""
    best = shares[0]
    return (
        f"Of the {plural(document.people.hits, 'person', 'people')} affected,"
        f" {percent(best.share)} would get their highest answer as “{best.value}”."
    )


def search(document: ScoresDocument) -> str:
    """What the search found."""
    found = document.generation
    people = f"{found.people} people"
    if document.largest_found is None:
        return (
            f"The search (method “{found.method}”, seed {document.seed}) judged"
            f" {count(found.judged)} {people} and found no change beyond the tolerance."
        )
    return (
        f"The search (method “{found.method}”, seed {document.seed}) judged {count(found.judged)}"
        f" {people} for large changes and found {plural(found.idis, 'different case')}; the largest"
        f" change is {amount(document.largest_found)}. The number shows that they exist, not how"
        " common they are."
    )


def plausible(document: ScoresDocument) -> str:
    """What was measured on plausible people."""
    found, made = document.plausible_change, document.plausible
    if found is None or made is None:
        return document.no_plausible
    return (
        f"Among {count(found.above.samples)} plausible people, new people made from the people in"
        f" the data, {percent(found.above.estimate)} ({interval(found.above)}) change by more than"
        f" the tolerance; the mean change is {with_interval(found.mean, amount)}."
    )


def quality(document: ScoresDocument) -> str:
    """How well the model predicts."""
    found = document.quality
    if found is None:
        return "The data has no true amounts, so how well the model predicts was not measured."
    who = "held-out people" if document.model.trained_here else "people"
    return (
        f"On {count(found.rows)} {who} the answer is off by {with_interval(found.error, amount)} on"
        f" average (always saying the mean: {amount(found.error_of_mean)}); R² is"
        f" {decimal(found.r2)}."
    )


def at(found: Level) -> str:
    """A quantile with the ends of its interval that are known."""
    if found.estimate is None:
        return "not bounded"
    low, high = ("?" if end is None else amount(end) for end in (found.low, found.high))
    return f"{amount(found.estimate)} ({low} to {high})"


def difference(found: ScoredGroups) -> str:
    """How far the groups' mean scores lie apart."""
    if found.mean_difference.estimate is None:
        return "Fewer than two groups are large enough to compare their means."
    return (
        f"The means of the groups lie {with_interval(found.mean_difference, amount)} apart, small"
        " groups aside."
    )


def notes(document: ScoresDocument) -> list[str]:
    """What to know to read the numbers rightly."""
    written = []
    if document.tolerance.is_default:
        written.append(
            "Nobody set a tolerance, so 0.1 standard deviations of the answers was used. Decide"
            " which change matters in your case, and set it: --tolerance 500, 5% or 0.1sd."
        )
    if document.quality is not None and document.quality.r2 <= 0:
        written.append(
            f"The {noun(document)} predicts no better than the mean of all amounts; how its answers"
            " change means little."
        )
    if document.change.largest == 0:
        written.append(
            "A change of 0 is one within rounding. That nobody here has a change does not prove"
            " that nobody else does: the interval of the share above the tolerance says how many"
            " there may be."
        )
    written.append(
        "Changes compare a person with a counterpart; the groups' scores compare different people,"
        " and may differ for reasons that the attribute does not cause."
    )
    if document.data.outside.rows:
        written.append(
            f"{count(document.data.outside.rows)} of {count(document.data.rows)} rows have a value"
            " outside the schema's bounds. They count as people in the data as they are."
        )
    if document.model.why_black_box:
        written.append(f"A black box: {document.model.why_black_box}")
    return written
