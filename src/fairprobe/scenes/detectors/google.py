"""Google Cloud Vision: object localisation."""

from __future__ import annotations

from typing import Any

from fairprobe.errors import ModelError
from fairprobe.scenes.detectors.remote import ANSWERING, RemoteDetector
from fairprobe.scenes.labels import common
from fairprobe.scenes.recognition import Detection

MOST_OBJECTS = 100  # the service's own default is 10, and a crowd would be cut off
BUSY = frozenset(
    {4, 8, 13, 14}
)  # codes for one picture inside a good answer: deadline, quota, internal, unavailable


class GoogleDetector(RemoteDetector):
    """`ImageAnnotatorClient.object_localization` over REST. `endpoint` is a server in the vendor's
    stead, which gets no credentials.
    """

    name = "google"
    vendor = "Google Cloud Vision"
    credentials = (
        "GOOGLE_APPLICATION_CREDENTIALS (the file of a service account) or log in with gcloud auth"
        " application-default login"
    )
    largest = 7_000_000  # 10 MB a request, in which bytes are written as text

    def __init__(self, *, threshold: float = 0.5, endpoint: str | None = None) -> None:
        super().__init__(threshold)
        self._endpoint = endpoint
        self._client = self._connected()
        self.identity = (
            f"google object_localization {self._client.api_endpoint} score {threshold:g}"
        )

    def _connected(self) -> Any:
        try:
            from google.auth import credentials
            from google.auth.exceptions import DefaultCredentialsError
            from google.cloud.vision import ImageAnnotatorClient
        except ImportError as error:
            raise ModelError(
                'google needs google-cloud-vision. Install it: pip install "fairprobe[google]".'
            ) from error
        if self._endpoint is not None:
            nobody = credentials.AnonymousCredentials()  # type: ignore[no-untyped-call]
            return ImageAnnotatorClient(
                transport="rest",
                credentials=nobody,
                client_options={"api_endpoint": self._endpoint},
            )
        try:
            return ImageAnnotatorClient(transport="rest")
        except DefaultCredentialsError as error:
            raise self._missing(error) from error

    def _seen(self, client: Any, content: bytes, size: tuple[int, int]) -> tuple[Detection, ...]:
        answer = self._asked(client, content)
        if answer.error.code:
            raise self._refused(
                200,
                f"{answer.error.message} (code {answer.error.code})",
                later=answer.error.code in BUSY,
            )
        return tuple(_detection(one, *size) for one in answer.localized_object_annotations)

    def _asked(self, client: Any, content: bytes) -> Any:
        import requests
        from google.api_core.exceptions import GoogleAPICallError
        from google.auth.exceptions import GoogleAuthError
        from google.cloud.vision import Image
        from google.protobuf.json_format import ParseError

        try:
            return client.object_localization(
                image=Image(content=content),
                max_results=MOST_OBJECTS,
                retry=None,
                timeout=ANSWERING,
            )
        except GoogleAPICallError as error:
            headers = getattr(error.response, "headers", None)
            raise self._refused(int(error.code or 0), error.message, headers) from error
        except GoogleAuthError as error:
            raise self._missing(error) from error
        except requests.Timeout as error:
            raise self._too_slow() from error
        except requests.ConnectionError as error:
            raise self._unreachable(error) from error
        except (ParseError, IndexError, ValueError) as error:
            raise self._unreadable(error) from error


def _detection(one: Any, height: int, width: int) -> Detection:
    across = [vertex.x * width for vertex in one.bounding_poly.normalized_vertices]
    down = [vertex.y * height for vertex in one.bounding_poly.normalized_vertices]
    box = (min(across), min(down), max(across), max(down)) if across else None
    return Detection(common(one.name), one.score, box)
