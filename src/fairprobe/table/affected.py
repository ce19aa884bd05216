"""Sections about the people who are affected: who they are, who their counterparts are, and the
most striking pairs that the search found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fairprobe.documents.people import (
    BothCounterparts,
    CouplingCount,
    GroupRate,
    People,
    Resemblance,
    RuleRate,
    ScorePair,
)
from fairprobe.documents.table import PairDocument, TableRun
from fairprobe.report import Bar, Bars, Number, Pair, Plot, Section, Side, Table, Text
from fairprobe.report.formats import (
    amount,
    count,
    decimal,
    level,
    listed,
    one_in,
    percent,
    plural,
    points,
)
from fairprobe.results import Rate
from fairprobe.table.people import PEOPLE
from fairprobe.table.severity import severity_section
from fairprobe.table.words import changing, has_phases, name, noun, only

MAX_BARS = 24  # more make a figure that nobody reads
MAX_PAIRS = 2  # shown before unfolding
MAX_SHARED = 10  # attributes that both people of a pair have in common
MAX_REST = 60  # attributes that are listed at all
MAX_CATEGORIES = 6  # named in a sentence


# -- people ----------------------------------------------------------------------------------------


def affected_section(run: TableRun) -> Section:
    """Show who is affected, by sensitive value and by other attributes."""
    people = run.people
    return Section(
        "Who is affected",
        [
            Text(_affected(run)),
            *([] if run.amounts is not None else _advantage(run)),
            severity_section(people.severity, len(run.data.classes)),
            _groups_plot(run),
            _rules_section(people),
            _plausible_section(run),
            _twins_section(run),
        ],
        anchor="affected",
    )


def values_plot(run: TableRun, most: int = MAX_BARS) -> Plot:
    """Show the people affected, by sensitive value, with their intervals."""
    people = run.people
    values = people.values
    if len(values) > most:
        values = sorted(values, key=lambda group: -group.low)[:most]
    hidden = len(people.values) - len(values)
    rest = f" {plural(hidden, 'value')} with lower shares are not shown." if hidden else ""
    what = "decision changes" if run.amounts is None else "answer changes beyond the tolerance"
    return Plot(
        f"People in the data affected, by {name(run)}",
        Bars([_bar(group.value, group) for group in values], reference=_everybody(people)),
        f"The share whose {what} if {only(run)} changes; in parentheses: people. Lines:"
        f" {level(people.confidence)} intervals.{rest}",
    )


def _bar(label: str, rate: Rate) -> Bar:
    return Bar(label, rate, f" ({count(rate.samples)})")


def _everybody(people: People) -> tuple[str, float]:
    return f"everybody: {percent(people.estimate)}", people.estimate


def _affected(run: TableRun) -> str:
    people = run.people
    missing = ""
    if people.no_counterpart:
        number = plural(people.no_counterpart, "person", "people")
        missing = f" {number} without an allowed counterpart are not counted."
    answer = "decision" if run.amounts is None else "answer"
    if people.hits == 0:
        return (
            f"None of the {count(people.samples)} people in the data would get another {answer} if"
            f" {only(run)} were different.{missing}"
        )
    return (
        f"{count(people.hits)} of the {count(people.samples)} people in the data would get another"
        f" {answer} if {only(run)} were different.{missing}"
    )


def _advantage(run: TableRun) -> Iterator[Text]:
    """Name the sensitive values that would help the affected people most and least."""
    people = run.people
    if not people.hits:
        return
    if not people.advantages:
        yield Text(
            "No answer was declared the favorable one, so the report does not say whom the"
            " difference helps."
        )
        return
    best, worst = people.advantages[0], people.advantages[-1]
    who = f"Of the {plural(people.hits, 'person', 'people')} affected, {percent(best.share)}"
    would = f"would get the favorable answer ({run.data.label}: {run.data.favourable_class})"
    if best.share == worst.share:
        yield Text(f"{who} {would} with every value of {name(run)}.")
    else:
        yield Text(f"{who} {would} as “{best.value}”, {percent(worst.share)} as “{worst.value}”.")


def _groups_plot(run: TableRun) -> Plot | Text | None:
    """Show the groups of people most affected, if any stands out."""
    people = run.people
    if not people.hits:
        return None
    compared = (
        f"{plural(people.groups_compared, 'group was', 'groups were')} compared; the intervals of"
        f" all together have {level(people.confidence)} confidence."
    )
    if not people.groups:
        return Text(f"No group stands out: {compared}", "note")
    return Plot(
        "Groups most affected",
        Bars(
            [_bar(f"{group.attribute}: {group.value}", group) for group in people.groups],
            reference=_everybody(people),
        ),
        f"Groups whose whole interval lies above the share of everybody. {compared}",
    )


def _rules_section(people: People) -> Section:
    """Show the rules that describe who is affected, those that stand out first."""
    if not people.hits:
        return Section("Short rules", [])
    if not people.rules:
        return Section(
            "Short rules",
            [Text("No short rule separates the affected people from the others.", "note")],
        )
    striking = [rule for rule in people.rules if rule.low > people.estimate]
    about = (
        f"A small tree divides the people in the data into {count(len(people.rules))} groups. It is"
        " grown on one half of them and measured on the other; the intervals of all rules together"
        f" have {level(people.confidence)} confidence."
    )
    return Section(
        "Short rules",
        [
            Text("" if striking else "No rule lies clearly above the share of everybody.", "note"),
            _rules_table(striking[:3]) if striking else None,
            Table(*_rules_rows(people.rules), caption=f"All rules. {about}", folded=True),
        ],
    )


def _rules_table(rules: Sequence[RuleRate]) -> Table:
    return Table(*_rules_rows(rules))


def _rules_rows(
    rules: Sequence[RuleRate],
) -> tuple[tuple[str, ...], list[tuple[str | Number, ...]]]:
    head = ("who", "people", "affected")
    return head, [(rule.rule, count(rule.samples), Number(rule, unit="share")) for rule in rules]


def rates_table(groups: Sequence[GroupRate], everybody: Rate) -> Table:
    """List groups of people with their rates."""
    rows: list[tuple[str, Rate]] = [
        (f"{group.attribute}: {group.value}", group) for group in groups
    ]
    return Table(
        ("group", "people", "affected"),
        [
            (label, count(rate.samples), Number(rate, unit="share"))
            for label, rate in [*rows, ("everybody", everybody)]
        ],
        folded=True,
    )


# -- plausible people ------------------------------------------------------------------------------


def _plausible_section(run: TableRun) -> Section:
    made = run.plausible
    if made is None:
        return Section(
            "Plausible people", [Text(run.no_plausible, "note")] if run.no_plausible else []
        )
    blocks = [
        Text(
            f"New people, made from {count(made.records)} people in the data. Nobody is a copy of a"
            f" record, and all are more ordinary than the oddest {percent(made.limit)} of real"
            f" people. {_resemblance(made.resemblance, 'held-out people')}"
        ),
        Text(
            f"The findings of the search: {_resemblance(made.findings, 'affected held-out people')}"
        )
        if made.findings
        else None,
    ]
    return Section("Plausible people", blocks, level="appendix")


def _resemblance(alike: Resemblance, whom: str) -> str:
    if alike.distance is None or alike.distance_of_held_out is None:
        return "There are no held-out people to compare them with."
    near = (
        f"The nearest record is {decimal(alike.distance)} attributes away in the median"
        f" ({decimal(alike.distance_of_held_out)} for held-out people)."
    )
    if alike.auc is None:
        return f"Only {count(alike.compared)} {whom} can be compared, too few for an AUC. {near}"
    return (
        f"Gradient-boosted trees distinguish them from {whom} with an AUC of {decimal(alike.auc)}"
        f" (0.5: not at all, 1: always; {count(alike.compared)} of each). {near}"
    )


# -- counterparts ----------------------------------------------------------------------------------


def definition(run: TableRun) -> str:
    """Define a counterpart in this audit."""
    if not run.coupled:
        return f"A person’s counterpart is a copy that differs in {name(run)} and in nothing else."
    roles = listed(_roles(coupling) for coupling in run.counterparts.couplings)
    return (
        f"A person’s counterpart is a twin: a copy that differs in {name(run)}, in what changes"
        f" along with it ({roles}), and in nothing else."
    )


def _twins_section(run: TableRun) -> Section:
    """Compare what bare counterparts and twins find."""
    used = run.counterparts
    both = [] if used.both is None else [_both_table(run, used.both)]
    suggested = (
        f"The table suggests that this changes along as well: {listed(used.suggested)}. The"
        " evidence is too weak to assume it; domain.toml has the counts, and how to declare it."
    )
    return Section(
        "Twins and bare counterparts",
        [
            *both,
            *(Text(_coupling(coupling), "note") for coupling in used.couplings),
            Text(suggested, "note") if used.suggested else None,
        ],
    )


def _both_table(run: TableRun, both: BothCounterparts) -> Table:
    used = "twins" if run.counterparts.kind == "twins" else "bare counterparts"
    coupled = listed(coupling.attribute for coupling in run.counterparts.couplings)
    return Table(
        ("affected", "by twins", "by bare counterparts"),
        [
            ("everybody", Number(both.twins, PEOPLE), Number(both.bare, PEOPLE)),
            (
                f"people with a coupled {coupled}",
                Number(both.twins_coupled, PEOPLE),
                Number(both.bare_coupled, PEOPLE),
            ),
            ("all others", Number(both.others, PEOPLE), Number(both.others, PEOPLE)),
        ],
        f"This audit uses {used}. A bare counterpart changes only {name(run)}, as in the papers;"
        " possible people always have bare counterparts.",
    )


def _roles(coupling: CouplingCount) -> str:
    """Describe a coupling: relationship (Husband ↔ Wife) with gender."""
    words = [" ↔ ".join(dict.fromkeys(role.values())) for role in coupling.roles]
    hidden = len(words) - MAX_CATEGORIES
    more = [f"{count(hidden)} more"] if hidden > 0 else []
    shown = ", ".join([*words[:MAX_CATEGORIES], *more])
    return f"{coupling.attribute} ({shown}) with {coupling.sensitive}"


def _coupling(coupling: CouplingCount) -> str:
    source = "declared in the schema" if coupling.source == "declared" else "found in the table"
    return (
        f"Changes along: {_roles(coupling)} ({source})."
        f" {plural(coupling.people, 'person', 'people')} in the data have such a category;"
        f" {count(coupling.crossed)} of them have one that otherwise goes with another"
        f" {coupling.sensitive}."
    )


# -- pairs -----------------------------------------------------------------------------------------


def pairs_section(run: TableRun) -> Section:
    """Show pairs of people who get different answers."""
    pairs: Sequence[PairDocument | ScorePair] = (
        run.pairs if run.amounts is None else run.amounts.pairs
    )
    shown = [pair_block(run, pair, f"Pair {number}") for number, pair in enumerate(pairs, 1)]
    if not shown:
        return Section("Striking pairs", [Text("The search found no pair to show.", "note")])
    about = (
        f"Two people who differ only in {changing(run)}. They are chosen from"
        f" {plural(run.generation.idis, 'case')} for large changes and for being different."
    )
    return Section(
        "Striking pairs",
        [
            Text(f"{about} {_origin_of_pairs(run)}"),
            *shown[:MAX_PAIRS],
            Section("More pairs", shown[MAX_PAIRS:], level="appendix"),
        ],
        anchor="pairs",
    )


def pair_block(run: TableRun, pair: PairDocument | ScorePair, title: str) -> Pair:
    """Show two people who get different answers."""
    shared = list(pair.shared.items())
    left, right = (_side(run, pair, index) for index in (0, 1))
    return Pair(
        title,
        left,
        right,
        dict(shared[:MAX_SHARED]),
        dict(shared[MAX_SHARED:MAX_REST]) or None,
        [note for note in (_usual(pair), f"{_change(pair)} {_origin(run, pair)}") if note],
    )


def _side(run: TableRun, pair: PairDocument | ScorePair, index: int) -> Side:
    which = f"With other {name(run)}" if index else "As is"
    changed = {attribute: values[index] for attribute, values in pair.sensitive.items()}
    if isinstance(pair, ScorePair):
        answer = amount(pair.answer_other if index else pair.answer)
        return Side(which, changed, answer, run.data.label)
    label = pair.label_other if index else pair.label
    probability = pair.probability_other if index else pair.probability
    is_favored = pair.favourable is not None and label == run.data.favourable_class
    return Side(which, changed, label, f"probability {percent(probability)}", is_favored)


def _change(pair: PairDocument | ScorePair) -> str:
    if isinstance(pair, ScorePair):
        return f"The answer changes by {amount(pair.change)}."
    return f"The probability of “{pair.label}” changes by {points(pair.gap)}."


def _usual(pair: PairDocument | ScorePair) -> str:
    """Say how usual both people are, and whether one is a record."""
    record = " One of these two is a person in the data." if pair.is_record else ""
    if pair.plausibility is None or pair.plausibility_other is None:
        return record.strip()
    first, second = one_in(pair.plausibility), one_in(pair.plausibility_other)
    if first == second:
        return f"{first} people in the data are at least as unusual as these two.{record}"
    return (
        f"{first} people in the data are at least as unusual as the first of these two, and"
        f" {second[0].lower()}{second[1:]} as the second.{record}"
    )


def _origin(run: TableRun, pair: PairDocument | ScorePair) -> str:
    about = run.generation.description
    source = f"{'seed' if about is None else about.origin} {pair.origin}"
    if has_phases(run.generation):
        return f"Found in the {pair.phase} phase, from {source}."
    return f"Found as {source}."


def _origin_of_pairs(run: TableRun) -> str:
    """Say why the people of a pair are not records."""
    about = run.generation.description
    if run.generation.people == "plausible":
        return "They are plausible people, none of them a record."
    if about is not None and about.origin == "seed":
        how = f"The search changes people in the data step by step, until the {noun(run)} differs"
    else:
        how = "The search draws people at random from everything that the attributes allow"
    return f"{how}, so some are unlikely in life."
