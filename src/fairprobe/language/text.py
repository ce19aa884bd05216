"""Audit a classifier of texts: how often its prediction changes when the words of one group are
exchanged for those of another, compared with the same exchange within a group.

    what                                    module
    words of the groups and the control     `lexicon`
    counterparts of a text                  `places`, `exchange`
    the excess and its interval             `excess`, `statistics/clusters.py`
    activation differences by layer         `inside`
    the search among context words          `search`
    the report                              `text_report`
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from fairprobe.arrays import Floats
from fairprobe.errors import DataError, SettingError
from fairprobe.escapes import spreadsheet_cell
from fairprobe.language.excess import (
    Answers,
    Excess,
    GroupAnswers,
    Observations,
    PairExcess,
    WordInfluence,
)
from fairprobe.language.exchange import PER_GROUP, Plan, Side, plan
from fairprobe.language.inside import TextInterpretation, look_inside
from fairprobe.language.lexicon import Lexicon, Words, open_lexicon
from fairprobe.language.model import TextModelInfo, open_model
from fairprobe.language.search import Found, Guide, Searcher, TextSearch
from fairprobe.language.texts import Slots, Text, TextsSource, expand, open_texts, read_slots
from fairprobe.language.vocabulary import Vocabulary
from fairprobe.measures import JudgedRun
from fairprobe.models.formats.text_network import Fluency, open_fluency
from fairprobe.models.text import TextModel, TextNetwork, TextSource
from fairprobe.results import Count, Result, Settings, Share
from fairprobe.runs.stages import OnStage, Stages, check_seed, counted
from fairprobe.runs.store import AuditResult, Write
from fairprobe.storage import write_text
from fairprobe.versions import versions

FORMAT: Final = 2  # raised when the meaning of a field changes
TEXTS = 2000  # texts of an audit, by default
MAX_PAIRS = 12  # of the report
MAX_WORDS = 40  # of the table of influences
GUIDES: tuple[Guide, ...] = ("margin", "neurons", "random")


# -- results ---------------------------------------------------------------------------------------


class TextSide(Result, frozen=True, kw_only=True):
    """One of two texts, with the spans of the exchanged words and the prediction."""

    text: str
    group: str
    word: str
    spans: list[tuple[Count, Count]]
    answer: str
    probability: Share

    def __post_init__(self) -> None:
        last = 0
        for start, end in self.spans:
            if not last <= start <= end <= len(self.text):
                raise ValueError(f"a word from {start} to {end} in a text of {len(self.text)}")
            last = end

    @classmethod
    def of(cls, side: Side, p: Floats, classes: Sequence[str]) -> TextSide:
        """Combine a side of an exchange with its prediction."""
        return cls(
            text=side.text,
            group=side.group,
            word=side.word,
            spans=list(side.spans),
            answer=classes[int(p.argmax())],
            probability=min(float(p.max()), 1.0),
        )


class TextPair(Result, frozen=True, kw_only=True):
    """Two texts that differ in the exchanged words only and in the prediction. `gap` is the change
    in probability of the first prediction.
    """

    row: int
    first: TextSide
    second: TextSide
    gap: Share


class TextData(Result, frozen=True, kw_only=True):
    """Numbers of texts: given, used, and left out by reason."""

    name: str
    texts: Count
    used: Count
    clusters: Count
    without_word: Count
    without_control: Count
    duplicates: Count


class LexiconInfo(Result, frozen=True, kw_only=True):
    """A lexicon: its groups, its control, and whether its words are the question or a sample."""

    name: str
    title: str
    about: str
    words: Words
    groups: list[str]
    control: Literal["neutral words", "words of the same group"]

    @classmethod
    def of(cls, lexicon: Lexicon) -> LexiconInfo:
        """Describe a lexicon."""
        return cls(
            name=lexicon.name,
            title=lexicon.title,
            about=lexicon.about,
            words=lexicon.words,
            groups=list(lexicon.groups),
            control="neutral words" if lexicon.control else "words of the same group",
        )


class TextRun(JudgedRun, frozen=True, kw_only=True):
    """An audit of a text classifier. `pairs` are examples among the texts, `found` among those of
    the search.
    """

    kind: Literal["text"] = "text"
    format: Literal[2] = FORMAT
    settings: Settings
    data: TextData
    lexicon: LexiconInfo
    model: TextModelInfo
    calls: Count
    flips: Excess
    gaps: Excess
    by_pair: list[PairExcess]
    groups: list[GroupAnswers]
    words: list[WordInfluence]
    interpretation: TextInterpretation | None
    searches: list[TextSearch]
    pairs: list[TextPair]
    found: list[TextPair]

    def __post_init__(self) -> None:
        super().__post_init__()
        classes = len(self.model.classes)
        for group in self.groups:
            if len(group.probabilities) != classes or len(group.answers) != classes:
                raise ValueError(f"{len(group.answers)} answers for {classes} classes")

    @property
    def rests_on(self) -> list[str]:
        """Return the words without which the excess is not shown, or less than half remains."""
        half = self.flips.estimate / 2
        fragile = [word for word in self.words if word.low <= 0 or word.estimate < half]
        return [word.word for word in fragile] if self.flips.is_shown else []


@dataclass(frozen=True, repr=False)
class TextAudit(AuditResult[TextRun]):
    """The run, the `plan` of exchanges, their `observations`, and the findings of each search."""

    run: TextRun
    lexicon: Lexicon
    model: TextModel
    plan: Plan
    observations: Observations
    findings: list[list[Found]]

    @property
    def document(self) -> TextRun:
        return self.run

    def files(self) -> dict[str, Write]:
        """Write every exchange."""
        return {"exchanges.csv": lambda path: write_text(path, _table(self))}


# -- the audit -------------------------------------------------------------------------------------


def audit_text(
    texts: TextsSource,
    model: TextSource,
    sensitive: Lexicon | Path | str,
    *,
    column: str | None = None,
    cluster: str | None = None,
    slots: Slots | Path | str | None = None,
    classes: Sequence[str] | None = None,
    limit: int | None = TEXTS,
    per_group: int = PER_GROUP,
    search: int = 0,
    bigrams: bool = True,
    fluency: Fluency | Path | str | None = None,
    seed: int = 0,
    name: str = "",
    progress: OnStage | None = None,
    **options: Any,
) -> TextAudit:
    """Audit a classifier of texts.

    - `texts`: a .csv or .jsonl file and its `column`, a file of plain lines, or a list; also
      templates with `slots`. `cluster` names a column of what belongs together.
    - `model`: a function from a list of texts to probabilities, or what `load_text_model` takes,
      with its `options`.
    - `sensitive`: race, gender, religion, orientation, names, or a lexicon (a TOML file).
    - `limit`: at most this many texts, sampled at random; `per_group`: words of each other group
      for a text.
    - `search`: for a network, search from this many texts for more whose prediction changes, by
      replacing context words; with `bigrams`, only by words that were next to each other in the
      texts. `fluency` also limits it to texts as fluent as the first: a folder with a causal
      transformers model, or a function from texts to a mean log-probability of a token.

    If interrupted, use the texts queried until then.
    """
    check_seed(seed)
    if limit is not None and limit < 2:
        raise SettingError(f"The number of texts must be at least 2; got {limit}.")
    if per_group < 1:
        raise SettingError(f"Use at least 1 word of each other group; got {per_group}.")
    stages = Stages(progress)
    lexicon = open_lexicon(sensitive)
    rng = np.random.default_rng(seed)
    with stages.stage("Reading the texts"):
        given = open_texts(texts, column=column, cluster=cluster)
        words = read_slots(slots) if isinstance(slots, str | Path) else slots or {}
        expanded = expand(given, lexicon, words, rng)
        exchanges = plan(expanded, lexicon, rng=rng, per_group=per_group, limit=limit)
    _require_exchanges(exchanges, lexicon, len(given))
    opened = open_model(model, classes, options, stages)
    settings: Settings = {"texts at most": limit, "words of each group": per_group}
    if search or fluency is not None:
        settings |= {"seen bigrams": bigrams, "fluency": _name_of(fluency)}
        _check_search(opened, search)
    judge = None if fluency is None else open_fluency(fluency)
    answers = Answers(opened)
    with stages.keep_partial(lambda: len(answers) > 0), stages.stage("Exchanging words") as step:
        answers.query(exchanges.queries(), counted(step))
    inside: TextInterpretation | None = None
    searches: list[tuple[TextSearch, list[Found]]] = []
    with stages.keep_partial(lambda: True):
        if opened.network is not None and not stages.stopped:
            inside = _look_inside(opened.network, exchanges, stages)
            if search:
                how = {"filtered": bigrams, "fluency": judge, "layer": inside.guiding_layer}
                seeds, every = exchanges.texts[:search], [text.text for text in given]
                searches.extend(_searches(opened, lexicon, every, seeds, stages, seed=seed, **how))
    seen = Observations(exchanges, answers, lexicon.words)
    if stages.stopped and not seen.exchanges:
        raise KeyboardInterrupt if not stages.failed else DataError(stages.stopped)
    title = name or (Path(texts).name if isinstance(texts, str | Path) else "texts")
    run = TextRun(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        command="",
        versions=versions("numpy", "torch", "onnxruntime", "transformers"),
        seed=seed,
        seconds=stages.seconds,
        stopped=stages.stopped,
        dataset=title,
        sensitive=[lexicon.name],
        settings=settings,
        data=_data(title, len(given), exchanges, seen),
        lexicon=LexiconInfo.of(lexicon),
        model=TextModelInfo.of(opened),
        calls=len(answers),
        flips=seen.excess(seen.flips),
        gaps=seen.excess(seen.gaps),
        by_pair=seen.by_pair(),
        groups=seen.groups(lexicon.groups),
        words=seen.words()[:MAX_WORDS],
        interpretation=inside,
        searches=[result for result, _ in searches],
        pairs=_pairs(seen, exchanges, opened),
        found=_found(searches[0][1] if searches else [], exchanges, opened),
    )
    return TextAudit(run, lexicon, opened, exchanges, seen, [found for _, found in searches])


def _name_of(fluency: Fluency | Path | str | None) -> str:
    """Name a fluency model for the settings."""
    if fluency is None or isinstance(fluency, str | Path):
        return str(fluency or "none")
    return str(getattr(fluency, "__name__", "a function"))


def _check_search(model: TextModel, search: int) -> None:
    """Raise SettingError if the model cannot be searched, or a fluency model has no search."""
    if not search:
        raise SettingError("A fluency model limits the search. Add --search with a number.")
    if model.network is None:
        raise SettingError(
            "The search looks into a network, and this model is a black box. Leave --search out, or"
            " give a torch module with its tokenizer or a transformers folder."
        )


def _require_exchanges(exchanges: Plan, lexicon: Lexicon, texts: int) -> None:
    if exchanges.exchanges:
        return
    if exchanges.without_control:
        raise DataError(
            f"{exchanges.without_control:,} texts contain a word of the lexicon '{lexicon.name}',"
            " but none has a control: give the lexicon neutral words ([control]) or several words"
            " for each group."
        )
    some = [form for _, _, term in lexicon.terms() for form in term.sought][:8]
    raise DataError(
        f"None of the {texts:,} texts contains a word of the lexicon '{lexicon.name}' (such as"
        f" {', '.join(some)}). Give other texts, templates with slots, or another lexicon."
    )


def _look_inside(network: TextNetwork, exchanges: Plan, stages: Stages) -> TextInterpretation:
    pairs: dict[bool, list[tuple[str, str]]] = {True: [], False: []}
    for exchange in exchanges.exchanges:
        pairs[exchange.is_control].append((exchange.first.text, exchange.second.text))
    with stages.stage("Looking inside") as step:
        return look_inside(network, pairs[False], pairs[True], progress=counted(step))


def _searches(
    model: TextModel,
    lexicon: Lexicon,
    texts: Sequence[str],
    seeds: Sequence[Text],
    stages: Stages,
    **how: Any,
) -> Iterator[tuple[TextSearch, list[Found]]]:
    """Run the search and its rivals, with the same seeds, loop and counting."""
    assert model.network is not None
    with stages.stage("Reading the vocabulary"):
        vocabulary = Vocabulary(model.network, texts, lexicon)
    for guide in GUIDES:
        searcher = Searcher(model, lexicon, vocabulary, guide=guide, **how)
        with stages.stage(f"Searching ({guide})") as step:
            result, findings = searcher.run(seeds, progress=counted(step))
        yield result, findings
        if result.stopped != "complete":
            raise KeyboardInterrupt


def _data(title: str, texts: int, exchanges: Plan, seen: Observations) -> TextData:
    return TextData(
        name=title,
        texts=texts,
        used=seen.texts,
        clusters=seen.clusters,
        without_word=exchanges.without_word,
        without_control=exchanges.without_control,
        duplicates=exchanges.duplicates,
    )


def _pairs(seen: Observations, exchanges: Plan, model: TextModel) -> list[TextPair]:
    """Take the exchanges with the widest gaps."""
    return [
        TextPair(
            row=exchanges.texts[seen.exchanges[row].unit].row,
            first=TextSide.of(seen.exchanges[row].first, seen.first[row], model.classes),
            second=TextSide.of(seen.exchanges[row].second, seen.second[row], model.classes),
            gap=min(float(seen.gaps[row]), 1.0),
        )
        for row in seen.striking(MAX_PAIRS)
    ]


def _found(findings: Sequence[Found], exchanges: Plan, model: TextModel) -> list[TextPair]:
    """Take one finding of each seed, the widest gap first."""
    pairs: dict[int, TextPair] = {}
    for finding in findings:
        if finding.seed in pairs or finding.at_seed:
            continue
        p = model.probabilities(finding.texts)
        label = int(p[0].argmax())
        other = next(number for number, row in enumerate(p) if int(row.argmax()) != label)
        pairs[finding.seed] = TextPair(
            row=exchanges.texts[finding.seed].row,
            first=TextSide.of(finding.sides[0], p[0], model.classes),
            second=TextSide.of(finding.sides[other], p[other], model.classes),
            gap=min(float(abs(p[0, label] - p[other, label])), 1.0),
        )
    return sorted(pairs.values(), key=lambda pair: -pair.gap)[:MAX_PAIRS]


def _table(audit: TextAudit) -> str:
    """Write every exchange as a row of CSV."""
    seen, classes = audit.observations, audit.model.classes
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    head = ["row", "control", "group", "other_group", "word", "other_word", "answer"]
    writer.writerow([*head, "other_answer", "gap", "text", "other_text"])
    for number, exchange in enumerate(seen.exchanges):
        first, second = exchange.sides
        answers = [classes[int(p.argmax())] for p in (seen.first[number], seen.second[number])]
        cells = [audit.plan.texts[exchange.unit].row, exchange.is_control, first.group]
        cells += [second.group, first.word, second.word, *answers, f"{seen.gaps[number]:.6f}"]
        writer.writerow([spreadsheet_cell(cell) for cell in (*cells, first.text, second.text)])
    return text.getvalue()
