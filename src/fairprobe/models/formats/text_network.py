"""Text networks that can be seen inside: a torch module with its tokenizer, and folders with a
`transformers` model: a classifier, or a language model that rates how fluent texts are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from fairprobe.arrays import Floats, Rows
from fairprobe.errors import ModelError, SettingError, suggest
from fairprobe.models.formats.base import import_library
from fairprobe.models.formats.file_checks import first_line
from fairprobe.models.formats.own_code import find_named, own_errors, required_arguments
from fairprobe.models.text import PROBE, TextModel, TextNetwork
from fairprobe.models.trace import BeforeProbabilities

Fluency: TypeAlias = Callable[[Sequence[str]], Floats]
MAX_TOKENS = 512  # of a text, unless the tokenizer has another limit
MIN_PROBABILITY = 1e-7  # whose logarithm is taken
BATCH = 64
FLUENCY_BATCH = 16  # texts in one call of a language model
TRANSFORMERS = "transformers folder"


def network_model(
    module: nn.Module,
    tokenize: Callable[[Sequence[str]], Any],
    *,
    name: str,
    kind: str = "torch module",
    classes: Sequence[str] | None = None,
    origin: str | None = None,
    logits: Callable[[Any], Tensor] | None = None,
) -> TextModel:
    """Make a classifier of texts from a torch module and its tokenizer. The module returns logits,
    of one column or one for each class, or probabilities if it ends in a softmax or sigmoid.
    """
    module.eval()

    def encode(texts: Sequence[str]) -> Mapping[str, Tensor] | Tensor:
        with own_errors(f"The tokenizer of '{name}' failed on {len(texts)} texts"):
            tokens = tokenize(list(texts))
        return tokens if isinstance(tokens, Tensor | Mapping) else torch.as_tensor(tokens)

    if logits is None:
        logits = _reader(module, encode, name)
    network = TextNetwork(module, encode, logits)

    def predict(texts: list[str]) -> Rows:
        with torch.no_grad():
            p: Rows = network_logits(network, texts).softmax(dim=1).cpu().numpy()
        return p

    return TextModel(
        predict,
        name=name,
        kind=kind,
        classes=classes,
        batch=BATCH,
        network=network,
        origin=origin,
    )


def network_logits(network: TextNetwork, texts: Sequence[str]) -> Tensor:
    """Return (n, C) logits of texts."""
    return network.logits(_run(network.module, network.encode(texts)))


def _run(module: nn.Module, tokens: Mapping[str, Tensor] | Tensor) -> Any:
    return module(tokens) if isinstance(tokens, Tensor) else module(**tokens)


def _reader(
    module: nn.Module, encode: Callable[[Sequence[str]], Any], name: str
) -> Callable[[Any], Tensor]:
    """Return what turns the module's output into logits, as seen from one text."""
    tokens = encode([PROBE, PROBE])
    what = f"'{name}' failed on the tokens of a text"
    with own_errors(what), torch.no_grad(), BeforeProbabilities() as before:
        output = _run(module, tokens)
    tensor = _tensor(output, name)
    if tensor.ndim > 2 or len(tensor) != 2:
        raise ModelError(
            f"'{name}' returned shape {tuple(tensor.shape)} for 2 texts; expected (2, classes) or"
            " (2, 1)."
        )
    ends_in_probabilities = isinstance(output, Tensor) and before.of(output) is not None

    def logits(output: Any) -> Tensor:
        scores = _tensor(output, name)
        scores = scores[:, None] if scores.ndim == 1 else scores
        if not ends_in_probabilities:
            return with_zeros(scores) if scores.shape[1] == 1 else scores
        both = torch.cat([1 - scores, scores], 1) if scores.shape[1] == 1 else scores
        return both.clamp_min(MIN_PROBABILITY).log()

    return logits


def with_zeros(column: Tensor) -> Tensor:
    """Return two columns of logits from one (n, 1) of the second class."""
    return torch.cat([torch.zeros_like(column), column], dim=1)


def _tensor(output: Any, name: str) -> Tensor:
    scores = getattr(output, "logits", output)
    scores = scores[0] if isinstance(scores, tuple | list) and scores else scores
    if not isinstance(scores, Tensor):
        raise ModelError(f"'{name}' returned a {type(scores).__name__}; expected a tensor.")
    return scores


# -- transformers ----------------------------------------------------------------------------------


def open_transformers(
    source: str | Path, *, classes: Sequence[str] | None = None, target: str | None = None
) -> TextModel:
    """Open a `transformers` classifier as `save_pretrained` wrote it: config.json,
    model.safetensors and its tokenizer. Code in the folder is not run, and nothing is downloaded.
    For a model with several independent labels, `target` names the one that decides.
    """
    folder = Path(source)
    if not (folder / "config.json").is_file():
        raise ModelError(
            f"{folder} has no config.json, so it is not a transformers classifier. Save one with"
            " model.save_pretrained and tokenizer.save_pretrained."
        )
    if not any(folder.glob("*.safetensors")):
        raise ModelError(
            f"{folder} has no weights as .safetensors; other files may be pickles, and opening a"
            " pickle runs whatever program is in it. Save the model again with"
            " model.save_pretrained(folder, safe_serialization=True)."
        )
    module, tokenize = open_folder(folder)
    names = [str(name) for _, name in sorted(module.config.id2label.items())]
    logits, own_classes = _choose(module, names, target, folder)
    return network_model(
        module,
        tokenize,
        name=folder.name,
        kind=TRANSFORMERS,
        classes=classes if classes is not None else own_classes,
        origin=str(folder),
        logits=logits,
    )


def open_folder(
    folder: Path, kind: str = "AutoModelForSequenceClassification"
) -> tuple[Any, Callable[[Sequence[str]], Mapping[str, Tensor]]]:
    """Open the transformers model of a folder, a classifier or of another kind, and its
    tokenizer.
    """
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    transformers = import_library("transformers", str(folder), "fairprobe[text]")
    # Nothing outside the folder is read: no code of the folder, no pickle, no download.
    safe = {"local_files_only": True, "trust_remote_code": False}
    try:
        module = getattr(transformers, kind).from_pretrained(
            str(folder), use_safetensors=True, **safe
        )
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder), **safe)
    except Exception as error:  # the library's errors have no common class
        raise ModelError(
            f"{folder} cannot be opened as a transformers model ({kind}): {first_line(error)}."
        ) from error
    longest = min(
        int(getattr(tokenizer, "model_max_length", MAX_TOKENS) or MAX_TOKENS),
        int(getattr(module.config, "max_position_embeddings", MAX_TOKENS) or MAX_TOKENS),
    )

    def tokenize(texts: Sequence[str]) -> Mapping[str, Tensor]:
        return dict(
            tokenizer(
                list(texts), padding=True, truncation=True, max_length=longest, return_tensors="pt"
            )
        )

    return module, tokenize


def _choose(
    module: nn.Module, names: list[str], target: str | None, folder: Path
) -> tuple[Callable[[Any], Tensor], list[str]]:
    """Return what picks the logits that decide, and the classes."""
    several = getattr(module.config, "problem_type", None) == "multi_label_classification"
    if target is None and several and len(names) > 1:
        raise SettingError(
            f"{folder} has {len(names)} independent labels ({', '.join(names[:12])}). Name the one"
            " that decides: --target NAME."
        )
    if target is not None and target not in names:
        raise SettingError(f"{folder} has no label '{target}'.{suggest(target, names)}")
    if len(names) == 1 or (target is not None and several):
        place = names.index(target) if target is not None else 0
        name = names[place]
        return lambda output: with_zeros(output.logits[:, place : place + 1]), [f"not {name}", name]
    return lambda output: output.logits, names


# -- fluency ---------------------------------------------------------------------------------------


def open_fluency(source: Fluency | Path | str) -> Fluency:
    """Open a fluency model, which gives the mean log-probability of the tokens of each text: a
    folder with a causal `transformers` model, or a function or its name.
    """
    if isinstance(source, str | Path) and Path(source).is_dir():
        return _language_model(Path(source))
    function = find_named(str(source)) if isinstance(source, str | Path) else source
    named = str(source) if isinstance(source, str | Path) else None
    shown = str(named or getattr(function, "__name__", "fluency"))
    if not callable(function) or required_arguments(function) != 1:
        raise ModelError(
            f"Cannot use '{shown}' as a fluency model: expected a folder with a causal transformers"
            " model, or a function from a list of texts to their mean log-probabilities."
        )

    def fluency(texts: Sequence[str]) -> Floats:
        with own_errors(f"'{shown}' failed on {len(texts)} texts"):
            numbers: Any = function(list(texts))
        return _checked(numbers, len(texts), shown)

    return fluency


def _language_model(folder: Path) -> Fluency:
    module, tokenize = open_folder(folder, "AutoModelForCausalLM")
    module.eval()

    def fluency(texts: Sequence[str]) -> Floats:
        parts = [
            _mean_log_probability(module, tokenize(texts[n : n + FLUENCY_BATCH]))
            for n in range(0, len(texts), FLUENCY_BATCH)
        ]
        numbers = np.concatenate(parts) if parts else np.empty(0)
        return _checked(numbers, len(texts), str(folder))

    return fluency


def _mean_log_probability(module: Any, tokens: Any) -> Floats:
    """Return the mean over all tokens after the first; 0 where there is none."""
    with torch.no_grad():
        logits = module(**tokens).logits[:, :-1].log_softmax(dim=-1)
    following = tokens["input_ids"][:, 1:]
    mask = tokens["attention_mask"][:, 1:].to(logits.dtype)
    by_token = logits.gather(2, following[:, :, None])[:, :, 0]
    mean = (by_token * mask).sum(dim=1) / mask.sum(dim=1).clamp_min(1)
    means: Floats = mean.double().cpu().numpy()
    return means


def _checked(answer: Any, texts: int, shown: str) -> Floats:
    try:
        numbers = np.asarray(answer, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError):
        numbers = np.empty(0)
    if len(numbers) != texts or not np.isfinite(numbers).all():
        raise ModelError(
            f"'{shown}' must give one finite number for each of {texts} texts, their mean"
            f" log-probabilities; it gave {len(numbers)} numbers"
            f"{'' if np.isfinite(numbers).all() else ', not all of them finite'}."
        )
    return numbers
