"""Bank Marketing ("additional"): does a client of a Portuguese bank subscribe a term deposit after
a telephone call?

Source: UCI Machine Learning Repository, `bank-additional-full.csv`; 41,188 calls from May 2008 to
November 2010.

Coding:

- age in decades; the duration of the call in tens of seconds, where 99 stands for 990 seconds *and
  more*;
- `pdays` (days since the last campaign, 999 for never) becomes `contacted-before`, yes or no;
- "unknown" is a category like any other: it is what the bank knew about the client, and a fifth of
  `default` is unknown;
- five indicators of the country's economy are real numbers, with bounds rounded outwards from the
  data;
- months run from March to December: nobody was called in January or February.

`duration` is known only after the call, when the answer is known too. It is kept because the
literature keeps it; a network that is to be used before a call must do without. Attributes vary
independently in this domain, as in the literature.
"""

from __future__ import annotations

import numpy as np

from fairprobe.datasets.base import Card, Dataset
from fairprobe.datasets.registry import Entry, read_packaged
from fairprobe.schema.attributes import Attribute
from fairprobe.schema.coding import rows_from_frame
from fairprobe.schema.domain import Domain

LONGEST_CALL = 999  # seconds; the 990s stand for everything longer
NEVER_CONTACTED = 999  # days

BANK = Entry(
    name="bank",
    card=Card(
        title="Bank Marketing (additional)",
        about=(
            "41,188 telephone calls of a Portuguese bank, 2008 to 2010; predicts whether the client"
            " subscribes a term deposit."
        ),
        source=(
            "UCI Machine Learning Repository, 'Bank Marketing', bank-additional-full.csv, as"
            " carried by the PyPI wheel aif360 0.2.0"
        ),
        license=(
            "'Publicly available for research' with citation; the UCI repository lists its data"
            " sets under CC BY 4.0"
        ),
        citation=(
            "S. Moro, P. Cortez and P. Rita, 'A Data-Driven Approach to Predict the Success of Bank"
            " Telemarketing', Decision Support Systems, 2014"
        ),
    ),
    rows=41_188,
    attributes=20,
    protected=("age",),
    sha256="7730a7cfd81ba994978555d2d62293b8e6e075e9a5abb3a775eaa54fec1e76d7",
)

JOBS = (
    "admin. blue-collar entrepreneur housemaid management retired self-employed services student"
    " technician unemployed unknown"
)
EDUCATIONS = (
    "illiterate basic.4y basic.6y basic.9y high.school professional.course university.degree"
    " unknown"
)
MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec"


def _category(name: str, categories: str, *, low: int = 0) -> Attribute:
    return Attribute(name=name, kind="categorical", categories=tuple(categories.split()), low=low)


DOMAIN = Domain(
    (
        Attribute(name="age", low=1, high=9, bin=10),
        _category("job", JOBS),
        _category("marital", "divorced married single unknown"),
        _category("education", EDUCATIONS),
        _category("default", "no yes unknown"),
        _category("housing", "no yes unknown"),
        _category("loan", "no yes unknown"),
        _category("contact", "cellular telephone"),
        _category("month", MONTHS, low=2),
        _category("day-of-week", "mon tue wed thu fri"),
        Attribute(name="duration", low=0, high=LONGEST_CALL // 10, bin=10),
        Attribute(name="campaign", low=1, high=56),
        _category("contacted-before", "no yes"),
        Attribute(name="previous", low=0, high=7),
        _category("poutcome", "nonexistent failure success"),
        Attribute(name="emp-var-rate", kind="real", low=-3.5, high=1.5),
        Attribute(name="cons-price-idx", kind="real", low=92, high=95),
        Attribute(name="cons-conf-idx", kind="real", low=-51, high=-26),
        Attribute(name="euribor3m", kind="real", low=0.6, high=5.1),
        Attribute(name="nr-employed", kind="real", low=4960, high=5230),
    )
)


@BANK.loader
def bank() -> Dataset:
    """41,188 calls, 20 attributes; favorable is a subscription."""
    frame = read_packaged("bank")
    frame.columns = frame.columns.str.replace(r"[._]", "-", regex=True)
    frame["duration"] = frame["duration"].clip(upper=LONGEST_CALL)
    frame["contacted-before"] = (frame["pdays"] != NEVER_CONTACTED).map({True: "yes", False: "no"})
    return BANK.dataset(
        domain=DOMAIN,
        x=rows_from_frame(frame, DOMAIN),
        y=(frame["y"] == "yes").to_numpy().astype(np.int64),
        classes=("no", "yes"),
        label="subscribed",
        favourable=1,
    )
