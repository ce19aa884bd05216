"""`audit_text`: how a classifier of texts answers when the words of one group are exchanged for
those of another, beside the same exchange within a group.

    what                                    here (in `fairprobe.language`)
    words of the groups and the control     `lexicon`
    counterparts of a text                  `places`, `exchange`
    the excess and its interval             `excess`, `statistics/clusters.py`
    activation differences by layer         `inside`
    the search among context words          `search`
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from fairprobe.audits.text_document import text_document
from fairprobe.documents import TextDocument
from fairprobe.errors import DataError, SettingError
from fairprobe.escapes import spreadsheet_cell
from fairprobe.language.excess import Answers, Observations
from fairprobe.language.exchange import PER_GROUP, Plan, plan
from fairprobe.language.inside import Inside, look_inside
from fairprobe.language.lexicon import Lexicon, open_lexicon
from fairprobe.language.search import Guide, Searcher, SearchResult
from fairprobe.language.texts import Slots, Text, TextsSource, expand, open_texts, read_slots
from fairprobe.language.vocabulary import Vocabulary
from fairprobe.models.formats.text_network import Fluency, open_fluency
from fairprobe.models.text import TextModel, TextSource, load_text_model
from fairprobe.runs.stages import OnStage, OnStep, Stages, check_seed
from fairprobe.runs.store import AuditResult, Write
from fairprobe.storage import write_text

TEXTS = 2000  # texts that are asked about, unless the caller wants more
ASKING = "Exchanging words"
GUIDES: tuple[Guide, ...] = ("margin", "neurons", "random")


@dataclass(repr=False)
class TextAudit(AuditResult[TextDocument]):
    """What was found: the `plan` of exchanges, the `answers`, and what follows from them."""

    lexicon: Lexicon
    model: TextModel
    plan: Plan
    answers: Answers
    observations: Observations
    inside: Inside | None
    searches: list[SearchResult]
    content: TextDocument

    @property
    def document(self) -> TextDocument:
        """All of it as a typed document."""
        return self.content

    @property
    def stopped(self) -> str | None:
        return self.content.stopped

    def files(self) -> dict[str, Write]:
        """All exchanges one by one."""
        return {"exchanges.csv": lambda path: write_text(path, _table(self))}


@dataclass(frozen=True)
class TextSettings:
    """How texts are audited; see `audit_text`."""

    limit: int | None
    per_group: int
    seed: int

    def __post_init__(self) -> None:
        check_seed(self.seed)
        if self.limit is not None and self.limit < 2:
            raise SettingError(f"The number of texts must be at least 2; got {self.limit}.")
        if self.per_group < 1:
            raise SettingError(f"A group gives at least 1 word to a text; got {self.per_group}.")


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
    - `sensitive`: race, gender, religion, orientation, names, or a lexicon of your own (TOML).
    - `limit`: at most this many texts, drawn at random; `per_group`: how many words of each other
      group a text is given.
    - `search`: of a network, search from this many texts for more that are answered differently, by
      exchanging context words; with `bigrams`, only for words that stood beside each other in the
      texts. `fluency` also keeps it to texts that are as fluent as the first: a folder with a
      causal transformers model, or a function from texts to a mean log-probability of a token.

    Interrupted, it reports what the texts asked until then say.
    """
    settings = TextSettings(limit, per_group, seed)
    stages = Stages(progress)
    lexicon = open_lexicon(sensitive)
    rng = np.random.default_rng(seed)
    with stages.stage("Reading the texts"):
        found = open_texts(texts, column=column, cluster=cluster)
        every = expanded(found, lexicon, slots, rng)
        exchanges = plan(every, lexicon, rng=rng, per_group=per_group, limit=limit)
    _require_exchanges(exchanges, lexicon, len(found))
    opened = opened_model(model, classes, options, stages)
    if search and opened.network is None:
        raise SettingError(
            "The search looks into a network, and this model is a black box. Leave --search out, or"
            " give a torch module with its tokenizer or a transformers folder."
        )
    if fluency is not None and not search:
        raise SettingError("The judge of fluency serves the search. Add --search with a number.")
    judge = None if fluency is None else open_fluency(fluency)
    chosen: dict[str, Any] = {
        "texts at most": settings.limit,
        "words of each group": settings.per_group,
    }
    if search:
        chosen |= {"seen bigrams": bigrams, "fluency": _called(fluency)}
    about = About(name or title_of(texts), found, chosen, seed)
    how = SearchOptions(search, bigrams, judge)
    return audited(opened, lexicon, exchanges, about, stages, how)


def _called(fluency: Fluency | Path | str | None) -> str:
    """What the settings call a judge of fluency."""
    if fluency is None or isinstance(fluency, str | Path):
        return str(fluency or "none")
    return str(getattr(fluency, "__name__", "a function"))


@dataclass(frozen=True)
class SearchOptions:
    """From how many texts the search starts, and what keeps it to fluent ones."""

    seeds: int
    bigrams: bool
    fluency: Fluency | None


@dataclass(frozen=True)
class About:
    """What a document says about where its numbers come from."""

    title: str
    texts: Sequence[Text]
    settings: Mapping[str, Any]
    seed: int


def title_of(texts: TextsSource) -> str:
    """What the texts are called."""
    return Path(texts).name if isinstance(texts, str | Path) else "texts"


def expanded(
    texts: Sequence[Text],
    lexicon: Lexicon,
    slots: Slots | Path | str | None,
    rng: np.random.Generator,
) -> list[Text]:
    """The texts, with the slots of templates filled."""
    words = read_slots(slots) if isinstance(slots, str | Path) else slots or {}
    return expand(texts, lexicon, words, rng)


def opened_model(
    model: TextSource, classes: Sequence[str] | None, options: Mapping[str, Any], stages: Stages
) -> TextModel:
    """The model, asked for its classes if it names them only in its answers."""
    with stages.stage("Opening the model"):
        opened = load_text_model(model, classes=classes, **options)
        opened.classes  # noqa: B018
    return opened


def audited(
    model: TextModel,
    lexicon: Lexicon,
    exchanges: Plan,
    about: About,
    stages: Stages,
    how: SearchOptions | None = None,
) -> TextAudit:
    """Ask the model about all exchanges, look inside and search where that is possible."""
    answers = Answers(model)
    with stages.keep_partial(lambda: len(answers) > 0), stages.stage(ASKING) as step:
        answers.query(exchanges.queries(), _counted(step))
    observations = Observations(exchanges, answers, lexicon.words)
    inside: Inside | None = None
    searches: list[SearchResult] = []
    with stages.keep_partial(lambda: True):
        if model.network is not None and not stages.stopped:
            inside = _look_inside(model, exchanges, stages)
            if how is not None and how.seeds:
                for result in _searches(model, lexicon, exchanges, about, inside, stages, how):
                    searches.append(result)
                    if result.stopped != "complete":
                        raise KeyboardInterrupt
    if stages.stopped and not observations.exchanges:
        raise KeyboardInterrupt if not stages.failed else DataError(stages.stopped)
    content = text_document(
        name=about.title,
        texts=len(about.texts),
        lexicon=lexicon,
        model=model,
        plan=exchanges,
        observations=observations,
        inside=inside,
        searches=searches,
        calls=len(answers),
        seed=about.seed,
        settings=about.settings,
        stopped=stages.stopped,
        seconds=stages.seconds,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    return TextAudit(lexicon, model, exchanges, answers, observations, inside, searches, content)


def _look_inside(model: TextModel, exchanges: Plan, stages: Stages) -> Inside:
    assert model.network is not None
    pairs: dict[bool, list[tuple[str, str]]] = {True: [], False: []}
    for each in exchanges.exchanges:
        pairs[each.is_control].append((each.first.text, each.second.text))
    with stages.stage("Looking inside") as step:
        return look_inside(model.network, pairs[False], pairs[True], progress=_counted(step))


def _searches(
    model: TextModel,
    lexicon: Lexicon,
    exchanges: Plan,
    about: About,
    inside: Inside,
    stages: Stages,
    how: SearchOptions,
) -> Iterator[SearchResult]:
    """The search and its rivals, from the same seeds, with the same loop and counting."""
    assert model.network is not None
    with stages.stage("Reading the vocabulary"):
        vocabulary = Vocabulary(model.network, [each.text for each in about.texts], lexicon)
    for guide in GUIDES:
        with stages.stage(f"Searching ({guide})") as step:
            searcher = Searcher(
                model,
                lexicon,
                vocabulary,
                guide=guide,
                filtered=how.bigrams,
                rng=np.random.default_rng(about.seed),
                neurons=inside.biased_neurons(),
                fluency=how.fluency,
            )
            yield searcher.run(exchanges.texts[: how.seeds], progress=_counted(step))


def _require_exchanges(exchanges: Plan, lexicon: Lexicon, texts: int) -> None:
    if exchanges.exchanges:
        return
    if exchanges.without_control:
        raise DataError(
            f"{exchanges.without_control:,} texts hold a word of the lexicon '{lexicon.name}', but"
            " for none is there a control: give the lexicon neutral words ([control]) or several"
            " words for each group."
        )
    some = [form for _, _, term in lexicon.terms() for form in term.sought][:8]
    raise DataError(
        f"None of the {texts:,} texts holds a word of the lexicon '{lexicon.name}' (such as"
        f" {', '.join(some)}). Give other texts, templates with slots, or a lexicon of your own."
    )


def _counted(step: OnStep) -> Any:
    return lambda done, total: step(done, total, f"{done:,} of {total:,} texts")


def _table(audit: TextAudit) -> str:
    """Every exchange as a row of CSV."""
    seen, classes = audit.observations, audit.model.classes
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    head = ["row", "control", "group", "other_group", "word", "other_word", "answer"]
    writer.writerow([*head, "other_answer", "gap", "text", "other_text"])
    for number, each in enumerate(seen.exchanges):
        first, second = each.first, each.second
        answers = [classes[int(p.argmax())] for p in (seen.first[number], seen.second[number])]
        row: list[Any] = [audit.plan.texts[each.unit].row, each.is_control, first.group]
        row += [second.group, first.word, second.word, *answers, f"{seen.gaps[number]:.6f}"]
        writer.writerow([spreadsheet_cell(cell) for cell in (*row, first.text, second.text)])
    return text.getvalue()
