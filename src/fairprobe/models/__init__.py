"""Models: black boxes (`Model`), white boxes (`TorchModel`), and how those of the user's own come
in (`load_model`).
"""

from fairprobe.models.base import About, Model
from fairprobe.models.encoder import Encoder
from fairprobe.models.load import load_model
from fairprobe.models.scale import Scale
from fairprobe.models.torch_model import Outputs, TorchModel, as_logits, one_thread

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
