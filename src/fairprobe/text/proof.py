"""The proof of a repair of a text network: it is trained on with several seeds, each beside a
control with the same seed and budget, and judged by the rule of all repairs (`repairs/verdict.py`).

    people held out    texts held out; those of one template, or equal but for the exchanged words,
                       stay together, so that no counterpart of a text held out is learned
    discriminated      the excess of changed answers over the control of the exchange, by cluster
    accuracy           of all texts held out, its noise clustered likewise. Without true labels it
                       is the agreement with the network before the repair
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from fairprobe.arrays import Ints
from fairprobe.errors import DataError, SettingError
from fairprobe.judgement import TIE
from fairprobe.models.text import TextModel
from fairprobe.repairs import comparisons
from fairprobe.repairs.comparisons import Trial
from fairprobe.repairs.series import delivered, seed_of
from fairprobe.repairs.verdict import (
    FEWEST,
    ROUNDING,
    Decision,
    Limits,
    decide,
    delivered_objections,
    looks,
)
from fairprobe.statistics.rates import Rate
from fairprobe.text.excess import Answers, Excess, Observations, sides
from fairprobe.text.exchange import Plan, plan
from fairprobe.text.lessons import Lessons, TextRepair, trained_on
from fairprobe.text.lexicon import Lexicon
from fairprobe.text.places import Finder
from fairprobe.text.texts import Text

OnStage: TypeAlias = Callable[[str, int, int, str], None]
HELD_OUT = "texts held out (beyond the control)"
LEARNED, VALIDATED = 0.6, 0.15  # shares of the clusters; the others are held out
MOST = 2000  # texts that are held out, and that are exchanged


@dataclass(frozen=True)
class State:
    """One network on the texts held out."""

    accuracy: Rate
    flips: Excess
    gaps: Excess


@dataclass(frozen=True)
class TextProof:
    """What a repair did. `before`, `control` and `after` are single networks: the given one, that
    trained on with the delivered one's seed but without the repair, and the delivered one. `trials`
    are all seeds. `learned` and `held_out` count texts; `plan` are the exchanges of the latter.
    """

    repair: TextRepair
    given: TextModel
    model: TextModel
    plan: Plan
    before: State
    control: State
    after: State
    trials: tuple[Trial, ...]
    truth: Ints
    delivered: int
    decision: Decision
    limits: Limits
    forced: bool
    rounds: int
    learned: int
    held_out: int
    own_labels: bool

    @property
    def accepted(self) -> bool:
        return self.forced or self.decision.outcome == "accepted"


class Panel:
    """Texts that every network answers, as they are and exchanged."""

    def __init__(
        self,
        texts: Sequence[Text],
        labels: Ints,
        clusters: Ints,
        lexicon: Lexicon,
        rng: np.random.Generator,
    ) -> None:
        some = rng.permutation(len(texts))[:MOST]
        together = [
            replace(each, cluster=str(cluster))
            for each, cluster in zip(texts, clusters, strict=True)
        ]
        self.texts = [texts[number].text for number in some]
        self.labels, self.clusters = labels[some], clusters[some]
        self.plan = plan(together, lexicon, rng=rng, limit=MOST)
        self._words = lexicon.words

    def seen(self, model: TextModel) -> tuple[Observations, comparisons.Answers]:
        """The exchanges as they are answered, and the answers for the verdict."""
        answers = Answers(model)
        answers.ask([*self.texts, *sides(self.plan)])
        seen = Observations(self.plan, answers, self._words)
        p = answers.probabilities(self.texts)
        top = np.sort(p, axis=1)
        labels = p.argmax(axis=1)
        return seen, comparisons.Answers(
            labels=labels,
            affected=seen.by_cluster(seen.flips)[2],
            ties=float((top[:, -1] - top[:, -2] <= TIE).mean()),
            is_constant=len(np.unique(labels)) == 1,
        )

    def state(self, seen: Observations, answers: comparisons.Answers) -> State:
        """The numbers of the report."""
        right = int((answers.labels == self.labels).sum())
        return State(Rate(right, len(self.labels)), seen.excess(seen.flips), seen.excess(seen.gaps))


def prove_text(
    model: TextModel,
    texts: Sequence[Text],
    lexicon: Lexicon,
    how: TextRepair,
    *,
    seed: int = 0,
    limits: Limits | None = None,
    max_seeds: int = 12,
    force: bool = False,
    kept: Path | None = None,
    progress: OnStage | None = None,
) -> TextProof:
    """Repair a text network and measure what that did. The labels of the texts are names of the
    model's classes or their numbers; where no text has one, the network learns its own answers.
    Networks in the folder `kept` are not trained again.
    """
    limits = limits or Limits()
    _check(model, limits, max_seeds)
    report = progress or (lambda *_: None)
    texts = list({each.text: each for each in texts}.values())
    labels, own_labels = labels_of(model, texts)
    clusters = clusters_of(texts, lexicon)
    rng = np.random.default_rng(seed)
    learned, validated, held_out = _split(clusters, rng)
    lessons = Lessons([texts[n] for n in learned], labels[learned], lexicon)
    panels = [
        Panel([texts[n] for n in part], labels[part], clusters[part], lexicon, rng)
        for part in (held_out, validated)
    ]
    if not (len(lessons.with_word) and panels[0].plan.exchanges and panels[1].plan.exchanges):
        raise DataError(
            f"Too few of the {len(texts):,} different texts hold a word of the lexicon"
            f" '{lexicon.name}': some must be learned and others held out. Give more texts."
        )
    given_seen, given = panels[0].seen(model)
    series = _Series(model, lessons, how, panels[0], seed, report, kept)
    names = [lexicon.title]
    decision, look = series.run(names, limits, max_seeds)
    chosen = _delivered(model, series.repaired, panels[1], limits)
    if decision.outcome != "refused":
        reasons = delivered_objections(
            given,
            series.trials[chosen].repaired,
            panels[0].labels,
            names,
            limits,
            look=look,
            held_out=HELD_OUT,
            clusters=panels[0].clusters,
        )
        decision = replace(decision, reasons=reasons)
    before = panels[0].state(given_seen, given)
    if nothing := nothing_to_repair(before.flips, lexicon.title):
        decision = replace(decision, reasons=(nothing,))
    control, after = series.states[chosen]
    return TextProof(
        repair=how,
        given=model,
        model=series.repaired[chosen],
        plan=panels[0].plan,
        before=before,
        control=control,
        after=after,
        trials=tuple(series.trials),
        truth=panels[0].labels,
        delivered=series.trials[chosen].seed,
        decision=decision,
        limits=limits,
        forced=force,
        rounds=how.rounds(lessons.size),
        learned=len(learned),
        held_out=len(panels[0].texts),
        own_labels=own_labels,
    )


def nothing_to_repair(flips: Excess, title: str) -> str:
    """Why a repair has nothing to do: the exchange of groups changes fewer answers than the
    control. Empty if that is not shown.
    """
    if flips.excess.high > 0 or flips.excess.estimate == 0:
        return ""
    return (
        f"There is nobody to help: with the given network, an exchange of {title} changes"
        f" {100 * flips.cross:.1f} % of the answers, and the control, neutral words in the same"
        f" places, {100 * flips.control:.1f} %."
    )


class _Series:
    """Trains pairs of networks until the decision is clear or the seeds end. Of each seed it keeps
    the repaired network, and the numbers of both.
    """

    def __init__(
        self,
        model: TextModel,
        lessons: Lessons,
        how: TextRepair,
        panel: Panel,
        seed: int,
        report: OnStage,
        kept: Path | None,
    ) -> None:
        self._model, self._lessons, self._how, self._panel = model, lessons, how, panel
        self._seed, self._report, self._kept = seed, report, kept
        self.repaired: list[TextModel] = []
        self.states: list[tuple[State, State]] = []
        self.trials: list[Trial] = []

    def run(self, names: Sequence[str], limits: Limits, max_seeds: int) -> tuple[Decision, int]:
        """The decision, and its look."""
        for look, seeds in enumerate(looks(max_seeds), start=1):
            while len(self.trials) < seeds:
                self._train(len(self.trials), seeds)
            decision = decide(
                self.trials,
                self._panel.labels,
                names,
                limits,
                look=look,
                held_out=HELD_OUT,
                clusters=self._panel.clusters,
            )
            if decision.outcome != "undecided":
                break
        return decision, look

    def _train(self, number: int, of: int) -> None:
        seed, states, answers = seed_of(self._seed, number), [], []
        for is_control, what in ((True, "Training again"), (False, "Repairing")):
            stage = f"{what}, seed {number + 1} of {of}"

            def step(done: int, total: int, stage: str = stage) -> None:
                self._report(stage, done, total, f"batch {done:,} of {total:,}")

            name = f"{number:02d}-{'control' if is_control else 'repaired'}.safetensors"
            network = trained_on(
                self._model,
                self._lessons,
                self._how,
                seed=seed,
                is_control=is_control,
                progress=step,
                kept=None if self._kept is None else self._kept / name,
            )
            seen, said = self._panel.seen(network)
            states.append(self._panel.state(seen, said))
            answers.append(said)
        self.repaired.append(network)
        self.states.append((states[0], states[1]))
        self.trials.append(Trial(seed, answers[0], answers[1]))


def _delivered(
    given: TextModel, repaired: Sequence[TextModel], panel: Panel, limits: Limits
) -> int:
    """Which network is delivered, by validation texts only."""
    least = _accuracy(panel, panel.seen(given)[1]) - limits.max_accuracy_drop
    found = []
    for number, each in enumerate(repaired):
        answers = panel.seen(each)[1]
        accuracy = _accuracy(panel, answers)
        is_able = accuracy >= least - ROUNDING and not answers.is_constant
        found.append((not is_able, float(answers.affected.mean()), -accuracy, number))
    return delivered(found)


def _accuracy(panel: Panel, answers: comparisons.Answers) -> float:
    return float((answers.labels == panel.labels).mean())


def labels_of(model: TextModel, texts: Sequence[Text]) -> tuple[Ints, bool]:
    """The number of each text's class, and whether these are the network's own answers because no
    text has a label.
    """
    if not any(each.label for each in texts):
        own = model.probabilities([each.text for each in texts]).argmax(axis=1)
        return own.astype(np.int64), True
    names = {name: number for number, name in enumerate(model.classes)}
    numbers = {str(number): number for number in names.values()}
    found = []
    for each in texts:
        label = names.get(each.label, numbers.get(each.label))
        if label is None:
            raise DataError(
                f"Row {each.row} has the label '{each.label}', which is no class of the model"
                f" ({', '.join(model.classes)}) and no number of one. Name the classes in the"
                " model's order (--classes), or correct the label."
            )
        found.append(label)
    return np.array(found, dtype=np.int64), False


def clusters_of(texts: Sequence[Text], lexicon: Lexicon) -> Ints:
    """The number of what each text belongs to: its template, or the text without the words."""
    finder, found = Finder(lexicon), []
    numbers: dict[str, int] = {}
    for each in texts:
        key, last = f"\0{each.cluster}", 0
        if not each.cluster:
            key = ""
            for place in finder.places(each.text):
                key += each.text[last : place.start] + "\0"
                last = place.end
            key += each.text[last:]
        found.append(numbers.setdefault(key, len(numbers)))
    return np.array(found, dtype=np.int64)


def _split(clusters: Ints, rng: np.random.Generator) -> tuple[Ints, Ints, Ints]:
    """The texts to learn, to choose by and to judge by; a cluster stays together."""
    count = int(clusters.max()) + 1
    order = rng.permutation(count)
    part: Ints = np.full(count, 2)
    part[order[: round((LEARNED + VALIDATED) * count)]] = 1
    part[order[: round(LEARNED * count)]] = 0
    return tuple(np.flatnonzero(part[clusters] == each) for each in range(3))  # type: ignore[return-value]


def _check(model: TextModel, limits: Limits, max_seeds: int) -> None:
    if model.network is None:
        raise SettingError(
            "A repair changes the weights of a network, and this model is a black box. Give a torch"
            " module with its tokenizer or a transformers folder."
        )
    if not 0 <= limits.max_accuracy_drop <= 1:
        raise SettingError(
            f"max_accuracy_drop must be a share from 0 to 1; got {limits.max_accuracy_drop}."
        )
    if max_seeds < FEWEST:
        raise SettingError(
            f"A repair is judged by at least {FEWEST} seeds, because one says nothing about chance;"
            f" got max_seeds={max_seeds}."
        )
