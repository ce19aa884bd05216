"""The networks of an audit in one file of the run folder, so that anybody can check its findings.

`networks.zip` holds the detector (the user's file as it is, with its weights inside, or a
torch.export archive, which is read without running code of the file), the attribute heads and the
independent network as safetensors, and a description. A network that torch.export does not take is
saved as its weights alone; whoever checks the findings then names the network again.
"""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from fairprobe.datasets.pictures import Bytes
from fairprobe.documents.images import NetworksDocument
from fairprobe.errors import DAMAGED, FairprobeError, ModelError, StorageError
from fairprobe.images.attribute import independent_network
from fairprobe.images.change import as_numbers
from fairprobe.images.detector import Detector, OwnDetector, dense_head, numbers
from fairprobe.images.networks import FILES, open_network
from fairprobe.images.parts import Calls, Parts, features_at
from fairprobe.models import Outputs, one_thread
from fairprobe.models.formats.export_file import read_export
from fairprobe.models.formats.file_checks import first_line
from fairprobe.models.formats.free_size import Size
from fairprobe.models.formats.onnx_file import whole_content
from fairprobe.storage import check_regular, check_unpacked

NETWORKS = "networks.zip"
DETECTOR, REPAIRED, WEIGHTS = "detector.pt2", "repaired.pt2", "detector.safetensors"
HEADS, INDEPENDENT, ABOUT = "heads.safetensors", "independent.safetensors", "networks.json"
TRIED = 8  # pictures on which a saved network must answer as the one in memory
UNREADABLE: tuple[type[Exception], ...] = (
    *DAMAGED,
    SafetensorError,
    msgspec.MsgspecError,
    FairprobeError,
)
SAME = 1e-4  # in probability, and of features by their size


def packed(
    detector: Detector,
    heads: Mapping[str, nn.Module],
    independent: nn.Module | None,
    repaired: Detector | None,
    pictures: Bytes,
    file: Path | None = None,
) -> bytes:
    """The networks as one archive; `pictures` are some of the audited ones, and `file` is where the
    detector was read from, if it was.
    """
    images = torch.from_numpy(as_numbers(pictures[:TRIED]))
    images = images.repeat(2, 1, 1, 1) if len(images) == 1 else images  # one would stay one forever
    parts: dict[str, bytes] = {}
    name, content, features, why = _saved_detector(detector, images, file)
    parts[name] = content
    if repaired is not None and name == DETECTOR:  # what could be exported once can be again
        with suppress(Exception):
            parts[REPAIRED], _ = _exported(repaired, images)
    parts[HEADS] = save(
        {
            f"{key}/{name}": value.contiguous()
            for key, head in heads.items()
            for name, value in head.get_submodule("head").state_dict().items()
        }
    )
    if independent is not None:
        parts[INDEPENDENT] = _weights(independent)
    outputs = detector.outputs if isinstance(detector, OwnDetector) else "logits"
    about = NetworksDocument(
        detector=name,
        outputs="probabilities" if outputs == "probabilities" else "logits",
        features=features,
        heads=list(heads),
        files=list(parts),
        why=why,
    )
    parts[ABOUT] = msgspec.json.encode(about)
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name), content)  # without a date: the same bytes again
    return buffer.getvalue()


def _saved_detector(
    detector: Detector, images: Tensor, file: Path | None
) -> tuple[str, bytes, int | None, str]:
    """The detector's name in the archive and its content, the call that gets the features, and why
    only weights are there.
    """
    if file is not None and isinstance(detector, OwnDetector) and detector.parts.call is not None:
        name = f"model{file.suffix.lower()}"
        with suppress(Exception):  # one of more than two gigabytes cannot be written as one file
            content = whole_content(file) if file.suffix.lower() == ".onnx" else file.read_bytes()
            size = (images.shape[2], images.shape[3])
            again = _reopened(name, content, detector.outputs, detector.parts.call, size)
            if _answers_alike(again, detector, images):
                return name, content, detector.parts.call, ""
    try:
        content, features = _exported(detector, images)
    except Exception as error:  # noqa: BLE001  (torch.export raises what it likes)
        why = f"torch.export does not take the network: {first_line(error)}"
        return WEIGHTS, _weights(detector), None, why
    return DETECTOR, content, features, ""


def _answers_alike(again: nn.Module, detector: Detector, images: Tensor) -> bool:
    with one_thread(), torch.no_grad():
        apart = again(images).softmax(dim=1) - detector(images).softmax(dim=1)
    return bool(float(apart.abs().max()) <= SAME)


def _reopened(
    name: str, content: bytes, outputs: Outputs, call: int, size: Size | None
) -> OwnDetector:
    """A user's file, opened alone for pictures of this size, if it takes any."""
    if Path(name).suffix not in FILES:
        raise ModelError(f"'{name}' is not a file of a network.")
    with TemporaryDirectory(prefix="fairprobe-") as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        module = open_network(str(path), size=size).module
    return OwnDetector(module, Parts(None, None, call), outputs).eval()


class _Logits(nn.Module):
    """A user's network without the checks, which depend on the numbers and cannot be exported."""

    def __init__(self, detector: OwnDetector) -> None:
        super().__init__()
        self.detector = detector

    def forward(self, images: Tensor) -> Tensor:
        return self.detector.logits(self.detector.module(images))


def _exported(detector: Detector, images: Tensor) -> tuple[bytes, int | None]:
    """The network as an archive, and the number of the call in it that gets the features."""
    whole = _Logits(detector) if isinstance(detector, OwnDetector) else detector
    rows = torch.export.Dim("rows")
    with one_thread(), torch.no_grad():
        program = torch.export.export(
            whole.eval(), (images,), dynamic_shapes=({0: rows},), strict=False
        )
        buffer = BytesIO()
        with warnings.catch_warnings():  # about memory layouts; answers are compared below
            warnings.filterwarnings("ignore", "No complete tensor found in the group", UserWarning)
            torch.export.save(program, buffer)
        again = SavedDetector(_read(buffer.getvalue()))
        if not _answers_alike(again, detector, images):
            raise ModelError("what it wrote answers otherwise")
        return buffer.getvalue(), _features_call(again, detector, images)


def _features_call(again: nn.Module, detector: Detector, images: Tensor) -> int | None:
    """The call that gets what the attribute heads learned from; None if there is none."""
    wanted = detector.features(images).flatten(1)
    size = float(wanted.abs().max())
    found: list[int] = []

    def look(number: int, _: Any, given: Tensor) -> None:
        flat = given.flatten(1)
        if flat.shape == wanted.shape and float((flat - wanted).abs().max()) <= SAME * size:
            found.append(number)

    with Calls(look):
        again(images)
    return found[0] if found else None


def _weights(network: nn.Module) -> bytes:
    return save({name: value.contiguous() for name, value in network.state_dict().items()})


# -- reading ---------------------------------------------------------------------------------------


class SavedDetector(nn.Module):
    """A detector that was read from an archive."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        answer: Tensor = self.network(numbers(images).flatten(1))
        return answer


class SavedHead(nn.Module):
    """An attribute head on a network's features."""

    def __init__(self, network: nn.Module, head: nn.Module, call: int | None) -> None:
        super().__init__()
        self.network, self.head, self._call = network, head, call

    def forward(self, images: Tensor) -> Tensor:
        if self._call is None:
            assert isinstance(self.network, Detector)
            features = self.network.features(images)
        else:
            found = features_at(self._call, self.network, images)
            if found is None:
                raise ModelError("The saved network has fewer layers than its description says.")
            features = found
        answer: Tensor = self.head(features.flatten(1))
        return answer


@dataclass(frozen=True)
class Unpacked:
    """The networks of a run. `detector` and `heads` are empty where the network must be named."""

    about: NetworksDocument
    detector: nn.Module | None
    heads: dict[str, nn.Module]
    independent: nn.Module | None

    def on(self, detector: Detector) -> Unpacked:
        """The same heads on a network that the user named."""
        heads: dict[str, nn.Module] = {
            key: SavedHead(detector, head.get_submodule("head"), None).eval()
            for key, head in self.heads.items()
        }
        return Unpacked(self.about, detector, heads, self.independent)


def unpack(path: Path, size: Size | None = None) -> Unpacked:
    """Read an archive that `packed` wrote; nothing in it is run. `size` (height, width) is that of
    the audited pictures, for a file that takes any.
    """
    check_regular(path)
    try:
        with zipfile.ZipFile(path) as archive:
            check_unpacked(path, sum(entry.file_size for entry in archive.infolist()))
            about = msgspec.json.decode(archive.read(ABOUT), type=NetworksDocument)
            parts = {name: archive.read(name) for name in about.files}
        detector = _detector(about, parts, size)
        heads = _heads(load(parts[HEADS]), detector, about)
        independent = _independent(load(parts[INDEPENDENT])) if INDEPENDENT in parts else None
    except UNREADABLE as error:
        raise StorageError(
            f"{path} cannot be read: {first_line(error) or type(error).__name__}. Run the audit"
            " again."
        ) from error
    return Unpacked(about, detector, heads, independent)


def _detector(
    about: NetworksDocument, parts: Mapping[str, bytes], size: Size | None
) -> nn.Module | None:
    if about.detector == WEIGHTS:
        return None
    content = parts[about.detector]
    if about.detector == DETECTOR:
        return SavedDetector(_read(content)).eval()
    return _reopened(about.detector, content, about.outputs, about.features or 0, size)


def _read(content: bytes) -> nn.Module:
    with zipfile.ZipFile(BytesIO(content)) as archive:
        return read_export(archive)


def _heads(
    values: Mapping[str, Tensor], detector: nn.Module | None, about: NetworksDocument
) -> dict[str, nn.Module]:
    heads: dict[str, nn.Module] = {}
    for key in about.heads:
        own = {
            name.removeprefix(f"{key}/"): value
            for name, value in values.items()
            if name.startswith(f"{key}/")
        }
        head = dense_head(own["dense1.weight"].shape[1], own["output.weight"].shape[0])
        head.load_state_dict(own)
        if detector is None or about.features is not None:
            heads[key] = SavedHead(detector or nn.Identity(), head, about.features).eval()
    return heads


def _independent(values: Mapping[str, Tensor]) -> nn.Module:
    channels = values["layers.conv1.weight"].shape[1]
    network = independent_network(channels, values["layers.output.weight"].shape[0])
    network.load_state_dict(dict(values))
    return network.eval()
