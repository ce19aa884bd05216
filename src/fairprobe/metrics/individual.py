"""Individual fairness rates: how often a person and their counterparts get the same answer.

paper       here
pair        a person `x` and one counterpart `x'`, equal in everything but the sensitive attributes
IFR_b       `ifr_b`: the share of pairs with equal labels. A tie is no evidence of a difference, as
            in `judgement`
IFR_p(τ)    `ifr_p`: the share of pairs with equal labels and JS(f(x), f(x')) ≤ τ
JS          `js`: in nats. The paper says that JS lies in [0, 1], which is base 2, but its worked
            example is in nats: "bits" is an option
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, log
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
from msgspec.structs import asdict, replace
from scipy.special import rel_entr

from fairprobe.arrays import Floats, Ints, Mask, Rows
from fairprobe.documents.people import IFR, TAU, GroupIFR, IndividualFairness, NamedIFR, TauRate
from fairprobe.documents.table import TableMeasurements
from fairprobe.errors import DataError, ModelError, SettingError
from fairprobe.judgement import ROWS_AT_ONCE, TIE, labels_and_lead, two_labels
from fairprobe.measures import Measure, Reading, by, reading_of_counterparts, required
from fairprobe.metrics.group import Groups, groups_of
from fairprobe.models import Model, one_thread
from fairprobe.results import Estimate, Rate
from fairprobe.schema.domain import Domain
from fairprobe.statistics.resampling import ratio, resampled

ROUNDING = 1e-3  # what a model's probabilities may leave [0, 1] by

Base: TypeAlias = Literal["nats", "bits"]
Over: TypeAlias = Literal["pairs", "people", "single"]
Pairs: TypeAlias = Literal["all", "single"]  # as audits and repairs say it
Probabilities: TypeAlias = npt.NDArray[np.floating[Any]]


def js(p: Any, q: Any, *, base: Base = "nats") -> Floats:
    """Return the Jensen–Shannon divergence of two (N, C) tables, row by row: 0 for equal rows, ln 2
    (1 bit) for rows without a common class.
    """
    unit = _unit(base)
    one, other = _distributions(p, "p"), _distributions(q, "q")
    if one.shape != other.shape:
        raise DataError(
            f"p has shape {one.shape} and q {other.shape}; expected the same rows and classes in"
            " both."
        )
    return _js(one, other) / unit


def ifr_b(
    p: Any, p_other: Any, *, sensitive_features: Any = None, allowed: Mask | None = None
) -> IFR:
    """IFR_b from the probabilities of the people (N, C) and of their counterparts, (N, C) or
    several for each (N, V, C).

    Pairs that `allowed` (N, V) denies are not counted.
    """
    one, others, counted = _pairs(p, p_other, allowed)
    fair = ~_differs(one, others) & counted
    return _over_pairs(
        fair.sum(axis=1), counted.sum(axis=1), _optional_groups(sensitive_features, len(one))
    )


def ifr_p(
    p: Any,
    p_other: Any,
    *,
    tau: float = TAU,
    base: Base = "nats",
    sensitive_features: Any = None,
    allowed: Mask | None = None,
) -> IFR:
    """IFR_p(τ), given what `ifr_b` is given. For τ ≥ 1 it is IFR_b."""
    _check_tau(tau)
    unit = _unit(base)
    one, others, counted = _pairs(p, p_other, allowed)
    fair = ~_differs(one, others) & (_divergences(one, others) / unit <= tau) & counted
    return _over_pairs(
        fair.sum(axis=1), counted.sum(axis=1), _optional_groups(sensitive_features, len(one))
    )


def boundary_tau(difference: float = 0.05, *, base: Base = "nats") -> float:
    """τ as the paper chooses it: the divergence of two answers on both sides of the decision
    boundary whose probabilities differ by this much. For 5 % it is 0.00125 nats, which the paper
    rounds to 0.001.
    """
    if not 0 <= difference <= 1:
        raise SettingError(f"A difference of probabilities is from 0 to 1; got {difference}.")
    up, down = (1 + difference) / 2, (1 - difference) / 2
    return float(js([[up, down]], [[down, up]], base=base)[0])


def over_tau(
    domain: Domain, model: Model, x: Any, taus: Sequence[float], **settings: Any
) -> list[IndividualFairness]:
    """Measure IFR_p for several τ, with the settings of `individual_fairness`; beyond 1 it is
    IFR_b.
    """
    whole = individual_fairness(domain, model, x, tau=taus, **settings)
    return [
        replace(whole, p=IFR(**_numbers(rate)), tau=rate.tau, by_tau=[]) for rate in whole.by_tau
    ]


def _numbers(rate: GroupIFR) -> dict[str, Any]:
    """Return the fields that all individual fairness rates have."""
    return {name: getattr(rate, name) for name in GroupIFR.__struct_fields__}


def individual_fairness(
    domain: Domain,
    model: Model,
    x: Any,
    *,
    tau: float | Sequence[float] = TAU,
    base: Base = "nats",
    over: Over = "pairs",
    rng: np.random.Generator | None = None,
) -> IndividualFairness:
    """Measure IFR_b and IFR_p with every person under all their sensitive values; the groups are
    the people's own values.

    `over="people"`: a person is treated fairly if every counterpart gets the same answer; by IFR_b,
    exactly if `judge` finds no discrimination. A person without an allowed counterpart is left
    out of both. For a binary attribute both are the same.

    `over="single"`: of the counterparts of each person one counts, drawn with `rng`, as in the
    paper's Test'.

    Of several τ the first is that of `p`, and `by_tau` has IFR_p at each; the model is asked once.
    """
    taus = check_taus(tau)
    unit = _unit(base)
    if over not in get_args(Over):
        raise SettingError(f"`over` must be 'pairs', 'people' or 'single'; it is {over!r}.")
    if (over == "single") != (rng is not None):
        raise SettingError(
            "`over='single'` draws one counterpart for each person and needs a generator: rng="
            "np.random.default_rng(0). Nothing else takes one."
        )
    rows = domain.check(x)
    inside = rows[domain.comparable(rows)]
    own = domain.own_value(inside)
    groups = Groups(
        " and ".join(domain.sensitive),
        tuple(map(domain.describe_value, range(domain.value_count))),
        own,
    )
    # The chunks of `judge`: the same rounding, the same verdicts.
    at_once = max(1, ROWS_AT_ONCE // domain.value_count)
    with one_thread():
        parts = [
            _tally(domain, model, inside[i : i + at_once], [tau * unit for tau in taus], rng)
            for i in range(0, len(inside), at_once)
        ]
    pairs, fair_b, fair_p, one_label, alike = (
        (np.concatenate(part) for part in zip(*parts, strict=True)) if parts else _nobody(len(taus))
    )
    if over != "people":
        b = _over_pairs(fair_b, pairs, groups)
        rates = [_over_pairs(fair, pairs, groups) for fair in fair_p.T]
    else:
        b = _over_people(one_label, pairs, groups)
        rates = [_over_people(one_label & each, pairs, groups) for each in alike.T]
    by_tau = zip(taus, rates, strict=True) if len(taus) > 1 else ()
    return IndividualFairness(
        tau=taus[0],
        base=base,
        over=over,
        left_out=len(rows) - len(inside),
        b=b,
        p=rates[0],
        by_tau=[TauRate(tau=tau, **_numbers(rate)) for tau, rate in by_tau],
    )


def _nobody(taus: int) -> tuple[Ints, Ints, Ints, Mask, Mask]:
    none = np.empty(0, dtype=np.int64)
    each, label = np.empty((0, taus), dtype=np.int64), np.empty(0, dtype=bool)
    return none, none, each, label, each.astype(bool)


def _tally(
    domain: Domain,
    model: Model,
    x: Rows,
    most_nats: Sequence[float],
    rng: np.random.Generator | None = None,
) -> tuple[Ints, Ints, Ints, Mask, Mask]:
    """For each person: pairs, those fair by label, those fair by probability at each of the
    `most_nats`; whether all have one label, whether all are alike at each. With a generator, one
    counterpart of each person is drawn and counts.
    """
    n, v = len(x), domain.value_count
    every = domain.counterparts(x).reshape(n * v, -1)
    p = model.probabilities(every)
    scores = model.scores(every, p).reshape(n, v, -1)
    p = p.reshape(n, v, -1)
    if not (p.sum(axis=-1) > 0).all():
        raise ModelError(
            "The model gives some rows no probability for any class; their divergence is not"
            " defined. Check its outputs."
        )
    own = domain.own_value(x)
    person = np.arange(n)
    may_be = domain.satisfies(every).reshape(n, v)
    counted = may_be & may_be[person, own][:, None]
    counted[person, own] = False
    if rng is not None:
        drawn = (rng.random(counted.shape) * counted).argmax(axis=1)
        counted &= np.arange(v) == drawn[:, None]
        may_be &= counted | (np.arange(v) == own[:, None])
    apart = _divergences(p[person, own], p)
    alike = apart[:, :, None] <= np.asarray(most_nats)  # (n, v, τ)
    same_label = ~_differs(scores[person, own], scores)
    labels, certain = _labels(scores)
    one_label = ~(two_labels(labels, certain & may_be) & may_be[person, own])
    fair_b = same_label & counted
    fair_p = fair_b[:, :, None] & alike
    return (
        counted.sum(axis=1),
        fair_b.sum(axis=1),
        fair_p.sum(axis=1),
        one_label,
        np.asarray((alike | ~counted[:, :, None]).all(axis=1)),
    )


# -- pairs -----------------------------------------------------------------------------------------


def _labels(scores: Probabilities) -> tuple[Ints, Mask]:
    """(…, C) to (…): the labels, and which of them are certain, not ties."""
    # In the precision they came with, so that ties are the same as in `judge`.
    labels, lead = labels_and_lead(scores.reshape(-1, scores.shape[-1]))
    return labels.reshape(scores.shape[:-1]), (lead > TIE).reshape(scores.shape[:-1])


def _differs(scores: Probabilities, others: Probabilities) -> Mask:
    """(N, V) which pairs have two labels that are both certain."""
    (label, certain), (label_other, certain_other) = _labels(scores), _labels(others)
    return np.asarray((label_other != label[:, None]) & certain_other & certain[:, None])


def _divergences(p: Probabilities, others: Probabilities) -> Floats:
    """(N, V) in nats."""
    return _js(_scaled(p)[:, None], _scaled(others))


def _js(p: Floats, q: Floats) -> Floats:
    """Over the last axis, in nats. With sums in the place of means, so that the tiniest probability
    is not halved to nothing.
    """
    both = p + q
    divergence = (rel_entr(2 * p, both) + rel_entr(2 * q, both)).sum(axis=-1) / 4
    return np.asarray(np.clip(divergence, 0, log(2)))


def _scaled(p: Probabilities) -> Floats:
    """Rows that sum to one."""
    wide = np.maximum(p.astype(np.float64), 0)
    return np.asarray(wide / wide.sum(axis=-1, keepdims=True))


def _distributions(p: Any, name: str) -> Floats:
    table = _probabilities(p, name)
    if table.ndim != 2:
        raise DataError(f"{name} has shape {table.shape}; expected (rows, classes).")
    return _scaled(table)


def _pairs(p: Any, p_other: Any, allowed: Any) -> tuple[Probabilities, Probabilities, Mask]:
    """Check the people (N, C), their counterparts (N, V, C), and which pairs count (N, V)."""
    one, others = _probabilities(p, "p"), _probabilities(p_other, "p_other")
    if others.ndim == 2:
        others = others[:, None]
    if (
        one.ndim != 2
        or others.ndim != 3
        or (len(one), one.shape[1]) != (len(others), others.shape[2])
    ):
        raise DataError(
            f"p has shape {one.shape} and p_other {np.shape(p_other)}; expected (people, classes)"
            " and the same again, or (people, counterparts, classes)."
        )
    if allowed is None:
        return one, others, np.ones(others.shape[:2], dtype=bool)
    counted = np.asarray(allowed)
    counted = counted[:, None] if counted.ndim == 1 else counted
    if counted.dtype != np.bool_ or counted.shape != others.shape[:2]:
        raise DataError(
            f"`allowed` is {counted.shape} of {counted.dtype}; expected True or False for each"
            f" pair, {others.shape[:2]}."
        )
    return one, others, counted


def _probabilities(p: Any, name: str) -> Probabilities:
    """Check that these are numbers between 0 and 1, float32 if they came so."""
    try:
        table = np.asarray(p)
        table = table if table.dtype.kind == "f" else table.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} must be a table of probabilities: {error}.") from error
    if table.ndim < 2 or table.shape[-1] < 2:
        raise DataError(
            f"{name} has shape {table.shape}; expected a column for each class, two at least: [1 −"
            " p, p] for a single one."
        )
    wrong = ~((table >= -ROUNDING) & (table <= 1 + ROUNDING)).all(axis=-1) | ~(
        table.sum(axis=-1) > 0
    )
    if wrong.any():
        row = tuple(int(place) for place in np.argwhere(wrong)[0])
        where = row[0] if len(row) == 1 else row
        raise DataError(
            f"Row {where} of {name} does not hold probabilities: {table[row].tolist()}. Each must"
            " lie in [0, 1], and not all may be 0."
        )
    return table


def _unit(base: str) -> float:
    """Return the unit in nats."""
    if base not in get_args(Base):
        raise SettingError(f"`base` must be 'nats' or 'bits' (base 2); it is {base!r}.")
    return 1.0 if base == "nats" else log(2)


def check_taus(tau: float | Sequence[float]) -> tuple[float, ...]:
    """Check one τ or several."""
    taus = tuple(tau) if isinstance(tau, Sequence) else (tau,)
    if not taus:
        raise SettingError("Give at least one tau, the greatest divergence of a fair pair.")
    if len(set(taus)) < len(taus):
        raise SettingError(f"Each tau may be given once; they are {', '.join(map(str, taus))}.")
    for each in taus:
        _check_tau(each)
    return taus


def check_pairs(pairs: str) -> None:
    """Raise SettingError unless the rates count all pairs of a person, or a single one."""
    if pairs not in get_args(Pairs):
        raise SettingError(
            "Individual fairness rates count 'all' pairs of a person, or a 'single' one; got"
            f" '{pairs}'."
        )


def _check_tau(tau: float) -> None:
    if not 0 <= tau < inf:
        raise SettingError(
            f"`tau` is the greatest divergence of a fair pair, 0 or more; it is {tau}."
        )


# -- rates -----------------------------------------------------------------------------------------


def _optional_groups(sensitive_features: Any, rows: int) -> Groups | None:
    return None if sensitive_features is None else groups_of(sensitive_features, rows)


def _over_pairs(fair: Ints, pairs: Ints, groups: Groups | None) -> IFR:
    """Count fair pairs, of everybody and of each group."""
    return _by_group(lambda within: _share_of_pairs(fair[within], pairs[within]), groups)


def _over_people(fair: Mask, pairs: Ints, groups: Groups | None) -> IFR:
    """Count people all of whose pairs are fair, of everybody and of each group."""
    return _by_group(lambda within: _share_of_people(fair[within], pairs[within]), groups)


def _by_group(measure: Callable[[Any], GroupIFR], groups: Groups | None) -> IFR:
    return IFR(
        **asdict(measure(slice(None))),
        groups=[
            NamedIFR(name=name, **asdict(measure(within))) for name, within in _members(groups)
        ],
    )


def _members(groups: Groups | None) -> list[tuple[str, Mask]]:
    return (
        []
        if groups is None
        else [(name, groups.codes == place) for place, name in enumerate(groups.names)]
    )


def _share_of_people(fair: Mask, pairs: Ints) -> GroupIFR:
    paired = pairs > 0
    return _exact(int(fair[paired].sum()), int(paired.sum()), int(pairs.sum()))


def _exact(hits: int, samples: int, pairs: int) -> GroupIFR:
    if samples == 0:
        return _share(Estimate(None, None, None, 0), 0, 0)
    return _share(Rate.of(hits, samples), samples, pairs)


def _share(number: Rate | Estimate, samples: int, pairs: int) -> GroupIFR:
    return GroupIFR(
        estimate=number.estimate,
        low=number.low,
        high=number.high,
        samples=samples,
        pairs=pairs,
        confidence=number.confidence,
    )


def _share_of_pairs(fair: Ints, pairs: Ints) -> GroupIFR:
    """Count fair pairs. Where several pairs of a person count, the people are resampled; somebody
    all of whose pairs are fair, and somebody none of whose are, is always possible.
    """
    with_pairs = pairs > 0
    fair, pairs = fair[with_pairs], pairs[with_pairs]
    total, total_fair = int(pairs.sum()), int(fair.sum())
    if total == len(pairs) or total_fair in (0, total):
        return _exact(int((fair > 0).sum()), len(pairs), total)
    most = int(pairs.max())
    kinds, people = np.unique(
        np.stack([np.append(fair, [0, most]), np.append(pairs, [most, most])], axis=1),
        axis=0,
        return_counts=True,
    )
    is_extreme = (kinds[:, 1] == most) & np.isin(kinds[:, 0], [0, most])
    whole = resampled(
        people - is_extreme,
        lambda tables: ratio(tables @ kinds[:, 0], tables @ kinds[:, 1]),
        unseen=is_extreme.astype(np.float64),
    )
    return _share(whole, len(pairs), total)


# -- how policies, cards and reports read them -----------------------------------------------------


def _reading(document: TableMeasurements, rate: IFR, which: str, alike: str) -> list[Reading]:
    what = f"share of pairs differing only in {by(document)} that get {alike} ({which})"
    missing = f"nobody measured has a counterpart by {by(document)}. Check the column and the rules"
    single = required(document.fairness).individual.over == "single"
    on = f"{rate.pairs:,} pairs{', one for each person' if single else ''}"
    return [reading_of_counterparts(document, what, rate, missing=missing, measured_on=on)]


def _read_ifr_b(document: TableMeasurements) -> list[Reading]:
    rate = required(document.fairness).individual.b
    return _reading(document, rate, "IFR_b", "the same answer")


def _read_ifr_p(document: TableMeasurements) -> list[Reading]:
    rates = required(document.fairness).individual
    own = "" if rates.tau == TAU else f", τ = {rates.tau:g} {rates.base}"
    return _reading(document, rates.p, f"IFR_p{own}", "nearly the same answer")


IFR_B = Measure(
    name="ifr_b",
    title="Pairs with the same answer (IFR_b)",
    about="Of the pairs of a person and a counterpart, the share that gets the same answer.",
    unit="share",
    direction="at least",
    read=_read_ifr_b,
)
IFR_P = Measure(
    name="ifr_p",
    title="Pairs with nearly the same probabilities (IFR_p)",
    about="As ifr_b, where the probabilities must be nearly the same too: at 90 % for one, the"
    " other must lie between about 87 and 92.5 %. A model whose decisions are stable but whose"
    " confidence depends on the attribute has a high ifr_b and a low ifr_p.",
    unit="share",
    direction="at least",
    read=_read_ifr_p,
)
