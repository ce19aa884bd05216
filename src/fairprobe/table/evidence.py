"""Evidence for records that others keep: the run's numbers under the headings that regulators and
standards use, with slots for what only the provider of the system knows.

No number is computed and no legal conclusion is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairprobe.documents.table import TableRun
from fairprobe.metrics.group import IMPACT_RATIO
from fairprobe.report import Notes, Number, Section, Table, Text
from fairprobe.report.formats import amount, count, date, listed, percent
from fairprobe.runs.store import HashedFile
from fairprobe.table.affected import rates_table
from fairprobe.table.groups import LAW, lowest_ratio, scored_table, selection, selection_table
from fairprobe.table.people import PEOPLE
from fairprobe.table.report import notes
from fairprobe.table.words import majority, measured, rule_sentence, title, tolerance, verdict

SLOT = "Complete elsewhere:"


def bias_audit(run: TableRun) -> Section:
    """List selection or scoring rates by category and intersection, as New York City's Local Law
    144 does.
    """
    if run.amounts is not None:
        tables = [scored_table(groups) for groups in run.amounts.groups]
        text = f"{LAW} The median of the sample is {amount(run.amounts.median)}."
        return Section(f"Bias audit: {title(run)}", [Text(text), *tables])
    fairness = run.fairness
    group = None if fairness is None else fairness.group
    if fairness is None or group is None:
        return Section(
            f"Bias audit: {title(run)}", [Text(selection(run, fairness))] if fairness else []
        )
    who = "held out of its training" if run.model.trained_here else "a fifth of the data"
    about = [
        f"Measured on {count(fairness.rows)} rows, {who}. A group is small with fewer than"
        f" {percent(group.tables[0].smallest)} of the people of known group; the impact ratio is"
        " over the highest rate of all other groups.",
        f"Audited on {date(run.created)} with seed {run.seed} and"
        f" {listed(f'{name} {version}' for name, version in run.versions.items())}.",
        "The form is that of a bias audit after New York City’s Local Law 144. That law asks for an"
        " independent auditor and, where there is any, for data of the tool’s own use; whether this"
        " table meets it is not decided here.",
        *([] if run.model.decision is None else [rule_sentence(run.model.decision)]),
    ]
    return Section(
        f"Bias audit: {title(run)}",
        [
            Text(selection(run, fairness)),
            *(Section(f"By {table.attribute}", [selection_table(table)]) for table in group.tables),
            Section("About this table", [Notes(about)]),
        ],
    )


def evidence(run: TableRun, files: Sequence[HashedFile]) -> Section:
    """Collect the evidence of a run and the hashes of its files."""
    return Section(
        f"Fairness evidence: {title(run)}",
        [
            Text(
                "This text reports measurements. It draws no legal conclusion, applies no legal"
                " limit, and does not say that a requirement is met: that is for people who know"
                " the law and the use of the system."
            ),
            _manifest(run, files),
            Section(
                "Selection and scoring rates (as listed by New York City Local Law 144)",
                [
                    *bias_audit(run).blocks,
                    Text(
                        f"{SLOT} the categories that the law names (sex, race or ethnicity,"
                        " intersections) and how they were collected; the number of people whose"
                        " category is unknown; the source and dates of the data; whether the data"
                        " are historical or test data; the distribution date of the tool."
                    ),
                ],
            ),
            _annex(run),
            _examination(run),
            _profile(run),
        ],
    )


def _manifest(run: TableRun, files: Sequence[HashedFile]) -> Section:
    data, model = run.data, run.model
    rows = [
        ("date of the audit", run.created),
        ("command", run.command or "from Python"),
        ("seed", str(run.seed)),
        *((f"version of {name}", version) for name, version in run.versions.items()),
        ("data", f"{data.title}, {count(data.rows)} rows"),
    ]
    if data.origin is not None and data.origin.sha256:
        rows.append(("SHA-256 of the table", data.origin.sha256))
    if model.origin is not None:
        rows += [(f"SHA-256 of {name}", digest) for name, digest in model.origin.files.items()]
    rows += [
        (f"SHA-256 of {file.name}", f"{file.sha256} ({count(file.size)} bytes)") for file in files
    ]
    return Section(
        "Manifest",
        [
            Text(
                "The hashes are of the files as they are now in the run folder, and of the table"
                " and the model as they were read for the audit."
            ),
            Table(("what", "value"), rows, words=(0, 1)),
            Text(f"{SLOT} who keeps this record, where, and for how long."),
        ],
    )


def _annex(run: TableRun) -> Section:
    found, made = run.generation, run.plausible
    rule = (
        "are different decisions"
        if run.amounts is None
        else f"differ by more than {tolerance(run.amounts.tolerance)}"
    )
    others = (
        "" if made is None else f", {count(made.affected.samples)} plausible people made from them"
    )
    return Section(
        "Validation and testing (EU AI Act, Annex IV, point 2(g))",
        [
            Notes(
                [
                    "Procedure: each person was compared with counterparts who differ in"
                    f" {listed([*run.sensitive, *run.coupled])} only; a person is affected when the"
                    f" two answers {rule}. A search (method {found.method}, seed {run.seed}) judged"
                    f" {count(found.judged)} further people and found {count(found.idis)} cases.",
                    f"Test data: {count(run.people.samples)} people of {run.data.title}{others},"
                    f" and {count(run.dm_rs.samples)} people drawn from all the schema allows.",
                    f"Accuracy: {_quality(run)}",
                    f"Potentially discriminatory impacts: {verdict(run)}",
                    f"Report: report.html of this run, dated {run.created}; all numbers in"
                    " audit.json.",
                    f"{SLOT} robustness and cybersecurity tests; tests of the system as a whole;"
                    " who is responsible for this report, with signature and date; predetermined"
                    " changes.",
                ]
            )
        ],
    )


def _quality(run: TableRun) -> str:
    if run.fairness is not None:
        accuracy = run.fairness.quality.accuracy
        return (
            f"{percent(accuracy.estimate)} of {count(accuracy.samples)} people {measured(run)}"
            f" ({percent(accuracy.low)} to {percent(accuracy.high)}); the majority class alone:"
            f" {percent(majority(run))}."
        )
    quality = None if run.amounts is None else run.amounts.quality
    if quality is None:
        return "not measured; the data has no true amounts."
    return (
        f"mean absolute error {amount(quality.error.estimate or 0)} on {count(quality.rows)} people"
        f" (always predicting the mean: {amount(quality.error_of_mean)})."
    )


def _examination(run: TableRun) -> Section:
    lowest = None if run.fairness is None else lowest_ratio(run.fairness.together)
    change = None if run.amounts is None else run.amounts.change
    return Section(
        "Examination of possible biases (EU AI Act, Article 10(2)(f))",
        [
            Number(run.people, PEOPLE),
            rates_table([*run.people.values, *run.people.groups[:5]], run.people),
            Number(lowest.impact_ratio, IMPACT_RATIO, unit="ratio", detail=lowest.name)
            if lowest
            else None,
            Text(
                "Mean change of the answer between counterparts:"
                f" {amount(change.mean.estimate or 0)}; largest {amount(change.largest)}."
            )
            if change
            else None,
            Text(
                f"{SLOT} how the data were collected and labeled; whether outputs influence later"
                " inputs; which groups are missing; measures to detect, prevent and mitigate bias"
                " (Article 10(2)(g)); harms to health, safety and fundamental rights."
            ),
        ],
    )


def _profile(run: TableRun) -> Section:
    rows = [
        ("system and purpose", f"{SLOT} context, purpose, intended users"),
        ("stakeholders", f"{SLOT} who is affected, who was consulted"),
        (
            "data representation",
            f"{run.data.title}: {count(run.data.rows)} rows; sensitive attributes"
            f" {listed(run.sensitive)}",
        ),
        ("values absent from the data", listed(run.people.absent) or "none"),
        ("bias measured", verdict(run)),
        ("limits of the measurement", " ".join(notes(run)[:3])),
        ("risk and impact", f"{SLOT} severity of harms, accepted risks, decisions"),
        ("monitoring", f"{SLOT} drift, complaints, dates of the next audits"),
        ("date", date(run.created)),
    ]
    table = Table(("part", "what this run says"), rows, words=(0, 1))
    return Section("Bias profile (skeleton after IEEE 7003-2024)", [table])
