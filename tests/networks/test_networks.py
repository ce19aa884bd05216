"""The papers' networks: their shapes, their training, their files."""

from __future__ import annotations

import copy
import json
import pickle
import stat
import zipfile
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from fairprobe import storage
from fairprobe.arrays import Ints, Rows
from fairprobe.datasets import Dataset
from fairprobe.errors import DataError, FairprobeError, ModelError, SettingError, StorageError
from fairprobe.models import Encoder, Merge, TorchModel
from fairprobe.networks import (
    HFCN,
    LFCN,
    DenseNetwork,
    Training,
    dense,
    hfcn,
    lfcn,
    load,
    save,
    train,
    training,
)
from fairprobe.schema.domain import Attribute, Coupling, Domain
from tests.helpers import everybody, merit, tiny_domain

QUICK = Training(learning_rate=0.02, batch=64, epochs=30)


def one_hot_domain() -> Domain:
    return Domain(
        (
            Attribute(name="age", low=1, high=9),
            Attribute(
                name="colour", kind="categorical", categories=("red", "green", "blue"), one_hot=True
            ),
            Attribute(name="share", kind="real", low=-0.5, high=1.5),
            Attribute(name="sex", high=1),
        ),
        ("sex",),
    )


def planted_data(n: int = 2000, *, domain: Domain | None = None) -> Dataset:
    """Class 1 exactly when the merit is above its middle."""
    domain = domain or tiny_domain()
    x = domain.sample(n, rng=np.random.default_rng(0))
    y = (merit(domain, x) > merit(domain, domain.high[None])[0] / 2).astype(np.int64)
    return Dataset("planted", domain, x, y, ("no", "yes"))


def weights(network: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in network.state_dict().items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


# -- shapes ----------------------------------------------------------------------------------------


def test_the_two_networks_of_the_paper_have_its_layers() -> None:
    assert LFCN == (64, 32, 16, 8, 4)
    assert HFCN == (256, 256, 64, 64, 32, 32, 16, 8)
    domain = tiny_domain()
    x = domain.sample(3, rng=np.random.default_rng(0))
    light = TorchModel(lfcn(domain)).layers(x)
    assert light == {f"hidden{number}": width for number, width in enumerate(LFCN, start=1)}
    heavy = TorchModel(hfcn(domain, classes=3))
    assert list(heavy.layers(x).values()) == list(HFCN)
    assert heavy.probabilities(x).shape == (3, 3)


def test_a_one_hot_attribute_widens_the_network_and_inputs_are_scaled_by_the_bounds() -> None:
    domain = one_hot_domain()
    network = dense(domain, (5,))
    assert (network.inputs, network.hidden, network.classes) == (6, (5,), 2)
    scaled = network[0](
        torch.tensor(
            [
                [1.0, 1.0, 0.0, 0.0, -0.5, 0.0],
                [9.0, 0.0, 1.0, 0.0, 1.5, 1.0],
                [5.0, 0.0, 0.0, 1.0, 0.5, 0.5],
            ]
        )
    )
    assert scaled.tolist() == [[-1, 1, -1, -1, -1, -1], [1, -1, 1, -1, 1, 1], [0, -1, -1, 1, 0, 0]]


@pytest.mark.parametrize(("hidden", "classes"), [((), 2), ((4, 0), 2), ((4,), 1), ((4, -1), 2)])
def test_a_network_without_neurons_or_classes_is_refused(
    hidden: tuple[int, ...], classes: int
) -> None:
    with pytest.raises(
        SettingError, match="at least two classes and one neuron in each hidden layer"
    ):
        dense(tiny_domain(), hidden, classes=classes)


def test_the_seed_alone_decides_the_weights_and_no_other_random_number_is_touched() -> None:
    domain = tiny_domain()
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    one = weights(lfcn(domain, seed=5))
    assert torch.equal(torch.rand(3), expected)
    torch.manual_seed(2)
    assert same(weights(lfcn(domain, seed=5)), one)
    assert not same(weights(lfcn(domain, seed=6)), one)


# -- training --------------------------------------------------------------------------------------


def test_training_learns_a_planted_rule_that_holds_for_people_it_has_not_seen() -> None:
    data = planted_data()
    model = train(dense(data.domain, (16,)), data, training=QUICK)
    test = data.split(0).test
    assert (model.labels(data.x[test]) == data.y[test]).mean() > 0.95


def test_training_with_one_hot_and_real_attributes_learns_a_planted_rule() -> None:
    domain = one_hot_domain()
    x = domain.sample(2000, rng=np.random.default_rng(0))
    y = ((x[:, 1] == 2) | (x[:, 2] > 1)).astype(np.int64)
    data = Dataset("colours", domain, x, y, ("no", "yes"))
    model = train(dense(domain, (16,)), data, training=QUICK)
    assert isinstance(model.encoder, Encoder)
    test = data.split(0).test
    assert (model.labels(x[test]) == y[test]).mean() > 0.95


def test_training_twice_gives_the_same_network_whatever_else_is_drawn() -> None:
    data = planted_data(400)

    def trained(seed: int) -> dict[str, Tensor]:
        torch.rand(7)
        network = nn.Sequential(dense(data.domain, (8,)), nn.Dropout(0.1))
        return weights(train(network, data, seed=seed, training=Training(epochs=3)).module)

    one = trained(0)
    torch.manual_seed(99)
    np.random.default_rng().random()
    assert same(trained(0), one)
    assert not same(trained(1), one)


def test_training_touches_no_other_random_number_and_restores_the_threads() -> None:
    data = planted_data(200)
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    threads = torch.get_num_threads()
    train(dense(data.domain, (4,)), data, training=Training(epochs=2))
    assert torch.equal(torch.rand(3), expected)
    assert torch.get_num_threads() == threads


def test_training_stops_early_and_keeps_the_best_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    data = planted_data(300)
    losses = iter(
        [0.9, 0.5, 0.7, 0.6, 0.5, 0.1]
    )  # the second is best; three epochs without a better one follow
    seen: list[dict[str, Tensor]] = []

    def scripted(teacher: Any, *_: object) -> float:
        seen.append(copy.deepcopy(dict(teacher.network.state_dict())))
        return next(losses)

    monkeypatch.setattr(training, "_validation_loss", scripted)
    epochs: list[tuple[int, int]] = []
    how = Training(epochs=20, patience=3)
    model = train(
        dense(data.domain, (4,)),
        data,
        training=how,
        progress=lambda done, total: epochs.append((done, total)),
    )
    assert epochs == [(1, 20), (2, 20), (3, 20), (4, 20), (5, 20)]
    assert same(weights(model.module), seen[1])
    assert not same(weights(model.module), seen[-1])
    assert not model.module.training


def test_training_ends_after_the_epochs_allowed() -> None:
    data = planted_data(300)
    epochs: list[int] = []
    train(
        dense(data.domain, (4,)),
        data,
        training=Training(epochs=4),
        progress=lambda done, _: epochs.append(done),
    )
    assert epochs == [1, 2, 3, 4]


def test_only_the_training_part_is_learnt_from() -> None:
    data = planted_data(600)
    split = data.split(0)
    poisoned = data.x.copy()
    poisoned[split.test] = data.domain.low
    one = train(dense(data.domain, (8,)), data, training=Training(epochs=3))
    other = train(
        dense(data.domain, (8,)),
        Dataset("other", data.domain, poisoned, data.y, data.classes),
        training=Training(epochs=3),
    )
    assert same(weights(one.module), weights(other.module))
    assert (
        len(np.intersect1d(split.train, split.test))
        == len(np.intersect1d(split.train, split.validation))
        == 0
    )


def test_a_training_that_diverges_is_told() -> None:
    data = planted_data(300)
    with pytest.raises(ModelError, match=r"training diverged.* Lower the learning rate"):
        train(dense(data.domain, (8, 8, 8)), data, training=Training(learning_rate=1e30, epochs=5))


@pytest.mark.parametrize(
    "wrong", [{"epochs": 0}, {"batch": -1}, {"learning_rate": 0.0}, {"patience": 0}]
)
def test_numbers_of_the_training_must_be_positive(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match="must be positive"):
        Training(**wrong)


def test_too_few_rows_to_divide_are_refused() -> None:
    domain = tiny_domain()
    x = domain.sample(2, rng=np.random.default_rng(0))
    data = Dataset("few", domain, x, np.array([0, 1]), ("no", "yes"))
    with pytest.raises(DataError, match="'few' has 2 rows, too few"):
        train(dense(domain, (4,)), data)


@pytest.mark.parametrize(
    ("rows", "parts"), [(10, (7, 1, 2)), (100, (70, 10, 20)), (1000, (700, 100, 200))]
)
def test_the_rows_are_divided_into_seventy_ten_and_twenty_in_a_hundred(
    rows: int, parts: tuple[int, int, int]
) -> None:
    split = planted_data(rows).split(0)
    assert (len(split.train), len(split.validation), len(split.test)) == parts
    assert sorted(np.concatenate([split.train, split.validation, split.test]).tolist()) == list(
        range(rows)
    )


def test_a_network_that_does_not_fit_the_data_is_refused_before_it_fails_in_torch() -> None:
    data = planted_data(300)
    with pytest.raises(ModelError, match="columns"):
        train(dense(one_hot_domain(), (4,)), data)
    three = Dataset("three", data.domain, data.x, np.arange(300) % 3, ("a", "b", "c"))
    with pytest.raises(ModelError, match="classes"):
        train(dense(data.domain, (4,)), three)


def test_three_classes_are_learnt() -> None:
    domain = tiny_domain()
    x = domain.sample(1500, rng=np.random.default_rng(0))
    data = Dataset("three", domain, x, x[:, 3].astype(np.int64), ("a", "b", "c"))
    model = train(dense(domain, (8,), classes=3), data, training=QUICK)
    assert (model.labels(x) == data.y).mean() > 0.95


# -- files -----------------------------------------------------------------------------------------


@pytest.fixture
def trained(tmp_path: Path) -> tuple[TorchModel, Domain, Rows, Path]:
    """A network (with a one-hot attribute), its domain, some rows, and the folder it was saved
    to.
    """
    domain = one_hot_domain()
    model = TorchModel(dense(domain, (7, 3), classes=3, seed=4), encoder=Encoder(domain))
    folder = tmp_path / "deep" / "folder"
    save(model, folder)
    return model, domain, domain.sample(100, rng=np.random.default_rng(0)), folder


def test_a_network_read_back_answers_exactly_the_same(
    trained: tuple[TorchModel, Domain, Rows, Path],
) -> None:
    model, domain, x, folder = trained
    again = load(folder, domain)
    assert same(weights(again.module), weights(model.module))
    assert (again.probabilities(x) == model.probabilities(x)).all()
    assert again.layers(x) == model.layers(x) == {"hidden1": 7, "hidden2": 3}
    assert not again.module.training
    plain = tiny_domain()
    save(TorchModel(lfcn(plain)), folder)  # over the old one
    assert (
        load(str(folder), plain).labels(plain.low[None])
        == TorchModel(lfcn(plain)).labels(plain.low[None])
    ).all()


def test_the_files_are_safetensors_and_json_and_nothing_is_pickled(
    trained: tuple[TorchModel, Domain, Rows, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, domain, _, folder = trained
    assert sorted(path.name for path in folder.iterdir()) == ["model.json", "model.safetensors"]
    assert not zipfile.is_zipfile(folder / "model.safetensors")  # what torch.save would write
    with safe_open(folder / "model.safetensors", framework="pt") as file:
        assert set(file.keys()) == set(model.module.state_dict())
    about = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    assert (about["inputs"], about["hidden"], about["classes"]) == (6, [7, 3], 3)

    def refuse(*_: object, **__: object) -> NoReturn:
        raise AssertionError("something was unpickled")

    for place, name in (
        (pickle, "load"),
        (pickle, "loads"),
        (pickle, "Unpickler"),
        (torch, "load"),
    ):
        monkeypatch.setattr(place, name, refuse)
    assert load(folder, domain).module.training is False


def test_the_files_can_be_read_by_others_and_no_temporary_file_stays(
    trained: tuple[TorchModel, Domain, Rows, Path],
) -> None:
    folder = trained[3]
    for path in folder.iterdir():
        assert not path.name.startswith(".")
        assert stat.S_IMODE(path.stat().st_mode) == 0o644


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("model.json", None),
        ("model.safetensors", None),
        ("model.json", b""),
        ("model.json", b'{"network": "DenseNet'),
        ("model.json", b"\xff\xfe\x00"),
        ("model.json", b'{"network": "DenseNetwork"}'),
        ("model.json", b'{"network": "DenseNetwork", "inputs": 6, "hidden": [7, 4], "classes": 3}'),
        ("model.json", b'{"network": "DenseNetwork", "inputs": 6, "hidden": 7, "classes": 3}'),
        (
            "model.json",
            b'{"network": "DenseNetwork", "inputs": 6, "hidden": ["seven"], "classes": 3}',
        ),
        ("model.safetensors", b""),
        ("model.safetensors", b"not weights at all"),
        ("model.safetensors", "truncated"),
    ],
)
def test_missing_broken_and_truncated_files_are_told(
    trained: tuple[TorchModel, Domain, Rows, Path], name: str, content: bytes | str | None
) -> None:
    _, domain, _, folder = trained
    path = folder / name
    whole = path.read_bytes()
    path.unlink()
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content == "truncated":
        path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StorageError) as caught:
        load(folder, domain)
    assert str(folder) in str(caught.value)
    assert isinstance(caught.value, OSError)


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no readable network"):
        load(tmp_path / "nowhere", tiny_domain())


def test_a_network_of_another_width_is_not_loaded(
    trained: tuple[TorchModel, Domain, Rows, Path],
) -> None:
    with pytest.raises(
        ModelError, match=r"takes 6 columns; this data has 4\. It was trained on other data"
    ):
        load(trained[3], tiny_domain())


def test_a_network_of_the_users_own_keeps_its_weights_and_says_how_to_load_them(
    tmp_path: Path,
) -> None:
    first = nn.Linear(4, 3)
    save(TorchModel(nn.Sequential(first, nn.ReLU(), nn.Linear(3, 2))), tmp_path)
    with pytest.raises(
        ModelError, match=r"network of your own; build it in your code and load model\.safetensors"
    ):
        load(tmp_path, tiny_domain())
    with safe_open(tmp_path / "model.safetensors", framework="pt") as file:
        assert torch.equal(file.get_tensor("0.weight"), first.weight.detach())


def test_weights_that_are_shared_inside_a_network_can_be_saved(tmp_path: Path) -> None:
    layer = nn.Linear(4, 4)
    save(TorchModel(nn.Sequential(layer, nn.ReLU(), layer, nn.ReLU(), nn.Linear(4, 2))), tmp_path)
    with safe_open(tmp_path / "model.safetensors", framework="pt") as file:
        assert torch.equal(file.get_tensor("0.weight"), file.get_tensor("2.weight"))


def test_a_place_that_cannot_be_written_is_told_and_nothing_half_written_stays(
    tmp_path: Path,
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way", encoding="utf-8")
    with pytest.raises(StorageError, match="Cannot write"):
        save(TorchModel(lfcn(tiny_domain())), blocked / "below")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


# -- writing ---------------------------------------------------------------------------------------


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    storage.write_text(path, "first")

    def interrupted(temporary: Path) -> NoReturn:
        temporary.write_text("half of the sec", encoding="utf-8")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), storage.replacing(path) as temporary:
        interrupted(temporary)
    assert path.read_text(encoding="utf-8") == "first"
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]
    storage.write_text(path, "zweiter – Versuch")
    assert path.read_text(encoding="utf-8") == "zweiter – Versuch"
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


def test_a_failing_disk_is_told_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    with (
        pytest.raises(StorageError, match=r"Cannot write .*notes\.txt: No space left") as caught,
        storage.replacing(path),
    ):
        raise OSError(28, "No space left on device")
    assert isinstance(caught.value, FairprobeError)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(StorageError, match="Cannot write"):
        storage.write_text(tmp_path / "no" / "folder", "text")


def test_a_dense_network_is_a_plain_sequential_that_users_can_go_on_with() -> None:
    network = lfcn(tiny_domain())
    assert isinstance(network, DenseNetwork)
    assert [name for name, _ in network.named_children()][:3] == ["scale", "linear1", "hidden1"]
    labels: Ints = network(torch.from_numpy(tiny_domain().low[None])).argmax(dim=1).numpy()
    assert labels.tolist() == TorchModel(network).labels(tiny_domain().low[None]).tolist()


# -- categories made one ---------------------------------------------------------------------------


def coupled_domain(*, one_hot: bool) -> Domain:
    return Domain(
        (
            Attribute(name="n", high=9),
            Attribute(name="role", kind="categorical", categories=tuple("abcd"), one_hot=one_hot),
            Attribute(name="sex", kind="categorical", categories=("f", "m")),
        ),
        sensitive=("sex",),
        couplings=(Coupling("role", "sex", ({"f": "b", "m": "d"},)),),
    )


@pytest.mark.parametrize("one_hot", [True, False])
def test_a_merge_shows_a_network_one_category_for_several_and_is_saved_with_it(
    one_hot: bool, tmp_path: Path
) -> None:
    domain = coupled_domain(one_hot=one_hot)
    merge = Merge.of(domain)
    assert merge is not None
    x, encoder = everybody(domain), Encoder(domain)
    torch.testing.assert_close(
        merge(encoder(torch.from_numpy(x))), encoder(torch.from_numpy(domain.merged(x)))
    )
    network = dense(domain, (5,))
    merged = network.with_merge(merge)
    model = TorchModel(merged, encoder=None if encoder.is_identity else encoder)
    plain = TorchModel(network, encoder=None if encoder.is_identity else encoder)
    expected = plain.probabilities(domain.merged(x))
    np.testing.assert_allclose(model.probabilities(x), expected, atol=1e-6)
    assert merged.name == network.name
    save(model, tmp_path / "model")
    again = load(tmp_path / "model", domain)
    np.testing.assert_array_equal(again.probabilities(x), model.probabilities(x))
    assert Merge.of(domain.bare()) is None


def test_a_merge_that_does_not_fit_is_told(tmp_path: Path) -> None:
    domain = coupled_domain(one_hot=True)
    merge = Merge.of(domain)
    assert merge is not None
    save(TorchModel(dense(domain, (5,)).with_merge(merge)), tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    for name, wrong in (("source", torch.tensor([99])), ("target", torch.tensor([0, 1]))):
        save_file(weights | {f"merge.{name}": wrong}, tmp_path / "model.safetensors")
        with pytest.raises(StorageError, match="does not fit its description"):
            load(tmp_path, domain)
    del weights["merge.code"]
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(StorageError, match="does not fit its description"):
        load(tmp_path, domain)
