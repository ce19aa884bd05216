"""Result of a certificate."""

from __future__ import annotations

from typing import Literal

import msgspec

from fairprobe.results import Amount, Count, Rate, Result, Seconds, Share

ROUNDING = 1e-9


class ProvedPeople(Rate, frozen=True, kw_only=True):
    """People who are proved together with everybody within ± `radius` of them, or whatever values
    any `free` of their attributes take: people in the data (some of them, where asking about all
    takes too long), or plausible people.
    """

    radius: Count
    free: Count = 0
    among: Literal["data", "plausible"] = "data"


class CertificateDocument(Result, frozen=True, kw_only=True):
    """For which share of all possible people it is proved that they are treated as their
    counterparts: at least `proved`; at most `upper_bound` can be affected. `affected` is exact
    where everybody was asked, or every box of leaves is decided. `rest`: people drawn from what is
    undecided, and how many of them are affected. `cases`: how many possible people there are; null
    with real attributes. `allowed`: the share of all combinations of values that the schema's
    constraints allow, which are the possible people; null if all are, or if the constraints are
    not used, for the reason `unused`. `network` is the SHA-256 of the model and schema that the
    claim is about.
    """

    way: Literal["no weight", "enumerated", "bounds", "leaves"]
    proved: Share
    upper_bound: Share
    affected: Share | None
    rest: Rate | None
    people: list[ProvedPeople]
    outside: Count
    cases: Amount | None
    values: Count
    boxes: Count
    seconds: Seconds
    stopped: str
    network: str
    accuracy: Share | None = None
    constant: bool = False
    allowed: Share | None = None
    unused: str = ""
    counterparts: Literal["twins", "bare"] = "twins"
    coupled: list[str] = msgspec.field(default_factory=list)

    def __post_init__(self) -> None:
        if self.proved + self.upper_bound > 1 + ROUNDING:
            raise ValueError("more than everybody is proved or can be affected")
        if self.affected is not None and self.affected > self.upper_bound + ROUNDING:
            raise ValueError("more people are affected than can be")

    def within(self, radius: int, among: str = "data") -> ProvedPeople | None:
        """Return the people who are proved with everybody within ± `radius`."""
        found = (each for each in self.people if not each.free and each.among == among)
        return next((each for each in found if each.radius == radius), None)

    def whatever(self, free: int, among: str = "data") -> ProvedPeople | None:
        """Return the people who are proved whatever values any `free` of their attributes take."""
        found = (each for each in self.people if each.among == among)
        return next((each for each in found if each.free == free), None)
