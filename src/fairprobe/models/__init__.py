"""Models: black boxes (`Model`), white boxes (`TorchModel`), and users' own (`load_model`, in one
of the `FORMATS`).
"""

from typing import Any

from fairprobe.models.base import About, Model
from fairprobe.models.decision import Decision, DecisionRule
from fairprobe.models.encoder import Encoder, Merge, Scale
from fairprobe.models.formats.base import Format
from fairprobe.models.load import load_model
from fairprobe.models.scores import ScoreModel, Tolerance
from fairprobe.models.torch_model import GradientsOf, Outputs, TorchModel, as_logits, one_thread

__all__ = [
    "FORMATS",
    "About",
    "Decision",
    "DecisionRule",
    "Encoder",
    "Format",
    "GradientsOf",
    "Merge",
    "Model",
    "Outputs",
    "Scale",
    "ScoreModel",
    "Tolerance",
    "TorchModel",
    "as_logits",
    "load_model",
    "one_thread",
]

FORMATS: tuple[Format, ...]


def __getattr__(name: str) -> Any:
    """Import `FORMATS` when it is first used."""
    if name == "FORMATS":
        from fairprobe.models.formats.catalogue import FORMATS

        return FORMATS
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
