"""Adult (Census Income): does a person earn more than $50,000 a year?

Source: UCI Machine Learning Repository, extracted by Barry Becker from the 1994 census of the
United States; the 32,561 rows of `adult.data` first, then the 16,281 of `adult.test`.

Coding: exactly the integers of the literature (ADF, EIDIG and NeuronFair call this coding
"census"), so that networks and results can be exchanged with it:

- age in decades, final weight in steps of 20,000, capital gain in steps of 1,000, capital loss in
  steps of 100;
- categories in the order of `adult.names`; a value that is not known ('?') is 100;
- `education-num` is left out, because it says the same as `education`;
- the bounds are the literature's too. They are narrower than the data: 41 countries have a code but
  the domain ends at 39, and some final weights, losses and every '?' lie outside. Those rows are
  data like any other, but none such is generated.

The counterpart of a husband is a wife: of 22,047 spouses 4 are female husbands or male wives.
"""

from __future__ import annotations

import numpy as np

from fairprobe.datasets.base import Card, Dataset
from fairprobe.datasets.registry import Entry, read_packaged
from fairprobe.schema.attributes import Attribute
from fairprobe.schema.coding import rows_from_frame
from fairprobe.schema.domain import Domain
from fairprobe.schema.twins import Coupling

TRAINING_ROWS = 32_561  # the first rows are the official training set
NOT_KNOWN = 100

ADULT = Entry(
    name="adult",
    card=Card(
        title="Adult (Census Income)",
        about=(
            "48,842 adults of the 1994 census of the United States; predicts whether a person earns"
            " more than $50,000 a year."
        ),
        source=(
            "UCI Machine Learning Repository, 'Adult', as carried by the PyPI wheel aif360 0.2.0"
        ),
        license="None stated in the files; the UCI repository lists its data sets under CC BY 4.0",
        citation=(
            "R. Kohavi, 'Scaling Up the Accuracy of Naive-Bayes Classifiers: a Decision-Tree"
            " Hybrid', KDD 1996"
        ),
    ),
    rows=48_842,
    attributes=13,
    protected=("gender", "race", "age"),
    sha256="eb06da7b236511760fd5242fe5c637d03daa1aeb09d533e51fcbf9ccf5b41f9b",
)

WORKCLASSES = (
    "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked"
)
EDUCATIONS = (
    "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th 12th Masters"
    " 1st-4th 10th Doctorate 5th-6th Preschool"
)
MARITAL_STATUSES = (
    "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent"
    " Married-AF-spouse"
)
OCCUPATIONS = (
    "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners"
    " Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv"
    " Protective-serv Armed-Forces"
)
RELATIONSHIPS = "Wife Own-child Husband Not-in-family Other-relative Unmarried"
RACES = "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black"
COUNTRIES = (
    "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc) India"
    " Japan Greece South China Cuba Iran Honduras Philippines Italy Poland Jamaica Vietnam Mexico"
    " Portugal Ireland France Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary"
    " Guatemala Nicaragua Scotland Thailand Yugoslavia El-Salvador Trinadad&Tobago Peru Hong"
    " Holand-Netherlands"
)


def _category(
    name: str, categories: str, *, high: int = -1, missing: float | None = None
) -> Attribute:
    return Attribute(
        name=name,
        kind="categorical",
        categories=tuple(categories.split()),
        high=high,
        missing=missing,
    )


SPOUSES = Coupling("relationship", "gender", ({"Female": "Wife", "Male": "Husband"},))
DOMAIN = Domain(
    (
        Attribute(name="age", low=1, high=9, bin=10),
        _category("workclass", WORKCLASSES, missing=NOT_KNOWN),
        Attribute(name="fnlwgt", low=0, high=39, bin=20_000),
        _category("education", EDUCATIONS),
        _category("marital-status", MARITAL_STATUSES),
        _category("occupation", OCCUPATIONS, missing=NOT_KNOWN),
        _category("relationship", RELATIONSHIPS),
        _category("race", RACES),
        _category("gender", "Female Male"),
        Attribute(name="capital-gain", low=0, high=99, bin=1_000),
        Attribute(name="capital-loss", low=0, high=39, bin=100),
        Attribute(name="hours-per-week", low=0, high=99),
        _category("native-country", COUNTRIES, high=39, missing=NOT_KNOWN),
    ),
    couplings=(SPOUSES,),
)


@ADULT.loader
def adult() -> Dataset:
    """48,842 people, 13 attributes; favorable is an income above $50,000."""
    frame = read_packaged("adult").rename(columns={"sex": "gender"})
    return ADULT.dataset(
        domain=DOMAIN,
        x=rows_from_frame(frame, DOMAIN),
        y=(frame["income"] == ">50K").to_numpy().astype(np.int64),
        classes=("<=50K", ">50K"),
        label="income",
        favourable=1,
    )
