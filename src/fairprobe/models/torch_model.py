"""`TorchModel`: a white box around any `nn.Module` — probabilities, activations by layer, gradients
with respect to the input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import Tensor, nn

from fairprobe.arrays import Ints, Rows
from fairprobe.errors import FairprobeError, ModelError, suggest
from fairprobe.models.base import Model, check_probabilities
from fairprobe.models.chain import Chain, Passed
from fairprobe.models.encoder import Encoder
from fairprobe.models.trace import BeforeProbabilities, Reached, Watch, layer_names

if TYPE_CHECKING:
    from collections.abc import Iterator

Outputs = Literal["auto", "logits", "probabilities", "amounts"]
GradientsOf = Literal["logits", "probabilities"]


class TorchModel(Model):
    """Wrap an `nn.Module` that takes coded rows, or what `encoder` makes of them.

    The module runs in eval mode, on the device where it lies. `outputs` says whether it ends in
    logits or probabilities; "auto" looks whether the last thing it computes is a softmax or
    sigmoid. `closed_form` lets plain dense networks skip autograd.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        encoder: Encoder | None = None,
        outputs: Outputs = "auto",
        batch: int = 16384,
        closed_form: bool = True,
    ) -> None:
        super().__init__(self._forward, batch=batch)
        self.module = module
        self.encoder = encoder
        self._outputs = outputs
        self._closed_form = closed_form
        self._names: list[str] | None = None
        self._zeroed: dict[int, Tensor] = {}
        self._more_than_two = False  # classes, as far as seen
        self.trained_on: tuple[str, int] | None = (
            None  # the data set and the seed of its split, where fairprobe trained it
        )
        parameter = next(module.parameters(), None)
        self.device = parameter.device if parameter is not None else torch.device("cpu")
        self.dtype = parameter.dtype if parameter is not None else torch.float32

    # -- looking inside ----------------------------------------------------------------------------

    def layers(self, x: Rows) -> dict[str, int]:
        """Return the hidden layers in order, each with its number of neurons. One row is enough to
        find out.
        """
        return {name: values.shape[1] for name, values in self.activations(x[:1]).items()}

    def activations(self, x: Rows) -> dict[str, Tensor]:
        """Return what every hidden layer computes for these rows, after its non-linearity: name ->
        (N, neurons).
        """
        names = self._look_at(x)
        parts: dict[str, list[Tensor]] = {name: [] for name in names}
        for part in self._parts(x):
            with torch.no_grad(), Watch(zeroed=self._zeroed) as watch:
                self._run(part, silence=False)
            for name, values in zip(
                names, watch.outputs, strict=False
            ):  # a final sigmoid is watched too, but is no layer
                parts[name].append(values.flatten(1))
        return {name: torch.cat(values) for name, values in parts.items()}

    def activation(self, x: Rows, layer: str) -> Tensor:
        """Return what one layer computes; the network runs only up to there."""
        call = self._index(x, layer)
        with torch.no_grad():
            return torch.cat(
                [self._up_to(self._encode(part).clone(), part, call) for part in self._parts(x)]
            )

    def gradient(
        self,
        cotangent: Callable[[Tensor], Tensor],
        x: Rows,
        *,
        layer: str | None = None,
        of: GradientsOf = "probabilities",
    ) -> Rows:
        """Return (N, width) the gradient, with respect to the encoded rows, of an objective on a
        layer's activations.

        The objective is given by its derivative: `cotangent` takes the activations (N, neurons), or
        the class probabilities or logits (`of`) when no layer is named, and returns the objective's
        derivative with respect to each. Logits do not saturate, also those of a network that ends
        in a softmax or sigmoid. A decision rule moves both so that the highest is the answer's. The
        network runs only as far as needed. The rows are one batch: the objective sees them
        together.
        """
        self._look_at(x)
        call = None if layer is None else self._index(x, layer)
        by_logits = layer is None and of == "logits"
        chain = (
            self._chain()
            if layer is not None or (by_logits and self._outputs == "logits" and self._is_parallel)
            else None
        )
        if chain is not None:
            with torch.no_grad(), self._refusing(x):
                seen, pull = chain.up_to(self._encode(x), call)
                if by_logits:
                    slope = cotangent(self._decided_logits(as_logits(seen, "logits"), x))
                    return _to_numpy(pull(slope if seen.shape[1] > 1 else slope[:, 1:]))
                return _to_numpy(pull(cotangent(seen)))
        with torch.inference_mode(False), torch.enable_grad():
            z = self._encode(x).clone().requires_grad_()
            # The network gets a copy of its own, because it may change its input in place.
            if call is not None:
                seen = self._up_to(z.clone(), x, call)
            elif by_logits:
                seen = self._decided_logits(self._logits(z.clone(), x), x)
            else:
                seen = self._decided(self._call(z.clone(), x), x)
            if not seen.requires_grad:  # nothing in this layer depends on the input
                return np.zeros(z.shape, dtype=np.float32)
            (gradient,) = torch.autograd.grad(
                seen, z, cotangent(seen.detach()), allow_unused=True, materialize_grads=True
            )
        return _to_numpy(gradient)

    def with_zeroed(self, layer: str, neurons: Sequence[int] | Ints, x: Rows) -> TorchModel:
        """Return the same network with these neurons of a layer silenced. `x`: any one row."""
        call, count = self._index(x, layer), self.layers(x)[layer]
        chosen = np.asarray(neurons, dtype=np.int64)
        if len(chosen) and not (chosen.min() >= 0 and chosen.max() < count):
            raise ModelError(
                f"Layer '{layer}' has the neurons 0 to {count - 1}; asked to silence"
                f" {chosen.tolist()}."
            )
        mask = self._zeroed.get(
            call, torch.ones(count, device=self.device, dtype=self.dtype)
        ).clone()
        mask[torch.from_numpy(chosen).to(self.device)] = 0
        model = TorchModel(
            self.module,
            encoder=self.encoder,
            outputs=self._outputs,
            batch=self._batch,
            closed_form=self._closed_form,
        )
        model._names, model._zeroed = self._names, {**self._zeroed, call: mask}
        model.about, model.decision = self.about, self.decision
        return model

    def outputs(self, x: Rows) -> Outputs:
        """Return "logits" or "probabilities": what the network ends in. `x`: any one row."""
        self._look_at(x)
        return self._outputs

    def logits(self, x: Rows) -> Rows:
        """Return (N, C) numbers whose softmax are the class probabilities. They do not saturate,
        also those of a network that ends in a softmax or sigmoid.
        """
        with torch.inference_mode(), self._explaining(x):
            if self.outputs(x) == "logits":
                parts = [as_logits(self._run(part), "logits") for part in self._parts(x)]
            else:
                parts = [self._logits(self._encode(part).clone(), part) for part in self._parts(x)]
            return _to_numpy(torch.cat(parts))

    def probabilities_and_logits(self, x: Rows) -> tuple[Rows, Rows | None]:
        with self._explaining(x):
            if self.outputs(x) == "probabilities":
                return super().probabilities_and_logits(x)
        logits = self.logits(x)
        p = _to_numpy(self._to_probabilities(torch.from_numpy(logits)))
        return check_probabilities(p, len(x), 0), logits

    def log_odds(self, x: Rows) -> tuple[Rows, Passed | None] | None:
        if self._more_than_two:
            return None
        odds: list[Tensor] = []
        with torch.inference_mode(), self._explaining(x):
            if self.outputs(x) == "probabilities":
                return None
            for part in self._parts(x):
                output, passed = self._pass(part)
                if output.ndim == 2 and output.shape[1] > 1:
                    self._more_than_two = output.shape[1] > 2
                    if self._more_than_two:
                        return None
                    odds.append(output[:, 1] - output[:, 0])
                else:
                    odds.append(output.reshape(-1))
            if len(odds) == 1:
                return _to_numpy(odds[0]), passed
            return _to_numpy(torch.cat(odds)), None

    def gradient_of(
        self,
        passed: Passed,
        cotangent: Callable[[Tensor], Tensor],
        x: Rows,
        rows: Ints,
        *,
        layer: str,
    ) -> Rows:
        """Compute `gradient` at some rows of an earlier batch."""
        with torch.inference_mode():
            some = passed.at(torch.from_numpy(rows).to(self.device), self._index(x, layer))
            return _to_numpy(some.pull(cotangent(some.answers[-1])))

    # -- running -----------------------------------------------------------------------------------

    def _forward(self, x: Rows) -> Rows:
        self._look_at(x)
        with torch.inference_mode():
            return _to_numpy(self._to_probabilities(self._run(x)))

    def _parts(self, x: Rows) -> list[Rows]:
        """Return the rows in batches; one empty batch when there are none, so that shapes are right
        all the same.
        """
        return [x[start : start + self._batch] for start in range(0, max(len(x), 1), self._batch)]

    def _encode(self, x: Rows) -> Tensor:
        if self.encoder is not None and x.shape[1] != len(self.encoder.spans):
            raise ModelError(
                f"The rows have {x.shape[1]} columns; the network's encoder takes"
                f" {len(self.encoder.spans)}, one an attribute."
            )
        if x.dtype != np.float32 or not (x.flags.c_contiguous and x.flags.writeable):
            x = np.require(x, np.float32, ["C", "W"])
        rows = torch.from_numpy(x).to(self.device, self.dtype)
        return self.encoder(rows) if self.encoder is not None else rows

    def _run(self, x: Rows, *, silence: bool = True) -> Tensor:
        return self._pass(x, silence=silence)[0]

    def _pass(self, x: Rows, *, silence: bool = True) -> tuple[Tensor, Passed | None]:
        """Return the network's output, computed in the fastest exact way, and its intermediate
        results where these are known.
        """
        chain = self._chain()
        if chain is None:
            return self._call(self._encode(x).clone(), x, silence=silence), None
        with self._refusing(x):
            z = self._encode(x)
            passed = chain.run(z)
            return passed.answers[-1] if passed.answers else z, passed

    def _chain(self) -> Chain | None:
        return Chain.of(self.module) if self._closed_form and not self._zeroed else None

    def _call(self, z: Tensor, x: Rows, *, silence: bool = True) -> Tensor:
        self._rest()
        with (
            self._refusing(x),
            Watch(keep=False, zeroed=self._zeroed) if self._zeroed and silence else nullcontext(),
        ):
            output: object = self.module(z)
        if not isinstance(output, Tensor):
            raise ModelError(
                "The network must return one tensor of class scores; it returned"
                f" {type(output).__name__}. Wrap it in a module that returns the scores."
            )
        return output

    def _up_to(self, z: Tensor, x: Rows, call: int) -> Tensor:
        self._rest()
        with (
            self._refusing(x),
            Watch(until=call, keep=False, zeroed=self._zeroed) as watch,
            _stopping(),
        ):
            self.module(z)
        reached: Tensor = watch.outputs[0]
        return reached.flatten(1)

    def _rest(self) -> None:
        """Switch to eval mode, also for a part that was put back into training."""
        if any(part.training for part in self.module.modules()):
            self.module.eval()

    def _to_probabilities(self, output: Tensor) -> Tensor:
        if output.ndim == 2 and output.shape[1] == 1:
            output = output[:, 0]
        if self._outputs == "probabilities":
            return torch.stack([1 - output, output], dim=1) if output.ndim == 1 else output
        if (
            output.ndim == 2 and output.shape[1] == 2
        ):  # the same as a softmax, which is slow on two columns
            output = output[:, 1] - output[:, 0]
        return (
            torch.softmax(output, dim=1)
            if output.ndim > 1
            else torch.sigmoid(torch.stack([-output, output], dim=1))
        )

    def _decided(self, output: Tensor, x: Rows) -> Tensor:
        """Move the class probabilities so that two are equal at the decision rule's boundary."""
        rule = self.decision
        moved = None if rule is None else rule.log_odds(x)
        if rule is None or moved is None or self._outputs == "probabilities":
            p = self._to_probabilities(output)
            return p if rule is None else rule.weighed(p, x)
        logits = as_logits(output, "logits")
        odds = torch.from_numpy(moved).to(output.device, output.dtype)
        return self._to_probabilities(logits[:, 1] - logits[:, 0] + odds)

    @property
    def _is_parallel(self) -> bool:
        """Return True if the decision rule, if any, moves logits by one number for each row."""
        return self.decision is None or self.decision.costs is None

    def _logits(self, z: Tensor, x: Rows) -> Tensor:
        """Return (N, C) numbers whose softmax are the class probabilities: what went into a final
        softmax or sigmoid, if there is one.
        """
        if self._outputs != "probabilities":
            return as_logits(self._call(z, x), "logits")
        with BeforeProbabilities() as watch:
            output = self._call(z, x)
        before = watch.of(output)
        if before is None:
            return as_logits(output, "probabilities")
        return as_logits(before, "logits")

    def _decided_logits(self, logits: Tensor, x: Rows) -> Tensor:
        """Move the logits so that two are equal at the decision rule's boundary."""
        if self.decision is None:
            return logits
        moved = self.decision.log_odds(x)
        if moved is None:
            weighed = self.decision.weighed(torch.softmax(logits, dim=1), x)
            return as_logits(weighed, "probabilities")
        odds = torch.from_numpy(moved).to(logits.device, logits.dtype)
        return torch.stack([logits[:, 0], logits[:, 1] + odds], dim=1)

    def _look_at(self, x: Rows) -> list[str]:
        """Name the layers, once, by running a row through the network."""
        if self._names is None:
            self._rest()
            row = x[:1] if len(x) else np.zeros((1, x.shape[1]), dtype=np.float32)
            with torch.no_grad(), self._refusing(x):
                names, ends_in_probabilities = layer_names(self.module, self._encode(row).clone())
            if self._outputs == "auto":
                self._outputs = "probabilities" if ends_in_probabilities else "logits"
            self._names = names
        return self._names

    def _index(self, x: Rows, layer: str) -> int:
        names = self._look_at(x)
        if layer not in names:
            raise ModelError(f"The network has no hidden layer '{layer}'.{suggest(layer, names)}")
        return names.index(layer)

    @contextmanager
    def _refusing(self, x: Rows) -> Iterator[None]:
        """Explain errors of torch about rows that a network cannot take."""
        try:
            yield
        except (torch.OutOfMemoryError, FairprobeError):
            raise
        except Exception as error:  # whatever the user's network raises
            width = self.encoder.width if self.encoder is not None else x.shape[1]
            raise ModelError(
                f"The network cannot take a row of {width} columns: {error}. Check its input width"
                " and its encoder."
            ) from error


def as_logits(output: Tensor, outputs: Outputs) -> Tensor:
    """Return (N, C) numbers whose softmax are the class probabilities, from what a network answers:
    "logits" or "probabilities".
    """
    if output.ndim == 2 and output.shape[1] == 1:
        output = output[:, 0]
    if outputs == "probabilities":
        both = torch.stack([1 - output, output], dim=1) if output.ndim == 1 else output
        return torch.log(both.clamp(min=torch.finfo(both.dtype).tiny))
    return torch.stack([torch.zeros_like(output), output], dim=1) if output.ndim == 1 else output


def _to_numpy(values: Tensor) -> Rows:
    return values.float().cpu().numpy()


@contextmanager
def _stopping() -> Iterator[None]:
    try:
        yield
    except Reached:
        return
    raise ModelError(
        "The network took another path this time and never reached the layer; its forward pass must"
        " not depend on the rows."
    )


@contextmanager
def one_thread() -> Iterator[None]:
    """Run on one thread, which is faster for small matrices, and restore the setting."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
