"""Layouts of picture collections: which pictures there are, and what is known of each. The pictures
are read later.

    CelebA         Liu, Luo, Wang and Tang, "Deep Learning Face Attributes in the Wild", ICCV 2015
    DiveFace       Morales, Fierrez, Vera-Rodriguez and Tolosana, "SensitiveNets: Learning Agnostic
                   Representations with Application to Face Images", TPAMI 2021
    FairFace       Kärkkäinen and Joo, "FairFace: Face Attribute Dataset for Balanced Race, Gender,
                   and Age for Bias Measurement and Mitigation", WACV 2021
    LFW            Huang, Ramesh, Berg and Learned-Miller, "Labeled Faces in the Wild", 2007;
                   attributes by Kumar, Berg, Belhumeur and Nayar, ICCV 2009
    UTKFace        Zhang, Song and Qi, "Age Progression/Regression by Conditional Adversarial
                   Autoencoder", CVPR 2017
    class folders  such as ImageNet's: Russakovsky et al., IJCV 2015
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

import numpy as np
import pandas as pd

from fairprobe.arrays import Ints, Mask
from fairprobe.datasets.pictures import Bytes, MessageLog, picture_files
from fairprobe.errors import DataError

TEST_SHARE = 5  # one picture in five is held out if there is no test part


@dataclass(frozen=True)
class ImageAttribute:
    """Hold an attribute of the people in pictures: `codes` (N,) are positions in `values`, -1 for
    unknown.
    """

    values: tuple[str, ...]
    codes: Ints

    def take(self, rows: Ints | Mask) -> ImageAttribute:
        return ImageAttribute(self.values, self.codes[rows])

    def only(self, kept: Sequence[int]) -> ImageAttribute:
        """Keep only these values, given by position; the others become unknown."""
        places = np.full(len(self.values) + 1, -1, dtype=np.int64)  # the last is for unknown
        places[list(kept)] = np.arange(len(kept))
        return ImageAttribute(tuple(self.values[at] for at in kept), places[self.codes])


@dataclass(frozen=True)
class ImageSet:
    """Hold pictures (N, 3, height, width) in bytes, their classes, and attributes of the people in
    them.

    `held_out` is the collection's own test part, or one drawn by the seed. `messages` say what was
    changed or left out, `attribute_messages` the same for each attribute. `identities` number the
    people in the pictures (−1 for unknown), if the collection says who they are. `other_sizes`
    faces were left out because most have another size.
    """

    name: str
    images: Bytes
    y: Ints
    classes: tuple[str, ...]
    attributes: dict[str, ImageAttribute]
    held_out: Mask
    messages: tuple[str, ...] = ()
    attribute_messages: dict[str, tuple[str, ...]] = field(default_factory=dict)
    identities: Ints | None = None
    other_sizes: int = 0

    def __post_init__(self) -> None:
        if self.images.dtype != np.uint8 or self.images.ndim != 4 or self.images.shape[1] != 3:
            raise DataError(
                f"The pictures of '{self.name}' must be bytes (number, 3, height, width); got"
                f" {self.images.dtype} {self.images.shape}."
            )
        counts = {"y": len(self.y), "held_out": len(self.held_out)} | {
            name: len(one.codes) for name, one in self.attributes.items()
        }
        for name, count in counts.items():
            if count != len(self.images):
                raise DataError(
                    f"'{self.name}' has {len(self.images):,} pictures, but `{name}` has {count:,}."
                )

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: Ints | Mask) -> ImageSet:
        """Choose pictures."""
        return replace(
            self,
            images=self.images[rows],
            y=self.y[rows],
            attributes={name: one.take(rows) for name, one in self.attributes.items()},
            held_out=self.held_out[rows],
            identities=None if self.identities is None else self.identities[rows],
        )


@dataclass(frozen=True)
class Listing:
    """List pictures by path. `held_out` is the collection's own test part, `people` numbers the
    people in the pictures; each is None if the collection has none.
    """

    name: str
    paths: tuple[Path, ...]
    attributes: dict[str, ImageAttribute]
    held_out: Mask | None = None
    people: Ints | None = None
    messages: tuple[str, ...] = ()

    def take(self, rows: Ints | Mask) -> Listing:
        chosen = np.arange(len(self.paths))[rows]
        return Listing(
            self.name,
            tuple(self.paths[at] for at in chosen),
            {name: one.take(chosen) for name, one in self.attributes.items()},
            None if self.held_out is None else self.held_out[chosen],
            None if self.people is None else self.people[chosen],
            self.messages,
        )


def coded(words: Sequence[object], values: Sequence[str] = ()) -> ImageAttribute:
    """Code a word for each picture. The values are `values`, or all words sorted; other words are
    unknown.
    """
    texts = ["" if word is None or word != word else str(word).strip() for word in words]
    names = tuple(values) or tuple(sorted({text for text in texts if text}))
    places = {name: at for at, name in enumerate(names)}
    return ImageAttribute(names, np.array([places.get(text, -1) for text in texts], dtype=np.int64))


def with_labels(listing: Listing, root: Path, path: Path) -> Listing:
    """Add attributes of the pictures from a CSV with the column `file` (a picture's name, or its
    path below the folder) and a column for each attribute; an empty cell is unknown.
    """
    frame = table(path, ["file"])
    names = [str(name) for name in frame.columns if name != "file"]
    if not names:
        raise DataError(f"{path} has no column besides 'file'. Expected one for each attribute.")
    rows: dict[str, int] = {}
    for at, file in enumerate(frame["file"]):
        rows.setdefault(file.strip().replace("\\", "/"), at)
    places = []
    for picture in listing.paths:
        below_root = picture.relative_to(root).as_posix() if picture.is_relative_to(root) else ""
        places.append(rows.get(below_root, rows.get(picture.name, -1)))
    known = sum(place >= 0 for place in places)
    if not known:
        raise DataError(
            f"{path} names none of the pictures in {root}; expected names such as"
            f" {listing.paths[0].name if listing.paths else 'a.jpg'}."
        )
    found = {
        name: coded(["" if at < 0 else frame[name].iloc[at] for at in places]) for name in names
    }
    missing = len(places) - known
    note = f"{missing:,} of {len(places):,} pictures have no row in {path.name}."
    return replace(
        listing,
        attributes=listing.attributes | found,
        messages=(*listing.messages, *([note] if missing else [])),
    )


def own_test_part(held_out: Mask) -> Mask | None:
    """Return the collection's test part, or None if it has all or none of the pictures."""
    return held_out if held_out.any() and not held_out.all() else None


def table(path: Path, columns: Sequence[str], **options: object) -> pd.DataFrame:
    """Read a list of pictures as text, and check that it has these columns."""
    usual = {"dtype": str, "keep_default_na": False, "encoding": "utf-8-sig"}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the header
            frame = pd.read_csv(path, **usual, **options)  # type: ignore[call-overload]
    except (OSError, ValueError, pd.errors.ParserError, pd.errors.ParserWarning) as error:
        why = error.strerror if isinstance(error, OSError) else str(error).strip()
        wanted = f" with the column '{columns[0]}'" if columns else ""
        raise DataError(
            f"Cannot read {path}: {why}. Expected a CSV in UTF-8{wanted}; if it was published with"
            " the pictures, download it again."
        ) from error
    lacking = [name for name in columns if name not in frame.columns]
    if lacking:
        raise DataError(
            f"{path} has no column '{lacking[0]}'; expected {', '.join(columns)}, got"
            f" {', '.join(map(str, frame.columns[:12]))}."
        )
    return frame  # type: ignore[no-any-return]


def below(root: Path, name: str) -> Path:
    """Return the file of an entry in a list; raise DataError for one outside the folder."""
    parts = PurePosixPath(name.strip().replace("\\", "/"))
    if not name.strip() or parts.is_absolute() or ".." in parts.parts:
        raise DataError(
            f"A list in {root} names the picture '{name}', which is outside the folder. Do not"
            " trust these data."
        )
    return root.joinpath(*parts.parts)


def first_folder(root: Path, names: Sequence[str]) -> Path | None:
    """Return the first of these folders that exists; '' is the root itself."""
    return next((root / name for name in names if (root / name).is_dir()), None)


def first_file(root: Path, names: Sequence[str]) -> Path | None:
    """Return the first of these files that exists."""
    return next((root / name for name in names if (root / name).is_file()), None)


def drawn_test_part(count: int, people: Ints | None, rng: np.random.Generator) -> Mask:
    """Hold out one picture in five, or all pictures of one person in five."""
    owner = np.arange(count) if people is None else people
    names = np.unique(owner)
    return np.isin(owner, rng.permutation(names)[: len(names) // TEST_SHARE])


# -- CelebA ----------------------------------------------------------------------------------------

CELEBA_NAMES = {"Male": ("gender", ("female", "male")), "Young": ("age", ("old", "young"))}
ALIGNED = "img_align_celeba"
CELEBA_FOLDERS = (f"{ALIGNED}/{ALIGNED}", ALIGNED, f"Img/{ALIGNED}", "img_celeba", "")
CELEBA_TEST = "2"  # 0 is for learning, 1 for validation


def celeba(root: Path) -> Listing | None:
    """List `img_align_celeba/000001.jpg`, forty attributes in `list_attr_celeba`, the test part in
    `list_eval_partition`, the people in `identity_CelebA`; None for any other folder.

    The lists come as text or, from other places, as CSV. `Male` is read as gender and `Young` as
    age; the others keep their names. There is no race; `pale_skin` is not the same.
    """
    listed = _celeba_list(root, "Anno/", "list_attr_celeba")
    if listed is None:
        return None
    frame = _celeba_table(listed, ["Male"], skiprows=1)
    pictures = first_folder(root, CELEBA_FOLDERS) or root
    signs = {name: frame[name].to_numpy() for name in frame.columns}
    known = ["-1", "0", "1"]
    if listed.suffix == ".csv":  # in a text file, a missing word would shift those after it
        known.append("")
    attributes = {}
    for name, column in signs.items():
        strange = ~np.isin(column, known)
        if strange.any():
            which, word = frame.index[strange][0], column[strange][0]
            raise DataError(
                f"{listed}: the attribute {name} must be 1 or -1; {which} has '{word}'. Download"
                " the file again."
            )
        key, values = CELEBA_NAMES.get(name, (name.lower(), ("no", "yes")))
        codes = np.where(column == "", -1, column == "1").astype(np.int64)
        attributes[key] = ImageAttribute(values, codes)
    divided = _celeba_list(root, "Eval/", "list_eval_partition")
    held_out = people = None
    if divided is not None:
        part = _celeba_column(divided, "partition", frame.index)
        held_out = own_test_part(part.eq(CELEBA_TEST).to_numpy(dtype=bool))
    identities = _celeba_list(root, "Anno/", "identity_CelebA")
    if identities is not None:
        numbers = pd.to_numeric(
            _celeba_column(identities, "identity", frame.index), errors="coerce"
        )
        people = numbers.fillna(-1).to_numpy(dtype=np.int64)
    paths = tuple(below(pictures, str(name)) for name in frame.index)
    return Listing("CelebA", paths, attributes, held_out, people)


def _celeba_list(root: Path, folder: str, name: str) -> Path | None:
    endings = ("txt", "csv")
    return first_file(root, [f"{each}{name}.{end}" for each in ("", folder) for end in endings])


def _celeba_column(path: Path, name: str, pictures: pd.Index[str]) -> pd.Series[str]:
    """Read the last column of a list of two, for these pictures."""
    frame = _celeba_table(path, [], names=["image_id", name])
    column: pd.Series[str] = frame.loc[~frame.index.duplicated()].iloc[:, 0]
    return column.reindex(pictures)


def _celeba_table(path: Path, columns: list[str], **text_options: object) -> pd.DataFrame:
    """Read one row for each picture, by its name. Text files have no header for the names."""
    if path.suffix == ".csv":
        return table(path, ["image_id", *columns]).set_index("image_id")
    if "names" in text_options:
        return table(path, columns, sep=r"\s+", header=None, **text_options).set_index("image_id")
    return table(path, columns, sep=r"\s+", index_col=0, **text_options)


# -- FairFace --------------------------------------------------------------------------------------

GENDERS = ("Male", "Female")
RACES = (
    *("White", "Black", "Latino_Hispanic", "East Asian", "Southeast Asian"),
    *("Indian", "Middle Eastern"),
)
AGES = ("0-2", "3-9", "10-19", "20-29", "30-39", "40-49", "50-59", "60-69", "more than 70")


def fairface(root: Path) -> Listing | None:
    """List `train/1.jpg`, `val/1.jpg`, with `fairface_label_train.csv` and
    `fairface_label_val.csv`; None for any other folder. `val` is the test part.
    """
    frames = [
        table(path, ["file", "age", "gender", "race"]).assign(part=part)
        for part in ("train", "val")
        if (path := root / f"fairface_label_{part}.csv").is_file()
    ]
    if not frames:
        return None
    frame = pd.concat(frames, ignore_index=True)
    values = {"gender": GENDERS, "race": RACES, "age": AGES}
    attributes = {name: coded(frame[name].tolist(), known) for name, known in values.items()}
    held_out = own_test_part((frame["part"] == "val").to_numpy(dtype=bool))
    paths = tuple(below(root, name) for name in frame["file"])
    return Listing("FairFace", paths, attributes, held_out)


# -- DiveFace --------------------------------------------------------------------------------------

DIVEFACE_RACES = ("East Asian", "Sub-Saharan and South Indian", "Caucasian")  # groups 1 to 3
DIVEFACE_GROUP = re.compile(r"Group([123])_(Male|Female)")


def diveface(root: Path) -> Listing | None:
    """List `Group1_Male/PERSON/*.jpg`, …, `Group3_Female/PERSON/*.jpg`, as the authors' script
    copies them from MegaFace; None for any other folder. There is no test part; every person is in
    one folder.
    """
    folders = [
        (path, match)
        for path in (sorted(root.iterdir()) if root.is_dir() else [])
        if path.is_dir() and (match := DIVEFACE_GROUP.fullmatch(path.name))
    ]
    if not folders:
        return None
    paths: list[Path] = []
    rows: list[tuple[int, int, int]] = []
    people: dict[str, int] = {}
    for folder, match in folders:
        for path in picture_files(folder):
            person = path.relative_to(root).parent.as_posix()
            paths.append(path)
            number = people.setdefault(person, len(people))
            rows.append((GENDERS.index(match[2]), int(match[1]) - 1, number))
    gender, race, person_of = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    attributes = {
        "gender": ImageAttribute(GENDERS, gender),
        "race": ImageAttribute(DIVEFACE_RACES, race),
    }
    return Listing("DiveFace", tuple(paths), attributes, people=person_of)


# -- Labeled Faces in the Wild ---------------------------------------------------------------------

LFW_RACES = ("White", "Black", "Asian", "Indian")
LFW_LISTS = {"male_names.txt": 1, "female_names.txt": 0}
LFW_FOLDERS = ("", "lfw/", "lfw-deepfunneled/", "lfw_funneled/")


def lfw(root: Path) -> Listing | None:
    """List `Aaron_Eckhart/Aaron_Eckhart_0001.jpg`, in a folder for each person; None for any other
    folder.

    Gender and race are from `lfw_attributes.txt` (outputs of classifiers, above 0 if the attribute
    is present; the race is the greatest of four), or gender alone from the hand-made lists
    `male_names.txt` and `female_names.txt`, which take precedence. All pictures of a person are
    either for training or held out.
    """
    scored = first_file(root, [f"{folder}lfw_attributes.txt" for folder in LFW_FOLDERS])
    lists = {
        name: path
        for name in LFW_LISTS
        if (path := first_file(root, [f"{folder}{name}" for folder in LFW_FOLDERS])) is not None
    }
    if scored is None and len(lists) < len(LFW_LISTS):
        return None
    paths = [path for path in picture_files(root) if path.name.startswith(f"{path.parent.name}_")]
    scores = _lfw_scores(scored) if scored is not None else {}
    gender = {key: int(row[0] > 0) for key, row in scores.items()}
    for name, path in lists.items():
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        gender |= {Path(line.strip()).stem: LFW_LISTS[name] for line in lines if line.strip()}
    known: dict[str, tuple[tuple[str, ...], dict[str, int]]] = {
        "gender": (("female", "male"), gender)
    }
    if scores:
        race = {key: int(np.argmax(row[1:])) for key, row in scores.items()}
        known["race"] = (LFW_RACES, race)
    attributes = {
        name: ImageAttribute(
            values, np.array([codes.get(path.stem, -1) for path in paths], np.int64)
        )
        for name, (values, codes) in known.items()
    }
    _, people = np.unique([path.parent.name for path in paths], return_inverse=True)
    return Listing("LFW", tuple(paths), attributes, people=people.astype(np.int64))


def _lfw_scores(path: Path) -> dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """Read the scores of `Male` and the four races of each picture. The header is the second line
    and begins with #.
    """
    wanted = ["Male", *LFW_RACES]
    with path.open(encoding="utf-8", errors="replace") as file:
        file.readline()
        names = file.readline().lstrip("#").strip().split("\t")
    options = {"sep": "\t", "skiprows": 2, "names": names, "header": None, "index_col": False}
    frame = table(path, ["person", "imagenum", *wanted], **options)
    try:
        numbers = frame[wanted].astype(float).to_numpy()
        keys = [
            f"{person.replace(' ', '_')}_{int(number):04d}"
            for person, number in zip(frame["person"], frame["imagenum"], strict=True)
        ]
    except ValueError as error:
        raise DataError(
            f"{path} holds scores that are not numbers: {error}. Download the file again."
        ) from error
    return dict(zip(keys, numbers, strict=True))


# -- UTKFace ---------------------------------------------------------------------------------------

UTKFACE_RACES = ("White", "Black", "Asian", "Indian", "Others")
UTKFACE_NAME = re.compile(r"(\d{1,3})_([01])_([0-4])_(\d+)(\.\w+)+")
BANDS = (3, 10, 20, 30, 40, 50, 60, 70)  # the first year of each of FairFace's bands but the lowest


def utkface(root: Path) -> Listing | None:
    """List `[age]_[gender]_[race]_[date].jpg`, or `.jpg.chip.jpg` for the aligned faces; None if no
    picture is named so. There is no test part.

    Ages are grouped into FairFace's bands. Some names of the published files lack a part; those
    pictures are left out and reported.
    """
    matches = [(path, UTKFACE_NAME.fullmatch(path.name)) for path in picture_files(root)]
    named = [(path, match) for path, match in matches if match]
    if not named:
        return None
    log = MessageLog(root)
    log.note("unnamed", (path for path, match in matches if not match))
    age, gender, race = np.array(
        [[int(match[at]) for at in (1, 2, 3)] for _, match in named], dtype=np.int64
    ).T
    attributes = {
        "gender": ImageAttribute(GENDERS, gender),
        "race": ImageAttribute(UTKFACE_RACES, race),
        "age": ImageAttribute(AGES, np.searchsorted(BANDS, age, side="right").astype(np.int64)),
    }
    paths = tuple(path for path, _ in named)
    return Listing("UTKFace", paths, attributes, messages=log.messages())


# UTKFace is last: it checks the names of all pictures.
LAYOUTS: tuple[Callable[[Path], Listing | None], ...] = (celeba, diveface, fairface, lfw, utkface)


def class_folders(root: Path) -> Listing | None:
    """List pictures without a face in a folder for each class, with or without `train` and `val`
    above them; None if there are none. The classes are not used.
    """
    paths = picture_files(root)
    if not paths:
        return None
    held_out = [path.relative_to(root).parts[0] in ("val", "test") for path in paths]
    return Listing("others", tuple(paths), {}, own_test_part(np.array(held_out, dtype=bool)))
