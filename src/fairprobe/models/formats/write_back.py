"""Putting new weights into the file that a network was read from.

A reader transposes, joins and copies a file's numbers on their way into a network, each in its own
way. Where a weight comes from is found by asking the reader: it reads the file again with every
array filled with its own number, and once more with every number replaced by its position. What
the network then holds says for each weight which number of which array it is. In the end the new
arrays are read once more, and must give exactly the new network; otherwise they are not written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from fairprobe.errors import DAMAGED, ModelError
from fairprobe.models.formats.graph import Unsupported
from fairprobe.storage import replacing

Array: TypeAlias = np.ndarray[Any, Any]
Arrays: TypeAlias = dict[str, Array]
Read: TypeAlias = Callable[[Arrays], nn.Module]
CANNOT: tuple[type[Exception], ...] = (Unsupported, *DAMAGED)


def with_weights(read: Read, held: Mapping[str, Array], network: nn.Module, name: str) -> Arrays:
    """Put the weights of `network` into the float arrays `held` by a file. `read` is what the
    reader makes of such arrays; `name` is that of the file, for messages.
    """
    new = {key: np.array(value) for key, value in held.items()}
    try:
        before = _values(read(dict(new)))
        which = _values(read({key: np.full_like(new[key], n) for n, key in enumerate(new, 1)}))
        where = _values(read({key: _positions(value) for key, value in new.items()}))
    except CANNOT as error:
        raise refused(name, f"it cannot be read with other weights ({error})") from error
    wanted = _values(network)
    if before.keys() != wanted.keys():
        raise refused(name, "the repair changed the shape of the network")
    keys = list(new)
    for weight, value in wanted.items():
        if torch.equal(value, before[weight]):
            continue
        arrays = np.unique(which[weight].numpy())
        if len(arrays) != 1 or arrays[0] not in range(1, len(keys) + 1):
            raise refused(name, f"its weights '{weight}' are computed from several of its numbers")
        key = keys[int(arrays[0]) - 1]
        old, places = before[weight].numpy(), where[weight].numpy().astype(np.int64) - 1
        inside = places.min() >= 0 and places.max() < new[key].size
        if not inside or not np.array_equal(held[key].flat[places].astype(old.dtype), old):
            raise refused(name, f"its weights '{weight}' are computed from its numbers")
        new[key].flat[places] = value.numpy()
    after = _values(read(dict(new)))
    for weight, value in wanted.items():
        if not torch.equal(value, after[weight]):
            raise refused(name, f"its weights '{weight}' are used in several places")
    return new


def refused(name: str, why: str) -> ModelError:
    """Return the error about new weights that have no place in a file."""
    return ModelError(
        f"The repaired weights cannot be written into {name}: {why}. Repair the network in Python"
        " (fairprobe.repair) and save it there."
    )


def write_bytes(path: Path, content: bytes) -> None:
    """Write the whole file, or nothing."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def _positions(array: Array) -> Array:
    """Replace every number by its position, from 1 on; positions that the array's type cannot
    distinguish stay wrong, and are recognized by their values.
    """
    return np.arange(1, array.size + 1).astype(array.dtype).reshape(array.shape)


def _values(network: nn.Module) -> dict[str, Tensor]:
    return {
        name: value.detach().cpu().clone()
        for name, value in network.state_dict().items()
        if isinstance(value, Tensor)
    }
