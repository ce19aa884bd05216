"""The people held out, as figures and tables: individual fairness rates, and groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fairprobe.documents import (
    IFR,
    BaseRatesDocument,
    GroupIFR,
    SelectionRow,
    SelectionTable,
    TableDocument,
)
from fairprobe.present.blocks import Figure
from fairprobe.present.figures import BARS
from fairprobe.present.group_sentences import FOUR_FIFTHS, remark, who_is_missing
from fairprobe.present.plots import bars, measure_bar
from fairprobe.present.sentences import measured, sensitive
from fairprobe.present.table import UNDEFINED, Cell, Table, measure_cell
from fairprobe.report.formats import (
    SPACE,
    count,
    decimal,
    interval,
    level,
    percent,
    plural,
    ratio,
)


def rate_figures(document: TableDocument) -> list[Figure]:
    """The two individual fairness rates by group; none where there are no pairs."""
    rates, name = document.fairness.individual, sensitive(document)
    if rates.b.estimate is None:
        return []
    who = measured(document)
    same = "Each bar is the share of pairs with the same decision"
    nearly = f"and a Jensen–Shannon divergence of at most {rates.tau:g}{SPACE}{rates.base}"
    return [
        _rate_figure("ifr-b", rates.b, name, "Same decision (IFR_b)", same, who),
        _rate_figure(
            "ifr-p",
            rates.p,
            name,
            "Same decision, same probabilities (IFR_p)",
            f"{same} {nearly}",
            who,
        ),
    ]


def tau_table(document: TableDocument) -> Table | None:
    """IFR_p at each τ, where several were asked for."""
    rates = document.fairness.individual
    if not rates.by_tau:
        return None
    return Table(
        (f"τ ({rates.base})", "pairs alike (IFR_p)"),
        [(f"{each.tau:g}", measure_cell(each)) for each in rates.by_tau],
        title="IFR_p by τ",
    )


def _rate_figure(key: str, rate: IFR, name: str, heading: str, what: str, who: str) -> Figure:
    groups = [group for group in rate.groups if group.estimate is not None]
    shown, only = groups, ""
    if len(groups) > BARS:
        shown = sorted(groups, key=lambda group: group.high or 0)[:BARS]
        only = (
            f" Of {count(len(groups))} groups these are the {BARS} with the lowest upper end; the"
            " numbers below are of all."
        )
    everybody = rate.estimate or 0
    rows: list[tuple[str, GroupIFR]] = [(group.name, group) for group in rate.groups]
    return Figure(
        heading,
        bars(
            key,
            [measure_bar(group.name, group) for group in shown],
            reference=(f"everybody {who}: {percent(everybody)}", everybody),
            whole=True,
            says=f"Bars: {heading}, for each {name}.",
        ),
        f"{what}, among people of this {name} (in brackets: how many). The thin line with ends is"
        f" the {level(rate.confidence)} interval, which says little where a group has only a few"
        f" people. Dashed: everybody.{only}",
        Table(
            ("group", "people", "pairs", "share", "interval"),
            [
                (
                    label,
                    count(each.samples),
                    count(each.pairs),
                    UNDEFINED if each.estimate is None else percent(each.estimate),
                    interval(each) or UNDEFINED,
                )
                for label, each in [*rows, ("everybody", rate)]
            ],
        ),
    )


@dataclass(frozen=True)
class BaseRates:
    """The true labels of the groups by an attribute, and who is not in the table."""

    attribute: str
    table: Table
    remarks: Sequence[str]

    @property
    def is_long(self) -> bool:
        return len(self.table.rows) > BARS


@dataclass(frozen=True)
class Division:
    """People divided by an attribute: the picture of its impact ratios (if any is defined), the
    table, and who is not in it. Pairs of three or more attributes have no picture, for there can be
    many of them.
    """

    attribute: str
    figure: Figure | None
    table: Table
    remarks: Sequence[str]
    is_pair: bool

    @property
    def is_long(self) -> bool:
        return len(self.table.rows) > BARS


def divisions(document: TableDocument) -> list[Division]:
    """The groups by each attribute, by pairs of them, and by all together."""
    group = document.fairness.group
    tables = [] if group is None else group.tables
    alone, together = len(document.sensitive), len(tables) - 1
    return [
        Division(
            table.attribute,
            None if alone <= place < together else _ratio_figure(table, place),
            selection_table(table),
            who_is_missing(table, measured(document)),
            alone <= place < together,
        )
        for place, table in enumerate(tables)
    ]


def base_rates(document: TableDocument) -> list[BaseRates]:
    """How often the groups have the labels in the data itself. Of two classes one is shown: the
    favorable one, or the second.
    """
    classes = document.data.classes
    shown = range(len(classes))
    if len(classes) == 2:
        shown = range(1, 2) if document.data.favourable != 0 else range(1)
    return [
        BaseRates(
            each.attribute,
            Table(
                ("group", "people", *(f"label “{classes[place]}”" for place in shown)),
                [
                    (
                        row.name,
                        Cell(count(row.people)),
                        *(
                            measure_cell(row.labels[place]) if row.labels else Cell(UNDEFINED)
                            for place in shown
                        ),
                    )
                    for row in each.rows
                ],
            ),
            _left_out(each),
        )
        for each in document.data.base_rates
    ]


def _left_out(rates: BaseRatesDocument) -> list[str]:
    left_out = f"{plural(rates.left_out, 'person', 'people')} with another value are left out."
    few = "Of very small groups the labels are not shown: they could point at somebody."
    is_small = any(not row.labels for row in rates.rows)
    return [*([left_out] if rates.left_out else []), *([few] if is_small else [])]


def selection_table(table: SelectionTable) -> Table:
    """Selection rates and impact ratios, as a bias audit lists them."""
    return Table(
        ("group", "people", "selected", "selection rate", "impact ratio", "remark"),
        [
            (
                row.name,
                Cell(count(row.samples)),
                Cell(count(row.hits)),
                Cell(UNDEFINED) if row.is_empty else measure_cell(row),
                _impact_ratio(row),
                Cell(remark(row, table), kind="words"),
            )
            for row in table.rows
        ],
        words=(0, 5),
    )


def _impact_ratio(row: SelectionRow) -> Cell:
    is_defined = row.impact_ratio.estimate is not None and not row.is_empty
    return measure_cell(row.impact_ratio, ratio) if is_defined else Cell(UNDEFINED)


def _ratio_figure(table: SelectionTable, place: int) -> Figure | None:
    rows = [row for row in table.rows if row.impact_ratio.estimate is not None]
    if not rows:
        return None
    shown, only = rows, ""
    if len(rows) > BARS:
        shown = sorted(rows, key=lambda row: row.impact_ratio.estimate or 0)[:BARS]
        only = f" Of {count(len(rows))} groups these are the {BARS} with the lowest ratio."
    return Figure(
        f"Impact ratio, by {table.attribute}",
        bars(
            f"ratios-{place}",
            [
                measure_bar(
                    row.name,
                    row.impact_ratio,
                    ratio,
                    remark=f" ({count(row.samples)}{', small' if row.is_small else ''})",
                )
                for row in shown
            ],
            reference=(f"four fifths, {FOUR_FIFTHS:g}: a rule of thumb", FOUR_FIFTHS),
            ratios=True,
            says=(
                f"Bars: the impact ratio of each group by {table.attribute}, with a mark at"
                f" {FOUR_FIFTHS:g}."
            ),
        ),
        f"The thin line with ends is the {level(rows[0].confidence)} interval; in brackets: how"
        " many people. Dashed: four fifths, below which regulators in the United States begin to"
        " ask. It is a rule of thumb, not a verdict: a ratio below it can have good reasons, and"
        f" one above it can hide bad ones.{only}",
        None,
    )


def weighted(document: TableDocument) -> Table | None:
    """The main numbers with people counting as their sample weights say."""
    if not document.weighted:
        return None
    return Table(
        ("weighted by sample weights", "of", "estimate and interval", "people"),
        [
            (
                each.what,
                each.group or "everybody",
                measure_cell(each) if each.unit == "share" else measure_cell(each, decimal),
                count(each.samples),
            )
            for each in document.weighted
        ],
        words=(0, 1),
    )


def differences(document: TableDocument) -> Table | None:
    """ΔDP and ΔEO beside what they must be read with."""
    group = document.fairness.group
    if group is None or not group.tables:
        return None
    answers = [each.given for each in group.tables[0].eo]
    return Table(
        (
            "groups",
            "everybody selected",
            "ΔDP",
            *(f"ΔEO, truth “{answer}”" for answer in answers),
            "standard deviation",
        ),
        [
            (
                f"by {table.attribute}",
                measure_cell(group.selected),
                measure_cell(table.dp, decimal),
                *(measure_cell(each, decimal) for each in table.eo),
                measure_cell(table.dp_sd, decimal),
            )
            for table in group.tables
        ],
    )
