"""A server that counts who contacts it, and answers badly where a path asks for it."""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

DRIP = 0.4  # seconds between two bytes of a slow answer
LONGEST = 60.0  # seconds that a slow answer goes on


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Listening

    def do_POST(self) -> None:
        self.server.requests.append((self.path, dict(self.headers)))
        rows = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        answer = getattr(self, f"_{self.path.strip('/').replace('-', '_')}", self._plain)
        with suppress(OSError, ValueError):  # the client hung up
            answer(rows)
        self.close_connection = True

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, *_: Any) -> None:
        """Nothing is printed."""

    def _reply(self, content: bytes, code: int = 200, **headers: str) -> None:
        self.send_response(code)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def _plain(self, rows: bytes) -> None:
        count = len(json.loads(rows or b'{"instances": []}')["instances"])
        self._reply(json.dumps({"predictions": [0.5] * count}).encode())

    def _invalid_redirect(self, _: bytes) -> None:
        self._reply(b"", 307, Location="http://[::1")

    def _other_host(self, _: bytes) -> None:
        self._reply(b"", 307, Location=self.server.address.replace("127.0.0.1", "127.0.0.2") + "/x")

    def _superscript(self, rows: bytes) -> None:
        count = len(json.loads(rows)["instances"])
        self._reply(json.dumps({"predictions": [{"²": 0.5, "³": 0.5}] * count}).encode())

    def _slow_headers(self, _: bytes) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        self._drip()

    def _slow_body(self, _: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "100000")
        self.end_headers()
        self._drip()

    def _drip(self) -> None:
        end = time.monotonic() + LONGEST
        while time.monotonic() < end and not self.server.is_closing:
            self.wfile.write(b" ")
            self.wfile.flush()
            time.sleep(DRIP)

    def _endless(self, _: bytes) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for _chunk in range(4096):
            self.wfile.write(b"100000\r\n" + b"[" * 2**20 + b"\r\n")

    def _nested(self, _: bytes) -> None:
        self._reply(b'{"predictions":' + b"[" * 100_000 + b"]" * 100_000 + b"}")

    def _escapes(self, _: bytes) -> None:
        self._reply("\x1b[31mred \x9b5m\x1b]0;title\x07".encode(), 400)


class _Listening(ThreadingHTTPServer):
    daemon_threads = True
    is_closing = False

    def __init__(self) -> None:
        super().__init__(("0.0.0.0", 0), _Handler)
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.connections = 0
        self.address = f"http://127.0.0.1:{self.server_port}"

    def process_request(self, *given: Any) -> None:
        self.connections += 1
        super().process_request(*given)

    def handle_error(self, *_: Any) -> None:
        """Clients may hang up."""


class Server:
    """The server while a case runs."""

    def __enter__(self) -> _Listening:
        self._server = _Listening()
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self._server

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.is_closing = True
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
