"""Sections about the inside of a network: the neurons that react to the sensitive attributes, and
what silencing them does.
"""

from __future__ import annotations

from fairprobe.documents.table import Interpretation, TableRun
from fairprobe.metrics.rates import DM_RS
from fairprobe.report import Bar, Bars, Line, Lines, Plot, Section, Table, Text
from fairprobe.report.formats import count, decimal, percent, plural
from fairprobe.search.neuron_bias import AUC
from fairprobe.table.words import changing, majority, name, status

BLACK_BOX = (
    "The model is a black box: its answers were tested as any model's, but the reaction of its"
    " parts cannot be seen."
)
MAX_CURVES = 9  # of more layers only the most biased one stands out


def neurons_section(run: TableRun) -> Section:
    """Show how the network's neurons react; say why they cannot be seen in a black box."""
    inside = run.interpretation
    if inside is None:
        why = run.model.why_black_box.rstrip(".")
        text = f"{BLACK_BOX}{f' Reason: {why}.' if why else ''}"
        return Section("Inside the model", [Text(text, "note")] if run.amounts is None else [])
    return Section(
        "Inside the network",
        [
            Text(_reaction(run, inside)),
            _curves(inside, name(run)) if inside.auc else None,
            _layers(inside),
            Section("Silencing the biased neurons", _ablation(run, inside)),
        ],
        anchor="inside",
    )


def _reaction(run: TableRun, inside: Interpretation) -> str:
    layer = inside.most_biased_layer
    how = f"Over {plural(inside.pairs, 'pair')} that differ only in {changing(run)}"
    if inside.auc == 0:
        return f"{how}, no neuron of any hidden layer changes its value."
    seen = "" if status(run) == "found" else " No decision was seen to change because of it."
    return (
        f"{how}, layer “{layer.name}” reacts most (AUC {decimal(layer.auc)});"
        f" {count(layer.biased)} of its {plural(layer.neurons, 'neuron')} react more than the"
        f" threshold {decimal(layer.threshold)} and are called biased.{seen}"
    )


def _curves(inside: Interpretation, name: str) -> Plot:
    most = inside.most_biased
    few = len(inside.layers) <= MAX_CURVES
    lines = [
        Line(
            layer.name if few or layer.name == most else "",
            [step * inside.grid for step in range(len(layer.curve))],
            layer.curve,
            is_marked=layer.name == most,
        )
        for layer in inside.layers
    ]
    lines.append(Line("threshold = share", [0, 1], [0, 1], is_dashed=True))
    return Plot(
        "Reaction of each layer",
        Lines(lines, f"reaction to {name}", "share of neurons that react more"),
        f"The area under a curve is the layer’s AUC: {AUC.about} Neurons right of the dashed line’s"
        " intersection are called biased.",
    )


def _layers(inside: Interpretation) -> Table:
    return Table(
        ("layer", "neurons", "biased", "AUC", "scale-free AUC", "threshold", "biased neurons"),
        [
            (
                f"{layer.name}{' ▲' if layer.name == inside.most_biased and inside.auc else ''}",
                count(layer.neurons),
                count(layer.biased),
                decimal(layer.auc),
                decimal(layer.auc_scale_free),
                decimal(layer.threshold),
                ", ".join(map(str, layer.biased_neurons)) or "none",
            )
            for layer in inside.layers
        ],
        "▲: the most biased layer. The scale-free AUC compares each neuron’s reaction with its"
        " usual variation. Neurons are counted from 0.",
        words=(0, 6),
        folded=True,
    )


def _ablation(run: TableRun, inside: Interpretation) -> list[Text | Plot]:
    """Say what silencing the biased neurons did, and how much that proves."""
    cut, layer = inside.ablation, inside.most_biased_layer
    if cut.silenced == 0:
        return [Text("There was no biased neuron to silence.", "note")]
    accuracy = f"from {percent(cut.accuracy_before)} to {percent(cut.accuracy_biased_zeroed)}"
    if cut.before == 0:
        proves = "Nobody was affected before, so the test proves nothing."
    elif percent(cut.before) == percent(cut.biased_zeroed) or cut.biased_zeroed > cut.before:
        proves = (
            "The share did not fall: the neurons react, but the test does not show that they cause"
            " the discrimination."
        )
    elif cut.biased_zeroed >= cut.random_zeroed:
        proves = "Random neurons lower it at least as much, so the biased ones are not singled out."
    elif cut.accuracy_biased_zeroed <= majority(run):
        proves = (
            f"Random neurons lower it less, but the accuracy changes {accuracy}, no better than the"
            " majority class: weak evidence, and no remedy."
        )
    else:
        proves = (
            "Random neurons lower it less: evidence that these neurons carry a part of the"
            f" discrimination. The accuracy changes {accuracy}. It is a test, not a repair."
        )
    bars = [
        Bar("as it is", cut.before),
        Bar("biased neurons silenced", cut.biased_zeroed, is_marked=True),
        Bar("random neurons silenced", cut.random_zeroed),
    ]
    where = f"{plural(cut.silenced, 'neuron')} of layer “{layer.name}”"
    return [
        Text(proves),
        Plot(
            f"{DM_RS.title}, with neurons silenced",
            Bars(bars),
            f"{where}; random: mean of {count(cut.repeats)} choices of as many; on the same"
            f" {count(cut.samples)} possible people.",
        ),
    ]
