"""The main numbers of an audit as a matplotlib figure, for notebooks and scripts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from fairprobe.documents import EstimateDocument, Interpretation, ScoresDocument, TableDocument
from fairprobe.present import score_sentences, sentences
from fairprobe.report.formats import amount, percent, shortened

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
    name = sentences.sensitive(document)
    _bars(axes[0], _whom(document), f"Whose answer changes with {name}")
    values = sorted(document.people.values, key=lambda each: -each.low)[:MOST]
    _bars(axes[1], [(each.value, each) for each in values], f"People in the data, by {name}")
    if inside is not None:
        _curves(axes[2], inside)
    return made


def score_figure(document: ScoresDocument) -> Figure:
    """The share of people whose answer changes by more than the tolerance, and by how much the
    answers of the people in the data change.
    """
    from matplotlib.figure import Figure

    made = Figure(figsize=(10.4, 3.4), layout="constrained")
    left, right = made.subplots(1, 2)
    name, change = score_sentences.sensitive(document), document.change
    _bars(left, _whom(document), f"Whose answer changes with {name} beyond the tolerance")
    levels = [(f"{percent(each.level)} change by less than", each) for each in change.quantiles]
    rows = [
        (label, _Ends(each))
        for label, each in [("mean", change.mean), *levels]
        if each.estimate is not None
    ]
    title = f"Change of the answer with {name}, people in the data"
    _bars(right, rows, title, of="the unit of the answers", factor=1, write=amount)
    return made


def _whom(document: TableDocument | ScoresDocument) -> list[tuple[str, _Rate]]:
    made = document.plausible
    return [
        ("people in the data", document.people),
        *([] if made is None else [("plausible people", made.affected)]),
        ("possible people", document.dm_rs),
    ]


class _Ends:
    """An estimate; an end that is not known is the estimate itself."""

    def __init__(self, measure: EstimateDocument) -> None:
        self.estimate = measure.estimate or 0.0
        self.low = self.estimate if measure.low is None else measure.low
        self.high = self.estimate if measure.high is None else measure.high


def _bars(
    axes: Axes,
    rows: Sequence[tuple[str, _Rate]],
    title: str,
    *,
    of: str = "% affected",
    factor: float = 100,
    write: Callable[[float], str] = percent,
) -> None:
    """Numbers with their intervals, the first on top."""
    places = range(len(rows))
    rates = [rate for _, rate in rows]
    ends = [
        [factor * max(rate.estimate - rate.low, 0.0) for rate in rates],
        [factor * max(rate.high - rate.estimate, 0.0) for rate in rates],
    ]
    lengths = [factor * rate.estimate for rate in rates]
    axes.barh(places, lengths, xerr=ends, color="#4477aa", height=0.6, capsize=3)
    axes.set_yticks(places, [shortened(label, LABEL) for label, _ in rows])
    axes.invert_yaxis()
    axes.set_xlim(0, max(1.15 * max(factor * rate.high for rate in rates), 1e-3))
    axes.set_xlabel(f"{of}, with the interval")
    axes.set_title(shortened(title, 2 * LABEL), fontsize="medium")
    for place, rate in enumerate(rates):
        axes.annotate(
            write(rate.estimate),
            (factor * rate.high, place),
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
