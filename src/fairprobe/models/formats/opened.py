"""`Opened`: a model of the user's own, as it was found in a file, in code or behind an address; not
  yet joined with a domain.

It is asked in its own terms: with *numbers*, a float32 array (n, width) of the columns that it was
trained on, or with *words*, a pandas DataFrame of the table's own columns and values. `load_model`
puts an encoder between the domain and these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd
from torch import nn

from fairprobe.models.torch_model import Outputs

Takes = Literal["numbers", "words"]


@dataclass(frozen=True, kw_only=True)
class Opened:
    """What a model takes, how it is asked, and its network where that can be seen.

    `ask` is the user's own program, unchanged: what it answers to numbers or words is (n, C) or
    (n,) scores of kind `outputs`. `network` is the same as a torch module on numbers, `encode` is
    what turns words into these numbers where the model takes words (a pipeline's first steps).
    `why` says in a sentence why there is no network. `width` and `columns` are what is known of the
    columns it wants, `classes` of the classes it answers for.
    """

    kind: str
    name: str
    takes: Takes
    ask: Callable[[Any], Any]
    width: int | None = None
    columns: tuple[str, ...] | None = None
    classes: tuple[str, ...] | None = None
    network: nn.Module | None = None
    encode: Callable[[pd.DataFrame], Any] | None = None
    outputs: Outputs = "auto"
    why: str = ""
