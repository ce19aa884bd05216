"""What the report says in words about the numbers: which case this is, and what follows from it and what does not.

Numbers of the document are compared here, never computed. The tone: what was found and what was not; never that a network is fair.
"""

from __future__ import annotations

from typing import Any, Literal

from fairprobe.report.formats import count, decimal, interval, level, listed, percent, plural

Status = Literal["found", "none", "constant"]


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
    return {
        "found": f"Decisions that depend on {name} were found",
        "none": f"No decision that depends on {name} was found",
        "constant": "The network gives everybody the same answer",
    }[status(document)]


def affected(document: dict[str, Any]) -> str:
    """How many people in the data are affected."""
    people, name = document["people"], sensitive(document)
    if people["hits"] == 0:
        return (
            f"None of the {count(people['samples'])} people in the data would get another decision if only {name} were different. "
            f"The {level(people['confidence'])} interval reaches up to {percent(people['high'])}."
        )
    return (
        f"{count(people['hits'])} of the {count(people['samples'])} people in the data ({percent(people['estimate'])}) would get another "
        f"decision if only {name} were different. The {level(people['confidence'])} interval is {interval(people)}."
    )


def favourable(document: dict[str, Any]) -> str | None:
    """The favourable answer in words, if the data has one: income: >50K."""
    data = document["data"]
    return None if data["favourable"] is None else f"{data['label']}: {data['classes'][data['favourable']]}"


def advantage(document: dict[str, Any]) -> str:
    """Which sensitive value would help the affected people."""
    people, answer = document["people"], favourable(document)
    if people["hits"] == 0:
        return ""
    if answer is None or not people["advantages"]:
        return "No answer of this network was declared the favourable one, so the report does not say whom the difference helps."
    first, last = people["advantages"][0], people["advantages"][-1]
    who = f"Of the {count(people['hits'])} people affected" if people["hits"] > 1 else "Of the one person affected"
    if first["share"] == last["share"]:
        return f"{who}, {percent(first['share'])} would get the favourable answer ({answer}) with every value of {sensitive(document)}."
    between = " All other values lie between." if len(people["advantages"]) > 2 else ""
    return (
        f"{who}, {percent(first['share'])} would get the favourable answer ({answer}) as “{first['value']}”, "
        f"and {percent(last['share'])} as “{last['value']}”.{between}"
    )


def most_biased(document: dict[str, Any]) -> dict[str, Any]:
    """The layer that reacts most."""
    inside = document["interpretation"]
    layer: dict[str, Any] = next(layer for layer in inside["layers"] if layer["name"] == inside["most_biased"])
    return layer


def reaction(document: dict[str, Any]) -> str:
    """Whether, and where, the neurons react."""
    name, inside = sensitive(document), document["interpretation"]
    if inside["auc"] == 0:
        return f"No neuron reacts: every neuron of every hidden layer keeps its value when {name} changes (AUC 0 in all layers)."
    layer = most_biased(document)
    said = (
        f"Layer “{layer['name']}” reacts most to {name} (AUC {decimal(layer['auc'])}). Of its {plural(layer['neurons'], 'neuron')}, "
        f"{count(layer['biased'])} {'is' if layer['biased'] == 1 else 'are'} called biased (threshold {decimal(layer['threshold'])})."
    )
    if status(document) != "found":
        said += " The neurons react, but no decision was seen to change because of it."
    return said


def ablation(document: dict[str, Any]) -> list[str]:
    """What silencing the biased neurons did, and how much that proves."""
    cut, layer = document["interpretation"]["ablation"], most_biased(document)
    if cut["silenced"] == 0:
        return ["There was no biased neuron to silence."]
    before, biased, random = (percent(cut[name]) for name in ("before", "biased_zeroed", "random_zeroed"))
    these = "the biased neuron" if cut["silenced"] == 1 else f"the {count(cut['silenced'])} biased neurons"
    word = "lowers" if cut["biased_zeroed"] < cut["before"] else "raises"
    change = f"at {before}" if before == biased else f"from {before} to {biased}"
    does = f"{'leaves' if before == biased else word} the share of possible people affected {change}"
    many = "one neuron of that layer chosen at random" if cut["silenced"] == 1 else "as many neurons of that layer chosen at random"
    return [
        f"Silencing {these} of layer “{layer['name']}” {does}; silencing {many}: {random} (mean of {count(cut['repeats'])} choices).",
        _what_it_proves(document),
    ]


def _what_it_proves(document: dict[str, Any]) -> str:
    cut, majority = document["interpretation"]["ablation"], document["model"]["majority"]
    accuracy = f"from {percent(cut['accuracy_before'])} to {percent(cut['accuracy_biased_zeroed'])}"
    if cut["before"] == 0:
        return "Nobody was affected before, so there was nothing to lower and the test proves nothing."
    if percent(cut["before"]) == percent(cut["biased_zeroed"]) or cut["biased_zeroed"] > cut["before"]:
        return (
            "The share did not fall. These neurons react to the sensitive attribute, but the test does not show that they cause the "
            "discrimination, and removing them would be no remedy here."
        )
    if cut["biased_zeroed"] >= cut["random_zeroed"]:
        return "Neurons chosen at random lower it at least as much, so the test does not single out the biased ones as the cause."
    if cut["accuracy_biased_zeroed"] <= majority:
        return (
            f"That is more than random neurons do, but the accuracy changes {accuracy}, no better than always giving the commonest answer "
            f"({percent(majority)}). A network that no longer tells people apart discriminates less too: weak evidence, and no remedy."
        )
    return (
        "That is more than random neurons do: evidence that these neurons carry a part of the discrimination. "
        f"The accuracy changes {accuracy}. It is a test, not a repair."
    )
