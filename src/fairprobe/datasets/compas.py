"""COMPAS: is a defendant of Broward County, Florida, charged with a new crime within two years?

Source: ProPublica, `compas-scores-two-years.csv` (2016), public records. Nothing that identifies a
person is packaged. ProPublica's filter (screened within 30 days of the arrest, a known outcome, no
ordinary traffic offence, a score) leaves 6,172 of 7,214 people; 5,278 of them are African-American
or Caucasian, and those are the rows, as in the papers.

Coding: age in years, counts as they are, gender and race one column each. `age-cat`,
`charge-degree` and `charge-desc` are one-hot, so a network sees 402 columns (AIF360's coding, which
the NeuronFair paper used, has 401: it drops the five people of the 6,172 without a description of
the charge, who are "not stated" here). Charges are those of all 6,172 people.

- coding "one-hot" (the default): ten attributes. An attribute's columns always hold exactly one 1,
  and a constraint keeps `age-cat` true to `age`, because the source computes it from there. (It
  puts the 45-year-old into "Greater than 45".)
- coding "free": the domain of the paper, in which every one-hot column is an attribute of its own,
  0 or 1. It is there to compare with the paper; most of its people cannot exist (charged with two
  hundred things, both young and old).

The label is the *new charge*, and arrests are not crimes; favourable is "no".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, get_args

import numpy as np
import pandas as pd

from fairprobe.arrays import Mask, Rows
from fairprobe.datasets.base import Card, Dataset
from fairprobe.datasets.registry import Entry, read_packaged
from fairprobe.errors import SettingError, suggest
from fairprobe.schema.attributes import Attribute, Constraint
from fairprobe.schema.coding import rows_from_frame
from fairprobe.schema.domain import Domain
from fairprobe.schema.twins import Coupling

Coding = Literal["one-hot", "free"]

RACES = ("African-American", "Caucasian")
NOT_STATED = "not stated"
AGE_GROUPS = {"Less than 25": 0, "25 - 45": 25, "Greater than 45": 45}  # the first age of each
DEGREES = {"F": "felony", "M": "misdemeanor"}

COMPAS = Entry(
    name="compas",
    card=Card(
        title="COMPAS (two-year recidivism)",
        about=(
            "5,278 African-American and Caucasian defendants of Broward County, Florida; predicts a"
            " new charge within two years."
        ),
        source=(
            "ProPublica, compas-scores-two-years.csv, as carried by the PyPI wheel aif360 0.2.0;"
            " columns that identify people removed"
        ),
        license="None stated (public records, published for journalism)",
        citation="J. Angwin, J. Larson, S. Mattu and L. Kirchner, 'Machine Bias', ProPublica, 2016",
    ),
    rows=5_278,
    attributes=10,
    protected=("race", "gender"),
    sha256="7d164e98c412db62c55e47ffc4b153b8a65f4783dc58e2fb9a0141e58a1b9d3b",
)


@COMPAS.loader
def compas(coding: Coding = "one-hot") -> Dataset:
    """5,278 people; 10 attributes that a network sees as 402 columns, or 402 attributes when
    `coding` is "free".
    """
    if coding not in get_args(Coding):
        raise SettingError(
            f"COMPAS has no coding '{coding}'.{suggest(str(coding), get_args(Coding))}"
        )
    everybody = screened(read_packaged("compas"))
    people = everybody[everybody["race"].isin(RACES)]
    domain = _domain(charges=sorted(set(everybody["charge-desc"]) - {NOT_STATED}))
    x = rows_from_frame(people, domain)
    if coding == "free":
        x, domain = _freed(x, domain)
    return COMPAS.dataset(
        domain=domain,
        x=x,
        y=people["two-year-recid"].to_numpy(dtype=int),
        classes=("no", "yes"),
        label="two-year-recid",
        favourable=0,
    )


def screened(raw: pd.DataFrame) -> pd.DataFrame:
    """ProPublica's 6,172 people in our names and words."""
    frame = raw.rename(columns=lambda name: name.removeprefix("c_").replace("_", "-")).rename(
        columns={"sex": "gender"}
    )
    kept = frame["days-b-screening-arrest"].abs() <= 30  # False where it is missing
    kept &= (frame["is-recid"] != -1) & (frame["charge-degree"] != "O")
    kept &= frame["score-text"] != "N/A"
    frame = frame[kept]
    return frame.assign(
        **{
            "charge-degree": frame["charge-degree"].map(DEGREES),
            "charge-desc": frame["charge-desc"].fillna(NOT_STATED),
        }
    )


def _domain(charges: list[str]) -> Domain:
    ages = np.arange(18, 97)
    groups = _age_group({"age": ages.astype(np.float32)})["age-cat"].astype(int)
    words = np.array(list(AGE_GROUPS))[groups].tolist()
    group_of_age = dict(zip(map(str, ages.tolist()), words, strict=True))
    return Domain(
        (
            Attribute(name="gender", kind="categorical", categories=("Female", "Male")),
            Attribute(name="age", low=18, high=96),
            Attribute(name="race", kind="categorical", categories=RACES),
            Attribute(name="juv-fel-count", low=0, high=20),
            Attribute(name="juv-misd-count", low=0, high=13),
            Attribute(name="juv-other-count", low=0, high=9),
            Attribute(name="priors-count", low=0, high=38),
            _one_hot("age-cat", AGE_GROUPS),
            _one_hot("charge-degree", DEGREES.values()),
            _one_hot("charge-desc", (*charges, NOT_STATED)),
        ),
        constraints=(Constraint("age-cat follows from age", _age_group_follows, _age_group),),
        couplings=(Coupling("age-cat", "age", (group_of_age,)),),
    )


def _one_hot(name: str, categories: Iterable[str]) -> Attribute:
    return Attribute(name=name, kind="categorical", categories=tuple(categories), one_hot=True)


def _age_group_follows(columns: Mapping[str, Rows]) -> Mask:
    return np.asarray(columns["age-cat"] == _age_group(columns)["age-cat"])


def _age_group(columns: Mapping[str, Rows]) -> dict[str, Rows]:
    group = np.searchsorted(list(AGE_GROUPS.values()), columns["age"], side="right") - 1
    return {"age-cat": group.astype(np.float32)}


def _freed(x: Rows, domain: Domain) -> tuple[Rows, Domain]:
    """Each one-hot column as an attribute of its own, without the rules within a group."""
    columns: list[Rows] = []
    attributes: list[Attribute] = []
    for codes, attribute in zip(x.T, domain.attributes, strict=True):
        if attribute.one_hot:
            columns.extend(codes == code for code in range(len(attribute.categories)))
            attributes.extend(
                Attribute(name=f"{attribute.name}={category}", low=0, high=1)
                for category in attribute.categories
            )
        else:
            columns.append(codes)
            attributes.append(attribute)
    return np.stack(columns, axis=1).astype(np.float32), Domain(tuple(attributes))
