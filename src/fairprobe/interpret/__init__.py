"""Looking inside a network: which neurons react to the sensitive attribute, and whether that
matters.
"""

from fairprobe.documents.table import Ablation
from fairprobe.interpret.ablation import ablation
from fairprobe.interpret.coverage import Coverage, coverage
from fairprobe.interpret.neuron_bias import GRID, THRESHOLDS, LayerBias, NeuronBias, neuron_bias

__all__ = [
    "GRID",
    "THRESHOLDS",
    "Ablation",
    "Coverage",
    "LayerBias",
    "NeuronBias",
    "ablation",
    "coverage",
    "neuron_bias",
]
