"""Report of a certificate, as a section of a run's report and as a report of its own; and the
measures that the gate can limit. The numbers are proved, so they have no interval; only the share
of people in the data has one.
"""

from __future__ import annotations

from fairprobe.documents.certificate import CertificateDocument, ProvedPeople
from fairprobe.documents.table import TableMeasurements
from fairprobe.measures import Measure, Reading, by, reading_of_counterparts
from fairprobe.report import Bar, Bars, Number, Plot, Section, Table, Terms, Text, Verdict
from fairprobe.report.formats import count, interval, level, percent, seconds
from fairprobe.report.sections import UNDEFINED, Status
from fairprobe.versions import versions

CAVEAT = (
    "The proof is about the model in real arithmetic, with its numbers as they are stored. It is"
    " about all people that the schema allows, however unusual, and about these attributes alone. A"
    " program that rounds differently can answer otherwise for people next to the boundary."
)
MISSING = "this run has no certificate. Make one: fairprobe certify RUN"
ALL = "all possible people"


def _proved_share(run: TableMeasurements) -> list[Reading]:
    what = f"share of possible people proved to be treated alike, whatever their {by(run)}"
    if run.certificate is None:
        return [Reading(what=what, missing=MISSING)]
    return [Reading(what=what, estimate=run.certificate.proved, measured_on=ALL)]


def _upper_bound(run: TableMeasurements) -> list[Reading]:
    what = f"share of possible people who can be affected by {by(run)} at most"
    if run.certificate is None:
        return [Reading(what=what, missing=MISSING)]
    return [Reading(what=what, estimate=run.certificate.upper_bound, measured_on=ALL)]


def _proved_people(run: TableMeasurements) -> list[Reading]:
    what = "share of people in the data proved with everybody within ± 1"
    near = None if run.certificate is None else run.certificate.within(1)
    if near is None:
        return [Reading(what=what, missing=MISSING)]
    return [reading_of_counterparts(run, what, near, missing=MISSING, of="people in the data")]


PROVED_SHARE = Measure(
    name="proved_share",
    title="Possible people proved",
    about=(
        "The share of all possible people of whom it is proved, not sampled, that the network"
        " treats them as their counterparts."
    ),
    unit="share",
    direction="at least",
    read=_proved_share,
)
PROVED_PEOPLE = Measure(
    name="proved_people",
    title="People in the data proved within ± 1",
    about=(
        "The share of people in the data of whom it is proved that they, and everybody whose"
        " numbers differ from theirs by at most 1, are treated as their counterparts."
    ),
    unit="share",
    direction="at least",
    read=_proved_people,
)
UPPER_BOUND = Measure(
    name="upper_bound",
    title="Possible people who can be affected",
    about=(
        "At most this share of all possible people is affected: what is not proved, or the exact"
        " share where everybody was queried."
    ),
    unit="share",
    direction="at most",
    read=_upper_bound,
)


def report(found: CertificateDocument, title: str) -> Section:
    """Build the report of a certificate alone."""
    near, exact = found.within(1), found.affected
    status: Status = "unclear" if exact is None else "found" if exact else "none"
    return Section(
        f"Certificate: {title}",
        [
            Section(
                "Result",
                [
                    Verdict(claim(found), _rest(found), status),
                    *numbers(found),
                    None if near is None else Number(near, PROVED_PEOPLE),
                ],
                level="summary",
            ),
            certificate_section(found),
            Section("How to reproduce it", [Terms(versions())], level="appendix"),
        ],
        eyebrow="Certificate",
    )


def numbers(found: CertificateDocument) -> list[Number]:
    """Choose the numbers for the first screen of a run."""
    exact = found.affected is not None
    return [
        Number(found.proved, PROVED_SHARE, detail="proved, not sampled"),
        Number(found.upper_bound, UPPER_BOUND, detail="exact" if exact else "upper bound"),
    ]


def certificate_section(found: CertificateDocument) -> Section:
    """Show what is proved about the model."""
    return Section(
        "What is proved",
        [
            Text(claim(found)),
            Plot("Possible people", Bars(_parts(found))),
            Text(_rest(found)),
            Text(_people(found)),
            _neighborhoods(found),
            Text(f"{_how(found)} {CAVEAT}", "note"),
        ],
        anchor="certificate",
    )


def claim(found: CertificateDocument) -> str:
    """State what is proved, in one sentence."""
    if found.way == "no weight":
        return (
            "The sensitive attributes have no weight in the model: 100 % of possible people are"
            " treated as their counterparts."
        )
    if found.way == "leaves" and found.affected is not None:
        return (
            f"Every combination of leaves is decided: {percent(found.affected)} of possible people"
            f" are affected, exactly; {percent(found.proved)} are treated as their counterparts."
        )
    if found.way == "enumerated" and found.affected is not None:
        cases = "" if found.cases is None else f"{count(found.cases)} "
        return (
            f"All {cases}possible people were enumerated: {percent(found.affected)} are affected,"
            f" exactly, and {percent(found.proved)} are treated as their counterparts."
        )
    return (
        f"At least {percent(found.proved)} of possible people are proved to be treated as their"
        f" counterparts, so at most {percent(found.upper_bound)} can be affected."
    )


def _rest(found: CertificateDocument) -> str:
    """Describe the sample of what is undecided."""
    if found.rest is None:
        return ""
    return (
        f"In the undecided rest, {count(found.rest.hits)} of {count(found.rest.samples)} people"
        f" drawn at random ({percent(found.rest.estimate)}, {level(found.rest.confidence)} interval"
        f" {interval(found.rest)}) are affected."
    )


def _people(found: CertificateDocument) -> str:
    """Say which people in the data are proved with their neighborhood."""
    near = found.within(1)
    if near is None:
        return ""
    outside = (
        f" {count(found.outside)} people lie outside the schema's bounds and are not counted."
        if found.outside
        else ""
    )
    return (
        f"{percent(near.estimate)} of the {count(near.samples)} people in the data are proved"
        " within ± 1: they, and everybody whose numbers differ from theirs by at most 1, are"
        f" treated as their counterparts.{outside}"
    )


def _parts(found: CertificateDocument) -> list[Bar]:
    """Divide possible people: what is undecided is divided as the people drawn from it are."""
    if found.affected is not None:
        hit, words = found.affected, "affected"
    else:
        hit = 0.0 if found.rest is None else (1 - found.proved) * found.rest.estimate
        words = "affected, by sampling"
    bars = [
        Bar("proved to be treated as their counterparts", found.proved),
        Bar(words, hit, is_marked=True),
        Bar(
            "undecided" if found.affected is None else "undecided (ties)",
            max(0.0, 1 - found.proved - hit),
        ),
    ]
    return [bar for bar in bars if bar.value]


def _neighborhoods(found: CertificateDocument) -> Table | None:
    """List how far around people everybody is proved to be treated as their counterparts."""
    if found.within(1) is None:
        return None
    radii = {"the person alone": 0, "every number ± 1": 1, "every number ± 2": 2}
    free = {"any value of any one attribute": 1, "any value of any two attributes": 2}
    who = ("data", "plausible")
    rows = [
        *((name, *(_cell(found.within(r, each)) for each in who)) for name, r in radii.items()),
        *((name, *(_cell(found.whatever(k, each)) for each in who)) for name, k in free.items()),
    ]
    head = ("neighborhood", "people in the data", "plausible people")
    return Table(head, rows, "How far around people everybody is proved", folded=True)


def _cell(rate: ProvedPeople | None) -> str:
    return UNDEFINED if rate is None else f"{percent(rate.estimate)} of {count(rate.samples)}"


def _how(found: CertificateDocument) -> str:
    """Explain how it was proved, and what else a reader must know."""
    stopped = " (interrupted)" if found.stopped == "interrupted" else ""
    ways = {
        "no weight": "By the weights of the first layer.",
        "enumerated": (
            f"By querying the network about {'people in turn' if found.stopped else 'everybody'}"
            f"{stopped}."
        ),
        "leaves": (
            f"By the leaves that {count(found.boxes)} boxes reach in each tree, in"
            f" {seconds(found.seconds)}{stopped}."
            + ("" if found.affected is not None else " Deciding all of them takes longer.")
        ),
        "bounds": (
            f"By linear bounds in {count(found.boxes)} boxes and half-spaces, in"
            f" {seconds(found.seconds)}{stopped}."
        ),
    }
    parts = [ways[found.way]]
    if found.coupled:
        parts.append(f"In counterparts {', '.join(found.coupled)} changes along.")
    if found.allowed is not None:
        parts.append(
            "Possible are those whom the schema's constraints allow, with a counterpart:"
            f" {percent(found.allowed)} of all combinations of values."
        )
    if found.unused:
        parts.append(
            f"The schema's constraints are not used, because {found.unused}: people whom they"
            " forbid count as possible."
        )
    if found.constant:
        parts.append(
            "The network gives everybody the same answer, which is even and worth nothing."
        )
    elif found.accuracy is not None:
        parts.append(f"It is right for {percent(found.accuracy)} of the people in the data.")
    return " ".join(parts)
