"""`TorchModel`: a white box around any `nn.Module` — probabilities, activations by layer, gradients with respect to the input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import Tensor, nn

from fairprobe.arrays import Rows
from fairprobe.errors import ModelError, suggest
from fairprobe.model.base import Model
from fairprobe.model.chain import Chain
from fairprobe.model.encoder import Encoder
from fairprobe.model.trace import Reached, Watch, layer_names

if TYPE_CHECKING:
    from collections.abc import Iterator

Outputs = Literal["auto", "logits", "probabilities"]


class TorchModel(Model):
    """An `nn.Module` that takes coded rows, or what `encoder` makes of them.

    The module runs in eval mode, on the device where it lies. `outputs` says whether it ends in logits or probabilities;
    "auto" looks whether the last thing it computes is a softmax or sigmoid. `closed_form` lets plain dense networks skip autograd.
    """

    def __init__(
        self, module: nn.Module, *, encoder: Encoder | None = None, outputs: Outputs = "auto", batch: int = 16384, closed_form: bool = True
    ) -> None:
        super().__init__(self._forward, batch=batch)
        self.module = module
        self.encoder = encoder
        self._outputs = outputs
        self._names: list[str] | None = None
        self._zeroed: dict[int, Tensor] = {}
        self._chain = Chain.of(module) if closed_form else None
        parameter = next(module.parameters(), None)
        self.device = parameter.device if parameter is not None else torch.device("cpu")
        self.dtype = parameter.dtype if parameter is not None else torch.float32

    # -- looking inside -------------------------------------------------------------------------------------

    def layers(self, x: Rows) -> dict[str, int]:
        """The hidden layers in order, each with its number of neurons. One row is enough to find out."""
        return {name: values.shape[1] for name, values in self.activations(x[:1]).items()}

    def activations(self, x: Rows) -> dict[str, Tensor]:
        """What every hidden layer answers to these rows, after its non-linearity: name -> (N, neurons)."""
        names = self._look_at(x)
        parts: dict[str, list[Tensor]] = {name: [] for name in names}
        for start in range(0, len(x), self._batch):
            with torch.no_grad(), Watch(zeroed=self._zeroed) as watch:
                self._run(self._encode(x[start : start + self._batch]))
            for name, values in zip(names, watch.outputs, strict=False):  # a final sigmoid is watched too, but is no layer
                parts[name].append(values.flatten(1))
        return {name: torch.cat(values) for name, values in parts.items()}

    def activation(self, x: Rows, layer: str) -> Tensor:
        """What one layer answers; the network runs only up to there."""
        call = self._index(x, layer)
        with torch.no_grad():
            starts = range(0, len(x), self._batch)
            return torch.cat([self._up_to(self._encode(x[i : i + self._batch]), call).flatten(1) for i in starts])

    def gradient(self, cotangent: Callable[[Tensor], Tensor], x: Rows, *, layer: str | None = None) -> Rows:
        """(N, width) the gradient, with respect to the encoded rows, of an objective on a layer's activations.

        The objective is given by its derivative: `cotangent` takes the activations (N, neurons), or the class probabilities when no layer
        is named, and returns the objective's derivative with respect to each. The network runs only as far as needed. The rows are one
        batch: the objective sees them together.
        """
        call = None if layer is None else self._index(x, layer)
        if self._chain is not None and layer is not None:
            with torch.no_grad():
                seen, pull = self._chain.up_to(self._encode(x), call)
                return _to_numpy(pull(cotangent(seen)))
        z = self._encode(x).requires_grad_()
        seen = self._to_probabilities(self._run(z), x) if call is None else self._up_to(z, call).flatten(1)
        if not seen.requires_grad:  # nothing in this layer depends on the input
            return np.zeros(z.shape, dtype=np.float32)
        (gradient,) = torch.autograd.grad(seen, z, cotangent(seen.detach()), allow_unused=True, materialize_grads=True)
        return _to_numpy(gradient)

    def with_zeroed(self, layer: str, neurons: Sequence[int] | np.ndarray[tuple[int], np.dtype[np.int64]], x: Rows) -> TorchModel:
        """The same network with these neurons of a layer silenced. `x`: any one row."""
        mask = torch.ones(self.layers(x)[layer], device=self.device, dtype=self.dtype)
        mask[torch.as_tensor(np.asarray(neurons, dtype=np.int64), device=self.device)] = 0
        other = TorchModel(self.module, encoder=self.encoder, outputs=self._outputs, batch=self._batch, closed_form=False)
        other._names, other._zeroed = self._names, {**self._zeroed, self._index(x, layer): mask}
        return other

    # -- running --------------------------------------------------------------------------------------------

    def _forward(self, x: Rows) -> Rows:
        self._look_at(x)
        with torch.inference_mode():
            return _to_numpy(self._to_probabilities(self._run(self._encode(x)), x))

    def _encode(self, x: Rows) -> Tensor:
        rows = torch.from_numpy(np.require(x, np.float32, ["C", "W"])).to(self.device, self.dtype)
        return self.encoder(rows) if self.encoder is not None else rows

    def _run(self, z: Tensor) -> Tensor:
        if self.module.training:
            self.module.eval()
        if self._chain is not None and not torch.is_grad_enabled():
            return self._chain.output(z)
        with Watch(keep=False, zeroed=self._zeroed) if self._zeroed else nullcontext():
            output: object = self.module(z)
        if not isinstance(output, Tensor):
            raise ModelError(
                f"The network must return one tensor of class scores; it returned {type(output).__name__}. Wrap it in a "
                "module that returns the scores."
            )
        return output

    def _up_to(self, z: Tensor, call: int) -> Tensor:
        if self.module.training:
            self.module.eval()
        with Watch(until=call, keep=False, zeroed=self._zeroed) as watch, _stopping():
            self.module(z)
        reached: Tensor = watch.outputs[0]
        return reached

    def _to_probabilities(self, output: Tensor, x: Rows) -> Tensor:
        self._look_at(x)
        if output.ndim == 2 and output.shape[1] == 1:
            output = output[:, 0]
        if self._outputs == "probabilities":
            return torch.stack([1 - output, output], dim=1) if output.ndim == 1 else output
        if output.ndim == 2 and output.shape[1] == 2:  # the same as a softmax, which is slow on two columns
            output = output[:, 1] - output[:, 0]
        return torch.softmax(output, dim=1) if output.ndim > 1 else torch.sigmoid(torch.stack([-output, output], dim=1))

    def _look_at(self, x: Rows) -> list[str]:
        """Names the layers, once, by running a row through the network."""
        if self._names is None:
            self.module.eval()
            if len(x) == 0:
                return []
            try:
                self._names, ends_in_probabilities = layer_names(self.module, self._encode(x[:1]))
            except RuntimeError as error:
                width = self.encoder.width if self.encoder is not None else x.shape[1]
                raise ModelError(
                    f"The network cannot take a row of {width} columns: {error}. Check its input width and its encoder."
                ) from error
            if self._outputs == "auto":
                self._outputs = "probabilities" if ends_in_probabilities else "logits"
        return self._names

    def _index(self, x: Rows, layer: str) -> int:
        names = self._look_at(x)
        if layer not in names:
            raise ModelError(f"The network has no hidden layer '{layer}'.{suggest(layer, names)}")
        return names.index(layer)


def _to_numpy(values: Tensor) -> Rows:
    return values.float().cpu().numpy()


@contextmanager
def _stopping() -> Iterator[None]:
    try:
        yield
    except Reached:
        return
    raise ModelError("The network took another path this time and never reached the layer; its forward pass must not depend on the rows.")


@contextmanager
def one_thread() -> Iterator[None]:
    """Small matrices are slower on two threads than on one: work below runs on one, and the setting is put back."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
