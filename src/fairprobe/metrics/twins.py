"""Twins beside bare counterparts: how much of what is found among the people in the data rests on
counterparts who could not exist.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairprobe.arrays import Mask, Rows
from fairprobe.judgement import Verdict, judge
from fairprobe.models import Model, one_thread
from fairprobe.schema.domain import Domain
from fairprobe.schema.twins import Coupling, values_of
from fairprobe.statistics.rates import Rate


@dataclass(frozen=True)
class CoupledPeople:
    """The people in the data with a category of a coupling, and how many of them have one that goes
    with another sensitive value: their bare counterparts all would.
    """

    coupling: Coupling
    people: int
    crossed: int


@dataclass(frozen=True)
class BothRates:
    """People affected by bare counterparts and by twins: everybody, those with a coupled category,
    and the others, for whom both are the same.
    """

    bare: Rate
    bare_coupled: Rate
    twins: Rate
    twins_coupled: Rate
    others: Rate


@dataclass(frozen=True)
class Twins:
    """The couplings that the schema has for the sensitive attributes; the rates if there are any.
    `in_use`: the audit's counterparts are twins. `suggested` are couplings for which the table has
    some evidence, but too little to assume them.
    """

    in_use: bool
    couplings: tuple[CoupledPeople, ...] = ()
    rates: BothRates | None = None
    suggested: tuple[Coupling, ...] = ()


def compare_counterparts(
    domain: Domain, model: Model, x: Rows, verdict: Verdict, *, in_use: bool
) -> Twins:
    """Compare both kinds of counterparts. `verdict` is the judge's about the comparable rows of `x`
    by the kind in use, so only people with a coupled category are judged again.
    """
    if not domain.active_couplings:
        return Twins(in_use)
    rows = x[domain.comparable(x)]
    couplings, is_coupled = [], np.zeros(len(rows), dtype=bool)
    for coupling in domain.active_couplings:
        has, crossed = _has(domain, coupling, rows)
        is_coupled |= has
        couplings.append(CoupledPeople(coupling, int(has.sum()), int(crossed.sum())))
    other = domain.bare() if in_use else domain
    with one_thread():
        again = judge(other, model, rows[is_coupled])
    mine, its = _rate(verdict, is_coupled), _rate(again, np.ones(len(again), dtype=bool))
    others = _rate(verdict, ~is_coupled)
    twins, bare = (mine, its) if in_use else (its, mine)
    return Twins(
        in_use,
        tuple(couplings),
        BothRates(_sum(bare, others), bare, _sum(twins, others), twins, others),
    )


def _has(domain: Domain, coupling: Coupling, rows: Rows) -> tuple[Mask, Mask]:
    """Who has a category of the coupling, and who has one of another sensitive value's."""
    attribute, sensitive = domain[coupling.attribute], domain[coupling.sensitive]
    codes = rows[:, domain.index(coupling.attribute)]
    place = (rows[:, domain.index(coupling.sensitive)] - sensitive.low).astype(np.int64)
    own = np.array(
        [
            [attribute.code_of(role[value]) for role in coupling.roles]
            for value in values_of(sensitive)
        ]
    )
    has = np.isin(codes, own)
    return has, has & ~(codes[:, None] == own[place]).any(axis=1)


def _rate(verdict: Verdict, within: Mask) -> Rate:
    judged = within & verdict.has_counterpart
    return Rate.of(int(verdict.is_discriminatory[judged].sum()), int(judged.sum()))


def _sum(one: Rate, other: Rate) -> Rate:
    return Rate.of(one.hits + other.hits, one.samples + other.samples)
