"""The repairs as scikit-learn classifiers: scikit-learn's own checks, pipelines and grid search,
and a bias that they take away.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import fairprobe as fp
from fairprobe.errors import DataError, SettingError
from fairprobe.models import TorchModel
from fairprobe.repairs.estimators import (
    ALFRClassifier,
    BlindClassifier,
    CFAIRClassifier,
    CounterfactualClassifier,
    IIFRClassifier,
    LAFTRClassifier,
    RepairClassifier,
    RetrainClassifier,
)
from fairprobe.search import Budget

SHORT: dict[str, Any] = {"hidden": (16,), "learning_rate": 0.05, "batch_size": 64, "max_epochs": 8}
LITTLE = Budget(seeds=2, global_iterations=2, local_iterations=2)
SENSITIVE: list[type[RepairClassifier]] = [
    CounterfactualClassifier,
    ALFRClassifier,
    LAFTRClassifier,
    CFAIRClassifier,
    BlindClassifier,
    RetrainClassifier,
]
EVERY: list[type[RepairClassifier]] = [*SENSITIVE, IIFRClassifier]


def short(kind: type[RepairClassifier], **settings: Any) -> RepairClassifier:
    more = {"budget": LITTLE} if kind is RetrainClassifier else {}
    return kind(**{**SHORT, **more, **settings})


def applicants(n: int = 600, seed: int = 0) -> tuple[pd.DataFrame, npt.NDArray[np.str_]]:
    """Men are asked for less: a bias of 1.5 on a score whose other parts, skill and years, spread
    about as much.
    """
    rng = np.random.default_rng(seed)
    people = pd.DataFrame(
        {
            "sex": rng.choice(["female", "male"], n),
            "skill": rng.normal(size=n),
            "years": rng.integers(0, 31, n),
            "city": pd.Categorical(rng.choice(["north", "south", "west"], n)),
        }
    )
    score = (
        people["skill"]
        + (people["years"] - 15) / 10
        + np.where(people["sex"] == "male", 0.75, -0.75)
    )
    return people, np.where(score > 0, "hired", "refused")


def flipped(people: pd.DataFrame) -> pd.DataFrame:
    return people.assign(sex=people["sex"].map({"female": "male", "male": "female"}))


def changed(classifier: RepairClassifier, people: pd.DataFrame) -> float:
    """The share of people whose answer changes with their sex alone."""
    return float((classifier.predict(people) != classifier.predict(flipped(people))).mean())


# -- scikit-learn's own checks ---------------------------------------------------------------------


def cannot_pass(classifier: RepairClassifier) -> dict[str, str]:
    if isinstance(classifier, BlindClassifier):
        return {
            "check_classifiers_train": (
                "two columns tell the classes of this check apart, and one of them is the"
                " sensitive one"
            )
        }
    return {}


@pytest.mark.filterwarnings(
    "ignore:The network gives everybody:sklearn.exceptions.ConvergenceWarning"
)
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    # Weak repairs: the checks are about the interface, and in one of them the sensitive column
    # tells the classes apart.
    [
        short(kind, sensitive=0, **({"strength": 0.1} if hasattr(kind, "strength") else {}))
        for kind in EVERY
    ],
    expected_failed_checks=cannot_pass,
    xfail_strict=True,
)
def test_scikit_learn_accepts_them(estimator: RepairClassifier, check: Any) -> None:
    check(estimator)


# -- a planted bias --------------------------------------------------------------------------------


def test_the_counterfactual_classifier_hardly_looks_at_sex_and_one_without_strength_does() -> None:
    people, hired = applicants()
    others, _ = applicants(seed=1)
    plain = short(CounterfactualClassifier, sensitive="sex", strength=0, random_state=0).fit(
        people, hired
    )
    fair = short(CounterfactualClassifier, sensitive="sex", random_state=0).fit(people, hired)
    # Skill and years have a standard deviation of (1 + 0.9²)^½ = 1.35 together. Whoever has between
    # -0.75 and 0.75 depends on their sex: 2 Φ(0.75 / 1.35) - 1 = 42 % of the people.
    assert changed(plain, others) == pytest.approx(0.42, abs=0.08)
    assert changed(fair, others) < 0.08  # a fifth of that; 1 to 4 % in six trials
    assert fair.score(people, hired) > 0.7


def test_the_blind_classifier_never_looks_at_sex() -> None:
    people, hired = applicants()
    blind = short(BlindClassifier, sensitive="sex", random_state=0).fit(people, hired)
    np.testing.assert_array_equal(blind.predict_proba(people), blind.predict_proba(flipped(people)))
    assert blind.score(people, hired) > 0.7


def test_retraining_looks_less_at_sex_than_before() -> None:
    people, hired = applicants()
    plain = short(CounterfactualClassifier, sensitive="sex", strength=0, random_state=0).fit(
        people, hired
    )
    budget = Budget(seeds=100, global_iterations=10, local_iterations=50)
    retrained = short(
        RetrainClassifier, sensitive="sex", share=1.0, real=1.0, budget=budget, random_state=0
    ).fit(people, hired)
    assert changed(retrained, people) < changed(plain, people) / 2


def test_an_audit_takes_the_network_and_does_not_believe_that_it_kept_rows_out() -> None:
    people, hired = applicants(200)
    fair = short(CounterfactualClassifier, sensitive="sex", random_state=0).fit(people, hired)
    assert isinstance(fair.model_, TorchModel)
    audit = fp.audit(fair.data_, fair.model_, sensitive="sex", budget=LITTLE, samples=500)
    assert fair.domain_.names == ("sex", "skill", "years", "city")
    assert not audit.to_dict()["model"]["trained_here"]


def test_the_network_answers_codes_as_the_classifier_answers_the_table() -> None:
    people, hired = applicants(200)
    fair = short(CounterfactualClassifier, sensitive="sex", random_state=0).fit(people, hired)
    more, _ = applicants(50, seed=1)
    np.testing.assert_allclose(
        fair.model_.probabilities(fair.coding_.rows(more)), fair.predict_proba(more), atol=1e-6
    )
    np.testing.assert_array_equal(fair.data_.x, fair.coding_.rows(people))


# -- what can be given -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", EVERY)
def test_words_as_labels_and_three_classes(kind: type[RepairClassifier]) -> None:
    flowers, species = load_iris(return_X_y=True, as_frame=True)
    names = np.array(["setosa", "versicolor", "virginica"])[species]
    classifier = short(kind, sensitive="sepal width (cm)", max_epochs=30, random_state=0).fit(
        flowers, names
    )
    assert classifier.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    assert classifier.feature_names_in_.tolist() == list(flowers.columns)
    assert classifier.n_features_in_ == 4
    assert classifier.predict_proba(flowers).shape == (150, 3)
    assert classifier.score(flowers, names) > 0.6


@pytest.mark.parametrize("sensitive", ["sex", 0, ["sex"], ("sex", "city"), [0, 3]])
def test_sensitive_columns_by_name_or_number(sensitive: Any) -> None:
    people, hired = applicants(100)
    blind = short(BlindClassifier, sensitive=sensitive).fit(people, hired)
    assert blind.domain_.sensitive in {("sex",), ("sex", "city")}


def test_a_category_that_was_not_in_the_training_is_taken() -> None:
    people, hired = applicants(100)
    fair = short(CounterfactualClassifier, sensitive="sex", random_state=0).fit(people, hired)
    abroad = people.assign(city="abroad", sex="unknown")
    assert np.isfinite(fair.predict_proba(abroad)).all()


def test_large_and_small_numbers_are_learnt_from_like_others() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    y = x[:, 1] + x[:, 2] > 0
    scaled = x * [1, 1e35, 1e-9]
    assert short(BlindClassifier, sensitive=0, random_state=0).fit(scaled, y).score(scaled, y) > 0.9


def test_two_rows_are_enough_to_fit() -> None:
    x = np.array([[0.0, 1.0], [1.0, 0.0]])
    classifier = CounterfactualClassifier(sensitive=0, max_epochs=1, random_state=0)
    with pytest.warns(ConvergenceWarning, match="same class"):
        classifier.fit(x, ["a", "b"])
    assert set(classifier.predict(x)) <= {"a", "b"}


@pytest.mark.filterwarnings(
    "ignore:The network gives everybody:sklearn.exceptions.ConvergenceWarning"
)
@pytest.mark.parametrize("rows", [3, 5, 8, 9])
def test_few_rows_are_enough_for_every_repair(rows: int) -> None:
    x = np.random.default_rng(rows).normal(size=(rows, 2))
    for kind in EVERY:
        classifier = short(kind, sensitive=0, random_state=0).fit(x, np.arange(rows) % 2)
        np.testing.assert_allclose(classifier.predict_proba(x).sum(axis=1), 1)


# -- in scikit-learn's company ---------------------------------------------------------------------


def test_grid_search_over_the_strength_in_a_pipeline() -> None:
    flowers, species = load_iris(return_X_y=True)
    pipeline = Pipeline(
        [
            ("scale", StandardScaler()),
            ("fair", short(CounterfactualClassifier, sensitive=1, max_epochs=20, random_state=0)),
        ]
    )
    search = GridSearchCV(pipeline, {"fair__strength": [0.0, 1.0, 10.0]}, cv=3).fit(
        flowers, species
    )
    scores = search.cv_results_["mean_test_score"]
    assert scores[0] > 0.85
    assert search.best_params_["fair__strength"] in {0.0, 1.0, 10.0}
    assert np.isfinite(scores).all()


def test_gaps_are_filled_by_a_pipeline_and_refused_without() -> None:
    x = np.random.default_rng(0).normal(size=(40, 3))
    y = x[:, 1] > 0
    x[3, 2] = np.nan
    with pytest.raises(DataError, match=r"Row 3 has no value \(NaN\) for 'x2'"):
        short(BlindClassifier, sensitive=0).fit(x, y)
    assert (
        make_pipeline(SimpleImputer(), short(BlindClassifier, sensitive=0, random_state=0))
        .fit(x, y)
        .score(x, y)
        > 0.6
    )


@pytest.mark.parametrize("kind", EVERY)
def test_the_same_random_state_gives_the_same_network_also_in_a_clone_and_after_pickling(
    kind: type[RepairClassifier],
) -> None:
    people, hired = applicants(120)
    one = short(kind, sensitive="sex", random_state=3, max_epochs=3).fit(people, hired)
    other = clone(one).fit(people, hired)
    kept = pickle.loads(pickle.dumps(one))
    np.testing.assert_array_equal(one.predict_proba(people), other.predict_proba(people))
    np.testing.assert_array_equal(one.predict_proba(people), kept.predict_proba(people))


@pytest.mark.filterwarnings(
    "ignore:The network gives everybody:sklearn.exceptions.ConvergenceWarning"
)  # a chance seed may do that
@pytest.mark.parametrize("state", [None, 0])
def test_no_other_random_number_is_touched(state: int | None) -> None:
    people, hired = applicants(60)
    drawn_by_numpy, drawn_by_torch = np.random.get_state()[1].copy(), torch.get_rng_state()  # type: ignore[index]  # noqa: NPY002
    short(CounterfactualClassifier, sensitive="sex", random_state=state).fit(people, hired)
    np.testing.assert_array_equal(np.random.get_state()[1], drawn_by_numpy)  # type: ignore[index]  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), drawn_by_torch)


def test_a_random_state_that_is_handed_on_gives_another_network_each_time() -> None:
    people, hired = applicants(60)
    state = np.random.RandomState(0)
    first, second = (
        short(BlindClassifier, sensitive="sex", random_state=state).fit(people, hired)
        for _ in range(2)
    )
    assert not np.array_equal(first.predict_proba(people), second.predict_proba(people))


# -- settings --------------------------------------------------------------------------------------


def test_settings_reach_the_repair() -> None:
    assert CounterfactualClassifier(sensitive=0).repair().strength == 20
    assert CounterfactualClassifier(sensitive=0, strength=3).repair().strength == 3
    assert LAFTRClassifier(sensitive=0).repair().strength == 10
    cfair = CFAIRClassifier(
        sensitive=0, strength=0.5, speed=4, balanced=True, iifr_strength=2, learning_rate=0.1
    ).repair()
    assert (
        cfair.name,
        cfair.strength,
        cfair.speed,
        cfair.balanced,
        cfair.training.learning_rate,
    ) == ("cfair+iifr", 0.5, 4, True, 0.1)
    assert cfair.iifr is not None
    assert cfair.iifr.strength == 2
    iifr = IIFRClassifier(
        threshold=0.9, raw=True, batch_size=64, max_epochs=7, patience=None
    ).repair()
    assert (
        iifr.threshold,
        iifr.raw,
        iifr.training.batch,
        iifr.training.epochs,
        iifr.training.patience,
    ) == (0.9, True, 64, 7, None)
    assert (
        RetrainClassifier(sensitive=0, share=0.3, rounds=2, budget=LITTLE).repair().budget == LITTLE
    )


@pytest.mark.parametrize("kind", SENSITIVE)
def test_a_sensitive_column_must_be_named(kind: type[RepairClassifier]) -> None:
    people, hired = applicants(20)
    with pytest.raises(
        SettingError,
        match=f"{kind.__name__} must know which columns are sensitive. Give sensitive=",
    ):
        short(kind).fit(people, hired)


def test_iifr_needs_no_sensitive_column() -> None:
    people, hired = applicants(100)
    assert short(IIFRClassifier, random_state=0).fit(people, hired).domain_.sensitive == ()


@pytest.mark.parametrize(
    ("kind", "setting", "complaint"),
    [
        (CounterfactualClassifier, {"strength": -1}, "strength must not be negative"),
        (ALFRClassifier, {"strength": -1.0}, "strength must not be negative"),
        (
            CounterfactualClassifier,
            {"strength": "strong"},
            "strength must be a number; got 'strong'",
        ),
        (CounterfactualClassifier, {"strength": float("nan")}, "strength must not be negative"),
        (
            BlindClassifier,
            {"hidden": 64},
            "hidden must be the number of neurons of each hidden layer",
        ),
        (BlindClassifier, {"hidden": ()}, "one neuron in each hidden layer"),
        (BlindClassifier, {"max_epochs": 1.5}, "max_epochs must be a whole number"),
        (BlindClassifier, {"batch_size": None}, "batch_size must be a whole number"),
        (BlindClassifier, {"learning_rate": 0}, "must be positive"),
        (IIFRClassifier, {"threshold": 2}, "a cosine, from -1 to 1"),
        (ALFRClassifier, {"speed": 0}, "speed of the adversary"),
        (RetrainClassifier, {"labels": "guess"}, "'soft', 'vote' or 'seed'"),
        (BlindClassifier, {"sensitive": "sxe"}, "Did you mean 'sex'"),
        (BlindClassifier, {"sensitive": 1.5}, "by its name or its number"),
        (BlindClassifier, {"sensitive": []}, "must know which columns are sensitive"),
    ],
)
def test_settings_that_make_no_sense_are_refused_when_fitted(
    kind: type[RepairClassifier], setting: dict[str, Any], complaint: str
) -> None:
    people, hired = applicants(20)
    with pytest.raises(ValueError, match=complaint):
        short(kind, **{"sensitive": "sex", **setting}).fit(people, hired)


def test_a_classifier_that_was_not_fitted_says_so() -> None:
    with pytest.raises(NotFittedError):
        BlindClassifier(sensitive=0).predict([[0, 1]])
    with pytest.raises(NotFittedError):
        BlindClassifier(sensitive=0).domain_  # noqa: B018
