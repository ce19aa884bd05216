"""The document of a scenes audit: impossible, damaged and old ones are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairprobe.documents import encode, from_dict, to_dict
from fairprobe.documents.scenes import ScenesDocument
from fairprobe.errors import StorageError
from fairprobe.runs.store import read_run
from tests.present.test_report_pictures import scenes

Body = dict[str, Any]


def first_class(body: Body) -> Body:
    row: Body = body["results"][0]["classes"][0]
    return row


def test_a_document_comes_back_from_its_file(tmp_path: Path) -> None:
    document = from_dict(scenes(), ScenesDocument)
    (tmp_path / "audit.json").write_bytes(encode(document))
    assert read_run(tmp_path) == document
    assert to_dict(document) == json.loads(json.dumps(scenes()))


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda body: body.update(confidence=-1), r"\$\.confidence"),
        (lambda body: body.update(seconds="fast"), r"\$\.seconds"),
        (lambda body: body.update(surprise=1), "surprise"),
        (lambda body: body.pop("results"), "results"),
        (lambda body: body.update(mutations=["explode"]), r"\$\.mutations\[0\]"),
        (lambda body: body["results"][0].update(error_rate=1.5), r"\$\.results\[0\]\.error_rate"),
        (lambda body: body["results"][0].update(error_low=0.9), "is reversed"),
        (lambda body: body["results"][0].update(error_inducing=999), "999 of 123 tests"),
        (lambda body: first_class(body).update(low=0.5), "does not contain the estimate"),
        (lambda body: first_class(body).update(p_adjusted=0.001), "above its adjusted"),
        (lambda body: first_class(body).update(rate=float("nan")), r"is not an audit|is damaged"),
        (lambda body: body["comparisons"]["causes"][0].update(low=1.0), "does not contain"),
        (
            lambda body: body["telling"][0]["original"]["detections"][0].update(box=[1, 2]),
            r"\$\.telling\[0\]\.original\.detections\[0\]\.box",
        ),
        (lambda body: body["telling"][0]["original"].update(width=0), r"original\.width"),
    ],
)
def test_an_impossible_document_is_refused_where_it_is_wrong(
    change: Callable[[Body], object], place: str, tmp_path: Path
) -> None:
    body = scenes()
    change(body)
    (tmp_path / "audit.json").write_text(json.dumps(body))
    with pytest.raises(StorageError, match=place):
        read_run(tmp_path)


def test_a_run_of_an_earlier_version_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "audit.json").write_text(json.dumps(scenes() | {"format": 1}))
    with pytest.raises(StorageError, match=rf"{tmp_path} was written by another version.*again"):
        read_run(tmp_path)


def test_deep_nesting_is_refused(tmp_path: Path) -> None:
    (tmp_path / "audit.json").write_text(
        json.dumps(scenes())[:-1] + ', "settings": ' + "[" * 10_000 + "]" * 10_000 + "}"
    )
    with pytest.raises(StorageError, match=r"is damaged or was altered|is not an audit"):
        read_run(tmp_path)
