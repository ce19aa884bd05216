"""The papers' networks, one training loop, and their files."""

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
    "dense",
    "hfcn",
    "is_constant",
    "kept",
    "lfcn",
    "load",
    "save",
    "train",
]
