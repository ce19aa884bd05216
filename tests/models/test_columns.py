"""What the encoder of a user's own does is learnt by asking it, and refused where that cannot be
done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    StandardScaler,
)
from torch import nn

from fairprobe.arrays import Rows
from fairprobe.errors import ModelError
from fairprobe.models.columns import Columns, MixedError, learn_columns
from fairprobe.models.encoder import Encoder, Scale
from fairprobe.schema.domain import Attribute, Domain

DOMAIN = Domain(
    (
        Attribute(name="age", low=17, high=90),
        Attribute(name="gain", low=0, high=99999, missing=-1),
        Attribute(
            name="work",
            kind="categorical",
            categories=("private", "none", "state"),
            one_hot=True,
            missing=-1,
        ),
        Attribute(name="score", kind="real", low=-2, high=3.7),
        Attribute(name="sex", kind="categorical", categories=("f", "m")),
    ),
    sensitive=("sex",),
)


def people(n: int = 2000) -> Rows:
    """Rows of the domain with gaps in both columns that may have them."""
    x = DOMAIN.sample(n, rng=np.random.default_rng(0))
    x[::7, 1] = -1
    x[::5, 2] = -1
    return x


def words(x: Rows) -> pd.DataFrame:
    gain = x[:, 1].astype(np.float64)
    work = np.array(["private", "none", "state", None], dtype=object)[x[:, 2].astype(int)]
    return pd.DataFrame(
        {
            "age": x[:, 0].astype(int),
            "gain": np.where(gain == -1, np.nan, gain),
            "work": pd.Series(work, dtype="str"),
            "score": x[:, 3].astype(np.float64),
            "sex": pd.Series(np.array(["f", "m"])[x[:, 4].astype(int)], dtype="str"),
        }
    )


def median(*more: Any) -> Any:
    return make_pipeline(SimpleImputer(strategy="median"), *more)


def prepared(gain: Any, *, work: Any = None) -> ColumnTransformer:
    one_hot = work or OneHotEncoder(sparse_output=False, handle_unknown="ignore")
    return ColumnTransformer(
        [
            ("numbers", StandardScaler(), ["score", "age"]),
            ("gain", gain, ["gain"]),
            ("work", make_pipeline(SimpleImputer(strategy="most_frequent"), one_hot), ["work"]),
            ("sex", OrdinalEncoder(), ["sex"]),
        ]
    )


BINS = KBinsDiscretizer(5, encode="onehot-dense", quantile_method="averaged_inverted_cdf")
ENCODERS: dict[str, Callable[[], Any]] = {
    "filled gaps, scaled numbers": lambda: prepared(median(StandardScaler())),
    "a column that tells gaps": lambda: prepared(
        make_pipeline(SimpleImputer(add_indicator=True), MinMaxScaler())
    ),
    "a logarithm": lambda: prepared(median(FunctionTransformer(np.log1p), StandardScaler())),
    "bins": lambda: prepared(median(BINS)),
    "the first category dropped": lambda: prepared(
        median(), work=OneHotEncoder(drop="first", sparse_output=False)
    ),
    "categories by number": lambda: prepared(median(MinMaxScaler()), work=OrdinalEncoder()),
    "all mixed linearly": lambda: make_pipeline(prepared(median(StandardScaler())), PCA(4)),
}


@pytest.mark.parametrize("name", ENCODERS)
def test_what_a_transformer_does_is_learnt_gaps_included(name: str) -> None:
    x = people()
    transformer = ENCODERS[name]().fit(words(x))
    module = learn_columns(lambda rows: transformer.transform(words(rows)), DOMAIN, x)
    assert module is not None
    other = people(3000)[2000:]
    learnt = module(Encoder(DOMAIN)(torch.from_numpy(other))).numpy()
    np.testing.assert_allclose(learnt, transformer.transform(words(other)), atol=2e-6)


def test_products_of_attributes_are_refused_with_the_column() -> None:
    x = people()
    transformer = make_pipeline(prepared(median(StandardScaler())), PolynomialFeatures(2)).fit(
        words(x)
    )
    with pytest.raises(
        MixedError,
        match=r"Column \d+ of the encoder's \d+ does not depend on each attribute for itself",
    ):
        learn_columns(lambda rows: transformer.transform(words(rows)), DOMAIN, x)


def test_a_jump_of_a_real_number_is_followed_to_a_fine_grid() -> None:
    x = people()
    module = learn_columns(lambda rows: (rows[:, 3:4] > 0.123456).astype(np.float32), DOMAIN, x)
    assert module is not None
    away = np.abs(x[:, 3] - 0.123456) > (3.7 + 2) / 4096
    learnt = module(Encoder(DOMAIN)(torch.from_numpy(x[away]))).numpy()
    np.testing.assert_allclose(learnt[:, 0], x[away, 3] > 0.123456, atol=1e-6)


def test_numbers_that_are_not_finite_are_refused() -> None:
    with pytest.raises(ModelError, match="not finite"):
        learn_columns(lambda rows: np.where(rows[:, 3:4] < 0, np.nan, 1), DOMAIN, people())


def test_the_encoder_itself_needs_no_module() -> None:
    encoder = Encoder(DOMAIN)
    assert (
        learn_columns(lambda rows: encoder(torch.from_numpy(rows)).numpy(), DOMAIN, people())
        is None
    )


def test_an_encoder_that_only_scales_becomes_a_scale() -> None:
    encoder = Encoder(DOMAIN)
    module = learn_columns(
        lambda rows: 2 * encoder(torch.from_numpy(rows)).numpy() - 1, DOMAIN, people()
    )
    assert isinstance(module, Scale)
    torch.testing.assert_close(module.factor, torch.full((encoder.width,), 2.0))


def test_gradients_pass_through_curves_and_matrices_as_finite_differences_say() -> None:
    x = people()
    transformer = prepared(median(FunctionTransformer(np.log1p), StandardScaler())).fit(words(x))
    module = learn_columns(lambda rows: transformer.transform(words(rows)), DOMAIN, x)
    assert isinstance(module, Columns)
    network = nn.Sequential(module, nn.Linear(7, 5), nn.Tanh(), nn.Linear(5, 1)).double()
    z = (
        Encoder(DOMAIN)(torch.from_numpy(x[1:5])).double() + 0.25
    )  # between the knots, where a curve has a slope
    assert torch.autograd.gradcheck(network, z.requires_grad_(), eps=1e-4, atol=1e-5)


def test_a_repair_does_not_train_the_users_preparation() -> None:
    x = people()
    transformer = prepared(median(StandardScaler())).fit(words(x))
    module = learn_columns(lambda rows: transformer.transform(words(rows)), DOMAIN, x)
    assert module is not None
    assert not any(parameter.requires_grad for parameter in module.parameters())


@given(
    bounds=st.lists(st.tuples(st.integers(-50, 50), st.integers(1, 60)), min_size=2, max_size=4),
    factors=st.lists(
        st.floats(-3, 3).filter(lambda value: abs(value) > 0.01), min_size=4, max_size=4
    ),
    shifts=st.lists(st.floats(-100, 100), min_size=4, max_size=4),
)
def test_every_scaling_of_every_domain_is_learnt(
    bounds: list[tuple[int, int]], factors: list[float], shifts: list[float]
) -> None:
    attributes = [
        Attribute(name=f"a{i}", low=low, high=low + size) for i, (low, size) in enumerate(bounds)
    ]
    domain = Domain(tuple(attributes), sensitive=("a0",))
    slope, shift = np.array(factors[: len(bounds)]), np.array(shifts[: len(bounds)])

    def scaled(rows: Rows) -> Rows:
        return np.asarray((rows - shift) * slope, dtype=np.float32)

    x = domain.sample(50, rng=np.random.default_rng(1))
    module = learn_columns(scaled, domain, x)
    learnt = torch.from_numpy(x) if module is None else module(torch.from_numpy(x))
    np.testing.assert_allclose(learnt.numpy(), scaled(x), atol=2e-3, rtol=1e-5)
