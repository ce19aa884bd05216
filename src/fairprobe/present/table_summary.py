"""What the terminal shows of an audit of a table: the verdict, the numbers, one pair of people."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.text import Text

from fairprobe.documents import (
    IFR,
    GroupFairness,
    PairDocument,
    RepairDocument,
    TableDocument,
)
from fairprobe.present import (
    certificate_sentences,
    chat_sentences,
    counterparts,
    decision_sentences,
    pair_sentences,
    repair_sentences,
    sentences,
    severity_sentences,
)
from fairprobe.present.table import Table, measure_cell
from fairprobe.report.formats import (
    count,
    decimal,
    folded,
    interval,
    level,
    percent,
    plain,
    ratio,
    seconds,
    with_interval,
)

GROUPS = 5


def table_summary(document: TableDocument) -> RenderableType:
    """All of it, with the repair first if there was one."""
    repair, people = document.repair, document.people
    parts: list[RenderableType] = [
        _panel(sentences.title(document), document.verdict),
        numbers(document).terminal(),
    ]
    if repair is not None:
        lines = [
            *repair_sentences.reasons(repair),
            *repair_sentences.changed(repair, sentences.sensitive(document)),
        ]
        parts = [
            _panel(repair_sentences.headline(repair), "\n".join(lines)),
            _before_and_after(repair).terminal(),
            *parts,
        ]
    if people.groups:
        parts.append(_most_affected(document).terminal())
    if document.pairs:
        parts.append(_pair(document.pairs[0]))
    return Group(*parts)


def _panel(title: str, text: str) -> Panel:
    return Panel(Text(plain(text)), title=Text(plain(title)), title_align="left")


def numbers(document: TableDocument) -> Table:
    """The numbers that carry the verdict, each in a line."""
    model, found, people, common = (
        document.model,
        document.generation,
        document.people,
        document.dm_rs,
    )
    phases = (
        f" ({count(found.global_idis)} global, {count(found.local_idis)} local)"
        if sentences.has_phases(found)
        else ""
    )
    variant = f", variant {found.variant}" if found.variant else ""
    held_out = "held-out data" if model.trained_here else "a fifth of the data"
    rows = {
        **_ids(document),
        **_decision(document),
        "People in the data affected": (
            f"{count(people.hits)} of {count(people.samples)}  = {with_interval(people)}"
        ),
        **_counterparts(document),
        **_plausible(document),
        "Possible people affected (DM-RS)": (
            f"{count(common.hits)} of {count(common.samples)} sampled  = {with_interval(common)}"
        ),
        "Cases found by the search": (
            f"{count(found.idis)} different{phases}; success rate {percent(found.gsr)}, which is"
            " no population rate"
        ),
        **chat_sentences.rows(document),
        **_certificate(document),
        **_severity(document),
        **_weighted(document),
        **_scores(document),
        **_inside(document),
        "Same decision as a counterpart": f"IFR_b {_of_pairs(document.fairness.individual.b)}",
        "and nearly the same probabilities": f"IFR_p {_of_pairs(document.fairness.individual.p)}",
        **_selected(document.fairness.group),
        f"Accuracy on {held_out}": (
            f"{percent(model.accuracy)} of {count(model.accuracy_rows)} rows (commonest answer:"
            f" {percent(model.majority)})"
        ),
        "Time of the search": (
            f"{seconds(found.wall_seconds)} with {found.method}{variant}, seed {document.seed}"
        ),
    }
    return Table(("", ""), list(rows.items()), words=(0, 1))


def _ids(document: TableDocument) -> dict[str, str]:
    origin = document.data.origin
    if origin is None or not origin.ids:
        return {}
    return {"Columns left out": f"{folded(origin.ids, most=10)}: like ids (--keep keeps a column)"}


def _decision(document: TableDocument) -> dict[str, str]:
    rule = document.model.decision
    return {} if rule is None else {"Decision rule": decision_sentences.in_short(rule)}


def _counterparts(document: TableDocument) -> dict[str, str]:
    """Whom people were compared with, where there is a choice; and who has no counterpart."""
    apart = document.people.no_counterpart
    rows = {
        "Counterparts": counterparts.in_short(document),
        "No counterpart": f"{count(apart)} people, counted apart" if apart else "",
    }
    return {name: text for name, text in rows.items() if text}


def _plausible(document: TableDocument) -> dict[str, str]:
    if (measured := document.plausible) is None:
        return {}
    rate, alike = measured.affected, measured.resemblance
    told_apart = "" if alike.auc is None else f"; AUC against real people {decimal(alike.auc)}"
    return {
        "Plausible people affected": (
            f"{count(rate.hits)} of {count(rate.samples)} made  = {with_interval(rate)}{told_apart}"
        )
    }


def _certificate(document: TableDocument) -> dict[str, str]:
    if (found := document.certificate) is None:
        return {}
    rows = {"Proved to be treated alike": certificate_sentences.in_short(found)}
    if (near := found.within(1)) is not None:
        rows["People in the data proved, ± 1"] = (
            f"{count(near.hits)} of {count(near.samples)}  = {with_interval(near)}"
        )
    return rows


def _severity(document: TableDocument) -> dict[str, str]:
    text = severity_sentences.in_short(document)
    return {"How severe for those affected": text} if text else {}


def _scores(document: TableDocument) -> dict[str, str]:
    """What Themis measured: the share of possible people once more, and the widest difference
    between groups.
    """
    if not (scores := sentences.scores(document)):
        return {}
    causal, group = (
        f"{percent(scores[name])} ({level(scores['confidence'])} interval"
        f" {percent(scores[f'{name}_low'])} to {percent(scores[f'{name}_high'])})"
        for name in ("causal", "group")
    )
    return {
        "Causal score of Themis": (
            f"{causal}, {count(scores['draws'])} draws; the share of possible people, measured anew"
        ),
        "Group score of Themis": f"{group}; the widest difference between groups",
    }


def _inside(document: TableDocument) -> dict[str, str]:
    if (inside := document.interpretation) is None:
        return {"Inside the model": "cannot be seen: a black box can only be asked"}
    layer, cut = inside.most_biased_layer, inside.ablation
    return {
        "Most biased layer": (
            f"{layer.name}: AUC {decimal(layer.auc)}, {count(layer.biased)} of"
            f" {count(layer.neurons)} neurons biased"
        ),
        "Silencing these neurons": (
            f"DM-RS {percent(cut.before)} → {percent(cut.biased_zeroed)} (as many random ones:"
            f" {percent(cut.random_zeroed)})"
        ),
    }


def _of_pairs(rate: IFR) -> str:
    if rate.estimate is None:
        return "is not defined: there are no pairs"
    return f"= {with_interval(rate)}, {count(rate.pairs)} pairs"


def _weighted(document: TableDocument) -> dict[str, str]:
    """The numbers of everybody with sample weights; those of groups are in the report."""
    return {
        f"Weighted: {each.what}": with_interval(each)
        for each in document.weighted
        if not each.group and each.unit == "share" and each.estimate is not None
    }


def _selected(group: GroupFairness | None) -> dict[str, str]:
    """The groups that are selected least and most, small ones aside."""
    if group is None or not group.tables:
        return {}
    table = group.tables[-1]
    rows = sorted(
        (row for row in table.rows if not row.is_empty and not row.is_small),
        key=lambda row: row.estimate,
    )
    text = "only small groups"
    if rows:
        ends = rows[:1] + rows[1:][-1:]
        text = " to ".join(f"{percent(row.estimate)} ({row.name})" for row in ends)
        if (impact := rows[0].impact_ratio.estimate) is not None:
            text += f", lowest impact ratio {ratio(impact)}"
    return {
        f"Selected, by {table.attribute}": f"{text}; everybody {percent(group.selected.estimate)}"
    }


def _before_and_after(repair: RepairDocument) -> Table:
    rows: dict[str, tuple[repair_sentences.WithInterval, repair_sentences.WithInterval]] = {
        "Accuracy": (repair.before.accuracy, repair.after.accuracy),
        "DM-RS": (repair.before.dm_rs, repair.after.dm_rs),
        "IFR_b": (repair.before.ifr_b, repair.after.ifr_b),
        "IFR_p": (repair.before.ifr_p, repair.after.ifr_p),
    }
    return Table(
        ("", "before", "after"),
        [(name, *(measure_cell(side) for side in sides)) for name, sides in rows.items()],
    )


def _most_affected(document: TableDocument) -> Table:
    return Table(
        ("group", "people", "affected", "interval"),
        [
            (
                f"{group.attribute}: {group.value}",
                count(group.samples),
                percent(group.estimate),
                interval(group),
            )
            for group in document.people.groups[:GROUPS]
        ],
        title=f"Most affected of {count(document.people.groups_compared)} groups in the data",
    )


def _pair(pair: PairDocument) -> RenderableType:
    rows = [(name, mine, other) for name, (mine, other) in pair.sensitive.items()]
    rows.append(
        (
            "decision",
            f"{pair.label} ({percent(pair.probability)})",
            f"{pair.label_other} ({percent(pair.probability_other)})",
        )
    )
    about = " ".join(filter(None, (pair_sentences.usual(pair), pair_sentences.record(pair))))
    return Group(
        Text("Two people who differ in nothing else", style="italic"),
        Table(("", "one", "the other"), rows, words=(0, 1, 2)).terminal(),
        Text.assemble(("Both: ", "bold"), pair_sentences.shared(pair)),
        *([Text(about)] if about else []),
    )
