"""Report of an audit of a table: a tree of sections, built from the run alone."""

from __future__ import annotations

from fairprobe.catalogue import MEASURES
from fairprobe.certificates.report import certificate_section
from fairprobe.certificates.report import numbers as certified
from fairprobe.documents.table import FORMAT, TableRun
from fairprobe.measures import added_readings
from fairprobe.metrics.group import IMPACT_RATIO
from fairprobe.metrics.quality import ACCURACY
from fairprobe.metrics.rates import DM_RS
from fairprobe.metrics.scores import CHANGE
from fairprobe.repairs.report import repair_section, repair_summary
from fairprobe.report import Code, Notes, Number, Section, Table, Terms, Text, Verdict
from fairprobe.report.formats import (
    amount,
    count,
    decimal,
    folded,
    listed,
    milliseconds,
    percent,
    plural,
    quoted,
    seconds,
)
from fairprobe.report.sections import Status
from fairprobe.runs.kinds import Kind
from fairprobe.table.affected import affected_section, definition, pairs_section, values_plot
from fairprobe.table.chat import chat_section
from fairprobe.table.generation import IDIS
from fairprobe.table.groups import (
    change_section,
    groups_section,
    lowest_ratio,
    rates_section,
    scored_section,
)
from fairprobe.table.neurons import neurons_section
from fairprobe.table.people import PEOPLE
from fairprobe.table.plausible import PLAUSIBLE_PEOPLE
from fairprobe.table.repeat import python
from fairprobe.table.severity import severity_number
from fairprobe.table.words import (
    changing,
    has_phases,
    headline,
    majority,
    name,
    noun,
    rule_in_short,
    rule_sentence,
    status,
    themis,
    title,
    tolerance,
    verdict,
)

MAX_VALUES = 6  # bars on the first screen
STOPPED = {
    "interrupted": "was interrupted",
    "seconds": "ended when its time was up",
    "cpu_seconds": "ended when its computing time was up",
    "rows": "ended when it had judged as many rows as allowed",
    "wanted": "ended when it had found as many cases as wanted",
}


def report(run: TableRun) -> Section:
    """Build the report."""
    certificate, fairness, amounts = run.certificate, run.fairness, run.amounts
    return Section(
        title(run),
        [
            _facts(run),
            repair_summary(run.repair, name(run)) if run.repair else None,
            _summary(run),
            repair_section(run.repair, run.data.classes) if run.repair else None,
            None if amounts is None else change_section(run, amounts),
            affected_section(run),
            chat_section(run.chat) if run.chat else None,
            pairs_section(run),
            groups_section(run, fairness) if fairness else None,
            rates_section(run, fairness) if fairness else None,
            None if amounts is None else scored_section(run, amounts),
            certificate_section(certificate) if certificate else None,
            neurons_section(run),
            Section("All measures", [_measures(run), _themis(run)], anchor="measures"),
            Section("To read the numbers rightly", [Notes(notes(run))], level="appendix"),
            _method(run),
            _subject(run),
            _repeat(run),
        ],
        eyebrow=f"Fairness audit{f' of a repaired {noun(run)}' if run.repair else ''}",
    )


# -- the first screen ------------------------------------------------------------------------------


def _facts(run: TableRun) -> Terms:
    rule, amounts = run.model.decision, run.amounts
    facts: dict[str, str | Number] = {
        "Data": f"{run.data.title}, {plural(run.data.rows, 'row')}",
        noun(run).capitalize(): run.model.network,
        "Search": run.generation.method,
    }
    if rule is not None:
        facts["Decision rule"] = rule_in_short(rule)
    if amounts is not None:
        default = " (the default; set it with --tolerance)" if amounts.tolerance.is_default else ""
        facts["Tolerance"] = f"{tolerance(amounts.tolerance)}{default}"
    return Terms(facts)


def _summary(run: TableRun) -> Section:
    """Answer who, how many, how sure, and what now."""
    kinds: dict[str, Status] = {"found": "found", "none": "none", "constant": "unclear"}
    return Section(
        "Result",
        [
            Verdict(headline(run), verdict(run), kinds[status(run)]),
            values_plot(run, MAX_VALUES) if run.people.values else None,
            *_numbers(run),
            Section("What now", [Notes(_next_steps(run))], level="summary"),
        ],
        level="summary",
    )


def _numbers(run: TableRun) -> list[Number | None]:
    """Choose the numbers that carry the verdict."""
    people, common, found, made = run.people, run.dm_rs, run.generation, run.plausible
    numbers: list[Number | None] = [
        Number(people, PEOPLE, detail=f"{count(people.hits)} of {count(people.samples)}"),
        None
        if made is None
        else Number(
            made.affected,
            PLAUSIBLE_PEOPLE,
            detail=f"{count(made.affected.hits)} of {count(made.affected.samples)}",
        ),
        Number(common, DM_RS, detail=f"{count(common.hits)} of {count(common.samples)} drawn"),
        Number(found.idis, IDIS, detail=f"among {count(found.tried)} tried"),
    ]
    if run.amounts is not None:
        largest = f"largest {amount(run.amounts.change.largest)}"
        numbers.append(Number(run.amounts.change.mean, CHANGE, unit="amount", detail=largest))
    if run.certificate is not None:
        numbers += certified(run.certificate)
    if run.people.severity is not None:
        numbers.append(severity_number(run.people.severity))
    if run.fairness is not None:
        lowest = lowest_ratio(run.fairness.together)
        numbers += [
            None
            if lowest is None
            else Number(lowest.impact_ratio, IMPACT_RATIO, unit="ratio", detail=lowest.name),
            Number(
                run.fairness.quality.accuracy,
                ACCURACY,
                detail=f"majority class: {percent(majority(run))}",
            ),
        ]
    return numbers


def _next_steps(run: TableRun) -> list[str]:
    """Suggest what to do with the result."""
    if run.model.constant:
        return ["Check the model and how it was loaded: it gives everybody the same answer."]
    steps = []
    if run.repair is None and status(run) == "found":
        steps.append(
            "Look at the striking pairs: would another answer be justified? If not, “fairprobe"
            " repair RUN” tries to mitigate it and proves what that costs."
        )
    if status(run) == "none":
        steps.append(
            f"This is evidence within the limits described below, for {name(run)} only. Audit other"
            " attributes; “fairprobe certify RUN” tries to prove it."
        )
    if run.generation.stopped == "interrupted":
        steps.append("The search was interrupted. Audit again to find all cases it can find.")
    steps.append("Set limits with “fairprobe check RUN --policy policy.toml” for the next version.")
    return steps


# -- measures --------------------------------------------------------------------------------------


def _measures(run: TableRun) -> Table:
    """List what every measure says about the run, those of other packages included."""
    rows: list[tuple[str | Number, ...]] = []
    for key in MEASURES:
        measure = MEASURES.get(key)
        readings = [] if measure is None else added_readings(measure, run)
        for reading in readings:
            if measure is None or (reading.estimate is None and not reading.measured_on):
                continue
            label = measure.title if len(readings) == 1 else reading.what
            rows.append((label, Number(reading, unit=measure.unit), reading.measured_on or "–"))
    rows.append(
        (
            "Success rate of the search (GSR), not a population rate",
            Number(run.generation.gsr, unit="share"),
            f"{count(run.generation.tried)} tried",
        )
    )
    caption = f"In parentheses: 95 % intervals. Seed {run.seed}."
    return Table(("measure", "value", "measured on"), rows, caption, words=(0, 2), folded=True)


def _themis(run: TableRun) -> Table | None:
    """List the scores that Themis measured itself."""
    scores = themis(run)
    if not scores:
        return None
    rows = [
        (
            label,
            percent(scores[key]),
            f"{percent(scores[f'{key}_low'])} to {percent(scores[f'{key}_high'])}",
        )
        for key, label in (("causal", "causal score"), ("group", "group score"))
    ]
    return Table(
        ("Themis", "score", f"{percent(scores['confidence'])} interval"),
        rows,
        f"{plural(scores['draws'], 'draw')}. Causal: the share of possible people affected, with"
        " other draws. Group: the widest difference between two groups in how often they get an"
        " answer; it compares groups, not a person with a counterpart.",
    )


# -- how it was measured ---------------------------------------------------------------------------


def _method(run: TableRun) -> Section:
    found, inside = run.generation, run.interpretation
    about = found.description
    how = (
        about.how if about else f"A user's own method, started from {plural(found.seeds, 'seed')}."
    )
    phases = (
        f" ({count(found.global_idis)} in the global, {count(found.local_idis)} in the local phase)"
        if has_phases(found)
        else ""
    )
    variant = f", variant “{found.variant}”" if found.variant else ""
    answer = (
        "decides differently for at least one counterpart. A near tie between two answers is not a"
        " difference"
        if run.amounts is None
        else "answers some counterpart with an amount that differs by more than the tolerance. A"
        " difference within rounding counts as 0"
    )
    terms: dict[str, str | Number] = {
        "Counterpart": f"{definition(run)} All values of {name(run)} are tried.",
        "Affected": f"A person is affected if the {noun(run)} {answer}.",
        **({"Decision rule": rule_sentence(run.model.decision)} if run.model.decision else {}),
        "People in the data": f"All {count(run.people.samples)} rows with {name(run)} inside the"
        " domain.",
        "Possible people": f"{count(run.dm_rs.samples)} people drawn uniformly from everything the"
        " attributes allow, with bare counterparts, as in the papers. Most of them could not exist."
        " Intervals are exact (Clopper–Pearson).",
        "Search": f"Method “{found.method}”{variant}. {how} It tried {count(found.tried)} different"
        f" people ({count(found.judged)} judged) and found {plural(found.idis, 'case')}{phases}. It"
        " shows that cases exist, not how common they are.",
        "Spread": "Not defined: it needs two cases."
        if found.spread is None
        else f"{decimal(found.spread)}: the mean distance of two cases, from 0 (equal) to 1.",
        "Time": f"{seconds(found.wall_seconds)} for the search ({seconds(found.cpu_seconds)} of"
        f" processor time{_for_1000(found.cpu_ms_per_1000_idis)}).",
    }
    if found.cells is not None:
        terms["Cells"] = (
            f"{percent(found.cells)}: different cells of a coarse grid (each attribute in quarters)"
            " per case. Few cells mean many cases of a few kinds."
        )
    if found.distance is not None:
        terms["Distance to the seed"] = (
            f"{decimal(found.distance)}: the mean distance of a case to the person that the search"
            " started from."
        )
    if inside is not None:
        terms["AUC of a layer"] = (
            f"How strongly its neurons react to {changing(run)}, from 0 to 1: the area under the"
            " curve of the share of neurons above a threshold. Biased neurons react more than the"
            " threshold where that curve meets the diagonal."
        )
    return Section("How it was measured", [Terms(terms)], level="appendix", anchor="measured")


def _for_1000(milliseconds_: float | None) -> str:
    return "" if milliseconds_ is None else f"; {milliseconds(milliseconds_)} for 1,000 cases"


def notes(run: TableRun) -> list[str]:
    """List what a careful reader must know to read the numbers correctly."""
    written = [
        f"The search looks where it expects discrimination. Its success rate"
        f" ({percent(run.generation.gsr)}) says how well it looks, not how many people are"
        " affected.",
        "Possible people are drawn uniformly: every combination of values is equally likely, also"
        " those that are rare in life.",
        *_rule_notes(run),
        *_model_notes(run),
        *_data_notes(run),
        *(_class_notes(run) if run.amounts is None else _amount_notes(run)),
    ]
    stopped = run.generation.stopped
    if stopped != "complete":
        written.append(
            f"The search {STOPPED.get(stopped, 'ended early')}; it might have found more cases."
        )
    return written


def _rule_notes(run: TableRun) -> list[str]:
    rule = run.model.decision
    if rule is None or not rule.thresholds or rule.by not in run.sensitive:
        return []
    return [
        f"The decision rule itself treats people by {rule.by}: a counterpart is decided with the"
        f" threshold of their own {rule.by}, so people between two thresholds are affected even if"
        f" the model ignores {rule.by}. This is disparate treatment by design."
    ]


def _model_notes(run: TableRun) -> list[str]:
    model, refuted, written = run.model, run.generation.refuted, []
    if blind := [attribute for attribute in run.sensitive if attribute in model.blind_to]:
        written.append(
            f"The {noun(run)} does not use {listed(blind)}, so it cannot distinguish two people who"
            " differ in nothing else."
        )
    if refuted is not None:
        dropped = f"; {count(refuted)} that it did not confirm were dropped" if refuted else ""
        written.append(
            "The search used a network rebuilt from the model. The model itself then confirmed"
            f" each of the {count(run.generation.idis)} cases{dropped}."
        )
    return written


def _data_notes(run: TableRun) -> list[str]:
    data, written = run.data, []
    if data.origin is not None and data.origin.ids:
        written.append(
            f"Left out, because they look like ids: {quoted(data.origin.ids)}. Nearly every row has"
            " its own value. Use --set keep to keep a column."
        )
    if data.origin is not None and data.origin.weights is not None:
        written.append(
            f"The sample weights “{data.origin.weights}” count in training and in the table of"
            " weighted numbers. All other numbers count everybody once."
        )
    if data.outside.rows:
        written.append(
            f"{count(data.outside.rows)} of {count(data.rows)} rows have a value outside the"
            f" schema's bounds ({folded(_outside(run), most=5)}). They count as people in the data;"
            " as seeds of the search they are clipped."
        )
    if run.people.absent:
        written.append(
            f"No person in the data has these values: {quoted(run.people.absent)}. The"
            f" {noun(run)}'s answers for them are extrapolated."
        )
    if data.constraints:
        written.append(f"Generated people obey these rules: {', '.join(data.constraints)}.")
    return written


def _outside(run: TableRun) -> list[str]:
    by_attribute = run.data.outside.by_attribute.items()
    by_rows = sorted(by_attribute, key=lambda item: -item[1])
    return [f"{attribute} {count(rows)}" for attribute, rows in by_rows]


def _class_notes(run: TableRun) -> list[str]:
    fairness, classes = run.fairness, run.data.classes
    if fairness is None:
        return []
    accuracy, commonest = fairness.quality.accuracy, majority(run)
    where = (
        "rows held out of the training. The papers report accuracy on training data"
        if run.model.trained_here
        else "rows, a fifth of the data, which may have been used in training"
    )
    written = [
        f"The accuracy of {percent(accuracy.estimate)} was measured on {count(accuracy.samples)}"
        f" {where}. The majority class alone would reach {percent(commonest)}."
    ]
    if len(classes) == 2 and 1 - accuracy.high > commonest:
        written.append(
            f"With its answers swapped, the {noun(run)} would be right for"
            f" {percent(1 - accuracy.estimate)}. Most likely its classes have another order than"
            f" the data's (“{classes[0]}”, “{classes[1]}”), and all statements about who gets which"
            " answer are swapped. Give the order when loading the model (--classes)."
        )
    return written


def _amount_notes(run: TableRun) -> list[str]:
    amounts = run.amounts
    if amounts is None:
        return []
    written = [
        "Changes compare a person with a counterpart; the groups' scores compare different people,"
        " and may differ for reasons that the attribute does not cause."
    ]
    if amounts.quality is not None and amounts.quality.r2 <= 0:
        written.append(
            f"The {noun(run)} predicts no better than the mean of all amounts; changes of its"
            " answers mean little."
        )
    if amounts.change.largest == 0:
        written.append(
            "A change of 0 is a change within rounding. The interval of the share above the"
            " tolerance bounds how many other people may have a change."
        )
    return written


# -- the subject, and how to repeat the audit ------------------------------------------------------


def _subject(run: TableRun) -> Section:
    data, model = run.data, run.model
    size = [plural(model.inputs, "input")]
    inside = run.interpretation
    size += [] if inside is None else [plural(len(inside.layers), "hidden layer")]
    size += [plural(model.parameters, "parameter")] if model.parameters is not None else []
    favorable = "" if data.favourable_class is None else f"; favorable: {data.favourable_class}"
    others = [attribute for attribute in data.attributes if attribute not in run.sensitive]
    answers = "an amount" if run.amounts is not None else ", ".join(data.classes)
    trained = "trained by fairprobe" if model.trained_here else "supplied by the user"
    terms = {
        noun(run).capitalize(): f"{model.network}, {trained}; {', '.join(size)}",
        "Data set": f"{data.title} ({run.dataset}), {plural(data.rows, 'row')}",
        "About": data.about,
        "Source": data.source,
        "License": data.licence,
        "Citation": data.citation,
        "Decision": f"{data.label}: {answers}{favorable}",
        "Sensitive": name(run),
        "Other attributes": folded(others),
        "Rows outside the bounds": folded(_outside(run)) or "none",
    }
    shown = {term: text for term, text in terms.items() if text}
    return Section("Model and data", [Terms(shown)], level="appendix")


def _repeat(run: TableRun) -> Section:
    same = "" if run.interpretation else ", if the model answers as before"
    early = (
        ""
        if run.generation.stopped == "complete"
        else " The search ended early, so a repetition may find another number of cases."
    )
    changes = f"{'_other, '.join([*run.sensitive, *run.coupled])}_other"
    columns = (
        "label, label_other, probability, probability_other, gap"
        if run.amounts is None
        else "answer, answer_other, change"
    )
    return Section(
        "How to repeat it",
        [
            Code(run.command, "sh") if run.command else None,
            Text("In the run folder, in Python:"),
            Code(python(run), "python"),
            Text(
                f"The same seed ({run.seed}) and versions give the same numbers, apart from"
                f" times{same}.{early} audit.json contains all numbers (format {run.format}),"
                f" findings.parquet all {plural(run.generation.idis, 'case')}: a column for each"
                f" attribute (as codes), {changes} for the counterpart, {columns}, phase, origin."
            ),
            Terms({**run.versions, "Time of the audit": run.created}),
        ],
        level="appendix",
        anchor="repeat",
    )


KIND = Kind(
    name="table",
    title="a table",
    format=FORMAT,
    run=TableRun,
    report=report,
    is_judged=True,
)
