"""Models in the user's own code: found by name, taken for what they are, and their mistakes told
with the line.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file, save_model
from sklearn.linear_model import LinearRegression, LogisticRegression
from torch import nn

from fairprobe.errors import FairprobeError, ModelError, SettingError, StorageError
from fairprobe.models.formats.own_code import open_callable, open_own, own_encoder

ROWS = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], dtype=np.float32)
FRAME = pd.DataFrame({"age": [1.0, 2.0], "sex": ["f", "m"]})

CODE = """
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from torch import nn


class Net(nn.Module):
    def __init__(self, hidden: int = 3) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(2, hidden), nn.Linear(hidden, 2)

    def forward(self, z):
        return self.last(torch.relu(self.first(z)))


class Wide(nn.Module):
    def __init__(self, width):
        super().__init__()


@dataclass
class Settings:
    hidden: int = 3


torch.manual_seed(0)
ready = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1), nn.Sigmoid())
number = 7
classifier = LogisticRegression().fit([[0, 1], [1, 0], [2, 2], [3, 1]], ["a", "b", "b", "a"])
scaler = StandardScaler().fit([[0.0, 1.0], [2.0, 3.0]])


def build() -> nn.Module:
    return Net(Settings().hidden)


def build_classifier():
    return classifier


def build_function():
    return by_numbers


def by_numbers(x):
    return x[:, 0] / 10


def by_words(frame: pd.DataFrame):
    return np.where(frame["sex"] == "m", 0.9, 0.1)


def also_by_words(frame):
    return by_words(frame)


also_by_words.takes = "words"


class Judge:
    def __call__(self, people: "pd.DataFrame"):
        return by_words(people)

    def lenient(self, x):
        return x[:, 1] / 10


judge = Judge()


def two(x, y):
    return x


def broken_build():
    raise RuntimeError("no such luck")


def broken(x):
    return 1 / 0


def leaves():
    raise SystemExit(3)


def nothing():
    return None


def chain():
    return build


async def later():
    return ready


def encode(frame: pd.DataFrame):
    return np.stack([frame["age"], frame["sex"] == "m"], axis=1)


def make_scaler():
    return scaler
"""


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the user's code, which is the current one."""
    (tmp_path / "mine.py").write_text(CODE)
    (tmp_path / "helper.py").write_text("FACTOR = 10\n")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "inner.py").write_text(
        "import helper\n\ndef predict(x):\n    return x[:, 0] / helper.FACTOR\n"
    )
    monkeypatch.chdir(tmp_path)
    path, modules = list(sys.path), set(sys.modules)
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith(("mine", "helper", "package", "own_code_", "bad")):
            del sys.modules[name]


# -- what a name stands for ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ready", "Net", "build"])
@pytest.mark.parametrize("place", ["mine", "mine.py", "./mine.py"])
def test_a_torch_module_its_class_or_what_builds_it_is_a_white_box(
    name: str, place: str, code: Path
) -> None:
    opened = open_own(f"{place}:{name}")
    expected = ("torch module", "numbers", 2 if name == "ready" else None)
    assert (opened.kind, opened.takes, opened.width) == expected
    assert opened.network is not None
    with torch.no_grad():
        expected = opened.network(torch.from_numpy(ROWS)).numpy()
    np.testing.assert_array_equal(opened.predict(ROWS), expected)


@pytest.mark.parametrize("name", ["classifier", "build_classifier"])
def test_a_fitted_classifier_is_opened_as_one(name: str, code: Path) -> None:
    opened = open_own(f"mine:{name}")
    assert (opened.kind, opened.classes) == ("LogisticRegression", ("a", "b"))
    assert opened.predict(ROWS).shape == (3, 2)


@pytest.mark.parametrize("name", ["by_numbers", "build_function"])
def test_a_function_of_rows_is_a_black_box_on_numbers(name: str, code: Path) -> None:
    opened = open_own(f"mine:{name}")
    assert (opened.kind, opened.takes, opened.network) == ("Python function", "numbers", None)
    np.testing.assert_allclose(opened.predict(ROWS), [0.0, 0.2, 0.4])


@pytest.mark.parametrize("name", ["by_words", "also_by_words", "judge", "Judge"])
def test_a_function_of_a_dataframe_is_a_black_box_on_words(name: str, code: Path) -> None:
    opened = open_own(f"mine:{name}")
    assert opened.takes == "words"
    assert opened.predict(FRAME).tolist() == [0.1, 0.9]


def test_a_method_and_a_module_in_a_package_are_found(code: Path) -> None:
    np.testing.assert_allclose(open_own("mine:judge.lenient").predict(ROWS), [0.1, 0.3, 0.5])
    np.testing.assert_allclose(open_own("package.inner:predict").predict(ROWS), [0.0, 0.2, 0.4])


def test_a_file_elsewhere_finds_its_neighbours(
    code: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (code / "beside.py").write_text(
        "def predict(x):\n    import helper\n    return x[:, 0] / helper.FACTOR\n"
    )
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    np.testing.assert_allclose(open_own(f"{code}/beside.py:predict").predict(ROWS), [0.0, 0.2, 0.4])


# -- weights ---------------------------------------------------------------------------------------


def test_weights_are_loaded_into_the_network(code: Path) -> None:
    torch.manual_seed(5)
    donor = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1), nn.Sigmoid())
    save_file(donor.state_dict(), code / "w.safetensors")
    opened = open_own("mine.py:ready", weights=code / "w.safetensors")
    np.testing.assert_array_equal(
        opened.predict(ROWS), donor(torch.from_numpy(ROWS)).detach().numpy()
    )


def test_weights_that_are_shared_are_stored_once(code: Path) -> None:
    (code / "bad_tied.py").write_text(
        "from torch import nn\ndef build():\n    first = nn.Linear(2, 2)\n    last = nn.Linear(2,"
        " 2)\n    last.weight = first.weight\n    return nn.Sequential(first, nn.ReLU(), last)\n"
    )
    donor = open_own("bad_tied:build").network
    assert donor is not None
    save_model(donor, str(code / "tied.safetensors"))
    opened = open_own("bad_tied:build", weights=code / "tied.safetensors")
    np.testing.assert_array_equal(
        opened.predict(ROWS), donor(torch.from_numpy(ROWS)).detach().numpy()
    )


def _state(**changes: Any) -> dict[str, torch.Tensor]:
    state = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1)).state_dict() | changes
    return {name: value for name, value in state.items() if value is not None}


WEIGHTS: list[tuple[str, Callable[[Path], object], str]] = [
    ("w.safetensors", lambda path: save_file(_state(**{"0.bias": None}), path), r"missing 0\.bias"),
    ("w.safetensors", lambda path: save_file(_state(extra=torch.zeros(1)), path), "unknown extra"),
    (
        "w.safetensors",
        lambda path: save_file(_state(**{"0.weight": torch.zeros(5, 2)}), path),
        r"0\.weight is \(5, 2\) there and \(4, 2\)",
    ),
    ("w.safetensors", lambda path: path.write_bytes(b"hello"), "not a readable safetensors"),
    ("w.safetensors", lambda path: path.write_bytes(b""), "not a readable safetensors"),
    ("w.safetensors", lambda path: None, "no file of weights"),
    ("w.safetensors", lambda path: path.mkdir(), "no file of weights"),
    ("w.pt", lambda path: torch.save(_state(), path), r"runs whatever program is in it.*save_file"),
    ("w.bin", lambda path: torch.save(_state(), path), "may be a pickle"),
    ("w.pkl", lambda path: path.write_bytes(pickle.dumps(1)), "may be a pickle"),
]


@pytest.mark.parametrize(("name", "write", "message"), WEIGHTS)
def test_weights_that_do_not_fit_are_refused_by_name(
    name: str, write: Callable[[Path], object], message: str, code: Path
) -> None:
    write(code / name)
    with pytest.raises(FairprobeError, match=message):
        open_own("mine:ready", weights=code / name)


def test_weights_for_what_is_no_network_are_refused(code: Path) -> None:
    with pytest.raises(SettingError, match="belong to a torch module"):
        open_own("mine:classifier", weights=code / "w.safetensors")


# -- mistakes --------------------------------------------------------------------------------------

MISTAKES: list[tuple[str, type[Exception], str]] = [
    ("mine", SettingError, "module:function"),
    ("mine:", SettingError, "module:function"),
    (":build", SettingError, "module:function"),
    ("mine:biuld", SettingError, "Did you mean 'build'"),
    ("mine:judge.lenent", SettingError, "no 'lenent'"),
    ("mien:build", SettingError, "no module 'mien'.*Did you mean 'mine'"),
    ("package.outer:build", SettingError, "no module 'package.outer'"),
    ("mien.py:build", StorageError, "Did you mean 'mine.py'"),
    ("no/where.py:build", StorageError, "no file no/where.py"),
    ("folder/file:build", SettingError, "not a Python file"),
    ("..:build", SettingError, "not the name of a module"),
    ("mine:number", ModelError, "an object of type int, not a model"),
    ("mine:nothing", ModelError, "None, not a model"),
    ("mine:two", ModelError, "needs 2 arguments"),
    ("mine:Wide", ModelError, "needs 1 argument to be called"),
    ("mine:chain", ModelError, "not a function of one argument"),
    ("mine:later", ModelError, "async function"),
    ("mine:broken_build", ModelError, r"RuntimeError: no such luck; .*mine\.py:\d+"),
    ("mine:leaves", ModelError, "SystemExit: 3"),
    ("mine:Settings", ModelError, "an object of type Settings, not a model"),
]


@pytest.mark.parametrize(("spec", "kind", "message"), MISTAKES, ids=[case[0] for case in MISTAKES])
def test_mistakes_in_a_name_are_told_in_a_sentence(
    spec: str, kind: type[Exception], message: str, code: Path
) -> None:
    with pytest.raises(kind, match=message) as caught:
        open_own(spec)
    assert "\n" not in str(caught.value)


BAD_FILES = {
    "def f(:\n": r"SyntaxError: .*bad\.py:1",
    "x = 1\nraise ValueError('at once')\n": r"ValueError: at once; .*bad\.py:2",
    "import not_installed_anywhere\n": r"ModuleNotFoundError: .*not_installed_anywhere.*bad\.py:1",
    "import sys\nsys.exit('bye')\n": "SystemExit: bye",
    "from math import cosine\n": "ImportError",
    "\x00": "SyntaxError|ValueError",
}


@pytest.mark.parametrize("place", ["bad", "bad.py"])
@pytest.mark.parametrize("text", BAD_FILES)
def test_code_that_cannot_be_imported_is_told_with_its_line(
    place: str, text: str, code: Path
) -> None:
    (code / "bad.py").write_text(text)
    with pytest.raises(ModelError, match=BAD_FILES[text]) as caught:
        open_own(f"{place}:f")
    assert caught.value.__cause__ is not None


def test_a_function_that_fails_is_told_with_its_line(code: Path) -> None:
    line = CODE.splitlines().index("    return 1 / 0") + 1
    with pytest.raises(
        ModelError,
        match=rf"failed on 3 rows \(ZeroDivisionError: division by zero; .*mine\.py:{line}\)",
    ) as caught:
        open_own("mine:broken").predict(ROWS)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


# -- encoders and objects --------------------------------------------------------------------------


def test_an_encoder_is_a_function_or_a_transformer_or_what_makes_one(code: Path) -> None:
    assert own_encoder("mine:encode")(FRAME).tolist() == [[1.0, 0.0], [2.0, 1.0]]
    numbers = pd.DataFrame(ROWS, columns=["a", "b"])
    for name in ("scaler", "make_scaler"):
        np.testing.assert_allclose(own_encoder(f"mine:{name}")(numbers), (ROWS - [1, 2]) / 1)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("two", "function of one DataFrame"),
        ("number", "of type int"),
        ("nothing", "None"),
        ("StandardScaler", "not been fitted"),
    ],
)
def test_what_is_no_encoder_is_refused(name: str, message: str, code: Path) -> None:
    with pytest.raises(ModelError, match=message):
        own_encoder(f"mine:{name}")


def test_python_objects_are_models_as_they_are() -> None:
    network = nn.Sequential(nn.Linear(2, 2))
    assert open_callable(network).network is network
    classifier = open_callable(LogisticRegression().fit(ROWS, [0, 1, 1]))
    assert classifier.classes == ("0", "1")
    function = open_callable(lambda x: x[:, 0] / 10)
    np.testing.assert_allclose(function.predict(ROWS), [0.0, 0.2, 0.4])
    for thing in (3, None):
        with pytest.raises(ModelError, match=f"got {type(thing).__name__}"):
            open_callable(thing)
    regressor = open_callable(LinearRegression().fit(ROWS, [0, 1, 2]))
    assert regressor.outputs == "amounts"
    np.testing.assert_allclose(regressor.predict(ROWS), [0, 1, 2], atol=1e-6)
