"""The main numbers of an audit as a matplotlib figure, for notebooks and scripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from fairprobe.documents import Interpretation, TableDocument
from fairprobe.present import sentences
from fairprobe.present.formats import percent, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABEL = 40  # characters
MOST = 12  # values of a sensitive attribute


class _Rate(Protocol):
    @property
    def estimate(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...


def figure(document: TableDocument) -> Figure:
    """The share of people affected, by who they are, and by sensitive value; the AS curves of the
    layers where the network was looked into. The numbers are those of the report.
    """
    from matplotlib.figure import Figure

    inside = document.interpretation
    count = 3 if inside is not None else 2
    made = Figure(figsize=(5.2 * count, 3.4), layout="constrained")
    axes = made.subplots(1, count)
    whom: list[tuple[str, _Rate]] = [("people in the data", document.people)]
    if document.plausible is not None:
        whom.append(("plausible people", document.plausible.affected))
    whom.append(("possible people", document.dm_rs))
    name = sentences.sensitive(document)
    _bars(axes[0], whom, f"Whose answer changes with {name}")
    values = sorted(document.people.values, key=lambda each: -each.low)[:MOST]
    _bars(axes[1], [(each.value, each) for each in values], f"People in the data, by {name}")
    if inside is not None:
        _curves(axes[2], inside)
    return made


def _bars(axes: Axes, rows: Sequence[tuple[str, _Rate]], title: str) -> None:
    """Shares with their intervals, the first on top."""
    places = range(len(rows))
    rates = [rate for _, rate in rows]
    shares = [100 * rate.estimate for rate in rates]
    ends = [
        [100 * max(rate.estimate - rate.low, 0.0) for rate in rates],
        [100 * max(rate.high - rate.estimate, 0.0) for rate in rates],
    ]
    axes.barh(places, shares, xerr=ends, color="#4477aa", height=0.6, capsize=3)
    axes.set_yticks(places, [shortened(label, LABEL) for label, _ in rows])
    axes.invert_yaxis()
    axes.set_xlim(0, max(1.15 * max(100 * rate.high for rate in rates), 1e-3))
    axes.set_xlabel("% affected, with the interval")
    axes.set_title(shortened(title, 2 * LABEL), fontsize="medium")
    for place, rate in enumerate(rates):
        axes.annotate(
            percent(rate.estimate),
            (100 * rate.high, place),
            (4, 0),
            textcoords="offset points",
            va="center",
            fontsize="small",
        )
    # A dollar sign in a table's words is a dollar sign.
    for text in (*axes.get_yticklabels(), axes.title):
        text.set_parse_math(False)


def _curves(axes: Axes, inside: Interpretation) -> None:
    """The AS curve of every layer; the most biased one stands out."""
    most = inside.most_biased_layer
    for layer in inside.layers:
        is_most = layer is most
        axes.plot(
            [step * inside.grid for step in range(len(layer.curve))],
            layer.curve,
            lw=2.2 if is_most else 1.0,
            label=shortened(layer.name, LABEL) + (" (most biased)" if is_most else ""),
        )
    axes.plot([0, 1], [0, 1], color="gray", lw=0.8, ls=":")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_xlabel("threshold t for a neuron's reaction")
    axes.set_ylabel("share that reacts more than t")
    axes.set_title("Neurons of each layer", fontsize="medium")
    for text in axes.legend(fontsize="small").get_texts():
        text.set_parse_math(False)
