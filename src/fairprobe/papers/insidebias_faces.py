"""The InsideBias paper's faces: tables I and II, and figure 4. Gender, learnt mostly from one
ethnic group or from all alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, pstdev

from scipy.stats import mannwhitneyu

from fairprobe.papers import paper
from fairprobe.papers.base import Experiment, Plan, introduction
from fairprobe.papers.jobs import Job, Outcome, Plain
from fairprobe.papers.tables import Cell, Lines, Measure, Table
from fairprobe.present.experiment_plots import Series

WORK = "fairprobe.papers.insidebias_faces_work:look"
GROUPS = ("a", "b", "c")
UNBIASED = "unbiased"
KINDS = (*(f"biased_{name}" for name in GROUPS), UNBIASED)
FEWEST = 3  # networks of a kind at the paper's scale
TAU = 0.8
CERTAIN = 0.05
# The same for all seeds and mixtures; the table's notes say how they were chosen.
TRAININGS: dict[str, Plain] = {
    "vgg": {"epochs": 24, "late": 4, "batch": 32},
    "resnet": {"epochs": 10, "late": 2, "batch": 64},
}
QUICK: dict[str, Plain] = {"vgg": {"epochs": 4, "late": 1, "batch": 32}}
SIDE = 32
TITLES = {
    "vgg": "VGG",
    "resnet": "ResNet",
    "race": "ethnic group",
    **{f"biased_{name}": f"biased ({name.upper()})" for name in GROUPS},
    UNBIASED: UNBIASED,
}

MEASURES = (
    *(
        Measure(f"accuracy_{name}", f"Table I: accuracy in group {name.upper()}", "share")
        for name in GROUPS
    ),
    Measure("accuracy", "Table I: mean accuracy of the three groups", "share"),
    Measure(
        "accuracy_sd", "Table I: standard deviation over the groups", "share", "Lower is fairer."
    ),
    Measure(
        "shift",
        "Shift of accuracy towards the trained group",
        "share",
        "How much more the own group gains over the unbiased network of the same seed than the two"
        " others do (their mean change). The paper's is worked out from its Table I.",
    ),
    *(
        Measure(
            f"lambda_{name}",
            f"Table II: λ of group {name.upper()}",
            "number",
            "Of the last convolutional layer.",
        )
        for name in GROUPS
    ),
    Measure(
        "ratio",
        "Table II: Activation Ratio Λ",
        "number",
        "Ours on all held-out faces, the paper's on 15 chosen images. 1 where all groups excite the"
        " layer alike.",
    ),
    Measure(
        "low",
        "Λ, lower end of its interval",
        "number",
        "The 95 % bootstrap interval of each network, averaged.",
    ),
    Measure("high", "Λ, upper end of its interval", "number"),
    Measure(
        "by_chance",
        "Λ by chance alone",
        "number",
        "The median Λ of groups of the same sizes that are drawn from all faces together.",
    ),
    Measure("highest", "The trained group has the highest λ", "share"),
    Measure(
        "separated",
        "Λ is below that of an unbiased network",
        "share",
        "Over all pairs of a biased and an unbiased network.",
    ),
    Measure(
        "below",
        "Λ below τ on 15 faces, five of each group",
        "share",
        "The paper's rule; for unbiased networks a false alarm.",
    ),
)


class Faces(Experiment):
    """Does a network for gender that hardly saw an ethnic group know it less, and does Λ show
    it?
    """

    name = "insidebias-faces"
    title = "InsideBias, Tables I and II: gender from faces"
    about = (
        "VGG and ResNet learn gender from faces of FairFace in the paper's three groups: A East and"
        " Southeast Asian, B Black and Indian, C White and Latino. Biased networks see 90 % of one"
        " group and 5 % of each other, unbiased ones a third of each; all see equally many. They"
        " are tested on held-out faces of all groups."
    )
    quick = "one VGG biased towards A and one unbiased, 600 faces of 32 × 32 pixels, 4 epochs."

    def stages(self, plan: Plan) -> Sequence[Sequence[Job]]:
        return [
            [job for kinds in self._jobs(plan).values() for jobs in kinds.values() for job in jobs]
        ]

    def _jobs(self, plan: Plan) -> dict[str, dict[str, list[Job]]]:
        """The networks by architecture and kind, one a seed."""
        seeds = range(max(FEWEST, plan.repeats) if plan.is_full else 1)
        kinds = KINDS if plan.is_full else ("biased_a", UNBIASED)
        trainings = TRAININGS if plan.is_full else QUICK
        return {
            network: {
                kind: [_job(plan, network, kind, number, training) for number in seeds]
                for kind in kinds
            }
            for network, training in trainings.items()
        }

    def table(self, plan: Plan, outcome: Outcome) -> Table:
        jobs = self._jobs(plan)
        results = {
            network: {
                kind: [outcome.results.get(job.id) for job in own] for kind, own in kinds.items()
            }
            for network, kinds in jobs.items()
        }
        cells = [
            Cell(
                network,
                "race",
                kind,
                "",
                measure.key,
                values=_values(measure.key, kind, results[network]),
                paper=_paper(measure.key, network, kind),
                failed=_failed([job.id for job in own], outcome),
            )
            for measure in MEASURES
            for network, kinds in jobs.items()
            for kind, own in kinds.items()
            if kind != UNBIASED or measure.key not in ("shift", "highest", "separated")
        ]
        done = [
            one
            for kinds in results.values()
            for own in kinds.values()
            for one in own
            if one is not None
        ]
        return Table(
            title=self.title,
            intro=introduction(self, plan),
            measures=MEASURES,
            cells=cells,
            figures=[
                _figure4(network, kind, found)
                for network, kinds in results.items()
                for kind, own in kinds.items()
                if (found := [one for one in own if one is not None])
            ],
            notes=(
                *(said for network, kinds in results.items() if (said := verdict(network, kinds))),
                *_data(done),
                (
                    "The paper has 18,000 images of 120 × 120 pixels of other people (DiveFace), we"
                    " a tenth as many, brought to 32 × 32 pixels to keep the training affordable,"
                    " each time moved a little and mirrored by chance. FairFace's Middle Eastern"
                    " faces are in no group of the paper and are left out."
                ),
                (
                    "The length of the training, the batch and the size were chosen among about ten"
                    " tries, one seed each, nearly all with unbiased networks on faces that the"
                    " network had not learnt from and that are not held out; one try was looked at"
                    " on the held-out faces and dropped. They are the same for every seed and every"
                    " mixture."
                ),
                (
                    f"τ = {TAU}; fifteen faces are drawn 20 times from the held-out ones of each"
                    " network, where the paper chose them."
                ),
            ),
            citation=paper.INSIDEBIAS,
            titles=TITLES,
        )


def _job(plan: Plan, network: str, kind: str, number: int, training: Plain) -> Job:
    return Job(
        id=f"insidebias-faces-{plan.scale}-{network}-{kind}-{number}",
        work=WORK,
        settings={
            "network": network,
            "own": None if kind == UNBIASED else kind.removeprefix("biased_"),
            "seed": plan.seed + number,
            "images": (
                1_776 if plan.is_full else 600
            ),  # of which 90 % is what FairFace's part has of a group
            "tau": TAU,
            "count": 5,
            "draws": 20,
            "resamples": 200,
            "side": SIDE,
            **training,
        },
        weight=3.0 if network == "resnet" else 1.0,
    )


def shift(own: str, biased: Mapping[str, float], unbiased: Mapping[str, float]) -> float:
    """The own group's gain in accuracy over the unbiased network, minus the mean change of the
    others.
    """
    change = {name: biased[name] - unbiased[name] for name in GROUPS}
    return change[own] - fmean(change[name] for name in GROUPS if name != own)


def verdict(network: str, results: Mapping[str, Sequence[Plain | None]]) -> str:
    """Whether Λ tells biased networks from unbiased ones, in a sentence; nothing where one of both
    is missing.
    """
    biased = [
        one["found"]["ratio"]
        for kind, own in results.items()
        if kind != UNBIASED
        for one in own
        if one is not None
    ]
    unbiased = [one["found"]["ratio"] for one in results.get(UNBIASED, []) if one is not None]
    if not biased or not unbiased:
        return ""
    ranges = f"Λ of biased networks is {_range(biased)}, of unbiased ones {_range(unbiased)}"
    if min(len(biased), len(unbiased)) < FEWEST:
        return (
            f"{TITLES[network]}: {ranges}. So few networks cannot tell whether Λ distinguishes the"
            " two."
        )
    p_value = float(mannwhitneyu(biased, unbiased, alternative="less").pvalue)
    told = (
        "Λ is lower in biased networks"
        if p_value <= CERTAIN
        else "by Λ the two are not distinguishable"
    )
    return f"{TITLES[network]}: {ranges}; {told} (Mann–Whitney, p = {p_value:.2g})."


def _range(values: Sequence[float]) -> str:
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low} to {high}"


def _values(
    measure: str, kind: str, results: Mapping[str, Sequence[Plain | None]]
) -> tuple[float, ...]:
    """One value a network. A biased network is compared with the unbiased one of its seed."""
    others = [one["found"]["ratio"] for one in results[UNBIASED] if one is not None]
    own, (what, _, which) = kind.removeprefix("biased_"), measure.partition("_")
    if measure == "shift":
        pairs = zip(results[kind], results[UNBIASED], strict=True)
        return tuple(
            shift(own, one["right"], beside["right"])
            for one, beside in pairs
            if one is not None and beside is not None
        )
    read: dict[str, Callable[[Plain], float]] = {
        "accuracy": lambda one: one["right"][which] if which else fmean(one["right"].values()),
        "accuracy_sd": lambda one: pstdev(one["right"].values()),
        "lambda": lambda one: _decisive(one)["activation"][which],
        "highest": lambda one: float(one["found"]["highest"] == own),
        "separated": lambda one: (
            fmean(one["found"]["ratio"] < other for other in others) if others else float("nan")
        ),
        "below": lambda one: one["few"]["below_tau"],
    }
    rule = read.get(measure) or read.get(what) or (lambda one: one["found"][measure])
    return tuple(float(rule(one)) for one in results[kind] if one is not None)


def _paper(measure: str, network: str, kind: str) -> float | None:
    """The paper's number; its shift follows from its accuracies."""
    if measure == "shift":
        biased, unbiased = (
            {name: _printed(f"accuracy_{name}", network, one) for name in GROUPS}
            for one in (kind, UNBIASED)
        )
        return shift(kind.removeprefix("biased_"), biased, unbiased)
    printed = {
        name
        for table in ("insidebias-table1", "insidebias-table2")
        for name in (one.measure for one in paper.figures(table))
    }
    return _printed(measure, network, kind) if measure in printed else None


def _printed(measure: str, network: str, kind: str) -> float:
    table = "insidebias-table1" if measure.startswith("accuracy") else "insidebias-table2"
    value = paper.figure(table, network, "race", kind, measure)
    assert value is not None
    return value


def _failed(ids: Sequence[str], outcome: Outcome) -> str:
    failures = [outcome.failures[name] for name in ids if name in outcome.failures]
    return f"failed: {len(failures)} of {len(ids)} networks, {failures[0]}" if failures else ""


def _data(results: Sequence[Plain]) -> list[str]:
    """What was learnt from and tested on."""
    if not results:
        return []
    first = results[0]
    sources = ", ".join(sorted({one["source"] for one in results}))
    counts = sorted({sum(one["learnt"].values()) for one in results})
    learnt = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    tested = ", ".join(
        f"{count} of group {name.upper()}" for name, count in first["tested"].items()
    )
    return [f"Faces from {sources}: a network learns from {learnt}, and is tested on {tested}."]


def _decisive(result: Plain) -> Plain:
    found = result["found"]
    layer: Plain = next(layer for layer in found["layers"] if layer["name"] == found["decisive"])
    return layer


def _figure4(network: str, kind: str, results: Sequence[Plain]) -> Lines:
    """The normalised λ' of each group over the layers."""
    layers = range(len(results[0]["found"]["layers"]))
    series = [
        Series(
            f"group {name.upper()}",
            [float(at + 1) for at in layers],
            [fmean(one["found"]["curves"][name][at] for one in results) for at in layers],
        )
        for name in GROUPS
    ]
    return Lines(
        f"Figure 4: {TITLES[network]}, {TITLES[kind]}",
        series,
        "layer",
        "λ', normalised",
        caption="Each group's λ over its greatest; means over the networks.",
    )
