"""A local server that speaks the protocols of Google, Amazon and Azure, and fails on request."""

from __future__ import annotations

import base64
import io
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

from PIL import Image

from tests.services import Handler, Request, Server, running

Name = Literal["google", "amazon", "azure"]


@dataclass(frozen=True)
class Manner:
    """How one request is answered: correctly, with an error in the vendor's own format, or with
    these bytes.
    """

    status: int = 200
    said: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    content: bytes | None = None
    after: threading.Event | None = None
    """What the answer waits for."""


GOOD = Manner()
BROKEN = Manner(content=b'{"responses": [{"localizedObj')
HALF = Manner(content=b"{}")


class VendorServer(Server):
    """Answers as `script` says, one entry a request, and correctly when the script is over."""

    def __init__(self, name: Name) -> None:
        super().__init__(_Handler)
        self.name = name
        self.script: list[Manner] = []


class _Handler(Handler):
    server: VendorServer

    def record(self, request: Request) -> Any:
        requests = {"google": _google_request, "amazon": _amazon_request, "azure": _azure_request}
        return requests[self.server.name](request) | {"headers": request.headers}

    def respond(self, request: Request) -> None:
        name = self.server.name
        manner = self.server.script.pop(0) if self.server.script else GOOD
        if manner.after is not None:
            manner.after.wait()
        answer = (
            ANSWERS[name] if manner.status == 200 else _refusal(name, manner.status, manner.said)
        )
        content = json.dumps(answer).encode() if manner.content is None else manner.content
        self.reply(content, manner.status, **{"Content_Type": "application/json", **manner.headers})


@contextmanager
def vendor_server(name: Name) -> Iterator[VendorServer]:
    server = VendorServer(name)
    with running(server):
        yield server


# -- requests: one that the vendor would not accept fails the test ---------------------------------


def _google_request(request: Request) -> dict[str, Any]:
    assert urlsplit(request.path).path == "/v1/images:annotate", request.path
    (wanted,) = request.json["requests"]
    (feature,) = wanted["features"]
    assert feature["type"] in ("OBJECT_LOCALIZATION", 19)
    image = base64.b64decode(wanted["image"]["content"])
    return {"size": _size(image), "most": feature["maxResults"]}


def _amazon_request(request: Request) -> dict[str, Any]:
    assert request.headers["X-Amz-Target"] == "RekognitionService.DetectLabels"
    assert request.headers["Authorization"].startswith("AWS4-HMAC-SHA256 Credential=")
    image = base64.b64decode(request.json["Image"]["Bytes"])
    return {"size": _size(image), "least": request.json["MinConfidence"]}


def _azure_request(request: Request) -> dict[str, Any]:
    parts = urlsplit(request.path)
    assert parts.path == "/computervision/imageanalysis:analyze", request.path
    assert parse_qs(parts.query)["features"] == ["objects"]
    return {"size": _size(request.body)}


def _size(content: bytes) -> tuple[int, int]:
    with Image.open(io.BytesIO(content)) as image:
        image.load()
        return image.size


# -- answers (in pixels, for a picture of 200×100) -------------------------------------------------


def _corners(left: float, top: float, right: float, bottom: float) -> list[dict[str, float]]:
    """As Google writes them: a coordinate of 0 is left out."""
    corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
    return [{name: value for name, value in (("x", x), ("y", y)) if value} for x, y in corners]


def _place(left: float, top: float, width: float, height: float) -> dict[str, float]:
    return {"Left": left, "Top": top, "Width": width, "Height": height}


ANSWERS: dict[str, Any] = {
    "google": {
        "responses": [
            {
                "localizedObjectAnnotations": [
                    {
                        "mid": "/m/01g317",
                        "name": "Person",
                        "score": 0.875,
                        "boundingPoly": {"normalizedVertices": _corners(0, 0.25, 0.5, 1)},
                    },
                    {
                        "mid": "/m/0k4j",
                        "name": "Car",
                        "score": 0.75,
                        "boundingPoly": {"normalizedVertices": _corners(0.5, 0.5, 0.75, 0.75)},
                    },
                    {
                        "mid": "/m/0h9mv",
                        "name": "Tire",
                        "score": 0.25,
                        "boundingPoly": {"normalizedVertices": _corners(0.5, 0.7, 0.6, 0.8)},
                    },
                ]
            }
        ]
    },
    "amazon": {
        "LabelModelVersion": "3.0",
        "Labels": [
            {
                "Name": "Person",
                "Confidence": 99.0,
                "Instances": [
                    {"BoundingBox": _place(0.0, 0.25, 0.5, 0.75), "Confidence": 87.5},
                    {"BoundingBox": _place(0.5, 0.5, 0.25, 0.25), "Confidence": 12.5},
                ],
                "Parents": [],
            },
            {
                "Name": "Man",
                "Confidence": 98.0,
                "Instances": [{"BoundingBox": _place(0.0, 0.25, 0.5, 0.75), "Confidence": 87.5}],
                "Parents": [{"Name": "Adult"}, {"Name": "Male"}, {"Name": "Person"}],
            },
            {"Name": "Road", "Confidence": 75.0, "Instances": [], "Parents": []},
        ],
    },
    "azure": {
        "modelVersion": "2023-10-01",
        "metadata": {"width": 200, "height": 100},
        "objectsResult": {
            "values": [
                {
                    "boundingBox": {"x": 0, "y": 25, "w": 100, "h": 75},
                    "tags": [{"name": "person", "confidence": 0.875}],
                },
                {
                    "boundingBox": {"x": 100, "y": 50, "w": 50, "h": 25},
                    "tags": [{"name": "motorbike", "confidence": 0.75}],
                },
                {
                    "boundingBox": {"x": 0, "y": 0, "w": 9, "h": 9},
                    "tags": [{"name": "kite", "confidence": 0.25}],
                },
            ]
        },
    },
}


def _refusal(name: Name, status: int, said: str) -> dict[str, Any]:
    if name == "amazon":
        kinds = {
            403: "AccessDeniedException",
            429: "ThrottlingException",
            400: "ProvisionedThroughputExceededException",
        }
        return {"__type": kinds.get(status, "InternalServerError"), "Message": said}
    if name == "google":
        return {"error": {"code": status, "message": said, "status": "PERMISSION_DENIED"}}
    return {"error": {"code": str(status), "message": said}}
