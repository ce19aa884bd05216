"""A model whose first process elsewhere is killed while it answers."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from fairprobe.arrays import Rows
from fairprobe.models import TorchModel


class Mortal:
    """Answers as a model does. The first process but that of the `driver` that asks it is killed,
    and leaves `mark`.
    """

    def __init__(self, model: TorchModel, driver: int, mark: Path) -> None:
        self.model, self.driver, self.mark = model, driver, mark

    def __call__(self, x: Rows) -> Any:
        if os.getpid() != self.driver:
            try:
                self.mark.touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return self.model.probabilities(x)
