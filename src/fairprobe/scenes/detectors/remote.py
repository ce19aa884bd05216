"""What the vendors' recognisers share: a picture as a file, an answer that is none, and secrets
that stay where they are.
"""

from __future__ import annotations

import io
import os
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from PIL import Image

from fairprobe.errors import ModelError, SettingError
from fairprobe.models.formats.endpoint import retry_after
from fairprobe.models.formats.file_checks import first_line
from fairprobe.scenes.detectors.trouble import TryAgainError
from fairprobe.scenes.recognition import Detection, Detector
from fairprobe.scenes.scene import Picture

CONNECTING = 10.0  # seconds
ANSWERING = 120.0  # after which even a question that nobody waits for is dropped
FEWEST_HIDDEN = 6  # characters of a secret: a shorter one would hide ordinary words


class RemoteDetector(Detector):
    """A vendor's service, asked through its own client library, which takes the credentials from
    the vendor's own environment.

    `threshold` is the least score. The library tries once; whether and when to try again is `ask`'s
    decision.
    """

    is_remote = True
    vendor: ClassVar[str]
    credentials: ClassVar[str]
    """How the vendor wants to be told who asks."""
    secrets: ClassVar[tuple[str, ...]] = ()
    """Variables of the environment whose values are never shown."""
    largest: ClassVar[int]
    """Bytes of a picture that the service takes."""

    def __init__(self, threshold: float) -> None:
        if not 0 <= threshold <= 1:
            raise SettingError(
                f"The score threshold of a detector lies between 0 and 1; got {threshold}."
            )
        self.threshold = threshold
        self._client: Any = None

    @abstractmethod
    def _connected(self) -> Any:
        """A new client; a SettingError says which credentials are missing."""

    @abstractmethod
    def _seen(self, client: Any, content: bytes, size: tuple[int, int]) -> tuple[Detection, ...]:
        """What the service sees in a picture file of this height and width."""

    def detect(self, image: Picture) -> tuple[Detection, ...]:
        if self._client is None:
            self._client = self._connected()
        content = self._file(image)
        found = self._seen(self._client, content, (image.shape[0], image.shape[1]))
        return tuple(one for one in found if one.score >= self.threshold)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None}  # it holds credentials and open connections

    def _file(self, image: Picture) -> bytes:
        """As PNG, which changes no pixel; only where that is too large, as JPEG."""
        for form, settings in (("PNG", {}), ("JPEG", {"quality": 95})):
            written = io.BytesIO()
            Image.fromarray(image).save(written, form, **settings)
            if written.tell() <= self.largest:
                return written.getvalue()
        raise ModelError(
            f"A picture of {image.shape[1]}×{image.shape[0]} pixels takes more than the"
            f" {self.largest / 1e6:g} MB that {self.vendor} allows. Make it smaller."
        )

    # -- when there is no answer -------------------------------------------------------------------

    def _missing(self, error: BaseException | None = None) -> SettingError:
        said = f" ({self._public(error)})" if error is not None else ""
        return SettingError(f"{self.vendor} does not know who asks{said}. Set {self.credentials}.")

    def _refused(
        self,
        status: int,
        said: object,
        headers: Mapping[str, str] | None = None,
        *,
        later: bool = False,
    ) -> ModelError:
        """An answer that is no success. `later`: the service says in other words that it is
        busy.
        """
        told = f"{self.vendor} answered {status}: {self._public(said)}"
        if later or status == 429 or status >= 500:
            return TryAgainError(told, waiting_time(headers or {}))
        return ModelError(
            f"{told}. Check {self.credentials}, and what they allow."
            if status in (401, 403)
            else told
        )

    def _unreachable(self, error: BaseException) -> TryAgainError:
        return TryAgainError(f"{self.vendor} could not be reached: {self._public(error)}")

    def _too_slow(self) -> ModelError:
        """Not tried again at once: the service may have done the work, and count it."""
        return ModelError(f"{self.vendor} did not answer within {ANSWERING:g} seconds")

    def _unreadable(self, error: BaseException) -> ModelError:
        return ModelError(
            f"{self.vendor} answered something that its client library cannot read"
            f" ({type(error).__name__})"
        )

    def _public(self, said: object) -> str:
        text = str(said)
        for name in self.secrets:
            if len(secret := os.environ.get(name, "").strip()) >= FEWEST_HIDDEN:
                text = text.replace(secret, "…")
        return first_line(text)


def waiting_time(headers: Mapping[str, str]) -> float:
    """The seconds that a service asks to wait, given as such or as a date; 0 if it does not say."""
    told = next((value for name, value in headers.items() if name.lower() == "retry-after"), "")
    return retry_after(told)
