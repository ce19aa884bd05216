"""Search methods, one paper a file. They never import each other."""

from fairprobe.search.methods.base import Method
from fairprobe.search.methods.neuronfair import NeuronFair

__all__ = ["Method", "NeuronFair"]
