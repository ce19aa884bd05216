"""Searching a network for people it discriminates against."""

from fairprobe.search.budget import Budget, Progress
from fairprobe.search.loop import search
from fairprobe.search.methods import Method, NeuronFair
from fairprobe.search.seeds import choose_seeds

__all__ = ["Budget", "Method", "NeuronFair", "Progress", "choose_seeds", "search"]
