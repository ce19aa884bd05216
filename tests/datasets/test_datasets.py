"""The packaged data sets: their sizes, their codings, and what happens when a file is broken."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fairprobe import datasets
from fairprobe.cli import app
from fairprobe.datasets import (
    Card,
    Dataset,
    Entry,
    catalogue,
    find,
    load,
    names,
    packaged,
    read_packaged,
    rows_from_frame,
)
from fairprobe.datasets.packaged import RACES
from fairprobe.errors import SettingError, StorageError
from fairprobe.schema.attributes import Attribute
from fairprobe.schema.domain import Domain
from papers.data.iifr import TRAINING_ROWS, load_iifr

# name, options -> (rows, attributes, columns a network sees, label counts, rows outside the domain)
EXPECTED = {
    "adult": (48_842, 13, 13, (37_155, 11_687), 3_665),
    "german": (1_000, 20, 20, (300, 700), 0),
    "german marital": (1_000, 21, 21, (300, 700), 0),
    "bank": (41_188, 20, 20, (36_548, 4_640), 0),
    "compas": (5_278, 10, 402, (2_795, 2_483), 0),
    "compas free": (5_278, 402, 402, (2_795, 2_483), 0),
}
LOADERS: dict[str, Callable[[], Dataset]] = {
    "adult": datasets.adult,
    "german": datasets.german,
    "german marital": lambda: datasets.german(marital=True),
    "bank": datasets.bank,
    "compas": datasets.compas,
    "compas free": lambda: datasets.compas(coding="free"),
}


@pytest.fixture(scope="module", params=list(EXPECTED))
def loaded(request: pytest.FixtureRequest) -> tuple[str, Dataset]:
    return request.param, LOADERS[request.param]()


def encoded_width(data: Dataset) -> int:
    return sum(
        len(attribute.categories) if attribute.one_hot else 1
        for attribute in data.domain.attributes
    )


def in_words(x: np.ndarray, data: Dataset) -> pd.DataFrame:
    """The rows as a person would write them: names of categories, and the lower end of each bin."""
    columns = {}
    for codes, attribute in zip(x.T, data.domain.attributes, strict=True):
        known = (
            codes
            if attribute.missing is None
            else np.where(codes == attribute.missing, np.nan, codes)
        )
        if attribute.kind == "categorical":
            columns[attribute.name] = [
                None if np.isnan(code) else attribute.categories[int(code)] for code in known
            ]
        else:
            columns[attribute.name] = list(known * attribute.bin)
    return pd.DataFrame(columns)


def test_sizes_labels_and_outliers(loaded: tuple[str, Dataset]) -> None:
    name, data = loaded
    rows, attributes, width, labels, outside = EXPECTED[name]
    assert data.x.shape == (rows, attributes)
    assert encoded_width(data) == width
    assert tuple(np.bincount(data.y)) == labels
    assert len(data.domain.outside(data.x)) == outside


def test_a_card_and_protected_attributes_that_can_be_audited(loaded: tuple[str, Dataset]) -> None:
    _, data = loaded
    assert data.card is not None
    assert all(
        [data.card.title, data.card.about, data.card.source, data.card.license, data.card.citation]
    )
    for attribute in data.protected:
        assert data.with_sensitive(attribute).domain.value_count >= 2


def test_rows_survive_the_way_through_words(loaded: tuple[str, Dataset]) -> None:
    _, data = loaded
    for x in (data.x[::53], data.domain.sample(100, rng=np.random.default_rng(0))):
        np.testing.assert_array_equal(rows_from_frame(in_words(x, data), data.domain), x)


# -- codings ---------------------------------------------------------------------------------------


def test_adult_reads_in_words() -> None:
    data = datasets.adult()
    person = data.domain.describe(data.x[27])
    assert person["age"] == "50–59"
    assert person["workclass"] == "not known"
    assert person["fnlwgt"] == "180,000–199,999"
    expected = ("Male", "Asian-Pac-Islander", ">50K")
    assert (person["gender"], person["race"], data.classes[data.y[27]]) == expected


def test_adult_equals_the_literatures_coding(assets: Path) -> None:
    reference = pd.read_csv(assets / "adf_census.csv.gz").to_numpy()
    data = datasets.adult()
    np.testing.assert_array_equal(data.x[:TRAINING_ROWS], reference[:, :-1])
    np.testing.assert_array_equal(data.y[:TRAINING_ROWS], reference[:, -1])
    assert len(data.domain.outside(data.x[:TRAINING_ROWS])) == 2_427


def test_german_holds_the_literatures_rows(assets: Path) -> None:
    reference = pd.read_csv(assets / "adf_credit_sample.csv.gz").to_numpy()
    data = datasets.german()
    ours = {tuple(row) for row in np.column_stack([data.x, data.y]).tolist()}
    assert all(tuple(row) in ours for row in reference.tolist())


def test_german_marital_status_names_no_gender() -> None:
    data = datasets.german(marital=True)
    gender, marital = (data.x[:, data.domain.index(name)] for name in ("gender", "marital-status"))
    assert data.domain["gender"].categories == ("Male", "Female")
    assert np.bincount(gender.astype(int)).tolist() == [690, 310]
    assert np.bincount(marital.astype(int)).tolist() == [548, 452]
    assert {(g, m) for g, m in zip(gender, marital, strict=True)} == {
        (0, 0),
        (0, 1),
        (1, 1),
    }  # the source has no single woman


def test_bank_caps_long_calls_and_says_who_was_contacted_before() -> None:
    data, raw = datasets.bank(), read_packaged("bank")
    duration = data.x[:, data.domain.index("duration")]
    np.testing.assert_array_equal(duration, np.minimum(raw["duration"] // 10, 99))
    contacted = data.x[:, data.domain.index("contacted-before")]
    assert int(contacted.sum()) == int((raw["pdays"] < 999).sum()) == 1_515
    months = data.x[:, data.domain.index("month")]
    assert (
        data.domain["month"].describe(float(months.min())),
        data.domain["month"].describe(float(months.max())),
    ) == ("mar", "dec")


def test_compas_age_groups_follow_from_age() -> None:
    data = datasets.compas()
    assert data.domain.satisfies(data.x).all()
    generated = data.domain.sample(500, rng=np.random.default_rng(1))
    age, group = (generated[:, data.domain.index(name)] for name in ("age", "age-cat"))
    np.testing.assert_array_equal(group, (age >= 25).astype(int) + (age >= 45))
    wrong = generated.copy()
    wrong[:, data.domain.index("age-cat")] = (group + 1) % 3
    assert not data.domain.satisfies(wrong).any()


def test_compas_without_a_stated_charge_is_kept() -> None:
    data = datasets.compas()
    assert data.domain["charge-desc"].categories[-1] == "not stated"
    assert int((data.x[:, -1] == len(data.domain["charge-desc"].categories) - 1).sum()) == 5
    assert data.domain["race"].categories == RACES
    assert data.favourable == 0


def test_compas_free_is_the_same_people_in_single_columns() -> None:
    grouped, free = datasets.compas(), datasets.compas(coding="free")
    assert "charge-desc=Battery" in free.domain.names
    assert free.domain.constraints == ()
    assert all(attribute.one_hot is False for attribute in free.domain.attributes)
    for name in ("age-cat", "charge-degree", "charge-desc"):
        columns = [
            index for index, column in enumerate(free.domain.names) if column.startswith(f"{name}=")
        ]
        assert (free.x[:, columns].sum(axis=1) == 1).all()
        np.testing.assert_array_equal(
            free.x[:, columns].argmax(axis=1), grouped.x[:, grouped.domain.index(name)]
        )
    np.testing.assert_array_equal(free.x[:, :7], grouped.x[:, :7])


# -- the packaged files ----------------------------------------------------------------------------

SOURCES = {"adult": "adult", "german": "german", "bank": "bank_additional_full", "compas": "compas"}


@pytest.mark.parametrize("name", SOURCES)
def test_packaged_values_are_the_sources(name: str, assets: Path) -> None:
    source = pd.read_csv(assets / f"{SOURCES[name]}.csv.gz", dtype=str, keep_default_na=False)
    published = pd.read_csv(str(packaged.packaged_file(name)), dtype=str, keep_default_na=False)
    pd.testing.assert_frame_equal(published, source[list(published.columns)])


def broken(kind: str, folder: Path) -> Path:
    content = packaged.packaged_file("german").read_bytes()
    file = folder / "german.csv.gz"
    match kind:
        case "cut short":
            file.write_bytes(content[:-100])
        case "empty":
            file.write_bytes(b"")
        case "other text":
            file.write_bytes(gzip.compress(b"a,b\n1,2\n"))
        case "folder":
            file.mkdir()
    return file


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("cut short", "damaged"),
        ("empty", "0 bytes"),
        ("other text", "damaged"),
        ("folder", "cannot be read"),
        ("absent", "No such file"),
    ],
)
def test_a_broken_file_is_named_with_what_to_do(
    kind: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = broken(kind, tmp_path)
    monkeypatch.setattr(packaged, "packaged_file", lambda _: file)
    with pytest.raises(StorageError, match="Reinstall fairprobe") as caught:
        datasets.german()
    assert wrong in str(caught.value)
    assert str(file) in str(caught.value)


# -- the catalogue ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [entry.name for entry in catalogue()])
def test_the_catalogue_agrees_with_the_table(name: str) -> None:
    entry, data = find(name), load(name)
    assert (entry.rows, entry.attributes, entry.protected) == (*data.x.shape, data.protected)
    assert (entry.name, entry.card) == (data.name, data.card)


def test_a_data_set_is_registered_by_its_own_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packaged, "REGISTRY", dict(packaged.REGISTRY))
    card = Card("Toy", "Two people.", "made up", "none", "")
    toy = Entry(name="toy", card=card, rows=2, attributes=1, protected=("sex",), sha256="")

    @toy.loader
    def load_toy(high: int = 1) -> Dataset:
        domain = Domain((Attribute(name="sex", low=0, high=high),))
        x = np.array([[0], [1]], dtype=np.float32)
        return toy.dataset(domain=domain, x=x, y=np.array([0, 1]), classes=("no", "yes"))

    assert load("toy", high=2).domain.high.tolist() == [2]
    assert "toy" in names()
    listed = CliRunner().invoke(app, ["list", "datasets"]).stdout
    assert "Toy. From made up. License: none." in listed
    described = json.loads(CliRunner().invoke(app, ["list", "datasets", "--as", "json"]).stdout)[-1]
    assert described["name"] == "toy"


def test_the_catalogue_reads_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pd, "read_csv", lambda *_, **__: pytest.fail("a table was read"))
    assert len(catalogue()) == 4


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("adlut", {}, "Did you mean 'adult'?"),
        ("adult", {"coding": "free"}, "has no option 'coding'. It has none."),
        ("compas", {"codign": "free"}, "Did you mean 'coding'?"),
        ("compas", {"coding": "fre"}, "Did you mean 'free'?"),
    ],
)
def test_load_refuses_unknown_names_and_options(
    name: str, options: dict[str, str], words: str
) -> None:
    with pytest.raises(SettingError) as caught:
        load(name, **options)
    assert words in str(caught.value)


# -- twins -----------------------------------------------------------------------------------------


def test_adults_spouses_are_twins() -> None:
    data = load("adult").with_sensitive("gender")
    (coupling,) = data.domain.active_couplings
    assert str(coupling) == "relationship (Wife ↔ Husband) with gender"
    genders = data.domain["gender"].categories
    counts = {
        (genders[int(gender)], word): int(((data.x[:, 8] == gender) & (data.x[:, 6] == code)).sum())
        for gender in (0, 1)
        for code, word in ((0, "Wife"), (2, "Husband"))
    }
    assert counts[("Male", "Wife")] + counts[("Female", "Husband")] == 4
    assert sum(counts.values()) == 22_047
    assert load("adult").with_sensitive("race").domain.active_couplings == ()
    assert load_iifr("adult").domain.active_couplings == (coupling,)


def test_the_age_group_of_compas_changes_along_with_age() -> None:
    data = load("compas").with_sensitive("age")
    domain = data.domain
    every = domain.counterparts(data.x[:50]).reshape(-1, len(domain))
    assert domain.satisfies(every).all()  # every age is possible, with its own group
    bare = domain.bare().counterparts(data.x[:50]).reshape(-1, len(domain))
    assert not domain.satisfies(bare).all()
    assert load("compas").with_sensitive("race").domain.active_couplings == ()
