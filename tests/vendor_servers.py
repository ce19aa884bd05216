"""A local server that speaks what Google, Amazon and Azure speak, and misbehaves when told to."""

from __future__ import annotations

import base64
import io
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

from PIL import Image

Name = Literal["google", "amazon", "azure"]


@dataclass(frozen=True)
class Manner:
    """How one request is answered: well, or with a status and words of the vendor's own form, or
    with these bytes.
    """

    status: int = 200
    said: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    content: bytes | None = None
    seconds: float = 0.0


GOOD = Manner()
BROKEN = Manner(content=b'{"responses": [{"localizedObj')
HALF = Manner(content=b"{}")


class VendorServer(ThreadingHTTPServer):
    """Answers by `script`, one manner a request, and well when the script is over. Remembers every
    request.
    """

    daemon_threads = True

    def __init__(self, name: Name) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.name = name
        self.script: list[Manner] = []
        self.seen: list[dict[str, Any]] = []
        self.address = f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, *_: Any) -> None:
        """A client that hung up is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: VendorServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        about = {"google": _google_request, "amazon": _amazon_request, "azure": _azure_request}[
            self.server.name
        ](self, body)
        self.server.seen.append(about)
        manner = self.server.script.pop(0) if self.server.script else GOOD
        time.sleep(manner.seconds)
        content = manner.content
        if content is None and manner.status == 200:
            content = json.dumps(ANSWERS[self.server.name]).encode()
        elif content is None:
            content = json.dumps(_refusal(self.server.name, manner.status, manner.said)).encode()
        self.send_response(manner.status)
        for name, value in {
            "Content-Type": "application/json",
            "Content-Length": str(len(content)),
            **manner.headers,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Nothing is written anywhere."""


@contextmanager
def vendor_server(name: Name) -> Iterator[VendorServer]:
    with VendorServer(name) as server:
        thread = threading.Thread(
            target=lambda: server.serve_forever(poll_interval=0.02), daemon=True
        )
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


# -- what each vendor is asked: what does not look like it is an error of ours ---------------------


def _google_request(handler: _Handler, body: bytes) -> dict[str, Any]:
    assert urlsplit(handler.path).path == "/v1/images:annotate", handler.path
    (request,) = json.loads(body)["requests"]
    (feature,) = request["features"]
    assert feature["type"] in ("OBJECT_LOCALIZATION", 19)
    return {
        "size": _size(base64.b64decode(request["image"]["content"])),
        "most": feature["maxResults"],
        "headers": dict(handler.headers),
    }


def _amazon_request(handler: _Handler, body: bytes) -> dict[str, Any]:
    assert handler.headers["X-Amz-Target"] == "RekognitionService.DetectLabels"
    assert handler.headers["Authorization"].startswith("AWS4-HMAC-SHA256 Credential=")
    request = json.loads(body)
    return {
        "size": _size(base64.b64decode(request["Image"]["Bytes"])),
        "least": request["MinConfidence"],
        "headers": dict(handler.headers),
    }


def _azure_request(handler: _Handler, body: bytes) -> dict[str, Any]:
    parts = urlsplit(handler.path)
    assert parts.path == "/computervision/imageanalysis:analyze", handler.path
    assert parse_qs(parts.query)["features"] == ["objects"]
    return {"size": _size(body), "headers": dict(handler.headers)}


def _size(content: bytes) -> tuple[int, int]:
    with Image.open(io.BytesIO(content)) as image:
        image.load()
        return image.size


# -- what each vendor answers (for a picture of 200×100 pixels where it tells pixels) --------------


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
