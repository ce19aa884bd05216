"""Fetching MEPS: pip brings a wheel that carries the survey's file, and one compact table of panel
21 is kept.

The file is 159 MB as text; the wheel (aif360 0.2.0, 23 MB) has it zipped. The wheel is never
installed: its member is read as data. pip is asked because it knows where this machine gets its
packages from (mirrors, proxies); no host is named here. The wheel must have the expected SHA-256,
and the table appears in the cache only when it is complete.

Preparing follows AIF360's definition of panel 21, as the papers do:

- people of panel 21 whose region, age, marital status and asthma diagnosis are known, and whose
  other categorical answers are known or inapplicable (education is asked for here, but is no
  attribute);
- race is White for whoever is white and not Hispanic, Non-White for everybody else;
- the label is 1 when office, outpatient, emergency and home visits and nights in hospital make ten
  or more.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from zipfile import BadZipFile, ZipFile

import pandas as pd

from fairprobe.datasets.cache import workplace
from fairprobe.datasets.meps import LABEL, meps_file
from fairprobe.datasets.meps_codebook import INAPPLICABLE, VARIABLES
from fairprobe.errors import StorageError

TERMS = """\
The Medical Expenditure Panel Survey is published by the Agency for Healthcare Research and Quality
(AHRQ), an agency of the
United States, under a Data Use Agreement. In our words, whoever uses these data agrees

- to use them for statistical reporting and analysis only;
- not to try to find out who any person or establishment in them is; and, if an identity becomes
  known by accident, to make no
  use of it, to tell nobody else, to inform AHRQ, and to safeguard or destroy the information as
  AHRQ asks;
- not to link them with records that identify people, from any source but MEPS and the National
  Health Interview Survey.

The agreement itself is part of the documentation of file HC-192 on AHRQ's MEPS pages, and it is
what binds.
"""

PACKAGE = "aif360==0.2.0"
WHEEL_SHA256 = "d007424b7ea24e7c12f9e35a4e784d92014116bf89c697ff7344e1e942435f05"
MEMBER = "aif360/data/raw/meps/h192.csv"

PANEL = 21
MANY_VISITS = 10
VISITS = (
    "OBTOTV16",
    "OPTOTV16",
    "ERTOT16",
    "IPNGTD16",
    "HHTOTD16",
)  # office, outpatient, emergency, nights in hospital, home
MUST_BE_KNOWN = ("REGION53", "AGE53X", "MARRY53X", "ASTHDX")
SCORES = ("PCS42", "MCS42", "K6SUM42")  # kept even where they were not ascertained
EDUCATION = ("EDUCYR", "HIDEG")
ASKED = tuple(variable.raw for variable in VARIABLES if variable.raw != "RACE")
RAW_COLUMNS = ("PANEL", "HISPANX", "RACEV2X", *EDUCATION, *VISITS, *ASKED)


def fetch_meps(progress: Callable[[str], None] | None = None) -> Path:
    """Download, check, prepare and keep the table; its path. `progress` is told each step. Show
    `TERMS` first.
    """
    say = progress or (lambda _: None)
    target = meps_file()
    with workplace() as folder:
        say(f"Downloading {PACKAGE} (23 MB) with pip")
        wheel = download_wheel(Path(folder))
        say("Checking it")
        check_wheel(wheel)
        say(f"Reading {Path(MEMBER).name} (159 MB)")
        people = prepare(read_member(wheel))
        say(f"Keeping {len(people):,} people in {target}")
        _keep(people, Path(folder) / target.name, target)
    return target


def download_wheel(folder: Path) -> Path:
    """The wheel, brought into the folder by this interpreter's pip."""
    # `--no-binary :none:` undoes a setting that would ask for the source archive, which has no
    # data.
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--no-binary",
        ":none:",
        "--no-input",
        "-d",
        str(folder),
        PACKAGE,
    ]
    by_hand = f"Try it by hand: `python -m pip download --no-deps {PACKAGE}`."
    try:
        done = subprocess.run(  # noqa: S603 (a fixed command)
            command, capture_output=True, text=True, errors="replace", check=False
        )
    except OSError as error:
        raise StorageError(f"pip could not be started with {sys.executable}: {error}.") from error
    if done.returncode != 0:
        reason = (
            " ".join(done.stderr.strip().splitlines()[-3:])
            or f"it ended with code {done.returncode}"
        )
        raise StorageError(
            f"pip could not download {PACKAGE}: {reason}. Is pip installed, and its package index"
            f" reachable? {by_hand}"
        )
    wheels = sorted(folder.glob("*.whl"))
    if not wheels:
        raise StorageError(f"pip reported success but brought no wheel of {PACKAGE}. {by_hand}")
    return wheels[0]


def check_wheel(wheel: Path) -> None:
    """Refuse a wheel that is not byte for byte the one these data were checked in."""
    try:
        with wheel.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise StorageError(
            f"The downloaded wheel {wheel.name} cannot be read: {error}. Try again."
        ) from error
    if digest != WHEEL_SHA256:
        raise StorageError(
            f"The downloaded wheel {wheel.name} is not the expected one: SHA-256 {digest}, expected"
            f" {WHEEL_SHA256}. Nothing was kept. Try again; if it happens again, the package index"
            " serves a changed file and should not be trusted."
        )


def read_member(wheel: Path) -> pd.DataFrame:
    """The survey's file inside the wheel, read as a stream and only the columns that are needed."""
    try:
        with ZipFile(wheel) as archive, archive.open(MEMBER) as member:
            return pd.read_csv(member, usecols=list(RAW_COLUMNS))
    except KeyError as error:
        raise StorageError(
            f"The wheel {wheel.name} has no member {MEMBER}; nothing was kept. Only {PACKAGE}"
            " carries it."
        ) from error
    except (
        BadZipFile,
        zlib.error,
        OSError,
        EOFError,
        ValueError,
    ) as error:  # ValueError: no text, no table, or other columns
        raise StorageError(
            f"{MEMBER} in the wheel {wheel.name} cannot be read: {error}. Nothing was kept; try"
            " again."
        ) from error


def prepare(raw: pd.DataFrame) -> pd.DataFrame:
    """The people of panel 21 with the survey's own codes, one column for each attribute, and the
    label.
    """
    answers = [name for name in ASKED if name not in SCORES]
    known = (raw[list(MUST_BE_KNOWN)] >= 0).all(axis=1) & (
        raw[[*answers, *EDUCATION]] >= INAPPLICABLE
    ).all(axis=1)
    people = raw[known & (raw["PANEL"] == PANEL)].reset_index(drop=True)
    white = (people["RACEV2X"] == 1) & (people["HISPANX"] == 2)
    people["RACE"] = white.map({True: "White", False: "Non-White"})
    label = (people[list(VISITS)].sum(axis=1) >= MANY_VISITS).astype(int).rename(LABEL)
    table = people[[variable.raw for variable in VARIABLES]].set_axis(
        [variable.column for variable in VARIABLES], axis=1
    )
    return pd.concat([table, label], axis=1)


def _keep(people: pd.DataFrame, part: Path, target: Path) -> None:
    try:
        people.to_csv(
            part, index=False, lineterminator="\n", compression={"method": "gzip", "mtime": 0}
        )
        part.replace(target)
    except OSError as error:
        raise StorageError(
            f"The table could not be written to {target}: {error}. Nothing was kept. Free some"
            " space, or set FAIRPROBE_CACHE."
        ) from error
