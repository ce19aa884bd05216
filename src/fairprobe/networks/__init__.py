"""Papers' networks, one training loop, and their files."""

from fairprobe.networks.amounts import (
    amount_network,
    answer_in_deviations,
    answer_in_units,
    learned,
    to_learn,
)
from fairprobe.networks.dense import HFCN, LFCN, DenseNetwork, dense, hfcn, lfcn
from fairprobe.networks.files import FILES, kept, load, save
from fairprobe.networks.training import Batch, Examples, Penalty, Training, is_constant, train

__all__ = [
    "FILES",
    "HFCN",
    "LFCN",
    "Batch",
    "DenseNetwork",
    "Examples",
    "Penalty",
    "Training",
    "amount_network",
    "answer_in_deviations",
    "answer_in_units",
    "dense",
    "hfcn",
    "is_constant",
    "kept",
    "learned",
    "lfcn",
    "load",
    "save",
    "to_learn",
    "train",
]
