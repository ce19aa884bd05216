"""The repairs as scikit-learn classifiers: scikit-learn's own checks, pipelines and grid search,
and a bias that they take away.
"""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import fairprobe as fp
from fairprobe.errors import DataError, ModelError, SettingError
from fairprobe.models import TorchModel
from fairprobe.models.formats.skops_file import load_skops
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

SHORT: dict[str, Any] = {
    "hidden": (16,),
    "learning_rate": 0.05,
    "batch_size": 64,
    "max_epochs": 8,
    "random_state": 0,  # a short training by chance may end in one class, which is a warning
}
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
    failing = {
        "check_sample_weight_equivalence_on_dense_data": (
            "a row with the weight 2 is in one batch, the same row twice may be in two"
        )
    }
    if isinstance(classifier, BlindClassifier):
        failing["check_classifiers_train"] = (
            "two columns tell the classes of this check apart, and one of them is the sensitive one"
        )
    return failing


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
    assert (classifier.predict(flowers) == names).mean() > 0.6


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
    search = GridSearchCV(
        pipeline, {"fair__strength": [0.0, 1.0, 10.0]}, cv=3, scoring="accuracy"
    ).fit(flowers, species)
    scores = search.cv_results_["mean_test_score"]
    assert scores[0] > 0.85
    assert search.best_params_["fair__strength"] in {0.0, 1.0, 10.0}
    assert np.isfinite(scores).all()


def test_grid_search_does_not_take_the_strength_that_repairs_nothing() -> None:
    people, hired = applicants(400)
    classifier = short(CounterfactualClassifier, sensitive="sex", max_epochs=20, random_state=0)
    search = GridSearchCV(classifier, {"strength": [0.0, 10.0]}, cv=2).fit(people, hired)
    assert search.best_params_ == {"strength": 10.0}
    by_accuracy = GridSearchCV(classifier, {"strength": [0.0, 10.0]}, cv=2, scoring="accuracy").fit(
        people, hired
    )
    assert by_accuracy.best_params_ == {"strength": 0.0}


def test_the_score_counts_who_is_answered_right_and_like_all_counterparts() -> None:
    people, hired = applicants(200)
    one = short(CounterfactualClassifier, sensitive="sex", strength=0.0, random_state=0)
    one.fit(people, hired)
    alike = one.predict(people) == one.predict(flipped(people))
    right = one.predict(people) == hired
    assert 0 < alike.mean() < 1
    assert one.score(people, hired) == (right & alike).mean()
    weights = np.arange(len(hired))
    assert one.score(people, hired, weights) == pytest.approx(
        np.average(right & alike, weights=weights)
    )
    np.testing.assert_array_equal(one.discriminates(people), ~alike)


def test_gaps_are_learned_from_where_fit_saw_some_and_refused_elsewhere() -> None:
    people, hired = applicants(300)
    people.loc[:40, "skill"] = np.nan
    people.loc[[3, 50], "sex"] = None
    people.loc[60:70, "city"] = None
    for kind in (CounterfactualClassifier, BlindClassifier, LAFTRClassifier):
        classifier = short(kind, sensitive="sex", random_state=0).fit(people, hired)
        assert np.isfinite(classifier.predict_proba(people)).all()
        with pytest.raises(DataError, match="Row 9 has no value for 'years'"):
            classifier.predict(people.assign(years=people["years"].where(people.index != 9)))
    assert classifier.domain_["skill"].kind == "real"


def test_whole_floats_with_a_gap_stay_real_numbers() -> None:
    x = np.random.default_rng(0).integers(0, 5, (60, 3)).astype(float)
    y = x[:, 1] > 2
    x[3, 2] = np.nan
    classifier = short(BlindClassifier, sensitive=0, random_state=0).fit(x, y)
    x[4, 2] = 2.5
    assert len(classifier.predict(x)) == 60


def test_rows_count_as_much_as_their_weights() -> None:
    people, hired = applicants(400)
    other = np.where(hired == "hired", "refused", "hired")
    table, labels = pd.concat([people, people]), np.concatenate([hired, other])
    weights = np.repeat([1.0, 0.01], len(people))
    how = {"sensitive": "sex", "random_state": 0, "strength": 0.0, "max_epochs": 30}
    classifier = short(CounterfactualClassifier, **how).fit(table, labels, sample_weight=weights)
    assert (classifier.predict(people) == hired).mean() > 0.85
    turned = short(CounterfactualClassifier, **how).fit(table, labels, weights[::-1])
    assert (turned.predict(people) == hired).mean() < 0.15


def test_polars_frames_keep_their_names() -> None:
    polars = pytest.importorskip("polars")
    people, hired = applicants(120)
    people["city"] = people["city"].astype(str)  # polars orders categories in its own way
    settings: dict[str, Any] = {"sensitive": "sex", "random_state": 0}
    one = short(BlindClassifier, **settings).fit(polars.from_pandas(people), hired)
    assert one.feature_names_in_.tolist() == people.columns.tolist()
    assert one.domain_.sensitive == ("sex",)
    other = short(BlindClassifier, **settings).fit(people, hired)
    np.testing.assert_array_equal(
        one.predict_proba(polars.from_pandas(people)), other.predict_proba(people)
    )
    with pytest.raises(ValueError, match="feature names should match"):
        one.predict(polars.from_pandas(people.rename(columns={"skill": "age"})))


# -- saving ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", EVERY)
def test_skops_saves_them_and_our_own_loader_opens_them(
    kind: type[RepairClassifier], tmp_path: Path
) -> None:
    skops = pytest.importorskip("skops.io")
    people, hired = applicants(120)
    people.loc[3, "skill"] = np.nan
    one = short(kind, sensitive="sex", random_state=3, max_epochs=3).fit(people, hired)
    skops.dump(one, tmp_path / "model.skops")
    types = skops.get_untrusted_types(file=tmp_path / "model.skops")
    assert [each for each in types if "fairprobe" not in each] == []
    again = skops.load(tmp_path / "model.skops", trusted=types)
    np.testing.assert_array_equal(again.predict_proba(people), one.predict_proba(people))
    assert again.coding_ == one.coding_
    assert again.get_params().keys() == one.get_params().keys()
    assert not hasattr(again, "data_")
    ours = load_skops(tmp_path / "model.skops")
    np.testing.assert_array_equal(ours.predict_proba(people), one.predict_proba(people))


def test_a_saved_classifier_of_words_is_audited_with_words(tmp_path: Path) -> None:
    skops = pytest.importorskip("skops.io")
    people, hired = applicants(200)
    people["city"] = people["city"].astype(str)
    one = short(CounterfactualClassifier, sensitive="sex", random_state=0).fit(people, hired)
    skops.dump(one, tmp_path / "model.skops")
    people.assign(hired=hired).to_csv(tmp_path / "people.csv", index=False)
    data = fp.datasets.open_table(tmp_path / "people.csv", label="hired", sensitive="sex")
    model = fp.load_model(tmp_path / "model.skops", data)
    np.testing.assert_allclose(model.probabilities(data.x), one.predict_proba(people), atol=1e-5)


def test_a_file_with_the_wrong_weights_is_refused_with_a_sentence() -> None:
    people, hired = applicants(60)
    state = short(BlindClassifier, sensitive="sex", max_epochs=1).fit(people, hired).__getstate__()
    for numbers in ({}, {"output.weight": np.zeros((2, 2))}, None):
        with pytest.raises(ModelError, match="its weights do not fit its layers"):
            BlindClassifier().__setstate__({**state, "_network": numbers})


# -- one-hot columns -------------------------------------------------------------------------------


def test_the_columns_of_a_one_hot_attribute_change_together() -> None:
    people, hired = applicants(300)
    table = pd.get_dummies(people, columns=["sex", "city"])
    settings: dict[str, Any] = {"strength": 0.0, "random_state": 0, "max_epochs": 20}
    one = short(CounterfactualClassifier, sensitive=[["sex_female", "sex_male"]], **settings)
    one.fit(table, hired)
    assert one.domain_.sensitive == ("sex",)
    other = table.assign(sex_female=table["sex_male"], sex_male=table["sex_female"])
    changed = one.predict(table) != one.predict(other)
    assert changed.mean() > 0.1
    np.testing.assert_array_equal(one.discriminates(table), changed)
    flat = short(CounterfactualClassifier, sensitive=["sex_female", "sex_male"], **settings)
    np.testing.assert_array_equal(flat.fit(table, hired).predict(table), one.predict(table))
    three = short(
        CounterfactualClassifier,
        sensitive=[["city_north", "city_south", "city_west"], "skill"],
        **settings,
    ).fit(table, hired)
    assert three.domain_.sensitive == ("skill", "city")
    assert three.domain_.value_count == 3 * (three.domain_["skill"].size or 0)


def test_one_column_of_a_one_hot_attribute_alone_is_warned_about() -> None:
    people, hired = applicants(120)
    table = pd.get_dummies(people, columns=["sex", "city"])
    how: dict[str, Any] = {"max_epochs": 1, "learning_rate": 1e-3}
    with pytest.warns(UserWarning, match=r"sensitive=\[\['sex_female', 'sex_male'\]\]"):
        short(BlindClassifier, sensitive="sex_male", **how).fit(table, hired)
    with pytest.warns(UserWarning, match="one of 3 columns"):
        short(BlindClassifier, sensitive="city_west", **how).fit(table, hired)
    alone = table.drop(columns=["sex_female", "city_north"])
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        short(BlindClassifier, sensitive="sex_male", **how).fit(alone, hired)


@pytest.mark.parametrize(
    ("sensitive", "complaint"),
    [
        ([["sex_female", "sexx"]], "There is no column 'sexx'"),
        ([["sex_female"]], "two or more, each once"),
        ([["sex_female", "sex_female"]], "two or more, each once"),
        ([["sex_female", "city_west"]], "not in every row exactly one of them is 1"),
    ],
)
def test_what_is_not_a_one_hot_attribute_is_refused(sensitive: Any, complaint: str) -> None:
    people, hired = applicants(60)
    table = pd.get_dummies(people, columns=["sex", "city"])
    with pytest.raises((DataError, SettingError), match=complaint):
        short(BlindClassifier, sensitive=sensitive).fit(table, hired)


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
