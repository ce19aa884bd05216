"""Chunks of a search elsewhere, or after a kill: always the same findings."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fairprobe as fp
from fairprobe.arrays import Rows
from fairprobe.errors import ModelError, SettingError
from fairprobe.findings import Findings
from fairprobe.judgement import Verdict
from fairprobe.models import Model, TorchModel
from fairprobe.people.plausible import PlausiblePeople
from fairprobe.schema.domain import Domain
from fairprobe.search import Budget, Explorer, Probe, Progress, RandomWalk, choose_seeds, search
from fairprobe.search.chunks import Checkpoint, ChunkResult, chunks_of
from fairprobe.search.merge import Batch
from fairprobe.search.methods.base import Proposal, SearchContext
from fairprobe.workers.base import Workers
from fairprobe.workers.local import LocalWorkers
from tests.helpers import everybody, planted, tiny_domain
from tests.search.mortal import Mortal

LITTLE = Budget(seeds=40, global_iterations=3, local_iterations=12)


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten seeds a chunk."""
    monkeypatch.setattr(RandomWalk, "seeds_at_once", lambda *_: 10)


@dataclass(frozen=True)
class Subject:
    domain: Domain
    model: Model
    seeds: Rows

    def __call__(self, budget: Budget = LITTLE, **options: Any) -> Findings:
        rng = np.random.default_rng(3)
        return search(self.domain, self.model, RandomWalk(), self.seeds, budget, rng=rng, **options)


@pytest.fixture
def subject() -> Subject:
    domain = tiny_domain()
    seeds = choose_seeds(domain, everybody(domain), 40, rng=np.random.default_rng(1))
    return Subject(domain, TorchModel(planted(domain)), seeds)


def same(one: Findings, other: Findings) -> bool:
    """Whether two searches found the same in the same order, and say the same about it."""
    times: dict[str, Any] = {"wall_seconds": 0.0, "cpu_seconds": 0.0}
    return one.to_pandas(codes=True).equals(other.to_pandas(codes=True)) and replace(
        one.generation, **times
    ) == replace(other.generation, **times)


@pytest.fixture(scope="module")
def pool() -> Iterator[LocalWorkers]:
    """Two workers that serve several searches: a process that imports torch starts slowly."""
    with LocalWorkers(2) as workers:
        yield workers


@pytest.fixture
def two(pool: LocalWorkers, monkeypatch: pytest.MonkeyPatch) -> LocalWorkers:
    class Lent:
        def __enter__(self) -> Workers:
            return pool

        def __exit__(self, *_: object) -> None:
            while pool._tasks:  # what a search left behind
                pool.wait(1)

    monkeypatch.setattr("fairprobe.search.executor.staff", lambda *_: Lent())
    return pool


def test_two_workers_find_what_one_finds_whatever_ends_the_search_even_if_one_is_killed(
    subject: Subject, two: LocalWorkers
) -> None:
    for budget in (
        LITTLE,
        replace(LITTLE, wanted=8),
        replace(LITTLE, rows=333),
        replace(LITTLE, cpu_seconds=10**6),
    ):
        assert same(subject(budget), subject(budget, workers=2)), budget
    seen: list[int] = []

    def kill(_: Progress) -> None:
        process = next(iter(two._pools[-1]._processes.values()))
        if len(seen) < 2 and process.pid is not None and process.is_alive():
            seen.append(process.pid)
            os.kill(process.pid, signal.SIGKILL)

    assert same(subject(), subject(workers=2, progress=kill))
    assert seen


class Inline:
    """Workers that are this process: what they are given is done at once."""

    count = 2

    def __init__(self) -> None:
        self.ended: list[tuple[str, Any]] = []

    def __enter__(self) -> Inline:
        return self

    def __exit__(self, *_: object) -> None: ...

    def has_room(self) -> bool:
        return len(self.ended) < self.count

    def submit(self, name: str, function: Any, *arguments: Any, inputs: Any) -> None:
        self.ended.append((name, function(*arguments, *inputs.values())))

    def wait(self, seconds: float) -> list[tuple[str, Any]]:
        ended, self.ended = self.ended, []
        return ended[::-1]


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that leave all records in files and share the end of the search."""
    monkeypatch.setattr("fairprobe.search.executor.staff", lambda *_: Inline())
    monkeypatch.setattr("fairprobe.search.ledger.HANDED", 0)
    monkeypatch.setattr("fairprobe.search.shared.FEWEST", 0)


@pytest.mark.usefixtures("inline")
@pytest.mark.parametrize("is_saved", [False, True])
def test_records_that_stay_in_files_are_merged_part_by_part_and_written_in_the_same_order(
    subject: Subject, is_saved: bool, tmp_path: Path
) -> None:
    paths = [tmp_path / "one.parquet", tmp_path / "two.parquet"] if is_saved else [None, None]
    one, two = (
        subject(workers=count, save_to=path, score=plausibility)
        for count, path in enumerate(paths, start=1)
    )
    assert len(one) > 20
    assert same(one, two)
    kept = Checkpoint(tmp_path / "kept", "a")
    assert same(one, subject(workers=2, checkpoint=kept, score=plausibility))
    (tmp_path / "kept" / "chunk-000002.npz").unlink()
    (tmp_path / "kept" / "chunk-000001.npz").unlink()
    assert same(one, subject(workers=2, checkpoint=kept, score=plausibility))


def plausibility(x: Rows) -> Rows:
    return np.asarray(x.sum(axis=1) / 1000, dtype=np.float32)


@pytest.mark.usefixtures("inline")
def test_a_score_that_cannot_be_sent_or_a_full_disk_at_the_end_costs_nothing(
    subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = subject(score=plausibility)
    by_hand = subject(score=lambda x: plausibility(x), workers=2, save_to=tmp_path / "a.parquet")
    assert same(one, by_hand)
    monkeypatch.setattr("fairprobe.search.shared.write_part", lambda *_: "no room")
    found = subject(score=plausibility, workers=2, save_to=tmp_path / "b.parquet")
    assert same(one, found)


def test_among_plausible_people_two_workers_find_what_one_finds_however_many_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = fp.datasets.load("german").with_sensitive("gender")
    domain, people = data.domain, PlausiblePeople.fit(data)
    model = TorchModel(planted(domain, bias=8.0))
    monkeypatch.setattr("fairprobe.search.executor.staff", lambda *_: Inline())

    def found(**options: Any) -> Findings:
        seeds = choose_seeds(domain, data.x, 40, rng=np.random.default_rng(1))
        rng, budget = np.random.default_rng(3), Budget(seeds=40, local_iterations=200)
        how = Probe(crowd=2000)
        return search(domain, model, how, seeds, budget, rng=rng, people=people, **options)

    one = found()
    assert len(one) > 20
    assert same(one, found(workers=2))
    monkeypatch.setattr("fairprobe.search.merge.DECIDED_AT_ONCE", 1)
    assert same(one, found())


def test_without_time_the_first_chunk_is_begun_and_the_search_says_why_it_ended(
    subject: Subject, two: LocalWorkers
) -> None:
    found = subject(replace(LITTLE, seconds=0), workers=2)
    assert found.generation.stopped == "seconds"
    assert found.generation.judged == 10


def test_an_interrupt_keeps_what_the_workers_have(subject: Subject, two: LocalWorkers) -> None:
    # The last test of these workers: they take no more work afterwards.
    reports: list[Progress] = []

    def interrupt(now: Progress) -> None:
        reports.append(now)
        if now.idis:
            raise KeyboardInterrupt

    found = subject(replace(LITTLE, local_iterations=60), workers=2, progress=interrupt)
    assert found.generation.stopped == "interrupted"
    assert len(found) > 0


def test_a_model_that_cannot_be_sent_is_refused_with_a_sentence(subject: Subject) -> None:
    black_box = replace(subject, model=Model(lambda x: np.full(len(x), 0.5)))
    with pytest.raises(ModelError, match=r"cannot be sent to other processes \(.*one worker"):
        black_box(workers=2)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"workers": 0}, "1 worker or more; got workers=0"),
        ({"workers": 2, "cluster": "local"}, "Give one of the two"),
        ({"workers": 2, "on_judged": lambda *_: None}, "search with workers=1"),
    ],
)
def test_impossible_workers_are_refused(
    subject: Subject, options: dict[str, Any], why: str
) -> None:
    with pytest.raises(SettingError, match=why):
        subject(**options)


def test_a_failed_worker_task_is_told_with_the_reason(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Lost:
        count = 1

        def __enter__(self) -> Lost:
            return self

        def __exit__(self, *_: object) -> None: ...

        def has_room(self) -> bool:
            return True

        def submit(self, name: str, *_: object, inputs: object) -> None:
            self.name = name

        def wait(self, seconds: float) -> list[tuple[str, str]]:
            return [("0", "its process died three times")]

    monkeypatch.setattr("fairprobe.search.executor.staff", lambda *_: Lost())
    with pytest.raises(ModelError, match="by a worker: its process died three times"):
        subject(workers=2)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_a_ray_worker_that_is_killed_during_a_search_does_not_change_what_is_found(
    subject: Subject, tmp_path: Path
) -> None:
    pytest.importorskip("ray")
    mortal = Mortal(TorchModel(planted(subject.domain)), os.getpid(), tmp_path / "killed")
    here = replace(subject, model=Model(mortal))
    expected = here()
    assert not mortal.mark.exists()
    assert same(expected, here(cluster="local"))
    assert mortal.mark.exists()


# -- chunks ----------------------------------------------------------------------------------------


def test_chunks_do_not_depend_on_anything_but_method_seeds_and_random_numbers() -> None:
    one, other = (chunks_of(RandomWalk(), 35, 2, np.random.default_rng(4)) for _ in range(2))
    assert [(chunk.start, chunk.stop) for chunk in one] == [(0, 10), (10, 20), (20, 30), (30, 35)]
    assert [each.rng.random() for each in one] == [each.rng.random() for each in other]


def test_a_method_that_is_not_by_seeds_is_one_chunk() -> None:
    class Learner(RandomWalk):
        by_seeds = False

    rng = np.random.default_rng(0)
    assert [(each.start, each.stop) for each in chunks_of(Learner(), 35, 2, rng)] == [(0, 35)]


def test_the_origin_of_an_explorer_that_is_asked_for_each_chunk_counts_all_seeds(
    subject: Subject,
) -> None:
    class Echo(Explorer):
        name, by_seeds = "echo", True

        def seeds_at_once(self, values: int) -> int:
            return 7

        def propose(self, context: SearchContext, seeds: Rows, rng: np.random.Generator) -> Any:
            assert not context.memory
            context.memory["seen"] = len(seeds)
            yield Proposal(seeds, np.arange(len(seeds)))

    rng = np.random.default_rng(0)
    found = search(subject.domain, subject.model, Echo(), subject.seeds, rng=rng)
    assert len(found) > 0
    for row, origin in zip(found.x, found.to_pandas(codes=True)["origin"], strict=True):
        assert subject.domain.key(row[None]) == subject.domain.key(subject.seeds[origin][None])


# -- the checkpoint --------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [LITTLE, replace(LITTLE, rows=333), replace(LITTLE, wanted=27)])
def test_a_search_goes_on_from_the_chunks_that_are_kept(
    subject: Subject, budget: Budget, tmp_path: Path
) -> None:
    class Killed(BaseException):
        pass

    def kill(now: Progress) -> None:
        if now.done >= 0.55 * now.total:
            raise Killed

    whole = subject(budget)
    for _ in range(2):  # the second time it is killed at the same place
        try:
            subject(budget, checkpoint=Checkpoint(tmp_path, "a"), progress=kill)
        except Killed:
            assert Checkpoint(tmp_path, "a").numbers() == {0, 1}
    judged: list[int] = []

    def count(x: Rows, _: Verdict) -> None:
        judged.append(len(x))

    found = subject(budget, checkpoint=Checkpoint(tmp_path, "a"), on_judged=count)
    assert same(whole, found)
    assert sum(judged) < whole.generation.judged


def test_a_damaged_chunk_is_searched_again(subject: Subject, tmp_path: Path) -> None:
    kept = Checkpoint(tmp_path, "a")
    whole = subject(checkpoint=kept)
    assert kept.numbers() == {0, 1, 2, 3}
    files = sorted(tmp_path.glob("chunk-*"))
    files[0].write_bytes(files[0].read_bytes()[:-40])
    files[1].write_bytes(b"")
    np.savez(files[2], found=np.zeros(3), tried=np.zeros(3), steps=np.zeros((1, 4)), seconds=1.0)
    assert same(whole, subject(checkpoint=Checkpoint(tmp_path, "a")))


def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path) -> None:
    Checkpoint(tmp_path, "a")
    with pytest.raises(SettingError, match=r"other data, .* without --resume"):
        Checkpoint(tmp_path, "b")


def test_a_full_disk_costs_the_checkpoint_and_not_the_search(
    subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    kept = Checkpoint(tmp_path, "a")
    monkeypatch.setattr(np, "savez", full)
    assert same(subject(), subject(checkpoint=kept))
    assert kept.numbers() == set()


def test_the_time_of_an_earlier_run_counts(subject: Subject, tmp_path: Path) -> None:
    first = Checkpoint(tmp_path, "a")
    subject(checkpoint=first)
    result = first.read(0, subject_types(subject))
    assert result is not None
    first.write(0, result, 1000.0, subject_types(subject))
    found = subject(checkpoint=Checkpoint(tmp_path, "a"))
    assert found.generation.wall_seconds >= 1000


def subject_types(subject: Subject) -> Any:
    from fairprobe.search.ledger import Ledger

    return Ledger(subject.domain).dtypes


def test_batches_come_back_in_their_order() -> None:
    found, tried = np.dtype([("key", np.uint64), ("a", np.int8)]), np.dtype([("key", np.uint64)])
    batches = [
        Batch(3, np.array([(5, 1)], found), np.array([(5,), (6,), (7,)], tried), 0.5),
        Batch(0, np.empty(0, found), np.empty(0, tried), 0.0),
        Batch(2, np.array([(8, 1), (5, 2)], found), np.array([(8,), (5,)], tried), 0.25),
    ]
    back = list(ChunkResult.of(batches, together=False).batches())
    for one, other in zip(batches, back, strict=True):
        assert (one.judged, one.cpu) == (other.judged, other.cpu)
        assert np.asarray(one.found).tolist() == np.asarray(other.found).tolist()
        assert np.asarray(one.tried).tolist() == np.asarray(other.tried).tolist()
    (one,) = ChunkResult.of(batches, together=True).batches()
    assert (one.judged, one.cpu) == (5, 0.75)
    assert np.asarray(one.found).tolist() == [(5, 1), (8, 1)]  # the first of each, in their order
    assert sorted(np.asarray(one.tried).tolist()) == [(5,), (6,), (7,), (8,)]
