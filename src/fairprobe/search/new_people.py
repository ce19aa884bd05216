"""Keep findings of a search among plausible people: new people, as far from the records
as other real people are.
"""

from __future__ import annotations

import numpy as np

from fairprobe.arrays import Floats, Ints, Keys, Mask, Rows
from fairprobe.people.plausible import PARTS, PlausiblePeople

SLACK = 2.0  # times its fair share that a part of the distances may hold
START = 50  # people of each part that are taken in any case


class NewPeople:
    """Accepts findings one batch after the other.

    A search brings up the people nearest to the records most often, and in the end only those far
    from all. Of what was accepted, each part of the distances may therefore hold at most `SLACK`
    times the share of held-out people that it holds. Near-copies are never accepted.
    """

    def __init__(self, people: PlausiblePeople) -> None:
        self.people = people
        self.accepted: Keys = np.empty(0, dtype=np.uint64)  # sorted
        self.refused: Keys = np.empty(0, dtype=np.uint64)  # near-copies, sorted
        self.counts = np.zeros(PARTS, dtype=np.int64)
        self._measured: Keys = np.empty(0, dtype=np.uint64)  # whose distances are known; sorted
        self._far: Floats = np.empty(0)

    def how_far(self, x: Rows) -> Floats:
        """(N,) the distance of each row to the nearest record. Each person is measured once; of
        those who are decided upon already it is not needed, and NaN.
        """
        keys, first, place = np.unique(
            self.people.domain.key(x), return_index=True, return_inverse=True
        )
        far = np.full(len(keys), np.nan)
        if len(self._measured):
            at = np.minimum(np.searchsorted(self._measured, keys), len(self._measured) - 1)
            far = np.where(self._measured[at] == keys, self._far[at], far)
        new = np.isnan(far) & ~_is_in(keys, self.accepted) & ~_is_in(keys, self.refused)
        far[new] = self.people.neighbors.measure(x[first[new]])
        both = np.concatenate([self._measured, keys[new]])
        order = np.argsort(both, kind="stable")
        self._measured = both[order]
        self._far = np.concatenate([self._far, far[new]])[order]
        return np.asarray(far[place.reshape(-1)])

    def accept(self, x: Rows, far: Floats | None = None) -> Mask:
        """Return which rows to keep; those accepted before are not, since they are kept already.
        `far` is how far they are, if that is known.
        """
        far = self.how_far(x) if far is None else far
        keys = self.people.domain.key(x)
        fresh = np.zeros(len(x), dtype=bool)
        fresh[np.unique(keys, return_index=True)[1]] = True
        fresh &= ~_is_in(keys, self.accepted) & ~_is_in(keys, self.refused)
        rows = np.flatnonzero(fresh)
        far = far[rows]
        is_new = far >= self.people.nearest_allowed
        self.refused = _with(self.refused, keys[rows[~is_new]])
        rows, part = rows[is_new], self.people.part(far[is_new])
        counts = self._allowed(self.counts + np.bincount(part, minlength=PARTS))
        kept = np.zeros(len(x), dtype=bool)
        for number, room in enumerate(counts - self.counts):
            kept[rows[part == number][:room]] = True
        self.counts = counts
        self.accepted = _with(self.accepted, keys[kept])
        return kept

    def _allowed(self, counts: Ints) -> Ints:
        """Return the largest counts of all parts, up to these, that keep to the shares."""
        while True:
            most = np.maximum(START, SLACK * counts.sum() * self.people.shares).astype(np.int64)
            if (counts <= most).all():
                return counts
            counts = np.minimum(counts, most)


def _is_in(keys: Keys, known: Keys) -> Mask:
    if len(known) == 0:
        return np.zeros(len(keys), dtype=bool)
    return np.asarray(known[np.minimum(np.searchsorted(known, keys), len(known) - 1)] == keys)


def _with(known: Keys, more: Keys) -> Keys:
    """Sorted keys with others that are not among them. Sorting is 15 × as fast as the hash table of
    `numpy.union1d`.
    """
    both = np.concatenate([known, more])
    both.sort(kind="stable")
    return both
