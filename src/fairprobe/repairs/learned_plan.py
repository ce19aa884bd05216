"""The plan of a repaired model, for the tables that the user's own model takes.

A model of words gets the text of the schema. For a model of numbers it is learned by probing what
prepares them: which columns change with the sensitive values, and what stands in them then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairprobe.arrays import Rows
from fairprobe.datasets.base import Dataset
from fairprobe.errors import ModelError
from fairprobe.models import Model
from fairprobe.models.columns import Numbers as ToNumbers
from fairprobe.repairs.average import Averaged, AveragedAmounts
from fairprobe.repairs.plans import SAME, Coupled, Numbers, Plan, reached
from fairprobe.repairs.posthoc import PostHoc
from fairprobe.repairs.thresholds import Thresholds
from fairprobe.schema.domain import Domain
from fairprobe.schema.domain_file import domain_text
from fairprobe.schema.rules import WrittenConstraint
from fairprobe.schema.twins import maps_of

PROBED = 64  # people


def plan_of(
    repair: PostHoc,
    repaired: Model,
    data: Dataset,
    *,
    to_numbers: ToNumbers | None = None,
    order: Sequence[int] | None = None,
) -> Plan:
    """The repair of `repaired` as plain data. `to_numbers` turns rows into the model's numbers,
    None if it takes words; `order` is the position of each class among the model's scores, if it
    differs.
    """
    count, rule = data.domain.value_count, repaired.decision
    positive = 1 if rule is None else rule.positive
    settings: dict[str, Any] = {
        "repair": repair.name,
        "shares": [1 / count] * count,
        "positive": positive if order is None else order[positive],
    }
    if isinstance(repaired, AveragedAmounts):
        settings |= {"amounts": True, "positive": 0}
    if isinstance(repaired, Averaged | AveragedAmounts):
        settings["shares"] = repaired.shares.astype(float).tolist()
    elif rule is not None:
        if rule.column is not None and rule.column not in data.domain.sensitive_columns:
            raise ModelError(
                "The decision has thresholds by an attribute that is not sensitive, which a saved"
                " repair does not know. Give one threshold for all."
            )
        settings["thresholds"] = [float(each) for each in rule.thresholds]
        if isinstance(repair, Thresholds):
            settings["thresholds"] = reached(settings["thresholds"])
    if to_numbers is not None:
        return Plan(**settings, numbers=learn_numbers(to_numbers, data))
    if needs_code(data):
        raise ModelError(
            "The schema has constraints made of code, which cannot be saved with a model. Write"
            " them as rules in a domain.toml."
        )
    return Plan(**settings, schema=domain_text(data.declared()))


def needs_code(data: Dataset) -> bool:
    """Whether constraints that have no text rule out counterparts of people in the data."""
    of_code = tuple(
        each
        for each in data.domain.constraints
        if not (isinstance(each, WrittenConstraint) and each.text is not None)
    )
    return bool(of_code) and _rules_out(data)


def learn_numbers(to_numbers: ToNumbers, data: Dataset) -> Numbers:
    """Which of the model's columns change with the sensitive values and with what is coupled to
    them; raise ModelError if they hold anything else as well.
    """
    domain = data.domain
    if domain.constraints and _rules_out(data):
        raise ModelError(
            "The constraints of the schema rule out counterparts, and a table of numbers does not"
            " show whose. Save a model that takes the table's own words."
        )
    able = data.x[domain.comparable(data.x)]
    some = able[np.random.default_rng(0).permutation(len(able))[:PROBED]]
    columns, values = _standing(to_numbers, domain.bare().counterparts(some), domain.sensitive)
    coupled = []
    for each in maps_of(domain):
        attribute = domain.attributes[each.column]
        rows = np.repeat(some[:, None], len(attribute.categories), axis=1)
        rows[:, :, each.column] = np.arange(len(attribute.categories))
        shown, categories = _standing(to_numbers, rows, (attribute.name,))
        if set(shown) & set(columns):
            raise _mixed((*domain.sensitive, attribute.name))
        coupled.append(Coupled(shown, categories, each.onto.astype(int).tolist()))
    return Numbers(columns, values, coupled)


def _standing(
    to_numbers: ToNumbers, rows: Rows, names: Sequence[str]
) -> tuple[list[int], list[list[float]]]:
    """Which columns differ between the rows (n, V, A) of each person, and what stands in them for
    each of the V, whoever it is.
    """
    people, values, attributes = rows.shape
    numbers = np.asarray(to_numbers(rows.reshape(-1, attributes)), dtype=np.float64)
    numbers = numbers.reshape(people, values, -1)
    first = numbers[:, :1]
    differs = (numbers != first) & ~(np.isnan(numbers) & np.isnan(first))
    columns = np.flatnonzero(differs.any(axis=(0, 1)))
    if len(columns) == 0:
        raise ModelError(
            f"{' and '.join(names)} does not reach the model's numbers, so there is nothing to"
            " repair by them."
        )
    standing = numbers[0][:, columns]
    limit = SAME * np.maximum(1, np.abs(standing))
    if not (np.abs(numbers[:, :, columns] - standing) <= limit).all():
        raise _mixed(names)
    return columns.tolist(), standing.tolist()


def _mixed(names: Sequence[str]) -> ModelError:
    return ModelError(
        f"The model's numbers mix {' and '.join(names)} with other attributes, so counterparts"
        " cannot be made among them. Save a model that takes the table's own words."
    )


def _rules_out(data: Dataset) -> bool:
    domain: Domain = data.domain
    able = data.x[domain.comparable(data.x) & domain.satisfies(data.x)]
    return not domain.satisfies(domain.counterparts(able).reshape(-1, len(domain))).all()
