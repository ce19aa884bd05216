"""Parts of the report on pictures: pairs, searches, the inside of the network, and the repair."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fairprobe.images.change import Spread
from fairprobe.images.controls import CHANGES
from fairprobe.images.pairs import ImagePair
from fairprobe.images.repair import DetectorState, ImageRepair
from fairprobe.images.run import CountedPairs, Found, ImagesRun
from fairprobe.report import (
    Cell,
    Line,
    Lines,
    Notes,
    Number,
    Picture,
    Pictures,
    Plot,
    Section,
    Table,
    Text,
)
from fairprobe.report.formats import (
    change,
    count,
    decimal,
    listed,
    milliseconds,
    percent,
    plural,
    ratio,
)
from fairprobe.report.sections import UNDEFINED
from fairprobe.results import Estimate, Rate


def cell(value: Rate | Estimate | None) -> Cell:
    """Write a number with its interval, or a dash where nothing was counted."""
    if value is None or not value.samples:
        return Cell(UNDEFINED)
    number = Number(value, unit="share" if isinstance(value, Rate) else "ratio")
    return Cell(number.text, number.interval)


def mean(spread: Spread | None) -> Cell:
    """Write a mean with the largest value."""
    if spread is None:
        return Cell(UNDEFINED)
    return Cell(decimal(spread.mean), f"at most {decimal(spread.high)}")


def share(rate: Rate) -> str:
    """Write a share, or a dash where nothing was counted."""
    return percent(rate.estimate) if rate.samples else UNDEFINED


def hits_of(rate: Rate) -> str:
    """Write 3 of 20."""
    return f"{count(rate.hits)} of {count(rate.samples)}"


# -- pairs and searches ----------------------------------------------------------------------------


def pairs_section(run: ImagesRun) -> Section:
    """Show the most striking pairs."""
    about = (
        f"Two pictures that differ only in the {run.sensitive} change, that the {run.network}"
        f" judges differently, and in which its attribute head sees another {run.sensitive}. They"
        " are examples that the audit chose, not a sample. Every pixel is shown as a square; gray"
        " in Δ means no change. The heading names the value in the data."
    )
    return Section(
        "Pairs of pictures",
        [
            Text(about, "note") if run.pairs else None,
            *(
                Section(f"Pair {number}: {pair.value}", [_pair(run, pair)])
                for number, pair in enumerate(run.pairs, 1)
            ),
        ],
        anchor="pictures",
    )


def _pair(run: ImagesRun, pair: ImagePair) -> Pictures:
    """Show how a pair is made: the original, plus Δ bias, plus the change of the attribute."""
    name = run.sensitive
    scale = f"shown × {pair.amplified:g}"
    captions = {
        "original": "Original",
        "bias": f"Δ bias: {scale}, L2 {pair.l2_bias:.2f}",
        "without": f"Without the {name} change",
        "change": f"Δ {name}: {scale}, L2 {pair.l2_change:.2f}",
        "with": f"With the {name} change",
    }
    for key, verdict in pair.verdicts.items():
        captions[key] += f": {verdict.label}, {percent(verdict.probability)} probable"
    for at, key in enumerate(("without", "with")):
        captions[key] += f"; the {run.network}’s head sees {pair.head[at]}"
        if pair.independent:
            captions[key] += f", the independent network {pair.independent[at]}"
    titles = {search.method: search.title for search in run.generation}
    found = f"Found by {titles.get(pair.method, pair.method)}, from picture {pair.row}."
    if pair.at_seed:
        found += " The verdict changed before the search took any step."
    pictures = [
        Picture(f"data:image/png;base64,{pair.pictures[key]}", text, text, is_pixelated=True)
        for key, text in captions.items()
    ]
    return Pictures(pictures, found)


def searches_section(run: ImagesRun) -> Section:
    """List what each search found with each change."""
    about = (
        "Strictly counted: in the two pictures where the search ended, in whole bytes, the"
        f" {run.network}’s verdict differs and the head that the change was made with sees another"
        " value. Loosely, as in the paper: the verdict differs; the head need only see the change"
        " before the search. GSR: of the faces that did not differ from the start, the share that"
        " the search turned into a pair. L2: the length of the search’s own perturbation Δ_bias,"
        " for pairs that needed one. “Seen by an independent network”: pairs in which a network"
        f" that shares nothing with the {run.network} sees another {run.sensitive} after the"
        " change."
    )
    table = Table(
        (
            "search, change",
            "pairs, strictly counted",
            "share of the faces",
            "GSR",
            "loosely, as in the paper",
            "L2 of Δ_bias, mean",
            "seen by an independent network",
            "time per face",
        ),
        [
            (
                f"{search.title}, {name}",
                *_search_cells(found),
                milliseconds(search.ms_an_image) if found is search.found.own else UNDEFINED,
            )
            for search in run.generation
            for name, found in search.found.named.items()
        ],
    )
    return Section(
        "What the searches found",
        [table, Notes(list(_about_searches(run))), Text(about, "note") if table else None],
    )


def _search_cells(found: Found) -> Iterator[Cell]:
    def pairs(counted: CountedPairs) -> str:
        return f"{count(counted.idis)} of {count(counted.success.samples)}"

    yield Cell(pairs(found.strict), f"{count(found.strict.at_seed.hits)} before any step")
    yield cell(found.strict.success)
    yield Cell(percent(found.strict.gsr.estimate))
    yield Cell(pairs(found.loose), f"GSR {percent(found.loose.gsr.estimate)}")
    yield mean(found.strict.l2)
    yield cell(found.seen_by_independent)


def _about_searches(run: ImagesRun) -> Iterator[str]:
    first = next(iter(run.guided), None)
    if first is not None and first.found.own.strict.at_seed.hits:
        yield (
            f"{hits_of(first.found.own.strict.at_seed)} faces differ before any step: for them the"
            f" change of {run.sensitive} alone decides. They are counted apart."
        )
    for search in run.generation:
        if search.is_control:
            made = search.found.own.strict.gsr.hits
            yield (
                f"Random directions make {count(made)} of {count(search.seeds)} faces differ with"
                " steps of the same length."
            )


# -- inside and repair -----------------------------------------------------------------------------


def inside_section(run: ImagesRun) -> Section | None:
    """Show how strongly each layer reacts."""
    inside, name = run.interpretation, run.sensitive
    if inside is None:
        return None
    most = inside.most_biased_layer
    compared = [f"{decimal(one.auc)} for {key}" for key, one in most.reaction.named.items()]
    tokens = ""
    if any(layer.layout == "tokens" for layer in inside.layers):
        of = "of all tokens" if inside.by == "channel" else "of one token"
        tokens = f" The network works on tokens, which are not maps: a neuron is one channel {of}."
    about = (
        f"{plural(inside.pairs, 'pair')} of pictures, with and without the {name} change, were"
        f" given to the {run.network}, and the values of its neurons were compared"
        f"{' by channel' * (inside.by == 'channel')}. Layer '{most.name}' reacts most: AUC"
        f" {listed(compared)} (0: not at all).{tokens} The AUC changes when a layer’s values are"
        " merely scaled, so compare it between networks only together with the random signs."
    )
    lines = [
        Line(layer.name, inside.thresholds, layer.reaction.own.curve, layer is most)
        for layer in inside.layers
    ] + [
        Line(f"{most.name}, {CHANGES[key]}", inside.thresholds, one.curve, is_dashed=True)
        for key, one in most.reaction.controls.items()
    ]
    caption = (
        "The share of neurons that react more than a threshold. Dashed: the layer that reacts most,"
        f" under the control changes. Only what goes beyond them is about {name}."
    )
    title = "How strongly the neurons of each layer react"
    return Section(
        f"Inside the {run.network}",
        [Text(about), Plot(title, Lines(lines, "threshold"), caption), _layers_table(run)],
    )


def _layers_table(run: ImagesRun) -> Table | None:
    inside = run.interpretation
    if inside is None:
        return None
    head = ("layer", "values", "neurons", "AUC", *(f"AUC, {name}" for name in CHANGES.values()))
    rows = [
        (
            layer.name + (" ▲" if layer.name == inside.most_biased else ""),
            layer.layout or UNDEFINED,
            count(layer.neurons),
            decimal(layer.auc),
            *(
                decimal(layer.reaction.controls[key].auc)
                if key in layer.reaction.controls
                else UNDEFINED
                for key in CHANGES
            ),
            decimal(layer.threshold),
            count(layer.biased),
        )
        for layer in inside.layers
    ]
    columns = (*head, "threshold", "biased neurons")
    return Table(columns, rows, "All layers", words=(0, 1), folded=True)


# Measures of a detector before and after a repair.
MEASURED: dict[str, Callable[[DetectorState], Cell]] = {
    "correct answers": lambda state: cell(state.accuracy),
    "faces found (DR)": lambda state: cell(state.detection_rate),
    "earlier pairs that still differ": lambda state: cell(state.differing.strict),
    "… loosely counted": lambda state: cell(state.differing.loose),
    "held-out faces that differ": lambda state: cell(state.differing_faces.strict),
    "faces that a new attack turns": lambda state: cell(state.success.strict),
    "… loosely counted, as in the paper": lambda state: cell(state.success.loose),
    "L2 that the new attack needs": lambda state: cell(state.l2),
    "AUC of the most biased layer": lambda state: Cell(decimal(state.auc)),
    "AUC with random signs": lambda state: Cell(decimal(state.auc_random_signs)),
    "faces that a new change flips": lambda state: cell(state.flips),
}


def repair_section(run: ImagesRun) -> Section | None:
    """Compare the network before and after the repair with its control."""
    repair = run.repair
    if repair is None:
        return None
    states = {
        "before": repair.before,
        "control: without IDIs": repair.without_idis,
        "after": repair.after,
    }
    measured = {name: state for name, state in states.items() if state is not None}
    table = Table(
        ("on held-out pictures", *measured),
        [
            (name, *(cell_of(state) for state in measured.values()))
            for name, cell_of in MEASURED.items()
            if run.is_detector or "(DR)" not in name
        ],
        "Before, with the control, and after; small: the interval",
    )
    about = (
        "“Earlier pairs”: pictures that the search made of held-out faces against the"
        f" {run.network} before the repair. For each {run.network} a fresh change was made and a"
        f" new search was run: an old change does not carry over to a retrained {run.network}, so"
        " any training would look like a repair. Only what goes beyond the control is due to the"
        " IDIs."
    )
    return Section(
        "What the repair did",
        [*map(Text, _repaired(run, repair)), table, Text(about, "note")],
    )


def _repaired(run: ImagesRun, repair: ImageRepair) -> Iterator[str]:
    """Tell what the repair changed beyond its control."""
    if repair.after is None:
        yield "The audit ended before the repair was measured."
        return
    yield (
        f"The {run.network} was trained further with {plural(repair.idis, 'picture')} that the"
        f" search had found (IDIs, strictly counted), for {plural(repair.epochs, 'epoch')}."
    )
    after, control = repair.after, repair.without_idis
    if control is None:
        yield (
            "The control was not run, so it is unknown how much of the change comes from more"
            " training alone."
        )
        return
    lengths = [None if state.l2 is None else state.l2.estimate for state in (after, control)]
    ratios = {
        "pairs that still differ": _ratio(
            after.differing.strict.estimate, control.differing.strict.estimate
        ),
        "L2 that a new attack needs": _ratio(*lengths),
        "AUC": _ratio(after.auc, control.auc),
    }
    parts = [f"{name} × {ratio(value)}" for name, value in ratios.items() if value is not None]
    parts.append(f"accuracy {change(after.accuracy.estimate - control.accuracy.estimate)}")
    yield f"Compared with the same training without IDIs: {'; '.join(parts)}."
    if not after.differing.strict.samples or not control.differing.strict.samples:
        yield "No held-out pair is left that could be compared."
    if after.auc < control.auc and (
        after.auc_random_signs * control.auc <= after.auc * control.auc_random_signs
    ):
        yield (
            "The AUC fell no further than for noise: the repaired network reacts less to any"
            " change, not to this attribute in particular."
        )


def _ratio(one: float | None, other: float | None) -> float | None:
    return None if one is None or not other else one / other
