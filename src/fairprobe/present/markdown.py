"""An audit in Markdown: a section for a model card, and the table that a bias audit lists.

Everything comes from the document; nothing is computed. Numbers are those of the report, with
ordinary spaces, for a text that people edit and search.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairprobe.catalogue import MEASURES
from fairprobe.documents import EstimateDocument, SelectionTable, TableDocument
from fairprobe.measures import added_readings
from fairprobe.present import (
    certificate_sentences,
    counterparts,
    decision_sentences,
    pair_sentences,
    repair_sentences,
    sentences,
    severity_sentences,
)
from fairprobe.present.group_figures import base_rates, selection_table, tau_table
from fairprobe.present.group_sentences import (
    individual,
    lowest,
    pairs_left_out,
    selection,
    who_is_missing,
)
from fairprobe.present.sentences import measured
from fairprobe.present.table import UNDEFINED, Cell, Table, measure_cell
from fairprobe.report.formats import (
    WRITERS,
    count,
    date,
    decimal,
    interval,
    level,
    listed,
    percent,
    plural,
    ratio,
)
from fairprobe.report.markdown import bullets, escaped, fenced, joined, named

SHOWN = 5  # groups of each kind among the most affected ones
IFR_B = "Same decision as a counterpart (IFR_b)"
IFR_P = "… and nearly the same probabilities (IFR_p)"
GROUPED = (
    "demographic_parity",
    "demographic_parity_sd",
    "equalized_odds",
    "equalized_odds_sd",
    "impact_ratio",
)
DM_RS = "Possible people affected (DM-RS)"


def model_card(document: TableDocument) -> str:
    """A section for a model card: what was audited and how, the verdict, every measure with its
    interval, the limits, how to repeat it.
    """
    verdict = f"**{escaped(sentences.headline(document))}.** {escaped(document.verdict)}"
    parts = [
        [f"## Fairness audit: {_title(document)}", verdict],
        _audited(document),
        _repaired(document),
        _how(document),
        _measures(document),
        _groups(document),
        _affected(document),
        _proved(document),
        _pair(document),
        _limits(document),
        _again(document),
    ]
    return joined(block for part in parts for block in part)


def audit_table(document: TableDocument) -> str:
    """Selection rates and impact ratios by category and by intersection, as a bias audit after New
    York City's Local Law 144 lists them.
    """
    group = document.fairness.group
    declared = (
        "" if document.data.favourable is None else " This answer is declared the favourable one."
    )
    blocks = [
        f"## Bias audit: {_title(document)}",
        escaped(f"{selection(document)}{declared}"),
    ]
    if group is None:
        return joined(blocks)
    blocks.append(
        "A group is a category of an attribute, or an intersection of categories. Its selection"
        " rate is the share of its people who get this answer; its impact ratio is that rate"
        " divided by the highest rate of all groups that are not small. A group is small with"
        f" fewer than {percent(group.tables[0].smallest)} of the people whose group is known."
        f" In brackets: {level(group.selected.confidence)} intervals."
    )
    for table in group.tables:
        blocks += _division(table, measured(document))
    blocks += [escaped(sentence) for sentence in [pairs_left_out(document)] if sentence]
    blocks += [
        "### About this table",
        bullets(
            [
                _held_out(document),
                *_rule(document),
                (
                    f"Audited on {escaped(date(document.created))} with {_versions(document)}, seed"
                    f" {document.seed}."
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


def _title(document: TableDocument) -> str:
    return f"{named(document.data.title)}, by {named(sentences.sensitive(document))}"


def _audited(document: TableDocument) -> list[str]:
    model, data = document.model, document.data
    origin = "trained by fairprobe on this data" if model.trained_here else "given by the user"
    kind = f" ({named(model.kind)})" if model.kind else ""
    sizes = listed(count(layer.neurons) for layer in model.layers)
    layers = (
        f", hidden {'layer' if len(model.layers) == 1 else 'layers'} of {sizes} neurons"
        if sizes
        else ""
    )
    if model.parameters is None:
        size, seen = "", "; a black box, which can be asked but not looked into"
    else:
        size, seen = f", {plural(model.parameters, 'parameter')}", ""
    terms = {"Source": data.source, "Licence": data.licence, "Citation": data.citation}
    about = [
        data.title,
        f"{plural(data.rows, 'row')}, {plural(len(data.attributes), 'attribute')}",
        *(f"{term}: {text}" for term, text in terms.items() if text),
    ]
    accuracy = {"low": model.accuracy_low, "high": model.accuracy_high}
    return [
        "### What was audited",
        bullets(
            [
                (
                    f"**Model:** {named(model.network)}{kind},"
                    f" {plural(model.inputs, 'input')}{layers}{size}; {origin}{seen}."
                ),
                f"**Data:** {' '.join(escaped(each).removesuffix('.') + '.' for each in about)}",
                f"**Decision:** {escaped(_decision(document))}",
                *_rule(document),
                f"**Sensitive:** {escaped(sentences.sensitive(document))}.",
                (
                    f"**Accuracy:** {percent(model.accuracy)} ({interval(accuracy)}) of"
                    f" {plural(model.accuracy_rows, 'row')}; always giving the commonest answer:"
                    f" {percent(model.majority)}."
                ),
            ]
        ),
    ]


def _rule(document: TableDocument) -> list[str]:
    rule = document.model.decision
    return (
        [] if rule is None else [f"**Decision rule:** {escaped(decision_sentences.sentence(rule))}"]
    )


def _decision(document: TableDocument) -> str:
    data, positive = document.data, document.fairness.positive
    answers = [f"“{name}”" for name in data.classes]
    which = "no answer was declared the favourable one"
    if data.favourable_class is not None:
        which = f"“{data.favourable_class}” is declared the favourable answer"
    elif positive is not None:
        which += f"; “{data.classes[positive]}” is taken for it"
    return (
        f"{data.label}, {' or '.join(answers) if len(answers) == 2 else listed(answers)}; {which}."
    )


def _held_out(document: TableDocument) -> str:
    rows, title = plural(document.fairness.rows, "row"), escaped(document.data.title)
    if document.model.trained_here:
        return f"Counted on {rows} of {title} that were kept out of the training."
    return (
        f"Counted on {rows} of {title}, a fifth of the data. Whether the model saw them in training"
        " is not known here."
    )


def _how(document: TableDocument) -> list[str]:
    found = document.generation
    variant = f", variant “{escaped(found.variant)}”" if found.variant else ""
    return [
        "### How it was measured",
        bullets(
            [
                (
                    f"A person is *affected* when the {sentences.noun(document)} decides"
                    " differently for a counterpart."
                    f" {escaped(counterparts.definition(document))} A near tie between two answers"
                    " is no difference."
                ),
                (
                    f"Everybody in the data was asked ({count(document.people.samples)}), and"
                    f" {count(document.dm_rs.samples)} possible people drawn uniformly from"
                    " everything the attributes allow (DM-RS)."
                    f" {escaped(sentences.plausible(document))}"
                ),
                (
                    f"A search (method “{escaped(found.method)}”{variant}) looked for as many cases"
                    f" as it could find. {escaped(sentences.searched(document))} It can show that"
                    " cases exist, not how common they are."
                ),
                (
                    f"{_held_out(document)} There, people and their counterparts were compared one"
                    " by one (IFR), and groups with each other."
                ),
            ]
        ),
    ]


# -- numbers ---------------------------------------------------------------------------------------


def _measures(document: TableDocument) -> list[str]:
    found, rates = document.generation, document.fairness.individual
    tried = f"{count(found.tried)} tried"
    gsr = ("Success rate of the search (GSR), no population rate", percent(found.gsr))
    table = Table(
        ("Measure", "Value", f"{level(document.dm_rs.confidence)} interval", "Measured on"),
        [*_from_catalogue(document), (*gsr, UNDEFINED, tried), *_scores(document)],
    )
    by_tau = tau_table(document)
    nearly = (
        f"Nearly the same means a Jensen–Shannon divergence of at most {rates.tau:g}"
        f" {escaped(rates.base)}."
    )
    return [
        "### Measures",
        table.markdown(),
        (
            f"All with seed {document.seed}."
            f" {nearly if rates.b.pairs else escaped(individual(document))}"
        ),
        *([] if by_tau is None else ["IFR_p by τ:", by_tau.markdown()]),
    ]


def _from_catalogue(document: TableDocument) -> list[Sequence[str]]:
    """The number of every measure that the run has, measures of other packages included. Those of
    groups have a table of their own.
    """
    rows: list[Sequence[str]] = []
    for name in MEASURES:
        measure = None if name in GROUPED else MEASURES.get(name)
        if measure is None:
            continue
        readings, write = added_readings(measure, document), WRITERS[measure.unit]
        for each in readings:
            if each.estimate is None and not each.measured_on:
                continue
            value = "not defined" if each.estimate is None else write(each.estimate)
            label = measure.title if len(readings) == 1 else each.what
            rows.append(
                (label, value, interval(each, write) or UNDEFINED, each.measured_on or UNDEFINED)
            )
    return rows


def _scores(document: TableDocument) -> list[Sequence[str]]:
    """What Themis measured itself."""
    if not (scores := sentences.scores(document)):
        return []
    return [
        (
            f"{name.capitalize()} score of Themis",
            percent(scores[name]),
            (
                f"{percent(scores[f'{name}_low'])} to {percent(scores[f'{name}_high'])}"
                f" ({level(scores['confidence'])})"
            ),
            f"{count(scores['draws'])} draws",
        )
        for name in ("causal", "group")
    ]


def _groups(document: TableDocument) -> list[str]:
    """ΔDP, ΔEO and the lowest impact ratio, by each attribute and their intersections; of many
    classes ΔEO of the favourable one.
    """
    group, classes = document.fairness.group, document.data.classes
    positive = document.fairness.positive
    if group is None or positive is None:
        return ["### Groups", escaped(selection(document)), *_base_rates(document)]
    answers = range(len(classes)) if len(classes) == 2 else [positive]
    rows = []
    for table in group.tables:
        least = lowest(table)
        gaps = (table.dp, *(table.eo[place] for place in answers))
        rows.append(
            (
                f"by {table.attribute}",
                *(_gap(gap) for gap in gaps),
                *(
                    ("not defined", UNDEFINED)
                    if least is None
                    else (measure_cell(least.impact_ratio, ratio), least.name)
                ),
            )
        )
    head = (
        "Groups",
        "ΔDP",
        *(f"ΔEO, truth “{classes[place]}”" for place in answers),
        "Lowest impact ratio",
        "of",
    )
    return [
        "### Groups",
        escaped(selection(document)),
        *_base_rates(document),
        Table(head, rows, words=(0, len(head) - 1)).markdown(),
        (
            "ΔDP is the highest minus the lowest selection rate of the groups, ΔEO the same among"
            " people whose true answer is the one named; small groups are not among the lowest"
            " ratios, and the intervals of all ratios hold together. A model that"
            " tells everybody the same has a difference of 0 and is worth nothing, so read them"
            " beside the accuracy."
        ),
    ]


def _base_rates(document: TableDocument) -> list[str]:
    """The true labels of the groups; long lists are in the report alone."""
    blocks: list[str] = []
    for rates in base_rates(document):
        if rates.is_long:
            continue
        title = f"True labels in the data, by {escaped(rates.attribute)}:"
        blocks += [title, rates.table.markdown(), *map(escaped, rates.remarks)]
    return blocks


def _gap(measure: EstimateDocument) -> Cell | str:
    return "not defined" if measure.estimate is None else measure_cell(measure, decimal)


def _division(table: SelectionTable, who: str) -> list[str]:
    """The table of one attribute or intersection, and after it who is not in it or says little."""
    shown = selection_table(table)
    missing = [escaped(sentence) for sentence in who_is_missing(table, who)]
    if not table.unknown:
        missing.append("There is nobody whose group is unknown.")
    if all(row.impact_ratio.estimate is None for row in table.rows):
        missing.append(
            "Nobody is selected in any group that could be the reference, so there is no impact"
            " ratio."
        )
    head = [name.capitalize() for name in shown.head]
    return [
        f"### By {named(table.attribute)}",
        Table(head, shown.rows, words=shown.words).markdown(),
        " ".join(missing),
    ]


# -- people ----------------------------------------------------------------------------------------


def _affected(document: TableDocument) -> list[str]:
    """Who is affected most: by sensitive value and by other attributes, those with the strongest
    evidence first.
    """
    people = document.people
    blocks = [
        "### Who is affected most",
        escaped(f"{sentences.affected(document)} {sentences.advantage(document)}"),
        *map(escaped, filter(None, [counterparts.no_counterpart(document)])),
        *map(escaped, counterparts.sentences(document)),
    ]
    if people.hits == 0:
        return blocks
    blocks += [
        escaped(text)
        for text in (severity_sentences.severity(document), severity_sentences.rule(document))
        if text
    ]
    values = sorted(people.values, key=lambda group: -group.low)[:SHOWN]
    table = Table(
        ("Group", "People", "Affected", "Interval"),
        [
            (
                f"{group.attribute}: {group.value}",
                count(group.samples),
                percent(group.estimate),
                interval(group),
            )
            for group in [*values, *people.groups[:SHOWN]]
        ],
    )
    about = (
        f"The intervals by {sentences.sensitive(document)} hold with {level(people.confidence)}"
        f" confidence each. {severity_sentences.intervals(document)}"
    )
    return [*blocks, table.markdown(longest=160), escaped(about)]


def _pair(document: TableDocument) -> list[str]:
    """The most striking pair, in words."""
    if not document.pairs:
        return []
    pair = document.pairs[0]
    one, other = (
        listed(f"{name} “{both[side]}”" for name, both in pair.sensitive.items()) for side in (0, 1)
    )
    about = (pair_sentences.usual(pair), sentences.whose_pairs(document))
    return [
        "### The most striking pair",
        escaped(
            f"Two people who are alike in everything else ({pair_sentences.shared(pair, '; ')})."
            f" With {one} the {sentences.noun(document)} decides “{pair.label}” (probability"
            f" {percent(pair.probability)}), with {other} it decides “{pair.label_other}”"
            f" (probability {percent(pair.probability_other)}). {' '.join(filter(None, about))}"
        ),
    ]


# -- a repair --------------------------------------------------------------------------------------


def _repaired(document: TableDocument) -> list[str]:
    """What a repair did to mitigate what was found, before and after, and beside its controls."""
    if (repair := document.repair) is None:
        return []
    columns = repair_sentences.networks(repair)
    measured = columns.values()
    table = Table(
        ("Measure", *columns),
        [
            ("Accuracy", *(measure_cell(each.accuracy) for each in measured)),
            (DM_RS, *(measure_cell(each.dm_rs) for each in measured)),
            (IFR_B, *(measure_cell(each.ifr_b) for each in measured)),
            (IFR_P, *(measure_cell(each.ifr_p) for each in measured)),
            ("ΔDP", *(measure_cell(each.dp, decimal) for each in measured)),
            ("Cases found by the same search", *(count(each.idis) for each in measured)),
        ],
    )
    written = [
        *repair_sentences.reasons(repair),
        *repair_sentences.changed(repair, sentences.sensitive(document)),
    ]
    return [
        "### The repair, before and after",
        (
            f"**{escaped(repair_sentences.headline(repair))}.** To mitigate what was found, the"
            f" model was repaired with “{escaped(repair.name)}”. {escaped(' '.join(written))}"
        ),
        table.markdown(),
    ]


# -- a certificate ---------------------------------------------------------------------------------


def _proved(document: TableDocument) -> list[str]:
    """What is proved about the network, where somebody asked for a certificate."""
    if (found := document.certificate) is None:
        return []
    say = certificate_sentences
    written = [say.rest(found), say.people(found), say.how(found), say.CAVEAT]
    return [
        "### What is proved",
        f"**{escaped(say.claim(found))}** {escaped(' '.join(text for text in written if text))}",
    ]


# -- limits, and how to repeat it ------------------------------------------------------------------


def _limits(document: TableDocument) -> list[str]:
    standing = (
        "The audit is about these attributes, this data and this model. What it did not find may"
        " exist all the same, and what was found can be mitigated, not proved absent."
    )
    return ["### Limits", bullets([standing, *map(escaped, document.notes)])]


def _again(document: TableDocument) -> list[str]:
    how = (
        fenced(document.command)
        if document.command
        else "The audit was made in Python; the run’s `report.html` has the lines that repeat it."
    )
    answers = "" if document.interpretation else ", if the model answers as before"
    early = (
        ""
        if document.generation.stopped == "complete"
        else " The search ended early, so a repetition may find another number of cases."
    )
    return [
        "### How to reproduce",
        how,
        (
            f"The same seed ({document.seed}) and the same versions ({_versions(document)}) give"
            f" the same numbers, apart from times{answers}.{early} Audited on"
            f" {escaped(date(document.created))}."
        ),
    ]


def _versions(document: TableDocument) -> str:
    return escaped(", ".join(f"{name} {version}" for name, version in document.versions.items()))
