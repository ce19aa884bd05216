"""Fitted scikit-learn classifiers, and everything that behaves like one: XGBoost, LightGBM,
ensembles, whole pipelines.

An `MLPClassifier` is a neural network, so its weights are copied into torch: a white box.
Everything else is a black box.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from fairprobe.arrays import Rows
from fairprobe.errors import FairprobeError, ModelError
from fairprobe.models.formats.base import Format, Opened, import_library
from fairprobe.models.formats.boosters import categories_of
from fairprobe.models.formats.file_checks import (
    Arrays,
    dense,
    first_line,
    refused,
    with_weights,
    write_bytes,
)
from fairprobe.models.formats.graph import linear
from fairprobe.models.formats.skops_file import load_skops
from fairprobe.models.formats.trees import ensemble_of

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "logistic": nn.Sigmoid}


def open_skops(path: Path) -> Opened:
    """Open a classifier from a file written by `skops.io.dump`."""
    return open_estimator(load_skops(path), name=path.name)


def write_skops(source: Path, network: nn.Module, target: Path) -> None:
    """Write a copy of the file in which the MLPClassifier has the weights of `network`."""
    write_estimator(load_skops(source), network, target)


def write_estimator(estimator: Any, network: nn.Module, target: Path) -> None:
    """Write a classifier as a .skops file, its MLPClassifier with the weights of `network`. The
    given one is not changed.
    """
    skops = import_library("skops.io", target.name, "fairprobe[sklearn]")
    made = copy.deepcopy(estimator)
    _, last = _steps(made)
    parts = {"weight": last.coefs_, "bias": last.intercepts_}
    held = {f"{kind}{n}": np.array(each) for kind in parts for n, each in enumerate(parts[kind])}

    def read(arrays: Arrays) -> nn.Module:
        for kind, values in parts.items():
            for number, value in enumerate(values):
                value[...] = arrays[f"{kind}{number}"]  # in place: the optimizer shares it
        return _copy(last)

    read(with_weights(read, held, network, target.name))
    try:
        write_bytes(target, skops.dumps(made))
    except FairprobeError:
        raise
    except Exception as error:  # skops raises errors of any type at objects that it cannot store
        raise refused(target.name, f"skops cannot store it ({first_line(error)})") from error


def open_encoder_skops(path: Path) -> Callable[[pd.DataFrame], Rows]:
    """Open a fitted preprocessor from a file written by `skops.io.dump`."""
    return open_encoder_object(load_skops(path))


def open_estimator(estimator: Any, *, name: str | None = None) -> Opened:
    """Open a fitted classifier with `predict_proba`.

    A pipeline that was fitted on a DataFrame takes words; so does any other classifier that was
    fitted on columns of words or has steps for them. The rest take numbers.
    """
    from sklearn.pipeline import Pipeline

    _check_usable(estimator)
    is_regressor = answers_amounts(estimator)
    classes = _classes(estimator)
    model = _unwrapped(estimator)
    names = _feature_names(model)
    steps, last = _steps(model)
    if isinstance(model, Pipeline):
        takes_words = names is not None or _width(model) is None
    else:
        takes_words = names is not None and _was_given_words(model)
    network, why = _network(last)
    has_steps = bool(steps) or (takes_words and isinstance(model, Pipeline))
    kind = type(last).__name__
    return Opened(
        kind=f"Pipeline with {kind}" if isinstance(model, Pipeline) else kind,
        name=name or type(estimator).__name__,
        takes="words" if takes_words else "numbers",
        predict=_of_words(model, names) if takes_words else _of_numbers(model, names),
        width=_width(model),
        columns=names,
        classes=classes,
        network=network,
        encode=_encoding(steps, names) if has_steps else None,
        outputs="amounts" if is_regressor else "probabilities",
        why=why,
        program=estimator,
        trees=partial(ensemble_of, last),
        write_back=None if network is None else partial(write_estimator, estimator),
        ending=".skops",
    )


def open_encoder_object(thing: Any) -> Callable[[pd.DataFrame], Rows]:
    """Return a fitted preprocessor as a function from a DataFrame to a float32 table."""
    kind = type(thing).__name__
    if not callable(getattr(thing, "transform", None)):
        advice = "Pass a fitted ColumnTransformer or Pipeline."
        if hasattr(thing, "predict_proba"):
            advice = "It is a classifier: pass it as the model."
        raise ModelError(f"An encoder needs a method 'transform'; {kind} has none. {advice}")
    _check_fitted(thing, kind)
    return _encoding([thing], _feature_names(thing))


# -- is it a classifier? ---------------------------------------------------------------------------


def _check_usable(estimator: Any) -> None:
    if isinstance(estimator, type):
        raise ModelError(
            f"{estimator.__name__} is a class, not a fitted classifier. Create an object, fit it,"
            " and pass that."
        )
    kind = type(estimator).__name__
    _check_fitted(estimator, kind)
    if not callable(getattr(estimator, "predict_proba", None)) and not answers_amounts(estimator):
        raise ModelError(
            f"{kind} gives no class probabilities: it has no method 'predict_proba'."
            f" {_instead(estimator)}"
        )


def answers_amounts(estimator: Any) -> bool:
    """Return True for a regressor: it predicts, but has neither probabilities nor classes."""
    from sklearn.base import BaseEstimator, is_regressor

    if isinstance(estimator, BaseEstimator):
        return bool(is_regressor(estimator))
    is_class = hasattr(estimator, "predict_proba") or hasattr(estimator, "classes_")
    return callable(getattr(estimator, "predict", None)) and not is_class


def _instead(estimator: Any) -> str:
    if not hasattr(estimator, "predict"):
        return "If it prepares the data for a model, pass it as the encoder."
    return (
        "Fit it with probability=True where it has that option, or wrap it in a"
        " CalibratedClassifierCV."
    )


def _check_fitted(thing: Any, kind: str) -> None:
    from sklearn.base import BaseEstimator
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    # Only scikit-learn's own objects, because others may keep what they learned under other names.
    if isinstance(thing, BaseEstimator):
        try:
            check_is_fitted(thing)
        except NotFittedError as error:
            raise ModelError(
                f"This {kind} has not been fitted yet. Call its fit(X, y) first, and pass the"
                " fitted object."
            ) from error


def _classes(estimator: Any) -> tuple[str, ...] | None:
    classes: Any = getattr(estimator, "classes_", None)
    if classes is None:
        return None
    kind = type(estimator).__name__
    if np.shape(classes[:1] if isinstance(classes, list) else classes) in ((), (0,)):
        raise ModelError(
            f"{kind} does not say which classes it knows: its classes_ is {classes!r}. Fit it"
            " again."
        )
    labels = getattr(getattr(estimator, "_label_binarizer", None), "y_type_", "")
    if np.ndim(classes[0]) or labels.startswith("multilabel"):
        raise ModelError(
            f"{kind} predicts several labels at once (multi-label or multi-output). Pass a"
            " classifier for one of them."
        )
    if len(classes) < 2:
        raise ModelError(
            f"{kind} was fitted on a single class ({classes[0]}), so it treats everybody alike."
            " Fit it on two or more."
        )
    return tuple(str(label) for label in classes)


def _unwrapped(estimator: Any) -> Any:
    """Return the classifier inside a search over settings or a frozen classifier."""
    from sklearn.frozen import FrozenEstimator
    from sklearn.model_selection._search import BaseSearchCV

    if isinstance(estimator, BaseSearchCV):
        return _unwrapped(estimator.best_estimator_)
    return _unwrapped(estimator.estimator) if isinstance(estimator, FrozenEstimator) else estimator


# -- predicting ------------------------------------------------------------------------------------


def _feature_names(model: Any) -> tuple[str, ...] | None:
    """Return the columns that it needs: those it was fitted on, without those that a
    ColumnTransformer drops (an id, or even the label).
    """
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return None
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import Pipeline

    first = model
    while isinstance(first, Pipeline):
        first = first.steps[0][1]
    if isinstance(first, ColumnTransformer):
        steps = {name: step for name, step, _ in first.transformers_}
        dropped = {name for name in steps if isinstance(steps[name], str) and steps[name] == "drop"}
        kept = {
            index
            for name, indices in first._transformer_to_input_indices.items()
            if name not in dropped
            for index in indices
        }
        names = [name for index, name in enumerate(names) if index in kept]
    return tuple(str(name) for name in names)


def _width(model: Any) -> int | None:
    width = getattr(model, "n_features_in_", None)
    return None if width is None else int(width)


def _of_numbers(model: Any, names: tuple[str, ...] | None) -> Callable[[Rows], Any]:
    def predict(x: Rows) -> Any:
        table = x if names is None else pd.DataFrame(x, columns=list(names))
        return model.predict(table) if answers_amounts(model) else model.predict_proba(table)

    return predict


def _of_words(model: Any, names: tuple[str, ...] | None) -> Callable[[pd.DataFrame], Any]:
    categories = categories_of(model)

    def predict(frame: pd.DataFrame) -> Any:
        table = _select(frame, names, type(model).__name__)
        for name, known in categories.items():
            table = table.assign(**{name: pd.Categorical(table[name], categories=known)})
        return model.predict(table) if answers_amounts(model) else model.predict_proba(table)

    return predict


def _encoding(steps: list[Any], names: tuple[str, ...] | None) -> Callable[[Any], Rows]:
    """Apply the steps one after the other, as in a pipeline, to a DataFrame or an array."""
    what = type(steps[0]).__name__ if len(steps) == 1 else "The pipeline"
    # A step that was fitted on an array gets an array.
    plain = bool(steps) and names is None and _width(steps[0]) is not None

    def encode(frame: Any) -> Rows:
        table: Any = np.asarray(frame) if plain else _select(frame, names, what)
        try:
            for step in steps:
                table = step.transform(table)
        except (TypeError, ValueError, KeyError) as error:
            raise ModelError(
                f"{what} cannot prepare these {len(frame)} rows ({type(error).__name__}:"
                f" {str(error).rstrip('.')})."
            ) from error
        return dense(table, len(frame), what)

    return encode


def _select(frame: pd.DataFrame, names: tuple[str, ...] | None, what: str) -> pd.DataFrame:
    """Select the columns in the order of the fit, which scikit-learn requires."""
    if names is None:
        return frame
    if missing := [name for name in names if name not in frame.columns]:
        raise ModelError(
            f"{what} was fitted with the column{'s' * (len(missing) > 1)} {', '.join(missing)},"
            " which the table does not have."
        )
    return frame[list(names)]


def _was_given_words(model: Any) -> bool:
    """Return True if a classifier that was fitted on a DataFrame takes categories itself, or has
    steps that may turn them into numbers.
    """
    from sklearn.base import BaseEstimator

    if isinstance(plan := getattr(model, "plan_", None), dict):  # a post-hoc repair of ours
        return bool(plan.get("schema"))
    if hasattr(model, "coding_"):  # a repaired network of ours, which codes words itself
        return True
    if np.any(getattr(model, "is_categorical_", None)) or categories_of(model):
        return True
    parts = model.get_params(deep=True).values() if isinstance(model, BaseEstimator) else ()
    return any(hasattr(part, "transform") and not hasattr(part, "predict") for part in parts)


# -- the network inside ----------------------------------------------------------------------------


def _steps(model: Any) -> tuple[list[Any], Any]:
    """Return the transformers of a pipeline in order and the classifier at its end, also of nested
    pipelines.
    """
    from sklearn.pipeline import Pipeline

    model = _unwrapped(model)
    if not isinstance(model, Pipeline):
        return [], model
    # 'passthrough' and samplers do nothing in prediction.
    steps = [step for _, step in model.steps[:-1] if hasattr(step, "transform")]
    inner, last = _steps(model.steps[-1][1])
    return steps + inner, last


def _network(model: Any) -> tuple[nn.Module | None, str]:
    """Rebuild the classifier in torch, or return the reason why not."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier

    kind = type(model).__name__
    is_network = isinstance(model, MLPClassifier)
    if isinstance(model, LogisticRegression) or (is_network and len(model.coefs_) == 1):
        return None, f"This {kind} is a network without a hidden layer, so it has no neurons."
    if not is_network:
        return None, f"A {kind} is not a neural network: it can be queried, but has no neurons."
    return _copy(model), ""


def _copy(model: Any) -> nn.Sequential:
    """Copy the weights of an MLPClassifier into torch."""
    pieces: list[tuple[str, nn.Module]] = []
    for number, (weight, bias) in enumerate(zip(model.coefs_, model.intercepts_, strict=True), 1):
        layer = linear(_float32(weight.T), _float32(bias))
        if number == len(model.coefs_):
            last = nn.Sigmoid() if len(bias) == 1 else nn.Softmax(dim=1)
            pieces += [("output", layer), ("probability", last)]
            break
        pieces.append((f"linear{number}", layer))
        if model.activation in ACTIVATIONS:
            pieces.append((f"hidden{number}", ACTIVATIONS[model.activation]()))
    return nn.Sequential(OrderedDict(pieces)).eval()


def _float32(values: Any) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))


SKOPS = Format(
    name="skops",
    title="scikit-learn",
    about="A fitted classifier or pipeline, written by skops.io.dump.",
    given="file.skops",
    endings=(".skops",),
    white_box="yes, if it ends in an MLPClassifier with hidden layers",
    install="fairprobe[sklearn]",
    open=open_skops,
    write_back=write_skops,
    written="the same pipeline, its MLPClassifier with new weights",
)
