"""Networks of the `transformers` library, from a folder or by name from the Hugging Face hub."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from fairprobe.errors import ModelError
from fairprobe.models.formats.file_checks import first_line

EXPECTED = "config.json, preprocessor_config.json and model.safetensors"


def import_transformers(place: object) -> Any:
    """Import the library; an error says how to install it."""
    try:
        return import_module("transformers")
    except ImportError as error:
        raise ModelError(
            f'{place} needs transformers. Install it: pip install "fairprobe[segment]".'
        ) from error


@contextmanager
def loading(place: object, what: str) -> Iterator[None]:
    """Turn the library's many kinds of errors into one, and hide its progress bars and advice."""
    logging = import_transformers(place).utils.logging
    verbosity, has_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    except Exception as error:
        raise ModelError(
            f"{place} cannot be loaded as a {what}: {first_line(error)}. Expected {EXPECTED}, as"
            " save_pretrained writes them."
        ) from error
    finally:
        logging.set_verbosity(verbosity)
        if has_bars:
            logging.enable_progress_bar()


def digest(processor: Any, model: Any) -> str:
    """Hash everything that the outputs depend on."""
    import torch

    found = hashlib.sha256((processor.to_json_string() + model.config.to_json_string()).encode())
    for name, tensor in sorted(model.state_dict().items()):
        found.update(name.encode())
        found.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()
