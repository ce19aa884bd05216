"""A classifier of texts: what it may return, and how it is named."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairprobe.errors import FairprobeError
from fairprobe.models.text import SCHEMES, TextModel, load_text_model


def shouting(texts: Sequence[str]) -> list[float]:
    return [float(text.isupper()) for text in texts]


def test_one_number_a_text_is_the_probability_of_the_second_class() -> None:
    model = load_text_model(shouting, classes=["calm", "loud"])
    assert model.classes == ("calm", "loud")
    assert model.probabilities(["HEY", "hey"]).tolist() == [[0, 1], [1, 0]]
    assert model.probabilities([]).shape == (0, 2)


def test_names_in_the_answer_are_the_classes() -> None:
    model = load_text_model(lambda texts: [{"loud": 0.25, "calm": 0.75} for _ in texts])
    assert model.classes == ("loud", "calm")
    np.testing.assert_allclose(model.probabilities(["x"]), [[0.25, 0.75]])


def test_one_name_is_one_class_of_two() -> None:
    model = load_text_model(lambda texts: [{"loud": 0.25} for _ in texts])
    assert model.classes == ("not loud", "loud")
    np.testing.assert_allclose(model.probabilities(["x"]), [[0.75, 0.25]])


def test_a_function_is_named_by_its_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "def load():\n    return lambda texts: [[0.5, 0.5]] * len(texts)\n"
    )
    model = load_text_model(f"{tmp_path}/mine.py:load")
    assert model.classes == ("0", "1")
    assert model.origin == f"{tmp_path}/mine.py:load"


def test_long_lists_are_sent_in_batches() -> None:
    sizes: list[int] = []

    def predict(texts: Sequence[str]) -> list[float]:
        sizes.append(len(texts))
        return [0.0] * len(texts)

    model = TextModel(predict, batch=3)
    assert model.probabilities(["a"] * 7).shape == (7, 2)
    assert sizes == [3, 3, 1]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([[0.5, 0.5, 0.0]], "returned 3 probabilities"),
        ([{"a": 1.0}], "must name the same ones"),
        ([2.0], "not a probability"),
    ],
)
def test_a_wrong_answer_is_one_sentence(answer: Any, message: str) -> None:
    model = load_text_model(lambda texts: answer, classes=["calm", "loud"])
    with pytest.raises(FairprobeError, match=message):
        model.probabilities(["x"])


def test_a_scheme_opens_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    def opener(source: str, *, classes: Any = None, temperature: float = 0) -> TextModel:
        return TextModel(shouting, name=f"{source} {temperature}", classes=classes)

    monkeypatch.setitem(SCHEMES, "echo", lambda: opener)
    assert load_text_model("echo:there", temperature=1).name == "echo:there 1"
