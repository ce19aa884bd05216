"""Fitted scikit-learn classifiers, and everything that behaves like one: XGBoost, LightGBM,
ensembles, whole pipelines.

An `MLPClassifier` is a neural network, so its weights are copied into torch and can be looked into.
Everything else is a black box.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from fairprobe.arrays import Rows
from fairprobe.errors import ModelError
from fairprobe.models.formats.opened import Opened
from fairprobe.models.scale import Scale

if TYPE_CHECKING:
    from sklearn.neural_network import MLPClassifier

SAME = 1e-4  # in probability, between the copy in torch and the classifier itself
TRIED = 256  # random rows on which they are compared

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "logistic": nn.Sigmoid}


def open_skops(path: Path) -> Opened:
    """A classifier from a file written by `skops.io.dump`."""
    from fairprobe.models.formats.skops_file import load_skops

    return open_estimator(load_skops(path), name=path.name)


def open_encoder_skops(path: Path) -> Callable[[pd.DataFrame], Rows]:
    """A fitted preprocessor from a file written by `skops.io.dump`."""
    from fairprobe.models.formats.skops_file import load_skops

    return open_encoder_object(load_skops(path))


def open_estimator(estimator: Any, *, name: str | None = None) -> Opened:
    """A fitted classifier with `predict_proba`.

    A pipeline that was fitted on a DataFrame takes words; so does any other classifier that was
    fitted on columns of words, or has steps of its own for them. The rest take numbers.
    """
    from sklearn.pipeline import Pipeline

    _check_usable(estimator)
    classes = _classes(estimator)
    model = _unwrapped(estimator)
    names = _feature_names(model)
    steps, last = _steps(model)
    if isinstance(model, Pipeline):
        takes_words = names is not None or _width(model) is None
    else:
        takes_words = names is not None and _was_given_words(model)
    network, why = _network(last, [] if takes_words else steps)
    encode = _encoding(steps, names) if takes_words and isinstance(model, Pipeline) else None
    kind = type(last).__name__
    return Opened(
        kind=f"Pipeline with {kind}" if isinstance(model, Pipeline) else kind,
        name=name or type(estimator).__name__,
        takes="words" if takes_words else "numbers",
        ask=_asking_words(model, names) if takes_words else _asking_numbers(model, names),
        width=_width(model),
        columns=names,
        classes=classes,
        network=network,
        encode=encode,
        outputs="probabilities",
        why=why,
    )


def open_encoder_object(thing: Any) -> Callable[[pd.DataFrame], Rows]:
    """A fitted preprocessor as a function from a DataFrame to the float32 table that it makes."""
    kind = type(thing).__name__
    if not callable(getattr(thing, "transform", None)):
        told = (
            "It is a classifier: give it as the model."
            if hasattr(thing, "predict_proba")
            else "Give a fitted ColumnTransformer or Pipeline."
        )
        raise ModelError(f"An encoder needs a method 'transform'; {kind} has none. {told}")
    _check_fitted(thing, kind)
    return _encoding([thing], _feature_names(thing))


def dense(answer: Any, rows: int, what: str) -> Rows:
    """What an encoder answered as a float32 array (rows, width), or an error that says what is
    wrong with it.
    """
    plain = (
        answer.toarray()
        if hasattr(answer, "toarray")
        else answer.detach().cpu()
        if isinstance(answer, Tensor)
        else answer
    )
    try:
        table = np.asarray(plain, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise ModelError(
            f"{what} must make numbers of every column: {str(error).rstrip('.')}. Encode words as"
            " numbers, too."
        ) from error
    if table.ndim != 2 or len(table) != rows:
        raise ModelError(
            f"{what} made shape {table.shape} of {rows} rows; expected a table ({rows}, columns)."
        )
    return table


# -- is it a classifier? ---------------------------------------------------------------------------


def _check_usable(estimator: Any) -> None:
    kind = estimator.__name__ if isinstance(estimator, type) else type(estimator).__name__
    if isinstance(estimator, type):
        raise ModelError(
            f"{kind} is a class, not a fitted classifier. Make one, fit it, and give that."
        )
    _check_fitted(estimator, kind)
    if not callable(getattr(estimator, "predict_proba", None)):
        raise ModelError(
            f"{kind} gives no class probabilities: it has no method 'predict_proba'."
            f" {_instead(estimator)}"
        )


def _instead(estimator: Any) -> str:
    if not hasattr(estimator, "predict"):
        return "If it prepares the data for a model, give it as the encoder."
    if not hasattr(estimator, "classes_"):
        return (
            "Only classifiers can be audited; a regressor needs a function that turns its score"
            " into a probability."
        )
    return (
        "Fit it with probability=True where it has that option, or wrap it in a"
        " CalibratedClassifierCV."
    )


def _check_fitted(thing: Any, kind: str) -> None:
    from sklearn.base import BaseEstimator
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    # An object from elsewhere may keep what it learnt under names of its own, so only
    # scikit-learn's kind is asked.
    if isinstance(thing, BaseEstimator):
        try:
            check_is_fitted(thing)
        except NotFittedError as error:
            raise ModelError(
                f"This {kind} has not been fitted yet. Call its fit(X, y) first, and give the"
                " fitted object."
            ) from error


def _classes(estimator: Any) -> tuple[str, ...] | None:
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        return None
    kind = type(estimator).__name__
    if np.ndim(classes[0]) or getattr(
        getattr(estimator, "_label_binarizer", None), "y_type_", ""
    ).startswith("multilabel"):
        raise ModelError(
            f"{kind} answers several questions at once (multi-label or multi-output). Give a"
            " classifier for one of them."
        )
    if len(classes) < 2:
        raise ModelError(
            f"{kind} was fitted on a single class ({classes[0]}), so it treats everybody alike. Fit"
            " it on two or more."
        )
    return tuple(str(one) for one in classes)


def _unwrapped(estimator: Any) -> Any:
    """A search over settings or a frozen classifier does nothing but pass on what the classifier
    inside answers.
    """
    from sklearn.frozen import FrozenEstimator
    from sklearn.model_selection._search import BaseSearchCV

    if isinstance(estimator, BaseSearchCV):
        return _unwrapped(estimator.best_estimator_)
    return _unwrapped(estimator.estimator) if isinstance(estimator, FrozenEstimator) else estimator


# -- asking ----------------------------------------------------------------------------------------


def _feature_names(model: Any) -> tuple[str, ...] | None:
    """The columns that it needs: those of the fit, without those that a ColumnTransformer drops (an
    id, or even the label).
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
        dropped = {
            name
            for name, step, _ in first.transformers_
            if isinstance(step, str) and step == "drop"
        }
        kept = {
            place
            for name, places in first._transformer_to_input_indices.items()
            if name not in dropped
            for place in places
        }
        names = [name for place, name in enumerate(names) if place in kept]
    return tuple(str(name) for name in names)


def _width(model: Any) -> int | None:
    width = getattr(model, "n_features_in_", None)
    return None if width is None else int(width)


def _asking_numbers(model: Any, names: tuple[str, ...] | None) -> Callable[[Rows], Any]:
    def ask(x: Rows) -> Any:
        return model.predict_proba(x if names is None else pd.DataFrame(x, columns=list(names)))

    return ask


def _asking_words(model: Any, names: tuple[str, ...] | None) -> Callable[[pd.DataFrame], Any]:
    from fairprobe.models.formats.boosters import categories_of

    categories = categories_of(model)

    def ask(frame: pd.DataFrame) -> Any:
        table = _select(frame, names, type(model).__name__)
        for name, known in categories.items():
            table = table.assign(**{name: pd.Categorical(table[name], categories=known)})
        return model.predict_proba(table)

    return ask


def _encoding(steps: list[Any], names: tuple[str, ...] | None) -> Callable[[pd.DataFrame], Rows]:
    """The steps one after the other, as a pipeline does it."""
    what = type(steps[0]).__name__ if len(steps) == 1 else "The pipeline"
    plain = (
        bool(steps) and names is None and _width(steps[0]) is not None
    )  # fitted on an array, so it is given one

    def encode(frame: pd.DataFrame) -> Rows:
        table: Any = frame.to_numpy() if plain else _select(frame, names, what)
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
    """The columns in the order of the fit; scikit-learn insists on it."""
    if names is None:
        return frame
    if missing := [name for name in names if name not in frame.columns]:
        raise ModelError(
            f"{what} was fitted with the column{'s' * (len(missing) > 1)} {', '.join(missing)},"
            " which the table does not have."
        )
    return frame[list(names)]


def _was_given_words(model: Any) -> bool:
    """Whether a classifier that was fitted on a DataFrame takes categories itself, or holds steps
    that may turn them into numbers.
    """
    from sklearn.base import BaseEstimator

    from fairprobe.models.formats.boosters import categories_of

    if np.any(getattr(model, "is_categorical_", None)) or categories_of(model):
        return True
    parts = model.get_params(deep=True).values() if isinstance(model, BaseEstimator) else ()
    return any(hasattr(part, "transform") and not hasattr(part, "predict") for part in parts)


# -- looking into it -------------------------------------------------------------------------------


def _steps(model: Any) -> tuple[list[Any], Any]:
    """The transformers of a pipeline in order and the classifier at its end, whatever is nested in
    what.
    """
    from sklearn.pipeline import Pipeline

    model = _unwrapped(model)
    if not isinstance(model, Pipeline):
        return [], model
    steps = [
        step for _, step in model.steps[:-1] if hasattr(step, "transform")
    ]  # 'passthrough', and samplers, do nothing here
    inner, last = _steps(model.steps[-1][1])
    return steps + inner, last


def _network(model: Any, steps: list[Any]) -> tuple[nn.Module | None, str]:
    """The classifier in torch, behind steps that scale numbers; or why that cannot be."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier

    kind = type(model).__name__
    if isinstance(model, LogisticRegression) or (
        isinstance(model, MLPClassifier) and len(model.coefs_) == 1
    ):
        return (
            None,
            f"This {kind} is a network without a hidden layer, so there are no neurons to look at.",
        )
    if not isinstance(model, MLPClassifier):
        return None, f"A {kind} is no neural network: it can be asked, but not looked into."
    scales = [_scale(step) for step in _flat(steps)]
    for step, scale in zip(_flat(steps), scales, strict=True):
        if scale is None:
            return (
                None,
                (
                    f"The step {type(step).__name__} before the {kind} is more than a scaling of"
                    " each column."
                ),
            )
    network = nn.Sequential(
        OrderedDict(
            [
                *(
                    (f"scale{number}", scale)
                    for number, scale in enumerate(scales, start=1)
                    if scale is not None
                ),
                *_pieces(model),
            ]
        )
    ).eval()
    gap = _gap(network, model, _flat(steps))
    if not gap <= SAME:  # a gap of NaN is one, too
        return (
            None,
            f"Its copy in torch answers differently from the {kind} itself, by up to {gap:.2g}.",
        )
    return network, ""


def _pieces(model: MLPClassifier) -> list[tuple[str, nn.Module]]:
    widths = [len(model.coefs_[0]), *(len(b) for b in model.intercepts_)]
    pieces: list[tuple[str, nn.Module]] = []
    for number, (before, after) in enumerate(pairwise(widths), start=1):
        linear = nn.Linear(before, after, device="meta").to_empty(
            device="cpu"
        )  # draws no random weights
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(np.ascontiguousarray(model.coefs_[number - 1].T)))
            linear.bias.copy_(torch.from_numpy(np.asarray(model.intercepts_[number - 1])))
        if number == len(model.coefs_):
            last = nn.Sigmoid() if after == 1 else nn.Softmax(dim=1)
            return [*pieces, ("output", linear), ("probability", last)]
        pieces.append((f"linear{number}", linear))
        if model.activation in ACTIVATIONS:
            pieces.append((f"hidden{number}", ACTIVATIONS[model.activation]()))
    return pieces


def _gap(network: nn.Module, model: MLPClassifier, steps: list[Any]) -> float:
    """The greatest difference in probability on random rows, which are scaled back so that the
    classifier sees plain ones.
    """
    rows = np.random.default_rng(0).normal(size=(TRIED, len(model.coefs_[0]))).astype(np.float32)
    theirs = _asking_numbers(model, _feature_names(model))(rows)
    for step in reversed(steps):
        rows = step.inverse_transform(rows)
    with torch.no_grad():
        ours = network(torch.from_numpy(rows.astype(np.float32))).numpy()
    return float(
        np.abs(ours[:, -1] - theirs[:, -1]).max()
        if ours.shape[1] == 1
        else np.abs(ours - theirs).max()
    )


def _flat(steps: list[Any]) -> list[Any]:
    """Pipelines among the steps taken apart."""
    from sklearn.pipeline import Pipeline

    flat: list[Any] = []
    for step in steps:
        if isinstance(step, Pipeline):
            flat += _flat([inner for _, inner in step.steps if hasattr(inner, "transform")])
        else:
            flat.append(step)
    return flat


def _scale(step: Any) -> Scale | None:
    """A scaler as `(z − middle) · factor`, or None if it is anything else."""
    from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

    if type(step) not in (MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler) or getattr(
        step, "clip", False
    ):
        return None
    middle, factor = np.zeros(step.n_features_in_), np.ones(step.n_features_in_)
    if isinstance(step, MinMaxScaler):
        middle, factor = -step.min_ / step.scale_, step.scale_
    elif step.scale_ is not None:
        factor = 1 / step.scale_
    if isinstance(step, StandardScaler) and step.with_mean:
        middle = step.mean_
    elif isinstance(step, RobustScaler) and step.with_centering:
        middle = step.center_
    return Scale(
        torch.from_numpy(middle.astype(np.float32)), torch.from_numpy(factor.astype(np.float32))
    )
