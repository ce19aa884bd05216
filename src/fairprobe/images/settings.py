"""What an audit on pictures is to do, and what is known of it before it begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fairprobe.errors import SettingError, suggest
from fairprobe.images.change import ChangeSettings
from fairprobe.images.forecast import Forecast
from fairprobe.images.interpret import By
from fairprobe.images.parts import Parts
from fairprobe.images.search import PAPER, ImageSearch, read_settings

VARIANTS: dict[str, dict[str, Any]] = {"default": {}, "paper": PAPER}
IMAGE_METHODS: tuple[Literal["neuronfair", "adf", "eidig"], ...] = ("neuronfair", "adf", "eidig")


@dataclass(frozen=True)
class Expected:
    """What is known before an audit begins: the detector, where it is divided, and what the audit
    takes.
    """

    name: str
    parts: Parts
    forecast: Forecast


def search_settings(variant: str, given: Mapping[str, object]) -> dict[str, Any]:
    """Return the settings of a search that differ from the defaults."""
    if variant not in VARIANTS:
        raise SettingError(
            f"There is no variant '{variant}' of a search in pictures.{suggest(variant, VARIANTS)}"
        )
    return VARIANTS[variant] | read_settings(given)


@dataclass(frozen=True, kw_only=True)
class ImageAuditSettings:
    """What an audit on pictures is to do; `faces` None takes all."""

    methods: tuple[str, ...] = IMAGE_METHODS
    faces: int | None = 250
    epsilon: float = 0.03
    cap: float | None = None
    smallest: bool = False
    step: float = 0.15
    iterations: int = 20
    by: By = "position"
    repair: bool = True
    controls: bool = True
    optimizer: Literal["adam", "sgd"] = "adam"
    also: tuple[str, ...] = ()
    """Other attributes, of which it is measured whether Δ_sens changes them as well."""
    search_settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.methods:
            names = ", ".join(IMAGE_METHODS)
            raise SettingError(f"Name at least one method to search with: {names}.")
        for method in self.methods:
            if method not in IMAGE_METHODS:
                raise SettingError(
                    f"There is no method '{method}' for images.{suggest(method, IMAGE_METHODS)}"
                )
        if self.faces is not None and self.faces < 1:
            raise SettingError(f"The search must start from 1 face or more; got {self.faces}.")
        if self.iterations < 1:
            raise SettingError(f"The search must make 1 step or more; got {self.iterations}.")
        if self.by not in ("position", "channel"):
            raise SettingError(
                f"A neuron of a convolution is a position or a channel; got '{self.by}'."
            )
        if self.optimizer not in ("adam", "sgd"):
            raise SettingError(f"A network is trained by adam or sgd; got '{self.optimizer}'.")
        self.change, self.search(self.methods[0])  # they check their own settings

    @property
    def change(self) -> ChangeSettings:
        return ChangeSettings(epsilon=self.epsilon, cap=self.cap, smallest=self.smallest)

    def search(self, method: str) -> ImageSearch:
        given: dict[str, Any] = {"step": self.step, "max_iter": self.iterations}
        return ImageSearch(method=method, **(given | self.search_settings))  # type: ignore[arg-type]
