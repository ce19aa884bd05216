"""Model files of XGBoost, LightGBM and CatBoost: sets of trees, so they are black boxes.

A process of its own reads each file first (`run_apart`): the libraries follow lengths and offsets
in a damaged file unchecked, and crash. What ends or fills that process does not harm this one. What
XGBoost and LightGBM write back there is checked here: from the root of each tree, every walk must
end at a leaf. Only that is opened.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairprobe.arrays import Floats
from fairprobe.errors import DAMAGED, ModelError
from fairprobe.models.formats.base import Format, Opened, import_library
from fairprobe.models.formats.file_checks import check_exists, first_line
from fairprobe.models.formats.trees import ensemble_of, is_walkable, within
from fairprobe.models.torch_model import Outputs

# What an objective returns: probabilities, scores before the sigmoid or softmax, or amounts.
XGBOOST_OBJECTIVES: dict[str, Outputs] = {
    "binary:logistic": "probabilities",
    "reg:logistic": "probabilities",
    "multi:softprob": "probabilities",
    "binary:logitraw": "logits",
    "multi:softmax": "logits",  # it returns classes, so its scores are requested instead
    "reg:squarederror": "amounts",
    "reg:absoluteerror": "amounts",
    "reg:pseudohubererror": "amounts",
    "reg:squaredlogerror": "amounts",
    "reg:gamma": "amounts",
    "reg:tweedie": "amounts",
    "count:poisson": "amounts",
}
# Lists of numbers in the text of a LightGBM tree.
SPLITS = (
    *("left_child", "right_child", "split_feature", "decision_type", "threshold"),
    *("cat_boundaries", "cat_threshold"),
)
LIGHTGBM_CLASSES = ("binary", "cross_entropy", "multiclass", "multiclassova")
LIGHTGBM_AMOUNTS = (
    *("regression", "regression_l1", "huber", "fair", "poisson", "quantile", "mape", "gamma"),
    "tweedie",
)
CATBOOST_CLASSES = ("Logloss", "CrossEntropy", "MultiClass", "MultiClassOneVsAll")
CATBOOST_MARKS = (b'"oblivious_trees"', b'"catboost_version_info"')  # of a JSON file
TREES = "is a set of trees, not a neural network: it can be queried, but has no neurons."
SECONDS = 120  # of a process that reads a file
MEMORY = 4 * 2**30  # bytes of its address space
# The result goes to `out`; whatever the library prints goes to the errors.
START = f"""
import os, sys
out = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)
try:
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, ({MEMORY}, {MEMORY}))
except (ImportError, ValueError, OSError):
    pass
"""
MAX_COLUMNS = 100_000  # or classes
MAX_CATEGORIES = 2**24  # XGBoost has no more
# Reads a model from memory by the function of this name, and writes it as JSON.
READ_XGBOOST = """
import ctypes
library, content = ctypes.CDLL(sys.argv[1]), sys.stdin.buffer.read()
library.XGBGetLastError.restype = ctypes.c_char_p
def call(name, *arguments):
    if getattr(library, name)(*arguments):
        sys.exit(library.XGBGetLastError().decode().strip().partition("\\n")[0])
model, size, text = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.POINTER(ctypes.c_char)()
call("XGBoosterCreate", None, ctypes.c_uint64(0), ctypes.byref(model))
call(sys.argv[2], model, content, ctypes.c_uint64(len(content)))
form = b'{"format": "json"}'
call("XGBoosterSaveModelToBuffer", model, form, ctypes.byref(size), ctypes.byref(text))
out.write(ctypes.string_at(text, size.value))
"""
READ_LIGHTGBM = """
import ctypes
library, content = ctypes.CDLL(sys.argv[1]), sys.stdin.buffer.read()
library.LGBM_GetLastError.restype = ctypes.c_char_p
def call(name, *arguments):
    if getattr(library, name)(*arguments):
        sys.exit(library.LGBM_GetLastError().decode().strip().partition("\\n")[0])
model, rounds, size = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int64()
text = ctypes.create_string_buffer(2 * len(content) + 2**20)
call("LGBM_BoosterLoadModelFromString", content, ctypes.byref(rounds), ctypes.byref(model))
room = ctypes.c_int64(len(text))
call("LGBM_BoosterSaveModelToString", model, 0, -1, 0, room, ctypes.byref(size), text)
out.write(text.value)
"""
# Reads a file and predicts rows of many values and words.
TRY_CATBOOST = """
import numpy as np, pandas as pd
from catboost import CatBoost
model = CatBoost()
model.load_model(sys.argv[1], format=sys.argv[2])
rng = np.random.default_rng(0)
words = set(model.get_cat_feature_indices())
columns = {
    name: rng.integers(0, 99, 256).astype(str) if place in words else rng.normal(0, 1e4, 256)
    for place, name in enumerate(model.feature_names_)
}
model.predict(pd.DataFrame(columns), prediction_type="RawFormulaVal", thread_count=1)
"""
LIGHTGBM_END = """
end of trees

feature_importances:

parameters:
end of parameters

pandas_categorical:null
"""


def open_xgboost(path: Path) -> Opened:
    """Open an XGBoost model written as .json or .ubj, or a CatBoost model as .json."""
    content = _read(path)
    if content.startswith(b"{") and any(mark in content for mark in CATBOOST_MARKS):
        return open_catboost(path)
    xgboost = import_library("xgboost", path.name, XGBOOST.install)
    if not content.startswith(b"{"):
        raise ModelError(
            f"{path} is not an XGBoost model in .json or .ubj. Write it with"
            " save_model('model.json'); pickles are not opened."
        )
    with _reading(path, "XGBoost", xgboost.core.XGBoostError):
        document = read_xgboost(content)
        categories = _taken_categories(document["learner"])
        booster = xgboost.Booster(model_file=bytearray(json.dumps(document).encode()))
        objective = str(document["learner"]["objective"]["name"])
    _check_objective(path, objective, tuple(XGBOOST_OBJECTIVES))
    kind: Outputs = XGBOOST_OBJECTIVES[objective]
    logits = kind == "logits"
    attributes = booster.attributes()
    rounds = (0, 0)  # all; an XGBClassifier uses those up to the best one
    if {"scikit_learn", "best_iteration"} <= attributes.keys():
        rounds = 0, int(attributes["best_iteration"]) + 1
    names = tuple(booster.feature_names) if booster.feature_names else None

    def predict(x: Any) -> Any:
        numbers = _codes(x, names, categories) if categories and names else x
        columns = {"feature_names": booster.feature_names, "feature_types": booster.feature_types}
        matrix = xgboost.DMatrix(numbers, enable_categorical=True, **columns)
        return booster.predict(matrix, output_margin=logits, iteration_range=rounds)

    return Opened(
        kind="XGBoost",
        name=path.name,
        takes="words" if categories else "numbers",
        predict=predict,
        width=int(booster.num_features()),
        columns=names,
        outputs=kind,
        why=f"An XGBoost model {TREES}",
        trees=partial(ensemble_of, booster),
    )


def open_lightgbm(path: Path) -> Opened:
    """Open a LightGBM model that `save_model` wrote as text."""
    lightgbm = import_library("lightgbm", path.name, LIGHTGBM.install)
    content = _read(path)
    if not content.startswith(b"tree\n"):
        raise ModelError(
            f"{path} is not a LightGBM model: its first line is not 'tree'. Write it with"
            " booster.save_model('model.txt')."
        )
    with _reading(path, "LightGBM", lightgbm.basic.LightGBMError):
        text = content.decode("utf-8")
        head, trees = read_lightgbm(text)
        names = tuple(head["feature_names"].split(" "))
        categories = lightgbm_categories(text, names)
        booster = lightgbm.Booster(model_str=trees + LIGHTGBM_END)
    objective = head.get("objective", "").partition(" ")[0]
    _check_objective(path, objective, (*LIGHTGBM_CLASSES, *LIGHTGBM_AMOUNTS))
    is_named = names != tuple(f"Column_{number}" for number in range(len(names)))

    def predict(x: Any) -> Any:
        return booster.predict(_codes(x, names, categories) if categories else x)

    return Opened(
        kind="LightGBM",
        name=path.name,
        takes="words" if categories else "numbers",
        predict=predict,
        width=len(names),
        columns=names if is_named else None,
        outputs="amounts" if objective in LIGHTGBM_AMOUNTS else "probabilities",
        why=f"A LightGBM model {TREES}",
        trees=partial(ensemble_of, booster),
    )


def open_catboost(path: Path) -> Opened:
    """Open a CatBoost classifier that `save_model` wrote as .cbm or JSON."""
    catboost = import_library("catboost", path.name, CATBOOST.install)
    check_exists(path, "CatBoost model")
    form = "json" if path.suffix.lower() == ".json" else "cbm"
    model = catboost.CatBoostClassifier()
    with _reading(path, "CatBoost", catboost.CatBoostError):
        run_apart(TRY_CATBOOST, str(path.resolve()), form)
        model.load_model(str(path), format=form)
        loss = str(model.get_all_params().get("loss_function", "")).partition(":")[0]
    if loss not in CATBOOST_CLASSES:
        raise ModelError(
            f"{path} was trained for '{loss or 'an objective of its own'}', which gives no class"
            f" probabilities; expected {', '.join(CATBOOST_CLASSES)}. Only classifiers can be"
            " audited; a regressor needs a function that turns its score into a probability."
        )
    if model.get_text_feature_indices() or model.get_embedding_feature_indices():
        raise ModelError(
            f"{path} takes free text or embeddings, which a table of people does not have. Name"
            " your own code that calls it (module:function)."
        )
    names = tuple(model.feature_names_)
    words = [names[column] for column in model.get_cat_feature_indices()]

    def predict(x: Any) -> Any:
        if words:
            _check_columns(x, names)
            x = x[list(names)].astype(dict.fromkeys(words, str))
        return model.predict_proba(x, thread_count=1)

    is_named = names != tuple(map(str, range(len(names))))
    return Opened(
        kind="CatBoost",
        name=path.name,
        takes="words" if words else "numbers",
        predict=predict,
        width=len(names),
        columns=names if is_named or words else None,
        classes=tuple(map(str, model.classes_)),
        outputs="probabilities",
        why=f"A CatBoost model {TREES}",
    )


XGBOOST = Format(
    name="xgboost",
    title="XGBoost",
    about="A classifier of XGBoost, written by its method save_model.",
    given="file.json or file.ubj (XGBoost)",
    endings=(".json", ".ubj"),
    white_box="no",
    install="xgboost",
    open=open_xgboost,
)
LIGHTGBM = Format(
    name="lightgbm",
    title="LightGBM",
    about="A classifier of LightGBM, written as text by its method save_model.",
    given="file.txt (LightGBM)",
    endings=(".txt",),
    white_box="no",
    install="lightgbm",
    open=open_lightgbm,
)
CATBOOST = Format(
    name="catboost",
    title="CatBoost",
    about="A classifier of CatBoost, written by its method save_model.",
    given="file.cbm or file.json (CatBoost)",
    endings=(".cbm",),
    white_box="no",
    install="catboost",
    open=open_catboost,
)


# -- columns of words ------------------------------------------------------------------------------


def categories_of(model: Any) -> dict[str, list[Any]]:
    """Map the columns that a classifier of XGBoost or LightGBM was fitted on as pandas categories
    to the categories of each.
    """
    library = type(model).__module__.partition(".")[0]
    if library == "xgboost" and hasattr(model, "get_booster"):
        booster = model.get_booster()
        if not booster.feature_names or not hasattr(booster, "get_categories"):
            return {}
        stored = booster.get_categories(export_to_arrow=True).to_arrow()
        return {name: values.to_pylist() for name, values in stored or () if values is not None}
    if library == "lightgbm" and hasattr(model, "booster_"):
        names = tuple(model.booster_.feature_name())
        return lightgbm_categories(model.booster_.model_to_string(), names)
    return {}


def lightgbm_categories(text: str, names: tuple[str, ...]) -> dict[str, list[Any]]:
    """Map the columns that held pandas categories to the categories of each."""
    listed = re.search(r"^pandas_categorical:(.*)$", text, flags=re.MULTILINE)
    values = json.loads(listed[1]) if listed else None
    if not values:
        return {}
    columns = re.search(r"^\[categorical_feature: ([\d,]+)\]$", text, flags=re.MULTILINE)
    numbers = [int(number) for number in columns[1].split(",")] if columns else []
    if not isinstance(values, list) or len(numbers) != len(values):
        raise ValueError("it does not say which of its columns hold categories")
    return {names[number]: list(known) for number, known in zip(numbers, values, strict=True)}


def _taken_categories(learner: dict[str, Any]) -> dict[str, list[Any]]:
    """Take the categories out of an XGBoost model, because the library would follow their offsets
    unchecked; their codes are computed here.
    """
    model, names = _trees_of(learner), learner.get("feature_names") or ()
    stored = model.pop("cats", {}).get("enc", ())
    if "trees" in model:
        model["cats"] = {"enc": [], "feature_segments": [], "sorted_idx": []}
    categories: dict[str, list[Any]] = {}
    for name, column in zip(names, stored, strict=False):
        values, ends = column["values"], column.get("offsets")
        if ends is not None:
            text = bytes(values)
            values = [text[start:end].decode("utf-8") for start, end in pairwise(ends)]
        if values:
            categories[str(name)] = values
    return categories


def _codes(frame: pd.DataFrame, names: tuple[str, ...], categories: dict[str, list[Any]]) -> Floats:
    """Replace categories by their positions; those that the model does not list are missing."""
    _check_columns(frame, names)
    numbers = np.empty((len(frame), len(names)))
    for column, name in enumerate(names):
        if name in categories:
            codes = pd.Categorical(frame[name], categories=categories[name]).codes
            numbers[:, column] = np.where(codes < 0, np.nan, codes)
        else:
            numbers[:, column] = frame[name].to_numpy(dtype=np.float64)
    return numbers


def _check_columns(frame: pd.DataFrame, names: tuple[str, ...]) -> None:
    if missing := [name for name in names if name not in frame.columns]:
        raise ModelError(
            f"The model was trained with the column{'s' * (len(missing) > 1)} {', '.join(missing)},"
            " which the table does not have."
        )


# -- files -----------------------------------------------------------------------------------------


def read_xgboost(content: bytes, function: str = "XGBoosterLoadModelFromBuffer") -> dict[str, Any]:
    """Read an XGBoost model apart by a function of the library, and check its trees."""
    library = import_library("xgboost", "the model", "xgboost").core._LIB._name
    written = run_apart(READ_XGBOOST, library, function, content=content)
    document: dict[str, Any] = json.loads(written)
    learner, model = document["learner"], _trees_of(document["learner"])
    about = learner["learner_model_param"]
    sizes = [int(about.get(name, 0)) for name in ("num_feature", "num_class", "num_target")]
    width, groups = sizes[0], max(1, *sizes[1:])
    if not within(sizes, MAX_COLUMNS):
        raise ValueError(f"it has {sizes[0]} columns and {max(sizes[1:])} classes")
    if len(model.get("weights", ())) not in (0, (width + 1) * groups):
        raise ValueError(f"it does not have {width + 1} weights for each class")
    trees = model.get("trees", ())
    for number, tree in enumerate(trees):
        left, right, column = (
            np.array(tree[name]) for name in ("left_children", "right_children", "split_indices")
        )
        starts, lengths = (np.array(tree[f"categories_{name}"]) for name in ("segments", "sizes"))
        is_paired = (right == np.where(left < 0, right, left + 1)).all()  # XGBoost relies on it
        has_sets = within(starts + lengths, len(tree["categories"]) + 1)
        has_sets = has_sets and within(tree["categories"], MAX_CATEGORIES)
        if not (is_walkable(left, right, column, width) and is_paired and has_sets):
            raise ValueError(f"tree {number} has nodes that lead nowhere")
    if not within(model.get("tree_info", ()), groups):
        raise ValueError(f"its {len(trees)} trees do not each belong to one of its classes")
    rounds = model.get("iteration_indptr", [0, len(trees)])
    if rounds != sorted(rounds) or (trees and rounds[-1:] != [len(trees)]):
        raise ValueError(f"its {len(trees)} trees are not divided into rounds")
    drops = learner["gradient_booster"].get("weight_drop")
    if drops is not None and len(drops) != len(trees):
        raise ValueError(f"it has {len(trees)} trees and {len(drops)} weights for them")
    _check_categories(model.get("cats", {}))
    return document


def _trees_of(learner: dict[str, Any]) -> dict[str, Any]:
    booster = learner["gradient_booster"]
    model: dict[str, Any] = booster.get("gbtree", booster).get("model", {})
    return model


def _check_categories(stored: dict[str, Any]) -> None:
    """Raise ValueError unless the categories of each column lie within what is stored."""
    sizes = [0]
    for column in stored.get("enc", ()):
        values, ends = column["values"], column.get("offsets")
        if ends and (ends[0] != 0 or ends != sorted(ends) or ends[-1] != len(values)):
            raise ValueError("its categories overlap")
        sizes.append(len(values) if ends is None else max(len(ends) - 1, 0))
    segments = stored.get("feature_segments") or np.cumsum(sizes).tolist()
    order = np.array(stored.get("sorted_idx", ()), dtype=np.int64)
    starts = np.repeat(segments[:-1], sizes[1:])
    if segments != np.cumsum(sizes).tolist() or not np.array_equal(
        np.sort(order + starts), np.arange(len(order))
    ):
        raise ValueError("its categories are not in order")


def read_lightgbm(text: str) -> tuple[dict[str, str], str]:
    """Read a LightGBM model apart and check its trees; return its settings, and its text up to the
    last tree.
    """
    if "\nend of trees" not in text or "\nend of parameters" not in text:
        raise ValueError("it ends too early")
    library = import_library("lightgbm", "the model", "lightgbm").basic._LIB._name
    written = run_apart(READ_LIGHTGBM, library, content=text.encode()).decode("utf-8")
    written = written.partition("\nend of trees")[0]
    top, *blocks = written.split("\nTree=")
    head = dict(line.split("=", 1) for line in top.splitlines() if "=" in line)
    objective, per_round = head.get("objective", ""), int(head["num_tree_per_iteration"])
    named = re.search(r"num_class:(\d+)", objective)
    classes = int(named[1]) if named else 1 if objective else per_round
    if not int(head["num_class"]) == per_round == classes or per_round < 1:
        raise ValueError("it contradicts itself about the number of its classes")
    for number, block in enumerate(blocks):
        if not _is_walkable(block, int(head["max_feature_idx"]) + 1):
            raise ValueError(f"tree {number} has nodes that lead nowhere")
    return head, written


def _is_walkable(block: str, width: int) -> bool:
    """Return True if each child of a tree's text is a split below, or (negative) a leaf."""
    fields = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
    if fields.get("is_linear", "0") != "0":
        raise ValueError("it has linear models in its leaves, which are not supported")
    numbers = {name: np.array(fields.get(name, "").split(), dtype=np.float64) for name in SPLITS}
    leaves, sets = int(fields["num_leaves"]), int(fields["num_cat"])
    children = np.sort(np.concatenate([numbers["left_child"], numbers["right_child"]]))
    expected = [*range(-leaves, 0), *range(1, leaves - 1)] if leaves > 1 else children
    edges, by_set = numbers["cat_boundaries"], numbers["decision_type"].astype(int) & 1 == 1
    has_sets = within(numbers["threshold"][by_set], sets) and (
        not sets or [*edges[:1], *edges[-1:]] == [0, len(numbers["cat_threshold"])]
    )
    is_rising = bool((np.diff(edges) >= 0).all())
    exist = np.array_equal(children, expected) and within(numbers["split_feature"], width)
    return exist and has_sets and is_rising


def _read(path: Path) -> bytes:
    check_exists(path, "model's file")
    return path.read_bytes()


@contextmanager
def _reading(path: Path, library: str, own_error: type[Exception]) -> Iterator[None]:
    """Report what a library raises, without the time and place in its own program."""
    try:
        yield
    except (own_error, *DAMAGED) as error:
        said = f"{error} is missing" if isinstance(error, KeyError) else first_line(error)
        said = re.sub(r"^\[[\d:]+\]\s*\S+?:\d+:\s*|^[\w.]*Error: ", "", said)[:200].rstrip(".:")
        raise ModelError(
            f"{library} cannot read {path}: {said}. Write it again with save_model."
        ) from error


def _check_objective(path: Path, objective: str, expected: tuple[str, ...]) -> None:
    if objective not in expected:
        raise ModelError(
            f"{path} was trained for '{objective or 'an objective of its own'}', which gives"
            f" neither class probabilities nor amounts; expected {', '.join(expected)}. Give a"
            " function that turns its score into one of these (--model my_code.py:function)."
        )


def run_apart(program: str, *words: str, content: bytes = b"") -> bytes:
    """Run a Python program with `words` as arguments and `content` as input; return what it wrote
    to `out`. Raise ValueError if it fails, crashes or exceeds its limits.
    """
    try:
        process = subprocess.run(  # noqa: S603  (our own program)
            [sys.executable, "-I", "-c", START + program, *words],
            input=content,
            capture_output=True,
            timeout=SECONDS,
            check=False,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
    except subprocess.TimeoutExpired as error:
        raise ValueError(f"reading it took more than {SECONDS} seconds") from error
    if process.returncode < 0:
        raise ValueError("it is damaged")
    if process.returncode:
        lines = process.stderr.decode("utf-8", "replace").strip().splitlines()
        raise ValueError(lines[-1] if lines else "it is damaged")
    return process.stdout
