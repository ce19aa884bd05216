"""Examples to learn from beside the data: people with every sensitive value and one label, and
random people as a control.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairprobe.arrays import Floats, Ints, Rows
from fairprobe.judgement import judge
from fairprobe.models import Model, ScoreModel, one_thread
from fairprobe.networks import Examples
from fairprobe.schema.domain import Domain

DRAWS = 20  # after these, a network is taken to discriminate against nearly everybody


def with_copies(domain: Domain, x: Rows, label: Ints | Floats) -> Examples:
    """Each person with every allowed sensitive value, under the same label."""
    copies = domain.counterparts(x).reshape(-1, len(domain))
    labels: Any = np.repeat(label, domain.value_count)
    allowed = domain.satisfies(copies)
    return Examples(copies[allowed], labels[allowed])


def random_points(domain: Domain, model: Model, rows: int, *, rng: np.random.Generator) -> Examples:
    """About this many rows of possible people who are not discriminated against, each with the
    class that the model holds most probable, or the amount that it answers.
    """
    wanted = max(1, rows // domain.value_count)
    x = domain.sample(0, rng=rng)
    with one_thread():
        for _ in range(DRAWS):
            if len(x) < wanted:
                drawn = domain.sample(wanted, rng=rng)
                x = np.concatenate([x, drawn[~judge(domain, model, drawn).is_discriminatory]])
        x = x[:wanted]
        if isinstance(model, ScoreModel):
            return with_copies(domain, x, model.amounts(x))
        return with_copies(domain, x, model.probabilities(x).argmax(axis=1))
