"""Pictures in one `.npz` file.

`images` are bytes (N, height, width, 3) or (N, 3, height, width), gray ones (N, height, width), or
numbers from 0 to 1; or `jpeg` holds all files in sequence and `offsets` (N + 1) where each begins.
`is_face` (0, 1), or `y` with `y_names`, is what a network is to predict; without either all are
faces. `split` is 0 for pictures to train on. Every other array of N whole numbers or words is an
attribute: `gender` with its `gender_names`; 255 in bytes, a negative number or an empty word is
unknown. Nothing is unpickled.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import ZipFile, is_zipfile

import numpy as np
import numpy.typing as npt

from fairprobe.arrays import Ints, Mask
from fairprobe.datasets.image_layouts import (
    ImageAttribute,
    ImageSet,
    coded,
    drawn_test_part,
    own_test_part,
)
from fairprobe.datasets.pictures import (
    MOST_BYTES,
    Bytes,
    MessageLog,
    commonest_shape,
    read_picture,
)
from fairprobe.errors import DAMAGED, DataError, FairprobeError, StorageError
from fairprobe.storage import check_regular, check_unpacked

Array = npt.NDArray[Any]

IDENTITY = "identity"  # who is in each picture, as numbers or names
NOT_ATTRIBUTES = ("images", "jpeg", "offsets", "is_face", "y", "split", IDENTITY)
MOST_VALUES = 50  # of an attribute; an array with more, such as file names, defines no groups
TOO_MANY = f"has more than {MOST_VALUES} values"
UNKNOWN_BYTE = 255
FACE_CLASSES = ("not a face", "face")


def read(path: Path, rng: np.random.Generator) -> ImageSet:
    """Read the file's pictures and their attributes; raise DataError for an array that does not
    fit. Without a test part, one is drawn.
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
    """Who is in each picture; a negative number or an empty name is unknown."""
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
    """All arrays of the file by their names."""
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
            _check_size(path, size)
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


def _check_size(path: Path, size: int) -> None:
    if size > MOST_BYTES:
        raise StorageError(
            f"{path} unpacks to {size / 2**30:.1f} GiB; at most {MOST_BYTES // 2**30} GiB are read."
            " Save fewer or smaller pictures."
        )


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
