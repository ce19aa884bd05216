"""MEPS, panel 21: does a person make much use of medical care (ten or more visits in a year)?

Source: Medical Expenditure Panel Survey, full-year file 2016 (HC-192) of the Agency for Healthcare
Research and Quality (AHRQ). Its terms of use bind whoever uses it, so it is not packaged:
`fairprobe datasets fetch meps` shows the terms and fetches it (see `meps_fetch`), and `meps()`
reads what was fetched.

Coding: that of AIF360 and the papers, in words. Forty-one attributes: age in years, two real scores
and one whole score, gender and race one column each, 35 further categories one-hot. A network sees
137 columns, as in the NeuronFair paper (AIF360 has 138: it gives gender two). Race is AIF360's:
White is white and not Hispanic.

A question that does not arise for a person (a child is not asked about smoking) has the category
"inapplicable", or -1 as a score, and both belong to the domain. A score that was not ascertained,
-9, lies outside. Attributes vary independently in this domain, as in the papers, though many depend
on age in the survey.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import pandas as pd

from fairprobe.datasets.base import Card, Dataset
from fairprobe.datasets.cache import cache_folder
from fairprobe.datasets.facts import Facts
from fairprobe.datasets.meps_codebook import NOT_ASCERTAINED, VARIABLES, Variable
from fairprobe.errors import DataError, StorageError
from fairprobe.schema.coding import rows_from_frame
from fairprobe.schema.domain import Domain

LABEL = "UTILIZATION"
DOMAIN = Domain(tuple(variable.attribute for variable in VARIABLES))

FACTS = Facts(
    name="meps",
    card=Card(
        title="MEPS 2016, panel 21",
        about=(
            "15,675 people of the Medical Expenditure Panel Survey of 2016 (USA); predicts ten or"
            " more medical visits in a year."
        ),
        source=(
            "Agency for Healthcare Research and Quality, MEPS HC-192, fetched through the PyPI"
            " wheel aif360 0.2.0"
        ),
        licence=(
            "AHRQ public-use file under its Data Use Agreement: statistical use only, no"
            " re-identification, no linking"
        ),
        citation=(
            "Agency for Healthcare Research and Quality, 'MEPS HC-192: 2016 Full Year Consolidated"
            " Data File', 2018"
        ),
    ),
    rows=15_675,
    attributes=41,
    protected=("gender", "race"),
    packaged=False,
)


def meps_file() -> Path:
    """Where `fairprobe datasets fetch meps` puts the table."""
    return cache_folder() / "meps21.csv.gz"


def meps(path: str | os.PathLike[str] | None = None) -> Dataset:
    """15,675 people, 41 attributes; favourable is a high utilisation. `path` reads another file
    than the fetched one.
    """
    raw = _read(meps_file() if path is None else Path(path))
    frame = pd.DataFrame(
        {
            variable.attribute.name: _in_words(raw[variable.column], variable)
            for variable in VARIABLES
        }
    )
    return Dataset(
        name=FACTS.name,
        domain=DOMAIN,
        x=rows_from_frame(frame, DOMAIN),
        y=raw[LABEL].to_numpy(),
        classes=("below 10 visits", "10 or more visits"),
        label="utilization",
        favourable=1,
        protected=FACTS.protected,
        card=FACTS.card,
    )


def _read(file: Path) -> pd.DataFrame:
    columns = [*(variable.column for variable in VARIABLES), LABEL]
    try:
        return pd.read_csv(file, usecols=columns, compression="gzip")
    except FileNotFoundError as error:
        raise DataError(
            f"The MEPS table is not at {file}. It is not packaged, because its terms of use bind"
            " you: run `fairprobe datasets fetch meps` to read them and download it (23 MB)."
        ) from error
    except (
        OSError,
        EOFError,
        zlib.error,
        ValueError,
    ) as error:  # ValueError: no text, no table, or other columns
        raise StorageError(
            f"The MEPS table {file} cannot be read: {error}. Delete it and run `fairprobe datasets"
            " fetch meps` again."
        ) from error


def _in_words(column: pd.Series[int], variable: Variable) -> pd.Series[int] | pd.Series[str]:
    if variable.words:
        return column.map(lambda code: variable.words.get(code, f"code {code}"))
    return (
        column.mask(column == NOT_ASCERTAINED) if variable.attribute.missing is not None else column
    )
