"""XGBoost and LightGBM models from their own files. They are trees, so they are black boxes."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairprobe.arrays import Floats
from fairprobe.errors import ModelError, StorageError
from fairprobe.models.formats.booster_text import checked_lightgbm, from_ubjson
from fairprobe.models.formats.opened import Opened

# What the numbers are that an objective answers with: of class 1, of each class, or scores before
# the sigmoid or softmax.
XGBOOST = {
    "binary:logistic": "probabilities",
    "reg:logistic": "probabilities",
    "multi:softprob": "probabilities",
    "binary:logitraw": "logits",
    "multi:softmax": "logits",  # it answers with classes, so that its scores are asked for
}
LIGHTGBM = ("binary", "cross_entropy", "multiclass", "multiclassova")
TREES = "is a set of trees and no neural network: it can be asked, but not looked into."
AS_CLASSIFIER = (
    "Only classifiers can be audited; a regressor needs a function that turns its score into a"
    " probability."
)


def open_xgboost(path: Path) -> Opened:
    """An XGBoost model that `save_model` wrote as .json or .ubj."""
    try:
        import xgboost
    except ImportError as error:
        raise ModelError(
            f"{path} needs XGBoost to be read. Install it: pip install xgboost."
        ) from error
    content = _read(path)
    if not content.startswith(b"{"):
        raise ModelError(
            f"{path} is no XGBoost model in .json or .ubj. Write it with save_model('model.json');"
            " pickles are not opened."
        )
    try:
        # Of the two forms XGBoost reads JSON carefully, and the binary one not.
        told = json.loads(content) if content[1:2] in b'"\n\r\t ' else from_ubjson(content)
        _check_xgboost_trees(told["learner"])
        categories = _taken_categories(told["learner"])
        booster = xgboost.Booster(model_file=bytearray(json.dumps(told).encode()))
        objective = str(told["learner"]["objective"]["name"])
    except (xgboost.core.XGBoostError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(
            f"XGBoost cannot read {path}: {_first_line(error)}. Write it again with save_model."
        ) from error
    if objective not in XGBOOST:
        raise ModelError(
            f"{path} was trained for '{objective}', which gives no class probabilities; expected"
            f" {', '.join(XGBOOST)}. {AS_CLASSIFIER}"
        )
    logits = XGBOOST[objective] == "logits"
    rounds = _rounds(booster)
    names = tuple(booster.feature_names) if booster.feature_names else None

    def ask(x: Any) -> Any:
        numbers = _codes(x, names, categories) if categories and names else x
        columns = {"feature_names": booster.feature_names, "feature_types": booster.feature_types}
        matrix = xgboost.DMatrix(numbers, enable_categorical=True, **columns)
        return booster.predict(matrix, output_margin=logits, iteration_range=rounds)

    return Opened(
        kind="XGBoost",
        name=path.name,
        takes="words" if categories else "numbers",
        ask=ask,
        width=int(booster.num_features()),
        columns=names,
        outputs="logits" if logits else "probabilities",
        why=f"An XGBoost model {TREES}",
    )


def open_lightgbm(path: Path) -> Opened:
    """A LightGBM model that `save_model` wrote as text."""
    try:
        import lightgbm
    except ImportError as error:
        raise ModelError(
            f"{path} needs LightGBM to be read. Install it: pip install lightgbm."
        ) from error
    content = _read(path)
    if not content.startswith(b"tree\n"):
        raise ModelError(
            f"{path} is no LightGBM model: its first line is not 'tree'. Write it with"
            " booster.save_model('model.txt')."
        )
    try:
        model = checked_lightgbm(content.decode("utf-8"))
        booster = lightgbm.Booster(model_str=model.text)
    except (lightgbm.basic.LightGBMError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(
            f"LightGBM cannot read {path}: {_first_line(error)}. Write it again with save_model."
        ) from error
    if model.objective not in LIGHTGBM:
        raise ModelError(
            f"{path} was trained for '{model.objective or 'an objective of its own'}', which gives"
            f" no class probabilities; expected {', '.join(LIGHTGBM)}. {AS_CLASSIFIER}"
        )
    names, categories = model.names, model.categories
    known = names != tuple(f"Column_{number}" for number in range(len(names)))

    def ask(x: Any) -> Any:
        return booster.predict(_codes(x, names, categories) if categories else x)

    return Opened(
        kind="LightGBM",
        name=path.name,
        takes="words" if categories else "numbers",
        ask=ask,
        width=len(names),
        columns=names if known else None,
        outputs="probabilities",
        why=f"A LightGBM model {TREES}",
    )


# -- columns of words ------------------------------------------------------------------------------


def categories_of(model: Any) -> dict[str, list[Any]]:
    """The columns that a classifier of XGBoost or LightGBM was given as pandas categories, each
    with the categories it knows.
    """
    library = type(model).__module__.partition(".")[0]
    if library == "xgboost" and hasattr(model, "get_booster"):
        return xgboost_categories(model.get_booster())
    if library == "lightgbm" and hasattr(model, "booster_"):
        try:
            return checked_lightgbm(model.booster_.model_to_string()).categories
        except (ValueError, KeyError) as error:
            raise ModelError(f"This LightGBM model cannot be taken: {error}.") from error
    return {}


def xgboost_categories(booster: Any) -> dict[str, list[Any]]:
    """From the model itself, where XGBoost writes them down (3.1 and later)."""
    if not booster.feature_names or not hasattr(booster, "get_categories"):
        return {}
    stored = booster.get_categories(export_to_arrow=True).to_arrow()
    return {name: values.to_pylist() for name, values in stored or () if values is not None}


def _taken_categories(learner: dict[str, Any]) -> dict[str, list[Any]]:
    """The same from a file, and out of it: XGBoost would follow its offsets unchecked, so the codes
    are made here.
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
    """A category is its place in the list; one that the model does not know is missing."""
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
    try:
        content = path.read_bytes()
    except IsADirectoryError as error:
        raise StorageError(f"{path} is a folder. Name the model's file.") from error
    except OSError as error:
        raise StorageError(f"Cannot read {path}: {error.strerror or error}.") from error
    if not content:
        raise ModelError(f"{path} is empty. Write the model again with save_model.")
    return content


def _first_line(error: Exception) -> str:
    """What a library complains about, without the time and place in its own program."""
    if isinstance(error, KeyError):
        return f"{error} is missing"
    told = re.sub(
        r"^\[[\d:]+\]\s*\S+?:\d+:\s*",
        "",
        str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__,
    )
    return told[:200].rstrip(".:")


def _rounds(booster: Any) -> tuple[int, int]:
    """XGBClassifier answers with the rounds up to the best one; (0, 0) are all."""
    attributes = booster.attributes()
    return (
        (0, int(attributes["best_iteration"]) + 1)
        if {"scikit_learn", "best_iteration"} <= attributes.keys()
        else (0, 0)
    )


def _trees_of(learner: dict[str, Any]) -> dict[str, Any]:
    booster = learner["gradient_booster"]
    model: dict[str, Any] = booster.get("gbtree", booster).get("model", {})
    return model


def _check_xgboost_trees(learner: dict[str, Any]) -> None:
    """A damaged file may send the walk down a tree out of the tree; XGBoost does not look."""
    width = int(learner["learner_model_param"]["num_feature"])
    for number, tree in enumerate(_trees_of(learner).get("trees", ())):
        lists = [
            np.array(tree[name], dtype=np.int64)
            for name in ("left_children", "right_children", "parents", "split_indices")
        ]
        left, right, parents, fields = lists
        inner = np.flatnonzero(left != -1)
        whole = len(
            {len(one) for one in lists} | {int(tree["tree_param"]["num_nodes"])}
        ) == 1 and bool((right[left == -1] == -1).all())
        whole = whole and all(
            _within(side[inner], len(left)) and bool((parents[side[inner]] == inner).all())
            for side in (left, right)
        )
        # With one parent each, and none for the root, a walk down always ends.
        whole = (
            whole
            and len(left) > 0
            and bool((parents[1:] >= 0).all())
            and not _within(parents[:1], len(left))
        )
        starts, sizes = (
            np.array(tree.get("categories_segments", ())),
            np.array(tree.get("categories_sizes", ())),
        )
        whole = whole and len(starts) == len(sizes) == len(tree.get("categories_nodes", ()))
        whole = (
            whole
            and _within(starts + sizes, len(tree.get("categories", ())) + 1)
            and _within(starts, 2**31)
            and _within(sizes, 2**31)
        )
        if (
            not whole
            or not _within(fields[inner], width)
            or not _within(tree.get("categories_nodes", ()), len(left))
        ):
            raise ValueError(f"tree {number} has nodes that lead nowhere")


def _within(numbers: Any, end: int) -> bool:
    values = np.asarray(numbers)
    return bool(((values >= 0) & (values < end)).all())
