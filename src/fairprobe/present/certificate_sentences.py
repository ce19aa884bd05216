"""What is proved about a network, in sentences."""

from __future__ import annotations

from fairprobe.documents import CertificateDocument, ProvedPeople
from fairprobe.present.table import UNDEFINED, Table
from fairprobe.report.formats import count, interval, level, percent, seconds

CAVEAT = (
    "The proof is about the model in real arithmetic, with its numbers as they are stored. It is"
    " about all people that the schema allows, however unusual, and about these attributes alone. A"
    " program that rounds differently can answer otherwise for people next to the boundary."
)


def claim(found: CertificateDocument) -> str:
    """What is proved, in one sentence."""
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
        return (
            f"All {_cases(found)} possible people were asked: {percent(found.affected)} are"
            f" affected, exactly, and {percent(found.proved)} are treated as their counterparts."
        )
    return (
        f"At least {percent(found.proved)} of possible people are proved to be treated as their"
        f" counterparts, so at most {percent(found.upper_bound)} can be affected."
    )


def rest(found: CertificateDocument) -> str:
    """What sampling says about what is undecided."""
    if found.rest is None:
        return ""
    return (
        f"In the undecided rest, {count(found.rest.hits)} of {count(found.rest.samples)} people"
        f" drawn at random ({percent(found.rest.estimate)}, {level(found.rest.confidence)} interval"
        f" {interval(found.rest)}) are affected."
    )


def people(found: CertificateDocument) -> str:
    """Who of the people in the data is proved with their neighborhood."""
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


def neighborhoods(found: CertificateDocument) -> Table | None:
    """How far around people everybody is proved to be treated alike."""
    if found.within(1) is None:
        return None
    radii = {"the person alone": 0, "every number ± 1": 1, "every number ± 2": 2}
    free = {"any value of any one attribute": 1, "any value of any two attributes": 2}
    who = ("data", "plausible")
    rows = [
        (name, *(_proved_of(found.within(r, each)) for each in who)) for name, r in radii.items()
    ]
    rows += [
        (name, *(_proved_of(found.whatever(k, each)) for each in who)) for name, k in free.items()
    ]
    return Table(("neighborhood", "people in the data", "plausible people"), rows)


def _proved_of(rate: ProvedPeople | None) -> str:
    return UNDEFINED if rate is None else f"{percent(rate.estimate)} of {count(rate.samples)}"


def how(found: CertificateDocument) -> str:
    """How it was proved, and what else a reader must know."""
    ways = {
        "no weight": "By the weights of the first layer.",
        "enumerated": (
            f"By asking the network about {'everybody' if not found.stopped else 'people in turn'}"
            f"{_stopped(found)}."
        ),
        "leaves": (
            f"By the leaves that {count(found.boxes)} boxes reach in each tree, in"
            f" {seconds(found.seconds)}{_stopped(found)}."
            + ("" if found.affected is not None else " Deciding all of them takes longer.")
        ),
        "bounds": (
            f"By linear bounds in {count(found.boxes)} boxes and half-spaces, in"
            f" {seconds(found.seconds)}{_stopped(found)}."
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


def bar(found: CertificateDocument) -> list[tuple[str, str, float]]:
    """The parts of the bar: a class, words, and a share. What is undecided is divided as the people
    drawn from it are.
    """
    if found.affected is not None:
        hit, words = found.affected, "affected"
    else:
        hit = 0.0 if found.rest is None else (1 - found.proved) * found.rest.estimate
        words = "affected, by sampling"
    left = max(0.0, 1 - found.proved - hit)
    parts = [
        ("proved", "proved to be treated alike", found.proved),
        ("hit", words, hit),
        ("open", "undecided" if found.affected is None else "hangs on ties", left),
    ]
    return [part for part in parts if part[2] > 0]


def in_short(found: CertificateDocument) -> str:
    """For the terminal."""
    if found.affected is not None:
        return f"{percent(found.proved)} of possible people; {percent(found.affected)} affected"
    return (
        f"{percent(found.proved)} of possible people; at most {percent(found.upper_bound)} can be"
        " affected"
    )


def _stopped(found: CertificateDocument) -> str:
    return f" ({found.stopped})" if found.stopped == "interrupted" else ""


def _cases(found: CertificateDocument) -> str:
    return "" if found.cases is None else count(found.cases)
