"""Models: black boxes (`Model`) and white boxes (`TorchModel`)."""

from fairprobe.model.base import Model
from fairprobe.model.encoder import Encoder
from fairprobe.model.scale import Scale
from fairprobe.model.torch_model import Outputs, TorchModel, as_logits, one_thread

__all__ = ["Encoder", "Model", "Outputs", "Scale", "TorchModel", "as_logits", "one_thread"]
