"""The invented population, learned once for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from fairprobe.arrays import Rows
from fairprobe.datasets.base import Dataset
from fairprobe.models import one_thread
from fairprobe.people import PlausiblePeople
from tests.people.population import WORK, draw_people, table


@pytest.fixture(autouse=True, scope="session")
def one_core() -> Iterator[None]:
    with one_thread():
        yield


@pytest.fixture(scope="session")
def data() -> Dataset:
    """20,000 people; one in fifty has a gap."""
    rng = np.random.default_rng(0)
    x = draw_people(20_000, rng)
    x[rng.random(len(x)) < 0.02, WORK] = -1
    return table(x)


@pytest.fixture(scope="session")
def people(data: Dataset) -> PlausiblePeople:
    return PlausiblePeople.fit(data)


@pytest.fixture(scope="session")
def fresh() -> Rows:
    """Other people of the same population."""
    return draw_people(20_000, np.random.default_rng(1))
