"""Packaged data sets: Adult, Bank Marketing, COMPAS and German Credit.

A data set is `files/NAME.toml` (where it comes from, its coding, its attributes), the table
`files/NAME.csv.gz` and a function that loads it, registered with `@ENTRY.loader`; everything else
(`load`, the command line, the tests) reads the registry. `files/README.md` says which columns of
each source were kept.
"""

from __future__ import annotations

import gzip
import hashlib
import inspect
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.resources.abc import Traversable
from io import BytesIO
from typing import Any, Literal, TypeVar, get_args

import numpy as np
import pandas as pd

from fairprobe.arrays import Mask, Rows
from fairprobe.datasets.base import Card, Dataset
from fairprobe.errors import SettingError, StorageError, suggest
from fairprobe.schema.attributes import Attribute, Constraint
from fairprobe.schema.coding import rows_from_frame
from fairprobe.schema.domain import Domain
from fairprobe.schema.twins import Coupling

Loader = TypeVar("Loader", bound=Callable[..., Dataset])
CompasCoding = Literal["one-hot", "free"]

UNKNOWN = ("", "?")  # unknown values in the sources; any other text is a value
FOLDER = files("fairprobe.datasets").joinpath("files")
REGISTRY: dict[str, Entry] = {}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Describe a data set before its table is read. (A test compares it with the table.)

    `sha256` is the checksum of the packaged table, `parts` are fields of its `Dataset`.
    """

    name: str
    card: Card
    rows: int
    protected: tuple[str, ...]
    sha256: str
    attributes: int
    parts: Mapping[str, Any] = field(default_factory=dict)
    load: Callable[..., Dataset] = field(init=False)

    def loader(self, function: Loader) -> Loader:
        """Register the function that loads this data set."""
        object.__setattr__(self, "load", function)
        REGISTRY[self.name] = self
        return function

    def dataset(self, **parts: Any) -> Dataset:
        """Make a `Dataset` with this name, card and protected attributes."""
        usual = {"name": self.name, "card": self.card, "protected": self.protected, **self.parts}
        return Dataset(**usual | parts)

    @property
    def title(self) -> str:
        return self.card.title

    @property
    def license(self) -> str:
        return self.card.license

    @property
    def source(self) -> str:
        return self.card.source

    def to_dict(self) -> dict[str, Any]:
        """Return the description as plain data."""
        names = ("name", "title", "rows", "attributes", "protected", "license", "source")
        return {name: getattr(self, name) for name in names}


def catalogue() -> list[Entry]:
    """Describe all data sets; no table is read."""
    return list(REGISTRY.values())


def names() -> tuple[str, ...]:
    """Return the names that `load` accepts."""
    return tuple(REGISTRY)


def find(name: str) -> Entry:
    """Describe one data set."""
    if name not in REGISTRY:
        raise SettingError(f"There is no data set '{name}'.{suggest(str(name), REGISTRY)}")
    return REGISTRY[name]


def load(name: str, **options: Any) -> Dataset:
    """Load the data set of this name; `options` are those of its own function, such as `coding` of
    `compas`.
    """
    loader = find(name).load
    known = list(inspect.signature(loader).parameters)
    for option in options:
        if option not in known:
            raise SettingError(
                f"The data set '{name}' has no option"
                f" '{option}'.{suggest(option, known) if known else ' It has none.'}"
            )
    return loader(**options)


def read_packaged(name: str) -> pd.DataFrame:
    """Read the raw table as published: original values, and NaN where the source has no value. Its
    checksum is verified first.
    """
    checksums = {entry.name: entry.sha256 for entry in catalogue()}
    if name not in checksums:
        raise SettingError(f"There is no packaged table '{name}'.{suggest(str(name), checksums)}")
    file, expected = packaged_file(name), checksums[name]
    advice = "Reinstall fairprobe: `pip install --force-reinstall --no-deps fairprobe`."
    try:
        content = file.read_bytes()
    except OSError as error:
        raise StorageError(
            f"The packaged data file {file} cannot be read: {error}. {advice}"
        ) from error
    digest = hashlib.sha256(content).hexdigest()
    if digest != expected:
        raise StorageError(
            f"The packaged data file {file} is damaged: its {len(content):,} bytes have SHA-256"
            f" {digest[:16]}…, expected {expected[:16]}…. {advice}"
        )
    return pd.read_csv(
        BytesIO(gzip.decompress(content)), keep_default_na=False, na_values=list(UNKNOWN)
    )


def packaged_file(name: str) -> Traversable:
    """Return the path of a packaged table."""
    return FOLDER.joinpath(f"{name}.csv.gz")


# -- what the files declare ------------------------------------------------------------------------


def _described(name: str) -> tuple[Entry, list[dict[str, Any]]]:
    """Read `files/NAME.toml`: the entry, and its attributes as declared."""
    body = tomllib.loads(FOLDER.joinpath(f"{name}.toml").read_text(encoding="utf-8"))
    card = Card(**{key: body[key] for key in ("title", "about", "source", "license", "citation")})
    parts = {
        "label": body["label"],
        "classes": tuple(body["classes"]),
        "favourable": body["classes"].index(body["favorable"]),
    }
    entry = Entry(
        name=name,
        card=card,
        rows=body["rows"],
        protected=tuple(body["protected"]),
        sha256=body["sha256"],
        attributes=len(body["attribute"]),
        parts=parts,
    )
    return entry, body["attribute"]


def _attributes(declared: list[dict[str, Any]]) -> tuple[Attribute, ...]:
    """Make the attributes; the categories of one with `words` are its words in order."""
    made = []
    for entry in declared:
        given = {key: value for key, value in entry.items() if key not in ("column", "words")}
        categories = entry.get("categories") or dict.fromkeys(entry.get("words", {}).values())
        made.append(Attribute(**given | {"categories": tuple(categories)}))
    return tuple(made)


# -- Adult -----------------------------------------------------------------------------------------

ADULT, _ADULT_ATTRIBUTES = _described("adult")
SPOUSES = Coupling("relationship", "gender", ({"Female": "Wife", "Male": "Husband"},))


@ADULT.loader
def adult() -> Dataset:
    """Load 48,842 people with 13 attributes; favorable is an income above $50,000."""
    frame = read_packaged("adult").rename(columns={"sex": "gender"})
    domain = Domain(_attributes(_ADULT_ATTRIBUTES), couplings=(SPOUSES,))
    y = (frame["income"] == ">50K").to_numpy().astype(np.int64)
    return ADULT.dataset(domain=domain, x=rows_from_frame(frame, domain), y=y)


# -- Bank Marketing --------------------------------------------------------------------------------

BANK, _BANK_ATTRIBUTES = _described("bank")
LONGEST_CALL = 999  # seconds; the 990s stand for everything longer
NEVER_CONTACTED = 999  # days


@BANK.loader
def bank() -> Dataset:
    """Load 41,188 calls with 20 attributes; favorable is a subscription."""
    frame = read_packaged("bank")
    frame.columns = frame.columns.str.replace(r"[._]", "-", regex=True)
    frame["duration"] = frame["duration"].clip(upper=LONGEST_CALL)
    frame["contacted-before"] = (frame["pdays"] != NEVER_CONTACTED).map({True: "yes", False: "no"})
    domain = Domain(_attributes(_BANK_ATTRIBUTES))
    y = (frame["y"] == "yes").to_numpy().astype(np.int64)
    return BANK.dataset(domain=domain, x=rows_from_frame(frame, domain), y=y)


# -- COMPAS ----------------------------------------------------------------------------------------

COMPAS, _COMPAS_ATTRIBUTES = _described("compas")
RACES = ("African-American", "Caucasian")
NOT_STATED = "not stated"
AGE_GROUPS = {"Less than 25": 0, "25 - 45": 25, "Greater than 45": 45}  # the first age of each
DEGREES = {"F": "felony", "M": "misdemeanor"}


@COMPAS.loader
def compas(coding: CompasCoding = "one-hot") -> Dataset:
    """Load 5,278 people; 10 attributes that a network sees as 402 columns, or 402 attributes when
    `coding` is "free".
    """
    if coding not in get_args(CompasCoding):
        raise SettingError(
            f"COMPAS has no coding '{coding}'.{suggest(str(coding), get_args(CompasCoding))}"
        )
    everybody = screened(read_packaged("compas"))
    people = everybody[everybody["race"].isin(RACES)]
    domain = _compas_domain(charges=sorted(set(everybody["charge-desc"]) - {NOT_STATED}))
    x = rows_from_frame(people, domain)
    if coding == "free":
        x, domain = _freed(x, domain)
    return COMPAS.dataset(domain=domain, x=x, y=people["two-year-recid"].to_numpy(dtype=int))


def screened(raw: pd.DataFrame) -> pd.DataFrame:
    """Choose ProPublica's 6,172 people, in our names and words."""
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


def _compas_domain(charges: list[str]) -> Domain:
    ages = np.arange(18, 97)
    groups = _age_group({"age": ages.astype(np.float32)})["age-cat"].astype(int)
    words = np.array(list(AGE_GROUPS))[groups].tolist()
    group_of_age = dict(zip(map(str, ages.tolist()), words, strict=True))
    *declared, charge = _COMPAS_ATTRIBUTES
    return Domain(
        _attributes([*declared, charge | {"categories": [*charges, NOT_STATED]}]),
        constraints=(Constraint("age-cat follows from age", _age_group_follows, _age_group),),
        couplings=(Coupling("age-cat", "age", (group_of_age,)),),
    )


def _age_group_follows(columns: Mapping[str, Rows]) -> Mask:
    return np.asarray(columns["age-cat"] == _age_group(columns)["age-cat"])


def _age_group(columns: Mapping[str, Rows]) -> dict[str, Rows]:
    group = np.searchsorted(list(AGE_GROUPS.values()), columns["age"], side="right") - 1
    return {"age-cat": group.astype(np.float32)}


def _freed(x: Rows, domain: Domain) -> tuple[Rows, Domain]:
    """Make each one-hot column an attribute of its own, without the rules within a group."""
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


# -- German Credit ---------------------------------------------------------------------------------

GERMAN, _GERMAN_ATTRIBUTES = _described("german")
MARITAL_STATUSES = ("single", "married or formerly married")


@GERMAN.loader
def german(marital: bool = False) -> Dataset:
    """Load 1,000 people with 20 attributes (21 with `marital`, see `files/german.toml`); favorable
    is a good risk.
    """
    raw = read_packaged("german")
    frame = pd.DataFrame(
        {
            entry["name"]: raw[entry["column"]].map(entry["words"])
            if "words" in entry
            else raw[entry["column"]]
            for entry in _GERMAN_ATTRIBUTES
        }
    )
    attributes = _attributes(_GERMAN_ATTRIBUTES)
    if marital:
        single = raw["personal_status"].isin(["A93", "A95"])
        frame["marital-status"] = np.where(single, *MARITAL_STATUSES)
        status = Attribute(name="marital-status", kind="categorical", categories=MARITAL_STATUSES)
        attributes = (*attributes, status)
    domain = Domain(attributes)
    y = (raw["credit"] == 1).to_numpy().astype(np.int64)  # 1 is good, 2 is bad
    return GERMAN.dataset(domain=domain, x=rows_from_frame(frame, domain), y=y)
