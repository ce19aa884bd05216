"""A repair as tables and a figure: before, after and controls; other attributes; the trade-off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from markupsafe import Markup

from fairprobe.documents import Measured, RepairDocument, SeedSpread, TradeoffPoint
from fairprobe.present.blocks import Figure
from fairprobe.present.repair_sentences import WithInterval, lie_apart, networks, share
from fairprobe.present.table import UNDEFINED, Cell, Table, measure_cell
from fairprobe.report.formats import count, decimal, interval, percent

Read = Callable[[Measured], WithInterval]


def before_and_after(repair: RepairDocument, classes: Sequence[str]) -> Table:
    """Every measure of every network, marked where it lies apart from before."""
    columns = networks(repair)
    plausible: list[tuple[str, Read, Callable[[float], str], bool | None]] = []
    if all(each.plausible is not None for each in columns.values()):
        plausible = [("plausible people affected", _plausible, percent, False)]
    rows: list[tuple[str, Read, Callable[[float], str], bool | None]] = [
        ("accuracy", lambda measured: measured.accuracy, percent, True),
        ("F1", lambda measured: measured.f1, decimal, True),
        ("MCC", lambda measured: measured.mcc, decimal, True),
        ("share selected", lambda measured: measured.selected, percent, None),
        ("people in the data affected", lambda measured: measured.people, percent, False),
        *(
            (f"… by {name} alone", _alone(name), percent, False)
            for name in repair.before.alone
            if all(name in each.alone for each in columns.values())
        ),
        *plausible,
        ("DM-RS: possible people affected", lambda measured: measured.dm_rs, percent, False),
        ("IFR_b: same decision", lambda measured: measured.ifr_b, percent, True),
        ("IFR_p: and same probabilities", lambda measured: measured.ifr_p, percent, True),
        ("ΔDP", lambda measured: measured.dp, decimal, False),
    ]
    rows += [
        (f"ΔEO, truth “{classes[place]}”", _eo(place), decimal, False)
        for place in range(len(repair.before.eo))
    ]
    cells: list[Sequence[Cell | str]] = [
        (
            name,
            *(
                compared(
                    read(repair.before),
                    read(each),
                    write,
                    more_is_better=more_is_better,
                    is_constant=each.is_constant,
                )
                for each in columns.values()
            ),
        )
        for name, read, write, more_is_better in rows
    ]
    cells += [
        (
            "IDIs found by the same search",
            *(Cell(count(each.idis), f"of {count(each.tried)} tried") for each in columns.values()),
        ),
    ]
    if repair.before.proved is not None:
        proved = (
            UNDEFINED if each.proved is None else percent(each.proved) for each in columns.values()
        )
        cells.append(("possible people proved", *proved))
    if repair.before.auc is not None:
        cells += [
            ("AUC of the network", *(_auc(each.auc) for each in columns.values())),
            ("scale-free AUC", *(_auc(each.auc_scale_free) for each in columns.values())),
        ]
    return Table(("", *columns), cells)


def _alone(name: str) -> Read:
    return lambda measured: measured.alone[name]


def _eo(place: int) -> Read:
    return lambda measured: measured.eo[place]


def _auc(value: float | None) -> Cell:
    return Cell(UNDEFINED if value is None else decimal(value))


def compared(
    was: WithInterval,
    now: WithInterval,
    write: Callable[[float], str] = percent,
    *,
    more_is_better: bool | None,
    is_constant: bool = False,
) -> Cell:
    """A measure, marked only where its interval lies apart from what it was. A network that decides
    nothing earns no mark for being better.
    """
    cell = measure_cell(now, write)
    if more_is_better is None or not lie_apart(was, now):
        return cell
    if ((now.estimate or 0) > (was.estimate or 0)) == more_is_better:
        return cell if is_constant else replace(cell, kind="better")
    return replace(cell, kind="worse", remark="worse")


def _plausible(measured: Measured) -> WithInterval:
    assert measured.plausible is not None
    return measured.plausible


def over_seeds(repair: RepairDocument) -> Table:
    """Repaired networks beside their controls, over the seeds."""
    control = "given" if repair.is_post_hoc else "trained again"
    return Table(
        ("", control, "repaired", "lower by", "judged"),
        [
            (
                f"{each.what}, by {each.by}" if each.by else each.what,
                _spread(each.control, repair),
                _spread(each.repaired, repair),
                f"{100 * each.low:.1f} to {100 * each.high:.1f} points".replace("-", "−"),
                "yes" if each.is_judged else "no",
            )
            for each in repair.verdict.comparisons
        ],
    )


def _spread(spread: SeedSpread, repair: RepairDocument) -> Cell:
    if repair.is_post_hoc:
        return Cell(percent(spread.mean))
    return Cell(percent(spread.mean), f"{percent(spread.least)} to {percent(spread.most)}")


def subgroups(repair: RepairDocument) -> Table | None:
    """The groups whose share rose most clearly."""
    if not repair.verdict.subgroups:
        return None
    return Table(
        (
            "group",
            "share",
            "people",
            "given",
            "control",
            "repaired",
            "all others",
            "p",
            "remark",
        ),
        [
            (
                each.name,
                each.share,
                count(each.people),
                percent(each.given),
                percent(each.control),
                percent(each.repaired),
                percent(each.rest),
                decimal(each.p),
                "harm" if each.is_harm else "",
            )
            for each in repair.verdict.subgroups
        ],
    )


def other_attributes(repair: RepairDocument) -> Table | None:
    """The attributes that the repair was not for, before and after."""
    if not repair.before.others:
        return None
    is_constant = repair.after.is_constant
    return Table(
        ("attribute", "DM-RS before", "after", "IFR_b before", "after"),
        [
            (
                was.name,
                measure_cell(was.dm_rs),
                compared(was.dm_rs, now.dm_rs, more_is_better=False, is_constant=is_constant),
                measure_cell(was.ifr_b),
                compared(was.ifr_b, now.ifr_b, more_is_better=True, is_constant=is_constant),
            )
            for was, now in zip(repair.before.others, repair.after.others, strict=True)
        ],
    )


def curve(repair: RepairDocument) -> Figure | None:
    """The trade-off between accuracy and individual fairness."""
    points, dial = repair.curve, repair.dial
    if not points:
        return None
    chosen = next((point for point in points if point.is_chosen), None)
    which = (
        f" The ringed one, {dial.name} {setting(chosen)}, was chosen; its accuracy is"
        f" {percent(chosen.accuracy.estimate)} (interval {interval(chosen.accuracy)})."
        if chosen
        else ""
    )
    return Figure(
        f"The trade-off: accuracy and IFR_p, by {dial.name}",
        Markup(""),
        f"Each point is a network repaired with this {dial.name} ({dial.means}), measured on"
        f" {count(points[0].accuracy.samples)} validation people: settings may be chosen by them,"
        " while the test people of the table above are kept out of every choice. Of the filled"
        f" points none is beaten by another one in both directions.{which}",
        Table(
            (
                "point",
                dial.name,
                "accuracy",
                "interval",
                "IFR_p",
                "interval",
                "IFR_b",
                "DM-RS",
                "ΔDP",
                "remark",
            ),
            [(str(number), *_point(point)) for number, point in enumerate(points, start=1)],
        ),
    )


def setting(point: TradeoffPoint) -> str:
    """The strength of a point of the trade-off."""
    return UNDEFINED if point.setting is None else f"{point.setting:g}"


def _point(point: TradeoffPoint) -> Sequence[str]:
    remarks = {
        "chosen": point.is_chosen,
        "not beaten": point.is_best,
        "same answer for all": point.is_constant,
        f"{percent(point.proved or 0)} proved": point.proved is not None,
    }
    return (
        setting(point),
        percent(point.accuracy.estimate),
        interval(point.accuracy),
        share(point.ifr_p),
        interval(point.ifr_p),
        share(point.ifr_b),
        percent(point.dm_rs.estimate),
        measure_cell(point.dp, decimal).text,
        ", ".join(word for word, holds in remarks.items() if holds),
    )
