"""DistroFair's figures 2 and 3, from runs of `fairprobe audit-scenes`: which classes lie below the
mean accuracy in originals and in unusual pictures, and which violations two ways of looking share.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from fairprobe.scenes.accuracy import ClassAccuracy
from papers.base import Plan
from papers.distrofair.runs import (
    DATASETS,
    RECOGNIZERS,
    SceneExperiment,
    SceneRun,
    read_runs,
)
from papers.document import Bar, BarGroup, Bars, Figure
from papers.jobs import Outcome
from papers.tables import Cell

KINDS = ("original", "mutated")
TINY = 1e-12  # equal rates do not differ by rounding


class Figure2(SceneExperiment):
    """Which classes lie below the mean accuracy, before and after."""

    name = "distrofair-figure2"
    table = "figure2"

    def measured(self, plan: Plan) -> Sequence[Cell]:
        runs = read_runs(plan.runs)
        sums: dict[tuple[str, str], list[int]] = {}
        for run in runs:
            for detector, (classes, originals, mutants) in below(run).items():
                numbers = (len(classes), len(originals), len(mutants), len(mutants - originals))
                for dataset in (run.dataset, DATASETS):
                    for method in (detector, RECOGNIZERS):
                        own = sums.setdefault((dataset, method), [0] * 4)
                        own[:] = (a + b for a, b in zip(own, numbers, strict=True))
        return [
            Cell(dataset, "", method, "", measure.key, (float(value),))
            for (dataset, method), (classes, before, after, only) in sums.items()
            if classes
            for measure, value in zip(
                self.measures, (classes, before, after, only / classes), strict=True
            )
        ]

    def figures(self, plan: Plan, outcome: Outcome) -> Sequence[Figure]:
        """For each class, the recognizers for which it is below the mean."""
        del outcome
        counts: dict[str, list[int]] = {}
        for run in read_runs(plan.runs):
            for classes, originals, mutants in below(run).values():
                for label in sorted(classes):
                    own = counts.setdefault(label, [0, 0])
                    own[0] += label in originals
                    own[1] += label in mutants
        shown = {label: own for label, own in sorted(counts.items()) if any(own)}
        groups = [
            BarGroup(label, [Bar("originals", own[0]), Bar("unusual pictures", own[1])])
            for label, own in shown.items()
        ]
        title = "Figure 2: settings in which a class is below the mean accuracy"
        return [Bars(title, groups, "class", "count")] if groups else []

    def notes(self, plan: Plan, outcome: Outcome) -> Sequence[str]:
        del outcome
        sets = []
        for run in read_runs(plan.runs):
            for detector, (_, originals, mutants) in below(run).items():
                parts = {
                    "only in unusual pictures": mutants - originals,
                    "in both": mutants & originals,
                    "only in originals": originals - mutants,
                }
                named = "; ".join(
                    f"{name}: {', '.join(sorted(labels)) or 'none'}"
                    for name, labels in parts.items()
                )
                sets.append(f"{detector} on {run.dataset}: below the mean {named}.")
        return (*self.remarks, *sets)


def below(run: SceneRun) -> dict[str, tuple[set[str], set[str], set[str]]]:
    """For each recognizer its classes, and those below the mean in originals and in mutants."""
    rows: dict[str, list[ClassAccuracy]] = {}
    for one in run.document.comparisons.accuracies:
        rows.setdefault(one.detector, []).append(one)
    found = {}
    for detector, several in rows.items():
        before, after = (fmean(getattr(one, key) for one in several) for key in KINDS)
        found[detector] = (
            {one.label for one in several},
            {one.label for one in several if one.original < before - TINY},
            {one.label for one in several if one.mutated < after - TINY},
        )
    return found


class Figure3(SceneExperiment):
    """Which violations two ways of looking share."""

    name = "distrofair-figure3"
    table = "figure3"

    def measured(self, plan: Plan) -> Sequence[Cell]:
        sums = dict.fromkeys(("gt", "mt", "both", "mutants", "originals", "shared"), 0)
        for run in read_runs(plan.runs):
            for one in run.document.comparisons.overlaps:
                for key in ("gt", "mt", "both"):
                    sums[key] += getattr(one, key)
            plain = run.document.comparisons.originals
            if plain is not None:
                sums["mutants"] += plain.mutants
                sums["originals"] += plain.originals
                sums["shared"] += plain.both
        gt, mt, both, mutants, originals, shared = sums.values()
        oracles, every = gt + mt - both, mutants + originals - shared
        parts: dict[str, dict[str, float | None]] = {
            "a": {
                "gt": gt,
                "mt": mt,
                "both": both,
                "either": oracles,
                "covered": _of(both, gt),
                "both_share": _of(both, oracles),
                "only_gt": _of(gt - both, oracles),
                "only_mt": _of(mt - both, oracles),
            },
            "b": {
                "mutants": mutants,
                "originals": originals,
                "both": shared,
                "either": every,
                "covered": _of(shared, originals),
                "alone": mutants - shared,
                "only_mutants": _of(mutants - shared, every),
                "gain": _of(mutants - originals, originals),
            },
        }
        return [
            Cell(DATASETS, "", RECOGNIZERS, variant, key, () if value is None else (value,))
            for variant, numbers in parts.items()
            for key, value in numbers.items()
        ]


def _of(some: int, whole: int) -> float | None:
    return some / whole if whole else None
