"""Amazon Rekognition: labels, with the place of each object where it tells it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fairprobe.errors import ModelError, SettingError
from fairprobe.scenes.detectors.remote import ANSWERING, CONNECTING, RemoteDetector
from fairprobe.scenes.labels import common
from fairprobe.scenes.recognition import Detection

BUSY = frozenset(
    {"ThrottlingException", "ProvisionedThroughputExceededException", "TooManyRequestsException"}
)  # also sent with 400


class AmazonDetector(RemoteDetector):
    """`detect_labels`. A label with places counts once for each of them; one without counts once
    and has no box.

    A person comes as "Person" and again as "Man" or "Woman"; what a parent of the same class
    already tells is left out.
    """

    name = "amazon"
    vendor = "Amazon Rekognition"
    credentials = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (or AWS_PROFILE)"
    secrets = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID")
    largest = 5_000_000

    def __init__(self, *, threshold: float = 0.55) -> None:
        super().__init__(threshold)
        self._client = self._connected()
        self.identity = f"amazon detect_labels {self._client.meta.endpoint_url} score {threshold:g}"

    def _connected(self) -> Any:
        try:
            import boto3
            from botocore.config import Config
            from botocore.exceptions import BotoCoreError, NoRegionError
        except ImportError as error:
            raise ModelError(
                'amazon needs boto3. Install it: pip install "fairprobe[amazon]".'
            ) from error
        config = Config(
            retries={"total_max_attempts": 1}, connect_timeout=CONNECTING, read_timeout=ANSWERING
        )
        try:
            session = boto3.Session()
            if session.get_credentials() is None:
                raise self._missing()
            return session.client("rekognition", config=config)
        except NoRegionError as error:
            raise SettingError(
                f"{self.vendor} needs a region. Set AWS_DEFAULT_REGION, such as us-east-1."
            ) from error
        except (BotoCoreError, ValueError) as error:  # ValueError: an address that is none
            if isinstance(error, SettingError):
                raise
            raise SettingError(f"{self.vendor} cannot be set up: {self._public(error)}") from error

    def _seen(self, client: Any, content: bytes, size: tuple[int, int]) -> tuple[Detection, ...]:
        labels = self._asked(client, content)
        try:
            return tuple(one for label in labels for one in _detections(label, *size))
        except (KeyError, TypeError) as error:
            raise self._unreadable(error) from error

    def _asked(self, client: Any, content: bytes) -> list[Any]:
        from botocore import exceptions as boto
        from botocore.parsers import ResponseParserError

        try:
            labels: list[Any] = client.detect_labels(
                Image={"Bytes": content}, MinConfidence=100 * self.threshold
            )["Labels"]
        except boto.ClientError as error:
            about, said = (
                error.response.get("ResponseMetadata", {}),
                error.response.get("Error", {}),
            )
            code = said.get("Code", "")
            told = f"{code}: {said.get('Message', '')}"
            raise self._refused(
                about.get("HTTPStatusCode", 0), told, about.get("HTTPHeaders"), later=code in BUSY
            ) from error
        except boto.ReadTimeoutError as error:
            raise self._too_slow() from error
        except (boto.HTTPClientError, boto.ConnectionError) as error:
            raise self._unreachable(error) from error
        except (ResponseParserError, KeyError) as error:
            raise self._unreadable(error) from error
        except boto.BotoCoreError as error:  # such as credentials that ran out
            raise ModelError(f"{self.vendor}: {self._public(error)}") from error
        return labels


def _detections(label: dict[str, Any], height: int, width: int) -> Iterator[Detection]:
    name = common(label["Name"])
    if name in {common(parent["Name"]) for parent in label.get("Parents", ())}:
        return
    instances = label.get("Instances", ())
    if not instances:
        yield Detection(name, label["Confidence"] / 100)
    for one in instances:
        place = one["BoundingBox"]
        left, top = place["Left"] * width, place["Top"] * height
        yield Detection(
            name,
            one["Confidence"] / 100,
            (left, top, left + place["Width"] * width, top + place["Height"] * height),
        )
