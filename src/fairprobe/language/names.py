"""The names experiment: the same résumés under different names, sent to a model that decides on
them. After Bertrand and Mullainathan, "Are Emily and Greg more employable than Lakisha and Jamal?",
2004.

Every name appears on every résumé. A group of names is compared with the others by the mean
outcome, and by the excess of differences between groups over differences between names of the same
group (`statistics/crossed.py`).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import numpy as np

from fairprobe.arrays import Floats
from fairprobe.errors import DataError, SettingError, suggest
from fairprobe.escapes import spreadsheet_cell
from fairprobe.language.model import TextModelInfo, open_model
from fairprobe.language.resumes import SLOT, NameSet, name_set, partners, resumes
from fairprobe.measures import JudgedRun, Measure, Reading
from fairprobe.models.formats.chat import ChatText
from fairprobe.models.formats.chat_usage import ChatUsage
from fairprobe.models.text import TextSource
from fairprobe.report import (
    Bar,
    Bars,
    Notes,
    Number,
    Plot,
    Section,
    Table,
    Terms,
    Text,
    Verdict,
)
from fairprobe.report.formats import count, date, level, listed, plural
from fairprobe.report.run import method, reproduction
from fairprobe.results import CONFIDENCE, Amount, Count, Result, Settings, Share
from fairprobe.results import Number as Finite
from fairprobe.runs.kinds import Kind
from fairprobe.runs.stages import OnStage, Stages, check_seed
from fairprobe.runs.store import AuditResult, Write
from fairprobe.statistics.crossed import PERMUTATIONS, Jackknifed, crossed
from fairprobe.statistics.paired import holm
from fairprobe.storage import write_text
from fairprobe.versions import versions

FORMAT: Final = 2  # raised when the meaning of a field changes
NUMBER = re.compile(r"-?\d+(\.\d+)?")
SENDING = "Sending résumés"
BATCH = 64  # résumés between two progress reports


# -- results ---------------------------------------------------------------------------------------


class NameGroup(Result, frozen=True, kw_only=True):
    """The names of a group against all others. `cross` and `same`: the mean distance of two names
    of different groups, and of the same group, on a résumé. `p` is adjusted for all groups.
    """

    attribute: str
    group: str
    names: Count
    mean: Finite
    difference: Jackknifed
    p: Share
    cross: Amount
    same: Amount
    excess: Jackknifed

    @property
    def is_found(self) -> bool:
        """Return whether the difference is beyond chance, at the confidence of the intervals."""
        return self.p <= 1 - CONFIDENCE


class NameOutcome(Result, frozen=True, kw_only=True):
    """A name, its groups by attribute, and its mean outcome over the résumés."""

    name: str
    mean: Finite
    groups: dict[str, str]


class NamesRun(JudgedRun, frozen=True, kw_only=True):
    """A names experiment. The outcome is a share, or a mean rating on a scale of `span` points."""

    kind: Literal["names"] = "names"
    format: Literal[2] = FORMAT
    settings: Settings
    source: str
    model: TextModelInfo
    outcome: str
    is_rating: bool
    span: Amount
    resumes: Count
    names: list[NameOutcome]
    groups: list[NameGroup]
    usage: ChatUsage | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.span <= 0:
            raise ValueError(f"a scale of {self.span}")
        for group in self.groups:
            if not any(name.groups.get(group.attribute) == group.group for name in self.names):
                raise ValueError(f"no name belongs to the group {group.group!r}")

    @property
    def found(self) -> list[NameGroup]:
        return [group for group in self.groups if group.is_found]


@dataclass(frozen=True, repr=False)
class NamesAudit(AuditResult[NamesRun]):
    """The run, and the `outcomes` (résumés, names): the probability of the favorable class, or the
    mean rating where all classes are numbers.
    """

    run: NamesRun
    outcomes: Floats

    @property
    def document(self) -> NamesRun:
        return self.run

    def files(self) -> dict[str, Write]:
        """Write the outcome of every name on every résumé."""
        return {"outcomes.csv": lambda path: write_text(path, _table(self))}


# -- the experiment --------------------------------------------------------------------------------


def audit_names(
    model: TextSource,
    names: str | NameSet = "audit",
    *,
    cvs: Sequence[str] | Path | str | None = None,
    favorable: str | None = None,
    seed: int = 0,
    progress: OnStage | None = None,
    **options: Any,
) -> NamesAudit:
    """Put every name of a set on every résumé, and compare the predictions.

    - `model` is anything that `load_text_model` takes: a function of a list of texts, or
      "chat:https://…" with the option `prompt`.
    - `names`: "audit" (the 36 names of Bertrand and Mullainathan), "gender", "surnames", or a
      `NameSet`.
    - `cvs`: texts with the slot {name}, or a folder of such files; packaged ones by default.
    - `favorable`: the favorable class, by default the first. Classes that are all numbers are
      ratings.

    If interrupted, use the résumés that have an outcome for every name.
    """
    check_seed(seed)
    chosen = names if isinstance(names, NameSet) else name_set(names)
    texts = resumes(cvs) if cvs is None or isinstance(cvs, str | Path) else list(cvs)
    if len(texts) < 2 or any(SLOT not in text for text in texts):
        raise DataError(f"At least two résumés are needed, each with the slot {SLOT}.")
    stages = Stages(progress)
    opened = open_model(model, options.pop("classes", None), options, stages)
    weights, outcome = _weights(opened.classes, favorable)
    others, total = partners(chosen.kind), len(chosen.names)
    letters = [
        text.replace(SLOT, chosen.full(name, others[row % len(others)]))
        for row, text in enumerate(texts)
        for name in chosen.names
    ]
    scores: list[float] = []
    enough = 2 * total
    with (
        stages.keep_partial(lambda: len(scores) >= enough),
        stages.stage("Sending résumés") as step,
    ):
        for first in range(0, len(letters), BATCH):
            step(first, len(letters), f"{first:,} of {len(letters):,}")
            scores += (opened.probabilities(letters[first : first + BATCH]) @ weights).tolist()
    if len(scores) < enough:
        raise KeyboardInterrupt
    outcomes = np.array(scores[: len(scores) // total * total]).reshape(-1, total)
    span = float(np.ptp(weights)) or 1.0
    run = NamesRun(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        command="",
        versions=versions("numpy", "torch", "onnxruntime", "transformers"),
        seed=seed,
        seconds=stages.seconds,
        stopped=stages.stopped,
        dataset=chosen.title,
        sensitive=list(chosen.groups),
        settings={"résumés given": len(texts), "permutations": PERMUTATIONS},
        source=chosen.source,
        model=TextModelInfo.of(opened),
        outcome=outcome,
        is_rating=bool(((weights != 0) & (weights != 1)).any()),
        span=span,
        resumes=len(outcomes),
        names=[
            NameOutcome(name=name, mean=mean, groups={a: of[n] for a, of in chosen.groups.items()})
            for n, (name, mean) in enumerate(
                zip(chosen.names, outcomes.mean(axis=0).tolist(), strict=True)
            )
        ],
        groups=compare_groups(chosen, outcomes, span, seed),
        usage=opened.chat.usage if isinstance(opened, ChatText) else None,
    )
    return NamesAudit(run, outcomes)


def compare_groups(names: NameSet, outcomes: Floats, span: float, seed: int) -> list[NameGroup]:
    """Compare each group with the others, within the groups by other attributes; of two groups,
    only the first. No interval exceeds the span of the outcome.
    """
    rng, compared = np.random.default_rng(seed), []
    for attribute, groups in names.groups.items():
        of = np.array(groups)
        values = list(dict.fromkeys(groups))
        others = [values for name, values in names.groups.items() if name != attribute]
        labels = [" ".join(label) for label in zip(*others, strict=True)] or [""] * len(of)
        strata = np.unique(labels, return_inverse=True)[1]
        for value in values if len(values) > 2 else values[:1]:
            result = crossed(outcomes, of == value, strata, rng=rng)
            compared.append((attribute, value, of == value, result))
    adjusted = holm([result.p for *_, result in compared])
    return [
        NameGroup(
            attribute=attribute,
            group=value,
            names=int(inside.sum()),
            mean=float(outcomes[:, inside].mean()),
            difference=_bounded(result.difference, span),
            p=float(p),
            cross=result.cross,
            same=result.same,
            excess=_bounded(result.excess, span),
        )
        for (attribute, value, inside, result), p in zip(compared, adjusted, strict=True)
    ]


def _bounded(number: Jackknifed, span: float) -> Jackknifed:
    return msgspec.structs.replace(number, low=max(number.low, -span), high=min(number.high, span))


def _weights(classes: Sequence[str], favorable: str | None) -> tuple[Floats, str]:
    """Return the weight of each class in the outcome, and the name of the outcome."""
    if favorable is None and sum(bool(NUMBER.fullmatch(name)) for name in classes) > 2:
        ratings = [float(name) if NUMBER.fullmatch(name) else 0.0 for name in classes]
        return np.array(ratings), "the mean rating; no answer counts 0"
    wanted = classes[0] if favorable is None else favorable
    if wanted not in classes:
        raise SettingError(f"There is no class '{wanted}'.{suggest(wanted, classes)}")
    return np.array([float(name == wanted) for name in classes]), f"the share of '{wanted}'"


def _table(audit: NamesAudit) -> str:
    """Write the outcome of every name on every résumé as CSV."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["resume", "name", *audit.run.sensitive, "outcome"])
    for row, outcomes in enumerate(audit.outcomes, start=1):
        for name, outcome in zip(audit.run.names, outcomes, strict=True):
            cells = [spreadsheet_cell(cell) for cell in (row, name.name, *name.groups.values())]
            writer.writerow([*cells, f"{outcome:.6f}"])
    return text.getvalue()


# -- the report ------------------------------------------------------------------------------------


GROUPS = (
    "Each group against all other names, on the same résumés. Only differences between groups that"
    " exceed those within a group are about the group."
)
SINGLE = "Any two names may be treated a little differently; single names are no finding."


def report(run: NamesRun) -> Section:
    """Report a names experiment."""
    facts = {
        "Date": date(run.created),
        "Names": count(len(run.names)),
        "Résumés": count(run.resumes),
        "Model": f"{run.model.network} ({run.model.kind})",
        "Seed": str(run.seed),
    }
    changes = Bars(
        [
            Bar(f"{group.attribute}: {group.group}", group.difference, is_marked=group.is_found)
            for group in run.groups
        ],
        unit="number" if run.is_rating else "points",
    )
    title = f"{run.dataset}, {run.model.network}"
    return Section(
        title[:1].upper() + title[1:],
        [
            Terms(facts),
            Section(
                "Result",
                [
                    _verdict(run),
                    Text(run.stopped or "", "warning"),
                    Plot("Outcome of each group's names, compared with all others", changes),
                    Notes(_notes(run)),
                ],
                "summary",
            ),
            Section("Groups of names", [Text(GROUPS), _groups_table(run)]),
            Section("Every name", [Text(SINGLE, "note"), _names_table(run)]),
            method(run, run.settings, [Terms(_terms(run))]),
            reproduction(run),
        ],
        eyebrow="The same résumés under different names",
    )


def _verdict(run: NamesRun) -> Verdict:
    where = f"{plural(run.resumes, 'résumé')} under {count(len(run.names))} names"
    if not run.found:
        return Verdict(
            "No group of names is treated differently",
            f"On {where}, no group differs from the others by more than names of the same group do."
            " This is evidence, not a certificate.",
            "none",
        )
    groups = listed(f"“{group.group}”" for group in run.found)
    found = listed(f"{_change(run, group.difference)} for “{group.group}”" for group in run.found)
    return Verdict(
        f"The same résumés fare differently under the names of {groups}",
        f"On {where}, the difference from the outcome of all other names is {found}.",
        "found",
    )


def _notes(run: NamesRun) -> list[str]:
    notes = [f"The outcome is {run.outcome}. Only the name differs between two letters."]
    if run.found:
        notes.append(
            "Compare the letters in outcomes.csv, change the model or its prompt, and run again;"
            " `fairprobe check` can limit names_difference and names_excess."
        )
    if run.usage is not None:
        notes.append(run.usage.sentence)
        if run.usage.refused or run.usage.unreadable:
            notes.append(
                f"{plural(run.usage.refused, 'answer')} of {count(run.usage.answers)} refused, and"
                f" {count(run.usage.unreadable)} named no class; they count as not favorable."
            )
    return notes


def _groups_table(run: NamesRun) -> Table:
    """Compare each group with the others, and with the control."""
    rows = [
        (
            f"{group.attribute}: {group.group}",
            count(group.names),
            _level(run, group.mean),
            _change(run, group.difference),
            f"{group.p:.2g}",
            _level(run, group.cross),
            _level(run, group.same),
            _change(run, group.excess),
        )
        for group in run.groups
    ]
    head = ("names of", "names", "outcome", "difference", "p", "two groups", "same group")
    caption = f"Small: the {level(CONFIDENCE)} interval; p is adjusted for all groups"
    return Table((*head, "excess"), rows, caption)


def _names_table(run: NamesRun) -> Table:
    """List every name with its mean outcome, the best first."""
    rows: list[list[str | Number]] = [
        [
            name.name,
            *(name.groups.get(attribute, "–") for attribute in run.sensitive),
            _level(run, name.mean),
        ]
        for name in sorted(run.names, key=lambda name: -name.mean)
    ]
    words = tuple(range(1 + len(run.sensitive)))
    head = ("name", *run.sensitive, "mean outcome")
    return Table(head, rows, f"All {count(len(rows))} names", words, folded=True)


def _level(run: NamesRun, value: float) -> Number:
    return Number(value, unit="number" if run.is_rating else "share")


def _change(run: NamesRun, value: Jackknifed) -> Number:
    return Number(value, unit="number" if run.is_rating else "points")


def _terms(run: NamesRun) -> dict[str, str]:
    return {
        "Outcome": f"{run.outcome[:1].upper()}{run.outcome[1:]}.",
        "Difference": (
            "The mean outcome of a group’s names minus that of all other names. The interval is"
            " that of a jackknife over names plus one over résumés, so it allows for others like"
            " them."
        ),
        "Two groups, same group": (
            "The mean distance of two names of different groups, and of the same group, on a"
            " résumé. The second is the control; the excess is the difference."
        ),
        "p": (
            "How often a difference as large arises when names are exchanged between the groups at"
            " random, within the groups by other attributes (Holm’s adjustment). So a model that"
            " likes single names is not accused."
        ),
        "Names": run.source,
    }


# -- measures --------------------------------------------------------------------------------------


def _differences(run: NamesRun) -> list[Reading]:
    """Read the size of each difference: with an interval on both sides of 0 it is at least 0."""
    readings = []
    for group in run.groups:
        low, high = group.difference.low, group.difference.high
        least, most = sorted((abs(low), abs(high)))
        values = (0.0 if low <= 0 <= high else least, abs(group.difference.estimate), most)
        what = f"difference between the names of {group.group} and all others"
        readings.append(_reading(run, group, what, values))
    return readings


def _excesses(run: NamesRun) -> list[Reading]:
    return [
        _reading(
            run,
            group,
            f"differences between the names of {group.group} and others, beyond the same group",
            (group.excess.low, group.excess.estimate, group.excess.high),
        )
        for group in run.groups
    ]


def _reading(
    run: NamesRun, group: NameGroup, what: str, values: tuple[float, float, float]
) -> Reading:
    """Read a number and its interval as shares of the span of the outcome."""
    low, estimate, high = (value / run.span for value in values)
    return Reading(
        what=what,
        estimate=estimate,
        low=low,
        high=high,
        confidence=CONFIDENCE,
        samples=run.resumes * len(run.names),
        measured_on=f"{run.resumes:,} résumés under {len(run.names):,} names",
        group=group.group,
        cut_short=run.stopped or "",
    )


NAMES_DIFFERENCE = Measure(
    name="names_difference",
    title="Difference between groups of names",
    about=(
        "How much better or worse the same résumés fare under the names of a group than under all"
        " other names: a share of favorable answers, or of the span of ratings."
    ),
    unit="share",
    direction="at most",
    read=_differences,
    of="names",
)
NAMES_EXCESS = Measure(
    name="names_excess",
    title="Excess of differences between groups of names",
    about=(
        "How much farther two names of different groups are apart on a résumé than two names of the"
        " same group, which is the control."
    ),
    unit="share",
    direction="at most",
    read=_excesses,
    of="names",
)

KIND = Kind(name="names", title="names", run=NamesRun, report=report, format=FORMAT, is_judged=True)
