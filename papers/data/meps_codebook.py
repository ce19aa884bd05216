"""The MEPS variables: their names in HC-192, the attributes they become, and the meaning of their
codes.

The meanings are those of AHRQ's codebook of the file. `column` is the variable without the round or
year of the question (`REGION53` is `REGION`), as in AIF360. A variable with `words` is categorical;
the order of the words is the order of the survey's codes, -1 first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fairprobe.schema.attributes import Attribute, Kind

INAPPLICABLE = -1  # the question does not apply: a child and smoking, a man and pregnancy
NOT_ASCERTAINED = -9

YES_NO = {INAPPLICABLE: "inapplicable", 1: "yes", 2: "no"}
HEALTH = {
    INAPPLICABLE: "inapplicable",
    1: "excellent",
    2: "very good",
    3: "good",
    4: "fair",
    5: "poor",
}


@dataclass(frozen=True)
class Variable:
    """One variable of the survey: its name in the file, the attribute it becomes, and its codes in
    words.
    """

    raw: str
    attribute: Attribute
    words: dict[int, str] = field(default_factory=dict)

    @property
    def column(self) -> str:
        return re.sub(r"(53X?|16)$", "", self.raw)


def _category(raw: str, name: str, words: dict[int, str], *, one_hot: bool = True) -> Variable:
    return Variable(
        raw,
        Attribute(name=name, kind="categorical", categories=tuple(words.values()), one_hot=one_hot),
        words,
    )


def _score(raw: str, name: str, high: float, *, real: bool = False) -> Variable:
    # Children have no score. Their -1 belongs to the domain, because every child has it; -9 does
    # not.
    kind: Kind = "real" if real else "integer"
    return Variable(
        raw, Attribute(name=name, kind=kind, low=INAPPLICABLE, high=high, missing=NOT_ASCERTAINED)
    )


VARIABLES = (
    _category("REGION53", "region", {1: "Northeast", 2: "Midwest", 3: "South", 4: "West"}),
    Variable("AGE53X", Attribute(name="age", low=0, high=85)),  # 85 stands for everybody older
    _category("SEX", "gender", {2: "Female", 1: "Male"}, one_hot=False),
    # Derived while preparing: White is white and not Hispanic, Non-White is everybody else.
    Variable("RACE", Attribute(name="race", kind="categorical", categories=("Non-White", "White"))),
    _category(
        "MARRY53X",
        "marital-status",
        {
            1: "married",
            2: "widowed",
            3: "divorced",
            4: "separated",
            5: "never married",
            6: "under 16",
            7: "married in this round",
            8: "widowed in this round",
            9: "divorced in this round",
            10: "separated in this round",
        },
    ),
    _category(
        "FTSTU53X",
        "student",
        {INAPPLICABLE: "inapplicable", 1: "full-time", 2: "part-time", 3: "not a student"},
    ),
    _category("ACTDTY53", "active-duty", {1: "yes", 2: "no", 3: "under 16", 4: "over 59"}),
    _category(
        "HONRDC53",
        "honorably-discharged",
        {1: "yes", 2: "no", 3: "16 or younger", 4: "now on active duty"},
    ),
    _category("RTHLTH53", "health", HEALTH),
    _category("MNHLTH53", "mental-health", HEALTH),
    _category("HIBPDX", "high-blood-pressure", YES_NO),
    _category("CHDDX", "coronary-heart-disease", YES_NO),
    _category("ANGIDX", "angina", YES_NO),
    _category("MIDX", "heart-attack", YES_NO),
    _category("OHRTDX", "other-heart-disease", YES_NO),
    _category("STRKDX", "stroke", YES_NO),
    _category("EMPHDX", "emphysema", YES_NO),
    _category("CHBRON53", "chronic-bronchitis", YES_NO),
    _category("CHOLDX", "high-cholesterol", YES_NO),
    _category("CANCERDX", "cancer", YES_NO),
    _category("DIABDX", "diabetes", YES_NO),
    _category("JTPAIN53", "joint-pain", YES_NO),
    _category("ARTHDX", "arthritis", YES_NO),
    _category(
        "ARTHTYPE",
        "arthritis-type",
        {INAPPLICABLE: "inapplicable", 1: "rheumatoid", 2: "osteoarthritis", 3: "not specified"},
    ),
    _category("ASTHDX", "asthma", {1: "yes", 2: "no"}),
    _category("ADHDADDX", "attention-deficit", YES_NO),
    _category("PREGNT53", "pregnant", YES_NO),
    _category("WLKLIM53", "limited-walking", YES_NO),
    _category("ACTLIM53", "limited-work-or-school", YES_NO),
    _category("SOCLIM53", "limited-socially", YES_NO),
    _category("COGLIM53", "limited-cognitively", YES_NO),
    _category("DFHEAR42", "difficulty-hearing", YES_NO),
    _category("DFSEE42", "difficulty-seeing", YES_NO),
    _category("ADSMOK42", "smokes", YES_NO),
    _score("PCS42", "physical-score", 80, real=True),
    _score("MCS42", "mental-score", 80, real=True),
    _score("K6SUM42", "distress-score", 24),
    _category(
        "PHQ242",
        "depression-score",
        {INAPPLICABLE: "inapplicable"} | {score: str(score) for score in range(7)},
    ),
    _category(
        "EMPST53",
        "employment",
        {
            INAPPLICABLE: "inapplicable",
            1: "employed",
            2: "job to return to",
            3: "had a job in this round",
            4: "not employed",
        },
    ),
    _category(
        "POVCAT16", "family-income", {1: "poor", 2: "near poor", 3: "low", 4: "middle", 5: "high"}
    ),
    _category("INSCOV16", "insurance", {1: "any private", 2: "public only", 3: "uninsured"}),
)
