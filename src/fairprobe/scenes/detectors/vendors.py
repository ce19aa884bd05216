"""The vision services of Google, Amazon and Azure.

Each is queried through the vendor's own client library, which takes credentials from the vendor's
own environment. The library tries once; `queries` decides whether and when to try again.
"""

from __future__ import annotations

import io
import os
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar
from urllib.parse import urlsplit

from PIL import Image

from fairprobe.errors import ModelError, SettingError
from fairprobe.models.formats.file_checks import first_line
from fairprobe.models.formats.http import LOCAL, retry_after
from fairprobe.scenes.detectors.base import Detection, Detector, TryAgainError, check_share
from fairprobe.scenes.labels import common
from fairprobe.scenes.scene import Picture

CONNECT_TIMEOUT = 10.0  # seconds
READ_TIMEOUT = 120.0  # after which even a query that nobody waits for is dropped
FEWEST_HIDDEN = 6  # characters of a secret: a shorter one would hide ordinary words
MOST_OBJECTS = 100  # Google's default is 10, which would cut off a crowd
# Google's codes for one picture inside a successful answer: deadline, quota, internal, unavailable.
GOOGLE_BUSY = frozenset({4, 8, 13, 14})
AMAZON_BUSY = frozenset(
    {"ThrottlingException", "ProvisionedThroughputExceededException", "TooManyRequestsException"}
)  # also sent with status 400


class VendorDetector(Detector):
    """A vendor's service; `threshold` is the least score."""

    is_remote = True
    vendor: ClassVar[str]
    package: ClassVar[str]
    """The client library, as it is installed."""
    credentials: ClassVar[str]
    """What to set so that the vendor knows who is asking."""
    secrets: ClassVar[tuple[str, ...]] = ()
    """Environment variables whose values are never shown."""
    largest: ClassVar[int]
    """The most bytes of a picture that the service accepts."""

    def __init__(self, threshold: float) -> None:
        check_share("score threshold", threshold)
        self.threshold = threshold
        self._client: Any = self._open()

    @abstractmethod
    def _connect(self) -> Any:
        """Open a client; a SettingError names missing credentials."""

    @abstractmethod
    def _query(self, content: bytes, size: tuple[int, int]) -> Iterator[Detection]:
        """Return the objects that the service finds in a picture file of this height and width."""

    def detect(self, image: Picture) -> tuple[Detection, ...]:
        if self._client is None:
            self._client = self._open()
        found = self._query(self._encoded(image), (image.shape[0], image.shape[1]))
        return tuple(detection for detection in found if detection.score >= self.threshold)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None}  # it holds credentials and open connections

    def _open(self) -> Any:
        try:
            return self._connect()
        except ImportError as error:
            raise ModelError(
                f'{self.name} needs {self.package}. Install it: pip install "fairprobe'
                f'[{self.name}]".'
            ) from error

    def _encoded(self, image: Picture) -> bytes:
        """Encode as PNG, which is lossless; as JPEG only if that is too large."""
        for form, settings in (("PNG", {}), ("JPEG", {"quality": 95})):
            written = io.BytesIO()
            Image.fromarray(image).save(written, form, **settings)
            if written.tell() <= self.largest:
                return written.getvalue()
        raise ModelError(
            f"A picture of {image.shape[1]}×{image.shape[0]} pixels takes more than the"
            f" {self.largest / 1e6:g} MB that {self.vendor} allows. Make it smaller."
        )

    # -- errors ------------------------------------------------------------------------------------

    def _no_credentials(self, error: BaseException | None = None) -> SettingError:
        said = f" ({self._public(error)})" if error is not None else ""
        return SettingError(f"{self.vendor} has no credentials{said}. Set {self.credentials}.")

    def _refused(
        self,
        status: int,
        said: object,
        headers: Mapping[str, str] | None = None,
        *,
        is_busy: bool = False,
    ) -> ModelError:
        """Convert an unsuccessful response to an error; `is_busy`: it asks to try again later."""
        message = f"{self.vendor} answered {status}: {self._public(said)}"
        if is_busy or status == 429 or status >= 500:
            return TryAgainError(message, requested_pause(headers or {}))
        if status in (401, 403):
            message += f". Check {self.credentials}, and what they allow."
        return ModelError(message)

    def _unreachable(self, error: BaseException) -> TryAgainError:
        return TryAgainError(f"{self.vendor} could not be reached: {self._public(error)}")

    def _too_slow(self) -> ModelError:
        """Return an error that is not retried: the service may have done the work, and charge."""
        return ModelError(f"{self.vendor} did not answer within {READ_TIMEOUT:g} seconds")

    def _unreadable(self, error: BaseException) -> ModelError:
        return ModelError(
            f"{self.vendor} sent an answer that its client library cannot read"
            f" ({type(error).__name__})"
        )

    def _public(self, said: object) -> str:
        text = str(said)
        for name in self.secrets:
            if len(secret := os.environ.get(name, "").strip()) >= FEWEST_HIDDEN:
                text = text.replace(secret, "…")
        return first_line(text)


def requested_pause(headers: Mapping[str, str]) -> float:
    """Return the requested pause in seconds, from a number or a date; 0 if there is none."""
    found = (value for name, value in headers.items() if name.lower() == "retry-after")
    return retry_after(next(found, ""))


class GoogleDetector(VendorDetector):
    """`ImageAnnotatorClient.object_localization` over REST.

    `endpoint` is a server that stands in for the vendor; it gets no credentials.
    """

    name = "google"
    vendor = "Google Cloud Vision"
    package = "google-cloud-vision"
    credentials = (
        "GOOGLE_APPLICATION_CREDENTIALS (the file of a service account) or log in with gcloud auth"
        " application-default login"
    )
    largest = 7_000_000  # 10 MB a request, in which bytes are written as text

    def __init__(self, *, threshold: float = 0.5, endpoint: str | None = None) -> None:
        self._endpoint = endpoint
        super().__init__(threshold)
        self.identity = (
            f"google object_localization {self._client.api_endpoint} score {threshold:g}"
        )

    def _connect(self) -> Any:
        from google.auth import credentials
        from google.auth.exceptions import DefaultCredentialsError
        from google.cloud.vision import ImageAnnotatorClient

        if self._endpoint is not None:
            nobody = credentials.AnonymousCredentials()  # type: ignore[no-untyped-call]
            options = {"api_endpoint": self._endpoint}
            return ImageAnnotatorClient(
                transport="rest", credentials=nobody, client_options=options
            )
        try:
            return ImageAnnotatorClient(transport="rest")
        except DefaultCredentialsError as error:
            raise self._no_credentials(error) from error

    def _query(self, content: bytes, size: tuple[int, int]) -> Iterator[Detection]:
        answer = self._answer(content)
        if answer.error.code:
            said = f"{answer.error.message} (code {answer.error.code})"
            raise self._refused(200, said, is_busy=answer.error.code in GOOGLE_BUSY)
        for entry in answer.localized_object_annotations:
            across = [vertex.x * size[1] for vertex in entry.bounding_poly.normalized_vertices]
            down = [vertex.y * size[0] for vertex in entry.bounding_poly.normalized_vertices]
            box = (min(across), min(down), max(across), max(down)) if across else None
            yield Detection(common(entry.name), entry.score, box)

    def _answer(self, content: bytes) -> Any:
        import requests
        from google.api_core.exceptions import GoogleAPICallError
        from google.auth.exceptions import GoogleAuthError
        from google.cloud.vision import Image
        from google.protobuf.json_format import ParseError

        try:
            return self._client.object_localization(
                image=Image(content=content),
                max_results=MOST_OBJECTS,
                retry=None,
                timeout=READ_TIMEOUT,
            )
        except GoogleAPICallError as error:
            headers = getattr(error.response, "headers", None)
            raise self._refused(int(error.code or 0), error.message, headers) from error
        except GoogleAuthError as error:
            raise self._no_credentials(error) from error
        except requests.Timeout as error:
            raise self._too_slow() from error
        except requests.ConnectionError as error:
            raise self._unreachable(error) from error
        except (ParseError, IndexError, ValueError) as error:
            raise self._unreadable(error) from error


class AmazonDetector(VendorDetector):
    """Rekognition's `detect_labels`.

    A label counts once for each of its places. One without places ("Urban", "Transportation") says
    what the picture is about; it is no object and does not count. A person comes as "Person" and
    again as "Man" or "Woman": labels whose parent is the same class are left out.
    """

    name = "amazon"
    vendor = "Amazon Rekognition"
    package = "boto3"
    credentials = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (or AWS_PROFILE)"
    secrets = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID")
    largest = 5_000_000

    def __init__(self, *, threshold: float = 0.55) -> None:
        super().__init__(threshold)
        self.identity = (
            f"amazon detect_labels instances {self._client.meta.endpoint_url} score {threshold:g}"
        )

    def _connect(self) -> Any:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError, NoRegionError

        config = Config(
            retries={"total_max_attempts": 1},
            connect_timeout=CONNECT_TIMEOUT,
            read_timeout=READ_TIMEOUT,
        )
        try:
            session = boto3.Session()
            if session.get_credentials() is None:
                raise self._no_credentials()
            return session.client("rekognition", config=config)
        except NoRegionError as error:
            raise SettingError(
                f"{self.vendor} needs a region. Set AWS_DEFAULT_REGION, such as us-east-1."
            ) from error
        except SettingError:
            raise
        except (BotoCoreError, ValueError) as error:  # ValueError: an invalid address
            raise SettingError(f"{self.vendor} cannot be set up: {self._public(error)}") from error

    def _query(self, content: bytes, size: tuple[int, int]) -> Iterator[Detection]:
        labels = self._labels(content)
        try:
            found = [
                detection for label in labels for detection in _amazon_detections(label, *size)
            ]
        except (KeyError, TypeError) as error:
            raise self._unreadable(error) from error
        return iter(found)

    def _labels(self, content: bytes) -> list[Any]:
        from botocore import exceptions as boto
        from botocore.parsers import ResponseParserError

        try:
            labels: list[Any] = self._client.detect_labels(
                Image={"Bytes": content}, MinConfidence=100 * self.threshold
            )["Labels"]
        except boto.ClientError as error:
            about = error.response.get("ResponseMetadata", {})
            said = error.response.get("Error", {})
            code = said.get("Code", "")
            raise self._refused(
                about.get("HTTPStatusCode", 0),
                f"{code}: {said.get('Message', '')}",
                about.get("HTTPHeaders"),
                is_busy=code in AMAZON_BUSY,
            ) from error
        except boto.ReadTimeoutError as error:
            raise self._too_slow() from error
        except (boto.HTTPClientError, boto.ConnectionError) as error:
            raise self._unreachable(error) from error
        except (ResponseParserError, KeyError) as error:
            raise self._unreadable(error) from error
        except boto.BotoCoreError as error:  # such as expired credentials
            raise ModelError(f"{self.vendor}: {self._public(error)}") from error
        return labels


def _amazon_detections(label: dict[str, Any], height: int, width: int) -> Iterator[Detection]:
    name = common(label["Name"])
    if name in {common(parent["Name"]) for parent in label.get("Parents", ())}:
        return
    for instance in label.get("Instances", ()):
        box = instance["BoundingBox"]
        left, top = box["Left"] * width, box["Top"] * height
        right, bottom = left + box["Width"] * width, top + box["Height"] * height
        yield Detection(name, instance["Confidence"] / 100, (left, top, right, bottom))


class AzureDetector(VendorDetector):
    """`ImageAnalysisClient.analyze` with the feature OBJECTS."""

    name = "azure"
    vendor = "Azure AI Vision"
    package = "azure-ai-vision-imageanalysis"
    credentials = "VISION_ENDPOINT (https://NAME.cognitiveservices.azure.com) and VISION_KEY"
    secrets = ("VISION_KEY",)
    largest = 20_000_000

    def __init__(self, *, threshold: float = 0.5) -> None:
        super().__init__(threshold)
        host = urlsplit(os.environ["VISION_ENDPOINT"]).netloc
        self.identity = f"azure objects {host} score {threshold:g}"

    def _connect(self) -> Any:
        from azure.ai.vision.imageanalysis import ImageAnalysisClient
        from azure.core.credentials import AzureKeyCredential

        endpoint = os.environ.get("VISION_ENDPOINT", "").strip().rstrip("/")
        key = os.environ.get("VISION_KEY", "").strip()
        if not endpoint or not key:
            raise self._no_credentials()
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
            connection_timeout=CONNECT_TIMEOUT,
            read_timeout=READ_TIMEOUT,
        )

    def _query(self, content: bytes, size: tuple[int, int]) -> Iterator[Detection]:
        del size  # boxes come in pixels
        answer = self._answer(content)
        try:
            found = [_azure_detection(entry) for entry in answer.objects.list if entry.tags]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise self._unreadable(error) from error
        return iter(found)

    def _answer(self, content: bytes) -> Any:
        from azure.ai.vision.imageanalysis.models import VisualFeatures
        from azure.core import exceptions as azure

        features = [VisualFeatures.OBJECTS]
        try:
            return self._client.analyze(image_data=content, visual_features=features)
        except azure.DecodeError as error:
            raise self._unreadable(error) from error
        except azure.HttpResponseError as error:
            headers = getattr(error.response, "headers", None)
            raise self._refused(error.status_code or 0, error.message, headers) from error
        except azure.ServiceResponseTimeoutError as error:
            raise self._too_slow() from error
        except (azure.ServiceResponseError, azure.ServiceRequestError) as error:
            raise self._unreachable(error) from error


def _azure_detection(entry: Any) -> Detection:
    best, box = entry.tags[0], entry.bounding_box
    corners = (box.x, box.y, box.x + box.width, box.y + box.height)
    return Detection(common(best.name), best.confidence, corners)


VENDORS: dict[str, type[GoogleDetector] | type[AmazonDetector] | type[AzureDetector]] = {
    detector.name: detector for detector in (GoogleDetector, AmazonDetector, AzureDetector)
}
