"""Azure AI Vision: objects of an image analysis."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import urlsplit

from fairprobe.errors import ModelError, SettingError
from fairprobe.scenes.detectors.remote import ANSWERING, CONNECTING, RemoteDetector
from fairprobe.scenes.labels import common
from fairprobe.scenes.recognition import Detection

LOCAL = ("localhost", "127.0.0.1", "::1")


class AzureDetector(RemoteDetector):
    """`ImageAnalysisClient.analyze` with the feature OBJECTS."""

    name = "azure"
    vendor = "Azure AI Vision"
    credentials = "VISION_ENDPOINT (https://NAME.cognitiveservices.azure.com) and VISION_KEY"
    secrets = ("VISION_KEY",)
    largest = 20_000_000

    def __init__(self, *, threshold: float = 0.5) -> None:
        super().__init__(threshold)
        self._client = self._connected()
        self.identity = (
            f"azure objects {urlsplit(os.environ['VISION_ENDPOINT']).netloc} score {threshold:g}"
        )

    def _connected(self) -> Any:
        try:
            from azure.ai.vision.imageanalysis import ImageAnalysisClient
            from azure.core.credentials import AzureKeyCredential
        except ImportError as error:
            raise ModelError(
                "azure needs azure-ai-vision-imageanalysis. Install it: pip install"
                ' "fairprobe[azure]".'
            ) from error
        endpoint, key = (
            os.environ.get("VISION_ENDPOINT", "").strip().rstrip("/"),
            os.environ.get("VISION_KEY", "").strip(),
        )
        if not endpoint or not key:
            raise self._missing()
        parts = urlsplit(endpoint)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOCAL):
            raise SettingError(
                "VISION_ENDPOINT must begin with https://, since the key and the pictures are sent"
                " there."
            )
        return ImageAnalysisClient(
            endpoint,
            AzureKeyCredential(key),
            retry_total=0,
            connection_timeout=CONNECTING,
            read_timeout=ANSWERING,
        )

    def _seen(self, client: Any, content: bytes, size: tuple[int, int]) -> tuple[Detection, ...]:  # noqa: ARG002  (boxes come in pixels)
        answer = self._asked(client, content)
        try:
            return tuple(_detection(one) for one in answer.objects.list if one.tags)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise self._unreadable(error) from error

    def _asked(self, client: Any, content: bytes) -> Any:
        from azure.ai.vision.imageanalysis.models import VisualFeatures
        from azure.core import exceptions as azure

        try:
            return client.analyze(image_data=content, visual_features=[VisualFeatures.OBJECTS])
        except azure.DecodeError as error:
            raise self._unreadable(error) from error
        except azure.HttpResponseError as error:
            headers = getattr(error.response, "headers", None)
            raise self._refused(error.status_code or 0, error.message, headers) from error
        except azure.ServiceResponseError as error:
            raise (
                self._too_slow()
                if isinstance(error, azure.ServiceResponseTimeoutError)
                else self._unreachable(error)
            ) from error
        except azure.ServiceRequestError as error:
            raise self._unreachable(error) from error


def _detection(one: Any) -> Detection:
    best, place = one.tags[0], one.bounding_box
    return Detection(
        common(best.name),
        best.confidence,
        (place.x, place.y, place.x + place.width, place.y + place.height),
    )
