"""The report of an audit of texts: the excess compared with its control, groups, pairs of texts
with the exchanged words marked, and the words that the result rests on.
"""

from __future__ import annotations

from collections.abc import Iterator

from fairprobe.language.excess import Excess
from fairprobe.language.inside import TextInterpretation
from fairprobe.language.text import FORMAT, TextPair, TextRun, TextSide
from fairprobe.measures import Measure, Reading, reading_of
from fairprobe.report import (
    Bar,
    Bars,
    Block,
    Line,
    Lines,
    Marked,
    Notes,
    Number,
    Pair,
    Plot,
    Section,
    Side,
    Table,
    Terms,
    Text,
    Verdict,
)
from fairprobe.report.formats import count, date, decimal, listed, percent, plural, quoted
from fairprobe.report.run import method, reproduction
from fairprobe.runs.kinds import Kind

MAX_BARS = 10  # pairs of groups that are drawn
MAX_NAMED = 3  # words in a note
MAX_CHARACTERS = 1_500  # of a text
AROUND = 300  # characters around the exchanged words of a longer text
STEP = 0.005  # between two thresholds of a curve


# -- measures --------------------------------------------------------------------------------------

MISSING = "no text with a word of the lexicon was answered. Give texts that contain such words"


def _reading(run: TextRun, what: str, excess: Excess) -> list[Reading]:
    what = f"{what} of {run.lexicon.title}, beyond the control"
    more = {"of": "texts or templates", "cut_short": run.stopped or ""}
    return [reading_of(what, excess, missing=MISSING, **more)]


TEXT_FLIPS = Measure(
    name="text_flips",
    title="Excess of changed answers (texts)",
    about=(
        "How much more often the answer to a text changes when the words of one group are exchanged"
        " for those of another than in the control, where the group stays the same."
    ),
    unit="share",
    direction="at most",
    read=lambda run: _reading(run, "answers that change with an exchange", run.flips),
    of="text",
)
TEXT_GAPS = Measure(
    name="text_gaps",
    title="Excess change of probabilities (texts)",
    about=(
        "How much more the probability of the answer changes when the words of one group are"
        " exchanged for those of another than in the control."
    ),
    unit="share",
    direction="at most",
    read=lambda run: _reading(run, "change of probabilities with an exchange", run.gaps),
    of="text",
)


# -- the report ------------------------------------------------------------------------------------


def report(run: TextRun) -> Section:
    """Report an audit of texts."""
    return Section(
        f"{run.dataset}, by {run.lexicon.title}",
        [
            Terms(_facts(run)),
            Section("Result", _summary(run), "summary"),
            Section("Pairs of texts", _pairs(run), anchor="pairs"),
            Section("Groups", [_pair_table(run), _group_table(run)]),
            Section("Which words it rests on", [Text(RESTS), _word_table(run)]),
            Section("Inside the network", _inside(run)),
            Section("What the search found", _search(run)),
            method(run, run.settings, [Terms(_terms(run)), *map(Text, _about(run))]),
            reproduction(run),
        ],
        eyebrow="Fairness audit of a text classifier",
    )


def _facts(run: TextRun) -> dict[str, str]:
    data, model = run.data, run.model
    return {
        "Date": date(run.created),
        "Texts": f"{data.name}, {plural(data.used, 'text')} used of {count(data.texts)}",
        "Model": f"{model.network} ({model.kind}): {listed(model.classes)}",
        "Lexicon": f"{run.lexicon.name}: {listed(run.lexicon.groups)}",
        "Seed": str(run.seed),
    }


def _summary(run: TextRun) -> list[Block]:
    bars = [
        Bar(" ↔ ".join(pair.groups), pair.flips, is_marked=pair.flips.is_shown)
        for pair in run.by_pair[:MAX_BARS]
    ]
    hidden = len(run.by_pair) - MAX_BARS
    return [
        _verdict(run),
        Text(run.stopped or "", "warning"),
        Number(run.flips, TEXT_FLIPS, unit="points", detail=_rates(run.flips)),
        Number(run.gaps, TEXT_GAPS, unit="points", detail=_rates(run.gaps)),
        Plot(
            "Excess of changed answers, by the two groups that were exchanged",
            Bars(bars, unit="points"),
            f"The other {plural(hidden, 'pair')} are in the table." if hidden > 0 else "",
        ),
        Notes(list(_notes(run))),
    ]


def _rates(excess: Excess) -> str:
    return f"another group {percent(excess.cross)}, control {percent(excess.control)}"


def _verdict(run: TextRun) -> Verdict:
    """State the rate, the control, and the excess with its interval."""
    flips, title = run.flips, run.lexicon.title
    if not flips.clusters:
        return Verdict("No text was judged", "No text with a word of the lexicon was answered.")
    is_neutral = run.lexicon.control == "neutral words"
    words = "neutral words in the same places" if is_neutral else "words of the same group"
    rates = (
        f"Exchanging words of {title} changes the answer in {percent(flips.cross)} of cases;"
        f" exchanging {words} does in {percent(flips.control)}."
    )
    excess = Number(flips, unit="points")
    if flips.is_shown:
        headline = f"Answers change with {title}, more than with the control"
        return Verdict(headline, f"{rates} The excess is {excess}.", "found")
    why = "which contains 0" if flips.high >= 0 else "all of it below 0"
    text = f"{rates} No excess is shown: {excess}, {why}. This is evidence, not a certificate."
    if run.gaps.is_shown:
        headline = f"No answer is shown to change with {title}, but probabilities do"
        return Verdict(headline, text, "found")
    headline = f"No excess: answers change with {title} no more than with the control"
    return Verdict(headline, text, "none")


def _notes(run: TextRun) -> Iterator[str]:
    data, flips = run.data, run.flips
    about = f"{plural(data.used, 'text')} with a word of the lexicon"
    if data.clusters != data.used:
        about += f" from {plural(data.clusters, 'template or cluster', 'templates or clusters')}"
    covered = "words like these" if run.lexicon.words == "sample" else "not for other words"
    yield (
        f"The result is about {about}, of {count(data.texts)} given. It holds for other texts like"
        f" them and {covered}, within the interval."
    )
    if run.rests_on:
        first = next(word for word in run.words if word.word == run.rests_on[0])
        yield (
            f"It rests on {quoted(run.rests_on, most=MAX_NAMED)}: without “{first.word}” alone, the"
            f" excess is {Number(first, unit='points')}."
        )
    elif flips.is_shown and run.words:
        weakest = run.words[0]
        yield (
            f"It does not rest on one word: without “{weakest.word}”, the most important one, the"
            f" excess is still {Number(weakest, unit='points')}."
        )
    yield from run.model.notes


# -- groups and words ------------------------------------------------------------------------------

RESTS = (
    "The excess without all exchanges of a word. If it vanishes without one word, the model reacts"
    " to that word; whether it reacts to the group is open."
)


def _pair_table(run: TextRun) -> Table:
    rows = [
        (
            " ↔ ".join(pair.groups),
            count(pair.flips.texts),
            percent(pair.flips.cross),
            percent(pair.flips.control),
            Number(pair.flips, unit="points"),
        )
        for pair in run.by_pair
    ]
    caption = "Every two groups; small: the interval, not adjusted for the number of pairs"
    return Table(("groups", "texts", "changed", "control", "excess"), rows, caption)


def _group_table(run: TextRun) -> Table:
    rows = [(group.name, count(group.texts), *map(percent, group.answers)) for group in run.groups]
    caption = "Answers to the same texts with the words of each group"
    return Table(("words of", "texts", *run.model.classes), rows, caption)


def _word_table(run: TextRun) -> Table:
    rows = [
        (word.word, word.group, count(word.texts), Number(word, unit="points"))
        for word in run.words
    ]
    head = ("without the word", "of", "texts with it", "excess that remains")
    return Table(head, rows, "All words", words=(0, 1), folded=True)


# -- inside and search -----------------------------------------------------------------------------


def _inside(run: TextRun) -> list[Block]:
    inside = run.interpretation
    if inside is None:
        return []
    how = (
        f"{plural(inside.pairs, 'pair')} of texts with words of two groups, and as many of the"
        " control, were given to the network, and the activations of every neuron were compared"
        " (NeuronFair’s Algorithm 1; vectors of tokens are averaged over the text). AUC: the area"
        " under the curve of neurons that react more than a threshold. Only what exceeds the"
        " control is about the groups. It is a diagnosis, not a proof."
    )
    rows = [
        (
            layer.name + (" ▲" if layer.name == inside.most_biased else ""),
            count(layer.neurons),
            decimal(layer.auc),
            decimal(layer.auc_control),
            Number(layer.ratio, unit="ratio"),
            percent(layer.top_share),
            count(len(layer.biased)),
        )
        for layer in inside.layers
    ]
    head = ("layer", "neurons", "AUC", "control", "ratio to control", "in a fifth", "biased")
    caption = "▲: the layer that reacts most; “in a fifth”: the part of the difference that a fifth"
    return [Text(how), _curves(inside), Table(head, rows, f"{caption} of the neurons hold")]


def _curves(inside: TextInterpretation) -> Plot:
    """Draw the AS curve of the layer that reacts most, its control, and the other layers."""
    top = inside.most_biased_layer
    end = max(sum(share > 0 for share in layer.curve) for layer in inside.layers) + 1
    x = [STEP * number for number in range(end)]
    lines = [
        Line("another group", x, top.curve[:end], is_marked=True),
        Line("control", x, top.curve_control[:end], is_dashed=True),
        *(Line("", x, layer.curve[:end]) for layer in inside.layers if layer is not top),
    ]
    return Plot(
        f"How strongly the neurons of “{top.name}” react",
        Lines(lines if top.auc else [], "threshold", "neurons above it"),
        "The area under a curve is the layer’s AUC. The area between both curves is about the"
        " groups; the rest is what any exchange of words does.",
    )


def _search(run: TextRun) -> list[Block]:
    if not run.searches:
        return []
    seen = ", where it had been next to both neighbors before" if run.searches[0].filtered else ""
    how = (
        "Context words were replaced by neighbors in the network’s embedding space"
        f"{seen}, until the answer depended on the group. All searches share seeds, loop and"
        " counting. Findings accumulate on few seeds, so compare the seeds hit. The model confirmed"
        " every finding."
    )
    rows = [
        (
            search.title + (" (control)" if search.is_control else ""),
            count(search.calls),
            count(search.findings),
            f"{search.per_1000:.1f}",
            f"{count(search.seeds_hit)} of {count(search.seeds)}",
            count(search.refuted),
        )
        for search in run.searches
    ]
    head = ("search", "calls", "findings", "for 1,000 calls", "seeds hit", "refuted")
    pairs = [_pair(number, pair) for number, pair in enumerate(run.found, start=1)]
    return [Text(how), Table(head, rows), Section("One finding of each seed", pairs)]


# -- pairs of texts --------------------------------------------------------------------------------


def _pairs(run: TextRun) -> list[Block]:
    if not run.pairs:
        return []
    how = (
        "Two texts that differ only in the marked words and are answered differently: those with"
        " the widest gaps, one for each text, not a sample. Exchanges of the control change answers"
        " too; the excess says how many of such pairs are due to the group."
    )
    return [Text(how), *(_pair(number, pair) for number, pair in enumerate(run.pairs, start=1))]


def _pair(number: int, pair: TextPair) -> Pair:
    title = f"Pair {number}: {pair.first.group} and {pair.second.group}"
    change = f"the probability of “{pair.first.answer}” changes by {percent(pair.gap)}"
    notes = [f"Row {pair.row}: {change}."]
    return Pair(title, _side(pair.first), _side(pair.second), {}, notes=notes)


def _side(side: TextSide) -> Side:
    detail = f"{percent(side.probability)} probable"
    return Side(side.group, {}, side.answer, detail, passage=_passage(side))


def _passage(side: TextSide) -> Marked:
    """Mark the exchanged words; cut a long text around them."""
    first, last = 0, len(side.text)
    if last > MAX_CHARACTERS and side.spans:
        first = max(side.spans[0][0] - AROUND, 0)
        last = min(max(side.spans[-1][1] + AROUND, first + AROUND), first + MAX_CHARACTERS)
    before, after = "… " if first else "", " …" if last < len(side.text) else ""
    shift = len(before) - first
    spans = [
        (start + shift, end + shift) for start, end in side.spans if first <= start <= end <= last
    ]
    return Marked(f"{before}{side.text[first:last]}{after}", spans)


# -- the method ------------------------------------------------------------------------------------


def _terms(run: TextRun) -> dict[str, str]:
    control = (
        "Two different neutral words of the same kind, in the same places"
        if run.lexicon.control == "neutral words"
        else "Another word of the same group, in the same places"
    )
    words = ", and by word (jackknife)" if run.lexicon.words == "sample" else ""
    return {
        "Exchange": (
            "The words of a text’s group become those of another group, and vice versa where a text"
            " has both. Case, plurals, possessives, a and an, and the roles of pronouns are kept."
        ),
        "Control": (
            f"{control}. Many a text near the decision boundary changes its answer with any word."
        ),
        "Excess": (
            "A text’s share of changed answers minus that of its control, each other group weighing"
            " the same; then the mean over texts, or over templates."
        ),
        "Interval": (
            f"Clustered by text or template{words}. Two clusters are added, half +1, half −1 and"
            " one 0, so that it also holds for few texts and rare changes."
        ),
    }


def _about(run: TextRun) -> list[str]:
    data = run.data
    return [
        run.lexicon.about,
        f"Of {count(data.texts)} texts, {count(data.used)} were used; {count(data.without_word)} of"
        f" those examined contain no word of the lexicon, {count(data.duplicates)} are repeats, and"
        f" {count(data.without_control)} have no control.",
    ]


KIND = Kind(name="text", title="texts", run=TextRun, report=report, format=FORMAT, is_judged=True)
