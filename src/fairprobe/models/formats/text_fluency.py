"""How fluent a text is: a language model's mean log-probability of its tokens.

The language model is a folder with a causal `transformers` model, or a function of the user's own
from a list of texts to one number each, the higher the more fluent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch

from fairprobe.arrays import Floats
from fairprobe.errors import ModelError
from fairprobe.models.formats.own_code import find_named, own_errors, required_arguments
from fairprobe.models.formats.text_network import open_folder

Fluency: TypeAlias = Callable[[Sequence[str]], Floats]
BATCH = 16  # texts in one call of a language model


def open_fluency(source: Fluency | Path | str) -> Fluency:
    """The judge of fluency that a folder, a name in the user's code or a function stands for."""
    if isinstance(source, str | Path) and Path(source).is_dir():
        return _language_model(Path(source))
    thing = find_named(str(source)) if isinstance(source, str | Path) else source
    shown = str(source) if isinstance(source, str | Path) else getattr(thing, "__name__", "fluency")
    if not callable(thing) or required_arguments(thing) != 1:
        raise ModelError(
            f"'{shown}' is no judge of fluency: expected a folder with a causal transformers model,"
            " or a function from a list of texts to their mean log-probabilities."
        )

    def fluency(texts: Sequence[str]) -> Floats:
        with own_errors(f"'{shown}' failed on {len(texts)} texts"):
            answer: Any = thing(list(texts))
        return _checked(answer, len(texts), shown)

    return fluency


def _language_model(folder: Path) -> Fluency:
    module, tokenize = open_folder(folder, "AutoModelForCausalLM")
    module.eval()

    def fluency(texts: Sequence[str]) -> Floats:
        parts = [
            _scored(module, tokenize(texts[n : n + BATCH])) for n in range(0, len(texts), BATCH)
        ]
        found = np.concatenate(parts) if parts else np.empty(0)
        return _checked(found, len(texts), str(folder))

    return fluency


def _scored(module: Any, given: Any) -> Floats:
    """The mean log-probability of every token behind the first; 0 where there is none."""
    with torch.no_grad():
        logits = module(**given).logits[:, :-1].log_softmax(dim=-1)
    tokens = given["input_ids"][:, 1:]
    mask = given["attention_mask"][:, 1:].to(logits.dtype)
    each = logits.gather(2, tokens[:, :, None])[:, :, 0]
    mean = (each * mask).sum(dim=1) / mask.sum(dim=1).clamp_min(1)
    found: Floats = mean.double().cpu().numpy()
    return found


def _checked(answer: Any, texts: int, shown: str) -> Floats:
    try:
        found = np.asarray(answer, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError):
        found = np.empty(0)
    if len(found) != texts or not np.isfinite(found).all():
        raise ModelError(
            f"'{shown}' must give one finite number for each of {texts} texts, their mean"
            f" log-probabilities; it gave {len(found)} numbers"
            f"{'' if np.isfinite(found).all() else ', not all of them finite'}."
        )
    return found
