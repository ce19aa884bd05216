"""The result as Markdown, for a comment on a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from fairprobe.gate.ruling import GateResult, Ruling
from fairprobe.gate.words import difference, estimate, interval, limit, shared
from fairprobe.present.table import UNDEFINED, Table
from fairprobe.report.formats import ELLIPSIS, listed
from fairprobe.report.markdown import bullets, escaped, joined, named

SIGNS = {"pass": "✅ pass", "fail": "❌ fail"}
HEAD = ("Rule", "Measured", "Interval", "Limit", "Outcome")
LONGEST = 60_000  # characters; GitHub takes no comment above 65,536
FEWER = (200, 50, 15, 5)  # rulings of a list, until the comment is short enough
LINE = 400  # characters of somebody else's words in a sentence


def markdown(result: GateResult) -> str:
    """Write the result, what failed, a pair of people it is about, and the rest to unfold. Of very
    many rulings the first ones.
    """
    texts = (_comment(result, most) for most in FEWER)
    return next(
        (text for text in texts if len(text) <= LONGEST), joined([_title(result), _about(result)])
    )


def _comment(result: GateResult, most: int) -> str:
    passed = [ruling for ruling in result.rulings if ruling.decided == "pass"]
    parts = [_title(result), _about(result)]
    if result.failed:
        parts += [*_table(result.failed, most), *_pair(result)]
    if passed:
        parts += _folded(f"{len(passed):,} passed", _table(passed, most))
    ordered = [*result.failed, *passed]
    words = bullets(escaped(_cut(ruling.why, 2 * LINE)) for ruling in ordered[:most])
    return joined([*parts, *_folded("In words", [words, *_more(ordered, most)])])


def _title(result: GateResult) -> str:
    return f"### {SIGNS['pass' if result.passed else 'fail'][0]} Fairness: {result.headline}"


def _about(result: GateResult) -> str:
    by = escaped(_cut(listed(result.sensitive), LINE))
    return f"{named(result.model) or 'A model'} on {named(result.dataset)}, by {by}."


def _table(rulings: Sequence[Ruling], most: int) -> list[str]:
    rows = []
    for ruling in rulings[:most]:
        outcome = SIGNS[ruling.decided] + (" (uncertain)" if ruling.outcome == "uncertain" else "")
        rows.append(
            (
                ruling.what,
                estimate(ruling),
                interval(ruling) or UNDEFINED,
                limit(ruling),
                outcome,
            )
        )
    table = Table(HEAD, rows, words=(0, len(HEAD) - 1))
    return [table.markdown(longest=LINE), *_more(rulings, most)]


def _more(rulings: Sequence[Ruling], most: int) -> list[str]:
    return [f"… and {len(rulings) - most:,} more."] if len(rulings) > most else []


def _pair(result: GateResult) -> list[str]:
    """Return the most striking pair of the run; the first is the one with the widest gap."""
    if not result.pairs:
        return []
    apart, alike = (
        escaped(_cut(text, 5 * LINE))
        for text in (difference(result.pairs[0]), shared(result.pairs[0]))
    )
    return [f"**Two people who differ in nothing else.** {apart} Both: {alike}."]


def _folded(title: str, blocks: Sequence[str]) -> list[str]:
    return [f"<details><summary>{title}</summary>", *blocks, "</details>"]


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + ELLIPSIS
