"""What can be chosen by name: fairprobe's own parts, one line each, and those that installed
packages add through entry points.

A part (a search method, a repair, a measure) describes itself: it has a `name`, a `title`, one
sentence `about` it and more, declared beside its code. The command line, the reports and the
documentation are generated from that. A package adds a part with, for instance,

    [project.entry-points."fairprobe.methods"]
    greedy = "my_package.greedy:Greedy"

Names are known without importing anything. A part is imported when it is first used or listed.
Where a package registers the name of one of fairprobe's own parts, fairprobe's own is used.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from fairprobe.errors import SettingError, suggest

Part = TypeVar("Part")


class PluginWarning(UserWarning):
    """An installed package registers a part that cannot be used."""


class Catalogue(Generic[Part]):
    """The parts of one kind, called `noun` in messages. `own` maps names to "module:attribute";
    installed packages add theirs in the entry-point `group`. `check`, a "module:function", raises
    TypeError for a part that does not describe itself.
    """

    def __init__(self, group: str, noun: str, *, check: str, own: Mapping[str, str]) -> None:
        self.group, self.noun, self.own = group, noun, own
        self._check = check
        self._loaded: dict[str, Part] = {}

    def __iter__(self) -> Iterator[str]:
        """The names: fairprobe's own in their order, then the plug-ins' in alphabetical order."""
        yield from self.own
        yield from sorted(self._plugins)

    def __contains__(self, name: object) -> bool:
        return name in self.own or name in self._plugins

    def __getitem__(self, name: str) -> Part:
        """Load a part; raise SettingError if there is none of that name or it cannot be used."""
        if name not in self._loaded:
            if name in self.own:
                self._loaded[name] = _load(self.own[name])
            elif name in self._plugins:
                self._loaded[name] = self._load_plugin(self._plugins[name])
            else:
                raise SettingError(f"There is no {self.noun} '{name}'.{suggest(name, self)}")
        return self._loaded[name]

    def get(self, name: str) -> Part | None:
        """Load a part; return None if it is unknown or cannot be used."""
        try:
            return self[name]
        except SettingError:
            return None

    def all(self) -> dict[str, Part]:
        """Load every part; warn about those that cannot be used, and leave them out."""
        parts = {}
        for name in self:
            try:
                parts[name] = self[name]
            except SettingError as error:
                warnings.warn(str(error), PluginWarning, stacklevel=2)
        return parts

    @cached_property
    def _plugins(self) -> dict[str, EntryPoint]:
        return {
            entry.name: entry
            for entry in entry_points(group=self.group)
            if entry.name not in self.own
        }

    def _load_plugin(self, entry: EntryPoint) -> Part:
        try:
            part: Part = entry.load()
            _load(self._check)(part)
            _check_name(part, entry.name)
        except Exception as error:  # anything can go wrong in another's package
            package = entry.dist.name if entry.dist else entry.module
            raise SettingError(
                f"The {self.noun} '{entry.name}' of the package '{package}' cannot be used:"
                f" {type(error).__name__}: {error}. Update or uninstall the package."
            ) from error
        return part


def _check_name(part: object, registered: str) -> None:
    if (name := getattr(part, "name", None)) != registered:
        raise TypeError(f"its name is {name!r}, and it is registered as {registered!r}")


def _load(target: str) -> Any:
    module, _, attribute = target.partition(":")
    return getattr(import_module(module), attribute)


METHODS: Catalogue[Any] = Catalogue(
    "fairprobe.methods",
    "method",
    check="fairprobe.search.methods.base:check_description",
    own={
        "probe": "fairprobe.search.methods.probe:Probe",
        "neuronfair": "fairprobe.search.methods.neuronfair:NeuronFair",
        "adf": "fairprobe.search.methods.adf:ADF",
        "eidig": "fairprobe.search.methods.eidig:EIDIG",
        "aequitas": "fairprobe.search.methods.aequitas:Aequitas",
        "grft": "fairprobe.search.methods.grft:GRFT",
        "maft": "fairprobe.search.methods.maft:MAFT",
        "symbgen": "fairprobe.search.methods.symbgen:SymbGen",
        "themis": "fairprobe.search.methods.themis:Themis",
        "random": "fairprobe.search.methods.random_walk:RandomWalk",
        "crossover": "fairprobe.search.methods.crossover:Crossover",
    },
)
REPAIRS: Catalogue[Any] = Catalogue(
    "fairprobe.repairs",
    "repair",
    check="fairprobe.repairs.base:check_description",
    own={
        "counterfactual": "fairprobe.repairs.counterfactual:Counterfactual",
        "certified": "fairprobe.repairs.certified:Certified",
        "retrain": "fairprobe.repairs.retrain:Retrain",
        "iifr": "fairprobe.repairs.iifr:IIFR",
        "blind": "fairprobe.repairs.blind:Blind",
        "alfr": "fairprobe.repairs.adversarial:ALFR",
        "laftr": "fairprobe.repairs.adversarial:LAFTR",
        "cfair": "fairprobe.repairs.adversarial:CFAIR",
    },
)
POST_HOC: Catalogue[Any] = Catalogue(
    "fairprobe.post_hoc_repairs",
    "post-hoc repair",
    check="fairprobe.repairs.posthoc:check_description",
    own={
        "average": "fairprobe.repairs.average:Average",
        "thresholds": "fairprobe.repairs.thresholds:Thresholds",
        "abstain": "fairprobe.repairs.abstain:Abstain",
    },
)
MEASURES: Catalogue[Any] = Catalogue(
    "fairprobe.measures",
    "measure",
    check="fairprobe.measures:check_description",
    own={
        "people": "fairprobe.table.people:PEOPLE",
        "plausible_people": "fairprobe.table.plausible:PLAUSIBLE_PEOPLE",
        "ties": "fairprobe.table.people:TIES",
        "dm_rs": "fairprobe.metrics.rates:DM_RS",
        "ifr_b": "fairprobe.metrics.individual:IFR_B",
        "ifr_p": "fairprobe.metrics.individual:IFR_P",
        "demographic_parity": "fairprobe.metrics.group:DEMOGRAPHIC_PARITY",
        "demographic_parity_sd": "fairprobe.metrics.group:DEMOGRAPHIC_PARITY_SD",
        "equalized_odds": "fairprobe.metrics.group:EQUALIZED_ODDS",
        "equalized_odds_sd": "fairprobe.metrics.group:EQUALIZED_ODDS_SD",
        "impact_ratio": "fairprobe.metrics.group:IMPACT_RATIO",
        "auc": "fairprobe.search.neuron_bias:AUC",
        "idis": "fairprobe.table.generation:IDIS",
        "input_space": "fairprobe.table.generation:INPUT_SPACE",
        "distance": "fairprobe.table.generation:DISTANCE",
        "accuracy": "fairprobe.metrics.quality:ACCURACY",
        "f1": "fairprobe.metrics.quality:F1",
        "mcc": "fairprobe.metrics.quality:MCC",
        "proved_share": "fairprobe.certificates.report:PROVED_SHARE",
        "proved_people": "fairprobe.certificates.report:PROVED_PEOPLE",
        "upper_bound": "fairprobe.certificates.report:UPPER_BOUND",
        "text_flips": "fairprobe.language.text_report:TEXT_FLIPS",
        "text_gaps": "fairprobe.language.text_report:TEXT_GAPS",
        "leaning": "fairprobe.table.chat:LEANING",
        "names_difference": "fairprobe.language.names:NAMES_DIFFERENCE",
        "names_excess": "fairprobe.language.names:NAMES_EXCESS",
        "change": "fairprobe.metrics.scores:CHANGE",
        "change_sd": "fairprobe.metrics.scores:CHANGE_SD",
        "change_p90": "fairprobe.metrics.scores:CHANGE_P90",
        "scoring_ratio": "fairprobe.metrics.scores:SCORING_RATIO",
        "mean_difference": "fairprobe.metrics.scores:MEAN_DIFFERENCE",
        "r2": "fairprobe.metrics.scores:R2",
    },
)
