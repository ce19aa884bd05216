"""The audit in sentences that a person who is no engineer can read. Everything said is a number of
the document, none is added.
"""

from __future__ import annotations

from typing import Any

from fairprobe.present.formats import listed
from fairprobe.present.sentences import BLACK_BOX, noun, scores, sensitive

NAMED = 6  # groups named in a note


def verdict(body: dict[str, Any]) -> str:
    """The result in a sentence or two, with its interval."""
    name, common, people = sensitive(body), body["dm_rs"], body["people"]
    idis = body["generation"]["idis"]
    if body["model"]["constant"]:
        return (
            f"The {noun(body)} gives everybody the same answer, so changing {name} changes nothing."
            " That is not fairness: it decides nothing at all."
        )
    if (
        idis == 0
        and common["hits"] == 0
        and people["hits"] == 0
        and set(body["sensitive"]) <= set(body["model"]["blind_to"])
    ):
        return (
            f"The {noun(body)} is not given {name}, so changing {name} alone cannot change its"
            " answer. That no case was found is so by construction, and no proof of fairness. What"
            f" can be tested is how groups fare: see the selection rates by {name}. Other"
            f" attributes may stand in for {name}; audit the {noun(body)} by those as well."
        )
    if idis == 0 and common["hits"] == 0 and people["hits"] == 0:
        return (
            f"No discrimination by {name} was found: no decision changed when only {name} changed,"
            f" for {common['samples']:,} possible people, {people['samples']:,} people in the data"
            f" and {body['generation']['tried']:,} instances searched. With 95 % confidence at most"
            f" {_percent(common['high'])} of all possible people are affected.{_causal(body)}"
        )
    return (
        f"Changing nothing but {name} changes the {noun(body)}'s decision for"
        f" {_percent(people['estimate'])} of the {people['samples']:,} people in the data and for"
        f" {_percent(common['estimate'])} of all possible people (95 % interval"
        f" {_percent(common['low'])} to {_percent(common['high'])}). The search found {idis:,}"
        f" different cases.{_causal(body)}"
    )


def _causal(body: dict[str, Any]) -> str:
    """Themis measures the share of possible people anew."""
    measured = scores(body)
    if measured is None:
        return ""
    return (
        f" Themis' own draws put the share of possible people at {_percent(measured['causal'])}"
        f" ({100 * measured['confidence']:g} % interval {_percent(measured['causal_low'])} to"
        f" {_percent(measured['causal_high'])})."
    )


def notes(body: dict[str, Any]) -> list[str]:
    """What a careful reader must know to read the numbers rightly."""
    model, generation, data = body["model"], body["generation"], body["data"]
    said = [_about_the_search(body)]
    said.append(
        "Possible people are drawn uniformly from the domain, every combination of values alike;"
        " many of them are rarer in life than others."
    )
    if body["interpretation"] is None:
        why = model["why_black_box"].rstrip(".")
        said.append(f"{BLACK_BOX}{f' Why it is one: {why}.' if why else ''}")
    if blind := [name for name in body["sensitive"] if name in model["blind_to"]]:
        said.append(
            f"The {noun(body)} is not given {listed(blind)}; by that alone it cannot tell two"
            " people apart."
        )
    if generation["refuted"] is not None:
        dropped = (
            f"; {generation['refuted']:,} that it did not confirm were dropped"
            if generation["refuted"]
            else ""
        )
        said.append(
            "The search looked into a network that was rebuilt from the model. Each of the"
            f" {generation['idis']:,} cases was then confirmed by asking the model itself{dropped}."
        )
    if data["outside"]["rows"]:
        worst = ", ".join(
            f"{name} ({count:,})"
            for name, count in sorted(
                data["outside"]["by_attribute"].items(), key=lambda item: -item[1]
            )
        )
        said.append(
            f"{data['outside']['rows']:,} of {data['rows']:,} rows have a value outside the"
            f" domain's bounds, by {worst}. They count as people in the data as they are; where the"
            " search starts from them, they are clipped to the bounds."
        )
    if absent := body["people"]["absent"]:
        unseen = f"What the {noun(body)} says of such people is a guess beyond its experience."
        said.append(f"Nobody in the data is any of these: {_some(absent)}. {unseen}")
    said += _about_groups(body)
    if data["constraints"]:
        said.append(f"Generated people obey these rules: {', '.join(data['constraints'])}.")
    held_out = (
        f"rows that the {noun(body)} did not see in training."
        if model["trained_here"]
        else (
            f"rows, a fifth of the data. Whether the {noun(body)} saw them in training is not known"
            " here."
        )
    )
    said.append(
        f"The accuracy of {_percent(model['accuracy'])} was measured on {model['accuracy_rows']:,}"
        f" {held_out} "
        "Always giving the commonest answer would reach "
        f"{_percent(model['majority'])}."
        f"{' The papers report accuracy on training data.' if model['trained_here'] else ''}"
    )
    if len(data["classes"]) == 2 and 1 - model["accuracy_high"] > model["majority"]:
        said.append(
            f"Taken the other way round, the {noun(body)}'s answers would be right for"
            f" {_percent(1 - model['accuracy'])}. Most likely its classes stand in another order"
            f" than the data's, which is “{data['classes'][0]}”, then “{data['classes'][1]}”; then"
            " all that is said here about who gets which answer is the wrong way round. Say the"
            " order when the model is loaded (--classes)."
        )
    elif model["accuracy"] <= model["majority"] and not model["constant"]:
        said.append(
            f"The {noun(body)} is no better than always giving the commonest answer. A fairness"
            f" measurement of such a {noun(body)} means little."
        )
    if generation["stopped"] != "complete":
        why = {
            "interrupted": "was interrupted",
            "seconds": "ended when its time was over",
            "wanted": "ended when it had as many as were wanted",
        }
        said.append(
            f"The search {why[generation['stopped']]}. What it had found until then is complete;"
            " more time might have found more."
        )
    return said


def _about_groups(body: dict[str, Any]) -> list[str]:
    """Which answer was taken for the favourable one, and whose numbers are missing or say
    little.
    """
    measured, classes, said = body["fairness"], body["data"]["classes"], []
    if measured["positive_assumed"]:
        said.append(
            "The data does not say which answer is favourable; selection rates count"
            f" “{classes[measured['positive']]}”."
        )
    if measured["group"] is None:
        said.append(
            "The data does not say which of its answers is favourable, so selection rates of groups"
            " were not measured."
        )
        return said
    tables, alone = measured["group"]["tables"], len(body["sensitive"])
    for table in (
        *tables[:alone],
        *tables[alone:][-1:],
    ):  # each attribute, and all together; pairs, of which there can be many, add little
        small = [row["name"] for row in table["rows"] if row["is_small"]]
        if small:
            said.append(
                f"Small groups by {table['attribute']}, less than {_percent(table['smallest'])} of"
                f" the people held out: {_some(small)}; their rates say little."
            )
    said += [
        f"{table['unknown']:,} of the people held out have {table['attribute']} outside the domain;"
        " they are in no group."
        for table in tables[:alone]
        if table["unknown"]
    ]
    return said


def _some(names: list[str]) -> str:
    """“a”, “b” and “c”, or the first ones and how many more: a name can have commas of its own."""
    more = [f"{len(names) - NAMED:,} more"] if len(names) > NAMED else []
    return listed([*(f"“{name}”" for name in names[:NAMED]), *more])


def _about_the_search(body: dict[str, Any]) -> str:
    rate, measured = _percent(body["generation"]["gsr"]), scores(body)
    if measured is None:
        return (
            f"The search looks where it expects to find discrimination. Its success rate ({rate})"
            " says how well it looks, not how many people are affected; that is what the sampled"
            " rate and the people in the data tell."
        )
    return (
        f"Themis looks nowhere in particular: its {measured['draws']:,} draws are possible people"
        " too, so its causal score and the sampled rate measure the same thing twice. Its success"
        f" rate ({rate}) counts each different person once and has no interval; read the score"
        " instead."
    )


def _percent(share: float) -> str:
    """As many digits as matter: 0.012 %, 1.2 %, 35.1 %."""
    value = 100 * share
    if value in (0, 100):
        return f"{value:.0f} %"
    if value >= 1:
        return f"{value:.1f} %"
    return f"{value:.2g} %" if value >= 0.001 else "less than 0.001 %"
