"""Models: black boxes (`Model`) and white boxes (`TorchModel`)."""

from fairprobe.model.base import Model
from fairprobe.model.encoder import Encoder
from fairprobe.model.scale import Scale
from fairprobe.model.torch_model import TorchModel, one_thread

__all__ = ["Encoder", "Model", "Scale", "TorchModel", "one_thread"]
