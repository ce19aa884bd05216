"""What the terminal shows of a run: the verdict, and the numbers that carry it; of a table also one
pair of people.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from fairprobe.documents import from_dict
from fairprobe.documents.images import ImagesDocument
from fairprobe.documents.scenes import ScenesDocument
from fairprobe.present.image_tables import repair_table, searches_table
from fairprobe.present.repair_page import changed, headline
from fairprobe.present.scenes_terminal import scenes_summary
from fairprobe.present.sentences import has_phases
from fairprobe.present.sentences import scores as themis_scores

if TYPE_CHECKING:
    from fairprobe.datasets import Entry


def summary(body: dict[str, Any] | ScenesDocument) -> RenderableType:
    """A run's document, for a terminal. Sentences are for the terminal to break: they must not be
    cropped.
    """
    if isinstance(body, ScenesDocument):
        return scenes_summary(body)
    if body.get("kind") == "scenes":
        return scenes_summary(from_dict(body, ScenesDocument))
    return (_of_images if body.get("kind") == "images" else _of_table)(body)


def _of_table(body: dict[str, Any]) -> RenderableType:
    parts: list[RenderableType] = [
        Panel(
            Text(body["verdict"]),
            title=Text(f"{body['data']['title']}, by {' and '.join(body['sensitive'])}"),
            title_align="left",
        ),
        _numbers(body),
    ]
    if body["repair"]:
        parts = [_banner(body), _before_and_after(body["repair"]), *parts]
    if body["people"]["groups"]:
        parts.append(_groups(body))
    if body["pairs"]:
        parts.append(_pair(body["pairs"][0]))
    return Group(*parts)


def datasets_table(entries: Sequence[Entry]) -> RenderableType:
    """What data sets there are: a table, and below it where each comes from."""
    table = Table(title="Data sets", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for name in ("name", "rows", "attributes", "sensitive ones", "here"):
        table.add_column(name, justify="right" if name in ("rows", "attributes") else "left")
    origins = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for entry in entries:
        here = (
            "packaged"
            if entry.packaged
            else "fetched"
            if entry.available
            else f"fairprobe datasets fetch {entry.name}"
        )
        cells = (
            entry.name,
            f"{entry.rows:,}",
            str(entry.attributes),
            ", ".join(entry.protected),
            here,
        )
        table.add_row(*(Text(cell) for cell in cells))
        origins.add_row(
            Text(entry.name, style="bold"),
            Text(f"{entry.title}. From {entry.source}. License: {entry.license}."),
        )
    return Group(table, Text(), origins)


def experiments_table(entries: Sequence[dict[str, str]]) -> RenderableType:
    """The experiments that can be run again."""
    table = Table(title="Experiments", title_justify="left", box=None, padding=(0, 2, 1, 0))
    table.add_column("name", no_wrap=True)
    table.add_column("what it does")
    for entry in entries:
        table.add_row(
            Text(entry["name"], style="bold"),
            Text(f"{entry['title']}.\n{entry['about']} Quick: {entry['quick']}"),
        )
    return Group(
        table,
        Text(
            "Run one with: fairprobe experiment NAME [--scale quick|full] [--workers N | --cluster"
            " ADDRESS]"
        ),
    )


def _numbers(body: dict[str, Any]) -> Table:
    model, found, common = body["model"], body["generation"], body["dm_rs"]
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column()
    variant = f", variant {found['variant']}" if found["variant"] else ""
    rows_of_accuracy = "held-out data" if model["trained_here"] else "a fifth of the data"
    phases = (
        f" ({found['global_idis']:,} global, {found['local_idis']:,} local)"
        if has_phases(found)
        else ""
    )
    rows = {
        "People in the data affected": (
            f"{body['people']['hits']:,} of {body['people']['samples']:,} "
            f" {_interval(body['people'])}"
        ),
        "Possible people affected (DM-RS)": (
            f"{common['hits']:,} of {common['samples']:,} sampled  {_interval(common)}"
        ),
        "Cases found by the search": (
            f"{found['idis']:,} different{phases}; success rate {found['gsr']:.1%}, which is no"
            " population rate"
        ),
        **_scores(body),
        **_inside(body["interpretation"]),
        **_held_out(body["fairness"]),
        f"Accuracy on {rows_of_accuracy}": (
            f"{model['accuracy']:.1%} of {model['accuracy_rows']:,} rows (commonest answer: "
            f"{model['majority']:.1%})"
        ),
        "Time of the search": (
            f"{found['wall_seconds']:.1f} s with {found['method']}{variant}, seed {body['seed']}"
        ),
    }
    for name, value in rows.items():
        table.add_row(name, Text(value))
    return table


def _inside(inside: dict[str, Any] | None) -> dict[str, str]:
    if inside is None:
        return {"Inside the model": "cannot be seen: a black box can only be asked"}
    layer = next(layer for layer in inside["layers"] if layer["name"] == inside["most_biased"])
    return {
        "Most biased layer": (
            f"{layer['name']}: AUC {layer['auc']:.3f}, {layer['biased']} of {layer['neurons']}"
            " neurons biased"
        ),
        "Silencing these neurons": (
            f"DM-RS {inside['ablation']['before']:.2%} → {inside['ablation']['biased_zeroed']:.2%} "
            f"(as many random ones: {inside['ablation']['random_zeroed']:.2%})"
        ),
    }


def _scores(body: dict[str, Any]) -> dict[str, str]:
    """What Themis measured: the share of possible people once more, and the widest difference
    between groups.
    """
    scores = themis_scores(body)
    if scores is None:
        return {}
    told = {
        name: (
            f"{scores[name]:.2%} ({100 * scores['confidence']:g} % interval"
            f" {scores[f'{name}_low']:.2%} to {scores[f'{name}_high']:.2%})"
        )
        for name in ("causal", "group")
    }
    return {
        "Causal score of Themis": (
            f"{told['causal']}, {scores['draws']:,} draws; the share of possible people, measured"
            " anew"
        ),
        "Group score of Themis": f"{told['group']}; the widest difference between groups",
    }


def _held_out(fairness: dict[str, Any]) -> dict[str, str]:
    """The individual fairness rates, and how often groups are selected."""
    rates, group = fairness["individual"], fairness["group"]
    said = {
        "Same decision as a counterpart": f"IFR_b {_of_pairs(rates['b'])}",
        "and nearly the same probabilities": f"IFR_p {_of_pairs(rates['p'])}",
    }
    if group is not None:
        table = group["tables"][-1]
        said[f"Selected, by {table['attribute']}"] = (
            f"{_extremes(table)}; everybody {group['selected']['estimate']:.1%}"
        )
    return said


def _of_pairs(rate: dict[str, Any]) -> str:
    return (
        "is not defined: there are no pairs"
        if rate["estimate"] is None
        else f"{_interval(rate)}, {rate['pairs']:,} pairs"
    )


def _extremes(table: dict[str, Any]) -> str:
    """The group that is selected least and the one that is selected most, small ones aside."""
    rows = sorted(
        (row for row in table["rows"] if not row["is_empty"] and not row["is_small"]),
        key=lambda row: float(row["estimate"]),
    )
    if not rows:
        return "only small groups"
    told = " to ".join(f"{row['estimate']:.1%} ({row['name']})" for row in rows[:1] + rows[1:][-1:])
    impact = rows[0]["impact_ratio"]["estimate"]
    return told if impact is None else f"{told}, lowest impact ratio {impact:.2f}"


def _banner(body: dict[str, Any]) -> Panel:
    """Whether the repair was accepted, and what it changed."""
    repair = body["repair"]
    reasons = repair["reasons"] if len(repair["reasons"]) > 1 else []
    return Panel(
        Text("\n".join([*reasons, *changed(body)])),
        title=Text(headline(repair)),
        title_align="left",
    )


def _before_and_after(repair: dict[str, Any]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("", "before", "after"):
        table.add_column(name, justify="right" if name else "left", style="" if name else "bold")
    for label, name in {
        "Accuracy": "accuracy",
        "DM-RS": "dm_rs",
        "IFR_b": "ifr_b",
        "IFR_p": "ifr_p",
    }.items():
        table.add_row(label, *(Text(_share(repair[side][name])) for side in ("before", "after")))
    return table


def _share(measure: dict[str, Any]) -> str:
    return (
        "not defined"
        if measure["estimate"] is None
        else f"{measure['estimate']:.1%} ({measure['low']:.1%} to {measure['high']:.1%})"
    )


def _interval(rate: dict[str, Any]) -> str:
    return f"= {rate['estimate']:.2%} (95 % interval {rate['low']:.2%} to {rate['high']:.2%})"


def _groups(body: dict[str, Any]) -> Table:
    table = Table(
        title="Most affected groups in the data",
        title_justify="left",
        box=None,
        padding=(0, 2, 0, 0),
    )
    for name in ("group", "people", "affected", "interval"):
        table.add_column(name, justify="left" if name == "group" else "right")
    for group in body["people"]["groups"][:5]:
        interval = f"{group['low']:.1%} to {group['high']:.1%}"
        table.add_row(
            Text(f"{group['attribute']}: {group['value']}"),
            f"{group['samples']:,}",
            f"{group['estimate']:.1%}",
            interval,
        )
    return table


def _pair(pair: dict[str, Any]) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("", "one", "the other"):
        table.add_column(name, style="bold" if not name else "")
    for name, (mine, other) in pair["sensitive"].items():
        table.add_row(Text(name), Text(mine), Text(other))
    decisions = [
        f"{pair['label']} ({pair['probability']:.0%})",
        f"{pair['label_other']} ({pair['probability_other']:.0%})",
    ]
    table.add_row("decision", *(Text(decision) for decision in decisions))
    shared = ", ".join(f"{name} {value}" for name, value in pair["shared"].items())
    return Group(
        Text("Two people who differ in nothing else", style="italic"),
        table,
        Text.assemble(("Both: ", "bold"), shared),
    )


# -- images ----------------------------------------------------------------------------------------


def _of_images(body: dict[str, Any]) -> RenderableType:
    document = from_dict(body, ImagesDocument)
    parts: list[RenderableType] = list(map(_sentence, (document.verdict, *document.sentences)))
    for table in (searches_table(document), repair_table(document, intervals=False)):
        if table is not None:
            parts += [Text(), table.terminal()]
    return Group(*parts)


def _sentence(text: str) -> Text:
    return Text(text, no_wrap=True, overflow="ignore")


def _cells(head: Sequence[str], rows: Iterable[Sequence[str]], *, unbroken: int = 1) -> Table:
    """A plain table; so many of its first columns are never broken."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for at, name in enumerate(head):
        table.add_column(Text(name), justify="left" if at == 0 else "right", no_wrap=at < unbroken)
    for row in rows:
        table.add_row(*map(Text, row))
    return table
