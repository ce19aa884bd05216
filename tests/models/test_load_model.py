"""Models of the user's own, from every kind of file and object: the same network is the same model,
whatever it comes in.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler
from torch import nn

import fairprobe as fp
from fairprobe import datasets
from fairprobe.arrays import Rows
from fairprobe.datasets import Dataset
from fairprobe.errors import FairprobeError, ModelError
from fairprobe.judgement import judge
from fairprobe.models import TorchModel
from fairprobe.search import Budget

GERMAN = datasets.german()


@functools.cache
def classifier() -> MLPClassifier:
    """A network that scikit-learn trained on codes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return MLPClassifier((16, 8), random_state=3, max_iter=60).fit(GERMAN.x, GERMAN.y)


def as_module(network: MLPClassifier) -> nn.Sequential:
    """The same numbers in torch, put there by hand."""
    pieces: list[nn.Module] = []
    for matrix, bias in zip(network.coefs_, network.intercepts_, strict=True):
        layer = nn.Linear(*matrix.shape)
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(matrix.T))
            layer.bias.copy_(torch.from_numpy(bias))
        pieces += [layer, nn.ReLU()]
    return nn.Sequential(*pieces[:-1], nn.Sigmoid()).eval()


# -- a pipeline on raw words -----------------------------------------------------------------------


@functools.cache
def raw_adult() -> pd.DataFrame:
    return datasets.read_packaged("adult").sample(3000, random_state=1).reset_index(drop=True)


def pipeline(*before: Any, network: Any = None) -> Pipeline:
    """Impute, one-hot, scale, network: what people build."""
    prepare = make_column_transformer(
        (
            make_pipeline(SimpleImputer(strategy="median"), StandardScaler()),
            make_column_selector(dtype_include="number"),
        ),
        (
            make_pipeline(
                SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")
            ),
            make_column_selector(dtype_exclude="number"),
        ),
    )
    frame = raw_adult()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        last = MLPClassifier((16, 8), random_state=0, max_iter=20) if network is None else network
        return make_pipeline(prepare, *before, last).fit(
            frame.drop(columns="income"), frame["income"]
        )


@functools.cache
def table() -> Dataset:
    return datasets.open_table(raw_adult(), label="income", favourable=">50K", sensitive="sex")


def test_a_pipeline_on_raw_words_is_looked_into_and_confirms_every_pair() -> None:
    data, model = table(), pipeline()
    audit = fp.audit(
        data, model, "sex", budget=Budget(seeds=120, local_iterations=40), samples=4000
    )
    assert isinstance(audit.model, TorchModel)
    assert audit.interpretation is not None
    assert audit.run.generation.refuted is not None
    assert len(audit.findings) > 50
    mine, other = (
        model.predict(data.words(rows)) for rows in (audit.findings.x, audit.findings.x_other)
    )
    assert (mine != other).all()
    accuracy = np.mean(model.predict(raw_adult().drop(columns="income")) == raw_adult()["income"])
    assert (audit.model.labels(data.x) == data.y).mean() == pytest.approx(accuracy, abs=1e-3)


def test_a_pipeline_that_multiplies_attributes_is_a_black_box_that_says_why() -> None:
    model = fp.load_model(pipeline(PolynomialFeatures(2, interaction_only=True)), table())
    assert not isinstance(model, TorchModel)
    assert model.about is not None
    assert "does not depend on each attribute for itself" in model.about.why
    body = fp.audit(
        table(), model, "sex", budget=Budget(seeds=20, local_iterations=5), samples=500
    ).to_dict()
    assert body["generation"]["method"] == "probe"


def test_an_encoder_of_the_users_own_stands_before_a_network() -> None:
    whole = pipeline()
    prepare, network = whole[:-1], whole[-1]
    by_parts = fp.load_model(network, table(), encoder=prepare)
    as_function = fp.load_model(
        as_module(network), table(), encoder=lambda frame: prepare.transform(frame)
    )
    rows = table().x[:500]
    for model in (by_parts, as_function):
        assert isinstance(model, TorchModel)
        np.testing.assert_allclose(
            model.probabilities(rows), whole.predict_proba(table().words(rows)), atol=1e-5
        )


# -- attributes that the model is not given --------------------------------------------------------


def test_a_sensitive_attribute_that_is_no_input_is_explained_not_praised() -> None:
    frame = raw_adult()[["age", "education-num", "hours-per-week"]]
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(frame, raw_adult()["income"])
    audit = fp.audit(
        table(), model, "sex", budget=Budget(seeds=20, local_iterations=5), samples=500
    )
    body = audit.to_dict()
    assert body["model"]["blind_to"] == [
        name for name in table().domain.names if name not in frame.columns
    ]
    assert len(audit.findings) == 0
    assert body["fairness"]["group"]["tables"][0]["dp"]["estimate"] > 0


def test_an_encoder_that_drops_the_attribute_is_noticed() -> None:
    numbers = ["age", "education-num", "hours-per-week"]
    network = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    model = fp.load_model(network, table(), encoder=lambda frame: frame[numbers] / 100)
    assert isinstance(model, TorchModel)
    assert model.about is not None
    assert "sex" in model.about.blind_to


def test_an_attribute_can_be_named_as_not_given() -> None:
    gender = GERMAN.domain.index("gender")
    narrow = MLPClassifier((4,), max_iter=5, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        narrow.fit(np.delete(GERMAN.x, gender, axis=1), GERMAN.y)
    data = GERMAN.with_sensitive("gender")
    with pytest.raises(
        ModelError, match=r"takes 19 columns; 'german' has 20.*not given gender, say so"
    ):
        fp.load_model(narrow, data)
    model = fp.load_model(narrow, data, blind_to=["gender"])
    np.testing.assert_allclose(
        model.probabilities(data.x),
        narrow.predict_proba(np.delete(data.x, gender, axis=1)),
        atol=1e-5,
    )
    assert not judge(data.domain, model, data.x).is_discriminatory.any()


# -- classes, logits, refusals ---------------------------------------------------------------------


def test_logits_are_read_as_logits_where_that_is_said() -> None:
    def logits(x: Rows) -> Rows:
        return np.stack([x[:, 0], np.zeros(len(x), dtype=np.float32)], axis=1)

    with pytest.raises(ModelError, match="not a probability"):
        fp.load_model(logits, GERMAN).probabilities(GERMAN.x)
    model = fp.load_model(logits, GERMAN, outputs="logits")
    expected = 1 / (1 + np.exp(GERMAN.x[:, 0]))
    np.testing.assert_allclose(model.probabilities(GERMAN.x)[:, 1], expected, atol=1e-6)


def test_gaps_are_told_where_a_network_takes_plain_numbers() -> None:
    width = len(table().domain)
    with pytest.raises(
        ModelError,
        match=r"Row \d+ of .* has no value for 'workclass', and Sequential takes numbers",
    ):
        fp.load_model(nn.Sequential(nn.Linear(width, 2)), table(), inputs="numbers")


REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "a pickle": ("model.pkl", {}, "opening a pickle runs whatever program is in it"),
    "a joblib file": ("model.joblib", {}, "Save the model as .skops"),
    "a missing file": ("nowhere.onnx", {}, "There is no model at nowhere.onnx"),
    "no model at all": (3, {}, "got int"),
    "an unknown kind": (__file__, {}, "has an unsupported format"),
    "unknown inputs": (
        as_module,
        {"inputs": "words"},
        "'numbers', 'one-hot' or 'auto'; got 'words'",
    ),
    "unknown outputs": (
        as_module,
        {"outputs": "labels"},
        "logits, probabilities or auto; got 'labels'",
    ),
    "an unknown attribute": (as_module, {"blind_to": ["gendre"]}, "Did you mean 'gender'"),
    "an encoder that is none": (as_module, {"encoder": 3}, "An encoder is a fitted transformer"),
    "an encoder in a pickle": (as_module, {"encoder": "prepare.pkl"}, "is a pickle"),
    "no module": ("no_such_module:model", {}, "There is no module 'no_such_module'"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_loaded_is_refused_in_words(what: str) -> None:
    source, options, message = REFUSED[what]
    with pytest.raises(FairprobeError, match=message):
        fp.load_model(source, GERMAN, **options)


def test_an_encoder_that_fails_or_answers_words_is_told() -> None:
    network = as_module(classifier())
    with pytest.raises(ModelError, match=r"The encoder failed on 1 rows \(ZeroDivisionError"):
        fp.load_model(network, GERMAN, encoder=lambda frame: 1 / 0)
    with pytest.raises(ModelError, match="must turn every column into numbers"):
        fp.load_model(network, GERMAN, encoder=lambda frame: frame.astype(str))
    with pytest.raises(ModelError, match=r"takes 20 columns; the encoder .* into 2"):
        fp.load_model(network, GERMAN, encoder=lambda frame: np.zeros((len(frame), 2)))
