"""Opening a network of pictures: a torch module, the user's code, a file (ONNX, torch.export,
Keras), or a folder of Hugging Face's transformers.

All take pictures (N, 3, height, width) from 0 to 1 here. What a file or folder expects instead is
done before it: a row of numbers, gray, channels last, and the size, crop, mean and deviation that
the folder's `preprocessor_config.json` names. All of that has a gradient. Pictures of another size
than a file's own are refused: as rows of numbers they would be cut again, into other pictures. A
file with free height and width is opened for the size of the pictures at hand.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, fx, nn

from fairprobe.errors import DataError, ModelError, SettingError, StorageError
from fairprobe.models.formats.base import import_library
from fairprobe.models.formats.file_checks import first_line
from fairprobe.models.formats.free_size import PictureTrial, Size
from fairprobe.models.formats.own_code import open_own
from fairprobe.models.load import open_model

FILES = (".onnx", ".pt2", ".pt", ".pth", ".keras", ".h5")
TRANSFORMERS = "transformers folder"
CONFIG, PREPARATION = "config.json", "preprocessor_config.json"
SHAPED = 3  # axes of a picture
GRAY = (0.299, 0.587, 0.114)  # the shares of red, green and blue, as Pillow has them
MOST_JSON = 10_000_000  # bytes
RESAMPLING = {0: "nearest-exact", 2: "bilinear", 3: "bicubic"}  # by Pillow's numbers
# Steps of image processors that are not done here.
UNSUPPORTED = ("do_pad", "do_thumbnail", "do_align_long_axis", "do_crop_margin", "rescale_offset")
# Image processors for which one number is the shortest edge; for others it is both edges.
BY_EDGE = (
    *("Bit", "CLIP", "ChineseCLIP", "ConvNext", "Levit", "LeViT"),
    *("MobileNet", "MobileViT", "PoolFormer", "Siglip"),
)
WARPED = 384  # the shortest edge from which on ConvNext's processor does not crop


@dataclass(frozen=True)
class Network:
    """A network as it was opened. `classes` are its own names for its outputs, if it has any.
    `size` (height, width) is that of the pictures it was opened for, if its file takes any, and
    `width` how many numbers a picture has in a file.
    """

    module: nn.Module
    name: str
    kind: str
    classes: tuple[str, ...] | None = None
    size: Size | None = None
    width: int | None = None

    def says_size(self, other_sizes: int, *, can_resize: bool = True) -> list[str]:
        """In a sentence, the size that the network was opened for. `other_sizes` pictures have
        another one, and then it is not clear which is meant.
        """
        if self.size is None:
            return []
        height, width = self.size
        if other_sizes:
            option = (
                f"Say which to use (--size {min(self.size)}), or bring" if can_resize else "Bring"
            )
            raise DataError(
                f"{self.name} takes pictures of any size, and the pictures have several: most"
                f" {width} × {height} pixels, {other_sizes:,} another. {option} them to one size."
            )
        return [f"{self.name} takes pictures of any size; {width} × {height} pixels are used."]


class Prepared(nn.Module):
    """A network that gets pictures as it expects them. Its parts keep their author's names."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module


@dataclass(frozen=True)
class Preparation:
    """What transformers does to pictures before a classifier gets them, in this order: they are
    brought to a size (height, width), or their shortest edge to a length; cut at the center; made
    blue-green-red; and their mean and deviation are brought to 0 and 1.
    """

    size: tuple[int, int] | None = None
    edge: int | None = None
    resampling: str = "bilinear"
    crop: tuple[int, int] | None = None
    is_reversed: bool = False
    mean: list[float] | None = None
    deviation: list[float] | None = None

    def shaped(self, images: Tensor) -> Tensor:
        """Return the pictures in the size that the classifier takes."""
        height, width = images.shape[-2:]
        size = self.size
        if self.edge is not None:
            longer = int(self.edge * max(height, width) / min(height, width))
            size = (self.edge, longer) if height <= width else (longer, self.edge)
        if size is not None and size != (height, width):
            images = _resized(images, size, self.resampling)
        if self.crop is None:
            return images
        (height, width), (high, wide) = images.shape[-2:], self.crop
        if high > height or wide > width:
            raise ModelError(
                f"The folder's {PREPARATION} cuts {wide} × {high} pixels out of pictures of"
                f" {width} × {height}. Give larger pictures, or correct the file."
            )
        top, left = (height - high) // 2, (width - wide) // 2
        return images[..., top : top + high, left : left + wide]


def _resized(images: Tensor, size: tuple[int, int], resampling: str) -> Tensor:
    """Resize the pictures, as Pillow resizes them."""
    if resampling == "nearest-exact":
        return F.interpolate(images, size, mode=resampling)
    found = F.interpolate(images, size, mode=resampling, align_corners=False, antialias=True)
    return found.clamp(0, 1) if resampling == "bicubic" else found  # which overshoots


class FromFolder(Prepared):
    """A network of transformers, whose pictures are prepared as its folder says."""

    mean: Tensor | None
    deviation: Tensor | None

    def __init__(self, module: nn.Module, how: Preparation) -> None:
        super().__init__(module)
        self._how = how
        for name, values in (("mean", how.mean), ("deviation", how.deviation)):
            held = None if values is None else torch.tensor(values).view(1, -1, 1, 1)
            self.register_buffer(name, held, persistent=False)

    def forward(self, images: Tensor) -> Any:
        images = self._how.shaped(images)
        if self._how.is_reversed:
            images = images.flip(1)
        if self.mean is not None:
            images = images - self.mean
        if self.deviation is not None:
            images = images / self.deviation
        answer = self.module(images)
        return getattr(answer, "logits", answer)


class FromFile(Prepared):
    """A network that was read from a file, which takes each picture as one row of numbers.

    `shape` is the (channels, height, width) of the pictures that it makes of the rows, if it makes
    any, and `width` the length of a row.
    """

    def __init__(
        self,
        module: nn.Module,
        name: str,
        *,
        shape: tuple[int, ...] | None,
        width: int | None,
        channels_last: bool = False,
    ) -> None:
        super().__init__(module)
        self._name, self._shape, self._width, self._last = name, shape, width, channels_last

    def forward(self, images: Tensor) -> Any:
        images = self._fitting(images)
        answer = self.module((images.movedim(1, -1) if self._last else images).flatten(1))
        if not torch.compiler.is_exporting() and len(answer) != len(images):
            raise ModelError(
                f"{self._name} returns {len(answer):,} answers for {len(images):,} pictures;"
                " expected one for each. Export it with a free number of rows."
            )
        return answer

    def _fitting(self, images: Tensor) -> Tensor:
        """Return the same pictures, gray if the network takes gray ones; others are refused."""
        channels, height, width = images.shape[1:]
        is_gray = self._shape[0] == 1 if self._shape else self._width == height * width
        if is_gray and channels == len(GRAY):
            images = (images * images.new_tensor(GRAY).view(1, -1, 1, 1)).sum(dim=1, keepdim=True)
        given = tuple(images.shape[1:])
        if self._shape is not None and given != self._shape:
            raise ModelError(
                f"{self._name} takes pictures of {_pixels(self._shape)}; got {_pixels(given)}."
                f" {_advice(self._shape, given)}"
            )
        if self._width is not None and prod(given) != self._width:
            raise ModelError(
                f"{self._name} takes {self._width:,} numbers; a picture of {_pixels(given)} has"
                f" {prod(given):,}. Bring the pictures to the size that it was trained on."
            )
        return images


def _pixels(shape: tuple[int, ...]) -> str:
    channels, height, width = shape
    kind = {1: " in gray", 3: ""}.get(channels, f" with {channels} channels")
    return f"{width} × {height} pixels{kind}"


def _advice(wanted: tuple[int, ...], given: tuple[int, ...]) -> str:
    if wanted[0] != given[0]:
        return "Export it for pictures with 3 channels, or with one for gray ones."
    side = f" (--size {wanted[1]})" if wanted[1] == wanted[2] else ""
    return f"Bring the pictures to its size{side}, or export it for theirs."


def is_network(spec: str) -> bool:
    """Return True if a text names the user's code, a file of a network, or a folder of one."""
    return ":" in spec or Path(spec).suffix.lower() in FILES or (Path(spec) / CONFIG).is_file()


def open_network(
    spec: nn.Module | str, *, weights: Path | None = None, size: Size | None = None
) -> Network:
    """Open a network for pictures; `size` (height, width) is theirs, for a file that takes any."""
    if isinstance(spec, nn.Module):
        if weights is not None:
            raise SettingError(
                "A network that is given as a Python object already has weights. Leave the weights"
                " out."
            )
        return Network(spec, type(spec).__name__, "torch module", _labels(spec))
    path = Path(spec)
    if weights is not None and (path.is_dir() or path.suffix.lower() in FILES):
        raise SettingError(
            "Weights belong to own code that builds a network (--model my_code.py:function);"
            f" {path.name} has its own. Leave the weights out."
        )
    if path.is_dir():
        return _open_folder(path)
    if path.suffix.lower() in FILES:
        return _open_file(path, size)
    module = open_own(spec, weights=weights).network
    if module is None:
        raise ModelError(
            f"'{spec}' is not a torch module, so its layers cannot be seen. Return the network"
            " itself."
        )
    return Network(module, spec, "torch module", _labels(module))


# -- files -----------------------------------------------------------------------------------------


def _open_file(path: Path, size: Size | None) -> Network:
    if not path.exists():
        raise StorageError(
            f"There is no model at {path}. Expected a network's file ({', '.join(FILES)}), a folder"
            " that save_pretrained of transformers wrote, or file.py:function."
        )
    opened = open_model(str(path), trial=PictureTrial(size))
    if opened.network is None:
        raise ModelError(
            f"{path.name} cannot be looked into: {opened.why or 'its layers cannot be seen'}. Give"
            " the network itself (file.py:function), or export it with other operators."
        )
    if opened.inputs:
        raise ModelError(
            f"{path.name} takes {len(opened.inputs)} inputs"
            f" ({', '.join(each.name for each in opened.inputs)}); expected one, the pictures."
            " Export it with one."
        )
    shape = _shape(opened.network)
    channels_last = shape is not None and shape[0] not in (1, 3) and shape[-1] in (1, 3)
    if shape is not None and channels_last:
        shape = (shape[-1], *shape[:-1])
    module = FromFile(
        opened.network, path.name, shape=shape, width=opened.width, channels_last=channels_last
    )
    sized = size if opened.is_sized else None
    return Network(module, path.name, opened.kind, opened.classes, sized, opened.width)


def _shape(network: nn.Module) -> tuple[int, ...] | None:
    """Return the shape of one picture that a network read from a file makes of a row of numbers."""
    sizes = getattr(network, "sizes", None)  # a network of Keras
    if sizes is not None and len(sizes[0]) == SHAPED:
        return tuple(sizes[0])
    graphs = [part.graph for part in network.modules() if isinstance(part, fx.GraphModule)]
    for node in graphs[0].nodes if graphs else ():
        if node.op == "call_function" and node.target is not Tensor.to:  # the first but for a cast
            size = node.args[1] if node.target is torch.reshape else ()
            is_picture = isinstance(size, list | tuple) and len(size) == SHAPED + 1
            known = is_picture and all(isinstance(each, int) for each in size[1:])
            return tuple(size[1:]) if known else None
    return None


# -- folders of transformers -----------------------------------------------------------------------


def _open_folder(folder: Path) -> Network:
    """Open an image classifier as `save_pretrained` writes it. Nothing outside the folder is read,
    and nothing in it is run: no code, no pickle.
    """
    if not (folder / CONFIG).is_file():
        raise StorageError(
            f"{folder} has no {CONFIG}. Expected a folder that save_pretrained of transformers"
            " wrote."
        )
    if not any(folder.glob("*.safetensors")):
        raise ModelError(
            f"{folder} has no weights as safetensors; other files may be pickles, which run"
            " whatever program is in them. Save it again: model.save_pretrained(folder,"
            " safe_serialization=True)."
        )
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    transformers = import_library("transformers", str(folder), "fairprobe[text]")
    transformers.utils.logging.disable_progress_bar()
    try:
        module = transformers.AutoModelForImageClassification.from_pretrained(
            str(folder), use_safetensors=True, local_files_only=True, trust_remote_code=False
        )
    except Exception as error:  # the library's errors have no common class
        raise ModelError(
            f"{folder} cannot be opened as an image classifier of transformers:"
            f" {first_line(error)}."
        ) from error
    how = _preparation(folder)
    if how.size is None and how.edge is None and how.crop is None:
        how = replace(how, size=_size(getattr(module.config, "image_size", None)))
    prepared = FromFolder(module.float(), how)  # half precision is for graphics cards
    return Network(prepared, folder.name, TRANSFORMERS, _labels(module))


def _preparation(folder: Path) -> Preparation:
    """Return how pictures are prepared for the classifier. Without a file that says so, pixels stay
    numbers from 0 to 1.
    """
    path = folder / PREPARATION
    if not path.is_file():
        return Preparation()
    try:
        return _read_preparation(path)
    except (OSError, ValueError, TypeError, RecursionError, ZeroDivisionError) as error:
        raise ModelError(
            f"{path} does not say how to prepare pictures: {error}. Write it again, or give the"
            " network as code (file.py:function) that prepares them itself."
        ) from error


def _read_preparation(path: Path) -> Preparation:
    if path.stat().st_size > MOST_JSON:
        raise ValueError("it is too large")
    found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise TypeError("it is no table of settings")
    scale = float(found.get("rescale_factor", 1 / 255)) if found.get("do_rescale", True) else 1.0
    if abs(scale - 1 / 255) > 1e-6:
        raise ValueError(f"it scales pixels by {scale:g}, and only 1/255 is supported")
    if asked := [option for option in UNSUPPORTED if found.get(option)]:
        raise ValueError(f"its {asked[0]} is not supported")
    kind = str(found.get("image_processor_type") or found.get("feature_extractor_type") or "")
    normalizes = found.get("do_normalize", not kind.startswith("MobileViT"))
    mean, deviation = (
        _channels(found.get(name)) if normalizes else None for name in ("image_mean", "image_std")
    )
    if found.get("include_top"):  # EfficientNet's processor then divides once more
        again = _channels(found.get("image_std")) or [1.0]
        deviation = [one * other for one, other in zip(deviation or [1.0] * 3, again, strict=False)]
    resampling = found.get("resample")
    resampling = 2 if resampling is None else resampling
    if resampling not in RESAMPLING:
        raise ValueError(
            f"its resample is {resampling!r}, and only {', '.join(map(str, RESAMPLING))} (nearest,"
            " bilinear, bicubic) are supported"
        )
    size, edge, crop = _sizes(found, kind)
    return Preparation(
        size=size,
        edge=edge,
        resampling=RESAMPLING[resampling],
        crop=crop,
        is_reversed=bool(found.get("do_flip_channel_order")),
        mean=mean,
        deviation=deviation,
    )


def _sizes(
    found: dict[str, Any], kind: str
) -> tuple[tuple[int, int] | None, int | None, tuple[int, int] | None]:
    """Return the size (height, width) or the shortest edge that pictures are brought to, and the
    size of what is cut out of them.
    """
    crop = _size(found.get("crop_size")) if found.get("do_center_crop") else None
    if found.get("do_center_crop") and crop is None:
        raise ValueError("it crops pictures without a crop_size")
    given = found.get("size")
    if not found.get("do_resize", True) or given is None:
        return None, None, crop
    if isinstance(given, int) and kind.startswith(BY_EDGE):
        given = {"shortest_edge": given}
    if not isinstance(given, dict) or {"height", "width"} <= given.keys():
        size, edge = _size(given), None
    elif given.keys() == {"shortest_edge"}:
        size, edge = None, (_size(given) or (0,))[0]
    else:
        raise ValueError(f"its size has {', '.join(map(str, given))}, which is not supported")
    if kind.startswith("ConvNext"):
        if edge is None or crop is not None:
            raise ValueError("its size is no shortest_edge, or it crops pictures twice")
        if edge >= WARPED:
            return (edge, edge), None, None
        crop = (edge, edge)
    share = _share(found, kind)
    if size is not None:
        return (int(size[0] / share), int(size[1] / share)), None, crop
    return None, edge and int(edge / share), crop


def _share(found: dict[str, Any], kind: str) -> float:
    """Return the share of an edge that is left when pictures are cut; before, they are enlarged."""
    usual = 224 / 256 if kind.lower().startswith(("convnext", "levit")) else 1
    share = float(found.get("crop_pct") or usual)
    if not 0.1 <= share <= 1:
        raise ValueError(f"its crop_pct is {share:g}")
    return share


def _channels(values: Any) -> list[float] | None:
    if values is None:
        return None
    found = [float(value) for value in values]
    if len(found) not in (1, 3) or not all(abs(value) < 1e6 for value in found):
        raise ValueError(f"a mean or deviation of {len(found)} channels")
    return found


def _size(value: Any) -> tuple[int, int] | None:
    """Height and width, of a number, a pair or a table; None where it is not said."""
    if isinstance(value, dict):
        side = value.get("shortest_edge")
        value = (value.get("height", side), value.get("width", side))
    if isinstance(value, int):
        value = (value, value)
    if not isinstance(value, list | tuple) or len(value) != 2 or None in value:
        return None
    height, width = int(value[0]), int(value[1])
    if not (1 <= height <= 4096 and 1 <= width <= 4096):
        raise ValueError(f"a size of {width} × {height} pixels")
    return height, width


def _labels(module: nn.Module) -> tuple[str, ...] | None:
    """Return the names of a transformers classifier's outputs, unless they are LABEL_0 …"""
    names = getattr(getattr(module, "config", None), "id2label", None)
    if not isinstance(names, dict) or not names:
        return None
    found = tuple(str(name) for _, name in sorted(names.items()))
    if all(name == f"LABEL_{at}" for at, name in enumerate(found)):
        return None
    return found
