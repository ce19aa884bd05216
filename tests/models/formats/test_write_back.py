"""New weights in the file that a network came from: every format gives back exactly the weights
that went in, all else stays as it is, and what has no place in a file is refused.
"""

from __future__ import annotations

import copy
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fairprobe.errors import ModelError, StorageError
from fairprobe.models.formats.base import Opened, random_rows
from fairprobe.models.load import open_model
from tests.model_files import (
    WRITERS,
    dense,
    keras_on_torch,
    save_keras,
    write_export,
    write_graph,
    write_onnx,
)

ROWS = random_rows(5)[:64]


def with_other_weights(network: nn.Module, seed: int = 1) -> nn.Module:
    """A copy in which every weight that may be trained is another."""
    other = copy.deepcopy(network)
    torch.manual_seed(seed)
    with torch.no_grad():
        for weight in other.parameters():
            weight.add_(torch.randn_like(weight))
    return other


def written(path: Path, target: Path) -> tuple[nn.Module, Opened]:
    """The network of a file with other weights, and what was written, opened again."""
    opened = open_model(path)
    assert opened.network is not None
    assert opened.write_back is not None
    other = with_other_weights(opened.network)
    before = path.read_bytes()
    opened.write_back(other, target)
    assert path.read_bytes() == before
    return other, open_model(target)


def assert_same(network: nn.Module, again: Opened) -> None:
    """The same weights to the last bit, and the file's own program answers alike."""
    assert again.network is not None
    ours, theirs = network.state_dict(), again.network.state_dict()
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        assert torch.equal(value, theirs[name]), name
    with torch.no_grad():
        answer = network(torch.from_numpy(ROWS)).numpy()
    np.testing.assert_allclose(again.predict(ROWS).reshape(answer.shape), answer, atol=1e-4)


@pytest.mark.parametrize("final", [None, nn.Softmax(dim=1)])
@pytest.mark.parametrize("ending", WRITERS)
def test_every_format_gives_back_the_weights_that_went_in(
    tmp_path: Path, ending: str, final: nn.Module | None
) -> None:
    path = WRITERS[ending](dense(5, 7, 4, 2, final=final), tmp_path / f"a{ending}")
    assert_same(*written(path, tmp_path / f"b{ending}"))


def test_equal_arrays_of_a_file_are_not_confused(tmp_path: Path) -> None:
    network = dense(5, 5, 5, 2)
    with torch.no_grad():
        for piece in network:
            if isinstance(piece, nn.Linear):
                piece.weight.fill_(0.5)
                piece.bias.zero_()
    path = write_onnx(network, tmp_path / "a.onnx")
    assert_same(*written(path, tmp_path / "b.onnx"))


def test_an_onnx_file_keeps_all_but_its_weights(tmp_path: Path) -> None:
    import onnx

    path = write_onnx(dense(5, 7, 2), tmp_path / "a.onnx")
    model = onnx.load(path)
    model.producer_name, model.doc_string = "somebody", "a note"
    entry = model.metadata_props.add()
    entry.key, entry.value = "owner", "credit team"
    onnx.save(model, path)
    assert_same(*written(path, tmp_path / "b.onnx"))
    old, new = onnx.load(path), onnx.load(tmp_path / "b.onnx")
    onnx.checker.check_model(new, full_check=True)
    for model in (old, new):
        for tensor in model.graph.initializer:
            tensor.ClearField("raw_data")
    assert old == new


def test_weights_of_an_onnx_file_in_a_file_of_their_own_are_put_into_the_copy(
    tmp_path: Path,
) -> None:
    import onnx

    path = write_onnx(dense(5, 7, 2), tmp_path / "a.onnx")
    onnx.save(
        onnx.load(path), path, save_as_external_data=True, location="a.data", size_threshold=0
    )
    (tmp_path / "elsewhere").mkdir()
    assert_same(*written(path, tmp_path / "elsewhere" / "b.onnx"))


def test_constants_between_the_operators_of_a_graph_are_weights_too(tmp_path: Path) -> None:
    from onnx import helper, numpy_helper

    rng = np.random.default_rng(0)
    first, second = (rng.normal(size=size).astype(np.float32) for size in ((5, 4), (4, 2)))
    nodes = [
        helper.make_node("Constant", [], ["w1"], value=numpy_helper.from_array(first)),
        helper.make_node("MatMul", ["x", "w1"], ["a"]),
        helper.make_node("Add", ["a", "b1"], ["s"]),
        helper.make_node("Tanh", ["s"], ["t"]),
        helper.make_node("MatMul", ["t", "w2"], ["y"]),
    ]
    path = write_graph(
        nodes,
        tmp_path / "a.onnx",
        {"b1": np.zeros((1, 4), np.float32), "w2": second},
        inputs={"x": ["n", 5]},
        outputs={"y": ["n", 2]},
    )
    assert_same(*written(path, tmp_path / "b.onnx"))


def test_a_graph_that_is_no_chain_is_written_back(tmp_path: Path) -> None:
    path = write_export(Wide().eval(), tmp_path / "a.pt2", example=torch.zeros(3, 5))
    other, again = written(path, tmp_path / "b.pt2")
    assert not isinstance(other, nn.Sequential)
    assert_same(other, again)


def test_a_weight_that_is_used_twice_is_refused_if_it_became_two(tmp_path: Path) -> None:
    layer = nn.Linear(5, 5)
    network = nn.Sequential(layer, nn.ReLU(), layer, nn.ReLU(), nn.Linear(5, 2)).eval()
    path = write_export(network, tmp_path / "a.pt2")
    with pytest.raises(ModelError, match=r"written into a\.pt2: its weights .* several places"):
        written(path, tmp_path / "b.pt2")
    assert not (tmp_path / "b.pt2").exists()


def test_weights_that_are_computed_from_a_files_numbers_are_refused(tmp_path: Path) -> None:
    from onnx import helper

    rng = np.random.default_rng(0)
    constants = {
        "w": rng.normal(size=(5, 2)).astype(np.float32),
        "s": np.array([[1.0, 3.0]], np.float32),
    }
    nodes = [
        helper.make_node("Mul", ["w", "s"], ["ws"]),
        helper.make_node("MatMul", ["x", "ws"], ["y"]),
    ]
    path = write_graph(
        nodes, tmp_path / "a.onnx", constants, inputs={"x": ["n", 5]}, outputs={"y": ["n", 2]}
    )
    with pytest.raises(ModelError, match="computed from"):
        written(path, tmp_path / "b.onnx")
    assert not (tmp_path / "b.onnx").exists()


def test_a_network_of_another_shape_is_refused(tmp_path: Path) -> None:
    path = write_onnx(dense(5, 7, 2), tmp_path / "a.onnx")
    write_back = open_model(path).write_back
    assert write_back is not None
    with pytest.raises(ModelError, match="changed the shape"):
        write_back(dense(5, 3, 3, 2), tmp_path / "b.onnx")


def test_a_keras_file_keeps_its_configuration_and_its_optimizer(tmp_path: Path) -> None:
    keras = keras_on_torch()
    inputs = keras.Input((5,))
    wide = keras.layers.Dense(4, activation="relu")(inputs)
    normal = keras.layers.BatchNormalization()(wide)
    joined = keras.layers.Concatenate()([normal, inputs])
    model = keras.Model(inputs, keras.layers.Dense(2, activation="softmax")(joined))
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    rng = np.random.default_rng(0)
    model.fit(rng.normal(size=(32, 5)), rng.integers(2, size=32), verbose=0)
    path = tmp_path / "a.keras"
    save_keras(model, path)
    other, again = written(path, tmp_path / "b.keras")
    assert_same(other, again)
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(tmp_path / "b.keras") as new:
        assert old.namelist() == new.namelist()
        for name in ("config.json", "metadata.json"):
            assert old.read(name) == new.read(name)
    reloaded = keras.saving.load_model(tmp_path / "b.keras")
    assert int(reloaded.optimizer.iterations) == 1


def test_torch_archives_keep_all_but_their_weights(tmp_path: Path) -> None:
    path = write_export(dense(5, 7, 2), tmp_path / "a.pt2")
    written(path, tmp_path / "b.pt2")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(tmp_path / "b.pt2") as new:
        assert old.namelist() == new.namelist()
        changed = [name for name in old.namelist() if old.read(name) != new.read(name)]
        sizes = [old.getinfo(name).file_size for name in changed]
        assert sorted(sizes) == [4 * 2, 4 * 7, 4 * 14, 4 * 35]
    exported = torch.export.load(tmp_path / "b.pt2").module()
    again = open_model(tmp_path / "b.pt2")
    with torch.no_grad():
        answer = exported(torch.from_numpy(ROWS)).numpy()
    np.testing.assert_allclose(answer, again.predict(ROWS), atol=1e-5)


@pytest.mark.parametrize("ending", WRITERS)
def test_on_a_full_disk_nothing_is_written(
    small_disk: Path,
    tmp_path: Path,
    ending: str,
) -> None:
    path = WRITERS[ending](dense(5, 64, 64, 2), tmp_path / f"a{ending}")
    (small_disk / "filler").write_bytes(bytes(28_000))
    with pytest.raises(StorageError, match="No space left on device"):
        written(path, small_disk / f"b{ending}")
    assert [file.name for file in small_disk.iterdir()] == ["filler"]


class Wide(nn.Module):
    """A network with a shortcut, so that it is no chain."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(5, 4), nn.Linear(9, 2)

    def forward(self, x: torch.Tensor) -> Any:
        return self.second(torch.cat([torch.relu(self.first(x)), x], dim=1))
