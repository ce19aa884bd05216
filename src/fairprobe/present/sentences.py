"""What the report says in words about the numbers: which case this is, and what follows from it and
what does not.

Numbers of the document are compared here, never computed. The tone: what was found and what was
not; never that a network is fair.
"""

from __future__ import annotations

from typing import Any, Literal

from fairprobe.present.formats import count, decimal, interval, level, listed, percent, plural

Status = Literal["found", "none", "constant"]

BLACK_BOX = (
    "The model is a black box: it can be asked, not looked into. What it answers to whom was tested"
    " as for any other model; which of its parts tell people apart, and whether silencing them"
    " would help, cannot be seen from outside."
)

UNKNOWN_SEARCH = (
    "It is a method of the user’s own; how it looks is not told here. It was given {seeds} to start"
    " from (seeds)."
)
SCORES = (
    "causal",
    "causal_low",
    "causal_high",
    "group",
    "group_low",
    "group_high",
    "confidence",
    "error",
    "draws",
)  # of Themis


def noun(document: dict[str, Any]) -> str:
    """What the audited thing is called: only a network can be looked into."""
    return "model" if document["interpretation"] is None else "network"


def sensitive(document: dict[str, Any]) -> str:
    """Gender, or gender and age."""
    return listed(document["sensitive"])


def title(document: dict[str, Any]) -> str:
    """Which data, and by what."""
    return f"{document['data']['title']}, by {sensitive(document)}"


def status(document: dict[str, Any]) -> Status:
    """The three kinds of result."""
    if document["model"]["constant"]:
        return "constant"
    hits = document["generation"]["idis"], document["dm_rs"]["hits"], document["people"]["hits"]
    return "found" if any(hits) else "none"


def headline(document: dict[str, Any]) -> str:
    """The status in a few words, above the verdict."""
    name = sensitive(document)
    if status(document) == "none" and set(document["sensitive"]) <= set(
        document["model"]["blind_to"]
    ):
        return f"The {noun(document)} is not given {name}"
    return {
        "found": f"Decisions that depend on {name} were found",
        "none": f"No decision that depends on {name} was found",
        "constant": f"The {noun(document)} gives everybody the same answer",
    }[status(document)]


def affected(document: dict[str, Any]) -> str:
    """How many people in the data are affected."""
    people, name = document["people"], sensitive(document)
    if people["hits"] == 0:
        return (
            f"None of the {count(people['samples'])} people in the data would get another decision"
            f" if only {name} were different. The {level(people['confidence'])} interval reaches up"
            f" to {percent(people['high'])}."
        )
    return (
        f"{count(people['hits'])} of the {count(people['samples'])} people in the data"
        f" ({percent(people['estimate'])}) would get another decision if only {name} were"
        f" different. The {level(people['confidence'])} interval is {interval(people)}."
    )


def favourable(document: dict[str, Any]) -> str | None:
    """The favourable answer in words, if the data has one: income: >50K."""
    data = document["data"]
    return (
        None
        if data["favourable"] is None
        else f"{data['label']}: {data['classes'][data['favourable']]}"
    )


def advantage(document: dict[str, Any]) -> str:
    """Which sensitive value would help the affected people."""
    people, answer = document["people"], favourable(document)
    if people["hits"] == 0:
        return ""
    if answer is None or not people["advantages"]:
        return (
            f"No answer of this {noun(document)} was declared the favourable one, so the report"
            " does not say whom the difference helps."
        )
    first, last = people["advantages"][0], people["advantages"][-1]
    who = (
        f"Of the {count(people['hits'])} people affected"
        if people["hits"] > 1
        else "Of the one person affected"
    )
    if first["share"] == last["share"]:
        return (
            f"{who}, {percent(first['share'])} would get the favourable answer ({answer}) with"
            f" every value of {sensitive(document)}."
        )
    between = " All other values lie between." if len(people["advantages"]) > 2 else ""
    return (
        f"{who}, {percent(first['share'])} would get the favourable answer ({answer}) as"
        f" “{first['value']}”, and {percent(last['share'])} as “{last['value']}”.{between}"
    )


def searched(document: dict[str, Any]) -> str:
    """How the search went about it."""
    found = document["generation"]
    if found["description"] is None:
        return UNKNOWN_SEARCH.format(seeds=plural(found["seeds"], "person", "people"))
    how: str = found["description"]["how"]
    return how


def is_led_by_neurons(document: dict[str, Any]) -> bool:
    """Whether the most biased layer guided the search."""
    about = document["generation"]["description"]
    return about is not None and about["needs_neurons"]


def has_phases(found: dict[str, Any]) -> bool:
    """Whether the search had a global and a local phase."""
    return found["description"] is None or found["description"]["uses_seeds"]


def phases(document: dict[str, Any]) -> str:
    """How many cases came from which phase, if there are two."""
    found = document["generation"]
    if not has_phases(found):
        return ""
    return (
        f": {count(found['global_idis'])} in the global and {count(found['local_idis'])} in the"
        " local phase"
    )


def whose_pairs(document: dict[str, Any]) -> str:
    """Why the people of a pair are no records."""
    about = document["generation"]["description"]
    if about is None:
        how = "The search makes people up"
    elif about["origin"] == "seed":
        how = "The search starts at people in the data and changes them step by step"
    else:
        how = "The search draws people at random from everything the attributes allow"
        how += ", and changes them step by step" if about["uses_seeds"] else ""
    return f"{how}, so these are possible people, not records, and some are unlikely in life."


def origin_noun(document: dict[str, Any]) -> str:
    """What the number of a pair's origin counts: seeds, unless the method draws its own people."""
    about = document["generation"]["description"]
    return "seed" if about is None else about["origin"]


def origin(document: dict[str, Any], pair: dict[str, Any]) -> str:
    """Where in the search a pair comes from."""
    place = f"{origin_noun(document)} {pair['origin']}"
    return (
        f"Found in the {pair['phase']} phase, from {place}."
        if has_phases(document["generation"])
        else f"Found as {place}."
    )


def scores(document: dict[str, Any]) -> dict[str, Any] | None:
    """What Themis measured itself, if it had time to draw anybody."""
    measured: dict[str, Any] = document["generation"]["scores"]
    return (
        measured
        if all(measured.get(name) is not None for name in SCORES) and measured["draws"]
        else None
    )


def most_biased(document: dict[str, Any]) -> dict[str, Any]:
    """The layer that reacts most."""
    inside = document["interpretation"]
    layer: dict[str, Any] = next(
        layer for layer in inside["layers"] if layer["name"] == inside["most_biased"]
    )
    return layer


def reaction(document: dict[str, Any]) -> str:
    """Whether, and where, the neurons react."""
    name, inside = sensitive(document), document["interpretation"]
    if inside["auc"] == 0:
        return (
            f"No neuron reacts: every neuron of every hidden layer keeps its value when {name}"
            " changes (AUC 0 in all layers)."
        )
    layer = most_biased(document)
    said = (
        f"Layer “{layer['name']}” reacts most to {name} (AUC {decimal(layer['auc'])}). Of its"
        f" {plural(layer['neurons'], 'neuron')}, {count(layer['biased'])}"
        f" {'is' if layer['biased'] == 1 else 'are'} called biased (threshold"
        f" {decimal(layer['threshold'])})."
    )
    if status(document) != "found":
        said += " The neurons react, but no decision was seen to change because of it."
    return said


def ablation(document: dict[str, Any]) -> list[str]:
    """What silencing the biased neurons did, and how much that proves."""
    cut, layer = document["interpretation"]["ablation"], most_biased(document)
    if cut["silenced"] == 0:
        return ["There was no biased neuron to silence."]
    before, biased, random = (
        percent(cut[name]) for name in ("before", "biased_zeroed", "random_zeroed")
    )
    these = (
        "the biased neuron"
        if cut["silenced"] == 1
        else f"the {count(cut['silenced'])} biased neurons"
    )
    word = "lowers" if cut["biased_zeroed"] < cut["before"] else "raises"
    change = f"at {before}" if before == biased else f"from {before} to {biased}"
    does = (
        f"{'leaves' if before == biased else word} the share of possible people affected {change}"
    )
    many = (
        "one neuron of that layer chosen at random"
        if cut["silenced"] == 1
        else "as many neurons of that layer chosen at random"
    )
    return [
        (
            f"Silencing {these} of layer “{layer['name']}” {does}; silencing {many}: {random} (mean"
            f" of {count(cut['repeats'])} choices)."
        ),
        _what_it_proves(document),
    ]


def _what_it_proves(document: dict[str, Any]) -> str:
    cut, majority = document["interpretation"]["ablation"], document["model"]["majority"]
    accuracy = f"from {percent(cut['accuracy_before'])} to {percent(cut['accuracy_biased_zeroed'])}"
    if cut["before"] == 0:
        return (
            "Nobody was affected before, so there was nothing to lower and the test proves nothing."
        )
    if (
        percent(cut["before"]) == percent(cut["biased_zeroed"])
        or cut["biased_zeroed"] > cut["before"]
    ):
        return (
            "The share did not fall. These neurons react to the sensitive attribute, but the test"
            " does not show that they cause the discrimination, and removing them would be no"
            " remedy here."
        )
    if cut["biased_zeroed"] >= cut["random_zeroed"]:
        return (
            "Neurons chosen at random lower it at least as much, so the test does not single out"
            " the biased ones as the cause."
        )
    if cut["accuracy_biased_zeroed"] <= majority:
        return (
            f"That is more than random neurons do, but the accuracy changes {accuracy}, no better"
            f" than always giving the commonest answer ({percent(majority)}). A network that no"
            " longer tells people apart discriminates less too: weak evidence, and no remedy."
        )
    return (
        "That is more than random neurons do: evidence that these neurons carry a part of the"
        f" discrimination. The accuracy changes {accuracy}. It is a test, not a repair."
    )
