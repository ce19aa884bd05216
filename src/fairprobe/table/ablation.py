"""Ablation: silence the biased neurons and see whether the discrimination falls. It is the evidence
that the interpretation is causal.

Silencing as many *random* neurons of the same layer is the control. Silencing much of a layer can
also make a network give everybody the same answer, which looks fair and is useless: so each rate
comes with the accuracy.
"""

from __future__ import annotations

import numpy as np

from fairprobe.arrays import Ints, Rows
from fairprobe.documents.table import Ablation
from fairprobe.judgement import judge
from fairprobe.models import Model, TorchModel
from fairprobe.schema.domain import Domain
from fairprobe.search.neuron_bias import LayerBias

REPEATS = 10  # random choices of neurons; their mean is reported


def ablation(
    domain: Domain,
    model: TorchModel,
    layer: LayerBias,
    x: Rows,
    y: Ints,
    *,
    rng: np.random.Generator,
    samples: int = 10_000,
) -> Ablation:
    """Measure all networks on the same uniform sample of the domain, by bare counterparts as in
    DM-RS, and their accuracy on the rows `x` with labels `y`.
    """
    domain = domain.bare()
    drawn = domain.sample(samples, rng=rng)

    def measure(some: Model) -> tuple[float, float]:
        return float(judge(domain, some, drawn).is_discriminatory.mean()), float(
            (some.labels(x) == y).mean()
        )

    before = measure(model)
    biased = (
        measure(model.with_zeroed(layer.name, layer.biased, x)) if len(layer.biased) else before
    )
    random = before
    if len(layer.biased):
        choices = [
            rng.choice(layer.neurons, len(layer.biased), replace=False) for _ in range(REPEATS)
        ]
        random = tuple(
            np.mean([measure(model.with_zeroed(layer.name, some, x)) for some in choices], axis=0)
        )
    return Ablation(
        before=before[0],
        biased_zeroed=biased[0],
        random_zeroed=float(random[0]),
        accuracy_before=before[1],
        accuracy_biased_zeroed=biased[1],
        accuracy_random_zeroed=float(random[1]),
        silenced=len(layer.biased),
        samples=samples,
        repeats=REPEATS,
    )
