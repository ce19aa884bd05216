"""The verdict as Markdown, for a comment on a pull request."""

from __future__ import annotations

import re

from fairprobe.gate.ruling import Ruling, Verdict
from fairprobe.gate.words import difference, estimate, interval, limit, shared

SIGNS = {"pass": "✅ pass", "fail": "❌ fail"}


def markdown(verdict: Verdict) -> str:
    """The verdict, what failed, a pair of people it is about, and the rest to unfold."""
    about = f"`{_code(verdict.model)}` on {escaped(verdict.dataset)}, by {escaped(' and '.join(verdict.sensitive))}"
    passed = [ruling for ruling in verdict.rulings if ruling.decided == "pass"]
    parts = [f"### {SIGNS['pass' if verdict.passed else 'fail'][0]} Fairness: {verdict.headline}", about + "."]
    if verdict.failed:
        parts += [_table(verdict.failed), *_pair(verdict)]
    if passed:
        parts.append(_folded(f"{len(passed)} passed", _table(passed)))
    parts.append(_folded("In words", "\n".join(f"- {escaped(ruling.why)}" for ruling in verdict.rulings)))
    return "\n\n".join(parts) + "\n"


def _table(rulings: tuple[Ruling, ...] | list[Ruling]) -> str:
    lines = ["| Rule | Measured | Interval | Limit | Outcome |", "| --- | ---: | ---: | ---: | --- |"]
    for ruling in rulings:
        outcome = SIGNS[ruling.decided] + (" (uncertain)" if ruling.outcome == "uncertain" else "")
        cells = escaped(ruling.what), estimate(ruling), interval(ruling) or "–", limit(ruling), outcome
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _pair(verdict: Verdict) -> list[str]:
    """The most telling pair of the run; the first is the one with the widest gap."""
    if not verdict.pairs:
        return []
    pair = verdict.pairs[0]
    return [f"**Two people who differ in nothing else.** {escaped(difference(pair))} Both: {escaped(shared(pair))}."]


def _folded(title: str, text: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{text}\n\n</details>"


def escaped(text: str) -> str:
    """One line that is shown as it is: no cell ends in it, no tag, link or emphasis begins."""
    return re.sub(r"([\\`*_\[\]|<>~#&!])", r"\\\1", " ".join(text.split()))


def _code(text: str) -> str:
    return " ".join(text.replace("`", "'").replace("|", "/").split())
