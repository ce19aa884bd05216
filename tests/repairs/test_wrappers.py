"""Post-hoc repairs as scikit-learn classifiers around any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.estimator_checks import parametrize_with_checks

from fairprobe.errors import DataError, ModelError, SettingError
from fairprobe.models.formats.skops_file import load_skops
from fairprobe.repairs.plans import Numbers, Plan, decoded
from fairprobe.repairs.wrappers import (
    TO_A_HUMAN,
    AbstainingClassifier,
    AverageClassifier,
    PostHocClassifier,
    ThresholdsClassifier,
    fitted_classifier,
)
from tests.repairs.test_estimators import applicants, flipped

EVERY: list[type[PostHocClassifier]] = [
    AverageClassifier,
    ThresholdsClassifier,
    AbstainingClassifier,
]
TWINS = """
sensitive = ["sex"]
[attributes.sex]
kind = "categorical"
categories = ["female", "male"]
[attributes.role]
kind = "categorical"
categories = ["husband", "wife", "single"]
[[constraints]]
name = "nobody under 0"
rule = "role == 'single' or sex == 'female' or role == 'husband'"
[[twins]]
attribute = "role"
with = "sex"
roles = [{female = "wife", male = "husband"}]
"""


def forest() -> Any:
    words = make_column_transformer(
        (OneHotEncoder(sparse_output=False), make_column_selector(dtype_exclude="number")),
        remainder="passthrough",
    )
    return make_pipeline(words, RandomForestClassifier(10, max_depth=6, random_state=0))


CANNOT = "two columns tell the classes of this check apart, and one of them is the sensitive one"


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [AverageClassifier(LogisticRegression(), sensitive=1)],
    expected_failed_checks=lambda _: {"check_classifiers_train": CANNOT},
)
def test_scikit_learn_accepts_the_average(estimator: Any, check: Any) -> None:
    check(estimator)


def test_the_average_is_the_same_for_both_sexes_bit_for_bit() -> None:
    people, hired = applicants(400)
    given = forest().fit(people, hired)
    assert (given.predict(people) != given.predict(flipped(people))).mean() > 0.1
    fair = AverageClassifier(forest(), sensitive="sex").fit(people, hired)
    np.testing.assert_array_equal(fair.predict_proba(people), fair.predict_proba(flipped(people)))
    by_hand = (given.predict_proba(people) + given.predict_proba(flipped(people))) / 2
    np.testing.assert_allclose(fair.predict_proba(people), by_hand)
    shares = AverageClassifier(forest(), sensitive="sex", weights="shares").fit(people, hired)
    assert shares.plan_["shares"][0] == pytest.approx((people["sex"] == "female").mean())


def test_people_who_cannot_be_compared_and_cells_that_nobody_knows_are_answered() -> None:
    people, hired = applicants(300)
    words = make_column_transformer(
        (
            OneHotEncoder(sparse_output=False, handle_unknown="ignore"),
            make_column_selector(dtype_exclude="number"),
        ),
        remainder="passthrough",
    )
    fair = AverageClassifier(make_pipeline(words, LogisticRegression(max_iter=500)), sensitive=0)
    fair.fit(people, hired)
    sexes = np.array(["female", "male", None, "other"], dtype=object)
    odd = people.head(4).assign(sex=sexes, skill=0.0, years=9)
    odd["city"] = pd.Categorical(["east"] * 4)
    p = fair.predict_proba(odd)
    np.testing.assert_array_equal(p, np.broadcast_to(p[0], p.shape))


@pytest.mark.parametrize("criterion", ["demographic_parity", "equal_opportunity"])
def test_thresholds_of_a_frozen_classifier_make_the_groups_fare_alike(criterion: str) -> None:
    people, hired = applicants(2000)
    given = forest().fit(people.iloc[:1000], hired[:1000])
    fair = ThresholdsClassifier(
        FrozenEstimator(given), sensitive="sex", criterion=criterion, positive="hired"
    ).fit(people.iloc[1000:], hired[1000:])
    among = people.iloc[1000:], hired[1000:]
    counted = among[1] == "hired" if criterion == "equal_opportunity" else np.full(1000, True)

    def gap(classifier: Any) -> float:
        chosen, sex = classifier.predict(among[0]) == "hired", among[0]["sex"].to_numpy()
        rates = [chosen[counted & (sex == each)].mean() for each in ("female", "male")]
        return float(abs(rates[0] - rates[1]))

    assert gap(given) > 0.05
    assert gap(fair) < gap(given) / 2


def test_those_whose_counterparts_differ_are_handed_to_a_human() -> None:
    people, hired = applicants(400)
    given = forest().fit(people, hired)
    careful = AbstainingClassifier(FrozenEstimator(given), sensitive="sex").fit(people, hired)
    differ = given.predict(people) != given.predict(flipped(people))
    np.testing.assert_array_equal(careful.hands_over(people), differ)
    answers = careful.predict(people)
    assert (answers[differ] == TO_A_HUMAN).all()
    np.testing.assert_array_equal(answers[~differ], given.predict(people)[~differ])
    np.testing.assert_array_equal(careful.predict_proba(people)[differ], 0.5)
    right = given.predict(people) == hired
    assert careful.score(people, hired) == pytest.approx(right[~differ].mean())


def test_a_schema_brings_twins_and_constraints() -> None:
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"sex": ["female", "male"] * 50, "role": "single"})
    people.loc[::4, "role"], people.loc[1::4, "role"] = "wife", "husband"
    hired = np.where(rng.random(100) < 0.3 + 0.4 * (people["sex"] == "male"), "yes", "no")
    given = forest().fit(people, hired)
    fair = AverageClassifier(FrozenEstimator(given), schema=TWINS).fit(people, hired)
    case = pd.DataFrame({"sex": ["female", "male"], "role": ["wife", "husband"]})
    p = fair.predict_proba(case)
    np.testing.assert_array_equal(p[0], p[1])
    np.testing.assert_allclose(p[0], given.predict_proba(case).mean(axis=0))


@pytest.mark.parametrize("kind", EVERY)
def test_skops_saves_them_and_our_own_loader_opens_them(
    kind: type[PostHocClassifier], tmp_path: Path
) -> None:
    skops = pytest.importorskip("skops.io")
    people, hired = applicants(200)
    one = kind(forest(), sensitive="sex").fit(people, hired)
    skops.dump(one, tmp_path / "model.skops")
    again = load_skops(tmp_path / "model.skops")
    np.testing.assert_array_equal(again.predict(people), one.predict(people))
    fresh = clone(one).fit(people, hired)
    np.testing.assert_array_equal(fresh.predict(people), one.predict(people))


def test_polars_frames_and_arrays_are_taken() -> None:
    polars = pytest.importorskip("polars")
    people, hired = applicants(200)
    people["city"] = people["city"].astype(str)
    fair = AverageClassifier(forest(), sensitive="sex").fit(polars.from_pandas(people), hired)
    assert fair.feature_names_in_.tolist() == people.columns.tolist()
    np.testing.assert_array_equal(
        fair.predict_proba(polars.from_pandas(people)), fair.predict_proba(people)
    )
    x = np.stack([people["sex"] == "male", people["skill"], people["years"]], axis=1).astype(float)
    plain = AverageClassifier(RandomForestClassifier(5, random_state=0), sensitive=0).fit(x, hired)
    other = np.column_stack([1 - x[:, 0], x[:, 1:]])
    np.testing.assert_array_equal(plain.predict_proba(x), plain.predict_proba(other))


def test_a_plan_of_numbers_stands_around_a_classifier_of_numbers() -> None:
    people, hired = applicants(200)
    x = np.stack([people["sex"] == "male", people["skill"]], axis=1).astype(float)
    given = LogisticRegression().fit(x, hired)
    plan = Plan(repair="average", shares=[0.5, 0.5], numbers=Numbers([0], [[0.0], [1.0]]))
    fair = fitted_classifier(given, plan)
    other = np.column_stack([1 - x[:, 0], x[:, 1]])
    np.testing.assert_array_equal(fair.predict_proba(x), fair.predict_proba(other))
    assert fair.n_features_in_ == 2


@pytest.mark.parametrize(
    ("made", "complaint"),
    [
        (AverageClassifier(sensitive="sex"), "needs a classifier with predict_proba"),
        (AverageClassifier(LogisticRegression()), "must know which columns are sensitive"),
        (AverageClassifier(forest(), sensitive="sex", weights="x"), "'uniform' or 'shares'"),
        (ThresholdsClassifier(forest(), sensitive="sex", criterion="x"), "The criterion is"),
        (ThresholdsClassifier(forest(), sensitive="sex", positive="x"), "There is no class 'x'"),
        (ThresholdsClassifier(forest(), sensitive=["sex", "city"]), "one sensitive attribute"),
        (AverageClassifier(forest(), schema="x = ["), "not valid TOML"),
    ],
)
def test_mistakes_are_named_in_a_sentence(made: PostHocClassifier, complaint: str) -> None:
    people, hired = applicants(200)
    people["city"] = people["city"].astype(str)
    with pytest.raises((SettingError, DataError, ValueError), match=complaint):
        made.fit(people.drop(columns="years") if made.sensitive is None else people, hired)


def test_a_plan_whose_shares_do_not_fit_its_schema_is_refused() -> None:
    plan = decoded({"repair": "average", "shares": [1.0], "schema": TWINS})
    with pytest.raises(ModelError, match="is damaged"):
        plan.answer(pd.DataFrame({"sex": ["male"], "role": ["single"]}), len)
