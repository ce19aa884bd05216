"""Reading .skops files: objects of known kinds only, and nothing of the file's own is run.

skops rebuilds an object from a list of types and arrays. It trusts the public estimators of
scikit-learn and the arrays of numpy and scipy; `ALSO_TRUSTED` is what fitted classifiers hold
besides. A type on neither list is refused by name.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np

from fairprobe.errors import ModelError, StorageError

# Each of these only holds numbers, text and other listed types; loading or calling it opens no file
# and starts no program.
ALSO_TRUSTED = frozenset(
    {
        "numpy.dtype",  # what an encoder gives back, and the kinds of a table's columns
        "collections.OrderedDict",
        "sklearn.utils._bunch.Bunch",  # a dict: the members of a voting or stacking classifier
        # momenta, left over from training an MLPClassifier
        "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
        "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
        "sklearn.calibration._CalibratedClassifier",
        "sklearn.calibration._SigmoidCalibration",
        "sklearn.calibration._TemperatureScaling",
        # looks at the kinds of columns while fitting
        "sklearn.compose._column_transformer.make_column_selector",
        "sklearn.compose._column_transformer._RemainderColsList",
        # scores of SelectKBest, only called while fitting
        "sklearn.feature_selection._univariate_selection.chi2",
        "sklearn.feature_selection._univariate_selection.f_classif",
        "sklearn.feature_selection._mutual_info.mutual_info_classif",
        # HistGradientBoosting's first step on categories. A partial only calls what is itself
        # listed, and this checks that an array is one.
        "functools.partial",
        "sklearn.utils.validation.check_array",
        # Nodes that point to each other and to columns by number. scikit-learn follows the numbers
        # unchecked, so `_check_trees` does it.
        "sklearn.tree._tree.Tree",
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
        # Their state is a model file, which the library reads with the same reader as from a disk.
        "lightgbm.sklearn.LGBMClassifier",
        "lightgbm.basic.Booster",
        "xgboost.sklearn.XGBClassifier",
        "xgboost.sklearn.XGBRFClassifier",
        "xgboost.core.Booster",
    }
)
OWN_CODE = "name your own code that makes it (--model my_code.py:function)"
CATEGORIES = 256  # a bitset of HistGradientBoosting has room for so many


def load_skops(path: Path) -> Any:
    """The object in a file written by `skops.io.dump`."""
    try:
        import skops.io
    except ImportError as error:
        raise ModelError(
            f'{path} needs skops to be read. Install it: pip install "fairprobe[sklearn]".'
        ) from error
    _look_at(path)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            unknown = sorted(set(skops.io.get_untrusted_types(file=path)) - ALSO_TRUSTED)
        except Exception as error:
            raise ModelError(
                f"{path} is no readable .skops file ({_words(error)}). Write it again with"
                " skops.io.dump."
            ) from error
        if unknown:
            raise ModelError(
                f"{path} holds {'a type that is' if len(unknown) == 1 else 'types that are'} not"
                " known to be harmless:"
                f" {', '.join(unknown[:8])}{' …' if len(unknown) > 8 else ''}. It is not opened; if"
                f" it is yours, {OWN_CODE}."
            )
        try:
            thing = skops.io.load(path, trusted=sorted(ALSO_TRUSTED))
            _check_trees(thing)
        except ModelError:
            raise
        except Exception as error:
            raise ModelError(
                f"The object in {path} cannot be rebuilt ({_words(error)}).{_versions(told)} Write"
                " it again with skops.io.dump."
            ) from error
    return thing


def _look_at(path: Path) -> None:
    if path.is_dir():
        raise StorageError(f"{path} is a folder. Name the .skops file in it.")
    if not path.exists():
        raise StorageError(
            f"There is no file {path}. Write one with skops.io.dump(model, '{path.name}')."
        )
    try:
        with ZipFile(path) as archive:
            names = archive.namelist()
    except BadZipFile as error:
        with path.open("rb") as file:
            is_pickle = file.read(1) == b"\x80"
        what = (
            "a pickle, and opening a pickle runs whatever program is in it"
            if is_pickle
            else "no .skops file, or one that is cut short"
        )
        raise ModelError(
            f"{path} is {what}. Write the model with skops.io.dump, or {OWN_CODE}."
        ) from error
    except OSError as error:
        raise StorageError(f"Cannot read {path}: {error.strerror or error}.") from error
    if "schema.json" not in names:
        raise ModelError(
            f"{path} is an archive, but none that skops wrote: it has no schema.json. Write it with"
            " skops.io.dump."
        )


def _words(error: BaseException) -> str:
    """The kind and first line of what a library complains about."""
    first = (str(error).strip().splitlines() or [""])[0][:200]
    return f"{type(error).__name__}: {first.rstrip('.')}" if first else type(error).__name__


def _versions(told: list[warnings.WarningMessage]) -> str:
    from sklearn.exceptions import InconsistentVersionWarning

    for one in told:
        if isinstance(one.message, InconsistentVersionWarning):
            old, now = one.message.original_sklearn_version, one.message.current_sklearn_version
            return f" It was saved with scikit-learn {old}, and this is {now}."
    return ""


# -- trees -----------------------------------------------------------------------------------------


def _check_trees(thing: Any) -> None:
    """Refuses decision trees whose nodes point outside of the tree, or to a column that is not
    there.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.ensemble._forest import BaseForest
    from sklearn.ensemble._gb import BaseGradientBoosting
    from sklearn.tree import BaseDecisionTree

    for part in _parts(thing, set()):
        if isinstance(part, BaseDecisionTree) and hasattr(part, "tree_"):
            tree = part.tree_
            inner = np.flatnonzero(tree.children_left != -1)
            _check_nodes(
                inner, tree.children_left[inner], tree.children_right[inner], tree.node_count
            )
            _expect(
                tree.n_features == part.n_features_in_
                and _within(tree.feature[inner], tree.n_features)
            )
        elif isinstance(part, BaseForest | BaseGradientBoosting) and hasattr(part, "estimators_"):
            grown = np.asarray(part.estimators_, dtype=object)
            _expect(
                all(
                    member.tree_.n_features == part.n_features_in_ == member.n_features_in_
                    for member in grown.flat
                )
            )
            if isinstance(part, BaseGradientBoosting):
                _expect(grown.ndim == 2 and grown.shape[1] == part.n_trees_per_iteration_)
        elif isinstance(part, HistGradientBoostingClassifier) and hasattr(part, "_predictors"):
            _check_hist(part)


def _check_hist(model: Any) -> None:
    mapper = model._bin_mapper
    categorical = np.asarray(mapper.is_categorical_, dtype=bool)
    _expect(categorical.shape == (model.n_features_in_,) and not getattr(model, "_in_fit", False))
    _expect(
        all(
            _within(mapper.bin_thresholds_[column], CATEGORIES)
            for column in np.flatnonzero(categorical)
        )
    )
    for predictor in (one for round_ in model._predictors for one in round_):
        nodes = predictor.nodes
        inner = np.flatnonzero(nodes["is_leaf"] == 0)
        splits = nodes[inner]
        _check_nodes(
            inner, splits["left"].astype(np.int64), splits["right"].astype(np.int64), len(nodes)
        )
        _expect(_within(splits["feature_idx"], model.n_features_in_))
        by_category = splits[splits["is_categorical"] != 0]
        _expect(bool(categorical[by_category["feature_idx"]].all()))
        _expect(
            _within(by_category["bitset_idx"], len(predictor.raw_left_cat_bitsets))
            and predictor.raw_left_cat_bitsets.shape[1:] == (8,)
        )


def _check_nodes(inner: Any, left: Any, right: Any, count: int) -> None:
    """Children come after their parent, so that a walk down always ends."""
    _expect(
        count > 0
        and all(bool((inner < child).all()) and _within(child, count) for child in (left, right))
    )


def _within(numbers: Any, end: int) -> bool:
    values = np.asarray(numbers)
    return bool(((values >= 0) & (values < end)).all())


def _expect(holds: bool) -> None:
    if not holds:
        raise ModelError(
            "The file holds a decision tree with nodes that lead nowhere: it is damaged. Write it"
            " again with skops.io.dump."
        )


def _parts(thing: Any, seen: set[int]) -> Iterator[Any]:
    """The object and everything it holds."""
    if isinstance(thing, str | bytes | int | float | type(None)) or id(thing) in seen:
        return
    seen.add(id(thing))
    yield thing
    held: list[Any] = []
    if isinstance(thing, dict):
        held += thing.values()
    elif isinstance(thing, list | tuple | set) or (
        isinstance(thing, np.ndarray) and thing.dtype == object
    ):
        held += thing.flat if isinstance(thing, np.ndarray) else thing
    held += vars(thing).values() if hasattr(thing, "__dict__") else []
    for part in held:
        yield from _parts(part, seen)
