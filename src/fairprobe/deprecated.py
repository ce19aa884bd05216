"""Old names, kept for one release: using one warns, and gives what it is called now."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# Longest first where one is the beginning of another.
MOVED = {
    "fairprobe.metrics.resampling": "fairprobe.statistics.resampling",
    "fairprobe.metrics.repeats": "fairprobe.statistics.repeats",
    "fairprobe.metrics.ranks": "fairprobe.statistics.ranks",
    "fairprobe.scenes.ranks": "fairprobe.statistics.ranks",
    "fairprobe.scenes.drawn": "fairprobe.papers.distrofair.drawn",
    "fairprobe.scenes.sprites": "fairprobe.papers.distrofair.sprites",
    "fairprobe.scenes.drawn_detector": "fairprobe.papers.distrofair.drawn_detector",
    "fairprobe.scenes.survey": "fairprobe.papers.distrofair.survey",
    "fairprobe.scenes.study": "fairprobe.papers.distrofair.survey",
    "fairprobe.scenes.auditing": "fairprobe.audits.scenes",
    "fairprobe.scenes.recognition": "fairprobe.scenes.detectors.base",
    "fairprobe.scenes.mutant": "fairprobe.scenes.scene",
    "fairprobe.scenes.asking": "fairprobe.scenes.queries",
    "fairprobe.scenes.making": "fairprobe.scenes.mutants",
    "fairprobe.scenes.gathering": "fairprobe.scenes.evidence",
    "fairprobe.scenes.telling": "fairprobe.scenes.examples",
    "fairprobe.scenes.segmenter": "fairprobe.scenes.sources.segmenter",
    "fairprobe.datasets.coding": "fairprobe.schema.coding",
    "fairprobe.datasets.columns": "fairprobe.schema.columns",
    "fairprobe.datasets.conditions": "fairprobe.schema.conditions",
    "fairprobe.datasets.declared": "fairprobe.schema.domain_file",
    "fairprobe.datasets.declared_text": "fairprobe.schema.domain_file",
    "fairprobe.datasets.faces": "fairprobe.datasets.cache",
    "fairprobe.datasets.facts": "fairprobe.datasets.registry",
    "fairprobe.datasets.meps_fetch": "fairprobe.datasets.meps",
    "fairprobe.datasets.packaged": "fairprobe.datasets.registry",
    "fairprobe.datasets.infer": "fairprobe.datasets",
    "fairprobe.datasets.rules": "fairprobe.schema.rules",
    "fairprobe.datasets.table": "fairprobe.schema.coding",
    "fairprobe.models.formats.opened": "fairprobe.models.formats.base",
    "fairprobe.search.protocol": "fairprobe.papers.protocol",
    "fairprobe.attributes": "fairprobe.schema.attributes",
    "fairprobe.domain": "fairprobe.schema.domain",
    "fairprobe.rates": "fairprobe.statistics.rates",
    "fairprobe.model": "fairprobe.models",
    "fairprobe.repair": "fairprobe.repairs",
    "fairprobe.run": "fairprobe.audits",
    "fairprobe.report": "fairprobe.present",
    "fairprobe.experiments": "fairprobe.papers",
    "fairprobe.summary": "fairprobe.present.terminal",
    "fairprobe._pytest_plugin": "fairprobe.pytest_plugin",
}


def new_home(name: str) -> str | None:
    """Where a module lives now; None for a module that never moved."""
    for old, new in MOVED.items():
        if name == old or name.startswith(f"{old}."):
            return new + name.removeprefix(old)
    return None


class _MovedModule(ModuleType):
    """A module under its old name: what it holds comes from its new home."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":  # tools that look at all modules
            raise AttributeError(f"{self.__name__} has no attribute '{name}'.")
        return getattr(import_module(new_home(self.__name__) or ""), name)


class _Repair(_MovedModule):
    """`fairprobe.repair`: today's function, and for one release the old room of that name."""

    def __call__(self, *given: Any, **settings: Any) -> Any:
        return self._function()(*given, **settings)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):
            _warn(f"fairprobe.repair.{name}", f"fairprobe.repairs.{name}")
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: object) -> None:
        """Keep the functions of the old room: an import of a file must not hide one of its name."""
        if name.startswith("_"):
            super().__setattr__(name, value)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self._function())

    @staticmethod
    def _function() -> Any:
        return import_module("fairprobe.audits").repair


class _MovedFinder(MetaPathFinder, Loader):
    """Finds modules by their old names. It comes before other finders: these would load a file of a
    package that moved a second time.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        is_ours = fullname.startswith("fairprobe.") and new_home(fullname)
        return ModuleSpec(fullname, self, is_package=True) if is_ours else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        new = new_home(spec.name)
        if new is None:
            raise ImportError(f"{spec.name} is not a module that moved.")
        _warn(spec.name, new)
        import_module(new)
        return _MovedModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to do: the module was executed under its new name."""


def _warn(old: str, new: str) -> None:
    warnings.warn(
        f"{old} is now {new}. The old name will be removed in the next release.",
        DeprecationWarning,
        stacklevel=3,
    )


def install() -> None:
    """Make the old names importable."""
    if not any(isinstance(finder, _MovedFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _MovedFinder())
        sys.modules["fairprobe.repair"] = repair


repair = _Repair("fairprobe.repair", "Repair a network: fairprobe.repair(data, model, ...).")
repair.__path__ = []
