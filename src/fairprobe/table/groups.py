"""Sections about groups of people: selection and scoring rates, individual fairness rates, and the
quality of the answers.
"""

from __future__ import annotations

from itertools import combinations

from fairprobe.documents.people import (
    IFR,
    Change,
    Fairness,
    Level,
    ScoredGroups,
    SelectionRow,
    SelectionTable,
)
from fairprobe.documents.table import Amounts, BaseRatesDocument, TableRun
from fairprobe.metrics.group import (
    DEMOGRAPHIC_PARITY,
    EQUALIZED_ODDS,
    IMPACT_RATIO,
)
from fairprobe.metrics.individual import IFR_B, IFR_P
from fairprobe.metrics.scores import MEAN_DIFFERENCE, R2, SCORING_RATIO
from fairprobe.report import Bar, Bars, Cell, Notes, Number, Plot, Section, Table, Text
from fairprobe.report.formats import amount, count, level, percent, plural, quoted
from fairprobe.table.words import changing, measured, name

FOUR_FIFTHS = 0.8
MAX_BARS = 24
MAX_ROWS = 12  # of a table before it is folded
LEVELS = {0.5: "median", 0.9: "90th percentile", 0.99: "99th percentile"}
LAW = (
    "The scoring rate is the share of a group whose score is above the median of all people"
    " measured, as New York City's Local Law 144 defines it. The impact ratio is a group's rate"
    " over the highest one; whether a ratio is acceptable is for people to decide, and no law is"
    " applied here."
)


# -- classes ---------------------------------------------------------------------------------------


def groups_section(run: TableRun, fairness: Fairness) -> Section:
    """Compare the selection rates of groups."""
    group = fairness.group
    blocks: list[Section | Table | Text | Plot | Notes | None] = [Text(selection(run, fairness))]
    if group is not None:
        together = len(group.tables) - 1
        alone = len(run.sensitive)
        for place, table in enumerate(group.tables):
            is_pair = alone <= place < together
            blocks += [
                selection_table(table, is_folded=is_pair),
                None if is_pair else _ratios_plot(table),
            ]
        blocks += [_differences(fairness), Notes(_missing(run, fairness))]
    blocks += [_base_rates(rates, run) for rates in run.data.base_rates]
    return Section("Groups", [*blocks, _weighted(run)], anchor="groups")


def selection(run: TableRun, fairness: Fairness) -> str:
    """Say how many people are selected, and what that means here."""
    if fairness.group is None or fairness.positive is None:
        return (
            f"The decision has {len(run.data.classes)} answers, and none was declared the favorable"
            " one, so groups were not compared."
        )
    selected = fairness.group.selected
    assumed = (
        " No answer was declared the favorable one; the second of the two counts as it."
        if fairness.positive_assumed
        else ""
    )
    return (
        f"{count(selected.hits)} of the {count(selected.samples)} people {measured(run)}"
        f" ({percent(selected.estimate)}) get “{run.data.classes[fairness.positive]}”: they are"
        f" selected.{assumed} Groups differ in more than {name(run)}."
    )


def selection_table(table: SelectionTable, *, is_folded: bool = False) -> Table:
    """List selection rates and impact ratios, as a bias audit does."""
    return Table(
        (table.attribute, "people", "selected", "selection rate", IMPACT_RATIO.title.lower(), ""),
        [
            (
                row.name,
                count(row.samples),
                count(row.hits),
                "–" if row.is_empty else Number(row, unit="share"),
                "–" if row.is_empty else Number(row.impact_ratio, unit="ratio"),
                Cell(_remark(row, table)),
            )
            for row in table.rows
        ],
        words=(0, 5),
        folded=is_folded or len(table.rows) > MAX_ROWS,
    )


def _remark(row: SelectionRow, table: SelectionTable) -> str:
    """Say what to know about a group before reading its ratio."""
    impact = row.impact_ratio
    if row.is_empty:
        return "nobody"
    if row.is_small:
        return f"small group (under {percent(table.smallest)})"
    if impact.estimate is None:
        return ""
    if impact.estimate >= FOUR_FIFTHS:
        return "highest rate" if impact.estimate == 1 else ""
    reaches = impact.high is not None and impact.high >= FOUR_FIFTHS
    return f"below {FOUR_FIFTHS:g}{', but the interval reaches it' if reaches else ''}"


def _ratios_plot(table: SelectionTable) -> Plot | None:
    rows = [row for row in table.rows if row.impact_ratio.estimate is not None]
    if len(rows) < 3:  # the table says it
        return None
    rows = sorted(rows, key=lambda row: row.impact_ratio.estimate or 0)[:MAX_BARS]
    bars = [
        Bar(
            row.name,
            row.impact_ratio,
            f" ({count(row.samples)}{', small' if row.is_small else ''})",
        )
        for row in rows
    ]
    return Plot(
        f"{IMPACT_RATIO.title}, by {table.attribute}",
        Bars(bars, reference=(f"four fifths ({FOUR_FIFTHS:g})", FOUR_FIFTHS), unit="ratio"),
        f"Lines: {level(rows[0].confidence)} intervals. Four fifths is a rule of thumb of"
        " regulators in the United States, not a verdict.",
    )


def _differences(fairness: Fairness) -> Table | None:
    """List ΔDP and ΔEO next to what they must be read with."""
    group = fairness.group
    if group is None or not group.tables:
        return None
    truths = [odds.given for odds in group.tables[0].eo]
    return Table(
        ("groups", "ΔDP", *(f"ΔEO, truth “{truth}”" for truth in truths)),
        [
            (
                f"by {table.attribute}",
                Number(table.dp, unit="number"),
                *(Number(odds, unit="number") for odds in table.eo),
            )
            for table in group.tables
        ],
        f"ΔDP: {DEMOGRAPHIC_PARITY.about} ΔEO: {EQUALIZED_ODDS.about} A model that gives everybody"
        " the same answer has differences of 0.",
    )


def lowest_ratio(table: SelectionTable | None) -> SelectionRow | None:
    """Find the group with the lowest impact ratio, small groups left out."""
    rows = [
        row
        for row in (() if table is None else table.rows)
        if not row.is_small and row.impact_ratio.estimate is not None
    ]
    return min(rows, key=lambda row: row.impact_ratio.estimate or 0, default=None)


def _missing(run: TableRun, fairness: Fairness) -> list[str]:
    """Name the groups that are small or empty, and people of unknown group."""
    group, notes = fairness.group, []
    tables = [] if group is None else group.tables
    alone = len(run.sensitive)
    for table in (*tables[:alone], *tables[alone:][-1:]):
        notes += _missing_of(table)
    shown = {table.attribute for table in tables}
    pairs = [f"{first} and {second}" for first, second in combinations(run.sensitive, 2)]
    hidden = [pair for pair in pairs if pair not in shown] if alone > 2 else []
    if hidden:
        notes.append(f"Pairs with too many combinations were left out: {quoted(hidden)}.")
    return notes


def _missing_of(table: SelectionTable) -> list[str]:
    notes = []
    if small := [row.name for row in table.rows if row.is_small]:
        notes.append(
            f"Small groups by {table.attribute}, under {percent(table.smallest)} of the people:"
            f" {quoted(small)}. No other group is compared with them."
        )
    if empty := [row.name for row in table.rows if row.is_empty]:
        notes.append(f"Groups by {table.attribute} without people: {quoted(empty)}.")
    if table.unknown:
        number = plural(table.unknown, "person", "people")
        notes.append(f"{number} with unknown {table.attribute} are in no group.")
    return notes


def _base_rates(rates: BaseRatesDocument, run: TableRun) -> Table:
    """List how often groups have the labels in the data itself."""
    classes = run.data.classes
    shown = range(len(classes))
    if len(classes) == 2:
        shown = range(1, 2) if run.data.favourable != 0 else range(1)
    left_out = plural(rates.left_out, "person", "people")
    few = any(not row.labels for row in rates.rows)
    remarks = [
        "True labels in the data, before any model.",
        f"{left_out} with another value are left out." if rates.left_out else "",
        "Labels of very small groups are hidden: they could identify people." if few else "",
    ]
    return Table(
        (rates.attribute, "people", *(f"label “{classes[place]}”" for place in shown)),
        [
            (
                row.name,
                count(row.people),
                *(Number(row.labels[at], unit="share") if row.labels else "–" for at in shown),
            )
            for row in rates.rows
        ],
        " ".join(filter(None, remarks)),
        folded=True,
    )


def _weighted(run: TableRun) -> Table | None:
    """List the main numbers, weighted by sample weights."""
    if not run.weighted:
        return None
    return Table(
        ("weighted by sample weights", "of", "estimate", "people"),
        [
            (
                number.what,
                number.group or "everybody",
                Number(number, unit=number.unit),
                count(number.samples),
            )
            for number in run.weighted
        ],
        words=(0, 1),
        folded=True,
    )


def rates_section(run: TableRun, fairness: Fairness) -> Section:
    """Show how often a person and a counterpart get the same answer."""
    rates = fairness.individual
    if rates.b.estimate is None:
        who = f"No person {measured(run)} has a counterpart that differs only in {changing(run)}."
        return Section("Individual fairness rates", [Text(who, "note")])
    drawn = ", one drawn at random for each person" if rates.over == "single" else ""
    empty = [group.name for group in rates.b.groups if group.estimate is None]
    notes = [
        f"A low {IFR_P.name} with a high {IFR_B.name} means: decisions are stable, but confidence"
        f" depends on {name(run)}.",
        f"{plural(rates.left_out, 'person', 'people')} outside the domain are left out."
        if rates.left_out
        else "",
        f"Groups without people {measured(run)}: {quoted(empty)}." if empty else "",
    ]
    return Section(
        "Individual fairness rates",
        [
            Number(rates.b, IFR_B, detail=f"{count(rates.b.pairs)} pairs{drawn}"),
            Number(rates.p, IFR_P, detail=f"divergence of at most {rates.tau:g} {rates.base}"),
            Notes([note for note in notes if note]),
            _rates_table(rates.b, rates.p, name(run)),
            Table(
                (f"τ ({rates.base})", "IFR_p"),
                [(f"{rate.tau:g}", Number(rate, unit="share")) for rate in rates.by_tau],
                "The larger τ, the less alike the probabilities may be; from 1 on, IFR_p is IFR_b.",
            )
            if rates.by_tau
            else None,
        ],
        anchor="rates",
    )


def _rates_table(b: IFR, p: IFR, name: str) -> Table:
    alike = {group.name: group for group in p.groups}
    return Table(
        (name, "people", "pairs", "IFR_b", "IFR_p"),
        [
            (
                group.name,
                count(group.samples),
                count(group.pairs),
                Number(group, unit="share"),
                Number(alike.get(group.name), unit="share"),
            )
            for group in b.groups
        ],
        folded=True,
    )


# -- amounts ---------------------------------------------------------------------------------------


def change_section(run: TableRun, amounts: Amounts) -> Section:
    """Show by how much the answers change."""
    made, change = amounts.plausible_change, amounts.change
    who = f"People in the data: {count(change.above.samples)}; {count(change.unchanged)} unchanged."
    best = next((each for each in run.people.advantages if each.share > 0), None)
    return Section(
        "How much answers change",
        [
            Text(
                f"Of the {plural(run.people.hits, 'person', 'people')} affected,"
                f" {percent(best.share)} would get their highest answer as “{best.value}”."
            )
            if best
            else None,
            _change_table(change, who),
            _change_table(made, f"Plausible people: {count(made.above.samples)}.")
            if made
            else None,
        ],
        anchor="change",
    )


def _change_table(change: Change, caption: str) -> Table:
    rows: list[tuple[str, Number | str, str]] = [("mean", Number(change.mean, unit="amount"), "–")]
    for own, relative in zip(change.quantiles, change.relative, strict=True):
        share = "not bounded" if relative.estimate is None else percent(relative.estimate)
        rows.append((LEVELS[own.level], _quantile(own), share))
    rows.append(("largest", amount(change.largest), "–"))
    return Table(("", "change of the answer", "relative to the answer"), rows, caption)


def _quantile(quantile: Level) -> str:
    """Write a quantile with the ends of its interval that are known."""
    if quantile.estimate is None:
        return "not bounded"
    low, high = ("?" if end is None else amount(end) for end in (quantile.low, quantile.high))
    return f"{amount(quantile.estimate)} ({low} to {high})"


def scored_section(run: TableRun, amounts: Amounts) -> Section:
    """Compare how groups are scored."""
    return Section(
        "Groups",
        [
            Text(f"{LAW} The median here is {amount(amounts.median)}."),
            *(scored_table(groups) for groups in amounts.groups),
            _quality(run, amounts),
        ],
        anchor="groups",
    )


def scored_table(groups: ScoredGroups) -> Table:
    """List scoring rates, impact ratios and means."""
    apart = groups.mean_difference
    caption = (
        "Fewer than two groups are large enough to compare their means."
        if apart.estimate is None
        else f"{MEAN_DIFFERENCE.title}: {amount(apart.estimate)}, small groups left out."
    )
    rows = [
        (
            row.name + (" (small)" if row.is_small else ""),
            count(row.samples),
            Number(row, unit="share"),
            Number(row.impact_ratio, unit="ratio"),
            Number(row.mean, unit="amount"),
            "–" if (middle := row.quantiles[1].estimate) is None else amount(middle),
        )
        for row in groups.rates
        if not row.is_empty
    ]
    head = ("people", "scoring rate", SCORING_RATIO.title.lower(), "mean", "median")
    return Table((groups.attribute, *head), rows, caption, folded=len(rows) > MAX_ROWS)


def _quality(run: TableRun, amounts: Amounts) -> Text:
    quality = amounts.quality
    if quality is None:
        return Text("The data has no true amounts, so prediction errors were not measured.", "note")
    return Text(
        f"On {count(quality.rows)} people {measured(run)} the mean absolute error is"
        f" {amount(quality.error.estimate or 0)} (always predicting the mean:"
        f" {amount(quality.error_of_mean)}); {R2.title} is {quality.r2:.3f}.",
        "note",
    )
