"""German Credit (Statlog): is a person a good or a bad credit risk?

Source: UCI Machine Learning Repository, given by Hans Hofmann (Hamburg); 1,000 people, 700 good and
300 bad risks.

Coding: the integers of the literature (ADF and NeuronFair call it "credit"): age in decades, the
amount in hundreds of Deutsche Mark, each category by its place in the source's documentation. The
categories here are those of the documentation in words.

The source has one attribute for gender and marital status together:

    A91 male, divorced or separated       A92 female, divorced, separated or married
    A93 male, single                      A94 male, married or widowed
    A95 female, single (nobody)

Its five values cannot be taken apart finely without saying the gender again ("divorced or
separated" would always be a man, "divorced, separated or married" always a woman), and then
changing the gender alone would describe nobody. So `gender` takes its place, as in the literature,
which gives 20 attributes. `german(marital=True)` adds `marital-status` in the only division that
both genders share: A93 and A95 are "single", the rest "married or formerly married". Beware that
nobody here is A95: being single tells a network that the person is a man.

Bounds: the literature's, except that age ends with the seventies; nobody is older.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from fairprobe.datasets.base import Card, Dataset
from fairprobe.datasets.registry import Entry, read_packaged
from fairprobe.schema.attributes import Attribute
from fairprobe.schema.coding import rows_from_frame
from fairprobe.schema.domain import Domain

GERMAN = Entry(
    name="german",
    card=Card(
        title="German Credit (Statlog)",
        about=(
            "1,000 credit customers of a German bank; predicts whether a person is a good credit"
            " risk."
        ),
        source=(
            "UCI Machine Learning Repository, 'Statlog (German Credit Data)', as carried by the"
            " PyPI wheel aif360 0.2.0"
        ),
        license="None stated in the files; the UCI repository lists its data sets under CC BY 4.0",
        citation=(
            "H. Hofmann, 'Statlog (German Credit Data)', UCI Machine Learning Repository, 1994"
        ),
    ),
    rows=1_000,
    attributes=20,
    protected=("gender", "age"),
    sha256="079d5afe95b517b19cfbb59aa1c277ad40b2b27452949d858b01382ac0c92967",
)

# The source's column, our name, and the words for its values in the order of the documentation.
CATEGORIES: dict[str, tuple[str, dict[str, str]]] = {
    "status": (
        "checking-account",
        {
            "A11": "below 0 DM",
            "A12": "0 to 199 DM",
            "A13": "200 DM or more, or salary paid in for a year",
            "A14": "no checking account",
        },
    ),
    "credit_history": (
        "credit-history",
        {
            "A30": "no credits, or all paid back duly",
            "A31": "all credits at this bank paid back duly",
            "A32": "existing credits paid back duly till now",
            "A33": "delay in paying off in the past",
            "A34": "critical account, or credits elsewhere",
        },
    ),
    "purpose": (
        "purpose",
        {
            "A40": "new car",
            "A41": "used car",
            "A42": "furniture or equipment",
            "A43": "radio or television",
            "A44": "domestic appliances",
            "A45": "repairs",
            "A46": "education",
            "A47": "vacation",  # nobody; kept so that the codes after it are the literature's
            "A48": "retraining",
            "A49": "business",
            "A410": "other",
        },
    ),
    "savings": (
        "savings",
        {
            "A61": "below 100 DM",
            "A62": "100 to 499 DM",
            "A63": "500 to 999 DM",
            "A64": "1,000 DM or more",
            "A65": "unknown, or no savings account",
        },
    ),
    "employment": (
        "employment",
        {
            "A71": "unemployed",
            "A72": "less than 1 year",
            "A73": "1 to 3 years",
            "A74": "4 to 6 years",
            "A75": "7 years or more",
        },
    ),
    "personal_status": (
        "gender",
        {"A91": "Male", "A92": "Female", "A93": "Male", "A94": "Male", "A95": "Female"},
    ),
    "other_debtors": (
        "other-debtors",
        {"A101": "none", "A102": "co-applicant", "A103": "guarantor"},
    ),
    "property": (
        "property",
        {
            "A121": "real estate",
            "A122": "building society savings or life insurance",
            "A123": "car or other",
            "A124": "unknown, or no property",
        },
    ),
    "installment_plans": (
        "other-installment-plans",
        {"A141": "bank", "A142": "stores", "A143": "none"},
    ),
    "housing": ("housing", {"A151": "rent", "A152": "own", "A153": "for free"}),
    "skill_level": (
        "job",
        {
            "A171": "unemployed, or unskilled and not resident",
            "A172": "unskilled and resident",
            "A173": "skilled employee or official",
            "A174": "management, self-employed or highly qualified",
        },
    ),
    "telephone": ("telephone", {"A191": "none", "A192": "registered"}),
    "foreign_worker": ("foreign-worker", {"A201": "yes", "A202": "no"}),
}
NUMBERS = {
    "month": Attribute(name="duration-months", low=1, high=80),
    "credit_amount": Attribute(name="credit-amount", low=1, high=200, bin=100),
    "investment_as_income_percentage": Attribute(name="installment-rate", low=1, high=4),
    "residence_since": Attribute(name="residence-since", low=1, high=4),
    "age": Attribute(name="age", low=1, high=7, bin=10),
    "number_of_credits": Attribute(name="existing-credits", low=1, high=4),
    "people_liable_for": Attribute(name="people-liable", low=1, high=2),
}
MARITAL_STATUSES = ("single", "married or formerly married")


@GERMAN.loader
def german(marital: bool = False) -> Dataset:
    """1,000 people, 20 attributes (21 with `marital`, see the module's text); favorable is a good
    risk.
    """
    raw = read_packaged("german")
    columns = [column for column in raw.columns if column != "credit"]
    attributes = [_attribute(column) for column in columns]
    frame = pd.DataFrame({_attribute(column).name: _in_words(raw, column) for column in columns})
    if marital:
        single = raw["personal_status"].isin(["A93", "A95"])
        frame["marital-status"] = np.where(single, *MARITAL_STATUSES)
        attributes.append(
            Attribute(name="marital-status", kind="categorical", categories=MARITAL_STATUSES)
        )
    domain = Domain(tuple(attributes))
    return GERMAN.dataset(
        domain=domain,
        x=rows_from_frame(frame, domain),
        y=(raw["credit"] == 1).to_numpy().astype(np.int64),  # 1 is good, 2 is bad
        classes=("bad", "good"),
        label="credit",
        favourable=1,
    )


def _attribute(column: str) -> Attribute:
    if column in NUMBERS:
        return NUMBERS[column]
    name, words = CATEGORIES[column]
    return Attribute(name=name, kind="categorical", categories=tuple(dict.fromkeys(words.values())))


def _in_words(raw: pd.DataFrame, column: str) -> pd.Series[int] | pd.Series[str]:
    return raw[column] if column in NUMBERS else raw[column].map(CATEGORIES[column][1])
