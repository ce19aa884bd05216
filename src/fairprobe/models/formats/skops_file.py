"""Reading .skops files: objects of known types only, and no code of the file is run.

skops rebuilds an object from a list of types and arrays. It trusts the public estimators of
scikit-learn and the arrays of numpy and scipy; `ALSO_TRUSTED` lists what else fitted classifiers
hold. A type on neither list is refused by name.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np

from fairprobe.errors import ModelError
from fairprobe.models.formats.base import import_library
from fairprobe.models.formats.boosters import read_lightgbm, read_xgboost
from fairprobe.models.formats.file_checks import PICKLE, archive, check_exists, first_line
from fairprobe.models.formats.trees import LEAF, is_walkable, within
from fairprobe.storage import check_unpacked

POST_HOC = ("Average", "Thresholds", "Abstaining")
# Each of these only holds numbers, text and other listed types; loading or calling it opens no file
# and starts no program.
ALSO_TRUSTED = frozenset(
    {
        # fairprobe's own: settings, arrays that are checked, and the text of a schema
        *(
            f"fairprobe.repairs.estimators.{name}Classifier"
            for name in ("Counterfactual", "IIFR", "ALFR", "LAFTR", "CFAIR", "Blind", "Retrain")
        ),
        *(f"fairprobe.repairs.wrappers.{name}Classifier" for name in POST_HOC),
        "fairprobe.search.budget.Budget",
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
        # Their state is a model file, which `_check_boosters` looks at before the library reads it.
        "lightgbm.sklearn.LGBMClassifier",
        "lightgbm.basic.Booster",
        "xgboost.sklearn.XGBClassifier",
        "xgboost.sklearn.XGBRFClassifier",
        "xgboost.core.Booster",
    }
)
OWN_CODE = "name your own code that builds it (--model my_code.py:function)"
AGES = ("original", "current")  # versions in a warning of scikit-learn
CATEGORIES = 256  # a bitset of HistGradientBoosting has room for so many


def load_skops(path: Path) -> Any:
    """Load the object in a file written by `skops.io.dump`."""
    skops = import_library("skops.io", path.name, "fairprobe[sklearn]")
    _check_archive(path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            unknown = sorted(set(skops.get_untrusted_types(file=path)) - ALSO_TRUSTED)
        except Exception as error:
            raise ModelError(
                f"{path} is not a readable .skops file ({_words(error)}). Write it again with"
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
            _check_boosters(path)
            model = skops.load(path, trusted=sorted(ALSO_TRUSTED))
            _check_trees(model)
        except ModelError:
            raise
        except Exception as error:
            raise ModelError(
                f"The object in {path} cannot be rebuilt ({_words(error)}).{_versions(caught)}"
                " Write it again with skops.io.dump."
            ) from error
    return model


def _check_archive(path: Path) -> None:
    check_exists(path, ".skops file")
    with path.open("rb") as file:
        is_pickle = file.read(1) == b"\x80"
    if is_pickle:
        raise ModelError(f"{path} is {PICKLE}. Write the model with skops.io.dump, or {OWN_CODE}.")
    with archive(path, ".skops file") as content:
        check_unpacked(path, sum(entry.file_size for entry in content.infolist()))
        names = content.namelist()
    if "schema.json" not in names:
        raise ModelError(
            f"{path} is an archive that skops did not write: it has no schema.json. Write it with"
            " skops.io.dump."
        )


def _words(error: BaseException) -> str:
    """Return the type and first line of a library's error."""
    kind, first = type(error).__name__, first_line(error)
    return kind if first == kind else f"{kind}: {first}"


def _versions(caught: list[warnings.WarningMessage]) -> str:
    from sklearn.exceptions import InconsistentVersionWarning

    for warning in caught:
        if isinstance(warning.message, InconsistentVersionWarning):
            old, now = (
                warning.message.original_sklearn_version,
                warning.message.current_sklearn_version,
            )
            return f" It was saved with scikit-learn {old}; version {now} is installed."
    return ""


# -- trees -----------------------------------------------------------------------------------------


def _check_boosters(path: Path) -> None:
    """Refuse damaged models of XGBoost and LightGBM inside the file: the libraries follow numbers
    unchecked.
    """
    with ZipFile(path) as content:
        nodes = [json.loads(content.read("schema.json"))]
        while nodes:
            node = nodes.pop()
            if isinstance(node, dict):
                kind = f"{node.get('__module__')}.{node.get('__class__')}"
                if not node.get("content"):
                    pass  # a type, an object that is stored elsewhere, or no node
                elif kind == "xgboost.core.Booster":
                    held = node["content"]["content"]["handle"]
                    _expect(held["__loader__"] == "BytearrayNode")
                    read_xgboost(content.read(held["file"]), "XGBoosterUnserializeFromBuffer")
                elif kind == "lightgbm.basic.Booster":
                    state = node["content"]["content"]
                    _expect(state["_handle"]["__loader__"] == "JsonNode" and "handle" not in state)
                    read_lightgbm(json.loads(state["_handle"]["content"]))
                nodes += node.values()
            elif isinstance(node, list):
                nodes += node


def _check_trees(model: Any) -> None:
    """Refuse decision trees whose nodes point outside the tree or to a missing column."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.ensemble._forest import BaseForest
    from sklearn.ensemble._gb import BaseGradientBoosting
    from sklearn.tree import BaseDecisionTree

    for part in _parts(model, set()):
        if isinstance(part, BaseDecisionTree) and hasattr(part, "tree_"):
            tree, width = part.tree_, part.n_features_in_
            _expect(tree.n_features == width)
            _expect(is_walkable(tree.children_left, tree.children_right, tree.feature, width))
        elif isinstance(part, BaseForest | BaseGradientBoosting) and hasattr(part, "estimators_"):
            grown = np.asarray(part.estimators_, dtype=object)
            for member in grown.flat:
                _expect(member.tree_.n_features == part.n_features_in_ == member.n_features_in_)
            if isinstance(part, BaseGradientBoosting):
                _expect(grown.ndim == 2 and grown.shape[1] == part.n_trees_per_iteration_)
        elif isinstance(part, HistGradientBoostingClassifier) and hasattr(part, "_predictors"):
            _check_hist(part)


def _check_hist(model: Any) -> None:
    mapper = model._bin_mapper
    categorical = np.asarray(mapper.is_categorical_, dtype=bool)
    _expect(categorical.shape == (model.n_features_in_,) and not getattr(model, "_in_fit", False))
    for column in np.flatnonzero(categorical):
        _expect(within(mapper.bin_thresholds_[column], CATEGORIES))
    for predictor in (one for round_ in model._predictors for one in round_):
        nodes = predictor.nodes
        splits, bitsets = nodes[nodes["is_leaf"] == 0], predictor.raw_left_cat_bitsets
        left, right = (
            np.where(nodes["is_leaf"] == 0, nodes[side].astype(np.int64), LEAF)
            for side in ("left", "right")
        )
        _expect(is_walkable(left, right, nodes["feature_idx"], model.n_features_in_))
        by_category = splits[splits["is_categorical"] != 0]
        _expect(bool(categorical[by_category["feature_idx"]].all()))
        _expect(within(by_category["bitset_idx"], len(bitsets)) and bitsets.shape[1:] == (8,))


def _expect(holds: bool) -> None:
    if not holds:
        raise ModelError(
            "The file holds a decision tree with nodes that lead nowhere: it is damaged. Write it"
            " again with skops.io.dump."
        )


def _parts(value: Any, seen: set[int]) -> Iterator[Any]:
    """Yield the object and everything it holds."""
    if isinstance(value, str | bytes | int | float | type(None)) or id(value) in seen:
        return
    seen.add(id(value))
    yield value
    held = list(vars(value).values()) if hasattr(value, "__dict__") else []
    if isinstance(value, dict):
        held += value.values()
    elif isinstance(value, list | tuple | set):
        held += value
    elif isinstance(value, np.ndarray) and value.dtype == object:
        held += value.flat
    for part in held:
        yield from _parts(part, seen)
