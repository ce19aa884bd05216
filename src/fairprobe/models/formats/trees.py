"""Trees inside a model of XGBoost, LightGBM or scikit-learn, in one form: what a proof needs.

A model of trees adds up what one leaf of each tree says: logits (boosters) or probabilities
(forests). Anything else has no `Ensemble`: its `program` is asked, and nothing more is known.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fairprobe.arrays import Floats, Ints, Mask, Rows
from fairprobe.errors import ModelError

LEAF = -1
# What LightGBM takes for missing: nothing (NaN is 0), zeros and NaN, or NaN.
MISSING = {"None": 0, "Zero": 1, "NaN": 2}
ZERO = 1e-35  # LightGBM's


@dataclass(frozen=True)
class Tree:
    """Nodes, the root first. `column` is `LEAF` at leaves; `value` (nodes, outputs) counts there.
    `missing` says what is missing at a node, `default_left` where that goes.
    """

    left: Ints
    right: Ints
    column: Ints
    threshold: Floats
    default_left: Mask
    missing: Ints
    value: Floats

    def leaves(self) -> Iterator[tuple[int, list[tuple[int, bool]]]]:
        """Yield each leaf with the nodes on its path, and whether the path goes left there."""
        stack: list[tuple[int, list[tuple[int, bool]]]] = [(0, [])]
        while stack:
            node, path = stack.pop()
            if self.column[node] == LEAF:
                yield node, path
            else:
                stack.append((int(self.right[node]), [*path, (node, False)]))
                stack.append((int(self.left[node]), [*path, (node, True)]))


@dataclass(frozen=True)
class Ensemble:
    """Trees whose values are added to `base` (outputs,). `strict`: a number below the threshold
    goes left; else one at the threshold does, too. One output is that of class 1.
    """

    trees: tuple[Tree, ...]
    base: Floats
    adds: Literal["logits", "probabilities"]
    strict: bool

    def goes_left(self, tree: Tree, node: int, numbers: Floats | Rows) -> Mask:
        """Return True for the numbers of the node's column that go left."""
        kind, threshold = tree.missing[node], tree.threshold[node]
        is_missing = np.isnan(numbers)
        plain = np.where(is_missing, 0.0, numbers)
        if kind == MISSING["Zero"]:
            is_missing = is_missing | (np.abs(plain) <= ZERO)
        left = plain < threshold if self.strict else plain <= threshold
        if kind == MISSING["None"]:
            return np.asarray(left)
        return np.asarray(np.where(is_missing, tree.default_left[node], left))


def ensemble_of(model: Any) -> Ensemble | None:
    """Read the trees of a fitted classifier or booster; None if it is another kind of model."""
    kind, library = type(model).__name__, type(model).__module__.partition(".")[0]
    if library == "xgboost":
        booster = model.get_booster() if hasattr(model, "get_booster") else model
        return _xgboost(json.loads(bytes(booster.save_raw("json"))), _last_round(booster))
    if library == "lightgbm":
        return _lightgbm((model.booster_ if hasattr(model, "booster_") else model).dump_model())
    if library != "sklearn":
        return None
    if kind in ("RandomForestClassifier", "ExtraTreesClassifier"):
        return _forest([tree.tree_ for tree in model.estimators_])
    if kind in ("DecisionTreeClassifier", "ExtraTreeClassifier"):
        return _forest([model.tree_])
    if kind == "HistGradientBoostingClassifier":
        return _histograms(model)
    return None


def within(numbers: Any, end: int) -> bool:
    """Return True if all numbers are from 0 to below `end`, as positions in a list must be."""
    values = np.asarray(numbers)
    return bool(((values >= 0) & (values < end)).all())


def is_walkable(left: Ints, right: Ints, column: Ints, width: int) -> bool:
    """Return True if a walk from the root always ends, at existing nodes and columns: no node has
    two parents, and the root has none. At leaves, `left` is `LEAF`.
    """
    inner = np.flatnonzero(left != LEAF)
    children = np.concatenate([left[inner], right[inner]])
    exist = len(left) > 0 and within(children - 1, len(left) - 1) and within(column[inner], width)
    return exist and len(np.unique(children)) == len(children)


def _last_round(booster: Any) -> int | None:
    """Return the best round of an XGBClassifier, the last one that it uses."""
    attributes = booster.attributes()
    if {"scikit_learn", "best_iteration"} <= attributes.keys():
        return int(attributes["best_iteration"]) + 1
    return None


def _xgboost(document: dict[str, Any], rounds: int | None) -> Ensemble:
    learner = document["learner"]
    booster = learner["gradient_booster"]
    if booster["name"] != "gbtree":
        raise ModelError(f"XGBoost's booster '{booster['name']}' is not supported, only gbtree")
    model, objective = booster["model"], learner["objective"]["name"]
    outputs = max(1, int(learner["learner_model_param"]["num_class"]))
    base = np.float32(json.loads(learner["learner_model_param"]["base_score"])).astype(np.float64)
    if objective in ("binary:logistic", "reg:logistic"):
        base = np.log(base / (1 - base))
    ends = model.get("iteration_indptr", [0, len(model["trees"])])
    used = ends[-1] if rounds is None else ends[min(rounds, len(ends) - 1)]
    trees = []
    for tree, output in zip(model["trees"][:used], model["tree_info"], strict=False):
        if any(tree.get("split_type", ())):
            raise ModelError("XGBoost's splits by sets of categories are not supported")
        left = np.array(tree["left_children"])
        numbers = np.array(tree["split_conditions"], dtype=np.float32).astype(np.float64)
        value = np.zeros((len(left), outputs))
        value[:, output] = numbers
        trees.append(
            Tree(
                left,
                np.array(tree["right_children"]),
                np.where(left < 0, LEAF, np.array(tree["split_indices"])),
                numbers,
                np.array(tree["default_left"], dtype=bool),
                np.full(len(left), MISSING["NaN"]),
                value,
            )
        )
    return Ensemble(tuple(trees), np.broadcast_to(base, (outputs,)), "logits", strict=True)


def _lightgbm(document: dict[str, Any]) -> Ensemble:
    objective, *settings = document["objective"].split()
    if objective not in ("binary", "cross_entropy", "multiclass"):
        raise ModelError(f"LightGBM's objective '{objective}' is not supported")
    steep = dict(setting.partition(":")[::2] for setting in settings).get("sigmoid", "1")
    outputs = int(document["num_tree_per_iteration"])
    infos = document["tree_info"]
    factor = float(steep) if objective == "binary" else 1.0
    if document["average_output"]:
        factor /= max(1, len(infos) // outputs)
    trees = [
        _lightgbm_tree(info["tree_structure"], number % outputs, outputs, factor)
        for number, info in enumerate(infos)
    ]
    return Ensemble(tuple(trees), np.zeros(outputs), "logits", strict=False)


def _lightgbm_tree(root: dict[str, Any], output: int, outputs: int, factor: float) -> Tree:
    nodes: list[tuple[int, int, int, float, bool, int, float]] = []

    def add(node: dict[str, Any]) -> int:
        index = len(nodes)
        if "left_child" not in node:
            nodes.append((-1, -1, LEAF, 0.0, True, 0, factor * float(node["leaf_value"])))
            return index
        if node["decision_type"] != "<=":
            raise ModelError("LightGBM's splits by sets of categories are not supported")
        nodes.append((0, 0, 0, 0.0, True, 0, 0.0))
        left, right = add(node["left_child"]), add(node["right_child"])
        about = (bool(node["default_left"]), MISSING[node["missing_type"]], 0.0)
        nodes[index] = (left, right, node["split_feature"], float(node["threshold"]), *about)
        return index

    add(root)
    left, right, column, threshold, default, missing, leaf = map(np.array, zip(*nodes, strict=True))
    value = np.zeros((len(nodes), outputs))
    value[:, output] = leaf
    return Tree(left, right, column, threshold, default, missing, value)


def _forest(trees: list[Any]) -> Ensemble:
    """Read forests of scikit-learn: the mean of the trees' probabilities."""
    members = []
    for tree in trees:
        value = tree.value[:, 0, :]
        value = value / value.sum(axis=1, keepdims=True) / len(trees)
        nan_left = getattr(tree, "missing_go_to_left", np.zeros(tree.node_count))
        members.append(
            Tree(
                tree.children_left,
                tree.children_right,
                np.where(tree.children_left < 0, LEAF, tree.feature),
                tree.threshold,
                np.asarray(nan_left, dtype=bool),
                np.full(tree.node_count, MISSING["NaN"]),
                value,
            )
        )
    base = np.zeros(members[0].value.shape[1])
    return Ensemble(tuple(members), base, "probabilities", strict=False)


def _histograms(model: Any) -> Ensemble:
    """Read scikit-learn's boosting by histograms."""
    base = np.asarray(model._baseline_prediction, dtype=np.float64).ravel()
    trees = []
    for predictors in model._predictors:
        for output, predictor in enumerate(predictors):
            nodes = predictor.nodes
            if nodes["is_categorical"].any():
                raise ModelError("splits by sets of categories are not supported")
            value = np.zeros((len(nodes), len(base)))
            value[:, output] = nodes["value"]
            trees.append(
                Tree(
                    nodes["left"].astype(np.int64),
                    nodes["right"].astype(np.int64),
                    np.where(nodes["is_leaf"], LEAF, nodes["feature_idx"]),
                    nodes["num_threshold"],
                    nodes["missing_go_to_left"].astype(bool),
                    np.full(len(nodes), MISSING["NaN"]),
                    value,
                )
            )
    return Ensemble(tuple(trees), base, "logits", strict=False)
