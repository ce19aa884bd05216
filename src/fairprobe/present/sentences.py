"""What is said about an audit of a table, in words: which case this is, what follows and what not.

Numbers of the document are compared here, never computed. The tone: what was found and what was
not; never that a network is fair. Notes, and sentences about groups and about a repair, are in
`notes`, `group_sentences` and `repair_sentences`.
"""

from __future__ import annotations

from typing import Literal

from fairprobe.documents import PairDocument, Resemblance, Search, TableDocument
from fairprobe.measures import FRAGILE
from fairprobe.present import chat_sentences, counterparts
from fairprobe.report.formats import (
    count,
    decimal,
    interval,
    level,
    listed,
    percent,
    plain,
    plural,
)

Status = Literal["found", "none", "constant"]

BLACK_BOX = (
    "The model is a black box: it can be asked, not looked into. What it answers to whom was tested"
    " as for any other model; which of its parts tell people apart, and whether silencing them"
    " would help, cannot be seen from outside."
)
UNKNOWN_SEARCH = (
    "It is a method of the user’s own, which does not describe itself. It was given {seeds} to"
    " start from (seeds)."
)
SCORES = (  # of Themis
    *("causal", "causal_low", "causal_high", "group", "group_low", "group_high"),
    *("confidence", "error", "draws"),
)


# -- what was audited, and with what result --------------------------------------------------------


def noun(document: TableDocument) -> str:
    """What the audited thing is called: only a network can be looked into."""
    return "model" if document.interpretation is None else "network"


def measured(document: TableDocument) -> str:
    """Of people: whether they were held out, where that is known."""
    return "held out" if document.model.trained_here else "measured"


def sensitive(document: TableDocument) -> str:
    """Gender, or gender and age."""
    return listed(document.sensitive)


def title(document: TableDocument) -> str:
    """Which data, and by what."""
    return f"{document.data.title}, by {sensitive(document)}"


def outside(document: TableDocument) -> list[str]:
    """How many rows have which attribute outside the bounds, the most first."""
    by_count = sorted(document.data.outside.by_attribute.items(), key=lambda item: -item[1])
    return [f"{name} {count(rows)}" for name, rows in by_count]


def status(document: TableDocument) -> Status:
    """The three kinds of result."""
    if document.model.constant:
        return "constant"
    hits = [document.generation.idis, document.dm_rs.hits, document.people.hits]
    if document.plausible is not None:
        hits.append(document.plausible.affected.hits)
    return "found" if any(hits) else "none"


def is_blind(document: TableDocument) -> bool:
    """Whether the model is given none of the sensitive attributes and of what changes along."""
    return {*document.sensitive, *document.coupled} <= set(document.model.blind_to)


def is_no_better(document: TableDocument) -> bool:
    """Whether the answers are no better than always giving the commonest one."""
    model = document.model
    return model.accuracy <= model.majority and not model.constant and model.accuracy_rows > 0


def is_fragile(document: TableDocument) -> bool:
    """Whether more than a few answers change within rounding, which is never counted."""
    ties = document.people.ties
    return ties.estimate > FRAGILE and not document.model.constant


def headline(document: TableDocument) -> str:
    """The status in a few words, above the verdict."""
    name = sensitive(document)
    if is_no_better(document):
        return f"The {noun(document)} is no better than the commonest answer"
    if is_fragile(document):
        on = "rounding" if document.chat is None else "answers that vary"
        return f"Decisions of the {noun(document)} hang on {on}"
    if status(document) == "none" and is_blind(document):
        return f"The {noun(document)} is not given {name}"
    return {
        "found": f"Decisions that depend on {name} were found",
        "none": f"No decision that depends on {name} was found",
        "constant": f"The {noun(document)} gives everybody the same answer",
    }[status(document)]


def verdict(document: TableDocument) -> str:
    """The result in a sentence or two, with its interval, after what to know before it is read."""
    parts = [*_warnings(document), _verdict(document), chat_sentences.verdict(document)]
    return " ".join(filter(None, parts))


def _warnings(document: TableDocument) -> list[str]:
    model, ties, written = document.model, document.people.ties, []
    if is_no_better(document):
        written.append(
            f"Read this first: the {noun(document)} is right for {percent(model.accuracy)}, no"
            f" better than always giving the commonest answer ({percent(model.majority)}). Whether"
            " such answers are given fairly means little."
        )
    why = "the leading answers are equal up to rounding"
    if document.chat is not None:
        why = "the model's answers to the same question differ, or it gives none"
    if is_fragile(document):
        written.append(
            f"Read this first: for {percent(ties.estimate)} of the people in the data the answer"
            f" changes with {sensitive(document)}, but {why}. Such ties are never counted as"
            " discrimination, so what was not found here is no evidence of fairness."
        )
    return written


def _verdict(document: TableDocument) -> str:
    name, common, people = sensitive(document), document.dm_rs, document.people
    if status(document) == "constant":
        return (
            f"The {noun(document)} gives everybody the same answer, so changing {name} changes"
            " nothing. That is not fairness: it decides nothing at all."
        )
    if status(document) == "none" and is_blind(document):
        return (
            f"The {noun(document)} is not given {name}, so changing {name} alone cannot change its"
            " answer. That no case was found is so by construction, and no proof of fairness. What"
            f" can be tested is how groups fare: see the selection rates by {name}. Other"
            f" attributes may stand in for {name}; audit the {noun(document)} by those as well."
        )
    wider, whom = (
        (common, "all possible people")
        if document.plausible is None
        else (document.plausible.affected, "plausible people")
    )
    if status(document) == "none":
        made = "" if wider is common else f"{count(wider.samples)} plausible people, "
        bare = f" (of whom only {name} changed)" if document.coupled else ""
        return plain(
            f"No discrimination by {name} was found: no decision changed when"
            f" {counterparts.only(document)} changed, for {count(people.samples)} people in the"
            f" data, {made}{count(common.samples)} possible people{bare} and"
            f" {count(document.generation.tried)} instances searched. With"
            f" {level(wider.confidence)} confidence at most {percent(wider.high)} of {whom} are"
            f" affected.{_causal(document)}"
        )
    changed = f"nothing but {name}"
    if document.coupled:
        changed = counterparts.changing(document)
        if wider is common:
            whom += f", changing nothing but {name}"
    return plain(
        f"Changing {changed} changes the {noun(document)}'s decision for"
        f" {percent(people.estimate)} of the {count(people.samples)} people in the data and for"
        f" {percent(wider.estimate)} of {whom} ({level(wider.confidence)} interval"
        f" {interval(wider)}). The search found"
        f" {plural(document.generation.idis, 'different case')} among {document.generation.people}"
        f" people.{_causal(document)}"
    )


def _causal(document: TableDocument) -> str:
    """Themis measures the share of possible people anew."""
    if not (measured := scores(document)):
        return ""
    within = {"low": measured["causal_low"], "high": measured["causal_high"]}
    return (
        f" Themis' own draws put the share of possible people at {percent(measured['causal'])}"
        f" ({level(measured['confidence'])} interval {interval(within)})."
    )


# -- people in the data ----------------------------------------------------------------------------


def affected(document: TableDocument) -> str:
    """How many people in the data are affected."""
    people = document.people
    if people.hits == 0:
        return (
            f"None of the {count(people.samples)} people in the data would get another decision if"
            f" {counterparts.only(document)} were different. The {level(people.confidence)}"
            f" interval reaches up to {percent(people.high)}."
        )
    return (
        f"{count(people.hits)} of the {count(people.samples)} people in the data"
        f" ({percent(people.estimate)}) would get another decision if"
        f" {counterparts.only(document)} were different. The {level(people.confidence)} interval"
        f" is {interval(people)}."
    )


def plausible(document: TableDocument) -> str:
    """How many plausible people are affected, and who they are; or why there are none."""
    if (measured := document.plausible) is None:
        return f"There are no plausible people in this audit. {document.no_plausible}".strip()
    rate = measured.affected
    return (
        f"{count(rate.hits)} of {count(rate.samples)} plausible people ({percent(rate.estimate)},"
        f" {level(rate.confidence)} interval {interval(rate)}) are affected. They are new people,"
        f" made from {count(measured.records)} people in the data. Nobody is a copy of a record,"
        f" and all are more ordinary than the oddest {percent(measured.limit)} of real people."
        f" {resemblance(measured.resemblance, 'held-out people')}"
    )


def resemblance(alike: Resemblance, whom: str) -> str:
    """How well made-up people resemble real ones."""
    if alike.distance is None or alike.distance_of_held_out is None:
        return "There are no held-out people to compare them with."
    near = (
        f"The nearest record is {decimal(alike.distance)} attributes away in the median"
        f" ({decimal(alike.distance_of_held_out)} for held-out people)."
    )
    if alike.auc is None:
        return (
            f"There are only {count(alike.compared)} {whom} to compare them with, too few to say"
            f" how like them they are. {near}"
        )
    return (
        f"Gradient-boosted trees tell them from {whom} with an AUC of {decimal(alike.auc)} (0.5 is"
        f" not at all, 1 always; {count(alike.compared)} of each). {near}"
    )


def favourable(document: TableDocument) -> str | None:
    """The favourable answer in words, if the data has one: income: >50K."""
    data = document.data
    return None if data.favourable is None else f"{data.label}: {data.classes[data.favourable]}"


def advantage(document: TableDocument) -> str:
    """Which sensitive value would help the affected people."""
    people, answer = document.people, favourable(document)
    if people.hits == 0:
        return ""
    if answer is None or not people.advantages:
        return (
            f"No answer of this {noun(document)} was declared the favourable one, so the report"
            " does not say whom the difference helps."
        )
    first, last = people.advantages[0], people.advantages[-1]
    who = (
        f"Of the {count(people.hits)} people affected"
        if people.hits > 1
        else "Of the one person affected"
    )
    if first.share == last.share:
        return (
            f"{who}, {percent(first.share)} would get the favourable answer ({answer}) with every"
            f" value of {sensitive(document)}."
        )
    others = " All other values lie between." if len(people.advantages) > 2 else ""
    return (
        f"{who}, {percent(first.share)} would get the favourable answer ({answer}) as"
        f" “{first.value}”, and {percent(last.share)} as “{last.value}”.{others}"
    )


# -- the search ------------------------------------------------------------------------------------


def searched(document: TableDocument) -> str:
    """How the search went about it."""
    found = document.generation
    if found.description is None:
        return UNKNOWN_SEARCH.format(seeds=plural(found.seeds, "person", "people"))
    return found.description.how


def is_led_by_neurons(document: TableDocument) -> bool:
    """Whether the most biased layer guided the search."""
    about = document.generation.description
    return about is not None and about.needs_neurons


def has_phases(found: Search) -> bool:
    """Whether the search had a global and a local phase."""
    about = found.description
    return about is None or (about.uses_seeds and about.has_phases)


def phases(document: TableDocument) -> str:
    """How many cases came from which phase, if there are two."""
    found = document.generation
    if not has_phases(found):
        return ""
    return (
        f": {count(found.global_idis)} in the global and {count(found.local_idis)} in the local"
        " phase"
    )


def whose_pairs(document: TableDocument) -> str:
    """Why the people of a pair are not records."""
    about = document.generation.description
    if document.generation.people == "plausible":
        return (
            "They are plausible people: new people who are like the people in the data, none of"
            " them a record."
        )
    if about is None:
        how = "The search makes people up"
    elif about.origin == "seed":
        how = "The search starts at people in the data and changes them step by step"
    else:
        how = "The search draws people at random from everything the attributes allow"
        how += ", and changes them step by step" if about.uses_seeds else ""
    if any(pair.is_record for pair in document.pairs):
        return f"{how}. Records of the data are shown as well, as was asked for, and are marked."
    return f"{how}, so these are possible people, not records, and some are unlikely in life."


def origin_noun(document: TableDocument) -> str:
    """What the number of a pair's origin counts: seeds, unless the method draws its own people."""
    about = document.generation.description
    return "seed" if about is None else about.origin


def origin(document: TableDocument, pair: PairDocument) -> str:
    """Where in the search a pair comes from."""
    place = f"{origin_noun(document)} {pair.origin}"
    return (
        f"Found in the {pair.phase} phase, from {place}."
        if has_phases(document.generation)
        else f"Found as {place}."
    )


def scores(document: TableDocument) -> dict[str, float]:
    """What Themis measured itself; nothing if another method searched, or nobody was drawn."""
    measured = document.generation.scores
    known = {name: value for name in SCORES if (value := measured.get(name)) is not None}
    return known if len(known) == len(SCORES) and known["draws"] else {}


# -- inside the network ----------------------------------------------------------------------------


def reaction(document: TableDocument) -> str:
    """Whether, and where, the neurons react."""
    if (inside := document.interpretation) is None:
        return BLACK_BOX
    name, layer = sensitive(document), inside.most_biased_layer
    if inside.auc == 0:
        return (
            f"No neuron reacts: every neuron of every hidden layer keeps its value when {name}"
            " changes (AUC 0 in all layers)."
        )
    seen = (
        ""
        if status(document) == "found"
        else " The neurons react, but no decision was seen to change because of it."
    )
    return (
        f"Layer “{layer.name}” reacts most to {name} (AUC {decimal(layer.auc)}). Of its"
        f" {plural(layer.neurons, 'neuron')}, {count(layer.biased)}"
        f" {'is' if layer.biased == 1 else 'are'} called biased (threshold"
        f" {decimal(layer.threshold)}).{seen}"
    )


def ablation(document: TableDocument) -> list[str]:
    """What silencing the biased neurons did, and how much that proves."""
    if (inside := document.interpretation) is None:
        return []
    cut, layer = inside.ablation, inside.most_biased_layer
    if cut.silenced == 0:
        return ["There was no biased neuron to silence."]
    before, biased = percent(cut.before), percent(cut.biased_zeroed)
    is_one = cut.silenced == 1
    these = "the biased neuron" if is_one else f"the {count(cut.silenced)} biased neurons"
    others = "one neuron" if is_one else "as many neurons"
    if before == biased:
        does = f"leaves the share of possible people affected at {before}"
    else:
        word = "lowers" if cut.biased_zeroed < cut.before else "raises"
        does = f"{word} the share of possible people affected from {before} to {biased}"
    return [
        (
            f"Silencing {these} of layer “{layer.name}” {does}; silencing {others} of that layer"
            f" chosen at random: {percent(cut.random_zeroed)} (mean of {count(cut.repeats)}"
            " choices)."
        ),
        _what_ablation_proves(document),
    ]


def _what_ablation_proves(document: TableDocument) -> str:
    if (inside := document.interpretation) is None:
        return ""
    cut, majority = inside.ablation, document.model.majority
    accuracy = f"from {percent(cut.accuracy_before)} to {percent(cut.accuracy_biased_zeroed)}"
    if cut.before == 0:
        return (
            "Nobody was affected before, so there was nothing to lower and the test proves nothing."
        )
    if percent(cut.before) == percent(cut.biased_zeroed) or cut.biased_zeroed > cut.before:
        return (
            "The share did not fall. These neurons react to the sensitive attribute, but the test"
            " does not show that they cause the discrimination, and removing them would be no"
            " remedy here."
        )
    if cut.biased_zeroed >= cut.random_zeroed:
        return (
            "Neurons chosen at random lower it at least as much, so the test does not single out"
            " the biased ones as the cause."
        )
    if cut.accuracy_biased_zeroed <= majority:
        return (
            f"That is more than random neurons do, but the accuracy changes {accuracy}, no better"
            f" than always giving the commonest answer ({percent(majority)}). A network that no"
            " longer tells people apart discriminates less too: weak evidence, and no remedy."
        )
    return (
        "That is more than random neurons do: evidence that these neurons carry a part of the"
        f" discrimination. The accuracy changes {accuracy}. It is a test, not a repair."
    )
