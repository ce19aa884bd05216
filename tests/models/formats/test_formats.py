"""The catalogue of formats: complete descriptions, and everything that is generated from them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fairprobe import models
from fairprobe.cli import app
from fairprobe.errors import ModelError, StorageError
from fairprobe.models import FORMATS, Format
from fairprobe.models.formats.catalogue import format_of
from fairprobe.models.load import open_model


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
def test_every_format_describes_itself(form: Format) -> None:
    assert form.about.endswith(".")
    assert all([form.name, form.title, form.given, form.white_box])
    assert all(ending == ending.lower() and ending[0] == "." for ending in form.endings)
    assert form.name in CliRunner().invoke(app, ["formats"]).stdout


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
    written = CliRunner().invoke(app, ["formats", "--format", "markdown"]).stdout
    listed = json.loads(CliRunner().invoke(app, ["formats", "--format", "json"]).stdout)
    assert [entry["name"] for entry in listed] == [form.name for form in FORMATS]
    assert all(form.title in written for form in FORMATS)


def test_an_unknown_name_of_the_room_is_an_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'FORMAT'"):
        models.FORMAT  # noqa: B018
