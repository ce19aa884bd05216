"""DistroFair's tables 3, 4, 6 to 9, 11 and 12 and figures 2 and 3, from runs of
`fairprobe audit-scenes`.

Rajan et al., "Distribution-aware fairness test generation", Journal of Systems and Software, 2024.

    paper                                      here
    #Classes, #Class violations, rate          `classes`, `violations`, `violation_rate`
    Error inputs, #Gen inputs, error rate      `error_inducing`, `tests`, `error_rate`
    rows "Dataset", "Subject" and "Total"      sums over all settings of a data set, of a
                                               recognizer, and of all
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import fmean
from typing import ClassVar, TypeAlias

from fairprobe.report import Plot
from fairprobe.scenes.accuracy import ClassAccuracy
from fairprobe.scenes.analysis import Analysis, Total
from fairprobe.scenes.oracles import Oracle
from papers.base import Plan
from papers.distrofair.runs import (
    DATASETS,
    MUTATIONS,
    RECOGNIZERS,
    SceneExperiment,
    SceneRun,
    read_runs,
)
from papers.jobs import Outcome
from papers.page import grouped_bars
from papers.tables import Cell, Row

Place: TypeAlias = tuple[str, str, str, str]  # data set, attribute, method, variant


# -- tables 3 and 4: what was tested ---------------------------------------------------------------


class Table3(SceneExperiment):
    """The data sets."""

    name = "distrofair-table3"
    printed_in = "table3"

    def measured(self, plan: Plan) -> Sequence[Cell]:
        runs = read_runs(plan.runs)
        numbers: dict[str, tuple[int, int]] = {}
        for run in runs:
            images, classes = numbers.get(run.dataset, (0, 0))
            data = run.document.data
            numbers[run.dataset] = max(images, data.scenes), max(classes, len(data.objects))
        return [
            Cell(dataset, "", "pictures", "", measure.key, (float(value),))
            for dataset, values in numbers.items()
            for measure, value in zip(self.measures, values, strict=True)
        ]


class Table4(SceneExperiment):
    """The recognizers."""

    name = "distrofair-table4"
    printed_in = "table4"

    def measured(self, plan: Plan) -> Sequence[Cell]:
        runs = read_runs(plan.runs)
        classes: dict[str, set[str]] = {}
        for _, method, _, one in _settings(runs):
            classes.setdefault(method, set()).update(rate.label for rate in one.classes)
        named: dict[str, int] = {}
        for run in runs:
            for detector in run.document.detectors:
                if detector.named is not None:
                    named[detector.name] = max(named.get(detector.name, 0), detector.named)
        return [
            Cell(DATASETS, "", method, "", key, (float(count),))
            for key, counts in (
                ("labels", named),
                ("classes", {method: len(labels) for method, labels in classes.items()}),
            )
            for method, count in counts.items()
        ]


# -- tables 6 and 7: effectiveness -----------------------------------------------------------------


class Table6(SceneExperiment):
    """By the ground truth."""

    name = "distrofair-table6"
    printed_in = "table6"
    rows: ClassVar[Row] = "variant"
    oracles: ClassVar[tuple[Oracle, ...]] = ("gt",)

    def variant(self, oracle: Oracle) -> str:
        """What tells the rows of one mutation apart."""
        return oracle if len(self.oracles) > 1 else ""

    def measured(self, plan: Plan) -> Sequence[Cell]:
        runs = read_runs(plan.runs)
        groups: dict[Place, list[Analysis]] = {}
        for dataset, method, operator, one in _settings(runs):
            if one.oracle not in self.oracles:
                continue
            for place in (
                (dataset, operator, method),
                (dataset, MUTATIONS, RECOGNIZERS),
                (DATASETS, MUTATIONS, method),
                (DATASETS, MUTATIONS, RECOGNIZERS),
            ):
                groups.setdefault((*place, self.variant(one.oracle)), []).append(one)
        return [
            Cell(
                *place,
                key,
                () if value is None else (value,),
                failed="no class was judged" if value is None else "",
                interval=(some[0].error_low, some[0].error_high)
                if key == "error_rate" and len(some) == 1
                else None,
            )
            for place, some in groups.items()
            for key, value in _effect(some).items()
        ]


class Table7(Table6):
    """By the metamorphic oracle."""

    name = "distrofair-table7"
    printed_in = "table7"
    oracles = ("exclusion", "inclusion")


def _settings(runs: Iterable[SceneRun]) -> Iterator[tuple[str, str, str, Analysis]]:
    """Data set, recognizer and mutation of every analysis of unusual pictures."""
    for run in runs:
        for one in run.document.results:
            if one.kind == "ood" and one.operator != "all":
                yield run.dataset, one.detector, one.operator, one


def _effect(several: Sequence[Analysis]) -> dict[str, float | None]:
    """The six numbers of a row."""
    classes = sum(len(one.classes) for one in several)
    violations = sum(len(one.violations) for one in several)
    inducing, tests = (
        sum(getattr(one, name) for one in several) for name in ("error_inducing", "tests")
    )
    return {
        "classes": classes,
        "violations": violations,
        "violation_rate": violations / classes if classes else None,
        "error_inducing": inducing,
        "tests": tests,
        "error_rate": inducing / tests if tests else None,
    }


# -- table 8: beyond and within what is usual ------------------------------------------------------


class Table8(SceneExperiment):
    """Insertion beyond the distribution against insertion within it."""

    name = "distrofair-table8"
    printed_in = "table8"
    rows: ClassVar[Row] = "variant"

    def measured(self, plan: Plan) -> Sequence[Cell]:
        runs = read_runs(plan.runs)
        groups: dict[Place, list[Total]] = {}
        for run in runs:
            for one in run.document.comparisons.usual:
                for kind, total in (("id", one.usual), ("ood", one.unusual)):
                    for dataset in (run.dataset, DATASETS):
                        for method in (one.detector, RECOGNIZERS):
                            place = (dataset, one.oracle, method, kind)
                            groups.setdefault(place, []).append(total)
        sums = {place: _total(some) for place, some in groups.items()}
        cells = [
            Cell(*place, key, () if value is None else (value,))
            for place, values in sums.items()
            for key, value in values.items()
        ]
        for (dataset, oracle, method, kind), values in sums.items():
            if kind == "ood":
                within = sums[dataset, oracle, method, "id"]
                for what in ("violation", "error"):
                    now, base = values[f"{what}_rate"], within[f"{what}_rate"]
                    gain = (now / base - 1,) if base and now is not None else ()
                    cells.append(Cell(dataset, oracle, method, "", f"{what}_gain", gain))
        return cells


def _total(several: Sequence[Total]) -> dict[str, float | None]:
    sums = {
        name: sum(getattr(one, name) for one in several)
        for name in ("classes", "violations", "error_inducing", "tests")
    }
    return {
        "violations": sums["violations"],
        "violation_rate": sums["violations"] / sums["classes"] if sums["classes"] else None,
        "error_inducing": sums["error_inducing"],
        "tests": sums["tests"],
        "error_rate": sums["error_inducing"] / sums["tests"] if sums["tests"] else None,
    }


# -- table 9: time ---------------------------------------------------------------------------------


class Table9(SceneExperiment):
    """Seconds for a picture."""

    name = "distrofair-table9"
    printed_in = "table9"

    def measured(self, plan: Plan) -> Sequence[Cell]:
        runs = read_runs(plan.runs)
        sums: dict[tuple[str, str], tuple[int, float]] = {}
        for run in runs:
            for one in run.document.comparisons.times:
                operator = MUTATIONS if one.operator == "total" else one.operator
                for dataset in (run.dataset, DATASETS):
                    images, seconds = sums.get((dataset, operator), (0, 0.0))
                    more = one.images * (one.seconds or 0.0)
                    sums[dataset, operator] = images + one.images, seconds + more
        return [
            Cell(dataset, operator, "distrofair", "", key, (value,))
            for (dataset, operator), (images, seconds) in sums.items()
            if images
            for key, value in (
                ("images", float(images)),
                ("seconds", seconds),
                ("seconds_each", seconds / images),
                ("per_hour", 3600 * images / seconds if seconds else 0.0),
            )
        ]

    def beside(self, cell: Cell) -> Cell:
        """The paper prints the seconds for one picture in its text only."""
        if cell.measure != "seconds_each":
            return super().beside(cell)
        whole = super().beside(replace(cell, measure="seconds")).paper
        images = super().beside(replace(cell, measure="images")).paper
        return replace(cell, paper=whole / images if whole and images else None)

    def printed(self) -> list[Cell]:
        cells = super().printed()
        each = (
            replace(cell, measure="seconds_each") for cell in cells if cell.measure == "seconds"
        )
        return [*cells, *map(self.beside, each)]


# -- tables 11 and 12: accuracy --------------------------------------------------------------------


class Table11(SceneExperiment):
    """RQ5: real pictures against generated ones with the same objects."""

    name = "distrofair-table11"
    printed_in = "table11"
    parts: ClassVar[tuple[str, str, str, str]] = ("rq5", "real", "generated", "pairs")

    def measured(self, plan: Plan) -> Sequence[Cell]:
        runs = read_runs(plan.runs)
        what, first, second, count = self.parts
        relative = self.measures[2].key
        found: dict[tuple[str, str], dict[str, float]] = {}
        for run in runs:
            for one in getattr(run.document.comparisons, what):
                if one.reference is None or one.mutated is None:
                    continue
                values = {first: one.reference, second: one.mutated, count: float(one.pictures)}
                if one.reference:
                    values[relative] = one.mutated / one.reference - (what == "rq5")
                found[run.dataset, one.detector] = values
        cells = [
            Cell(dataset, "", method, "", key, (value,))
            for (dataset, method), values in found.items()
            for key, value in values.items()
        ]
        for dataset in dict.fromkeys(cell.dataset for cell in cells):
            for measure in self.measures:
                own = [
                    cell.values[0]
                    for cell in cells
                    if (cell.dataset, cell.measure) == (dataset, measure.key)
                ]
                if own and measure.key != count:
                    cells.append(Cell(dataset, "", RECOGNIZERS, "", measure.key, (fmean(own),)))
        return cells


class Table12(Table11):
    """RQ6: classes that were not mutated, in error-inducing pictures."""

    name = "distrofair-table12"
    printed_in = "table12"
    parts = ("rq6", "original", "mutated", "images")


# -- figures 2 and 3 -------------------------------------------------------------------------------

KINDS = ("original", "mutated")
TINY = 1e-12  # equal rates do not differ by rounding


class Figure2(SceneExperiment):
    """Which classes lie below the mean accuracy, before and after."""

    name = "distrofair-figure2"
    printed_in = "figure2"

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

    def figures(self, plan: Plan, outcome: Outcome) -> Sequence[Plot]:
        """For each class, count the recognizers for which it is below the mean."""
        del outcome
        counts: dict[str, list[int]] = {}
        for run in read_runs(plan.runs):
            for classes, originals, mutants in below(run).values():
                for label in sorted(classes):
                    own = counts.setdefault(label, [0, 0])
                    own[0] += label in originals
                    own[1] += label in mutants
        groups = {
            label: dict(zip(("originals", "unusual pictures"), map(float, own), strict=True))
            for label, own in sorted(counts.items())
            if any(own)
        }
        title = "Figure 2: settings in which a class is below the mean accuracy"
        return [grouped_bars(title, groups, "class", kind="count")]

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
    printed_in = "figure3"

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
