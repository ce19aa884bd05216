"""The user's decision rule in words, and as Python."""

from __future__ import annotations

from fairprobe.documents import DecisionInfo
from fairprobe.report.formats import listed, quoted


def in_short(rule: DecisionInfo) -> str:
    """A few words to stand beside a number: decided at 0.30."""
    if rule.costs is not None:
        at = "" if rule.threshold is None else f", which is at {_number(rule.threshold)}"
        return f"decided at the lowest expected cost{at}"
    if not rule.thresholds:
        return f"decided at {_number(rule.threshold)}"
    groups = [f"{_number(value)} for {group}" for group, value in rule.thresholds.items()]
    if rule.threshold is not None:
        groups.append(f"{_number(rule.threshold)} for everybody else")
    return f"decided by {rule.by} at {listed(groups)}"


def sentence(rule: DecisionInfo) -> str:
    """What the rule does."""
    if rule.costs is not None and rule.threshold is None:
        text = "Everybody gets the answer with the lowest expected cost."
    else:
        text = (
            f"People get {quoted([rule.answer])} if the model gives it at least the probability of"
            f" their threshold: they are {in_short(rule)}."
        )
    return f"{text} The probabilities shown are the model’s own."


def notes(rule: DecisionInfo | None, sensitive: list[str]) -> list[str]:
    """What a reader must know of the rule."""
    if rule is None:
        return []
    written = [sentence(rule)]
    if rule.thresholds and rule.by in sensitive:
        written.append(
            f"The decision rule itself treats people by {rule.by}: a counterpart is decided with"
            f" the threshold of their own {rule.by}, so people between two thresholds are affected"
            f" even if the model ignores {rule.by}. This is disparate treatment by design."
        )
    return written


def python(rule: DecisionInfo | None) -> list[str]:
    """The argument of `fp.audit`."""
    if rule is None:
        return []
    if rule.costs is not None:
        return [f"    decision=fp.Decision(costs={rule.costs!r}),"]
    if not rule.thresholds:
        return [f"    decision=fp.Decision({rule.threshold!r}),"]
    everybody = "" if rule.threshold is None else f"{rule.threshold!r}, "
    return [f"    decision=fp.Decision({everybody}thresholds={rule.thresholds!r}, by={rule.by!r}),"]


def _number(threshold: float | None) -> str:
    """With two digits, or as many as it has."""
    if threshold is None:
        return ""
    short = f"{threshold:.2f}"
    return short if abs(float(short) - threshold) < 1e-9 else f"{threshold:.4g}"
