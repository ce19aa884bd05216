"""What a repair of a text network did: sentences and tables."""

from __future__ import annotations

from fairprobe.documents.text import TextComparison, TextRepairDocument, TextState
from fairprobe.present.formats import count, interval, level, percent, plural, points
from fairprobe.present.table import Cell, Table
from fairprobe.present.text_sentences import bare


def outcome(repair: TextRepairDocument) -> str:
    """The headline: accepted, refused, undecided, or accepted although."""
    if repair.outcome == "accepted":
        return "Repair accepted"
    if repair.forced:
        return f"Accepted although it would be {repair.outcome}"
    if repair.outcome == "refused":
        return "Repair refused"
    return f"Repair undecided: {plural(len(repair.seeds), 'seed')} did not settle whether it helps"


def said(repair: TextRepairDocument) -> list[str]:
    """What it did to the excess and to accuracy, and what speaks against it."""
    was, now, control = repair.before, repair.after, repair.control
    what = accuracy_title(repair)
    return [
        f"{outcome(repair)}.",
        *(repair.reasons or repair.doubts),
        (
            f"Of {plural(repair.held_out, 'text')} held out, the excess of changed answers goes"
            f" from {points(was.flips.estimate)} to {points(now.flips.estimate)}"
            f" ({level(now.flips.confidence)} interval {interval(now.flips, bare)}); with the"
            f" network trained as long without the repair it is {points(control.flips.estimate)}."
            f" {what[:1].upper()}{what[1:]} goes from {percent(was.accuracy.estimate)} to"
            f" {percent(now.accuracy.estimate)}; without the repair it is"
            f" {percent(control.accuracy.estimate)}."
        ),
    ]


def accuracy_title(repair: TextRepairDocument) -> str:
    """What accuracy is where there are no true labels."""
    return "agreement with the network before" if repair.own_labels else "accuracy"


def before_and_after(repair: TextRepairDocument) -> Table:
    """The three networks on the texts held out."""
    rows = [
        _row(name, state)
        for name, state in (
            ("before the repair", repair.before),
            ("trained on without it (control)", repair.control),
            ("repaired, delivered", repair.after),
        )
    ]
    head = ("network", accuracy_title(repair), "changed", "control words", "excess (points)")
    return Table((*head, "excess change of probability (points)"), rows)


def _row(name: str, state: TextState) -> tuple[str | Cell, ...]:
    return (
        name,
        Cell(percent(state.accuracy.estimate), interval(state.accuracy)),
        percent(state.flips.cross),
        percent(state.flips.control),
        Cell(bare(state.flips.estimate), interval(state.flips, bare)),
        Cell(bare(state.gaps.estimate), interval(state.gaps, bare)),
    )


def over_seeds(repair: TextRepairDocument) -> Table:
    """What the verdict rests on."""
    rows = [
        (
            accuracy_title(repair) if each.what == "accuracy" else each.what,
            _spread(each, "control"),
            _spread(each, "repaired"),
            Cell(
                bare(each.control.mean - each.repaired.mean),
                f"{bare(each.low)} to {bare(each.high)}",
            ),
        )
        for each in repair.comparisons
    ]
    head = ("over all seeds", "trained on without the repair", "repaired", "lower by (points)")
    return Table(head, rows)


def _spread(each: TextComparison, which: str) -> Cell:
    found = each.control if which == "control" else each.repaired
    return Cell(percent(found.mean), f"{percent(found.least)} to {percent(found.most)}")


def how(repair: TextRepairDocument) -> str:
    """How it was done and judged, for the page."""
    labels = (
        "No text had a true label, so the network learned its own answers."
        if repair.own_labels
        else "The network learned the labels of the texts."
    )
    return (
        f"{repair.title}, strength {repair.strength:g} ({repair.strength_means}):"
        f" {plural(repair.learned, 'text')} were learned and {count(repair.held_out)} held out;"
        " texts of one template, or equal but for the exchanged words, stay together."
        f" {labels} With each of {plural(len(repair.seeds), 'seed')} the network was trained twice"
        " from its own weights with the same batches: with the repair, and without it. A repair is"
        " accepted if the excess is shown to be at least"
        f" {percent(repair.min_help)} lower than without it, and accuracy on average not lower by"
        f" more than {points(repair.max_accuracy_drop)}."
    )
