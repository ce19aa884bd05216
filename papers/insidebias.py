"""What the InsideBias paper's experiments share, and the one with colored digits: its figure 3, and
figure 4's curves for these networks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import combinations
from math import nan
from statistics import fmean
from typing import ClassVar, TypeVar

import msgspec
import numpy as np

from fairprobe.arrays import Ints
from fairprobe.errors import SettingError
from fairprobe.images.activation_ratio import InsideBias, compare
from fairprobe.images.excitement import Excitement, excitement
from fairprobe.networks.vision import vgg
from fairprobe.networks.vision_training import ON_IMAGES, labels_of, train_on_images
from fairprobe.report import Plot
from fairprobe.results import Count, Result, Share
from fairprobe.statistics.correlation import clustered_correlation
from papers import paper
from papers.base import Grid, Plan, Subject, Variant, cell_of
from papers.data.mnist import COLORS, PRIMARY, colored, fetched_digits, read_digits
from papers.jobs import Inputs, Job, Outcome, Plain
from papers.page import grouped_bars, lines
from papers.tables import Cell, Measure

UNBIASED = "unbiased"
FEWEST = 3  # networks of a kind at the paper's scale: one cannot show how often an alarm is false
TAU = 0.8


class ExaminedNetwork(Result, frozen=True, kw_only=True):
    """A network: where its images came from, how often it is right in each group, and the whole
    comparison of the groups.
    """

    source: str
    right: dict[str, Share]
    found: InsideBias

    @property
    def activation(self) -> dict[str, float]:
        """λ of each group in the layer that decides."""
        return self.found.decisive.activation


Network = TypeVar("Network", bound=ExaminedNetwork)
Networks = Mapping[str, Sequence[Network | None]]  # of each kind; None where the job failed


class Examination(Grid[Network]):
    """Biased networks of several kinds, and unbiased ones beside them."""

    citation = paper.PAPERS["INSIDEBIAS"]
    fewest = FEWEST
    quick_once = True
    of_biased: ClassVar[frozenset[str]] = frozenset({"highest", "separated"})

    def networks(self, plan: Plan, outcome: Outcome, subject: Subject) -> Networks[Network]:
        """Return the results by kind."""
        return {
            kind.method: [
                outcome.read_one(job.id, self.result) if job.id in outcome.results else None
                for job in self.jobs(plan, subject, kind)
            ]
            for kind in self.variants_of(plan)
        }

    def has(self, variant: Variant, measure: Measure) -> bool:
        return variant.method != UNBIASED or measure.key not in self.of_biased

    def cell(
        self, plan: Plan, outcome: Outcome, subject: Subject, variant: Variant, measure: Measure
    ) -> Cell:
        networks = self.networks(plan, outcome, subject)
        return replace(
            cell_of(subject, variant, measure, self.printed(plan, subject, variant, measure)),
            values=self.values(measure.key, variant.method, networks),
            failed=outcome.failure(self.jobs(plan, subject, variant), "networks"),
        )

    def values(self, measure: str, kind: str, networks: Networks[Network]) -> tuple[float, ...]:
        """Return one value for each network."""
        others = [one.found.ratio for one in networks[UNBIASED] if one is not None]
        own = kind.removeprefix("biased_")
        return tuple(
            float(self.number(measure, own, one, others))
            for one in networks[kind]
            if one is not None
        )

    def number(self, measure: str, own: str, network: Network, unbiased: Sequence[float]) -> float:
        """Measure one network, given Λ of the unbiased ones."""
        found = network.found
        if measure == "highest":
            return found.highest == own
        if measure == "separated":
            return fmean(found.ratio < other for other in unbiased) if unbiased else nan
        if measure.startswith("lambda_"):
            return network.activation[measure.removeprefix("lambda_")]
        number: float = getattr(found.decisive, measure)
        return number


def correlations(
    networks: Sequence[ExaminedNetwork], shares: Mapping[str, Sequence[Mapping[str, float]]]
) -> str:
    """How a group's shares in each network's training (by name), accuracy and activation go
    together over the networks, each relative to the mean of its network.
    """
    if not networks:
        return ""
    groups = list(networks[0].activation)
    parts = {
        **{
            name: [[own[group] for group in groups] for own in rows]
            for name, rows in shares.items()
        },
        "accuracy": [[one.right[group] for group in groups] for one in networks],
        "λ": [[one.activation[group] for group in groups] for one in networks],
    }
    arrays = {name: np.array(rows, dtype=np.float64) for name, rows in parts.items()}
    arrays["λ"] /= arrays["λ"].mean(axis=1, keepdims=True)
    said = []
    for first, second in combinations(arrays, 2):
        found = clustered_correlation(arrays[first], arrays[second])
        if found.estimate is not None and second not in shares:
            interval = "" if found.low is None else f" ({found.low:.2f} to {found.high:.2f})"
            said.append(f"{first} and {second} {found.estimate:.2f}{interval}")
    if not said:
        return ""
    return (
        f"Correlation over {len(networks)} networks of a group's {'; '.join(said)}: each relative"
        " to the mean of its network, with a 95 % interval that leaves out one network after"
        " another."
    )


def curves(
    title: str,
    networks: Sequence[ExaminedNetwork],
    names: Mapping[str, str],
    x_title: str = "layer",
    groups: str = "group",
    *,
    is_common: bool = False,
) -> Plot:
    """Draw figure 4: the normalized λ' of each group over the layers."""
    inside = [network.found for network in networks]
    found = [one.common_curves if is_common else one.curves for one in inside]
    layers = range(len(next(iter(found[0].values()))))
    series = {
        title: [fmean(curve[name][at] for curve in found) for at in layers]
        for name, title in names.items()
    }
    by = f"the greatest of all {groups}s" if is_common else "its greatest"
    caption = f"Each {groups}'s λ divided by {by}; means over the networks."
    title = f"{title}, one scale" if is_common else title
    places = [float(at + 1) for at in layers]
    return lines(title, series, places, x_title, "λ', normalized", caption=caption)


class Samples(Result, frozen=True, kw_only=True):
    """How often small samples had Λ below τ, and how often chance seldom gives as low a Λ besides;
    and their mean Λ.
    """

    below_tau: Share
    beyond_chance: Share
    ratio: float


def small_samples(excited: Excitement, count: int, settings: Plain) -> Samples:
    """Compare the groups on small samples of images, drawn several times."""
    rng = np.random.default_rng([settings["seed"], count])
    found = [
        compare(
            excited.sample(count, rng),
            resamples=settings["resamples"],
            seed=draw,
        )
        for draw in range(settings["draws"])
    ]
    is_below = [one.ratio < settings["tau"] for one in found]
    is_rare = [one.verdict == "different" for one in found]
    return Samples(
        below_tau=fmean(is_below),
        beyond_chance=fmean(np.logical_and(is_below, is_rare)),
        ratio=fmean(one.ratio for one in found),
    )


# -- colored digits: the work ----------------------------------------------------------------------

# added to the seed, so that the test images' colors are drawn apart from the training's
TEST_SEED = 20_000


class DigitNetwork(ExaminedNetwork, frozen=True, kw_only=True):
    """A network that knows digits. `right` has all colors together, too."""

    learnt: Count
    tested: Count
    ratio: float
    highest: str
    samples: dict[str, Samples]
    # of each color; empty in records of an earlier version and in unbiased networks
    share_in_training: dict[str, Share] = msgspec.field(default_factory=dict)
    share_in_tied_digit: dict[str, Share] = msgspec.field(default_factory=dict)


_read = lru_cache(maxsize=1)(read_digits)


def look(settings: Plain, inputs: Inputs) -> DigitNetwork:
    """Train Network 1 with the bias that the settings name, or none, and compare the colors on
    test images in equal shares.
    """
    del inputs
    source, seed = fetched_digits(), settings["seed"]
    train, test = _read(source).split()
    rng = np.random.default_rng(seed)
    drawn = train.take(rng.choice(len(train), min(settings["images"], len(train)), replace=False))
    lessons = colored(drawn, seed=seed, digit=settings["digit"], color=settings["colour"])
    shown = colored(test, seed=seed + TEST_SEED)
    network = vgg((3, 28, 28), 10, seed=seed)
    training = replace(ON_IMAGES, epochs=settings["epochs"])
    train_on_images(network, lessons.images, lessons.labels, seed=seed, training=training)
    right = labels_of(network, shown.images) == shown.labels
    excited = excitement(network, shown.groups())
    found = compare(excited, seed=seed)
    is_tied = lessons.labels == settings["digit"]
    return DigitNetwork(
        source=source.name,
        learnt=len(drawn),
        tested=len(test),
        right={
            "all": float(right.mean()),
            **{name: float(right[shown.colors == at].mean()) for at, name in enumerate(COLORS)},
        },
        ratio=found.ratio,
        highest=found.highest,
        found=found,
        samples={
            str(count): small_samples(excited, count, settings) for count in settings["counts"]
        },
        share_in_training=color_shares(lessons.colors) if is_tied.any() else {},
        share_in_tied_digit=color_shares(lessons.colors[is_tied]) if is_tied.any() else {},
    )


def color_shares(colors: Ints) -> dict[str, float]:
    """The share of each color, which are given as positions in `COLORS`."""
    return {name: float((colors == at).mean()) for at, name in enumerate(COLORS)}


# -- colored digits: the figures -------------------------------------------------------------------

DRAWN = {name: name for name in ("red", "blue", "green")}  # like the first colors of our figures
MNIST = Subject("mnist", "colour")
QUICK = ((0, "red"), (3, "green"), (7, "blue"))
COUNTS = (5, 100)  # images of each color in a small sample


def _digits(plan: Plan) -> set[int]:
    """The digits that are tied to a color."""
    words = plan.options.get("digits", "0,1,2,3,4,5,6,7,8,9").split(",")
    if not all(word.strip().isdecimal() and int(word) < 10 for word in words):
        raise SettingError(
            "The option digits has digits from 0 to 9, divided by commas; got"
            f" '{plan.options['digits']}'."
        )
    return {int(word) for word in words}


class ColoredMNIST(Examination[DigitNetwork]):
    """Activation of networks for a color that was tied to a digit."""

    name = "insidebias-mnist"
    result = DigitNetwork
    subjects = (MNIST,)

    def variants_of(self, plan: Plan) -> Sequence[Variant]:
        del plan
        return [*map(Variant, COLORS), Variant(UNBIASED)]

    def jobs(self, plan: Plan, subject: Subject, variant: Variant) -> list[Job]:
        """Return the networks of a kind. A network's seed is its number among all."""
        del subject
        every = [(digit, color) for color in COLORS for digit in range(10)]
        tied, kind = _digits(plan), variant.method
        biases: list[tuple[int | None, str]] = [*(every if plan.is_full else QUICK)]
        biases += [(None, UNBIASED)] * self.repeats(plan)
        return [
            _network_job(plan, kind, number, digit)
            for number, (digit, color) in enumerate(biases)
            if color == kind and (digit is None or digit in tied)
        ]

    def job(self, plan: Plan, subject: Subject, variant: Variant, repeat: int) -> Job:
        del subject
        return _network_job(plan, variant.method, repeat, None)

    def number(
        self, measure: str, own: str, network: DigitNetwork, unbiased: Sequence[float]
    ) -> float:
        what, _, count = measure.partition("_")
        if what == "accuracy":
            return network.right["all"]
        if what == "below":
            return network.samples[count].below_tau
        if what == "biased":
            return network.samples[count].beyond_chance
        return super().number(measure, own, network, unbiased)

    def figures(self, plan: Plan, outcome: Outcome) -> Sequence[Plot]:
        """Draw λ of each color in the networks of each kind, and over their layers."""
        done = {
            kind: [one for one in networks if one is not None]
            for kind, networks in self.networks(plan, outcome, MNIST).items()
        }

        def mean(color: str, networks: Sequence[DigitNetwork]) -> float | None:
            values = [network.activation[color] for network in networks]
            return fmean(values) if values else None

        groups = {
            self.titles[kind]: {color: mean(color, networks) for color in DRAWN}
            for kind, networks in done.items()
        }
        return [
            grouped_bars(
                "Figure 3: λ in the last convolutional layer",
                groups,
                "λ",
                caption="Means over the networks of a kind.",
            ),
            *(
                curves(
                    f"Figure 4, colored digits: networks {self.titles[kind]}",
                    networks,
                    DRAWN,
                    "layer (1 to 8: convolutions, 9: dense)",
                    "color",
                    is_common=is_common,
                )
                for kind, networks in done.items()
                if networks
                for is_common in (False, True)
            ),
        ]

    def notes(self, plan: Plan, outcome: Outcome) -> Sequence[str]:
        kinds = self.networks(plan, outcome, MNIST)
        done = [(kind, one) for kind, some in kinds.items() for one in some if one is not None]
        sources = {one.source for _, one in done}
        tied = [one.share_in_training[kind] for kind, one in done if one.share_in_training]
        biased = [one for _, one in done if one.share_in_training]
        shares = {
            "share among images of the tied digit": [one.share_in_tied_digit for one in biased],
            "share of all training images": [one.share_in_training for one in biased],
        }
        return (
            *filter(None, [_rarity(tied), correlations(biased, shares)]),
            *self.remarks,
            *(f"Digits from {source}." for source in sorted(sources)),
        )


def _network_job(plan: Plan, kind: str, number: int, digit: int | None) -> Job:
    size = {"images": 60_000, "epochs": 3} if plan.is_full else {"images": 4_000, "epochs": 2}
    return Job(
        id=f"insidebias-mnist-{plan.scale}-{kind}-{number if digit is None else digit}",
        work=f"{__name__}:look",
        settings={
            "seed": plan.seed + number,
            "digit": digit,
            "colour": None if digit is None else kind,
            "tau": TAU,
            "counts": list(COUNTS),
            "draws": 20,
            "resamples": 500,
            **size,
        },
    )


def _rarity(tied: Sequence[float]) -> str:
    """How common the tied color is in training, given its share in each network's."""
    if not tied:
        return ""
    share = fmean(tied)
    return (
        f"The tied color belongs to {PRIMARY:.0%} of one digit's images and to no other digit. That"
        f" is {share:.1%} of all training images, against {(1 - share) / 2:.1%} for each other"
        " color: it is the rarest. The bias that the paper means is the share among images of the"
        " tied digit."
    ).replace("%", " %")
