"""The IIFR paper's codings, against its tables 1 and 2 and its example of two similar people."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import cosine_similarity

from fairprobe.arrays import Rows
from fairprobe.datasets import Dataset, read_packaged
from fairprobe.errors import SettingError
from fairprobe.models import Encoder, Scale
from papers.data.iifr import load_iifr

# rows, columns of the network, P(Y = 1), and by sensitive value: its share, P(Y = 1 | value)
PAPER = {
    "adult": (45_222, 114, 0.248, {"Male": (0.675, 0.312), "Female": (0.325, 0.114)}),
    "compas": (6_172, 11, 0.455, {"other": (0.486, 0.383), "African-American": (0.514, 0.523)}),
    "german": (
        1_000,
        61,  # the paper has 30, which are not identified
        0.3,
        {
            "19-25": (0.190, 0.421),
            "26-35": (0.398, 0.296),
            "36-45": (0.226, 0.243),
            "46-55": (0.115, 0.243),
            "56-75": (0.071, 0.268),
        },
    ),
}


@pytest.fixture(scope="module", params=list(PAPER))
def loaded(request: pytest.FixtureRequest) -> Dataset:
    return load_iifr(request.param)


def test_people_columns_and_shares_are_those_of_the_paper(loaded: Dataset) -> None:
    rows, columns, positive, groups = PAPER[loaded.name]
    assert len(loaded) == rows
    assert Encoder(loaded.domain).width == columns
    assert loaded.y.mean() == pytest.approx(positive, abs=6e-4)
    own = loaded.domain.own_value(loaded.x)
    assert {
        loaded.domain.describe_value(place) for place in range(loaded.domain.value_count)
    } == set(groups)
    for place in range(loaded.domain.value_count):
        share, rate = groups[loaded.domain.describe_value(place)]
        assert (own == place).mean() == pytest.approx(share, abs=6e-4)
        assert loaded.y[own == place].mean() == pytest.approx(rate, abs=6e-4)


def test_everybody_is_inside_the_domain_and_keeps_its_rules(loaded: Dataset) -> None:
    assert len(loaded.domain.outside(loaded.x)) == 0
    assert loaded.domain.satisfies(loaded.x).all()


def test_adult_keeps_its_official_test_set() -> None:
    data = load_iifr("adult")
    one, other = data.split(0), data.split(1)
    assert (len(one.train) + len(one.validation), len(one.test)) == (30_162, 15_060)
    np.testing.assert_array_equal(one.test, other.test)
    assert set(one.validation) != set(other.validation)
    assert set(one.test).isdisjoint([*one.train, *one.validation])


def test_the_papers_similar_pair_is_as_similar_here() -> None:
    """Its table 5: a woman of 21 and a man of 22, both in sales, cosine .808."""
    raw = read_packaged("adult")
    people = raw[~raw.isna().any(axis=1)].reset_index(drop=True)
    alike = {
        "workclass": "Private",
        "education": "Some-college",
        "marital-status": "Never-married",
        "occupation": "Sales",
        "relationship": "Not-in-family",
        "race": "White",
        "capital-gain": 0,
        "capital-loss": 0,
        "native-country": "United-States",
    }
    woman = {"age": 21, "sex": "Female", "hours-per-week": 45, "income": "<=50K"}
    man = {"age": 22, "sex": "Male", "hours-per-week": 25, "income": ">50K"}
    places = []
    for person in (woman, man):
        wanted = alike | person
        (place,) = np.flatnonzero((people[list(wanted)] == list(wanted.values())).all(axis=1))
        places.append(int(place))
    data = load_iifr("adult")
    z = Encoder(data.domain)(torch.from_numpy(data.x))
    standard = Scale.standard(z)(z[places])
    assert float(cosine_similarity(standard[0], standard[1], dim=0)) == pytest.approx(
        0.802, abs=5e-4
    )


def column(data: Dataset, name: str) -> Rows:
    return data.x[:, data.domain.index(name)]


def test_the_buckets_of_age_begin_where_the_paper_cuts() -> None:
    raw = read_packaged("adult")
    age = raw[~raw.isna().any(axis=1)]["age"].to_numpy()
    data = load_iifr("adult")
    bucket = column(data, "age")
    first = [int(age[bucket == place].min()) for place in range(11)]
    assert first == [17, 18, 25, 30, 35, 40, 45, 50, 55, 60, 65]
    assert data.domain["age"].categories[0] == "below 18"
    assert data.domain["age"].categories[-1] == "65 or older"


def test_the_bands_of_german_ages_end_where_the_paper_cuts() -> None:
    age = read_packaged("german")["age"].to_numpy()
    band = column(load_iifr("german"), "age")
    assert [int(age[band == place].max()) for place in range(5)] == [25, 35, 45, 55, 75]


def test_a_one_hot_attribute_is_flipped_whole() -> None:
    data = load_iifr("adult")
    encoder = Encoder(data.domain)
    pair = encoder(torch.from_numpy(data.domain.counterparts(data.x[:1])[0]))
    changed = (pair[0] != pair[1]).nonzero()[:, 0].tolist()
    start, width = encoder.spans[data.domain.index("gender")]
    assert changed == list(range(start, start + width))
    assert width == 2


def test_compas_people_of_a_named_other_race_have_no_counterpart() -> None:
    data = load_iifr("compas")
    hispanic = data.x[column(data, "hispanic") == 1]
    white = data.x[(column(data, "race") == 0) & (data.x[:, 5:9].sum(axis=1) == 0)]
    for people, has in ((hispanic, False), (white, True)):
        every = data.domain.counterparts(people)
        others = every[np.arange(len(people)), 1 - data.domain.own_value(people)]
        assert (data.domain.satisfies(others) == has).all()
    assert data.domain.attributes[5].name == "asian"


def test_an_unknown_data_set_is_refused_with_a_suggestion() -> None:
    with pytest.raises(SettingError, match=r"no data set 'adlut'.*adult"):
        load_iifr("adlut")
