"""What is said about how severe it is for the affected people, and who they are."""

from __future__ import annotations

from fairprobe.documents import EstimateDocument, RuleRate, TableDocument
from fairprobe.report.formats import SPACE, count, interval, level, listed, percent, plural


def severity(document: TableDocument) -> str:
    """By how much the probability changes for affected people, and between how many decisions they
    stand; nothing where nobody is affected.
    """
    found = document.people.severity
    if found is None or found.gap_median.estimate is None:
        return ""
    if found.gap_median.estimate == 1:
        text = (
            "For at least half of the affected people the probability of their decision changes by"
            f" 100{SPACE}percentage points: the model is certain each time, or gives decisions"
            " without probabilities."
        )
    else:
        text = (
            "For half of the affected people the probability of their decision changes by"
            f" {_points(found.gap_median)} or more ({_interval(found.gap_median)}), for one in ten"
            f" by {_points(found.gap_p90)} or more ({_interval(found.gap_p90)})."
        )
    numbers = [
        f"{plural(each.people, 'person', 'people')} could get {count(each.decisions)}"
        for each in found.decisions
        if each.decisions > 1
    ]
    if len(document.data.classes) > 2 and numbers:
        text += f" Over all sensitive values, {listed(numbers)} different decisions."
    return text


def in_short(document: TableDocument) -> str:
    """The same in a line."""
    found = document.people.severity
    if found is None or found.gap_median.estimate is None:
        return ""
    most = max((each.decisions for each in found.decisions), default=0)
    decisions = f"; up to {count(most)} different decisions" if most > 2 else ""
    return (
        f"probability changes by {_points(found.gap_median)} or more for half of them, by"
        f" {_points(found.gap_p90)} or more for one in ten{decisions}"
    )


def _points(gap: EstimateDocument) -> str:
    return f"{100 * (gap.estimate or 0):.1f}{SPACE}percentage points"


def _interval(gap: EstimateDocument) -> str:
    return f"{level(gap.confidence)} interval {interval(gap, lambda value: f'{100 * value:.1f}')}"


# -- groups and rules ------------------------------------------------------------------------------


def intervals(document: TableDocument) -> str:
    """What the intervals of the groups are corrected for."""
    people = document.people
    return (
        f"{plural(people.groups_compared, 'group was', 'groups were')} compared; their intervals"
        f" are wide enough to hold all together with {level(people.confidence)} confidence."
    )


def standing_out(document: TableDocument) -> list[RuleRate]:
    """The rules whose whole interval lies above the share of everybody."""
    people = document.people
    return [rule for rule in people.rules if rule.low > people.estimate]


def rules(document: TableDocument) -> str:
    """How the rules were found and measured."""
    people = document.people
    if not people.rules:
        return (
            "No short rule says who is affected: no division of the people by their attributes"
            " tells the affected ones apart better than chance would."
        )
    none = (
        ""
        if standing_out(document)
        else f" None of them lies clearly above the share of everybody, {percent(people.estimate)}."
    )
    return (
        f"A small tree divides the people in the data into {count(len(people.rules))} groups. It"
        " was grown on one half of them; the shares are measured on the other half. The intervals"
        f" of all its rules hold together with {level(people.confidence)} confidence.{none}"
    )


def rule(document: TableDocument) -> str:
    """The rule of the most affected people."""
    if not (found := standing_out(document)):
        return ""
    return (
        f"Most affected, by a short rule: {found[0].rule}. Of {count(found[0].samples)} such people"
        f" {percent(found[0].estimate)} are affected (interval {interval(found[0])}, corrected for"
        f" {count(len(document.people.rules))} rules)."
    )
