"""Twins and bare counterparts: how many findings among the people in the data depend on
counterparts who could not exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from fairprobe.arrays import Mask, Rows
from fairprobe.documents.people import BothCounterparts, Counterparts, CouplingCount
from fairprobe.judgement import Verdict, judge
from fairprobe.models import Model, one_thread
from fairprobe.results import Rate
from fairprobe.schema.domain import Domain
from fairprobe.schema.twins import Coupling, values_of


def compare_counterparts(
    domain: Domain,
    model: Model,
    x: Rows,
    verdict: Verdict,
    *,
    in_use: bool,
    suggested: Sequence[Coupling] = (),
) -> Counterparts:
    """Compare what bare counterparts and twins find. `verdict` is the judge's about the comparable
    rows of `x` by the kind in use, so only people with a coupled category are judged again.
    """
    kind: Literal["twins", "bare"] = "twins" if in_use else "bare"
    hints = [str(coupling) for coupling in suggested]
    if not domain.active_couplings:
        return Counterparts(kind=kind, suggested=hints)
    rows = x[domain.comparable(x)]
    couplings, is_coupled = [], np.zeros(len(rows), dtype=bool)
    for coupling in domain.active_couplings:
        has, crossed = _has(domain, coupling, rows)
        is_coupled |= has
        couplings.append(
            CouplingCount(
                attribute=coupling.attribute,
                sensitive=coupling.sensitive,
                roles=[dict(role) for role in coupling.roles],
                source=coupling.source,
                people=int(has.sum()),
                crossed=int(crossed.sum()),
            )
        )
    other = domain.bare() if in_use else domain
    with one_thread():
        again = judge(other, model, rows[is_coupled])
    mine, its = _rate(verdict, is_coupled), _rate(again, np.ones(len(again), dtype=bool))
    others = _rate(verdict, ~is_coupled)
    twins, bare = (mine, its) if in_use else (its, mine)
    everybody = _sum(bare, others)
    return Counterparts(
        kind=kind,
        couplings=couplings,
        suggested=hints,
        both=BothCounterparts(
            bare=everybody,
            bare_coupled=bare,
            twins=_sum(twins, others),
            twins_coupled=twins,
            others=others,
            affected_coupled=bare.hits / everybody.hits if everybody.hits else None,
            others_of_everybody=others.hits / max(everybody.samples, 1),
        ),
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
