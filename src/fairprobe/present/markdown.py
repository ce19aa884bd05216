"""An audit in Markdown: a section for a model card, and the table that a bias audit lists.

Everything comes from the document; nothing is computed. Numbers are those of the report, with
ordinary spaces, for a text that people edit and search.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fairprobe.present import repair_page, sentences
from fairprobe.present.fairness_page import (
    individual,
    lowest,
    pairs_left_out,
    remark,
    selection,
    who_is_missing,
)
from fairprobe.present.formats import (
    between,
    count,
    date,
    decimal,
    interval,
    level,
    listed,
    number,
    percent,
    plural,
    ratio,
)
from fairprobe.present.markdown_text import bullets, escaped, fenced, joined, named, table
from fairprobe.present.table import UNDEFINED

SHOWN = 5  # groups of each kind among the most affected ones
SHARED = 20  # attributes of a pair


def model_card(body: dict[str, Any]) -> str:
    """A section for a model card: what was audited and how, the verdict, every measure with its
    interval, the limits, how to repeat it.
    """
    parts = [
        [
            f"## Fairness audit: {_title(body)}",
            f"**{escaped(sentences.headline(body))}.** {escaped(body['verdict'])}",
        ],
        _audited(body),
        _repaired(body),
        _how(body),
        _measures(body),
        _groups(body),
        _affected(body),
        _pair(body),
        _limits(body),
        _again(body),
    ]
    return joined(block for part in parts for block in part)


def audit_table(body: dict[str, Any]) -> str:
    """Selection rates and impact ratios by category and by intersection, as a bias audit after New
    York City's Local Law 144 lists them.
    """
    group = body["fairness"]["group"]
    blocks = [f"## Bias audit: {_title(body)}", escaped(f"{selection(body)} {_declared(body)}")]
    if group is None:
        return joined(blocks)
    blocks.append(
        "A group is a category of an attribute, or an intersection of categories. Its selection"
        " rate is the share of its people who get this answer; its impact ratio is that rate"
        " divided by the highest rate of all groups that are not small. A group is small with"
        f" fewer than {percent(group['tables'][0]['smallest'])} of the people whose group is known."
        f" In brackets: {level(group['selected']['confidence'])} intervals."
    )
    for division in group["tables"]:
        blocks += _division(division)
    blocks += [escaped(said) for said in [pairs_left_out(body)] if said]
    blocks += [
        "### About this table",
        bullets(
            [
                _held_out(body),
                (
                    f"Audited on {escaped(date(body['created']))} with {_versions(body)}, seed"
                    f" {body['seed']}."
                ),
                (
                    "The form is that of a bias audit after New York City’s Local Law 144. That law"
                    " asks for an independent auditor and, where there is any, for data of the"
                    " tool’s own use; whether this table meets it is not decided here."
                ),
            ]
        ),
    ]
    return joined(blocks)


# -- what, and how ---------------------------------------------------------------------------------


def _title(body: dict[str, Any]) -> str:
    return f"{named(body['data']['title'])}, by {named(sentences.sensitive(body))}"


def _audited(body: dict[str, Any]) -> list[str]:
    model, data = body["model"], body["data"]
    origin = "trained by fairprobe on this data" if model["trained_here"] else "given by the user"
    kind = f" ({named(model['kind'])})" if model["kind"] else ""
    sizes = listed(count(layer["neurons"]) for layer in model["layers"])
    layers = (
        f", hidden {'layer' if len(model['layers']) == 1 else 'layers'} of {sizes} neurons"
        if sizes
        else ""
    )
    size = "" if model["parameters"] is None else f", {plural(model['parameters'], 'parameter')}"
    seen = (
        "; a black box, which can be asked but not looked into"
        if model["parameters"] is None
        else ""
    )
    about = [
        data["title"],
        f"{plural(data['rows'], 'row')}, {plural(len(data['attributes']), 'attribute')}",
    ]
    about += [
        f"{term}: {data[key]}"
        for key, term in (("source", "Source"), ("licence", "Licence"), ("citation", "Citation"))
        if data[key]
    ]
    return [
        "### What was audited",
        bullets(
            [
                (
                    f"**Model:** {named(model['network'])}{kind},"
                    f" {plural(model['inputs'], 'input')}{layers}{size}; {origin}{seen}."
                ),
                f"**Data:** {' '.join(escaped(each).removesuffix('.') + '.' for each in about)}",
                f"**Decision:** {escaped(_decision(body))}",
                f"**Sensitive:** {escaped(sentences.sensitive(body))}.",
                (
                    f"**Accuracy:** {percent(model['accuracy'])} ({percent(model['accuracy_low'])}"
                    f" to {percent(model['accuracy_high'])}) of"
                    f" {plural(model['accuracy_rows'], 'row')}; always giving the commonest answer:"
                    f" {percent(model['majority'])}."
                ),
            ]
        ),
    ]


def _decision(body: dict[str, Any]) -> str:
    data, measured = body["data"], body["fairness"]
    answers = [f"“{name}”" for name in data["classes"]]
    if data["favourable"] is not None:
        which = f"“{data['classes'][data['favourable']]}” is declared the favourable answer"
    elif measured["positive"] is not None:
        which = (
            f"no answer was declared the favourable one; “{data['classes'][measured['positive']]}”"
            " is taken for it"
        )
    else:
        which = "no answer was declared the favourable one"
    return (
        f"{data['label']}, {' or '.join(answers) if len(answers) == 2 else listed(answers)};"
        f" {which}."
    )


def _declared(body: dict[str, Any]) -> str:
    """That the favourable answer was declared; where it was not, the sentence about selection says
    so.
    """
    return (
        "" if body["data"]["favourable"] is None else "This answer is declared the favourable one."
    )


def _held_out(body: dict[str, Any]) -> str:
    rows, title = plural(body["fairness"]["rows"], "row"), escaped(body["data"]["title"])
    if body["model"]["trained_here"]:
        return f"Counted on {rows} of {title} that were kept out of the training."
    return (
        f"Counted on {rows} of {title}, a fifth of the data. Whether the model saw them in training"
        " is not known here."
    )


def _how(body: dict[str, Any]) -> list[str]:
    found, name, noun = body["generation"], escaped(sentences.sensitive(body)), sentences.noun(body)
    variant = f", variant “{escaped(found['variant'])}”" if found["variant"] else ""
    return [
        "### How it was measured",
        bullets(
            [
                (
                    f"A person is *affected* when the {noun} decides differently for a copy of the"
                    f" person that differs in {name} and in nothing else. A near tie between two"
                    " answers is no difference."
                ),
                (
                    f"Everybody in the data was asked ({count(body['people']['samples'])}), and"
                    f" {count(body['dm_rs']['samples'])} possible people drawn uniformly from"
                    " everything the attributes allow (DM-RS)."
                ),
                (
                    f"A search (method “{escaped(found['method'])}”{variant}) looked for as many"
                    f" cases as it could find. {escaped(sentences.searched(body))} It can show that"
                    " cases exist, not how common they are."
                ),
                (
                    f"{_held_out(body)} There, people and their counterparts were compared one by"
                    " one (IFR), and groups with each other."
                ),
            ]
        ),
    ]


def _cell(measure: dict[str, Any], write: Callable[[float], str] = percent) -> str:
    """A number with its interval in brackets."""
    if measure["estimate"] is None:
        return "not defined"
    sure = between(measure, write)
    return f"{write(measure['estimate'])} ({sure})" if sure else write(measure["estimate"])


# -- numbers ---------------------------------------------------------------------------------------


def _measures(body: dict[str, Any]) -> list[str]:
    people, common, found, held_out = (
        body[name] for name in ("people", "dm_rs", "generation", "fairness")
    )
    rates, quality = held_out["individual"], held_out["quality"]
    rows = [
        _measure("People in the data affected", people, f"{count(people['samples'])} people"),
        _measure("Possible people affected (DM-RS)", common, f"{count(common['samples'])} drawn"),
        _measure(
            "Same decision as a counterpart (IFR_b)",
            rates["b"],
            plural(rates["b"]["pairs"], "pair"),
        ),
        _measure(
            "… and nearly the same probabilities (IFR_p)",
            rates["p"],
            plural(rates["p"]["pairs"], "pair"),
        ),
        *_scores(body),
        (
            "Cases found by the search (IDIs)",
            count(found["idis"]),
            UNDEFINED,
            f"{count(found['tried'])} tried",
        ),
        (
            "Success rate of the search (GSR), no population rate",
            percent(found["gsr"]),
            UNDEFINED,
            f"{count(found['tried'])} tried",
        ),
        *_inside(body),
        _measure("Accuracy", quality["accuracy"], plural(held_out["rows"], "row")),
        _measure("F1", quality["f1"], plural(held_out["rows"], "row"), number),
        _measure(
            "Matthews’ correlation (MCC)", quality["mcc"], plural(held_out["rows"], "row"), number
        ),
    ]
    head = ("Measure", "Value", f"{level(common['confidence'])} interval", "Measured on")
    nearly = (
        f"Nearly the same means a Jensen–Shannon divergence of at most {rates['tau']:g}"
        f" {escaped(rates['base'])}."
    )
    return [
        "### Measures",
        table(head, rows),
        (
            f"All with seed {body['seed']}."
            f" {nearly if rates['b']['pairs'] else escaped(individual(body))}"
        ),
    ]


def _measure(
    label: str, measure: dict[str, Any], on: str, write: Callable[[float], str] = percent
) -> Sequence[str]:
    value = "not defined" if measure["estimate"] is None else write(measure["estimate"])
    return label, value, between(measure, write) or UNDEFINED, on


def _scores(body: dict[str, Any]) -> list[Sequence[str]]:
    """What Themis measured itself."""
    told = sentences.scores(body)
    if told is None:
        return []
    sure, on = level(told["confidence"]), f"{count(told['draws'])} draws"
    return [
        (
            label,
            percent(told[name]),
            f"{percent(told[f'{name}_low'])} to {percent(told[f'{name}_high'])} ({sure})",
            on,
        )
        for label, name in (
            ("Causal score of Themis", "causal"),
            ("Group score of Themis", "group"),
        )
    ]


def _inside(body: dict[str, Any]) -> list[Sequence[str]]:
    inside = body["interpretation"]
    if inside is None:
        return []
    label = f"Reaction of the neurons (AUC), layer “{named(inside['most_biased'])}”"
    return [(label, decimal(inside["auc"]), UNDEFINED, plural(inside["pairs"], "pair"))]


def _groups(body: dict[str, Any]) -> list[str]:
    """ΔDP, ΔEO and the lowest impact ratio, by each attribute and their intersections; of many
    classes ΔEO of the favourable one.
    """
    measured, group = body["fairness"], body["fairness"]["group"]
    if group is None:
        return ["### Groups", escaped(selection(body))]
    classes = body["data"]["classes"]
    answers = range(len(classes)) if len(classes) == 2 else [measured["positive"]]
    head = (
        "Groups",
        "ΔDP",
        *(f"ΔEO, truth “{named(classes[place])}”" for place in answers),
        "Lowest impact ratio",
        "of",
    )
    rows = []
    for division in group["tables"]:
        least = lowest(division)
        ends = (
            ("not defined", UNDEFINED)
            if least is None
            else (_cell(least["impact_ratio"], ratio), named(least["name"]))
        )
        gaps = [
            _cell(each, number)
            for each in (division["dp"], *(division["eo"][place] for place in answers))
        ]
        rows.append((f"by {named(division['attribute'])}", *gaps, *ends))
    return [
        "### Groups",
        escaped(selection(body)),
        table(head, rows, words=(0, len(head) - 1)),
        (
            "ΔDP is how far the selection rates of the groups lie apart (of two groups the"
            " difference, of more the standard deviation), ΔEO the same among people whose true"
            " answer is the one named; small groups are not among the lowest ratios. A model that"
            " tells everybody the same has a difference of 0 and is worth nothing, so read them"
            " beside the accuracy."
        ),
    ]


def _division(division: dict[str, Any]) -> list[str]:
    """The table of one attribute or intersection, and after it who is not in it or says little."""
    head = ("Group", "People", "Selected", "Selection rate", "Impact ratio", "Remark")
    rows = []
    for row in division["rows"]:
        if row["is_empty"]:
            rows.append((named(row["name"]), "0", "0", UNDEFINED, UNDEFINED, "nobody"))
        else:
            impact = row["impact_ratio"]
            shown = UNDEFINED if impact["estimate"] is None else _cell(impact, ratio)
            rows.append(
                (
                    named(row["name"]),
                    count(row["samples"]),
                    count(row["hits"]),
                    _cell(row),
                    shown,
                    remark(row, division),
                )
            )
    said = [escaped(sentence) for sentence in who_is_missing(division)]
    if not division["unknown"]:
        said.append("There is nobody whose group is unknown.")
    if all(row["impact_ratio"]["estimate"] is None for row in division["rows"]):
        said.append(
            "Nobody is selected in any group that could be the reference, so there is no impact"
            " ratio."
        )
    return [
        f"### By {named(division['attribute'])}",
        table(head, rows, words=(0, len(head) - 1)),
        " ".join(said),
    ]


# -- people ----------------------------------------------------------------------------------------


def _affected(body: dict[str, Any]) -> list[str]:
    """Who is affected most: by sensitive value and by other attributes, those with the strongest
    evidence first.
    """
    people = body["people"]
    blocks = [
        "### Who is affected most",
        escaped(f"{sentences.affected(body)} {sentences.advantage(body)}"),
    ]
    if people["hits"] == 0:
        return blocks
    values = sorted(people["values"], key=lambda group: -float(group["low"]))[:SHOWN]
    rows = [
        (
            f"{named(group['attribute'])}: {named(group['value'])}",
            count(group["samples"]),
            percent(group["estimate"]),
            interval(group),
        )
        for group in [*values, *people["groups"][:SHOWN]]
    ]
    return [
        *blocks,
        table(("Group", "People", "Affected", f"{level(people['confidence'])} interval"), rows),
    ]


def _pair(body: dict[str, Any]) -> list[str]:
    """The most striking pair, in words."""
    if not body["pairs"]:
        return []
    pair = body["pairs"][0]
    alike = [f"{name} {value}" for name, value in pair["shared"].items()]
    more = f", and {plural(len(alike) - SHARED, 'attribute')} more" if len(alike) > SHARED else ""
    one, other = (
        listed(f"{name} “{both[side]}”" for name, both in pair["sensitive"].items())
        for side in (0, 1)
    )
    noun = sentences.noun(body)
    return [
        "### The most striking pair",
        escaped(
            f"Two people who are alike in everything else ({'; '.join(alike[:SHARED])}{more}). With"
            f" {one} the {noun} decides “{pair['label']}” (probability"
            f" {percent(pair['probability'])}), with {other} it decides “{pair['label_other']}”"
            f" (probability {percent(pair['probability_other'])}). {sentences.whose_pairs(body)}"
        ),
    ]


# -- a repair --------------------------------------------------------------------------------------


def _repaired(body: dict[str, Any]) -> list[str]:
    """What a repair did to mitigate what was found, before and after, and beside its controls."""
    repair = body["repair"]
    if repair is None:
        return []
    columns = {"before": repair["before"], "after": repair["after"], **repair["controls"]}
    measures: list[tuple[str, str, Callable[[float], str]]] = [
        ("Accuracy", "accuracy", percent),
        ("Possible people affected (DM-RS)", "dm_rs", percent),
        ("Same decision as a counterpart (IFR_b)", "ifr_b", percent),
        ("… and nearly the same probabilities (IFR_p)", "ifr_p", percent),
        ("ΔDP", "dp", number),
    ]
    rows = [
        (label, *(_cell(measured[key], write) for measured in columns.values()))
        for label, key, write in measures
    ]
    rows.append(
        (
            "Cases found by the same search",
            *(count(measured["idis"]) for measured in columns.values()),
        )
    )
    said = [*(repair["reasons"] if len(repair["reasons"]) > 1 else []), *repair_page.changed(body)]
    return [
        "### The repair, before and after",
        (
            f"**{escaped(repair_page.headline(repair))}.** To mitigate what was found, the model"
            f" was repaired with “{escaped(repair['name'])}”. {escaped(' '.join(said))}"
        ),
        table(("Measure", *map(named, columns)), rows),
    ]


# -- limits, and how to repeat it ------------------------------------------------------------------


def _limits(body: dict[str, Any]) -> list[str]:
    standing = (
        "The audit is about these attributes, this data and this model. What it did not find may"
        " exist all the same, and what was found can be mitigated, not proved absent."
    )
    return ["### Limits", bullets([standing, *map(escaped, body["notes"])])]


def _again(body: dict[str, Any]) -> list[str]:
    command = body.get("command")
    how = (
        [fenced(command)]
        if command
        else ["The audit was made in Python; the run’s `report.html` has the lines that repeat it."]
    )
    answers = "" if body["interpretation"] else ", if the model answers as before"
    complete = body["generation"]["stopped"] == "complete"
    early = (
        ""
        if complete
        else " The search ended early, so a repetition may find another number of cases."
    )
    return [
        "### How to reproduce",
        *how,
        (
            f"The same seed ({body['seed']}) and the same versions ({_versions(body)}) give the"
            f" same numbers, apart from times{answers}.{early} Audited on"
            f" {escaped(date(body['created']))}."
        ),
    ]


def _versions(body: dict[str, Any]) -> str:
    return escaped(
        ", ".join(f"{program} {version}" for program, version in body["versions"].items())
    )
