"""What the gate can ask of a certificate. The numbers are proved, so they have no interval; only
the share of people in the data has one, as everywhere.
"""

from __future__ import annotations

from fairprobe.documents import TableMeasurements
from fairprobe.measures import Measure, Reading, by, reading_of_counterparts

MISSING = "this run has no certificate. Make one: fairprobe certify RUN"


def _proved_share(document: TableMeasurements) -> list[Reading]:
    what = f"share of possible people proved to be treated alike, whatever their {by(document)}"
    if (found := document.certificate) is None:
        return [Reading(what=what, missing=MISSING)]
    return [Reading(what=what, estimate=found.proved, measured_on="all possible people")]


def _upper_bound(document: TableMeasurements) -> list[Reading]:
    what = f"share of possible people who can be affected by {by(document)} at most"
    if (found := document.certificate) is None:
        return [Reading(what=what, missing=MISSING)]
    return [Reading(what=what, estimate=found.upper_bound, measured_on="all possible people")]


def _proved_people(document: TableMeasurements) -> list[Reading]:
    what = "share of people in the data proved with everybody within ± 1"
    found = None if document.certificate is None else document.certificate.within(1)
    if found is None:
        return [Reading(what=what, missing=MISSING)]
    return [
        reading_of_counterparts(document, what, found, missing=MISSING, of="people in the data")
    ]


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
        " share where everybody was asked."
    ),
    unit="share",
    direction="at most",
    read=_upper_bound,
)
