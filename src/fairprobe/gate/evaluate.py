"""`check`: the one evaluation of a policy, which the command line, Python and pytest share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from fairprobe.catalogue import MEASURES
from fairprobe.documents.table import TableMeasurements
from fairprobe.errors import FairprobeError, SettingError
from fairprobe.gate import words
from fairprobe.gate.difference import changes, require_comparable
from fairprobe.gate.more import Audited, AuditedTable, More, sampler_of, until_decided
from fairprobe.gate.policy import Policy, read_policy
from fairprobe.gate.ruling import CHANGE, Decision, GateResult, Outcome, Ruling, side
from fairprobe.measures import Measurements, Reading, required
from fairprobe.results import Rate, from_dict
from fairprobe.runs.kinds import KINDS, kind_named
from fairprobe.runs.store import read_measured_run
from fairprobe.statistics.rates import confidence_at_look

Run: TypeAlias = Audited | Path | str | Measurements | dict[str, Any]

PEOPLE_NEEDED = "More people are needed to tell, not more samples."
TEXTS_NEEDED = "More texts are needed to tell."
REMEDIES = {
    "dm_rs": (
        "Draw more possible people (--samples), or let the gate draw them: uncertain = 'more'."
    ),
    f"{CHANGE}dm_rs": "Draw more possible people (--samples) in both runs.",
    **dict.fromkeys(
        (f"{change}{name}" for change in ("", CHANGE) for name in ("text_flips", "text_gaps")),
        TEXTS_NEEDED,
    ),
}


def check(
    run: Run, policy: Policy | Path | str, *, baseline: Run | None = None, more: More | None = None
) -> GateResult:
    """Evaluate a policy on a run: an audit, its folder, or its document, also as a dictionary.

    An interval wholly on the good side of a limit passes (the limit itself is good), wholly on the
    bad side it fails, and on both sides the policy decides. What the run did not measure fails.
    `baseline` takes the place of the policy's own. `more(n)` draws n possible people anew where the
    policy asks for it; without it the run's model and data are opened. Each ruling holds at 95 % by
    itself.
    """
    rules = policy if isinstance(policy, Policy) else read_policy(policy)
    document = _measurements(run)
    before = baseline_of(rules, baseline)
    if before is not None:
        place = rules.baseline_run if baseline is None else baseline
        named = f" {place}" if isinstance(place, Path | str) else ""
        require_comparable(document, before, named, rules.margins)
    draw = more or _opener(run, document)
    rulings = [
        ruling
        for name, limit in rules.limits.items()
        for ruling in _limited(name, limit, document, rules, draw)
    ]
    if before is not None:
        rulings += [
            ruling
            for name, margin in rules.margins.items()
            for ruling in _changed(name, margin, document, before, rules)
        ]
    return GateResult(
        rulings=tuple(rulings),
        run=str(run) if isinstance(run, Path | str) else None,
        dataset=document.dataset,
        model=document.model.network,
        sensitive=tuple(document.sensitive),
        policy=None if rules.path is None else str(rules.path),
        pairs=tuple(document.pairs) if isinstance(document, TableMeasurements) else (),
    )


def _measurements(run: Run, what: str = "run") -> Measurements:
    """Return the measurements of a run, a folder or a document, validated."""
    if isinstance(run, Path | str):
        found: Any = read_measured_run(run, what=what)
    elif isinstance(run, dict):
        kind = run.get("kind")
        found = from_dict(run, kind_named(kind if kind in KINDS else "table").run)
    elif isinstance(run, Audited):
        found = run.document
    else:
        found = run
    if not isinstance(found, Measurements):
        raise SettingError(
            f"A {what} is an audit of a table or of texts, the folder of one, or its document"
            f" (`audit.document`, `audit.to_dict()`); got {type(found).__name__}."
        )
    return found


def baseline_of(policy: Policy, given: Run | None = None) -> Measurements | None:
    """Return the document to compare with, if the policy compares; `given` takes the place of the
    policy's own.
    """
    place = policy.baseline_run if given is None else given
    if place is None:
        if policy.margins:
            raise SettingError(
                "The policy compares with a baseline, and none is named: add run = 'FOLDER' to"
                " [baseline], or --baseline."
            )
        return None
    if not policy.margins:
        raise SettingError(
            "There is a baseline, but the policy does not say by how much what may be worse: add"
            " dm_rs = 0.002 to [baseline]."
        )
    return _measurements(place, "baseline")


def _opener(run: Run, document: Measurements) -> More | None:
    """Return a sampler for a run that can be opened; a document alone has no model."""
    has_people = isinstance(document, TableMeasurements)
    if not isinstance(run, AuditedTable | Path | str) or not has_people:
        return None
    return sampler_of(Path(run) if isinstance(run, str) else run, document.sensitive, document.seed)


def _limited(
    name: str, limit: float, document: Measurements, policy: Policy, more: More | None
) -> list[Ruling]:
    found = [each for each in MEASURES[name].readings(document) if not each.is_small]
    if (
        name == "dm_rs"
        and policy.uncertain == "more"
        and found[0].estimate is not None
        and isinstance(document, TableMeasurements)
    ):
        return [_sampled(found[0], limit, document, policy, more)]
    return [_ruling(name, each, limit, policy) for each in found]


def _changed(
    name: str, margin: float, document: Measurements, before: Measurements, policy: Policy
) -> list[Ruling]:
    """At most this much more; where more is better, at least not this much less."""
    limit = margin if MEASURES[name].direction == "at most" else -margin
    return [_ruling(CHANGE + name, each, limit, policy) for each in changes(name, document, before)]


def _ruling(name: str, each: Reading, limit: float, policy: Policy) -> Ruling:
    """One number against its limit, by its interval if it has one."""
    if each.estimate is None:
        return _made(name, each, limit, "fail", f"It is missing: {each.missing}.")
    low, high = (each.estimate if end is None else end for end in (each.low, each.high))
    outcome = side(low, high, limit, MEASURES[name.removeprefix(CHANGE)].direction)
    if outcome == "uncertain":
        decided: Decision = "pass" if policy.uncertain == "pass" else "fail"
        why = f"By the policy that is a {decided}. {REMEDIES.get(name, PEOPLE_NEEDED)}"
        return _made(name, each, limit, outcome, why, decided=decided)
    if outcome == "pass" and each.cut_short:
        return _made(name, each, limit, "fail", each.cut_short)
    return _made(name, each, limit, outcome)


def _sampled(
    each: Reading, limit: float, document: TableMeasurements, policy: Policy, more: More | None
) -> Ruling:
    """DM-RS, with as many more people as it takes."""
    drawn = required(document.dm_rs)
    own = Rate.of(drawn.hits, drawn.samples, drawn.confidence)
    try:
        rate, looks = until_decided(own, limit, more or _no_model, policy.most_samples)
    except FairprobeError as error:
        why = f"More possible people cannot be drawn: {error}"
        return _made(
            "dm_rs",
            _pooled(each, own.with_confidence(confidence_at_look(own.confidence, 1))),
            limit,
            "uncertain",
            why,
            decided="fail",
        )
    outcome = side(rate.low, rate.high, limit, "at most")
    seen = f"{rate.samples:,} possible people in {looks} {'look' if looks == 1 else 'looks'}"
    if outcome == "uncertain":
        why = f"After {seen} it is not decided, and most_samples allows no more; that is a fail."
        return _made("dm_rs", _pooled(each, rate), limit, outcome, why, decided="fail")
    return _made("dm_rs", _pooled(each, rate), limit, outcome, f"It took {seen}.")


def _pooled(each: Reading, rate: Rate) -> Reading:
    return replace(each, estimate=rate.estimate, low=rate.low, high=rate.high)


def _no_model(samples: int) -> Rate:
    raise SettingError(
        f"{samples:,} more were wanted, and a document has no model. Give the run's folder, or the"
        " audit itself."
    )


def _made(
    name: str,
    each: Reading,
    limit: float,
    outcome: Outcome,
    because: str = "",
    *,
    decided: Decision | None = None,
) -> Ruling:
    measure = MEASURES[name.removeprefix(CHANGE)]
    ruling = Ruling(
        name=name,
        what=each.what,
        limit=limit,
        direction=measure.direction,
        unit=measure.unit,
        estimate=each.estimate,
        low=each.low,
        high=each.high,
        outcome=outcome,
        decided=decided or ("pass" if outcome == "pass" else "fail"),
        why="",
    )
    return replace(
        ruling,
        why=" ".join(
            part for part in (_sentence(ruling, each.confidence), because, each.note) if part
        ),
    )


def _sentence(ruling: Ruling, confidence: float | None) -> str:
    """Write the number, its interval and the limit in words."""
    what, limit = ruling.what[:1].upper() + ruling.what[1:], words.limit(ruling)
    if ruling.estimate is None:
        return f"{what} must be {limit}."
    level = "" if confidence is None else f"{100 * confidence:g} % "
    within = f" ({level}interval {words.interval(ruling)})" if words.interval(ruling) else ""
    verdict = {
        "pass": f"it keeps to {limit}",
        "fail": f"it must be {limit}",
        "uncertain": f"the limit, {limit}, lies within",
    }
    return f"{what} is {words.estimate(ruling)}{within}; {verdict[ruling.outcome]}."
