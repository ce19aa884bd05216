"""The audit in sentences that a person who is no engineer can read. Everything said is a number of the document, none is added."""

from __future__ import annotations

from typing import Any

NAMED = 6  # groups without anybody, named in a note


def verdict(body: dict[str, Any]) -> str:
    """The result in a sentence or two, with its interval."""
    name, common, people = " and ".join(body["sensitive"]), body["dm_rs"], body["people"]
    idis = body["generation"]["idis"]
    if body["model"]["constant"]:
        return (
            f"The network gives everybody the same answer, so changing {name} changes nothing. That is not "
            "fairness: it decides nothing at all."
        )
    if idis == 0 and common["hits"] == 0 and people["hits"] == 0:
        return (
            f"No discrimination by {name} was found: no decision changed when only {name} changed, for "
            f"{common['samples']:,} possible people, "
            f"{people['samples']:,} people in the data and {body['generation']['tried']:,} instances searched. "
            f"With 95 % confidence at most {_percent(common['high'])} of all possible people are affected."
        )
    return (
        f"Changing nothing but {name} changes the network's decision for {_percent(people['estimate'])} of the "
        f"{people['samples']:,} people in the data "
        f"and for {_percent(common['estimate'])} of all possible people (95 % interval "
        f"{_percent(common['low'])} to {_percent(common['high'])}). "
        f"The search found {idis:,} different cases."
    )


def notes(body: dict[str, Any]) -> list[str]:
    """What a careful reader must know to read the numbers rightly."""
    model, generation, data = body["model"], body["generation"], body["data"]
    said = [
        "The search looks where it expects to find discrimination. Its success rate "
        f"({_percent(generation['gsr'])}) says how well it looks, "
        "not how many people are affected; that is what the sampled rate and the people in the data tell.",
        "Possible people are drawn uniformly from the domain, every combination of values alike; many of them "
        "are rarer in life than others.",
    ]
    if data["outside"]["rows"]:
        worst = ", ".join(
            f"{name} ({count:,})" for name, count in sorted(data["outside"]["by_attribute"].items(), key=lambda item: -item[1])
        )
        said.append(
            f"{data['outside']['rows']:,} of {data['rows']:,} rows have a value outside the domain's bounds, by "
            f"{worst}. They count as people in the data as they are; "
            "where the search starts from them, they are clipped to the bounds."
        )
    if absent := body["people"]["absent"]:
        some = ", ".join(absent[:NAMED]) + (f" and {len(absent) - NAMED} more" if len(absent) > NAMED else "")
        said.append(f"Nobody in the data is {some}. What the network says of such people is a guess beyond its experience.")
    if data["constraints"]:
        said.append(f"Generated people obey these rules: {', '.join(data['constraints'])}.")
    held_out = (
        "rows that the network did not see in training."
        if model["trained_here"]
        else "rows, a fifth of the data. Whether the network saw them in training is not known here."
    )
    said.append(
        f"The accuracy of {_percent(model['accuracy'])} was measured on {model['accuracy_rows']:,} {held_out} "
        "Always giving the commonest answer would reach "
        f"{_percent(model['majority'])}. The papers report accuracy on training data."
    )
    if model["accuracy"] <= model["majority"] and not model["constant"]:
        said.append(
            "The network is no better than always giving the commonest answer. A fairness measurement of such a network means little."
        )
    if generation["stopped"] != "complete":
        why = {
            "interrupted": "was interrupted",
            "seconds": "ended when its time was over",
            "wanted": "ended when it had as many as were wanted",
        }
        said.append(f"The search {why[generation['stopped']]}. What it had found until then is complete; more time might have found more.")
    return said


def _percent(share: float) -> str:
    """As many digits as matter: 0.012 %, 1.2 %, 35.1 %."""
    value = 100 * share
    if value in (0, 100):
        return f"{value:.0f} %"
    if value >= 1:
        return f"{value:.1f} %"
    return f"{value:.2g} %" if value >= 0.001 else "less than 0.001 %"
