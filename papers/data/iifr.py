"""The codings of the IIFR paper: Adult by gender, COMPAS by race, German Credit by age, from the
same packaged tables.

    adult     45,222 people without an unknown value, the official test set held out. 114 columns:
              11 buckets of age, 5 numbers, 98 one-hot
    compas    6,172 people, 11 columns; race is African-American or not, with columns for the other
              races as the source codes them
    german    1,000 people, age in five bands. The paper's 30 columns are not identified; ours has
              numbers, and one column a category

A network sees the one-hot columns of an attribute change together. In COMPAS a person of another
named race has no counterpart, because nobody is of two races; they are learnt from, but not
compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from fairprobe.arrays import Mask, Rows
from fairprobe.datasets.base import Dataset
from fairprobe.datasets.packaged import ADULT, COMPAS, SPOUSES, german, read_packaged, screened
from fairprobe.errors import SettingError, suggest
from fairprobe.schema.attributes import Attribute, Constraint
from fairprobe.schema.coding import rows_from_frame
from fairprobe.schema.domain import Domain

TRAINING_ROWS = 32_561  # the first rows of Adult are the official training set
AGES = (18, 25, 30, 35, 40, 45, 50, 55, 60, 65)  # the starts of Adult's buckets but the first
# German Credit: the last age of each band
BANDS = {"19-25": 25, "26-35": 35, "36-45": 45, "46-55": 55, "56-75": 75}
OTHER_RACES = ("Asian", "Hispanic", "Native American", "Other")


def load_iifr(name: str) -> Dataset:
    """ "adult", "compas" or "german" in the coding of the IIFR paper, with its sensitive
    attribute.
    """
    if name not in LOADERS:
        raise SettingError(f"The IIFR paper has no data set '{name}'.{suggest(name, LOADERS)}")
    return LOADERS[name]()


def _adult() -> Dataset:
    raw = read_packaged("adult").rename(columns={"sex": "gender"})
    complete = ~raw.isna().any(axis=1)
    frame = raw[complete].copy()
    frame["age"] = [_bucket(place) for place in np.searchsorted(AGES, frame["age"], side="right")]
    numbers = ("fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
    words = ("workclass", "education", "marital-status", "occupation", "relationship")
    attributes = [_one_hot("age", [_bucket(place) for place in range(len(AGES) + 1)])]
    attributes += [
        Attribute(name=name, low=int(frame[name].min()), high=int(frame[name].max()))
        for name in numbers
    ]
    attributes += [
        _one_hot(name, sorted(frame[name].unique()))
        for name in (*words, "race", "gender", "native-country")
    ]
    domain = Domain(tuple(attributes), sensitive=("gender",), couplings=(SPOUSES,))
    return ADULT.dataset(
        domain=domain,
        x=rows_from_frame(frame, domain),
        y=(frame["income"] == ">50K").to_numpy().astype(np.int64),
        classes=("<=50K", ">50K"),
        label="income",
        favourable=1,
        protected=("gender", "race"),
        held_out=np.flatnonzero(np.flatnonzero(complete) >= TRAINING_ROWS),
    )


def _bucket(place: int) -> str:
    if place == 0:
        return f"below {AGES[0]}"
    if place == len(AGES):
        return f"{AGES[-1]} or older"
    return f"{AGES[place - 1]}-{AGES[place] - 1}"


def _compas() -> Dataset:
    people = screened(read_packaged("compas"))
    frame = pd.DataFrame(
        {
            "priors-count": people["priors-count"],
            "high-score": _yes(people["score-text"] != "Low"),
            "above-45": _yes(people["age-cat"] == "Greater than 45"),
            "below-25": _yes(people["age-cat"] == "Less than 25"),
            "race": np.where(people["race"] == "African-American", "African-American", "other"),
            **{_column(race): _yes(people["race"] == race) for race in OTHER_RACES},
            "female": _yes(people["gender"] == "Female"),
            "misdemeanor": _yes(people["charge-degree"] == "misdemeanor"),
        }
    )
    races = {"race": ("other", "African-American")}
    domain = Domain(
        (
            Attribute(name="priors-count", low=0, high=38),
            *(
                Attribute(name=name, kind="categorical", categories=races.get(name, ("no", "yes")))
                for name in frame.columns[1:]
            ),
        ),
        sensitive=("race",),
        constraints=(
            Constraint("nobody is of two races", _one_race),
            Constraint("nobody is both young and old", _one_age),
        ),
    )
    return COMPAS.dataset(
        domain=domain,
        x=rows_from_frame(frame, domain),
        y=people["two-year-recid"].to_numpy(dtype=int),
        classes=("no", "yes"),
        label="two-year-recid",
        favourable=0,
        protected=("race",),
    )


def _column(race: str) -> str:
    return race.lower().replace(" ", "-")


def _yes(holds: pd.Series[bool]) -> pd.Series[str]:
    return holds.map({True: "yes", False: "no"})


def _one_race(columns: Mapping[str, Rows]) -> Mask:
    named = sum((columns[_column(race)] for race in OTHER_RACES), columns["race"])
    return np.asarray(named <= 1)


def _one_age(columns: Mapping[str, Rows]) -> Mask:
    return np.asarray(columns["above-45"] + columns["below-25"] <= 1)


def _german() -> Dataset:
    known = german()
    raw = read_packaged("german")
    band = np.searchsorted(list(BANDS.values()), raw["age"], side="left")
    attributes = [
        replace(each, one_hot=len(each.categories) > 2) for each in known.domain.attributes
    ]
    place = known.domain.index("age")
    attributes[place] = _one_hot("age", list(BANDS))
    x = known.x.copy()
    x[:, place] = band
    return replace(
        known,
        domain=Domain(tuple(attributes), sensitive=("age",)),
        x=x,
        y=1 - known.y,
        classes=("good", "bad"),  # the paper's order: 1 is the risk
        favourable=0,
    )


def _one_hot(name: str, categories: list[str]) -> Attribute:
    return Attribute(name=name, kind="categorical", categories=tuple(categories), one_hot=True)


LOADERS = {"adult": _adult, "compas": _compas, "german": _german}
