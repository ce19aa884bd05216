"""The InsideBias paper's experiment with coloured digits: its figure 3, and figure 4's curves for
these networks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fairprobe.papers import paper
from fairprobe.papers.base import Experiment, Plan, introduction
from fairprobe.papers.jobs import Job, Outcome, Plain
from fairprobe.papers.tables import Bars, Cell, Lines, Measure, Table
from fairprobe.present.experiment_plots import Bar, Group, Series
from fairprobe.statistics.repeats import Repeats

WORK = "fairprobe.papers.insidebias_work:look"
COLOURS = ("red", "green", "blue")
DRAWN = ("red", "blue", "green")  # in figures, whose first three colours resemble these
UNBIASED = "unbiased"
QUICK = ((0, "red"), (3, "green"), (7, "blue"))
TAU = 0.8
COUNTS = (5, 100)  # images of each colour in a small sample
FEWEST_UNBIASED = (
    3  # at the paper's scale: one network cannot tell how often there is a false alarm
)
TITLES = {
    "mnist": "Colored MNIST",
    **{name: f"biased ({name})" for name in COLOURS},
    UNBIASED: UNBIASED,
}


def _small(count: int) -> tuple[Measure, ...]:
    return (
        Measure(
            f"below_{count}",
            f"Λ below τ, {count} images a colour",
            "share",
            "How often the paper's rule raises an alarm: right for a biased network, false for an"
            " unbiased one.",
        ),
        Measure(
            f"biased_{count}",
            f"Verdict “biased”, {count} images a colour",
            "share",
            "The same, if chance must seldom give as low a Λ (permutation null at the same group"
            " sizes).",
        ),
    )


MEASURES = (
    Measure(
        "ratio",
        "Activation Ratio Λ",
        "number",
        "Of the last convolutional layer; 1 where all colours excite it alike.",
    ),
    *(Measure(f"lambda_{name}", f"λ of {name} digits", "number") for name in COLOURS),
    Measure("highest", "The trained-in colour has the highest λ", "share"),
    Measure(
        "separated",
        "Λ is below that of an unbiased network",
        "share",
        "Over all pairs of a biased and an unbiased network.",
    ),
    Measure("accuracy", "Accuracy on digits of all colours alike", "share"),
    *(measure for count in COUNTS for measure in _small(count)),
)


class ColoredMNIST(Experiment):
    """Does a colour that was tied to a digit excite the network more?"""

    name = "insidebias-mnist"
    title = "InsideBias, Figure 3: coloured digits"
    about = (
        "For each digit and each of three colours a network in whose training 90 % of that digit"
        " have the colour, and all other digits the two other colours; unbiased networks, three at"
        " least, beside them. 10,000 images, 3 epochs; the test digits have all colours alike."
    )
    quick = "three biased networks and one unbiased, 4,000 images, 2 epochs."

    def stages(self, plan: Plan) -> Sequence[Sequence[Job]]:
        return [[job for jobs in self._jobs(plan).values() for job in jobs]]

    def _jobs(self, plan: Plan) -> dict[str, list[Job]]:
        """The networks of each kind."""
        pairs = (
            [(digit, colour) for colour in COLOURS for digit in range(10)]
            if plan.is_full
            else list(QUICK)
        )
        jobs = {
            colour: [
                _job(plan, at, digit, own) for at, (digit, own) in enumerate(pairs) if own == colour
            ]
            for colour in COLOURS
        }
        count = max(FEWEST_UNBIASED, plan.repeats) if plan.is_full else 1
        return {**jobs, UNBIASED: [_job(plan, len(pairs) + at, None, None) for at in range(count)]}

    def table(self, plan: Plan, outcome: Outcome) -> Table:
        jobs = self._jobs(plan)
        results = {
            kind: [outcome.results[job.id] for job in own if job.id in outcome.results]
            for kind, own in jobs.items()
        }
        failed = {
            kind: [outcome.failures[job.id] for job in own if job.id in outcome.failures]
            for kind, own in jobs.items()
        }
        cells = [
            Cell(
                "mnist",
                "colour",
                kind,
                "",
                measure.key,
                values=_values(measure.key, kind, results),
                failed=(
                    f"failed: {len(failed[kind])} of {len(jobs[kind])} networks, {failed[kind][0]}"
                    if failed[kind]
                    else ""
                ),
            )
            for measure in MEASURES
            for kind in jobs
            if kind != UNBIASED or measure.key not in ("highest", "separated")
        ]
        sources = sorted({one["source"] for own in results.values() for one in own})
        return Table(
            title=self.title,
            intro=introduction(self, plan),
            measures=MEASURES,
            cells=cells,
            figures=[
                _figure3(results),
                *(_figure4(kind, own) for kind, own in results.items() if own),
            ],
            notes=(
                (
                    "The paper's figure 3 prints no numbers that could stand beside ours. Each of"
                    " our numbers is a mean over networks with their own first weights, digits and"
                    " colours."
                ),
                f"Small samples: 20 of each size from the test digits of each network; τ = {TAU}.",
                "The paper trains on 60,000 images and does not say for how long.",
                *(f"Digits from {source}." for source in sources),
            ),
            citation=paper.INSIDEBIAS,
            titles=TITLES,
        )


def _job(plan: Plan, number: int, digit: int | None, colour: str | None) -> Job:
    size = {"images": 10_000, "epochs": 3} if plan.is_full else {"images": 4_000, "epochs": 2}
    name = f"{colour}-{digit}" if colour else f"{UNBIASED}-{number}"
    return Job(
        id=f"insidebias-mnist-{plan.scale}-{name}",
        work=WORK,
        settings={
            "seed": plan.seed + number,
            "digit": digit,
            "colour": colour,
            "tau": TAU,
            "counts": list(COUNTS),
            "draws": 20,
            "resamples": 500,
            **size,
        },
    )


def _values(measure: str, kind: str, results: dict[str, list[Plain]]) -> tuple[float, ...]:
    """One value a network."""
    others = [one["ratio"] for one in results[UNBIASED]]
    what, _, which = measure.partition("_")
    read: dict[str, Callable[[Plain], float]] = {
        "ratio": lambda one: one["ratio"],
        "lambda": lambda one: _decisive(one)["activation"][which],
        "highest": lambda one: float(one["highest"] == kind),
        "separated": lambda one: (
            sum(one["ratio"] < other for other in others) / len(others) if others else float("nan")
        ),
        "accuracy": lambda one: one["right"]["all"],
        "below": lambda one: one["samples"][which]["below_tau"],
        "biased": lambda one: one["samples"][which]["biased"],
    }
    return tuple(float(read[what](one)) for one in results[kind])


def _decisive(result: Plain) -> Plain:
    found = result["found"]
    layer: Plain = next(layer for layer in found["layers"] if layer["name"] == found["decisive"])
    return layer


def _mean(values: Sequence[float]) -> float | None:
    return Repeats(tuple(values)).mean if values else None


def _figure3(results: dict[str, list[Plain]]) -> Bars:
    """λ of each colour in the networks of each kind."""
    groups = [
        Group(
            TITLES[kind],
            [
                Bar(name, _mean([_decisive(one)["activation"][name] for one in own]))
                for name in DRAWN
            ],
        )
        for kind, own in results.items()
    ]
    return Bars(
        "Figure 3: λ in the last convolutional layer",
        groups,
        "λ",
        caption="Means over the networks of a kind.",
    )


def _figure4(kind: str, results: list[Plain]) -> Lines:
    """The normalised λ' of each colour over the layers."""
    layers = range(len(results[0]["found"]["layers"]))
    series = [
        Series(
            name,
            [float(at + 1) for at in layers],
            [_mean([one["found"]["curves"][name][at] for one in results]) for at in layers],
        )
        for name in DRAWN
    ]
    return Lines(
        f"Figure 4, coloured digits: networks {TITLES[kind]}",
        series,
        "layer (1 to 8: convolutions, 9: dense)",
        "λ', normalised",
        caption="Each colour's λ over its greatest; means over the networks.",
    )
