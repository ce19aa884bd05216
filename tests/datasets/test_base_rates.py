"""Base rates by group, and similar people with opposite labels, on people counted by hand."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from fairprobe.cli import app
from fairprobe.datasets import Dataset
from fairprobe.datasets.base_rates import base_rates
from fairprobe.schema.domain import Attribute, Domain
from fairprobe.table.similar import opposite_labels

DOMAIN = Domain(
    (Attribute(name="a", high=9), Attribute(name="b", high=9), Attribute(name="s", high=1)), ("s",)
)


def data() -> Dataset:
    x = [[1, 1, 0], [1, 2, 1], [9, 9, 0], [9, 0, 1], [1, 1, 0], [5, 5, 7]]
    return Dataset(
        "few", DOMAIN, np.array(x, dtype=np.float32), np.array([1, 0, 1, 1, 0, 1]), ("n", "y")
    )


def test_base_rates_are_those_counted_by_hand() -> None:
    found = base_rates(data())
    assert found.left_out == 1  # a group that the domain does not have
    assert [(group.share.hits, group.share.samples) for group in found.groups] == [(3, 5), (2, 5)]
    of_y = [(group.labels[1].hits, group.labels[1].samples) for group in found.groups]
    assert of_y == [(2, 3), (1, 2)]
    assert found.everybody.labels[1].estimate == 3 / 5


def test_the_most_similar_people_of_other_groups_with_other_labels_come_first() -> None:
    first, *rest = opposite_labels(data())
    assert {first.row, first.other} == {0, 1}  # row 4 is nearer to 0, but of the same group
    assert 0.8 < first.cosine < 1
    assert all(data().y[row] != data().y[other] for row, other, _ in (first, *rest))
    everybody = [row for pair in (first, *rest) for row in pair[:2]]
    assert len(everybody) == len(set(everybody))  # nobody is in two pairs


def test_as_printed_people_of_one_group_are_compared_too_in_all_their_attributes() -> None:
    first, second = opposite_labels(data(), 2, as_printed=True)
    assert {first.row, first.other} == {0, 4}
    assert first.cosine == pytest.approx(1)
    (ours, *_), z = opposite_labels(data()), data().x - data().x.mean(axis=0)
    z /= data().x.std(axis=0)
    one, other = z[[second.row, second.other]]
    assert second.cosine == pytest.approx(one @ other / np.sqrt((one @ one) * (other @ other)))
    assert {second.row, second.other} != {ours.row, ours.other}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["data", "groups", "german"], "True base rates by gender"),
        (["data", "groups", "german", "--sensitive", "age"], "True base rates by age"),
        (
            ["data", "similar", "german", "--sensitive", "gender", "--pairs", "1"],
            "Pair 1: cosine 0.",
        ),
    ],
)
def test_the_commands_show_them(words: list[str], said: str) -> None:
    answer = CliRunner().invoke(app, words)
    assert answer.exit_code == 0, answer.output
    assert said in answer.output
