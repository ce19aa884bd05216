"""A classifier of texts behind an HTTP address, in the same protocol as tables:

POST {"instances": [{"text": "…"}, …]}
->   {"predictions": [0.2, …]}  or  [[0.8, 0.2], …]  or  [{"no": 0.8, "yes": 0.2}, …]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from fairprobe.arrays import Rows
from fairprobe.models.formats.endpoint import Endpoint
from fairprobe.models.text import TextModel


def open_text_endpoint(
    source: str, *, classes: Sequence[str] | None = None, **options: Any
) -> TextModel:
    """The model at an address; `options` are those of `Endpoint`."""
    endpoint = Endpoint(source, **options)

    def predict(texts: list[str]) -> Rows | list[dict[str, float]]:
        answer = endpoint(pd.DataFrame({"text": texts}))
        if endpoint.classes is None or classes is not None:
            return answer
        return [dict(zip(endpoint.classes, row, strict=True)) for row in answer.tolist()]

    return TextModel(
        predict,
        name=endpoint.shown,
        kind="HTTP endpoint",
        classes=classes,
        batch=endpoint.batch,
        origin=endpoint.shown,
    )
