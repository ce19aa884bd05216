"""The papers' networks, one training loop, and their files."""

from fairprobe.networks.dense import HFCN, LFCN, DenseNetwork, dense, hfcn, lfcn
from fairprobe.networks.files import load, save
from fairprobe.networks.training import Training, train

__all__ = ["HFCN", "LFCN", "DenseNetwork", "Training", "dense", "hfcn", "lfcn", "load", "save", "train"]
