"""The pytest plugin: a fixture `fairness` and a mark of the same name. Nothing heavy is imported
before a test asserts something.

def test_sex_does_not_decide(fairness):
    fairness.assert_individual(model, data, sensitive="sex", max_rate=0.01)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from fairprobe.datasets import Dataset
    from fairprobe.documents.people import People
    from fairprobe.documents.policy import Uncertain
    from fairprobe.gate import GateResult, Policy
    from fairprobe.models import Decision
    from fairprobe.schema.twins import CounterpartKind
    from fairprobe.table.audit import Audit

GROUPS = 5  # named in a message


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark, so that --strict-markers accepts it."""
    config.addinivalue_line(
        "markers", "fairness: a test of how a model treats people (select with -m fairness)"
    )


@pytest.fixture(scope="session")
def fairness() -> Fairness:
    """Provide assertions about how a model treats people; each is a ruling of fairprobe's gate."""
    return Fairness()


class Fairness:
    """Assertions about a model. `model`, `data` and `decision` are what `fairprobe.audit` takes."""

    def assert_individual(
        self,
        model: Any,
        data: Dataset,
        sensitive: str | tuple[str, ...] | list[str],
        *,
        max_rate: float = 0.01,
        samples: int = 50_000,
        seed: int = 0,
        decision: Decision | None = None,
        uncertain: Uncertain = "fail",
    ) -> None:
        """At most this share of all possible people get another answer when only the sensitive
        attributes change (DM-RS).
        """
        __tracebackhide__ = True
        from fairprobe.gate import Policy, check, sampler
        from fairprobe.table.partial import possible_people, prepare

        policy = Policy(limits={"dm_rs": max_rate}, uncertain=uncertain)
        data, model = prepare(data, model, sensitive, decision=decision)
        body = possible_people(data, model, samples=samples, seed=seed)
        _assert(check(body, policy, more=sampler(data, model, seed)))

    def assert_people(
        self,
        model: Any,
        data: Dataset,
        sensitive: str | tuple[str, ...] | list[str],
        *,
        max_rate: float = 0.05,
        counterparts: CounterpartKind = "twins",
        decision: Decision | None = None,
        uncertain: Uncertain = "fail",
    ) -> None:
        """At most this share of the people in the data would get another answer. The message names
        groups, never a person in the data. `counterparts` are those of `fairprobe.audit`.
        """
        __tracebackhide__ = True
        from fairprobe.gate import Policy, check
        from fairprobe.table.partial import people_in_data, prepare

        policy = Policy(limits={"people": max_rate}, uncertain=uncertain)
        body = people_in_data(*prepare(data, model, sensitive, counterparts, decision))
        _assert(check(body, policy), _affected(body.people))

    def assert_groups(
        self,
        model: Any,
        data: Dataset,
        sensitive: str | tuple[str, ...] | list[str],
        *,
        min_impact_ratio: float | None = 0.8,
        max_demographic_parity: float | None = None,
        seed: int = 0,
        decision: Decision | None = None,
        uncertain: Uncertain = "fail",
    ) -> None:
        """No group of the people held out is given the favourable answer much more rarely than
        another.
        """
        __tracebackhide__ = True
        from fairprobe.gate import Policy, check
        from fairprobe.table.partial import groups_held_out, prepare

        given = {"impact_ratio": min_impact_ratio, "demographic_parity": max_demographic_parity}
        policy = Policy(
            limits={name: limit for name, limit in given.items() if limit is not None},
            uncertain=uncertain,
        )
        ready = prepare(data, model, sensitive, decision=decision)
        _assert(check(groups_held_out(*ready, seed=seed), policy))

    def assert_policy(
        self,
        run: Audit | Path | str,
        policy: Policy | Path | str,
        *,
        baseline: Audit | Path | str | None = None,
    ) -> None:
        """Require that the run keeps to the policy, as `fairprobe check` decides."""
        __tracebackhide__ = True
        from fairprobe.gate import check

        _assert(check(run, policy, baseline=baseline))


def _assert(result: GateResult, more: str = "") -> None:
    __tracebackhide__ = True
    if result.passed:
        return
    from fairprobe.gate.words import difference, shared
    from fairprobe.report.formats import listed

    lines = [
        f"{result.headline} ({result.model} on {result.dataset}, by {listed(result.sensitive)})"
    ]
    lines += [ruling.why for ruling in result.failed]
    lines += [f"{difference(pair)}\n    Both: {shared(pair)}." for pair in result.pairs]
    raise AssertionError("\n".join([*lines, more] if more else lines))


def _affected(people: People | None) -> str:
    """Name the groups with most people affected."""
    groups = [] if people is None else [*people.values, *people.groups]
    worst = sorted((group for group in groups if group.hits), key=lambda group: -group.low)
    return "\n".join(
        f"{group.hits:,} of {group.samples:,} with {group.attribute} {group.value} are affected."
        for group in worst[:GROUPS]
    )
