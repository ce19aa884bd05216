"""Define a search method. The loop judges, counts, accepts and keeps; a method only says where to
look next.

Most methods are two small rules (`TwoPhase`): how to go on from a seed until it is discriminatory,
and how to go on around what was found. A method with a plan of its own (`Explorer`: a sample, a
queue) proposes rows and is sent the judge's verdict on them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np

from fairprobe.arrays import Ints, Mask, Rows
from fairprobe.errors import SettingError
from fairprobe.judgement import Seen, Verdict
from fairprobe.models import GradientsOf, Model
from fairprobe.people.plausible import PlausiblePeople
from fairprobe.schema.domain import Domain
from fairprobe.search.budget import Budget
from fairprobe.search.moves import Moves
from fairprobe.search.neuron_bias import NeuronBias

ROWS_AT_ONCE = 16_384  # walkers × sensitive values in one batch

Miss = Literal["go on", "back to last", "back to start", "walk"]

REPORT_WORDS = ("seeds", "global_steps", "local_steps", "again", "noun")
FROM_SEEDS = (
    "It starts from {seeds} (seeds), moves each up to {global_steps} to a first case (global"
    " phase), and then takes {local_steps} around it (local phase), "
)


@dataclass(frozen=True)
class SearchContext:
    """Domain, model and moves of a search. `people`, where given, are those that it stays among.
    `memory` is what the method remembers across all seeds. The `budget` is for methods that plan
    with it; the loop ends the search.
    """

    domain: Domain
    model: Model
    moves: Moves
    people: PlausiblePeople | None = None
    memory: dict[str, Any] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget)

    def draw(self, n: int, rng: np.random.Generator) -> Rows:
        """People drawn at random: plausible ones, or uniformly from the domain."""
        if self.people is not None:
            return self.people.draw(n, rng=rng)
        return self.domain.sample(n, rng=rng)


@dataclass
class Walkers:
    """Batch of rows on their way, one a seed. `memory` is the method's own, one entry a walker
    along the first axis.

    `seed` is the row that each set out from, `origin` its number; `start` is where its local walk
    began. `moved` says which rows have changed since the method last saw them, `hit` whether the
    last step found an IDI, `on_idi` whether the walker stands on one; `step` counts the steps of
    this phase. `seen` is what the judge has seen of the rows that have moved, where known.
    """

    x: Rows
    x_other: Rows
    origin: Ints
    seed: Rows
    start: Rows
    start_other: Rows
    moved: Mask
    hit: Mask
    on_idi: Mask
    step: int = 0
    memory: dict[str, np.ndarray[Any, np.dtype[Any]]] = field(default_factory=dict)
    seen: Seen | None = None

    @classmethod
    def at(cls, x: Rows, x_other: Rows, origin: Ints, seed: Rows) -> Walkers:
        """Walkers that stand here and have not moved yet."""
        fresh = np.ones(len(x), dtype=bool)
        return cls(x, x_other, origin, seed, x, x_other, fresh, fresh, fresh)

    def __len__(self) -> int:
        return len(self.x)

    def keep(self, rows: Mask) -> None:
        """Drop the other walkers."""
        for each in fields(self)[:-3]:
            setattr(self, each.name, getattr(self, each.name)[rows])
        self.seen = None
        self.memory = {name: value[rows] for name, value in self.memory.items()}


class Method(ABC):
    """Search method, which describes itself; its settings are the fields of a frozen dataclass,
    with the paper's values as defaults.

    `variants` maps each variant to a few words about it, the default first. `report_text` says in
    the report how the method searches; it may use {seeds}, {global_steps}, {local_steps}, {again}
    and {noun}. `origin` names what the number in the findings' column "origin" counts.
    `settings_text` says what its own settings mean, `symbols` which of them a letter of the paper
    stands for. `required` are the arguments, as Python code, without which the class cannot be
    created.
    """

    name: ClassVar[str]
    title: ClassVar[str] = ""
    about: ClassVar[str] = ""
    paper: ClassVar[str] = ""
    variants: ClassVar[Mapping[str, str]] = {}
    report_text: ClassVar[str] = "It was given {seeds} to start from (seeds)."
    origin: ClassVar[str] = "seed"
    required: ClassVar[tuple[str, ...]] = ()
    settings_text: ClassVar[Mapping[str, str]] = {}
    symbols: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    needs_gradients: ClassVar[bool] = False
    needs_neurons: ClassVar[bool] = False  # the interpretation of a hidden layer
    needs_people: ClassVar[bool] = False  # plausible people, to make others from
    takes_scores: ClassVar[bool] = False  # works where the answer is a number, not a class
    uses_seeds: ClassVar[bool] = True
    starts_from_data: ClassVar[bool] = True  # at the seeds themselves, not at as many of its own
    by_seeds: ClassVar[bool] = False  # a search from some seeds depends on these alone
    has_phases: ClassVar[bool] = True  # a global and a local one
    variant: str = ""
    global_iterations: int = 0
    local_iterations: int = 0
    step: float = 1.0
    seconds: float | None = None

    @classmethod
    def create(cls, *, bias: NeuronBias | None, x: Rows | None, **settings: Any) -> Self:
        """Create the method for a search. `bias` is the interpretation of the network, `x` the
        people in the data, for methods that use them.
        """
        del bias, x
        return cls(**settings)

    def scores(self, context: SearchContext) -> dict[str, float]:
        """Return what the method measured on its way, by name."""
        del context
        return {}

    def seeds_at_once(self, values: int) -> int:
        """Return the number of seeds in a chunk of the search, for a number of sensitive values."""
        return max(1, ROWS_AT_ONCE // values)

    @classmethod
    def search_text(cls, **values: str) -> str:
        """`report_text` with its words in brackets filled in."""
        return cls.report_text.format_map({**dict.fromkeys(REPORT_WORDS, ""), **values})


def check_description(method: object) -> None:
    """Raise TypeError unless this is a method class that describes itself."""
    if not (isinstance(method, type) and issubclass(method, Method)):
        raise TypeError("it must be a subclass of fairprobe.search.TwoPhase or Explorer")
    for name in ("title", "about"):
        if not getattr(method, name):
            raise TypeError(f"it has no {name}")
    method.search_text()


def check_variant(method: Method) -> None:
    """Raise SettingError for a variant, or a kind of gradients, that the method does not have."""
    if method.variant not in method.variants:
        raise SettingError(
            f"The variant of '{method.name}' must be one of {', '.join(method.variants)}; got"
            f" '{method.variant}'."
        )
    gradients, known = getattr(method, "gradients", "logits"), get_args(GradientsOf)
    if gradients not in known:
        raise SettingError(f"Gradients are of {' or '.join(known)}; got '{gradients}'.")


class TwoPhase(Method):
    """Define a method by two rules. One that remembers something across seeds
    (`SearchContext.memory`) sets `by_seeds = False`.
    """

    by_seeds: ClassVar[bool] = True

    @property
    @abstractmethod
    def on_miss(self) -> Miss:
        """Name what a local walker does when its step was no IDI."""

    def starts(self, context: SearchContext, seeds: Rows, rng: np.random.Generator) -> Rows:
        """Where the global phase sets out from: the seeds, unless the method brings its own."""
        del context, rng
        return seeds

    @abstractmethod
    def global_step(
        self, context: SearchContext, walkers: Walkers, rng: np.random.Generator
    ) -> Rows:
        """Return the next row of each walker that has not found an IDI yet."""

    @abstractmethod
    def local_step(
        self, context: SearchContext, walkers: Walkers, rng: np.random.Generator
    ) -> Rows:
        """Return a row near each walker, to be judged."""


@dataclass(frozen=True)
class Proposal:
    """Rows to be judged, the number of the seed that each comes from, their phase, and how much of
    the whole plan is done (0 to 1). `could_exist`: they are known to be plausible people and no
    copies, if the search stays among such.
    """

    x: Rows
    origin: Ints
    phase: Literal["global", "local"] = "global"
    done: float = 0.0
    could_exist: bool = False


class Explorer(Method):
    """Method with a plan of its own. With `by_seeds` it is asked for a plan for each chunk of
    seeds; otherwise for one plan for all.
    """

    @abstractmethod
    def propose(
        self, context: SearchContext, seeds: Rows, rng: np.random.Generator
    ) -> Generator[Proposal, Verdict, None]:
        """Rows to be judged; each `yield` is answered with the judge's verdict of them."""
