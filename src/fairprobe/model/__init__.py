"""Models: black boxes (`Model`), white boxes (`TorchModel`), and how those of the user's own come
in (`load_model`).
"""

from fairprobe.model.base import About, Model
from fairprobe.model.encoder import Encoder
from fairprobe.model.load import load_model
from fairprobe.model.scale import Scale
from fairprobe.model.torch_model import Outputs, TorchModel, as_logits, one_thread

__all__ = [
    "About",
    "Encoder",
    "Model",
    "Outputs",
    "Scale",
    "TorchModel",
    "as_logits",
    "load_model",
    "one_thread",
]
