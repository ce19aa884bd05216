"""An interrupt at any moment: what was proved until then is true, and the file is whole."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairprobe.certificates import checker, proof
from fairprobe.certificates.branch import Limit, Search
from fairprobe.certificates.exact import enumerated
from fairprobe.certificates.fold import chain_of
from fairprobe.certificates.proof import Proof, prove, save
from tests.certificates.small import network, numbers

LONG = Limit(600.0)


def interrupted(seconds: float, work: Callable[[], Proof]) -> Proof | None:
    """What work returns that gets a real SIGINT after some time; None if it came before anything
    was proved.
    """
    active, done = [True], None

    def handle(*_: Any) -> None:
        if active:
            active.clear()
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, handle)
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        done = work()
        active.clear()
    except KeyboardInterrupt:
        pass
    timer.cancel()
    timer.join()
    signal.signal(signal.SIGINT, before)
    return done


def test_bounds_that_are_interrupted_cover_everybody_once_and_claim_what_is_true(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    domain = numbers(sizes=(40, 30, 40))
    chain = chain_of(network(domain, seed=4), domain)
    *_, counts = enumerated(chain)
    truth, rng = counts.alike / counts.cases, np.random.default_rng(0)
    monkeypatch.setattr(proof, "rate", lambda _: 0.0)  # bounds, though everybody could be asked
    stopped = set()
    for trial in range(12):
        done = interrupted(0.02 + 0.25 * rng.random(), lambda: prove(chain, LONG))
        if done is None:
            continue
        assert isinstance(done.search, Search)
        stopped.add(done.stopped)
        boxes = done.search.boxes
        low, high = boxes.corners(slice(None))
        assert chain.volume(low, high).sum() == pytest.approx(1)
        assert checker.disjoint(low, high, chain.whole)
        assert done.alike <= truth + 1e-12
        if trial % 6 == 0:
            save(done, tmp_path / "c.npz")
            assert checker.check(str(tmp_path / "c.npz"))["checked"] <= truth + 1e-12
    assert "interrupted" in stopped


def test_an_interrupt_while_boxes_are_put_loses_none(monkeypatch: pytest.MonkeyPatch) -> None:
    domain = numbers(sizes=(20, 20, 20))
    search = Search(chain_of(network(domain, seed=4), domain))
    search._split(search._worst())
    whole, calls = type(search.boxes).put, 0

    def put(self: Any, places: Any, **columns: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:  # half of the columns are written
            whole(self, places, low=columns["low"], high=columns["high"])
            raise KeyboardInterrupt
        whole(self, places, **columns)

    monkeypatch.setattr(type(search.boxes), "put", put)
    search.run(LONG)
    boxes, chain = search.boxes, search.chain
    low, high = boxes.corners(slice(None))
    assert search.stopped == "interrupted"
    assert chain.volume(low, high).sum() == pytest.approx(1)
    again = Search(chain)
    again._bound(low, high, np.arange(len(low)))
    assert again.proved == pytest.approx(search.proved)


def test_an_enumeration_that_is_interrupted_claims_those_who_were_asked(tmp_path: Path) -> None:
    domain = numbers(sizes=(60, 90, 90))
    chain = chain_of(network(domain, seed=4), domain)

    def stop(stage: str, spent: float, proved: float) -> None:
        if spent > 0.3:
            raise KeyboardInterrupt

    done = prove(chain, LONG, on_progress=stop)
    assert (done.way, done.stopped, done.affected) == ("enumerated", "interrupted", None)
    *_, counts = enumerated(chain)
    assert 0 < done.alike < counts.alike / counts.cases
    save(done, tmp_path / "c.npz")
    assert checker.check(str(tmp_path / "c.npz"))["checked"] == pytest.approx(done.alike)
