"""Text networks that can be seen inside: a torch module with its tokenizer, and a folder with a
`transformers` classifier.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fairprobe.arrays import Rows
from fairprobe.errors import ModelError, SettingError, suggest
from fairprobe.models.formats.base import import_library
from fairprobe.models.formats.file_checks import first_line
from fairprobe.models.formats.own_code import own_errors
from fairprobe.models.text import PROBE, TextModel, TextNetwork
from fairprobe.models.trace import BeforeProbabilities

LONGEST = 512  # tokens of a text, unless the tokenizer knows better
SMALLEST = 1e-7  # probability whose logarithm is taken
BATCH = 64
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
    """A torch module and its tokenizer as a classifier of texts. What the module returns are
    logits, of one column or one for each class, or probabilities if it ends in a softmax or
    sigmoid.
    """
    module.eval()

    def encode(texts: Sequence[str]) -> Mapping[str, Tensor] | Tensor:
        with own_errors(f"The tokenizer of '{name}' failed on {len(texts)} texts"):
            found = tokenize(list(texts))
        return found if isinstance(found, Tensor | Mapping) else torch.as_tensor(found)

    if logits is None:
        logits = _reader(module, encode, name)
    network = TextNetwork(module, encode, logits)

    def predict(texts: list[str]) -> Rows:
        with torch.no_grad():
            answer: Rows = network_logits(network, texts).softmax(dim=1).cpu().numpy()
        return answer

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
    """(n, C) logits of texts."""
    given = network.encode(texts)
    output = network.module(given) if isinstance(given, Tensor) else network.module(**given)
    return network.logits(output)


def _reader(
    module: nn.Module, encode: Callable[[Sequence[str]], Any], name: str
) -> Callable[[Any], Tensor]:
    """How to turn what the module returns into logits, seen from one text."""
    given = encode([PROBE, PROBE])
    what = f"'{name}' failed on the tokens of a text"
    with own_errors(what), torch.no_grad(), BeforeProbabilities() as before:
        output = module(given) if isinstance(given, Tensor) else module(**given)
    tensor = _tensor(output, name)
    if tensor.ndim > 2 or len(tensor) != 2:
        raise ModelError(
            f"'{name}' returned shape {tuple(tensor.shape)} for 2 texts; expected (2, classes) or"
            " (2, 1)."
        )
    ends_in_probabilities = isinstance(output, Tensor) and before.of(output) is not None

    def logits(output: Any) -> Tensor:
        found = _tensor(output, name)
        found = found[:, None] if found.ndim == 1 else found
        if not ends_in_probabilities:
            return torch.cat([torch.zeros_like(found), found], 1) if found.shape[1] == 1 else found
        both = torch.cat([1 - found, found], 1) if found.shape[1] == 1 else found
        return both.clamp_min(SMALLEST).log()

    return logits


def _tensor(output: Any, name: str) -> Tensor:
    found = getattr(output, "logits", output)
    found = found[0] if isinstance(found, tuple | list) and found else found
    if not isinstance(found, Tensor):
        raise ModelError(f"'{name}' returned a {type(found).__name__}; expected a tensor.")
    return found


# -- transformers ----------------------------------------------------------------------------------


def open_transformers(
    source: str | Path, *, classes: Sequence[str] | None = None, target: str | None = None
) -> TextModel:
    """A `transformers` classifier as `save_pretrained` wrote it: config.json, model.safetensors and
    its tokenizer. Code in the folder is not run, and nothing is downloaded. Of a model with several
    independent labels, `target` names the one that decides.
    """
    folder = Path(source)
    if not (folder / "config.json").is_file():
        raise ModelError(
            f"{folder} holds no config.json, so it is no transformers classifier. Save one with"
            " model.save_pretrained and tokenizer.save_pretrained."
        )
    if not any(folder.glob("*.safetensors")):
        raise ModelError(
            f"{folder} holds no weights as .safetensors; other files may be pickles, and opening a"
            " pickle runs whatever program is in it. Save the model again with"
            " model.save_pretrained(folder, safe_serialization=True)."
        )
    module, tokenize = open_folder(folder)
    names = [str(name) for _, name in sorted(module.config.id2label.items())]
    logits, own = _choose(module, names, target, folder)
    return network_model(
        module,
        tokenize,
        name=folder.name,
        kind=TRANSFORMERS,
        classes=classes if classes is not None else own,
        origin=str(folder),
        logits=logits,
    )


def open_folder(
    folder: Path, kind: str = "AutoModelForSequenceClassification"
) -> tuple[Any, Callable[[Sequence[str]], Mapping[str, Tensor]]]:
    """The transformers model of a folder, a classifier or of another kind, and its tokenizer."""
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
        int(getattr(tokenizer, "model_max_length", LONGEST) or LONGEST),
        int(getattr(module.config, "max_position_embeddings", LONGEST) or LONGEST),
    )

    def tokenize(texts: Sequence[str]) -> Mapping[str, Tensor]:
        found: Mapping[str, Tensor] = tokenizer(
            list(texts), padding=True, truncation=True, max_length=longest, return_tensors="pt"
        )
        return dict(found)

    return module, tokenize


def _choose(
    module: nn.Module, names: list[str], target: str | None, folder: Path
) -> tuple[Callable[[Any], Tensor], list[str]]:
    """The logits that decide, and the classes."""
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

        def one(output: Any) -> Tensor:
            column: Tensor = output.logits[:, place : place + 1]
            return torch.cat([torch.zeros_like(column), column], dim=1)

        return one, [f"not {name}", name]

    def all_of_them(output: Any) -> Tensor:
        found: Tensor = output.logits
        return found

    return all_of_them, names
