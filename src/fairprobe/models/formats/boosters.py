"""XGBoost and LightGBM models from their own files: tree ensembles, so they are black boxes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairprobe.arrays import Floats
from fairprobe.errors import DAMAGED, ModelError
from fairprobe.models.formats.base import Format, Opened, import_library
from fairprobe.models.formats.booster_text import checked_lightgbm, from_ubjson
from fairprobe.models.formats.catboost_file import is_catboost, open_catboost
from fairprobe.models.formats.file_checks import check_exists, first_line, within
from fairprobe.models.formats.trees import ensemble_of
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
# What an XGBoost tree says of each node: first where it leads and which column it asks.
NODE_LISTS = (
    *("left_children", "right_children", "parents", "split_indices"),
    *("split_conditions", "default_left", "base_weights", "loss_changes", "sum_hessian"),
)
LIGHTGBM_CLASSES = ("binary", "cross_entropy", "multiclass", "multiclassova")
LIGHTGBM_AMOUNTS = (
    *("regression", "regression_l1", "huber", "fair", "poisson", "quantile", "mape", "gamma"),
    "tweedie",
)
TREES = "is a set of trees, not a neural network: it can be queried, but has no neurons."
MOST_COLUMNS = 100_000  # or classes
MOST_CATEGORIES = 2**24  # XGBoost knows no more


def open_xgboost(path: Path) -> Opened:
    """An XGBoost model that `save_model` wrote as .json or .ubj, or a CatBoost model as .json."""
    content = _read(path)
    if content.startswith(b"{") and is_catboost(content):
        return open_catboost(path)
    xgboost = import_library("xgboost", path.name, XGBOOST.install)
    if not content.startswith(b"{"):
        raise ModelError(
            f"{path} is not an XGBoost model in .json or .ubj. Write it with"
            " save_model('model.json'); pickles are not opened."
        )
    with _reading(path, "XGBoost", xgboost.core.XGBoostError):
        # XGBoost reads JSON carefully, but not the binary form.
        document = json.loads(content) if content[1:2] in b'"\n\r\t ' else from_ubjson(content)
        _check_xgboost_trees(document["learner"])
        categories = _taken_categories(document["learner"])
        booster = xgboost.Booster(model_file=bytearray(json.dumps(document).encode()))
        objective = str(document["learner"]["objective"]["name"])
    _check_objective(path, objective, tuple(XGBOOST_OBJECTIVES))
    kind: Outputs = XGBOOST_OBJECTIVES[objective]
    logits = kind == "logits"
    rounds = _rounds(booster)
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
    """A LightGBM model that `save_model` wrote as text."""
    lightgbm = import_library("lightgbm", path.name, LIGHTGBM.install)
    content = _read(path)
    if not content.startswith(b"tree\n"):
        raise ModelError(
            f"{path} is not a LightGBM model: its first line is not 'tree'. Write it with"
            " booster.save_model('model.txt')."
        )
    with _reading(path, "LightGBM", lightgbm.basic.LightGBMError):
        model = checked_lightgbm(content.decode("utf-8"))
        booster = lightgbm.Booster(model_str=model.text)
    _check_objective(path, model.objective, (*LIGHTGBM_CLASSES, *LIGHTGBM_AMOUNTS))
    names, categories = model.names, model.categories
    known = names != tuple(f"Column_{number}" for number in range(len(names)))

    def predict(x: Any) -> Any:
        return booster.predict(_codes(x, names, categories) if categories else x)

    return Opened(
        kind="LightGBM",
        name=path.name,
        takes="words" if categories else "numbers",
        predict=predict,
        width=len(names),
        columns=names if known else None,
        outputs="amounts" if model.objective in LIGHTGBM_AMOUNTS else "probabilities",
        why=f"A LightGBM model {TREES}",
        trees=partial(ensemble_of, booster),
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


# -- columns of words ------------------------------------------------------------------------------


def categories_of(model: Any) -> dict[str, list[Any]]:
    """The columns that a classifier of XGBoost or LightGBM was fitted on as pandas categories, each
    with the categories it knows.
    """
    library = type(model).__module__.partition(".")[0]
    if library == "xgboost" and hasattr(model, "get_booster"):
        return xgboost_categories(model.get_booster())
    if library == "lightgbm" and hasattr(model, "booster_"):
        try:
            return checked_lightgbm(model.booster_.model_to_string()).categories
        except (ValueError, KeyError) as error:
            raise ModelError(f"This LightGBM model cannot be used: {error}.") from error
    return {}


def xgboost_categories(booster: Any) -> dict[str, list[Any]]:
    """The categories that XGBoost stores in the model (version 3.1 and later)."""
    if not booster.feature_names or not hasattr(booster, "get_categories"):
        return {}
    stored = booster.get_categories(export_to_arrow=True).to_arrow()
    return {name: values.to_pylist() for name, values in stored or () if values is not None}


def _taken_categories(learner: dict[str, Any]) -> dict[str, list[Any]]:
    """The same from a file. They are removed from it, because XGBoost would follow its offsets
    unchecked; the codes are computed here.
    """
    model, names = _trees_of(learner), learner.get("feature_names") or ()
    stored = model.pop("cats", {}).get("enc", ())
    if "trees" in model:
        model["cats"] = {"enc": [], "feature_segments": [], "sorted_idx": []}
    found: dict[str, list[Any]] = {}
    for name, known in zip(names, stored, strict=False):
        values, ends = known["values"], known.get("offsets")
        if ends is not None:
            text = bytes(values)
            values = [text[start:end].decode("utf-8") for start, end in pairwise(ends)]
        if values:
            found[str(name)] = values
    return found


def _codes(frame: pd.DataFrame, names: tuple[str, ...], categories: dict[str, list[Any]]) -> Floats:
    """A category is its position in the list; one that the model does not know is missing."""
    if missing := [name for name in names if name not in frame.columns]:
        raise ModelError(
            f"The model was trained with the column{'s' * (len(missing) > 1)} {', '.join(missing)},"
            " which the table does not have."
        )
    numbers = np.empty((len(frame), len(names)))
    for place, name in enumerate(names):
        if name in categories:
            codes = pd.Categorical(frame[name], categories=categories[name]).codes
            numbers[:, place] = np.where(codes < 0, np.nan, codes)
        else:
            numbers[:, place] = frame[name].to_numpy(dtype=np.float64)
    return numbers


# -- files -----------------------------------------------------------------------------------------


def _read(path: Path) -> bytes:
    check_exists(path, "model's file")
    return path.read_bytes()


@contextmanager
def _reading(path: Path, library: str, own_error: type[Exception]) -> Iterator[None]:
    """Reports what a library complains about, without the time and place in its own program."""
    try:
        yield
    except (own_error, *DAMAGED) as error:
        said = f"{error} is missing" if isinstance(error, KeyError) else first_line(error)
        said = re.sub(r"^\[[\d:]+\]\s*\S+?:\d+:\s*", "", said)[:200].rstrip(".:")
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


def _rounds(booster: Any) -> tuple[int, int]:
    """XGBClassifier uses the rounds up to the best one; (0, 0) are all."""
    attributes = booster.attributes()
    if {"scikit_learn", "best_iteration"} <= attributes.keys():
        return 0, int(attributes["best_iteration"]) + 1
    return 0, 0


def _trees_of(learner: dict[str, Any]) -> dict[str, Any]:
    booster = learner["gradient_booster"]
    model: dict[str, Any] = booster.get("gbtree", booster).get("model", {})
    return model


def _check_xgboost_trees(learner: dict[str, Any]) -> None:
    """Refuses a damaged file in which a walk down a tree would leave the tree, or whose trees are
    not numbered, counted and divided among the classes as they must be; XGBoost does not check.
    """
    about, model = learner["learner_model_param"], _trees_of(learner)
    sizes = [int(about.get(name, 0)) for name in ("num_feature", "num_class", "num_target")]
    if not within(sizes, MOST_COLUMNS):
        raise ValueError(f"it has {sizes[0]} columns and {max(sizes[1:])} classes")
    width, groups = sizes[0], max(1, *sizes[1:])
    if len(model.get("weights", ())) not in (0, (width + 1) * groups):
        raise ValueError(f"it does not have {width + 1} weights for each class")
    if "trees" not in model:
        return
    trees = model["trees"]
    for number, tree in enumerate(trees):
        if not _is_whole(tree, width):
            raise ValueError(f"tree {number} has nodes that lead nowhere")
    count = len(trees)
    if not _positions(model["tree_info"], count, groups):
        raise ValueError(f"its {count} trees do not each belong to one of its classes")
    if sorted(tree["id"] for tree in trees) != list(range(count)):
        raise ValueError("its trees are not numbered from 0")
    rounds = model.get("iteration_indptr", [0, count])
    rises = all(one <= other for one, other in pairwise(rounds))
    if not _positions(rounds, len(rounds), count + 1) or not rises or rounds[-1:] != [count]:
        raise ValueError(f"its {count} trees are not divided into rounds")
    drops = learner["gradient_booster"].get("weight_drop")
    if drops is not None and len(drops) != count:
        raise ValueError(f"it has {count} trees and {len(drops)} weights for them")


def check_snapshot(content: bytes) -> None:
    """Refuses a damaged XGBoost model in the form in which it is kept inside other files."""
    learner = from_ubjson(content)["Model"]["learner"]
    _check_xgboost_trees(learner)
    stored = _trees_of(learner).get("cats", {})
    sizes = [0]
    for known in stored.get("enc", ()):
        values, ends = known["values"], known.get("offsets")
        if ends and (ends[0] != 0 or ends[-1] != len(values) or sorted(ends) != ends):
            raise ValueError("its categories overlap")
        sizes.append(len(values) if ends is None else max(len(ends) - 1, 0))
    places = [place for size in sizes for place in range(size)]
    ordered = [sorted(part) for part in _parts(stored.get("sorted_idx", []), sizes)]
    if [*chain(*ordered)] != places or stored.get("feature_segments", []) not in (
        [],
        [*accumulate(sizes)],
    ):
        raise ValueError("its categories are not in order")


def _parts(numbers: list[int], sizes: list[int]) -> list[list[int]]:
    """The list in parts of these sizes, and what is left."""
    ends = [*accumulate(sizes), len(numbers)]
    return [numbers[start:end] for start, end in pairwise(ends)]


def _positions(numbers: list[Any], count: int, end: int) -> bool:
    """Whether these are so many whole numbers from 0 to below `end`."""
    return len(numbers) == count and all(type(one) is int and 0 <= one < end for one in numbers)


def _is_whole(tree: dict[str, Any], width: int) -> bool:
    lists = [np.array(tree[name], dtype=np.int64) for name in NODE_LISTS[:4]]
    left, right, parents, fields = lists
    about = tree["tree_param"]
    sizes = {len(tree[name]) for name in NODE_LISTS} | {int(about["num_nodes"])}
    if len(sizes) > 1 or int(about.get("size_leaf_vector", 0)) not in (0, 1):
        return False
    if not len(left) or (right[left == -1] != -1).any():
        return False
    inner = np.flatnonzero(left != -1)
    for side in (left, right):
        if not within(side[inner], len(left)) or (parents[side[inner]] != inner).any():
            return False
    # With one parent each, and none for the root, a walk down always ends.
    if (parents[1:] < 0).any() or within(parents[:1], len(left)):
        return False
    nodes, starts, counts = (
        np.array(tree.get(f"categories_{name}", ())) for name in ("nodes", "segments", "sizes")
    )
    return (
        len(nodes) == len(starts) == len(counts)
        and within(starts + counts, len(tree.get("categories", ())) + 1)
        and within(tree.get("categories", ()), MOST_CATEGORIES)
        and within(starts, 2**31)
        and within(counts, 2**31)
        and within(fields[inner], width)
        and within(nodes, len(left))
    )
