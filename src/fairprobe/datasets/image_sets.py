"""Pictures of people with their attributes, and pictures of other things: what a face detector
learns from.

`open_images` reads the folders of CelebA, LFW, FairFace and UTKFace as published, and `.npz` files.
Pictures that cannot be used are left out and named in messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile, is_zipfile

import numpy as np
import numpy.typing as npt

from fairprobe.arrays import Ints, Mask
from fairprobe.datasets.image_layouts import (
    LAYOUTS,
    ImageAttribute,
    ImageSet,
    Listing,
    class_folders,
    coded,
    drawn_test_part,
    own_test_part,
    with_labels,
)
from fairprobe.datasets.pictures import (
    MOST_BYTES,
    Bytes,
    MessageLog,
    commonest_shape,
    read_picture,
    read_pictures,
    squared,
)
from fairprobe.errors import DAMAGED, DataError, FairprobeError, SettingError, StorageError
from fairprobe.storage import check_regular, check_unpacked

__all__ = ["FACE_CLASSES", "ImageAttribute", "ImageSet", "open_images"]

Array = npt.NDArray[Any]

IDENTITY = "identity"  # who is in each picture, as numbers or names
NOT_ATTRIBUTES = ("images", "jpeg", "offsets", "is_face", "y", "split", IDENTITY)
MOST_VALUES = 50  # of an attribute; an array with more, such as file names, defines no groups
TOO_MANY = f"has more than {MOST_VALUES} values"
UNKNOWN_BYTE = 255
FACE_CLASSES = ("not a face", "face")
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
    whole = _read_npz(path, rng)
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
    """Join faces and other pictures; the attributes of the latter are unknown."""
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
    """Leave out empty groups, and attributes that have fewer than two groups; messages name
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


# -- npz -------------------------------------------------------------------------------------------


def _read_npz(path: Path, rng: np.random.Generator) -> ImageSet:
    """Read the pictures in one `.npz` file; raise DataError for an array that does not fit.

    `images` are bytes (N, height, width, 3) or (N, 3, height, width), gray ones (N, height, width),
    or numbers from 0 to 1; or `jpeg` holds all files in sequence and `offsets` (N + 1) where each
    begins. `is_face` (0, 1), or `y` with `y_names`, is what a network is to predict; without either
    all are faces. `split` is 0 for pictures to train on. Without a test part, one is drawn. Every
    other array of N whole numbers or words is an attribute: `gender` with its `gender_names`; 255
    in bytes, a negative number or an empty word is unknown. Nothing is unpickled.
    """
    arrays = _arrays(path)
    log = MessageLog(path.parent)
    images, usable = _jpegs(arrays, path, log) if "jpeg" in arrays else _pixels(arrays, path, log)
    count = len(usable)
    y, classes = _classes(arrays, count, path)
    split = _codes(arrays["split"], "split", count, path) if "split" in arrays else None
    attributes: dict[str, ImageAttribute] = {}
    ignored: dict[str, tuple[str, ...]] = {}
    others = {*NOT_ATTRIBUTES, *(f"{name}_names" for name in arrays)}
    for name in (name for name in arrays if name not in others):
        found = _attribute(name, arrays, count, path)
        if isinstance(found, str):
            ignored[name] = (f"`{name}` of {path.name} {found}, so it defines no groups.",)
        else:
            attributes[name] = found.take(usable)
    held_out = None if split is None else own_test_part(split[usable] != 0)
    identities = _identities(arrays, count, path)
    people = None if identities is None else identities[usable]
    return ImageSet(
        name=path.stem,
        images=images,
        y=y[usable],
        classes=classes,
        attributes=attributes,
        held_out=drawn_test_part(len(images), people, rng) if held_out is None else held_out,
        messages=log.messages(f"{images.shape[3]} × {images.shape[2]}"),
        attribute_messages=ignored,
        identities=people,
    )


def _identities(arrays: Mapping[str, Array], count: int, path: Path) -> Ints | None:
    """Assign numbers to people in pictures; negative numbers and empty names are unknown."""
    if IDENTITY not in arrays:
        return None
    array = arrays[IDENTITY]
    if array.shape != (count,) or array.dtype.kind not in "iuUS":
        raise DataError(
            f"{path}: `{IDENTITY}` must be a whole number or a name for each of the {count} images;"
            f" got {array.dtype} {array.shape}."
        )
    if array.dtype.kind in "iu":
        return array.astype(np.int64)
    words = np.array(_words(array))
    _, people = np.unique(words, return_inverse=True)
    return np.where(words == "", -1, people).astype(np.int64)


def _arrays(path: Path) -> dict[str, Array]:
    """Read all arrays of the file by their names."""
    arrays: dict[str, Array] = {}
    name = ""
    check_regular(path)
    try:
        with path.open("rb") as file:
            if not is_zipfile(file):
                raise StorageError(
                    f"{path} is not an .npz file. Expected a folder of faces, or an .npz file"
                    " written by numpy.savez."
                )
        with ZipFile(path) as packed:
            size = sum(entry.file_size for entry in packed.infolist())
            check_unpacked(path, size)
            if size > MOST_BYTES:
                raise StorageError(
                    f"{path} unpacks to {size / 2**30:.1f} GiB; at most {MOST_BYTES // 2**30} GiB"
                    " are read. Save fewer or smaller pictures."
                )
        with np.load(path, allow_pickle=False) as stored:
            for name in stored.files:
                array = stored[name]
                if isinstance(array, np.ndarray):  # anything else in the file comes as bytes
                    arrays[name] = array
    except FairprobeError:
        raise
    except DAMAGED as error:
        where = f" (`{name}`)" if name else ""
        why = str(error).strip().rstrip(".") or type(error).__name__
        raise StorageError(
            f"{path} cannot be read as an .npz of plain arrays{where}: {why}. Write it again with"
            " numpy.savez, words as numpy.array(words, dtype=str)."
        ) from error
    return arrays


def _pixels(arrays: Mapping[str, Array], path: Path, log: MessageLog) -> tuple[Bytes, Mask]:
    if "images" not in arrays:
        raise DataError(
            f"{path} has no array `images`, nor `jpeg` with `offsets`; it has"
            f" {', '.join(arrays) or 'none'}."
        )
    images = arrays["images"]
    if images.dtype.kind == "f" and images.size:
        if not (np.isfinite(images).all() and images.min() >= 0 and images.max() <= 1):
            raise DataError(
                f"{path}: `images` are {images.dtype} from {images.min():g} to {images.max():g},"
                " outside 0 to 1. Divide them by their greatest value, or save bytes:"
                " images.astype(numpy.uint8)."
            )
        images = np.round(images * 255).astype(np.uint8)
        log.empty.append(f"The numbers of {path.name} are rounded to bytes.")
    if images.dtype != np.uint8 or images.ndim not in (3, 4) or len(images) == 0:
        raise DataError(
            f"{path}: `images` must be bytes (number, height, width, 3), or numbers from 0 to 1;"
            f" got {images.dtype} {images.shape}."
        )
    if images.ndim == 3:
        images = images[..., None]
    if images.shape[-1] in (1, 3, 4):
        images = images.transpose(0, 3, 1, 2)
    channels = images.shape[1]
    if channels not in (1, 3, 4):
        raise DataError(
            f"{path}: `images` have {channels} channels; expected 3, or 1 for gray, or 4 with an"
            " alpha channel."
        )
    if channels == 1:
        images = np.repeat(images, 3, axis=1)
        log.empty.append(f"The images of {path.name} are gray and get three equal channels.")
    if channels == 4:
        log.empty.append(f"The images of {path.name} have an alpha channel, which is dropped.")
    return np.ascontiguousarray(images[:, :3]), np.ones(len(images), dtype=np.bool_)


def _jpegs(arrays: Mapping[str, Array], path: Path, log: MessageLog) -> tuple[Bytes, Mask]:
    """Return the readable pictures of the most common size, and which those are."""
    content, offsets = arrays["jpeg"], arrays.get("offsets", np.empty(0))
    fits = content.dtype == np.uint8 and content.ndim == offsets.ndim == 1
    fits = fits and offsets.dtype.kind in "iu" and len(offsets) > 1
    fits = fits and offsets[0] >= 0 and offsets[-1] <= len(content)
    if not fits or (offsets[1:] < offsets[:-1]).any():
        raise DataError(
            f"{path}: `jpeg` must be bytes and `offsets` whole numbers that rise from 0 to their"
            " number. Write the file again."
        )
    names = [path.with_name(f"{path.name}[{at}]") for at in range(len(offsets) - 1)]
    pictures = {}
    for at, name in enumerate(names):
        one = content[offsets[at] : offsets[at + 1]].tobytes()
        if (picture := read_picture(name, log, content=one)) is not None:
            pictures[at] = picture
    if not pictures:
        raise DataError(f"No image of {path} can be read. {' '.join(log.messages())}")
    wanted = commonest_shape(pictures.values())
    log.note("size", (names[at] for at, one in pictures.items() if one.shape != wanted))
    kept = [at for at, one in pictures.items() if one.shape == wanted]
    return np.stack([pictures[at] for at in kept]), np.isin(np.arange(len(names)), kept)


def _classes(arrays: Mapping[str, Array], count: int, path: Path) -> tuple[Ints, tuple[str, ...]]:
    if "is_face" in arrays:
        y = _codes(arrays["is_face"], "is_face", count, path)
        if not np.isin(y, (0, 1)).all():
            raise DataError(
                f"{path}: `is_face` must be 0 or 1; got {sorted(set(y.tolist()) - {0, 1})[:3]}."
            )
        return y, FACE_CLASSES
    if "y" in arrays:
        y = _codes(arrays["y"], "y", count, path)
        names = _names("y", arrays, path) or tuple(map(str, range(int(y.max()) + 1)))
        if y.min() < 0 or y.max() >= len(names) or len(names) > MOST_VALUES:
            raise DataError(
                f"{path}: `y` must be positions in `y_names`, from 0; got {y.min()} to {y.max()}"
                f" and {len(names)} names."
            )
        return y, names
    return np.ones(count, dtype=np.int64), FACE_CLASSES


def _codes(array: Array, name: str, count: int, path: Path) -> Ints:
    if array.shape != (count,) or array.dtype.kind not in "iub":
        raise DataError(
            f"{path}: `{name}` must be a whole number for each of the {count} images; got"
            f" {array.dtype} {array.shape}."
        )
    return array.astype(np.int64)


def _attribute(
    name: str, arrays: Mapping[str, Array], count: int, path: Path
) -> ImageAttribute | str:
    """Return the attribute, or the reason why an array is not one."""
    array, names = arrays[name], _names(name, arrays, path)
    if array.shape != (count,):
        return f"has the shape {array.shape} beside {count:,} images"
    if array.dtype.kind in "US":
        words = _words(array)
        return coded(words) if len(set(words)) <= MOST_VALUES else TOO_MANY
    if array.dtype.kind not in "iub":
        return f"is neither whole numbers nor words but {array.dtype}"
    codes = array.astype(np.int64)
    codes[(codes < 0) | ((codes == UNKNOWN_BYTE) if array.dtype == np.uint8 else False)] = -1
    if names is None:
        found = np.unique(codes[codes >= 0])
        places = np.where(codes < 0, -1, np.searchsorted(found, codes)).astype(np.int64)
        if len(found) > MOST_VALUES:
            return TOO_MANY
        return ImageAttribute(tuple(map(str, found)), places)
    if codes.max(initial=-1) >= len(names):
        raise DataError(
            f"{path}: `{name}` has the code {codes.max()}, but `{name}_names` has {len(names)}"
            " names."
        )
    return ImageAttribute(names, codes)


def _names(name: str, arrays: Mapping[str, Array], path: Path) -> tuple[str, ...] | None:
    """Return the names of an array's codes, if the file has them."""
    names = arrays.get(f"{name}_names")
    if names is None:
        return None
    if names.ndim != 1:
        raise DataError(
            f"{path}: `{name}_names` must be a word for each code of `{name}`; got the shape"
            f" {names.shape}."
        )
    return tuple(_words(names))


def _words(array: Array) -> list[str]:
    return [
        word.decode("utf-8", "replace") if isinstance(word, bytes) else str(word) for word in array
    ]
