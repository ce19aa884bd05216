"""Pictures of people with their attributes, and pictures of other things: what a face detector
learns from.

`open_images` reads the folders of CelebA, LFW, FairFace and UTKFace as published, and `.npz` files.
Pictures that cannot be used are left out and named in messages.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from fairprobe.datasets import npz
from fairprobe.datasets.image_layouts import (
    LAYOUTS,
    ImageAttribute,
    ImageSet,
    Listing,
    class_folders,
    drawn_test_part,
    with_labels,
)
from fairprobe.datasets.npz import FACE_CLASSES
from fairprobe.datasets.pictures import (
    MOST_BYTES,
    Bytes,
    MessageLog,
    read_pictures,
    squared,
)
from fairprobe.errors import DataError, SettingError, StorageError

__all__ = ["FACE_CLASSES", "ImageAttribute", "ImageSet", "open_images"]

SMALLEST, LARGEST = 8, 1024  # pixels


def open_images(
    path: Path | str,
    *,
    others: Path | str | None = None,
    size: int | None = None,
    limit: int | None = None,
    labels: Path | str | None = None,
    seed: int = 0,
) -> ImageSet:
    """Return the pictures of a folder or an `.npz`, and those in the class folders of `others`,
    which show no face.

    With `size` every picture becomes a square of so many pixels. Without it, faces that do not have
    the faces' most common size are left out, and other pictures are resized to it. With `limit` at
    most so many pictures are drawn by the seed, the same share of each class. `labels` is a CSV
    with the column `file` and a column for each further attribute, such as the race of CelebA's
    people.
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
    if source.is_dir():
        faces = _folder(source, size, share, rng, labels)
    elif labels is None:
        faces = _file(source, size, share, rng)
    else:
        raise SettingError(
            f"Labels belong to a folder of pictures; {source} is a file. Put them into it as"
            " arrays."
        )
    if others is not None:
        faces = _joined(faces, _others(Path(others), size, share, faces, rng))
    return _tidy(faces)


# -- reading ---------------------------------------------------------------------------------------


def _folder(
    root: Path,
    size: int | None,
    limit: int | None,
    rng: np.random.Generator,
    labels: Path | str | None,
) -> ImageSet:
    listing = next(filter(None, (layout(root) for layout in LAYOUTS)), None)
    if listing is None:
        raise DataError(
            f"{root} has an unsupported layout. Supported are CelebA (list_attr_celeba.txt),"
            " DiveFace (Group1_Female and so on), FairFace (fairface_label_train.csv), LFW"
            " (lfw_attributes.txt, or male_names.txt and female_names.txt), UTKFace (pictures named"
            " age_gender_race_date.jpg), and .npz files."
        )
    if labels is not None:
        listing = with_labels(listing, root, Path(labels))
    return _read(root, listing, size, limit, rng, of_class=1)


def _others(
    root: Path, size: int | None, limit: int | None, faces: ImageSet, rng: np.random.Generator
) -> ImageSet:
    listing = class_folders(root)
    if listing is None:
        raise DataError(
            f"There are no pictures in {root}. Expected class folders with pictures without a face."
        )
    if len(faces.classes) != len(FACE_CLASSES):
        raise DataError(
            f"The pictures have the classes {', '.join(faces.classes)}; pictures without a face can"
            " only be added to faces."
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
    """Return the listed pictures, all of one class."""
    if limit is not None and limit < len(listing.paths):
        listing = listing.take(np.sort(rng.choice(len(listing.paths), limit, replace=False)))
    if size is not None and 3 * size**2 * len(listing.paths) > MOST_BYTES:
        raise SettingError(
            f"{len(listing.paths):,} pictures of {size} × {size} pixels do not fit into memory. Set"
            " a limit or a smaller size."
        )
    log = MessageLog(root)
    read = read_pictures(listing.paths, log, size=size, shape=wanted)
    if read is None:
        raise DataError(
            f"No image in {root} could be read."
            f" {' '.join((*listing.messages, *log.messages()))}".rstrip()
        )
    rows = np.array(list(read.pictures), dtype=np.int64)
    if len(rows) == 0:
        raise DataError(
            f"No image in {root} has {read.size} pixels like the faces. Set a size to resize all"
            " to."
        )
    part = listing.take(rows)
    return ImageSet(
        name=listing.name,
        images=np.stack(list(read.pictures.values())),
        y=np.full(len(rows), of_class, dtype=np.int64),
        classes=FACE_CLASSES,
        attributes=part.attributes,
        held_out=(
            part.held_out
            if part.held_out is not None
            else drawn_test_part(len(rows), part.people, rng)
        ),
        messages=(*listing.messages, *log.messages(read.size)),
        identities=part.people,
        other_sizes=read.other_sizes,
    )


def _file(path: Path, size: int | None, limit: int | None, rng: np.random.Generator) -> ImageSet:
    whole = npz.read(path, rng)
    if limit is not None and limit < len(whole):
        present = np.unique(whole.y)
        most = max(1, limit // len(present))
        chosen = [rng.permutation(np.flatnonzero(whole.y == one))[:most] for one in present]
        whole = whole.take(np.sort(np.concatenate(chosen)))
    height, width = whole.images.shape[2:]
    if size is None or (height, width) == (size, size):
        return whole
    cropped = "" if height == width else " after cropping to the square in the middle"
    message = f"All images are resized from {width} × {height} to {size} × {size} pixels{cropped}."
    return replace(whole, images=_resized(whole.images, size), messages=(*whole.messages, message))


def _resized(images: Bytes, size: int) -> Bytes:
    from PIL import Image

    squares = [
        np.asarray(squared(Image.fromarray(image.transpose(1, 2, 0)), size), dtype=np.uint8)
        for image in images
    ]
    return np.ascontiguousarray(np.stack(squares).transpose(0, 3, 1, 2))


# -- joining ---------------------------------------------------------------------------------------


def _joined(faces: ImageSet, others: ImageSet) -> ImageSet:
    """Faces and other pictures; the attributes of the latter are unknown."""
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
        identities=(
            None if faces.identities is None else np.concatenate([faces.identities, unknown])
        ),
        messages=(*faces.messages, *others.messages),
    )


def _tidy(images: ImageSet) -> ImageSet:
    """Without empty groups, and without attributes that have fewer than two groups; messages name
    both.
    """
    faces = np.ones(len(images), dtype=np.bool_)
    if images.classes == FACE_CLASSES:
        faces = images.y == 1
    attributes, messages = {}, dict(images.attribute_messages)
    for name, one in images.attributes.items():
        known = replace(one, codes=np.where(faces, one.codes, -1))
        there = np.unique(known.codes[known.codes >= 0]).tolist()
        if len(there) < 2:
            messages[name] = (_without_groups(name, one.values, there),)
            continue
        attributes[name] = known.only(there)
        missing = (value for at, value in enumerate(one.values) if at not in there)
        messages[name] = tuple(
            f"No image of the {name} '{value}' can be used; the group is left out."
            for value in missing
        )
        unknown = int((faces & (known.codes < 0)).sum())
        if unknown:
            share = f"{unknown:,} of {int(faces.sum()):,} pictures of people"
            messages[name] += (f"The {name} is unknown in {share}; they belong to no group.",)
    return replace(images, attributes=attributes, attribute_messages=messages)


def _without_groups(name: str, values: tuple[str, ...], there: list[int]) -> str:
    if there:
        return (
            f"All people whose {name} is known have '{values[there[0]]}', so there are no groups to"
            " compare by it."
        )
    return (
        f"The {name} is known of nobody, so there are no groups to compare by it; expected"
        f" {', '.join(values)}."
    )
