"""CatBoost models from .cbm and JSON files: tree ensembles, so they are black boxes.

CatBoost follows the offsets of a damaged file unchecked, and crashes. So a file is read and run in
a process of its own first; what ends that process is not opened in this one.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd

from fairprobe.errors import ModelError
from fairprobe.models.formats.base import Format, Opened, import_library
from fairprobe.models.formats.file_checks import check_exists, first_line

CLASSIFIERS = ("Logloss", "CrossEntropy", "MultiClass", "MultiClassOneVsAll")
LOAD_SECONDS = 120
MARKS = (b'"oblivious_trees"', b'"catboost_version_info"')  # of a JSON file
# Reads a file and asks about rows of many values and words.
TRY = """
import sys
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


def is_catboost(content: bytes) -> bool:
    """Whether a JSON file is CatBoost's."""
    return any(mark in content for mark in MARKS)


def open_catboost(path: Path) -> Opened:
    """A CatBoost classifier that `save_model` wrote as .cbm or JSON."""
    catboost = import_library("catboost", path.name, CATBOOST.install)
    check_exists(path, "CatBoost model")
    form = "json" if path.suffix.lower() == ".json" else "cbm"
    _try_apart(path, form)
    model = catboost.CatBoostClassifier()
    try:
        model.load_model(str(path), format=form)
        loss = str(model.get_all_params().get("loss_function", "")).partition(":")[0]
    except (catboost.CatBoostError, ValueError, KeyError) as error:
        raise _unreadable(path, first_line(error)) from error
    if loss not in CLASSIFIERS:
        raise ModelError(
            f"{path} was trained for '{loss or 'an objective of its own'}', which gives no class"
            f" probabilities; expected {', '.join(CLASSIFIERS)}. Only classifiers can be audited; a"
            " regressor needs a function that turns its score into a probability."
        )
    if model.get_text_feature_indices() or model.get_embedding_feature_indices():
        raise ModelError(
            f"{path} takes free text or embeddings, which a table of people does not have. Name"
            " your own code that calls it (module:function)."
        )
    names = tuple(model.feature_names_)
    places = model.get_cat_feature_indices()
    words = [names[place] for place in places]

    def predict(x: Any) -> Any:
        given = _worded(x, names, words) if words else x
        return model.predict_proba(given, thread_count=1)

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
        why=(
            "A CatBoost model is a set of trees, not a neural network: it can be queried, but has"
            " no neurons."
        ),
    )


def _try_apart(path: Path, form: str) -> None:
    """Read and run a file in a process of its own, which a damaged one may end."""
    command = [sys.executable, "-I", "-c", TRY, str(path.resolve()), form]
    try:
        done = subprocess.run(command, capture_output=True, timeout=LOAD_SECONDS, check=False)  # noqa: S603  (our own program)
    except subprocess.TimeoutExpired as error:
        raise _unreadable(path, f"reading it took more than {LOAD_SECONDS} seconds") from error
    if done.returncode < 0:
        raise _unreadable(path, "it is damaged")
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise _unreadable(path, first_line(said.partition(": ")[2] or said))


def _unreadable(path: Path, why: str) -> ModelError:
    return ModelError(
        f"CatBoost cannot read {path}: {why}. Write it again with save_model('model.cbm')."
    )


def _worded(frame: pd.DataFrame, names: tuple[str, ...], words: list[str]) -> pd.DataFrame:
    """The model's columns in its order; categories are text, as CatBoost wants them."""
    if missing := [name for name in names if name not in frame.columns]:
        raise ModelError(
            f"The model was trained with the column{'s' * (len(missing) > 1)} {', '.join(missing)},"
            " which the table does not have."
        )
    return frame[list(names)].astype(dict.fromkeys(words, str))


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
