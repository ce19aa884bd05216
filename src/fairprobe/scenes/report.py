"""The report on an audit of recognizers: which classes fail, the evidence, and pictures."""

from __future__ import annotations

from collections.abc import Iterator

from fairprobe.report import (
    Bar,
    Bars,
    Cell,
    Notes,
    Pictures,
    Plot,
    Section,
    Table,
    Terms,
    Text,
    Verdict,
)
from fairprobe.report.formats import (
    count,
    date,
    interval,
    level,
    listed,
    plural,
)
from fairprobe.report.run import method, reproduction
from fairprobe.report.sections import UNDEFINED
from fairprobe.runs.kinds import Kind
from fairprobe.scenes.analysis import ALL, Analysis, ClassRate
from fairprobe.scenes.audit import FORMAT, DetectorInfo, ScenesRun
from fairprobe.scenes.comparison_tables import (
    ORACLES,
    WORDS,
    Columns,
    comparisons_section,
    p_value,
    share,
    table_of,
)
from fairprobe.scenes.comparisons import Comparisons
from fairprobe.scenes.examples import example_pictures, example_sentence

MAX_BARS = 24  # more would be unreadable; the table has them all
MAX_SUMMARY_BARS = 8

EVIDENCE = (
    "Each class is compared with all classes in equal situations, by the ground truth and by the"
    " objects lost, all mutations together; p is adjusted for all of these and for all recognizers."
)
NOTHING_SHOWN = (
    "The result is inconclusive. More scenes, other mutations, or fewer objects that a class must"
    " have may help."
)


def report(run: ScenesRun) -> Section:
    """Build the report of an audit of recognizers on scenes."""
    facts = {
        "Date": date(run.created),
        "Scenes": f"{run.data.name}, {plural(run.data.scenes, 'scene')}",
        "Recognizers": listed(detector.name for detector in run.detectors),
        "Mutations": listed(WORDS[operator] for operator in run.mutations),
        "Classes mutated": listed(run.classes),
        "Repeats": count(run.repeats),
        "Seed": str(run.seed),
    }
    classes = [_recognizer(run, detector.name) for detector in run.detectors]
    return Section(
        run.title,
        [
            Terms(facts),
            _summary(run),
            Section("Classes by error rate", [Text(_about_bars(run), "note"), *classes]),
            _examples(run),
            _mutations(run),
            comparisons_section(run.comparisons),
            _left_out(run),
            _method(run),
            reproduction(run),
        ],
        eyebrow="Class-level fairness of recognizers",
    )


KIND = Kind(name="scenes", title="scenes", format=FORMAT, run=ScenesRun, report=report)


# -- the verdict -----------------------------------------------------------------------------------


def _summary(run: ScenesRun) -> Section:
    """Answer who, how many, how sure, and what now."""
    columns: Columns = {
        "recognizer": lambda row: row.detector,
        "pictures": lambda row: count(row.tests),
        "classes": lambda row: count(len(row.classes)),
        "shown to fail more": lambda row: listed(run.unfair.get(row.detector, ())) or UNDEFINED,
        "above the mean": lambda row: count(len(_above(run, row.detector))),
        "pictures with an error": _error_rate,
    }
    first = {row.detector: row for oracle in reversed(ORACLES) for row in run.main(oracle=oracle)}
    return Section(
        "Verdict",
        [
            _verdict(run),
            Text(run.stopped or "", "warning"),
            table_of(first.values(), columns, words=(0, 3)),
            _first_plot(run),
            Notes(list(_what_now(run))),
        ],
        level="summary",
    )


def _verdict(run: ScenesRun) -> Verdict:
    failing = {name: labels for name, labels in run.unfair.items() if labels}
    judged = {analysis.detector for analysis in run.main() if analysis.classes}
    others = [detector.name for detector in run.detectors if detector.name not in judged]
    missing = f" Nothing could be judged of {listed(others)}." if others else ""
    pictures = max((analysis.tests for analysis in run.unusual()), default=0)
    seen = f"{plural(run.data.scenes, 'scene')} became {plural(pictures, 'unusual picture')}: "
    if not judged:
        why = "no mutated picture was made and answered"
        if run.main():
            why = f"no class that was not mutated has {run.least_objects} objects or more"
        return Verdict("Nothing could be judged", f"Nothing could be judged: {why}.")
    if not failing:
        text = "no recognizer is shown to fail a class more often than others."
        headline = "No class was shown to fail more than the others"
        return Verdict(headline, f"{seen}{text}{missing}", "none")
    labels = listed(dict.fromkeys(label for labels in failing.values() for label in labels))
    several = f"{count(len(failing))} of {plural(len(run.detectors), 'recognizer')}"
    where = next(iter(failing)) if len(failing) == 1 else several
    text = "; ".join(
        f"{name} fails {listed(labels)} more often than other classes"
        for name, labels in failing.items()
    )
    headline = f"Failed more than other classes, at {where}: {labels}"
    return Verdict(headline, f"{seen}{text}.{missing}", "found")


def _what_now(run: ScenesRun) -> Iterator[str]:
    if not run.judged:
        yield NOTHING_SHOWN
        return
    if any(run.unfair.values()):
        painted = {
            f"{row.label} ({WORDS[row.operator]})"
            for row in run.comparisons.causes
            if row.cause == "in-painting" and row.label in run.unfair.get(row.detector, ())
        }
        if painted:
            yield (
                "In-painting alone causes half of the errors or more, so look at the pictures"
                f" before you blame the recognizer: {listed(sorted(painted))}."
            )
        yield "Look at the examples, and retrain with the mutated pictures: --export FOLDER."
    else:
        yield (
            "This is evidence, not a certificate: the interval of each class says how much more it"
            " may fail. More scenes make it narrower."
        )


def _first_plot(run: ScenesRun) -> Plot | None:
    """Plot the primary analysis that names most classes; all others follow below."""
    primary = [analysis for analysis in run.main() if analysis.classes and analysis.is_primary]
    if not primary:
        return None
    analysis = max(primary, key=lambda analysis: len(analysis.unfair))
    return Plot(_heading(analysis), _bars(analysis, MAX_SUMMARY_BARS), _about(analysis))


def _above(run: ScenesRun, detector: str) -> list[str]:
    """List the classes above the mean by any oracle, over all mutations."""
    return list(
        dict.fromkeys(
            label
            for oracle in ORACLES
            for analysis in run.main(detector=detector, oracle=oracle)
            for label in analysis.violations
        )
    )


def _error_rate(analysis: Analysis) -> Cell:
    ends = {"low": analysis.error_low, "high": analysis.error_high}
    return Cell(share(analysis.error_rate), interval(ends))


# -- classes ---------------------------------------------------------------------------------------


def _about_bars(run: ScenesRun) -> str:
    has_control = any(analysis.kind == "control" for analysis in run.results)
    return (
        "How often a recognizer fails an object of a class when something else in the scene"
        " becomes unusual: the mutated class is never counted. A bar shows the errors per object"
        f" (in parentheses: the number of objects) with the {level(run.confidence)} interval. ▲:"
        " the evidence shows that the class fails more than others in equal situations, allowing"
        " for all classes. “Above the mean” alone is the paper’s plain rule, which chance can"
        " meet. "
        + (
            "The control is the same in-painting on plain background; for insertions, objects"
            " pasted back in their own places."
            if has_control
            else "There is no in-painting control here, so errors of the in-painting itself cannot"
            " be separated."
        )
    )


def _recognizer(run: ScenesRun, detector: str) -> Section:
    """Show which classes of one recognizer fail, by which rule, and how they fail."""
    unfair = run.unfair.get(detector, ())
    plain = [label for label in _above(run, detector) if label not in unfair]
    sentence = (
        f"Shown to fail more than other classes in equal situations: {listed(unfair)}."
        if unfair
        else "No class is shown to fail more than others in equal situations."
    )
    if plain:
        sentence += f" Above the mean, but perhaps by chance: {listed(plain)}."
    drawn = [a for oracle in ORACLES for a in run.main(detector=detector, oracle=oracle)]
    if not any(analysis.classes for analysis in drawn):
        sentence = "Nothing could be judged."
    others = [row for row in run.unusual(detector=detector) if row not in drawn and row.classes]
    return Section(
        detector,
        [
            Text(sentence),
            *(
                Plot(
                    _title(analysis),
                    _bars(analysis, MAX_BARS),
                    _about(analysis),
                    _class_table(run, analysis),
                )
                for analysis in drawn
                if analysis.classes
            ),
            *(_class_table(run, analysis) for analysis in others),
        ],
    )


def _title(analysis: Analysis) -> str:
    title = ORACLES[analysis.oracle].title
    return title if analysis.operator == ALL else f"{title}, {WORDS[analysis.operator]}"


def _heading(analysis: Analysis) -> str:
    return f"{analysis.detector}: {_title(analysis).lower()}"


def _bars(analysis: Analysis, most: int) -> Bars:
    """Draw the classes with the highest rates, and the mean of all."""
    bars = [
        Bar(
            f"{row.label} ({count(row.objects)})",
            row,
            " ▲" if row.is_unfair else ", above the mean" if row.is_above else "",
            row.is_unfair,
        )
        for row in analysis.classes[:most]
    ]
    return Bars(bars, "share", (f"mean of all classes: {share(analysis.mean)}", analysis.mean))


def _about(analysis: Analysis) -> str:
    left = f" Left out, since too rare: {listed(analysis.left_out)}." if analysis.left_out else ""
    return f"{ORACLES[analysis.oracle].about}{left}"


def _class_table(run: ScenesRun, analysis: Analysis) -> Table:
    control = _control_of(run, analysis)
    controls = {} if control is None else {row.label: row for row in control.classes}
    columns: Columns = {
        "class": lambda row: row.label,
        "objects": lambda row: count(row.objects),
        "errors": lambda row: str(row.errors).replace("-", "−"),
        "pictures with an error": lambda row: count(row.images),
        "rate": lambda row: _rate(row),
        "plain rule": lambda row: "above the mean" if row.is_above else "no",
        "against equals": lambda row: share(row.matched),
        "adjusted p": lambda row: p_value(row.p_adjusted),
        "evidence": lambda row: "fails more" if row.is_unfair else "not shown",
        "control": lambda row: _rate(controls.get(row.label)),
    }
    return table_of(analysis.classes, columns, _title(analysis), words=(0, 5, 8), folded=True)


def _rate(row: ClassRate | None) -> Cell:
    return Cell(UNDEFINED) if row is None else Cell(share(row.rate), interval(row))


def _control_of(run: ScenesRun, analysis: Analysis) -> Analysis | None:
    """Find the in-painting control of an analysis, if it judged any class."""
    place = (analysis.detector, analysis.operator, analysis.oracle)
    return next(
        (
            other
            for other in run.results
            if other.kind == "control"
            and other.classes
            and (other.detector, other.operator, other.oracle) == place
        ),
        None,
    )


def _mutations(run: ScenesRun) -> Section:
    about = (
        "“Above the mean” is the paper’s plain rule: a class whose rate is above the mean of all"
        " classes. Some class nearly always is. “Shown to fail more” requires evidence. The error"
        " rate is the share of pictures with an error in a class above the mean. “Look real” is the"
        " share of mutants that pass the realism check."
    )
    sections: list[Section] = []
    for oracle, words in ORACLES.items():
        table = table_of(run.unusual(oracle=oracle), _columns(run), words=(0, 3))
        sections += [Section(words.title, [Text(words.about, "note"), table])] if table else []
    return Section("By mutation", [Text(about, "note"), *sections])


def _columns(run: ScenesRun) -> Columns:
    """Describe the columns of an analysis, as in the paper's tables 6 and 7."""

    def control_mean(analysis: Analysis) -> str:
        control = _control_of(run, analysis)
        return share(None if control is None else control.mean)

    return {
        "recognizer, mutation": lambda row: f"{row.detector}, {WORDS[row.operator]}",
        "classes": lambda row: count(len(row.classes)),
        "above the mean": lambda row: Cell(count(len(row.violations)), share(row.violation_rate)),
        "shown to fail more": lambda row: listed(row.unfair) or UNDEFINED,
        "mean rate": lambda row: share(row.mean),
        "mean rate, control": control_mean,
        "pictures": lambda row: count(row.tests),
        "with an error": lambda row: count(row.error_inducing),
        "error rate": _error_rate,
        "look real": lambda row: share(looks_real(run.comparisons, row.operator)),
    }


def looks_real(comparisons: Comparisons, operator: str) -> float | None:
    """Return the share of an operator's mutants that pass the realism check; of all, for "all"."""
    rows = [row for row in comparisons.realism if operator in (row.operator, ALL)]
    pictures = sum(row.pictures for row in rows)
    return sum(row.passed for row in rows) / pictures if pictures else None


# -- pictures --------------------------------------------------------------------------------------


def _examples(run: ScenesRun) -> Section:
    galleries: dict[tuple[str, str], list[Section]] = {}
    for example in run.examples:
        title = f"{WORDS[example.operator].capitalize()} of {example.mutated_label}"
        gallery = galleries.setdefault((example.detector, example.label), [])
        gallery.append(
            Section(
                f"{title}, scene {example.scene}",
                [Text(example_sentence(example)), Pictures(example_pictures(example))],
            )
        )
    about = (
        "The pictures with most errors for each class that fails, original and mutated; if no class"
        " of a recognizer is shown to fail, for the classes farthest above the mean. They show what"
        " can happen, not how often."
    )
    return Section(
        "Examples",
        [
            Text(about, "note") if galleries else None,
            *(
                Section(
                    f"“{label}” at {detector}"
                    + ("" if label in run.unfair.get(detector, ()) else ": perhaps by chance"),
                    sections,
                )
                for (detector, label), sections in galleries.items()
            ),
        ],
        anchor="pictures",
    )


# -- how it was measured ---------------------------------------------------------------------------


def _left_out(run: ScenesRun) -> Section:
    skipped: Columns = {
        "mutation": lambda row: WORDS[row.operator],
        "class": lambda row: row.label or UNDEFINED,
        "pictures": lambda row: count(row.count),
        "reason": lambda row: row.reason,
    }
    failures: Columns = {
        "recognizer": lambda row: row.detector,
        "pictures": lambda row: count(row.count),
        "reason": lambda row: row.reason,
    }
    why = "Recognizers that gave no answer: these pictures are not judged for them"
    return Section(
        "What was left out",
        [
            table_of(run.skipped, skipped, "Mutations that were not possible", words=(0, 1, 3)),
            table_of(run.failures, failures, why, words=(0, 2)),
        ],
        level="appendix",
    )


def _method(run: ScenesRun) -> Section:
    confidence = level(run.confidence)
    terms = {
        "Mutation": "Insertion puts objects of a class into a scene until there are more than in"
        " any similar scene; deletion removes all objects of a class and fills the gap"
        " (in-painting); rotation turns one object. The rest of the scene stays unchanged.",
        "Unusual": "Scenes are clustered by their objects"
        f" ({plural(run.data.clusters, 'cluster')}). A picture is out of distribution (OOD) if it"
        " has more or fewer objects of a class than any scene of its cluster, or one turned"
        " differently; otherwise it is in distribution (ID).",
        "Rate of a class": "Errors of the class, divided by its objects in all pictures. Classes"
        f" with fewer than {run.least_objects} objects are left out, and the mutated class.",
        "Interval": f"{confidence}, by a jackknife over scenes, since the pictures made from one"
        " scene are not independent; wider if few scenes have an error.",
        "Evidence": f"{EVIDENCE} Equal situations: as many objects annotated, as many there, as"
        " many recognized in the original. A class is named if it has more errors than expected"
        " there, with an adjusted p of at most 5 %, in one of the two primary analyses. p is the"
        " larger one of two tests, sign flips of whole scenes and exchanges of classes in equal"
        " situations, adjusted by max-T (Westfall and Young). It is about the distance to equals,"
        " not about the rate, whose interval may contain zero. The other analyses say how a named"
        " class fails; their p is adjusted for all of a recognizer’s.",
        "Control": "The same in-painting on plain background; for insertions, objects of the"
        " picture pasted back in their own places. What goes wrong there too is caused by the"
        " painting, not by the unusual scene.",
    }
    recognizers = {detector.name: _described(detector) for detector in run.detectors}
    return method(run, run.settings, [Terms(terms), Section("Recognizers", [Terms(recognizers)])])


def _described(detector: DetectorInfo) -> str:
    parts = [detector.identity or "no identity"]
    if detector.remote:
        parts.append("queried over the network")
    if (agreement := detector.agreement) is not None:
        layout = f"read as {agreement.title}, " if agreement.title else ""
        parts.append(
            f"{layout}it recognizes {agreement.matched} of {agreement.annotated} annotated objects"
            f" in {agreement.pictures} pictures"
        )
    return "; ".join(parts)
