"""torch.export files: the network inside, and files that are refused with nothing of theirs run."""

from __future__ import annotations

import json
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from fairprobe.arrays import Rows
from fairprobe.errors import FairprobeError
from fairprobe.models import TorchModel
from fairprobe.models.formats.export_file import open_export
from tests.model_files import Evil, dense, write_export


def rows(count: int = 40, width: int = 12) -> Rows:
    return np.random.default_rng(1).normal(scale=2, size=(count, width)).astype(np.float32)


def answers(network: nn.Module, x: Rows) -> Rows:
    with torch.no_grad():
        values: Rows = network(torch.from_numpy(x)).numpy()
    return values


# -- the same network ------------------------------------------------------------------------------


class Squeezed(nn.Module):
    """Dropout, in-place activations, one score for each row."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = dense(12, 8, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.dropout(torch.relu_(self.inner[0](x)), 0.5, self.training)
        x = F.relu(self.inner[2](x.flatten(1)), inplace=True)
        return torch.sigmoid(self.inner[4](x)).squeeze(-1)


def test_what_does_nothing_is_left_out_of_a_chain(tmp_path: Path) -> None:
    network = Squeezed().eval()
    opened = open_export(write_export(network, tmp_path / "net.pt2", example=torch.zeros(3, 12)))
    kinds = [nn.Linear, nn.ReLU, nn.Linear, nn.ReLU, nn.Linear, nn.Sigmoid]
    assert opened.network is not None, opened.why
    assert [type(piece) for piece in opened.network] == kinds  # type: ignore[attr-defined]
    np.testing.assert_array_equal(answers(opened.network, rows())[:, 0], answers(network, rows()))


def write_decomposed(network: nn.Module, path: Path) -> Path:
    """An export in torch's most basic operators."""
    program = torch.export.export(
        network, (torch.zeros(3, 12),), dynamic_shapes=({0: torch.export.Dim("n")},)
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r".*LeafSpec", category=FutureWarning)
        torch.export.save(program.run_decompositions(), path)
    return path


def test_an_exported_program_in_basic_operators_is_the_same_chain(tmp_path: Path) -> None:
    network = dense(12, 8, 4, 2)
    opened = open_export(write_decomposed(network, tmp_path / "net.pt2"))
    assert isinstance(opened.network, nn.Sequential)
    np.testing.assert_array_equal(answers(opened.network, rows()), answers(network, rows()))


# -- other networks --------------------------------------------------------------------------------


class Wide(nn.Module):
    """Convolution, batch norm, pooling, a residual sum, parts and their concatenation: what a chain
    is not.
    """

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.convolution, self.norm = nn.Conv1d(1, 4, 3, padding=1), nn.BatchNorm1d(4)
        self.first, self.second, self.last = nn.Linear(24, 6), nn.Linear(6, 6), nn.Linear(6, 3)
        self.shift: Tensor
        self.register_buffer("shift", torch.arange(12.0))

    def forward(self, x: Tensor) -> Tensor:
        x = (x - self.shift) / 2.0
        x = torch.relu_(self.norm(self.convolution(x.unsqueeze(1))))
        left, right = F.max_pool1d(x, 2).chunk(2, dim=1)
        x = torch.cat([right, left], dim=1).view(x.size(0), -1)
        x = F.leaky_relu(self.first(x), 0.2)
        return torch.softmax(self.last(x + F.gelu(self.second(x))), dim=-1)


@pytest.mark.parametrize("how", ["exported", "decomposed", "for three rows", "for one row"])
def test_a_network_that_is_no_chain_is_a_white_box_too(tmp_path: Path, how: str) -> None:
    network, path, example = Wide().eval(), tmp_path / "net.pt", torch.zeros(3, 12)
    if how == "decomposed":
        write_decomposed(network, path)
    else:
        write_export(
            network,
            path,
            example=example[:1] if how == "for one row" else example,
            fixed=how != "exported",
        )
    opened = open_export(path)
    assert opened.network is not None, opened.why
    assert opened.width == 12
    x = rows()
    np.testing.assert_allclose(
        answers(opened.network, x), answers(network, x), rtol=1e-4, atol=1e-6
    )
    np.testing.assert_allclose(opened.predict(x), answers(network, x), rtol=1e-4, atol=1e-6)
    ours, theirs = TorchModel(opened.network, outputs=opened.outputs), TorchModel(network)
    assert list(ours.layers(x).values()) == list(theirs.layers(x).values()) == [48, 6, 6]
    assert ours.outputs(x) == "probabilities"
    for ours_name, theirs_name in zip(
        [*ours.layers(x), None], [*theirs.layers(x), None], strict=True
    ):
        gradients = [
            model.gradient(lambda p: p, x, layer=name)
            for model, name in ((ours, ours_name), (theirs, theirs_name))
        ]
        np.testing.assert_allclose(gradients[0], gradients[1], rtol=1e-3, atol=1e-4)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    name: getattr(F, name)
    for name in (
        *("celu", "elu", "gelu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "mish"),
        *("leaky_relu", "logsigmoid", "relu6", "rrelu", "selu", "silu", "softplus", "softshrink"),
    )
} | {
    "elu in place": lambda x: F.elu_(x, 0.5),
    "leaky_relu in place": lambda x: F.leaky_relu_(x, 0.2),
    "threshold": lambda x: F.threshold(x, 0.1, 0.0),
    "prelu": nn.PReLU(6, init=0.3),
    "gelu with tanh": lambda x: F.gelu(x, approximate="tanh"),
}


class With(nn.Module):
    """A dense network around one function."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function, self.inner = function, dense(12, 6, 2)

    def forward(self, x: Tensor) -> Tensor:
        answer: Tensor = self.inner[2](self.function(self.inner[0](x)))
        return answer


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_activation_is_watched_as_a_layer(tmp_path: Path, name: str) -> None:
    network = With(ACTIVATIONS[name]).eval()
    opened = open_export(write_export(network, tmp_path / "net.pt2", example=torch.zeros(3, 12)))
    assert opened.network is not None, opened.why
    np.testing.assert_allclose(
        answers(opened.network, rows()), answers(network, rows()), rtol=1e-5, atol=1e-6
    )
    assert list(TorchModel(opened.network).layers(rows()).values()) == [6]


def test_double_precision_is_kept(tmp_path: Path) -> None:
    network = dense(12, 6, 2).double()
    opened = open_export(
        write_export(network, tmp_path / "net.pt2", example=torch.zeros(2, 12).double())
    )
    assert opened.network is not None, opened.why
    assert next(opened.network.parameters()).dtype == torch.float64
    np.testing.assert_allclose(
        opened.predict(rows()), network(torch.from_numpy(rows()).double()).detach(), rtol=1e-6
    )


# -- files that are no good ------------------------------------------------------------------------


def saved(what: Callable[[Path], Any]) -> Callable[[Path], None]:
    return lambda path: torch.save(what(path.parent / "marker"), path)


def cut(write: Callable[..., Path], left: float) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        write(dense(13, 64, 2), path)
        path.write_bytes(path.read_bytes()[: int(path.stat().st_size * left)])

    return make


def changed(
    write: Callable[[Path], Any], part: str, change: Callable[[bytes, Path], bytes]
) -> Callable[[Path], None]:
    """A whole archive with one entry written anew."""

    def make(path: Path) -> None:
        write(path)
        with zipfile.ZipFile(path) as file:
            entries = {name: file.read(name) for name in file.namelist()}
        assert any(name.endswith(part) for name in entries)
        with zipfile.ZipFile(path, "w") as file:
            for name, content in entries.items():
                file.writestr(
                    name,
                    change(content, path.parent / "marker") if name.endswith(part) else content,
                )

    return make


def in_json(change: Callable[[Any], None]) -> Callable[[bytes, Path], bytes]:
    def apply(content: bytes, marker: Path) -> bytes:
        document = json.loads(content)
        change(document)
        return json.dumps(document).replace("MARKER", str(marker)).encode()

    return apply


def exported(path: Path) -> Path:
    return write_export(dense(12, 6, 2), path)


def set_target(document: Any) -> None:
    """A graph that would call the operating system."""
    first = document["graph_module"]["graph"]["nodes"][0]
    first["target"] = "torch.os.mkdir"
    first["inputs"] = [{"name": "path", "arg": {"as_string": "MARKER"}, "kind": 1}]


def set_from_file(document: Any) -> None:
    first = document["graph_module"]["graph"]["nodes"][0]
    first["target"] = "torch.ops.aten.from_file.default"
    values = {
        "filename": {"as_string": "MARKER"},
        "shared": {"as_bool": True},
        "size": {"as_int": 9},
    }
    first["inputs"] = [{"name": name, "arg": value, "kind": 1} for name, value in values.items()]


def set_pickle(document: Any) -> None:
    next(iter(document["config"].values()))["use_pickle"] = True


class Answers(nn.Module):
    """What a classifier does not answer."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.inner, self.what = nn.Linear(12, 2), what

    def forward(self, x: Tensor) -> Any:
        y = self.inner(x)
        return {
            "labels": y.argmax(dim=1),
            "two": (y, y),
            "images": y.unsqueeze(1),
            "one": y.sum(),
            "constant": torch.ones(3, 2),
            "mixed": y - y.mean(dim=0, keepdim=True),
        }[self.what]


def export_of(what: str) -> Callable[[Path], Any]:
    return lambda path: write_export(Answers(what), path, example=torch.rand(3, 12))


def fixed(path: Path) -> Path:
    return write_export(Answers("mixed"), path, example=torch.rand(3, 12), fixed=True)


def zipped(**entries: bytes) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as file:
            for name, content in entries.items():
                file.writestr(name.replace("__", "/").replace("_DOT_", "."), content)

    return make


MALFORMED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a zip of something else": (zipped(readme=b"hello"), "not a torch.export file"),
    "a saved module": (saved(lambda marker: dense(3, 2)), "is a pickle"),
    "saved weights": (saved(lambda marker: dense(3, 2).state_dict()), "is a pickle"),
    "a saved program": (saved(Evil), "is a pickle"),
    "TorchScript": (
        zipped(net__constants_DOT_pkl=b"", net__code__a_DOT_py=b"", net__data_DOT_pkl=b""),
        r"is a TorchScript file.*deprecated.*\.pt2.* ONNX",
    ),
    "half an export": (cut(write_export, 0.5), "not a complete"),
    "an export whose weights are a pickle": (
        changed(exported, "weights_config.json", in_json(set_pickle)),
        "stored as a pickle",
    ),
    "an export that calls the system": (
        changed(exported, "model.json", in_json(set_target)),
        "torch.os.mkdir",
    ),
    "an export that reads a file": (
        changed(exported, "model.json", in_json(set_from_file)),
        "aten::from_file",
    ),
    "an export of another version": (
        changed(
            exported,
            "model.json",
            in_json(lambda document: document["schema_version"].update(major=7)),
        ),
        "version 7",
    ),
    "an export without its graph": (
        changed(exported, "model.json", lambda content, _: b"{}"),
        "not a complete torch.export file",
    ),
    "an export with half its graph": (
        changed(exported, "model.json", lambda content, _: content[:-9]),
        "not a complete",
    ),
    "an export with short weights": (
        changed(exported, "weight_0", lambda content, _: content[:-8]),
        "not a complete torch.export",
    ),
    "an export of old": (
        zipped(serialized_exported_program__json=b"", version=b"8.1"),
        "not a torch.export file",
    ),
    "an export that returns labels": (export_of("labels"), "returns labels"),
    "an export that answers two things": (export_of("two"), "returns 2 values"),
    "an export that answers one number": (export_of("one"), r"shape \(\)"),
    "an export that answers always the same": (
        export_of("constant"),
        "does not depend on its input",
    ),
    "an export that answers three axes": (export_of("images"), r"shape \(64, 1, 2\)"),
    "an export for three rows": (fixed, "exported for exactly 3 rows"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_file_that_is_no_good_is_explained_in_a_sentence(
    tmp_path: Path, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    make, message = MALFORMED[name]
    make(tmp_path / "model.pt")
    (tmp_path / "marker").unlink(missing_ok=True)
    capfd.readouterr()
    with pytest.raises(FairprobeError, match=message) as caught:
        open_export(tmp_path / "model.pt")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600
    assert capfd.readouterr() == ("", "")
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_damage_at_any_byte_is_reported_in_a_sentence(tmp_path: Path, method: int) -> None:
    path = write_export(dense(3, 4, 2), tmp_path / "net.pt2")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(tmp_path / "a.pt2", "w", method) as new:
        for entry in old.infolist():
            new.writestr(entry.filename, old.read(entry.filename))
    content = (tmp_path / "a.pt2").read_bytes()
    for place in np.random.default_rng(0).integers(0, len(content), 40):
        path.write_bytes(content[:place] + b"\xff\xff\xff\xff" + content[place + 4 :])
        try:
            open_export(path)
        except FairprobeError as error:
            assert "\n" not in str(error)  # noqa: PT017


@pytest.mark.slow
def test_an_archive_that_unpacks_to_much_more_than_it_is_is_refused(tmp_path: Path) -> None:
    path = write_export(dense(3, 4, 2), tmp_path / "net.pt2")
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as file,
        file.open("net/extra/zeros", "w", force_zip64=True) as zeros,
    ):
        for _ in range(18):
            zeros.write(b"\0" * 2**26)
    with pytest.raises(FairprobeError, match="would unpack to"):
        open_export(path)
