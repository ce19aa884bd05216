"""Evidence for a file that others keep: what a run measured, under the headings that regulators and
standards use, with slots for what only the provider of the system knows.

Nothing is computed, and no legal conclusion is drawn: numbers are the report's, and a heading says
where a reader may look for them, not that a requirement is met.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairprobe.documents import ScoresDocument, TableDocument
from fairprobe.present import score_sentences, sentences
from fairprobe.present.markdown import audit_table
from fairprobe.present.score_summary import groups_table
from fairprobe.present.table import Table
from fairprobe.report.formats import amount, count, date, listed, percent, ratio
from fairprobe.report.markdown import bullets, escaped, joined
from fairprobe.runs.store import HashedFile

SLOT = "*Complete elsewhere:*"
NOTHING_LEGAL = (
    "This text reports measurements. It draws no legal conclusion, applies no legal limit, and does"
    " not say that a requirement is met: that is for people who know the law and the use of the"
    " system."
)


def evidence(document: TableDocument | ScoresDocument, files: Sequence[HashedFile]) -> str:
    """All sections, in Markdown."""
    return joined(
        [
            f"# Fairness evidence: {escaped(_title(document))}",
            NOTHING_LEGAL,
            *_manifest(document, files),
            *_bias_audit(document),
            *_annex(document),
            *_examination(document),
            *_profile(document),
        ]
    )


def _title(document: TableDocument | ScoresDocument) -> str:
    if isinstance(document, ScoresDocument):
        return score_sentences.title(document)
    return sentences.title(document)


def _manifest(document: TableDocument | ScoresDocument, files: Sequence[HashedFile]) -> list[str]:
    """What a record is kept of: when, with what, from what."""
    data, model = document.data, document.model
    rows = [
        ("date of the audit", document.created),
        ("command", document.command or "from Python"),
        ("seed", str(document.seed)),
        *((f"version of {name}", text) for name, text in document.versions.items()),
        ("data", f"{data.title}, {count(data.rows)} rows"),
    ]
    if data.origin is not None and data.origin.sha256:
        rows.append(("SHA-256 of the table", data.origin.sha256))
    if model.origin is not None:
        rows += [(f"SHA-256 of {name}", text) for name, text in model.origin.files.items()]
    rows += [
        (f"SHA-256 of {each.name}", f"{each.sha256} ({count(each.size)} bytes)") for each in files
    ]
    return [
        "## Manifest",
        (
            "What was audited, when and with what, so that the record can be checked later. The"
            " hashes are of the files as they are now in the run folder, and of the table and the"
            " model as they were read for the audit."
        ),
        Table(("what", "value"), rows, words=(0, 1)).markdown(longest=200),
        f"{SLOT} who keeps this record, where, and for how long.",
    ]


def _bias_audit(document: TableDocument | ScoresDocument) -> list[str]:
    """The tables that a bias audit under New York City's Local Law 144 lists."""
    head = "## Selection and scoring rates (as listed by New York City Local Law 144)"
    slot = (
        f"{SLOT} the categories that the law names (sex, race or ethnicity, intersections) and how"
        " they were collected; the number of people whose category is unknown; the source and dates"
        " of the data; whether the data are historical or test data; the distribution date of the"
        " tool."
    )
    if isinstance(document, TableDocument):
        return [head, _lowered(audit_table(document)), slot]
    return [
        head,
        escaped(f"{score_sentences.LAW} The median of the sample is {amount(document.median)}."),
        *(groups_table(table).markdown() for table in document.groups),
        slot,
    ]


def _lowered(text: str) -> str:
    """The same Markdown with its headings one level down."""
    return "\n".join(f"#{line}" if line.startswith("#") else line for line in text.splitlines())


def _annex(document: TableDocument | ScoresDocument) -> list[str]:
    """Under point 2(g) of Annex IV of the EU's AI Act."""
    return [
        "## Validation and testing (EU AI Act, Annex IV, point 2(g))",
        bullets(
            [
                f"Procedure: {_procedure(document)}",
                f"Test data: {_people(document)}",
                f"Accuracy: {_quality(document)}",
                f"Potentially discriminatory impacts: {escaped(document.verdict)}",
                f"Report: report.html of this run, dated {escaped(document.created)}; all numbers"
                " in audit.json.",
                f"{SLOT} robustness and cybersecurity tests; tests of the system as a whole; who is"
                " responsible for this report, with signature and date; predetermined changes.",
            ]
        ),
    ]


def _procedure(document: TableDocument | ScoresDocument) -> str:
    found = document.generation
    rule = (
        f"differ by more than {escaped(score_sentences.tolerance(document))}"
        if isinstance(document, ScoresDocument)
        else "are different decisions"
    )
    return (
        f"each person was compared with counterparts who differ in"
        f" {escaped(listed([*document.sensitive, *document.coupled]))} only; a person is affected"
        f" when the two answers {rule}. A search (method {escaped(found.method)}, seed"
        f" {document.seed}) judged {count(found.judged)} further people and found"
        f" {count(found.idis)} cases."
    )


def _people(document: TableDocument | ScoresDocument) -> str:
    people, made = document.people, document.plausible
    others = (
        "" if made is None else f", {count(made.affected.samples)} plausible people made from them"
    )
    return (
        f"{count(people.samples)} people of {escaped(document.data.title)}{others}, and"
        f" {count(document.dm_rs.samples)} people drawn from all that the schema allows."
    )


def _quality(document: TableDocument | ScoresDocument) -> str:
    if isinstance(document, ScoresDocument):
        return escaped(score_sentences.quality(document))
    model = document.model
    return (
        f"{percent(model.accuracy)} of {count(model.accuracy_rows)} people (interval"
        f" {percent(model.accuracy_low)} to {percent(model.accuracy_high)}); the commonest answer"
        f" alone: {percent(model.majority)}."
    )


def _examination(document: TableDocument | ScoresDocument) -> list[str]:
    """Under Article 10(2)(f) of the EU's AI Act."""
    people = document.people
    worst = [
        f"{each.attribute} {each.value}: {percent(each.estimate)} affected"
        for each in people.groups[:5]
    ]
    return [
        "## Examination of possible biases (EU AI Act, Article 10(2)(f))",
        bullets(
            [
                f"People in the data affected: {percent(people.estimate)} ({count(people.hits)} of"
                f" {count(people.samples)}, interval {percent(people.low)} to"
                f" {percent(people.high)}).",
                *(
                    escaped(
                        f"By value of {each.attribute}, {each.value}: {percent(each.estimate)} of"
                        f" {count(each.samples)}."
                    )
                    for each in people.values
                ),
                *(["Groups most affected: " + escaped("; ".join(worst)) + "."] if worst else []),
                *(_rates(document)),
                f"{SLOT} how the data were collected and labeled; whether outputs influence later"
                " inputs; which groups are missing; measures to detect, prevent and mitigate bias"
                " (Article 10(2)(g)); harms to health, safety and fundamental rights.",
            ]
        ),
    ]


def _rates(document: TableDocument | ScoresDocument) -> list[str]:
    if isinstance(document, ScoresDocument):
        found = document.change
        return [
            "Mean change of the answer between counterparts:"
            f" {amount(found.mean.estimate or 0)}; largest {amount(found.largest)}."
        ]
    group = document.fairness.group
    rows = (
        []
        if group is None
        else [row for row in group.tables[-1].rows if not row.is_small and not row.is_empty]
    )
    known = [row for row in rows if row.impact_ratio.estimate is not None]
    if not known:
        return []
    least = min(known, key=lambda row: row.impact_ratio.estimate or 0)
    return [
        f"Lowest impact ratio of the selection rates: {ratio(least.impact_ratio.estimate or 0)}"
        f" ({escaped(least.name)})."
    ]


def _profile(document: TableDocument | ScoresDocument) -> list[str]:
    """A skeleton of the bias profile that IEEE 7003-2024 describes."""
    return [
        "## Bias profile (skeleton after IEEE 7003-2024)",
        Table(
            ("part", "what this run says"),
            [
                ("system and purpose", f"{SLOT} context, purpose, intended users"),
                ("stakeholders", f"{SLOT} who is affected, who was consulted"),
                (
                    "data representation",
                    f"{document.data.title}: {count(document.data.rows)} rows; sensitive attributes"
                    f" {listed(document.sensitive)}",
                ),
                ("values absent from the data", listed(document.people.absent) or "none"),
                ("bias measured", document.verdict),
                ("limits of the measurement", " ".join(document.notes[:3])),
                ("risk and impact", f"{SLOT} severity of harms, accepted risks, decisions"),
                ("monitoring", f"{SLOT} drift, complaints, dates of the next audits"),
                ("date", date(document.created)),
            ],
            words=(0, 1),
        ).markdown(longest=600),
    ]
