"""The catalogue of formats: complete descriptions, and what every format has in common."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from fairprobe.cli import app
from fairprobe.errors import FairprobeError, ModelError, StorageError
from fairprobe.models import FORMATS, Format, TorchModel
from fairprobe.models.formats.catalogue import format_of
from fairprobe.models.load import open_model
from tests.model_files import WRITERS, Evil, dense

OF_FILES = [form for form in FORMATS if form.endings]


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
def test_every_format_describes_itself(form: Format) -> None:
    assert form.about.endswith(".")
    assert all([form.name, form.title, form.given, form.white_box])
    assert all(ending == ending.lower() and ending[0] == "." for ending in form.endings)
    assert form.name in CliRunner().invoke(app, ["list", "formats"]).stdout


def test_a_name_or_an_ending_belongs_to_one_format() -> None:
    names = [form.name for form in FORMATS]
    endings = [ending for form in FORMATS for ending in form.endings]
    assert len(set(names)) == len(names)
    assert len(set(endings)) == len(endings)
    for form in FORMATS:
        assert all(format_of(Path(f"model{ending.upper()}")) is form for ending in form.endings)
    assert format_of(Path("model.xyz")) is None


def test_messages_about_models_list_all_formats(tmp_path: Path) -> None:
    (tmp_path / "model.xyz").write_text("?")
    with pytest.raises(ModelError, match="unsupported format") as unsupported:
        open_model(tmp_path / "model.xyz")
    with pytest.raises(StorageError, match="There is no model at") as missing:
        open_model(tmp_path / "nothing.onnx")
    for caught in (unsupported, missing):
        assert all(form.given in str(caught.value) for form in FORMATS)


def test_the_command_lists_formats_for_people_and_programs() -> None:
    written = CliRunner().invoke(app, ["list", "formats", "--as", "markdown"]).stdout
    listed = json.loads(CliRunner().invoke(app, ["list", "formats", "--as", "json"]).stdout)
    assert [entry["name"] for entry in listed] == [form.name for form in FORMATS]
    assert all(form.title in written for form in FORMATS)


# -- networks --------------------------------------------------------------------------------------


def rows(width: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.random.default_rng(1).normal(scale=2, size=(40, width)).astype(np.float32)


@pytest.mark.parametrize(
    "final", [None, nn.Softmax(dim=1), nn.Sigmoid()], ids=["logits", "softmax", "sigmoid"]
)
@pytest.mark.parametrize("ending", WRITERS)
def test_a_dense_network_is_read_back_bit_for_bit(
    ending: str, final: nn.Module | None, tmp_path: Path
) -> None:
    network = dense(13, 64, 32, 16, 8, 4, 1 if isinstance(final, nn.Sigmoid) else 2, final=final)
    opened = open_model(WRITERS[ending](network, tmp_path / f"net{ending}"))
    expected = (f"net{ending}", "numbers", 13, "")
    assert (opened.name, opened.takes, opened.width, opened.why) == expected
    assert isinstance(opened.network, nn.Sequential)
    x = rows(13)
    expected = network(torch.from_numpy(x)).detach()
    assert torch.equal(opened.network(torch.from_numpy(x)), expected)
    np.testing.assert_allclose(opened.predict(x), expected, rtol=1e-4, atol=1e-5)
    ours, theirs = TorchModel(opened.network, outputs=opened.outputs), TorchModel(network)
    assert ours.layers(x) == theirs.layers(x) == {"1": 64, "3": 32, "5": 16, "7": 8, "9": 4}
    assert ours.outputs(x) == ("logits" if final is None else "probabilities")
    gradients = [model.gradient(torch.ones_like, x, layer="5") for model in (ours, theirs)]
    np.testing.assert_array_equal(gradients[0], gradients[1])


@pytest.mark.parametrize("ending", WRITERS)
def test_rows_of_another_width_are_refused(ending: str, tmp_path: Path) -> None:
    opened = open_model(WRITERS[ending](dense(13, 4, 2), tmp_path / f"net{ending}"))
    with pytest.raises(ModelError, match="takes rows of 13 columns; it was given 12"):
        opened.predict(rows(12))


# -- files that are no model -----------------------------------------------------------------------


@pytest.mark.parametrize("form", OF_FILES, ids=lambda form: form.name)
def test_a_missing_file_a_folder_an_empty_file_and_text_are_told_apart(
    form: Format, tmp_path: Path
) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("<html>not found</html>")
    for name, said in {
        "none": "No such file",
        "": "is a folder",
        "empty": "is empty",
        "text": "not|cannot|no ONNX graph",
    }.items():
        with pytest.raises(FairprobeError, match=said) as caught:
            form.open(tmp_path / name)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("ending", [ending for form in OF_FILES for ending in form.endings])
@pytest.mark.parametrize("protocol", [0, pickle.HIGHEST_PROTOCOL])
def test_a_pickle_by_another_name_is_never_run(ending: str, protocol: int, tmp_path: Path) -> None:
    content = pickle.dumps(Evil(tmp_path / "marker"), protocol)
    (tmp_path / f"model{ending}").write_bytes(content)
    with pytest.raises(FairprobeError):
        open_model(tmp_path / f"model{ending}")
    assert not (tmp_path / "marker").exists()
    pickle.loads(content)  # opened the usual way, it leaves its mark
    assert (tmp_path / "marker").exists()
