"""Looking inside a network: which neurons react to the sensitive attribute, and whether that
matters.
"""

from fairprobe.documents.table import Ablation
from fairprobe.interpret.ablation import ablation
from fairprobe.interpret.coverage import Coverage, coverage
from fairprobe.interpret.insidebias import InsideBias, insidebias
from fairprobe.interpret.neuron_bias import GRID, THRESHOLDS, LayerBias, NeuronBias, neuron_bias

__all__ = [
    "GRID",
    "THRESHOLDS",
    "Ablation",
    "Coverage",
    "InsideBias",
    "LayerBias",
    "NeuronBias",
    "ablation",
    "coverage",
    "insidebias",
    "neuron_bias",
]
