"""Pictures of people with what is known of them, and pictures of other things beside them: what a
face detector learns from.

`open_images` knows the folders of CelebA, LFW, FairFace and UTKFace as they are published, and
`.npz` files. A picture that cannot be used is named and left out, and the rest goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from fairprobe.arrays import Ints, Mask
from fairprobe.datasets.image_layouts import celeba, fairface, imagenet, lfw, npz, utkface
from fairprobe.datasets.image_layouts.base import ImageAttribute, Listing
from fairprobe.datasets.image_layouts.npz import FACE_CLASSES
from fairprobe.datasets.pictures import Bytes, Told, read_picture, squared
from fairprobe.errors import DataError, SettingError, StorageError

__all__ = ["FACE_CLASSES", "ImageAttribute", "ImageSet", "open_images"]

LAYOUTS = (
    celeba,
    fairface,
    lfw,
    utkface,
)  # UTKFace last: it has to look at the names of all pictures
TEST_SHARE = 5  # where there is no test part, one picture in so many is held out
SMALLEST, LARGEST = 8, 1024  # pixels
MOST_BYTES = 8 * 2**30  # of all pictures together, in memory


@dataclass(frozen=True)
class ImageSet:
    """Pictures (N, 3, height, width) in bytes, their classes, and attributes of the people on them.

    `held_out` is the collection's own test part, or one drawn by the seed. `messages` say what was
    changed or left out; `told` does of each attribute.
    """

    name: str
    images: Bytes
    y: Ints
    classes: tuple[str, ...]
    attributes: dict[str, ImageAttribute]
    held_out: Mask
    messages: tuple[str, ...] = ()
    told: dict[str, tuple[str, ...]] = field(default_factory=dict)

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
                    f"'{self.name}' has {len(self.images):,} pictures, but `{name}` is of"
                    f" {count:,}."
                )

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: Ints | Mask) -> ImageSet:
        """These pictures alone."""
        return replace(
            self,
            images=self.images[rows],
            y=self.y[rows],
            attributes={name: one.take(rows) for name, one in self.attributes.items()},
            held_out=self.held_out[rows],
        )


def open_images(
    path: Path | str,
    *,
    others: Path | str | None = None,
    size: int | None = None,
    limit: int | None = None,
    seed: int = 0,
) -> ImageSet:
    """The pictures of a folder or an `.npz`, and those in the class folders of `others`, which show
    no face.

    With `size` every picture becomes a square of so many pixels. Without it the faces' commonest
    size counts: faces of another one are left out, and what is no face is brought to it. With
    `limit` at most so many pictures are drawn by the seed, the same share of each class.
    """
    if size is not None and not SMALLEST <= size <= LARGEST:
        raise SettingError(f"The size must be from {SMALLEST} to {LARGEST} pixels; got {size}.")
    if limit is not None and limit < 2:
        raise SettingError(f"The limit must be 2 pictures or more; got {limit}.")
    source, rng = Path(path), np.random.default_rng(seed)
    if not source.exists():
        raise StorageError(f"There is no {source}. Expected a folder of faces or an .npz file.")
    if others is not None and not Path(others).is_dir():
        raise StorageError(
            f"There is no folder {others}. Expected class folders with pictures without a face."
        )
    share = limit if others is None or limit is None else max(1, limit // 2)
    faces = (
        _folder(source, size, share, rng) if source.is_dir() else _file(source, size, share, rng)
    )
    if others is not None:
        faces = _joined(faces, _others(Path(others), size, share, faces, rng))
    return _tidy(faces)


# -- reading ---------------------------------------------------------------------------------------


def _folder(root: Path, size: int | None, limit: int | None, rng: np.random.Generator) -> ImageSet:
    listing = next(
        (found for layout in LAYOUTS if (found := layout.listing(root)) is not None), None
    )
    if listing is None:
        raise DataError(
            f"{root} is laid out as no collection of faces that is known here. Known: CelebA"
            " (list_attr_celeba.txt), FairFace (fairface_label_train.csv), LFW"
            " (lfw_attributes.txt, or male_names.txt and female_names.txt), UTKFace (pictures"
            " named age_gender_race_date.jpg), or an .npz file."
        )
    return _read(root, listing, size, limit, rng, of_class=1)


def _others(
    root: Path, size: int | None, limit: int | None, faces: ImageSet, rng: np.random.Generator
) -> ImageSet:
    listing = imagenet.listing(root)
    if listing is None:
        raise DataError(
            f"There are no pictures below {root}. Expected class folders with pictures without a"
            " face."
        )
    if len(faces.classes) != len(FACE_CLASSES):
        raise DataError(
            f"The pictures have the classes {', '.join(faces.classes)}; pictures without a face can"
            " only stand beside faces."
        )
    height, width = faces.images.shape[2:]
    if size is None and height == width and SMALLEST <= height <= LARGEST:
        size = height
    return _read(root, listing, size, limit, rng, of_class=0, wanted=faces.images.shape[1:])


def _read(
    root: Path,
    listing: Listing,
    size: int | None,
    limit: int | None,
    rng: np.random.Generator,
    *,
    of_class: int,
    wanted: tuple[int, ...] | None = None,
) -> ImageSet:
    """The listed pictures, all of one class."""
    if limit is not None and limit < len(listing.paths):
        listing = listing.take(np.sort(rng.choice(len(listing.paths), limit, replace=False)))
    if size is not None and 3 * size**2 * len(listing.paths) > MOST_BYTES:
        raise SettingError(
            f"{len(listing.paths):,} pictures of {size} × {size} pixels are too much to hold. Give"
            " a limit or a smaller size."
        )
    told = Told(root)
    read: dict[int, Bytes] = {}
    held = 0
    for at, path in enumerate(listing.paths):
        if not path.is_file():
            told.note("missing", [path])
        elif (picture := read_picture(path, told, size=size)) is not None:
            read[at] = picture
            held += picture.nbytes
            if held > MOST_BYTES:
                raise SettingError(
                    f"The pictures below {root} are too much to hold. Give a limit, or a size to"
                    " bring them to."
                )
    if not read:
        raise DataError(
            f"No image could be read below {root}."
            f" {' '.join((*listing.messages, *told.messages()))}".rstrip()
        )
    wanted = wanted or _commonest(read.values())
    told.note(
        "size", (listing.paths[at] for at, picture in read.items() if picture.shape != wanted)
    )
    rows = np.array([at for at, picture in read.items() if picture.shape == wanted], dtype=np.int64)
    messages = (*listing.messages, *told.messages(f"{wanted[2]} × {wanted[1]}"))
    if len(rows) == 0:
        raise DataError(
            f"No image below {root} is {wanted[2]} × {wanted[1]} pixels as the faces are. Give a"
            " size to bring all to."
        )
    part = listing.take(rows)
    return ImageSet(
        name=listing.name,
        images=np.stack([read[at] for at in rows.tolist()]),
        y=np.full(len(rows), of_class, dtype=np.int64),
        classes=FACE_CLASSES,
        attributes=part.attributes,
        held_out=(
            part.held_out if part.held_out is not None else _drawn(len(rows), part.people, rng)
        ),
        messages=messages,
    )


def _commonest(pictures: Iterable[Bytes]) -> tuple[int, ...]:
    shapes = Counter(picture.shape for picture in pictures)
    return max(shapes, key=lambda shape: (shapes[shape], shape))


def _file(path: Path, size: int | None, limit: int | None, rng: np.random.Generator) -> ImageSet:
    stored = npz.read(path)
    held_out = stored.held_out if stored.held_out is not None else _drawn(len(stored.y), None, rng)
    whole = ImageSet(
        path.stem,
        stored.images,
        stored.y,
        stored.classes,
        stored.attributes,
        held_out,
        stored.messages,
        stored.told,
    )
    if limit is not None and limit < len(whole):
        present = np.unique(whole.y)
        most = max(1, limit // len(present))
        chosen = [rng.permutation(np.flatnonzero(whole.y == one))[:most] for one in present]
        whole = whole.take(np.sort(np.concatenate(chosen)))
    height, width = whole.images.shape[2:]
    if size is None or (height, width) == (size, size):
        return whole
    cropped = "" if height == width else " after cropping to the square in the middle"
    message = f"All images are brought from {width} × {height} to {size} × {size} pixels{cropped}."
    return replace(whole, images=_brought(whole.images, size), messages=(*whole.messages, message))


def _brought(images: Bytes, size: int) -> Bytes:
    from PIL import Image

    squares = [
        np.asarray(squared(Image.fromarray(image.transpose(1, 2, 0)), size), dtype=np.uint8)
        for image in images
    ]
    return np.ascontiguousarray(np.stack(squares).transpose(0, 3, 1, 2))


def _drawn(count: int, people: Ints | None, rng: np.random.Generator) -> Mask:
    """One picture in five, or all pictures of one person in five."""
    owner = np.arange(count) if people is None else people
    names = np.unique(owner)
    return np.isin(owner, rng.permutation(names)[: len(names) // TEST_SHARE])


# -- putting together ------------------------------------------------------------------------------


def _joined(faces: ImageSet, others: ImageSet) -> ImageSet:
    """Both; of what is no face no attribute is known."""
    unknown = np.full(len(others), -1, dtype=np.int64)
    return replace(
        faces,
        images=np.concatenate([faces.images, others.images]),
        y=np.concatenate([faces.y, others.y]),
        attributes={
            name: ImageAttribute(one.values, np.concatenate([one.codes, unknown]))
            for name, one in faces.attributes.items()
        },
        held_out=np.concatenate([faces.held_out, others.held_out]),
        messages=(*faces.messages, *others.messages),
    )


def _tidy(images: ImageSet) -> ImageSet:
    """Without groups that have no picture, and without attributes that then tell no two groups
    apart; both are told.
    """
    faces = (
        images.y == 1 if images.classes == FACE_CLASSES else np.ones(len(images), dtype=np.bool_)
    )
    attributes, told = {}, dict(images.told)
    for name, one in images.attributes.items():
        known = replace(one, codes=np.where(faces, one.codes, -1))
        there = np.unique(known.codes[known.codes >= 0]).tolist()
        if len(there) < 2:
            told[name] = (_without_groups(name, one.values, there),)
            continue
        attributes[name] = known.only(there)
        missing = (value for at, value in enumerate(one.values) if at not in there)
        told[name] = tuple(
            f"No image of the {name} '{value}' can be used; the group is left out."
            for value in missing
        )
        unknown = int((faces & (known.codes < 0)).sum())
        if unknown:
            told[name] += (
                (
                    f"In {unknown:,} of {int(faces.sum()):,} pictures of people the {name} is not"
                    " known; they stand in no group."
                ),
            )
    return replace(images, attributes=attributes, told=told)


def _without_groups(name: str, values: tuple[str, ...], there: list[int]) -> str:
    if there:
        return (
            f"All people have the {name} '{values[there[0]]}' where it is known, so there are no"
            " groups to compare by it."
        )
    return (
        f"The {name} of nobody is known, so there are no groups to compare by it; expected"
        f" {', '.join(values)}."
    )
