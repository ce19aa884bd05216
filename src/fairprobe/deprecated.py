"""Old module paths, kept for one release: importing one warns and gives the module's new home."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

# Longest first where one is the beginning of another.
MOVED = {
    "fairprobe.metrics.resampling": "fairprobe.statistics.resampling",
    "fairprobe.metrics.repeats": "fairprobe.statistics.repeats",
    "fairprobe.metrics.ranks": "fairprobe.statistics.ranks",
    "fairprobe.scenes.ranks": "fairprobe.statistics.ranks",
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


class _MovedFinder(MetaPathFinder, Loader):
    """Finds modules by their old names. It is asked only after all other finders gave up."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        return ModuleSpec(fullname, self) if new_home(fullname) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        new = new_home(spec.name)
        if new is None:
            raise ImportError(f"{spec.name} is not a module that moved.")
        warnings.warn(
            f"{spec.name} is now {new}. The old name will be removed in the next release.",
            DeprecationWarning,
            stacklevel=2,
        )
        return import_module(new)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to do: the module was executed under its new name."""


def install() -> None:
    """Makes the old names importable."""
    if not any(isinstance(finder, _MovedFinder) for finder in sys.meta_path):
        sys.meta_path.append(_MovedFinder())
