"""The ledger against a plain Python dictionary: every instance once, the first one kept, whatever
the memory and the keys.
"""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairprobe.arrays import Ints, Keys, Rows
from fairprobe.errors import StorageError
from fairprobe.judgement import Verdict
from fairprobe.schema.domain import Attribute, Domain
from fairprobe.search.ledger import GLOBAL, LOCAL, PARTS, Ledger

GENDER = Attribute(name="gender", low=1, high=2)


def integers(names: str, low: float, high: float) -> tuple[Attribute, ...]:
    return tuple(Attribute(name=name, low=low, high=high) for name in names)


DOMAINS = {
    "narrow, exact keys": Domain((*integers("ab", -3, 3), GENDER), sensitive=("gender",)),
    "filling 64 bits": Domain((*integers("abcd", 0, 2**16 - 1), GENDER), sensitive=("gender",)),
    "hashed keys": Domain(
        (GENDER, *integers("abcdefghijklmnopqrstuvwxyz", 0, 9)), sensitive=("gender",)
    ),
    "real values": Domain(
        (Attribute(name="r", kind="real", low=-1, high=1), GENDER, *integers("a", 0, 3)),
        sensitive=("gender",),
    ),
    "two sensitive attributes": Domain(
        (GENDER, *integers("ab", 0, 5), Attribute(name="race", low=0, high=4)),
        sensitive=("race", "gender"),
    ),
}
LIMITS = [1, 7, 64, 10**9]


class Step(NamedTuple):
    """What one step of a search enters."""

    x: Rows
    verdict: Verdict
    origin: Ints
    phase: int


def draw(domain: Domain, sizes: list[int], *, seed: int, people: int = 40) -> list[Step]:
    """Steps over a few people who come back again and again, each time with other numbers beside
    them.
    """
    rng = np.random.default_rng(seed)
    pool = domain.sample(people, rng=rng)
    # A verdict depends on a person, not on the occasion: every other person of the pool is
    # discriminatory, at each sensitive value.
    _, person = np.unique(pool[:, domain.other_columns], axis=0, return_inverse=True)
    guilty = person.reshape(-1) % 2 == 0
    steps = []
    for number, size in enumerate(sizes):
        chosen = rng.integers(0, people, size)
        x = pool[chosen].copy()
        x[:, domain.sensitive_columns] = domain.sensitive_values[
            rng.integers(0, domain.value_count, size)
        ]
        other = x.copy()
        other[:, domain.sensitive_columns] = domain.sensitive_values[
            (domain.own_value(x) + 1) % domain.value_count
        ]
        verdict = Verdict(
            is_discriminatory=guilty[chosen],
            x_other=other,
            label=rng.integers(0, 2, size),
            label_other=rng.integers(0, 2, size),
            probability=rng.random(size, dtype=np.float32),
            probability_other=rng.random(size, dtype=np.float32),
            gap=rng.random(size, dtype=np.float32),
            is_tie=np.zeros(size, dtype=bool),
            has_counterpart=np.ones(size, dtype=bool),
            hangs_on_tie=np.zeros(size, dtype=bool),
            margin=np.zeros(size, dtype=np.float32),
            margin_other=np.zeros(size, dtype=np.float32),
        )
        steps.append(
            Step(x, verdict, rng.integers(0, 1000, size), GLOBAL if number == 0 else LOCAL)
        )
    return steps


def guilty_of(x: Rows) -> Verdict:
    """Every row discriminatory, with nothing else to tell."""
    label, number = np.zeros(len(x), dtype=np.int64), np.zeros(len(x), dtype=np.float32)
    return Verdict(
        np.ones(len(x), dtype=bool),
        x,
        label,
        label,
        number,
        number,
        number,
        np.zeros(len(x), dtype=bool),
        np.ones(len(x), dtype=bool),
        np.zeros(len(x), dtype=bool),
        number,
        number,
    )


def fill(domain: Domain, steps: list[Step], limit: int) -> Ledger:
    ledger = Ledger(domain, limit=limit)
    try:
        for step in steps:
            ledger.add(step.x, step.verdict, origin=step.origin, phase=step.phase)
    except BaseException:
        ledger.close()
        raise
    return ledger


def person_of(domain: Domain, row: Any) -> tuple[float, ...]:
    return tuple((np.asarray(row)[domain.other_columns] + 0.0).tolist())


def by_hand(
    domain: Domain, steps: list[Step]
) -> tuple[set[tuple[float, ...]], dict[tuple[float, ...], tuple[Any, ...]]]:
    """Who was tried, and the first occurrence of whoever is discriminatory."""
    tried: set[tuple[float, ...]] = set()
    found: dict[tuple[float, ...], tuple[Any, ...]] = {}
    for x, verdict, origin, phase in steps:
        for i in range(len(x)):
            person = person_of(domain, x[i])
            tried.add(person)
            if verdict.is_discriminatory[i]:
                first = (
                    *x[i].tolist(),
                    *verdict.x_other[i][domain.sensitive_columns].tolist(),
                    int(verdict.label[i]),
                    int(verdict.label_other[i]),
                    float(verdict.probability[i]),
                    float(verdict.probability_other[i]),
                    float(verdict.gap[i]),
                    int(origin[i]),
                    phase,
                )
                found.setdefault(person, first)
    return tried, found


def in_ledger(domain: Domain, ledger: Ledger) -> dict[tuple[float, ...], tuple[Any, ...]]:
    found: dict[tuple[float, ...], tuple[Any, ...]] = {}
    for records in ledger.found():
        x = domain.unpack(records["x"])
        other = domain.unpack(records["other"], domain.sensitive_columns)
        for i in range(len(records)):
            person = person_of(domain, x[i])
            assert person not in found, "the ledger gave somebody twice"
            rest = [
                records[name][i].item()
                for name in (
                    "label",
                    "label_other",
                    "probability",
                    "probability_other",
                    "gap",
                    "origin",
                    "phase",
                )
            ]
            found[person] = (*x[i].tolist(), *other[i].tolist(), *rest)
    return found


def check_agrees(domain: Domain, steps: list[Step], limit: int) -> None:
    ledger = fill(domain, steps, limit)
    try:
        tried, found = by_hand(domain, steps)
        assert in_ledger(domain, ledger) == found
        assert ledger.count_found() == len(found)
        assert ledger.count_tried() == len(tried)
        assert ledger.idis_with_repetitions == sum(
            int(step.verdict.is_discriminatory.sum()) for step in steps
        )
        assert ledger.tried_with_repetitions == sum(len(step.x) for step in steps)
    finally:
        ledger.close()


# -- the same as a dictionary ----------------------------------------------------------------------


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("name", DOMAINS)
def test_the_ledger_is_a_dictionary_of_first_occurrences_in_memory_and_in_files(
    name: str, limit: int
) -> None:
    check_agrees(DOMAINS[name], draw(DOMAINS[name], [30, 0, 1, 200, 50, 3, 300], seed=1), limit)


@pytest.mark.parametrize("name", DOMAINS)
def test_many_small_steps_are_entered_as_exactly_as_few_large_ones(name: str) -> None:
    domain = DOMAINS[name]
    check_agrees(domain, draw(domain, [2] * 400, seed=2, people=300), limit=50)


def constant(_: Domain, x: Rows) -> Keys:
    return np.full(len(x), 77, dtype=np.uint64)


def three_keys(domain: Domain, x: Rows) -> Keys:
    """Three keys for everybody; the same person always has the same."""
    return np.asarray(
        np.abs(np.rint(x[:, domain.other_columns].sum(axis=1) * 8)) % 3, dtype=np.uint64
    )


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("key", [constant, three_keys])
@pytest.mark.parametrize("name", ["hashed keys", "real values"])
def test_people_whose_hashes_collide_are_told_apart(
    name: str, key: Callable[[Domain, Rows], Keys], limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Domain, "key", key)
    check_agrees(DOMAINS[name], draw(DOMAINS[name], [30, 1, 200, 50, 300], seed=3), limit)


def test_zero_and_minus_zero_are_one_person() -> None:
    domain = DOMAINS["real values"]
    (step,) = draw(domain, [2], seed=0)
    x = np.array([[0.0, 1, 2], [-0.0, 1, 2]], dtype=np.float32)
    verdict = guilty_of(x)
    for limit in LIMITS:
        ledger = fill(domain, [Step(x, verdict, step.origin, GLOBAL)], limit)
        assert ledger.count_found() == ledger.count_tried() == 1
        ledger.close()


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(sorted(DOMAINS)),
    sizes=st.lists(st.integers(0, 25), max_size=25),
    limit=st.integers(1, 80),
    people=st.integers(1, 60),
    seed=st.integers(0, 2**16),
)
def test_no_order_of_steps_and_no_limit_makes_a_difference(
    name: str, sizes: list[int], limit: int, people: int, seed: int
) -> None:
    check_agrees(DOMAINS[name], draw(DOMAINS[name], sizes, seed=seed, people=people), limit)


@pytest.mark.parametrize("handed", [0, 10**9])
@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("name", DOMAINS)
def test_what_other_ledgers_hand_over_is_entered_as_if_it_were_found_here(
    name: str, limit: int, handed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairprobe.search.ledger.HANDED", handed)
    domain, steps = DOMAINS[name], draw(DOMAINS[name], [30, 200, 50, 300], seed=1)
    whole, here = Ledger(domain), fill(domain, steps, 10**9)
    whole.in_parts = here.in_parts = True
    for some in (steps[:1], steps[1:3], steps[3:]):
        part = Ledger(domain, limit=limit, folder=tmp_path)
        for step in some:
            part.add(step.x, step.verdict, origin=step.origin, phase=step.phase)
        whole.enter(*part.hand_over())
        part.close()
    tried, found = by_hand(domain, steps)
    assert in_ledger(domain, whole) == found
    assert whole.count_tried() == len(tried)
    both = (np.concatenate(list(each.found())).tobytes() for each in (whole, here))
    assert next(both) == next(both)  # in the same order
    whole.close()


def test_reading_twice_gives_the_same_and_more_can_be_entered_between() -> None:
    domain = DOMAINS["hashed keys"]
    steps = draw(domain, [40, 40, 40], seed=5)
    for limit in LIMITS:
        ledger = fill(domain, steps[:2], limit)
        assert (
            in_ledger(domain, ledger) == in_ledger(domain, ledger) == by_hand(domain, steps[:2])[1]
        )
        assert ledger.count_tried() == len(by_hand(domain, steps[:2])[0])
        ledger.add(steps[2].x, steps[2].verdict, origin=steps[2].origin, phase=steps[2].phase)
        assert in_ledger(domain, ledger) == by_hand(domain, steps)[1]
        ledger.close()


def test_an_empty_ledger_has_nothing() -> None:
    ledger = Ledger(DOMAINS["hashed keys"])
    assert list(ledger.found()) == []
    assert ledger.count_found() == ledger.count_tried() == 0
    ledger.close()


# -- keys at the edge of what fits -----------------------------------------------------------------


def test_neighbours_in_the_widest_attribute_allowed_are_two_people_and_come_back_unchanged() -> (
    None
):
    domain = Domain(
        (Attribute(name="wide", low=-(2**24), high=2**24), GENDER), sensitive=("gender",)
    )
    x = np.array([[2**24, 1], [2**24 - 1, 1], [-(2**24), 1], [1 - 2**24, 1]], dtype=np.float32)
    step = Step(x, guilty_of(x), np.arange(4), GLOBAL)
    check_agrees(domain, [step], limit=10**9)


def test_an_attribute_of_one_value_after_others_that_fill_64_bits_is_no_obstacle() -> None:
    domain = Domain(
        (*integers("abcd", 0, 2**16 - 1), Attribute(name="same", low=4, high=4), GENDER),
        sensitive=("gender",),
    )
    check_agrees(domain, draw(domain, [50, 50], seed=6), limit=10**9)


# -- memory and files ------------------------------------------------------------------------------


@pytest.fixture
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_a_small_ledger_writes_no_file(own_temporary_folder: Path) -> None:
    domain = DOMAINS["hashed keys"]
    ledger = fill(domain, draw(domain, [100, 100], seed=7), limit=10**9)
    assert ledger.count_found() > 0
    assert list(own_temporary_folder.iterdir()) == []
    ledger.close()


def test_the_files_of_a_ledger_are_gone_when_it_is_closed(own_temporary_folder: Path) -> None:
    domain = DOMAINS["hashed keys"]
    ledger = fill(domain, draw(domain, [100, 100], seed=7), limit=10)
    assert ledger.count_found() > 0
    assert len(list(own_temporary_folder.rglob("*"))) > 2
    ledger.close()
    assert list(own_temporary_folder.iterdir()) == []


@pytest.mark.parametrize("name", DOMAINS)
def test_what_waits_in_memory_is_bounded_by_the_limit_and_one_step(name: str) -> None:
    domain, limit = DOMAINS[name], 100
    ledger = Ledger(domain, limit=limit)
    for step in draw(domain, [20] * 200, seed=8, people=2000):
        ledger.add(step.x, step.verdict, origin=step.origin, phase=step.phase)
        for store in (ledger._found, ledger._tried):
            assert sum(len(records) for records in store._waiting) <= 2 * limit + 20
    assert (
        ledger._tried._spills or name == "narrow, exact keys" or name == "two sensitive attributes"
    )
    ledger.close()


def test_files_share_the_people_evenly_enough_to_be_read_one_by_one(
    own_temporary_folder: Path,
) -> None:
    domain = DOMAINS["filling 64 bits"]
    ledger = fill(domain, draw(domain, [5000], seed=9, people=5000), limit=10)
    sizes = [len(records) for records in ledger._tried.unique()]
    assert len(sizes) == PARTS
    assert max(sizes) < 3 * 5000 / PARTS
    ledger.close()


def test_a_full_disk_says_where_and_what_to_do(
    own_temporary_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    domain = DOMAINS["hashed keys"]

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(StorageError, match=r"No space left on device.*TMPDIR") as caught:
        fill(domain, draw(domain, [100], seed=7), limit=10)
    assert str(own_temporary_folder) in str(caught.value)


def test_no_folder_for_files_is_said_in_words_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "not there"))
    with pytest.raises(StorageError, match="TMPDIR"):
        fill(DOMAINS["hashed keys"], draw(DOMAINS["hashed keys"], [100], seed=7), limit=10)


def test_a_write_that_failed_half_way_can_be_repeated_without_damage(
    own_temporary_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A disk that was full for a moment, in the middle of a spill: of what was found a file was
    # written, of what was tried a part of one.
    domain = DOMAINS["hashed keys"]
    steps = draw(domain, [200, 200], seed=10, people=200)
    ledger = Ledger(domain, limit=10**9)
    for step in steps[:1]:
        ledger.add(step.x, step.verdict, origin=step.origin, phase=step.phase)
    written = 0
    real_open = Path.open

    class Torn:
        def __init__(self, stream: Any) -> None:
            self.stream = stream

        def __enter__(self) -> Torn:
            return self

        def __exit__(self, *_: object) -> None:
            self.stream.close()

        def write(self, some: bytes) -> None:
            nonlocal written
            written += 1
            if written == 2:
                self.stream.write(some[:5])
                raise OSError(errno.ENOSPC, "No space left on device")
            self.stream.write(some)

    def torn(path: Path, mode: str = "r", *_: Any, **__: Any) -> Any:
        return Torn(real_open(path, mode)) if "a" in mode or "w" in mode else real_open(path, mode)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", torn)
        ledger._found._limit = ledger._tried._limit = 1
        with pytest.raises(StorageError):
            ledger.add(steps[1].x, steps[1].verdict, origin=steps[1].origin, phase=steps[1].phase)
    assert written == 2
    try:
        found = in_ledger(domain, ledger)
    finally:
        ledger.close()
    whole = by_hand(domain, steps)[1]
    assert set(found.items()) <= set(whole.items())  # nobody is invented
    assert set(by_hand(domain, steps[:1])[1]) <= set(
        found
    )  # and nobody who was entered before is lost


def test_the_names_of_the_phases_are_those_of_the_findings() -> None:
    from fairprobe.findings import PHASES

    assert (PHASES[GLOBAL], PHASES[LOCAL]) == ("global", "local")
