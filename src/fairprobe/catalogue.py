"""Catalogues of parts chosen by name: fairprobe's own, and those that installed packages add
through entry points.

A part (a search method, a repair, a measure) describes itself: it has a `name`, a `title`, one
sentence `about` it and more, declared beside its code. The command line, the reports and the
documentation are generated from that. A package adds a part with, for instance,

    [project.entry-points."fairprobe.methods"]
    greedy = "my_package.greedy:Greedy"

Names are known without importing anything. A part is imported when it is first used or listed.
Measures are found where they are declared, so a new one touches no other file.
Where a package registers the name of one of fairprobe's own parts, fairprobe's own is used.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Generic, TypeVar

from fairprobe.errors import SettingError, suggest

Part = TypeVar("Part")


class PluginWarning(UserWarning):
    """Warns that an installed package registers a part that cannot be used."""


class Catalogue(Generic[Part]):
    """Parts of one kind, called `noun` in messages. `own` maps names to "module:attribute", or
    names the class whose instances fairprobe's modules declare; installed packages add theirs in
    the entry-point `group`. `check`, a "module:function", raises TypeError for a part that does not
    describe itself.
    """

    def __init__(self, group: str, noun: str, *, check: str, own: Mapping[str, str] | str) -> None:
        self.group, self.noun = group, noun
        self._check, self._own = check, own
        self._loaded: dict[str, Part] = {}

    def __iter__(self) -> Iterator[str]:
        """Yield names: fairprobe's own in their order, then the plug-ins' in alphabetical order."""
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
    def own(self) -> Mapping[str, str]:
        """Fairprobe's own parts: "module:attribute" by name."""
        return declared(self._own) if isinstance(self._own, str) else self._own

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


def declared(kind: str) -> dict[str, str]:
    """Find the declarations `PART = Kind(name="part"` in fairprobe's modules, importing nothing."""
    declaration = re.compile(rf'^(\w+) = {kind}\(\s*name="(\w+)"', re.MULTILINE)
    package = Path(__file__).parent
    return {
        name: f"fairprobe.{'.'.join(path.relative_to(package).with_suffix('').parts)}:{attribute}"
        for path in sorted(package.rglob("*.py"))
        for attribute, name in declaration.findall(path.read_text(encoding="utf-8"))
    }


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
    own="Measure",
)
