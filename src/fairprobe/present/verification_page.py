"""Face verification by group, in sentences, a table and a page."""

from __future__ import annotations

from math import floor, log10

from fairprobe.documents.verification import PairRateDocument, VerificationDocument
from fairprobe.present import fill_template
from fairprobe.present.formats import change, count, date, decimal, percent, pixels, plain
from fairprobe.present.table import UNDEFINED, Cell, Table

CLOSE, MOST_PLACES = 0.01, 12
TITLES = {"false_non_match": "false non-match rate", "false_match": "false match rate"}
SAYS = {
    "false_non_match": "pairs of one person that are taken for two",
    "false_match": "pairs of two people of a group that are taken for one",
}


def render_verification(document: VerificationDocument) -> str:
    """The page's HTML; the same document gives the same text."""
    found = any(one.is_beyond_chance for one in document.compared)
    return fill_template(
        "verification.html.j2",
        {
            "document": document,
            "version": document.versions.get("fairprobe", ""),
            "title": f"{document.model}, by {document.sensitive}",
            "status": "found" if found else "none",
            "facts": [
                ("Date", date(document.created)),
                ("Pictures", f"{document.data}{pixels(document.height, document.width)}"),
                ("Threshold", f"{_threshold(document)}"),
                ("Seed", str(document.seed)),
            ],
            "headline": document.sentences[0],
            "sentences": document.sentences[1:],
            "groups": groups_table(document),
            "compared": compared_table(document),
            "says": [(TITLES[key].capitalize(), f"{says}.") for key, says in SAYS.items()],
        },
    )


def sentences(document: VerificationDocument) -> list[str]:
    """What was found, the headline first."""
    beyond = [one for one in document.compared if one.is_beyond_chance]
    name = document.sensitive
    if not beyond:
        said = [f"No error rate differs by {name} beyond chance at this threshold."]
    else:
        kinds = dict.fromkeys(TITLES[one.measure] for one in beyond)
        said = [f"The {' and the '.join(kinds)} differ{'s' * (len(kinds) == 1)} by {name}."]
    for one in beyond:
        more, less = (one.one, one.other) if one.estimate > 0 else (one.other, one.one)
        said.append(
            f"{TITLES[one.measure].capitalize()}: {more} above {less} by"
            f" {plain(change(abs(one.estimate))).lstrip('+')}"
            f" ({_points(one.low)} to {_points(one.high)} for {one.one} minus {one.other})."
        )
    said.append(f"Threshold: {_threshold(document)}.")
    missing = [
        f"{TITLES[measure]} of {group.name}"
        for group in document.groups
        for measure in TITLES
        if getattr(group, measure) is None
    ]
    if missing:
        said.append(f"There are no pairs for the {', '.join(missing)}.")
    return said


def groups_table(document: VerificationDocument) -> Table:
    """Both error rates of each group."""
    return Table(
        (document.sensitive, "people", "pictures", *TITLES.values()),
        [
            (
                group.name,
                count(group.people),
                count(group.pictures),
                *(_cell(getattr(group, measure)) for measure in TITLES),
            )
            for group in document.groups
        ],
    )


def compared_table(document: VerificationDocument) -> Table:
    """Every two groups."""
    return Table(
        ("error", "groups", "difference", "interval", "beyond chance"),
        [
            (
                TITLES[one.measure],
                f"{one.one} − {one.other}",
                change(one.estimate),
                f"{_points(one.low)} to {_points(one.high)}",
                "yes" if one.is_beyond_chance else "no",
            )
            for one in document.compared
        ],
    )


def _cell(rate: PairRateDocument | None) -> Cell:
    if rate is None:
        return Cell(UNDEFINED)
    return Cell(
        percent(rate.estimate),
        f"{_interval(rate.low, rate.high)}, {count(rate.hits)} of {count(rate.pairs)} pairs",
    )


def _points(value: float) -> str:
    return plain(change(value))


def _interval(low: float, high: float) -> str:
    return f"{plain(percent(low))} to {plain(percent(high))}"


def _number(document: VerificationDocument) -> str:
    """The threshold in three places, or as many as tell a similarity from 1, a distance from 0."""
    value = document.threshold
    rest = 1 - abs(value) if document.distance == "cosine" else value
    if not 0 < rest < CLOSE:
        return decimal(value)
    return f"{value:.{min(MOST_PLACES, 2 - floor(log10(rest)))}f}".replace("-", "−")


def _threshold(document: VerificationDocument) -> str:
    what = "similarity of at least" if document.distance == "cosine" else "distance of at most"
    said = f"a {document.distance} {what} {_number(document)}"
    if document.wanted is None:
        return f"{said}, as given"
    return (
        f"{said}, chosen on {count(document.chosen_on)} other people for a false match rate of"
        f" {plain(percent(document.wanted))}"
    )
