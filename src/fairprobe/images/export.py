"""The networks that an audit has trained, as files for the run folder: a torch.export archive that
`open_network` reads again, or where torch.export does not take the network, its weights alone.
"""

from __future__ import annotations

import warnings
import zipfile
from io import BytesIO

import torch
from safetensors.torch import save
from torch import Tensor, nn

from fairprobe.datasets.pictures import Bytes
from fairprobe.errors import ModelError
from fairprobe.images.change import as_numbers
from fairprobe.images.detector import Detector, OwnDetector
from fairprobe.models import one_thread
from fairprobe.models.formats.export_file import read_export

TRIED = 8  # pictures on which the archive must answer as the network in memory
SAME = 1e-4  # in probability


class _Logits(nn.Module):
    """A user's network without the checks, which depend on the numbers and cannot be exported."""

    def __init__(self, detector: OwnDetector) -> None:
        super().__init__()
        self.detector = detector

    def forward(self, images: Tensor) -> Tensor:
        return self.detector.logits(self.detector.module(images))


def exported(detector: Detector, pictures: Bytes) -> tuple[str, bytes]:
    """Return the ending of the file's name, and its content. `pictures` are some of the audited
    ones.
    """
    images = torch.from_numpy(as_numbers(pictures[:TRIED]))
    images = images.repeat(2, 1, 1, 1) if len(images) == 1 else images  # one would stay one forever
    try:
        return "pt2", _archive(detector, images)
    except Exception:  # noqa: BLE001  (torch.export raises what it likes)
        state = detector.state_dict()
        return "safetensors", save({name: value.contiguous() for name, value in state.items()})


def _archive(detector: Detector, images: Tensor) -> bytes:
    network = _Logits(detector) if isinstance(detector, OwnDetector) else detector
    rows = torch.export.Dim("rows")
    buffer = BytesIO()
    with one_thread(), torch.no_grad():
        program = torch.export.export(
            network.eval(), (images,), dynamic_shapes=({0: rows},), strict=False
        )
        with warnings.catch_warnings():  # about memory layouts; answers are compared below
            warnings.filterwarnings("ignore", "No complete tensor found in the group", UserWarning)
            torch.export.save(program, buffer)
        with zipfile.ZipFile(BytesIO(buffer.getvalue())) as archive:
            again = read_export(archive)
        apart = again(images.flatten(1)).softmax(dim=1) - detector(images).softmax(dim=1)
    if float(apart.abs().max()) > SAME:
        raise ModelError("The exported network gives other answers.")
    return buffer.getvalue()
