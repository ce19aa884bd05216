"""Model files of XGBoost and LightGBM: the same probabilities as the classifier that wrote them,
and no crash on a damaged file.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import pytest
import skops.io
import xgboost
from sklearn.ensemble import StackingClassifier, VotingClassifier

from fairprobe.errors import ModelError
from fairprobe.models.formats.boosters import open_lightgbm, open_xgboost, read_xgboost
from fairprobe.models.formats.skops_file import load_skops
from fairprobe.models.load import open_model

RNG = np.random.default_rng(5)
N = 200
WORDS = pd.DataFrame(
    {
        "age": RNG.integers(18, 80, N).astype(float),
        "sex": RNG.choice(["female", "male"], N),
        "grade": RNG.choice([3, 5, 9], N),
        "hours": RNG.normal(40, 10, N),
    }
)
CATEGORICAL = WORDS.astype({"sex": "category", "grade": "category"})
NUMBERS = WORDS[["age", "hours"]]
ARRAY = NUMBERS.to_numpy()
BINARY = (
    (WORDS["age"] + 20 * (WORDS["sex"] == "male") + 4 * WORDS["grade"] > 80).astype(int).to_numpy()
)
THREE = np.digitize(WORDS["age"], [35, 60])


def xgb(**settings: Any) -> xgboost.XGBClassifier:
    return xgboost.XGBClassifier(n_estimators=4, max_depth=3, n_jobs=1, **settings)


def lgbm(**settings: Any) -> Any:
    return lightgbm.LGBMClassifier(
        n_estimators=4, min_child_samples=5, verbose=-1, n_jobs=1, **settings
    )


def softmax(scores: Any) -> Any:
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


# -- the same answers ------------------------------------------------------------------------------


def saved(model: Any, path: Path) -> Path:
    if isinstance(model, lightgbm.LGBMClassifier):
        model.booster_.save_model(path)
    else:
        model.save_model(path)
    return path


def gblinear() -> Any:
    return xgboost.XGBClassifier(booster="gblinear", n_estimators=4, n_jobs=1)


bagged = {"boosting_type": "rf", "subsample": 0.7, "subsample_freq": 1}
# What is trained, on which table and labels, and in which files it can be.
CLASSIFIERS: dict[str, tuple[Callable[[], Any], Any, Any, str]] = {
    "xgboost": (xgb, NUMBERS, BINARY, ".json .ubj"),
    "xgboost, three classes": (xgb, NUMBERS, THREE, ".json .ubj"),
    "xgboost, no names": (xgb, ARRAY, BINARY, ".json"),
    "xgboost, categories": (
        lambda: xgb(enable_categorical=True),
        CATEGORICAL,
        BINARY,
        ".json .ubj",
    ),
    "xgboost, dart": (lambda: xgb(booster="dart"), ARRAY, BINARY, ".ubj"),
    "xgboost, linear": (gblinear, ARRAY, BINARY, ".ubj"),
    "lightgbm": (lgbm, NUMBERS, BINARY, ".txt"),
    "lightgbm, three classes": (lgbm, NUMBERS, THREE, ".txt"),
    "lightgbm, no names": (lgbm, ARRAY, THREE, ".txt"),
    "lightgbm, words": (lgbm, CATEGORICAL, BINARY, ".txt"),
    "lightgbm, forest": (lambda: lgbm(**bagged), ARRAY, BINARY, ".txt"),
    "lightgbm, dart": (lambda: lgbm(boosting_type="dart"), ARRAY, BINARY, ".txt"),
    "lightgbm, goss": (lambda: lgbm(boosting_type="goss"), ARRAY, BINARY, ".txt"),
    "lightgbm, leaves": (lambda: lgbm().set_params(min_child_samples=N), ARRAY, BINARY, ".txt"),
}


@pytest.mark.parametrize(
    ("name", "suffix"),
    [(name, suffix) for name, case in CLASSIFIERS.items() for suffix in case[3].split()],
)
def test_a_file_answers_as_its_classifier(name: str, suffix: str, tmp_path: Path) -> None:
    make, table, labels, _ = CLASSIFIERS[name]
    model = make().fit(table, labels)
    opened = open_model(saved(model, tmp_path / f"model{suffix}"))
    names = None if table is ARRAY else tuple(table.columns)
    takes = "words" if table is CATEGORICAL else "numbers"
    expected = (takes, table.shape[1], names, "probabilities")
    assert (opened.takes, opened.width, opened.columns, opened.outputs) == expected
    assert opened.network is None
    assert "trees" in opened.why
    given = WORDS.iloc[:, ::-1] if takes == "words" else ARRAY
    theirs, ours = model.predict_proba(table), opened.predict(given)
    np.testing.assert_allclose(ours, theirs[:, 1] if ours.ndim == 1 else theirs, atol=1e-6)
    if takes == "words":
        with pytest.raises(ModelError, match="column sex"):
            opened.predict(WORDS.drop(columns="sex"))


def test_xgboost_objectives_that_answer_scores_or_classes_are_asked_for_scores(
    tmp_path: Path,
) -> None:
    data = xgboost.DMatrix(ARRAY, label=BINARY)
    xgboost.train({"objective": "binary:logitraw", "nthread": 1}, data, 4).save_model(
        tmp_path / "raw.json"
    )
    opened = open_xgboost(tmp_path / "raw.json")
    assert (opened.outputs, opened.columns) == ("logits", None)
    labelled = xgboost.train(
        {"objective": "multi:softmax", "num_class": 3, "nthread": 1},
        xgboost.DMatrix(ARRAY, label=THREE),
        4,
    )
    labelled.save_model(tmp_path / "classes.json")
    opened = open_xgboost(tmp_path / "classes.json")
    assert opened.outputs == "logits"
    np.testing.assert_array_equal(
        softmax(opened.predict(ARRAY)).argmax(axis=1), labelled.predict(xgboost.DMatrix(ARRAY))
    )


def test_xgboost_with_early_stopping_answers_up_to_the_best_round(tmp_path: Path) -> None:
    noise = RNG.integers(0, 2, N)
    model = xgboost.XGBClassifier(n_estimators=40, early_stopping_rounds=2, n_jobs=1)
    model.fit(ARRAY[:100], noise[:100], eval_set=[(ARRAY[100:], noise[100:])], verbose=False)
    model.save_model(tmp_path / "stopped.json")
    np.testing.assert_allclose(
        open_xgboost(tmp_path / "stopped.json").predict(ARRAY),
        model.predict_proba(ARRAY)[:, 1],
        atol=1e-6,
    )


def test_the_binary_form_says_the_same_as_json(tmp_path: Path) -> None:
    model = xgb(enable_categorical=True).fit(CATEGORICAL, BINARY)
    for suffix in ("json", "ubj"):
        model.save_model(tmp_path / f"model.{suffix}")
    written = read_xgboost((tmp_path / "model.ubj").read_bytes())
    assert written == json.loads((tmp_path / "model.json").read_text())


# -- files that are no model -----------------------------------------------------------------------


def test_regressors_answer_with_amounts_and_rankers_are_refused(tmp_path: Path) -> None:
    xgboost.XGBRegressor(n_estimators=2, n_jobs=1).fit(ARRAY, BINARY).save_model(
        tmp_path / "model.json"
    )
    assert open_xgboost(tmp_path / "model.json").outputs == "amounts"
    lightgbm.LGBMRegressor(n_estimators=2, verbose=-1, n_jobs=1).fit(
        ARRAY, BINARY
    ).booster_.save_model(tmp_path / "model.txt")
    assert open_lightgbm(tmp_path / "model.txt").outputs == "amounts"
    xgboost.XGBRanker(n_estimators=2, n_jobs=1).fit(
        ARRAY, BINARY, qid=np.zeros(len(ARRAY), dtype=int)
    ).save_model(tmp_path / "model.json")
    with pytest.raises(ModelError, match="'rank:ndcg', which gives neither class probabilities"):
        open_xgboost(tmp_path / "model.json")


def test_json_that_is_no_model_is_refused(tmp_path: Path) -> None:
    for text in (
        "{}",
        '{"learner": {}}',
        '{"learner": [1]}',
        '{"learner"',
        "[]",
        '{"a": 1}',
        "{" * 5000,
    ):
        (tmp_path / "model.json").write_text(text)
        with pytest.raises(ModelError) as caught:
            open_xgboost(tmp_path / "model.json")
        assert "\n" not in str(caught.value)


def tree(learner: Any, number: int = 0) -> Any:
    booster = learner["gradient_booster"]
    return booster.get("gbtree", booster)["model"]["trees"][number]


def node(field: str, at: int, value: Any) -> Callable[[Any], Any]:
    """Change a number of the first tree."""
    return lambda learner: tree(learner)[field].__setitem__(at, value)


def forest(field: str, value: Any) -> Callable[[Any], Any]:
    return lambda learner: learner["gradient_booster"]["model"].update({field: value})


def about(**values: str) -> Callable[[Any], Any]:
    return lambda learner: learner["learner_model_param"].update(values)


# What is changed in the model, and what is said; the library's own reader ends the process at most
# of these, or follows the numbers wherever they lead.
XGBOOST_DAMAGE: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a child far away": (node("left_children", 0, 10**6), ""),
    "a negative child": (node("right_children", 0, -7), ""),
    "a tree that is its own child": (node("left_children", 0, 0), ""),
    "a column that does not exist": (node("split_indices", 0, 99), "lead nowhere"),
    "an infinite child": (node("left_children", 0, 1e400), ""),
    "a child that is text": (node("right_children", 0, "x"), ""),
    "a class far away": (forest("tree_info", [0, 0, 10**30, 0]), ""),
    "a class too many": (forest("tree_info", [0, 0, 1, 0]), "belong to one of its classes"),
    "a negative class": (forest("tree_info", [0, 0, -1, 0]), "belong to one of its classes"),
    "half a class": (forest("tree_info", [0, 0, 0.5, 0]), ""),
    "a class too few": (forest("tree_info", [0, 0, 0]), ""),
    "a round far away": (forest("iteration_indptr", [0, 1, 2, 3, 10**9]), ""),
    "rounds in disorder": (forest("iteration_indptr", [0, 3, 1, 2, 4]), "divided into rounds"),
    "no rounds": (forest("iteration_indptr", []), ""),
    "a number twice": (lambda learner: tree(learner, 1).update(id=0), ""),
    "a condition too few": (lambda learner: tree(learner)["split_conditions"].pop(), ""),
    "a size below zero": (
        lambda learner: tree(learner)["tree_param"].update(size_leaf_vector="-1"),
        "",
    ),
    "targets below zero": (about(num_target="-1"), ""),
    "two billion classes": (about(num_class="2147483647"), ""),
    "columns without end": (about(num_feature=str(2**70)), ""),
}
LINEAR_DAMAGE = {
    "a weight too few": (
        lambda learner: learner["gradient_booster"]["model"]["weights"].pop(),
        "does not have 3 weights for each class",
    ),
}
DART_DAMAGE = {
    "a tree without weight": (
        lambda learner: learner["gradient_booster"]["weight_drop"].pop(),
        "4 trees and 3 weights",
    ),
}
CATEGORY_DAMAGE = {
    "a category far away": (node("categories", 0, 2**30), "lead nowhere"),
    "a category below zero": (node("categories", 0, -(2**30)), ""),
}


@pytest.fixture(scope="module")
def boosted() -> dict[str, bytes]:
    """Models of XGBoost as JSON."""
    sets = xgb(enable_categorical=True, max_cat_to_onehot=1).fit(CATEGORICAL, BINARY)
    linear = xgboost.XGBClassifier(booster="gblinear", n_estimators=2, n_jobs=1)
    models = {
        "trees": xgb().fit(ARRAY, BINARY),
        "dart": xgb(booster="dart").fit(ARRAY, BINARY),
        "linear": linear.fit(ARRAY, BINARY),
        "sets": sets,
    }
    return {name: bytes(each.get_booster().save_raw("json")) for name, each in models.items()}


@pytest.mark.parametrize(
    ("model", "change", "said"),
    [
        pytest.param(model, *entry, id=f"{model}: {name}")
        for model, table in {
            "trees": XGBOOST_DAMAGE,
            "linear": LINEAR_DAMAGE,
            "dart": DART_DAMAGE,
            "sets": CATEGORY_DAMAGE,
        }.items()
        for name, entry in table.items()
    ],
)
def test_damaged_xgboost_files_are_refused(
    boosted: dict[str, bytes], model: str, change: Callable[[Any], Any], said: str, tmp_path: Path
) -> None:
    content = json.loads(boosted[model])
    change(content["learner"])
    (tmp_path / "model.json").write_text(json.dumps(content))
    with pytest.raises(ModelError, match=f"XGBoost cannot read .*{said}") as caught:
        open_xgboost(tmp_path / "model.json")
    assert "\n" not in str(caught.value)


# In a LightGBM file of columns with categories, or of three classes: what is replaced by what.
LIGHTGBM_DAMAGE: list[tuple[Any, str, str, str]] = [
    (BINARY, "left_child=", "left_child=999", "cannot read"),
    (BINARY, "split_feature=", "split_feature=9 ", "cannot read"),
    (BINARY, "num_leaves=", "num_leaves=9", "cannot read"),
    (BINARY, "max_feature_idx=3", "max_feature_idx=7", "cannot read"),
    (BINARY, "leaf_value=", "leaf_value=x", "cannot read"),
    (BINARY, "num_tree_per_iteration=1", "num_tree_per_iteration=3", "number of its classes"),
    (BINARY, "cat_boundaries=0", "cat_boundaries=5", "lead nowhere"),
    (BINARY, "end of trees", "end", "ends too early"),
    (BINARY, "threshold=", "shreshold=", "cannot read"),
    (BINARY, "objective=binary", "objective=%n%n", "Unknown objective"),
    (BINARY, "tree\n", "bush\n", "first line is not 'tree'"),
    (THREE, "objective=multiclass num_class:3", "objective=multiclass num_class:5", "its classes"),
    (
        THREE,
        "objective=multiclass num_class:3",
        "objective=multiclass num_class:99999999",
        "cannot read",
    ),
    (THREE, "\nnum_class=3", "\nnum_class=1", "cannot read"),
    (THREE, "\nnum_class=3", "\nnum_class=-1", "cannot read"),
]


@pytest.mark.parametrize(("labels", "old", "new", "message"), LIGHTGBM_DAMAGE)
def test_damaged_lightgbm_files_are_refused(
    labels: Any, old: str, new: str, message: str, tmp_path: Path
) -> None:
    text = lgbm().fit(CATEGORICAL, labels).booster_.model_to_string()
    assert old in text
    (tmp_path / "model.txt").write_text(text.replace(old, new))
    with pytest.raises(ModelError, match=message) as caught:
        open_lightgbm(tmp_path / "model.txt")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("suffix", ["json", "ubj", "txt"])
def test_a_file_cut_short_anywhere_or_with_wrong_bytes_never_ends_the_program(
    suffix: str, tmp_path: Path
) -> None:
    """The libraries' own readers crash on a good part of these."""
    path = tmp_path / f"model.{suffix}"
    if suffix == "txt":
        lgbm().fit(ARRAY, BINARY).booster_.save_model(path)
    else:
        xgb().fit(ARRAY, BINARY).save_model(path)
    opener = open_lightgbm if suffix == "txt" else open_xgboost
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    end = whole.index(b"end of parameters") if suffix == "txt" else len(whole)
    for share in np.linspace(0.01, 0.99, 25):
        path.write_bytes(whole[: int(end * share)])
        with pytest.raises(ModelError) as caught:
            opener(path)
        assert "\n" not in str(caught.value)
    for _ in range(40):
        damaged = bytearray(whole)
        damaged[rng.integers(0, end)] = rng.integers(0, 256)
        path.write_bytes(damaged)
        try:
            answer = opener(path).predict(ARRAY)
        except ModelError:
            continue
        assert len(answer) == N


# -- inside other files ----------------------------------------------------------------------------


def in_skops(path: Path, model: Any, old: bytes = b"", new: bytes = b"") -> Path:
    """A .skops file of the model in which something has been replaced."""
    with (
        zipfile.ZipFile(io.BytesIO(skops.io.dumps(model))) as good,
        zipfile.ZipFile(path, "w") as bad,
    ):
        records = {name: good.read(name) for name in good.namelist()}
        assert any(old in content for content in records.values())
        for name, content in records.items():
            bad.writestr(name, content.replace(old, new) if old else content)
    return path


def test_boosters_in_a_skops_file_answer_as_before(tmp_path: Path) -> None:
    members = [("a", xgb()), ("b", lgbm())]
    for model, x in (
        (VotingClassifier(members, voting="soft").fit(ARRAY, THREE), ARRAY),
        (StackingClassifier(members, cv=2).fit(ARRAY, BINARY), ARRAY),
        (xgb(enable_categorical=True).fit(CATEGORICAL, BINARY), CATEGORICAL),
        (lgbm().fit(CATEGORICAL, BINARY), CATEGORICAL),
    ):
        again = load_skops(in_skops(tmp_path / "model.skops", model))
        np.testing.assert_array_equal(again.predict_proba(x), model.predict_proba(x))


SIZE = b"L" + bytes(7)  # of a length below 256 in an XGBoost snapshot, without its last byte


@pytest.mark.parametrize(
    ("make", "old", "new", "said"),
    [
        (xgb, b"tree_info[#" + SIZE + b"\x04i\0", b"tree_info[#" + SIZE + b"\x04i\x7f", "classes"),
        (xgb, b"idi\1", b"idi\0", "damaged"),
        (xgb, b"BytearrayNode", b"BytesNode", "not known to be harmless"),
        (lgbm, b"num_class:3", b"num_class:9999999", "number of its classes"),
        (lgbm, b"tree_sizes=", b"tree_sizes=1", "damaged"),
        (lgbm, b"split_gain=", b"split_gain0", "damaged"),
        (lgbm, b'"_handle"', b'"handle"', "cannot be rebuilt"),
    ],
)
def test_damaged_boosters_in_a_skops_file_are_refused(
    make: Callable[[], Any], old: bytes, new: bytes, said: str, tmp_path: Path
) -> None:
    """The libraries' own readers end the process."""
    model = make().fit(ARRAY, BINARY if make is xgb else THREE)
    with pytest.raises(ModelError, match=said):
        load_skops(in_skops(tmp_path / "model.skops", model, old, new))


@pytest.mark.parametrize("name", ["sorted_idx", "feature_segments", "offsets"])
def test_categories_that_lead_out_of_an_xgboost_snapshot_are_refused(name: str) -> None:
    booster = xgb(enable_categorical=True).fit(CATEGORICAL, BINARY).get_booster()
    stored, read = bytes(booster.__getstate__()["handle"]), "XGBoosterUnserializeFromBuffer"
    read_xgboost(stored, read)
    found = re.finditer(name.encode() + rb"\[\$l#L.{7}[^\0]", stored, flags=re.DOTALL)
    first = next(found).end()
    with pytest.raises(ValueError, match=r"categories|damaged"):
        read_xgboost(stored[:first] + (2**31 - 1).to_bytes(4, "big") + stored[first + 4 :], read)


# -- CatBoost --------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["cbm", "json"])
@pytest.mark.parametrize("words", [True, False], ids=["words", "numbers"])
def test_a_catboost_file_answers_as_its_classifier(
    suffix: str, words: bool, tmp_path: Path
) -> None:
    from catboost import CatBoostClassifier

    table = WORDS if words else NUMBERS
    names = np.array(["no", "yes"])[BINARY]
    model = CatBoostClassifier(
        iterations=4, depth=2, verbose=0, allow_writing_files=False, thread_count=1
    ).fit(table, names, cat_features=["sex", "grade"] if words else None)
    model.save_model(str(tmp_path / f"model.{suffix}"), format=suffix)
    opened = open_model(tmp_path / f"model.{suffix}")
    assert (opened.kind, opened.takes) == ("CatBoost", "words" if words else "numbers")
    assert opened.classes == ("no", "yes")
    given = table if words else table.to_numpy()
    np.testing.assert_allclose(opened.predict(given), model.predict_proba(table), atol=1e-9)


@pytest.mark.slow
def test_a_damaged_catboost_file_ends_in_a_sentence(tmp_path: Path) -> None:
    from catboost import CatBoostClassifier

    model = CatBoostClassifier(iterations=4, depth=2, verbose=0, allow_writing_files=False)
    model.fit(WORDS, BINARY, cat_features=["sex", "grade"]).save_model(str(tmp_path / "model.cbm"))
    content = (tmp_path / "model.cbm").read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(0, len(content), 6):
        (tmp_path / "bad.cbm").write_bytes(content[:place] + b"\xff" * 4 + content[place + 4 :])
        try:
            opened = open_model(tmp_path / "bad.cbm")
        except ModelError as error:
            assert re.search("CatBoost cannot read|gives no class", str(error))  # noqa: PT017
        else:
            opened.predict(WORDS)


def test_a_catboost_regressor_is_refused(tmp_path: Path) -> None:
    from catboost import CatBoostRegressor

    model = CatBoostRegressor(iterations=2, depth=2, verbose=0, allow_writing_files=False)
    model.fit(NUMBERS, WORDS["age"]).save_model(str(tmp_path / "model.cbm"))
    with pytest.raises(ModelError, match="'RMSE', which gives no class probabilities"):
        open_model(tmp_path / "model.cbm")
