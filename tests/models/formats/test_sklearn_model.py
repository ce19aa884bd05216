"""Classifiers of scikit-learn: the copy in torch answers as they do, words and numbers reach them,
and files are never trusted.
"""

from __future__ import annotations

import io
import pickle
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import skops.io
from lightgbm import LGBMClassifier
from sklearn.base import BaseEstimator
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits
from xgboost import XGBClassifier

from fairprobe.datasets import german
from fairprobe.errors import FairprobeError, ModelError, StorageError
from fairprobe.models import TorchModel, load_model
from fairprobe.models.formats.base import Opened
from fairprobe.models.formats.sklearn_model import (
    open_encoder_object,
    open_encoder_skops,
    open_estimator,
    open_skops,
)
from tests.model_files import Evil


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Models as small as these are slower on several."""
    with threadpool_limits(1):
        yield


RNG = np.random.default_rng(3)
N = 160
WORDS = pd.DataFrame(
    {
        "age": RNG.integers(18, 80, N).astype(float),
        "sex": RNG.choice(["female", "male"], N),
        "job": RNG.choice(["clerk", "cook", "nurse"], N),
        "hours": RNG.normal(40, 10, N),
    }
)
WORDS.loc[5, "age"] = np.nan
NUMBERS = WORDS[["age", "hours"]].fillna(40)
ARRAY = NUMBERS.to_numpy(dtype=np.float32)
LABELS = np.where(WORDS["hours"] + 8 * (WORDS["sex"] == "male") > 44, "yes", "no")
THREE = RNG.choice(["a", "b", "c"], N)


def mlp(**settings: Any) -> MLPClassifier:
    return MLPClassifier(
        **{"hidden_layer_sizes": (8, 4), "max_iter": 15, "random_state": 0, **settings}
    )


def table_steps() -> ColumnTransformer:
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    return ColumnTransformer(
        [("numbers", numbers, ["age", "hours"]), ("words", OneHotEncoder(), ["sex", "job"])]
    )


def fitted(model: Any, x: Any, y: Any = LABELS) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(x, y)


def network_answers(opened: Opened, x: Any) -> Any:
    assert opened.network is not None, opened.why
    return TorchModel(opened.network).probabilities(np.asarray(x, dtype=np.float32))


# -- MLPClassifier ---------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", ["relu", "tanh", "logistic", "identity"])
@pytest.mark.parametrize("labels", [LABELS, THREE], ids=["binary", "three classes"])
def test_an_mlp_is_a_white_box_that_answers_as_itself(activation: str, labels: Any) -> None:
    model = fitted(mlp(activation=activation), ARRAY, labels)
    opened = open_estimator(model)
    assert (opened.takes, opened.width, opened.columns, opened.encode) == ("numbers", 2, None, None)
    assert opened.classes == tuple(np.unique(labels))
    np.testing.assert_allclose(
        network_answers(opened, ARRAY), model.predict_proba(ARRAY), atol=1e-5
    )
    np.testing.assert_array_equal(opened.predict(ARRAY), model.predict_proba(ARRAY))


def test_an_mlp_fitted_on_a_dataframe_is_asked_without_a_warning_about_names() -> None:
    model = fitted(mlp(), NUMBERS)
    opened = open_estimator(model)
    assert opened.columns == ("age", "hours")
    np.testing.assert_allclose(opened.predict(ARRAY), model.predict_proba(NUMBERS), atol=1e-6)
    np.testing.assert_allclose(
        network_answers(opened, ARRAY), model.predict_proba(NUMBERS), atol=1e-5
    )


class Stubborn(MLPClassifier):  # type: ignore[misc]
    def predict_proba(self, x: Any) -> Any:
        return super().predict_proba(x) ** 2


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_mlp_that_answers_otherwise_than_its_weights_is_no_white_box() -> None:
    data = german()
    model = Stubborn((4,), max_iter=5).fit(data.x, data.y)
    opened = load_model(model, data)
    assert not isinstance(opened, TorchModel)
    assert "other scores than the model itself" in str(opened.about)
    same = load_model(MLPClassifier((4,), max_iter=5).fit(data.x, data.y), data)
    assert isinstance(same, TorchModel)


def test_a_search_over_settings_and_a_frozen_model_are_seen_through() -> None:
    search = fitted(GridSearchCV(mlp(), {"alpha": [0.1, 0.01]}, cv=2), ARRAY)
    for wrapped in (search, FrozenEstimator(search.best_estimator_)):
        opened = open_estimator(wrapped)
        np.testing.assert_allclose(
            network_answers(opened, ARRAY), search.predict_proba(ARRAY), atol=1e-5
        )


# -- pipelines -------------------------------------------------------------------------------------


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("output", ["default", "pandas"])
def test_a_pipeline_takes_words_and_its_network_takes_what_its_steps_make(
    nested: bool, output: str
) -> None:
    steps = table_steps()
    if output == "pandas":
        steps.transformers[1][1].set_params(sparse_output=False)
        steps.set_output(transform="pandas")
    end: Any = make_pipeline(MinMaxScaler(), mlp()) if nested else mlp()
    model = fitted(make_pipeline(steps, "passthrough", end), WORDS)
    opened = open_estimator(model)
    expected = ("words", ("age", "sex", "job", "hours"), ("no", "yes"))
    assert (opened.takes, opened.columns, opened.classes) == expected
    assert opened.encode is not None
    encoded = opened.encode(WORDS)
    assert (encoded.dtype, encoded.shape) == (np.float32, (N, 7))
    np.testing.assert_allclose(
        network_answers(opened, encoded), model.predict_proba(WORDS), atol=1e-5
    )
    np.testing.assert_array_equal(
        opened.predict(WORDS[["hours", "job", "sex", "age"]]), model.predict_proba(WORDS)
    )


def test_a_pipeline_says_which_column_is_missing() -> None:
    opened = open_estimator(fitted(make_pipeline(table_steps(), mlp()), WORDS))
    with pytest.raises(ModelError, match="fitted with the columns sex, job"):
        opened.predict(WORDS[["age", "hours"]])


STEPS = [
    (StandardScaler(with_mean=False), MinMaxScaler((-1, 1))),
    (RobustScaler(), "passthrough"),
    (make_pipeline(MaxAbsScaler(), StandardScaler()),),
    (PolynomialFeatures(),),
]


@pytest.mark.parametrize(
    "steps", STEPS, ids=lambda steps: "+".join(str(step)[:30] for step in steps)
)
def test_the_network_of_a_pipeline_fitted_on_arrays_takes_what_its_steps_make(
    steps: tuple[Any, ...],
) -> None:
    model = fitted(make_pipeline(*steps, mlp()), ARRAY)
    opened = open_estimator(model)
    assert (opened.takes, opened.width) == ("numbers", 2)
    assert opened.encode is not None
    np.testing.assert_allclose(
        network_answers(opened, opened.encode(ARRAY)), model.predict_proba(ARRAY), atol=1e-5
    )


def test_a_linear_model_has_no_neurons_to_look_at() -> None:
    for model in (LogisticRegression(), mlp(hidden_layer_sizes=())):
        opened = open_estimator(fitted(model, ARRAY))
        assert opened.network is None
        assert "without a hidden layer" in opened.why


# -- black boxes -----------------------------------------------------------------------------------

BLACK_BOXES: dict[str, Callable[[], Any]] = {
    "forest": lambda: RandomForestClassifier(5, random_state=0),
    "gradient boosting": lambda: GradientBoostingClassifier(n_estimators=5, random_state=0),
    "histogram boosting": lambda: HistGradientBoostingClassifier(max_iter=5),
    "calibrated": lambda: CalibratedClassifierCV(LogisticRegression(), cv=2),
    "voting": lambda: VotingClassifier(
        [("a", LogisticRegression()), ("b", GaussianNB())], voting="soft"
    ),
    "stacking": lambda: StackingClassifier(
        [("a", GaussianNB())], RandomForestClassifier(3, random_state=0), cv=2
    ),
    "lightgbm": lambda: LGBMClassifier(n_estimators=3, verbose=-1, min_child_samples=5, n_jobs=1),
}


@pytest.mark.parametrize("name", BLACK_BOXES)
@pytest.mark.parametrize("table", [ARRAY, NUMBERS], ids=["array", "frame"])
def test_other_classifiers_are_black_boxes_and_survive_a_file(
    name: str, table: Any, tmp_path: Path
) -> None:
    model = fitted(BLACK_BOXES[name](), table)
    skops.io.dump(model, tmp_path / "model.skops")
    for opened in (open_estimator(model), open_skops(tmp_path / "model.skops")):
        assert (opened.takes, opened.network, opened.classes) == ("numbers", None, ("no", "yes"))
        assert opened.columns == (None if isinstance(table, np.ndarray) else ("age", "hours"))
        assert type(model).__name__ in opened.why
        np.testing.assert_allclose(opened.predict(ARRAY), model.predict_proba(table), atol=1e-6)


CATEGORICAL = WORDS.astype({"sex": "category", "job": "category"})


@pytest.mark.parametrize(
    "model",
    [
        HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype"),
        LGBMClassifier(n_estimators=5, verbose=-1, min_child_samples=5, n_jobs=1),
        XGBClassifier(n_estimators=5, enable_categorical=True, n_jobs=1),
        CalibratedClassifierCV(make_pipeline(table_steps(), LogisticRegression()), cv=2),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_classifier_that_knows_categories_takes_words(model: Any) -> None:
    model.fit(CATEGORICAL, (LABELS == "yes").astype(int))
    opened = open_estimator(model)
    assert (opened.takes, opened.columns) == ("words", ("age", "sex", "job", "hours"))
    np.testing.assert_allclose(
        opened.predict(WORDS.iloc[:7]), model.predict_proba(CATEGORICAL)[:7], atol=1e-6
    )


class Duck:
    """A classifier of nobody's kin."""

    classes_ = np.array([0, 1])

    def predict_proba(self, x: Any) -> Any:
        return np.tile([0.25, 0.75], (len(x), 1))


def test_any_object_with_predict_proba_will_do() -> None:
    opened = open_estimator(Duck(), name="duck")
    assert (opened.name, opened.width, opened.classes) == ("duck", None, ("0", "1"))
    assert opened.predict(ARRAY[:2]).tolist() == [[0.25, 0.75], [0.25, 0.75]]


UNUSABLE: list[tuple[str, Callable[[], Any], str]] = [
    ("unfitted", mlp, "has not been fitted"),
    ("unfitted pipeline", lambda: make_pipeline(table_steps(), mlp()), "has not been fitted"),
    ("a class", lambda: RandomForestClassifier, "is a class"),
    ("no classifier", lambda: make_pipeline(StandardScaler()).fit(ARRAY), "pass it as the encoder"),
    ("svc", lambda: SVC().fit(ARRAY, LABELS), "CalibratedClassifierCV"),
    ("transformer", lambda: StandardScaler().fit(ARRAY), "pass it as the encoder"),
    ("one class", lambda: DecisionTreeClassifier().fit(ARRAY, ["no"] * N), "single class"),
    (
        "several outputs",
        lambda: DecisionTreeClassifier().fit(ARRAY, np.stack([LABELS, THREE], axis=1)),
        "several labels at once",
    ),
    (
        "multi-label",
        lambda: fitted(mlp(), ARRAY, np.stack([LABELS == "yes", THREE == "a"], axis=1)),
        "several labels at once",
    ),
]


@pytest.mark.parametrize(
    ("make", "message"), [case[1:] for case in UNUSABLE], ids=[case[0] for case in UNUSABLE]
)
def test_what_is_no_fitted_classifier_is_refused_with_advice(
    make: Callable[[], Any], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        open_estimator(make())


# -- encoders --------------------------------------------------------------------------------------


def test_a_fitted_preprocessor_makes_a_float32_table(tmp_path: Path) -> None:
    steps = table_steps().fit(WORDS)
    skops.io.dump(steps, tmp_path / "steps.skops")
    for encode in (open_encoder_object(steps), open_encoder_skops(tmp_path / "steps.skops")):
        table = encode(WORDS)
        assert table.dtype == np.float32
        np.testing.assert_allclose(table, steps.transform(WORDS), atol=1e-6)


class Wordy(BaseEstimator):  # type: ignore[misc]
    def fit(self, x: Any) -> Wordy:
        self.fitted_ = True
        return self

    def transform(self, x: Any) -> Any:
        return np.full((len(x), 1), "word")


def test_encoders_that_cannot_be_used_are_refused() -> None:
    with pytest.raises(ModelError, match="pass it as the model"):
        open_encoder_object(fitted(mlp(), ARRAY))
    with pytest.raises(ModelError, match="not been fitted"):
        open_encoder_object(StandardScaler())
    with pytest.raises(ModelError, match="must turn every column into numbers"):
        open_encoder_object(Wordy().fit(WORDS))(WORDS)
    with pytest.raises(ModelError, match=r"unknown categories \['pilot'\]"):
        open_encoder_object(table_steps().fit(WORDS))(WORDS.assign(job="pilot"))


# -- files -----------------------------------------------------------------------------------------


def test_a_file_of_another_version_is_opened_in_silence(tmp_path: Path) -> None:
    model = fitted(mlp(), ARRAY)
    content = _edited(
        model,
        lambda schema: schema.replace(f'\\"{_version()}\\"', '\\"1.2.0\\"').replace(
            f'"{_version()}"', '"1.2.0"'
        ),
    )
    (tmp_path / "old.skops").write_bytes(content)
    np.testing.assert_allclose(
        open_skops(tmp_path / "old.skops").predict(ARRAY), model.predict_proba(ARRAY)
    )


def _version() -> str:
    import sklearn

    return str(sklearn.__version__)


def _edited(model: Any, change: Callable[[str], str]) -> bytes:
    """A skops file whose table of contents has been tampered with."""
    source, target = zipfile.ZipFile(io.BytesIO(skops.io.dumps(model))), io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name in source.namelist():
            content = source.read(name)
            archive.writestr(
                name, change(content.decode()).encode() if name == "schema.json" else content
            )
    return target.getvalue()


class Unknown(BaseEstimator):  # type: ignore[misc]
    def __init__(self, x: int = 0) -> None:
        self.x = x


def _zip(**files: str) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, text in files.items():
            archive.writestr(name.replace("_", "."), text)
    return target.getvalue()


def _flipped(content: bytes) -> bytes:
    """One byte of the weights is another: the archive's checksums notice."""
    at = content.index(b"NUMPY") + 200
    return content[:at] + bytes([content[at] ^ 255]) + content[at + 1 :]


GOOD = skops.io.dumps(fitted(mlp(), ARRAY))
OWN_FUNCTION = (
    '{"__class__": "system", "__module__": "os", "__loader__": "FunctionNode", "content":'
    ' {"module_path": "os", "function": "system"}, '
)
DEEP = (
    '{"__class__": "list", "__module__": "builtins", "__loader__": "ListNode", "content": [' * 3000
    + "]}" * 3000
)
MALFORMED: dict[str, tuple[bytes, str]] = {
    "later version of zip": (
        GOOD.replace(b"PK\1\2\x14\3\x14", b"PK\1\2\x14\3\xa9"),
        "not a complete .skops file",
    ),
    "truncated": (GOOD[: len(GOOD) // 2], "not a complete .skops file"),
    "no end": (GOOD[:-30], "not a complete .skops file"),
    "another archive": (_zip(readme_txt="hello"), r"has no schema\.json"),
    "no json": (_zip(schema_json="{"), "not a readable .skops file"),
    "json of something": (_zip(schema_json="[1, 2]"), "not a readable .skops file"),
    "no fields": (_zip(schema_json="{}"), "not a readable .skops file"),
    "too deep": (_zip(schema_json=DEEP), "not a readable .skops file"),
    "a byte is wrong": (_flipped(GOOD), "not a readable .skops file"),
    "an array is missing": (
        _edited(fitted(mlp(), ARRAY), lambda text: text.replace(".npy", ".npz")),
        "not a readable .skops file",
    ),
    "unknown types": (
        skops.io.dumps(make_pipeline(Unknown(), LogisticRegression())),
        r"not known to be harmless: .*\.Unknown",
    ),
    "os.system": (
        _zip(schema_json=OWN_FUNCTION + '"protocol": 2, "_skops_version": "0.16"}'),
        r"os\.system",
    ),
    "nearest neighbours": (skops.io.dumps(KNeighborsClassifier().fit(ARRAY, LABELS)), "KDTree"),
    "a dictionary": (skops.io.dumps({"a": 1}), "no class probabilities|no method"),
    "unfitted": (skops.io.dumps(mlp()), "not been fitted"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_skops_files_are_refused_in_a_sentence(name: str, tmp_path: Path) -> None:
    content, message = MALFORMED[name]
    (tmp_path / "model.skops").write_bytes(content)
    with pytest.raises(FairprobeError, match=message) as caught:
        open_skops(tmp_path / "model.skops")
    assert "\n" not in str(caught.value)


def test_a_pickle_in_the_place_of_an_array_is_never_run(tmp_path: Path) -> None:
    content = pickle.dumps(Evil(tmp_path / "marker"))
    source, target = zipfile.ZipFile(io.BytesIO(GOOD)), io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name in source.namelist():
            archive.writestr(name, content if name.endswith(".npy") else source.read(name))
    (tmp_path / "model.skops").write_bytes(target.getvalue())
    with pytest.raises(ModelError):
        open_skops(tmp_path / "model.skops")
    assert not (tmp_path / "marker").exists()


def _with_nodes(model: Any, change: Callable[[Any], None], dtype_names: set[str]) -> bytes:
    """A skops file in which the node arrays of the trees have been changed."""
    source, target = zipfile.ZipFile(io.BytesIO(skops.io.dumps(model))), io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name in source.namelist():
            content = source.read(name)
            if name.endswith(".npy"):
                array = np.load(io.BytesIO(content))
                if dtype_names <= set(array.dtype.names or ()):
                    change(array)
                    changed = io.BytesIO()
                    np.save(changed, array)
                    content = changed.getvalue()
            archive.writestr(name, content)
    return target.getvalue()


def _set(field: str, value: int) -> Callable[[Any], None]:
    def change(nodes: Any) -> None:
        nodes[field][0] = value

    return change


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("left_child", 10**6), ("right_child", 0), ("feature", 77), ("feature", -5)],
        *[("left", 10**6), ("right", 0), ("feature_idx", 77), ("is_categorical", 1)],
    ],
)
def test_trees_that_lead_out_of_the_file_are_refused(
    field: str, value: int, tmp_path: Path
) -> None:
    kind: Any = RandomForestClassifier(2, random_state=0)
    if field not in ("left_child", "right_child", "feature"):
        kind = HistGradientBoostingClassifier(max_iter=2)
    content = _with_nodes(kind.fit(ARRAY, LABELS), _set(field, value), {field})
    (tmp_path / "trees.skops").write_bytes(content)
    with pytest.raises(ModelError, match="nodes that lead nowhere"):
        open_skops(tmp_path / "trees.skops")


def test_a_saved_histogram_model_with_categories_is_opened(tmp_path: Path) -> None:
    model = HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype").fit(
        CATEGORICAL, LABELS
    )
    skops.io.dump(model, tmp_path / "model.skops")
    opened = open_skops(tmp_path / "model.skops")
    assert opened.takes == "words"
    np.testing.assert_allclose(opened.predict(WORDS), model.predict_proba(CATEGORICAL))


def test_a_skops_file_that_unpacks_to_far_more_than_its_size_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairprobe.storage.UNPACKED", 2**20)
    path = tmp_path / "model.skops"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("schema.json", bytes(2**21))
    with pytest.raises(StorageError, match="would unpack to"):
        open_skops(path)


@pytest.mark.parametrize("classes", [np.array("no"), np.array([]), 3])
def test_a_classifier_whose_classes_were_damaged_is_refused(classes: Any) -> None:
    damaged = DecisionTreeClassifier().fit(ARRAY, LABELS)
    damaged.classes_ = classes
    with pytest.raises(ModelError, match="does not say which classes it knows: its classes_ is"):
        open_estimator(damaged)
