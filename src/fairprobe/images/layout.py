"""Where the channels of an activation are: maps of convolutions, tokens of attention."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

ATTENTION = frozenset(
    {
        *(F.scaled_dot_product_attention, F.multi_head_attention_forward),
        *(torch._native_multi_head_attention, torch._transformer_encoder_layer_fwd),
    }
)
# What mixes channels along the last axis: an activation of its answer has its channels last.
LINEAR = frozenset(
    {F.linear, torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, torch.einsum}
)
CONVOLUTIONS = frozenset({F.conv1d, F.conv2d, F.conv3d, torch.conv1d, torch.conv2d, torch.conv3d})
# What treats each channel of maps alone, and expects channels in front.
NORMS = frozenset({F.batch_norm, torch.batch_norm, F.instance_norm, F.group_norm})
# What changes the size of maps.
RESIZING = frozenset(
    {
        *(F.max_pool2d, torch.max_pool2d, F.avg_pool2d, F.adaptive_avg_pool2d),
        *(F.adaptive_max_pool2d, F.interpolate, F.pad, F.pixel_shuffle),
    }
)


class Layout:
    """Where the channels of an activation are. Maps (images, channels, height, width) come from
    convolutions, tokens (images, tokens, channels) from linear layers, which keep channels last.
    Three axes are tokens unless a convolution along a line made them: a convolution between linear
    layers, as in PVTv2, gives its answer back as tokens.
    """

    def __init__(self) -> None:
        self._is_linear = False  # the last layer with weights
        self._shape: tuple[int, ...] = ()  # of its answer, if it was a convolution
        self.attends = False  # whether values were multiplied with each other

    def see(self, func: Any, answer: Any) -> None:
        """Note a function that the network has called, and its answer."""
        if func in LINEAR or func in ATTENTION:
            self._is_linear, self._shape = True, ()
            self.attends |= func is not F.linear and (func in ATTENTION or answer.ndim > 2)
        elif func in CONVOLUTIONS or (func in NORMS and answer.ndim > 3):
            self._is_linear, self._shape = False, tuple(answer.shape)
        elif func in RESIZING and self._shape and isinstance(answer, Tensor) and answer.ndim > 3:
            self._shape = tuple(answer.shape)

    def are_maps(self, output: Tensor) -> bool:
        """Return True if an activation that was just computed is that of a convolution."""
        return (
            len(self._shape) == 3 if output.ndim == 3 else output.ndim > 3 and not self._is_linear
        )

    def are_surely_maps(self, output: Tensor) -> bool:
        """Return True if an activation has the places of the convolution before it: heads of
        attention that a convolution computes do not.
        """
        own = [tuple(output.shape[2:]), tuple(output.shape[1:-1])]
        return self.are_maps(output) and output.ndim > 3 and self._shape[2:] in own

    def is_channels_last(self, output: Tensor) -> bool:
        """Return True if an activation that was just computed has several places for each channel,
        and its channels last.
        """
        if not self.are_maps(output):
            return output.ndim > 2
        _, *maps = self._shape or output.shape
        return list(output.shape[1:]) == [*maps[1:], maps[0]] != maps
