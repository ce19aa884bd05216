"""Local HTTP servers that record their requests."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Request(NamedTuple):
    """What a client sent."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Server(ThreadingHTTPServer):
    """Records every request in `seen` and answers as its handler says. Closing it waits for the
    answers under way, so that no connection outlives it.
    """

    daemon_threads = False

    def __init__(self, handler: type[Handler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.seen: list[Any] = []
        self.address = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_: Any) -> None:
        """Ignores clients that hang up."""


class Handler(BaseHTTPRequestHandler):
    """Subclasses write `respond`, which calls `reply` to answer."""

    protocol_version = "HTTP/1.1"
    timeout = 20.0  # seconds for a client to send
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        request = Request(self.path, dict(self.headers), body)
        self.server.seen.append(self.record(request))
        self.respond(request)
        self.close_connection = True

    def record(self, request: Request) -> Any:
        """What is kept of a request."""
        return request

    def respond(self, request: Request) -> None:
        raise NotImplementedError

    def reply(self, content: bytes, code: int = 200, **headers: str) -> None:
        """Sends one answer and closes the connection."""
        self.send_response(code)
        usual = {"Content_Length": str(len(content)), "Connection": "close"}
        for name, value in {**usual, **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Stays silent."""


@contextmanager
def running(server: Server) -> Iterator[None]:
    """Serves as long as the block lasts."""
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def serving(handler: type[Handler]) -> Iterator[str]:
    """The address at which a handler answers as long as the block lasts."""
    server = Server(handler)
    with running(server):
        yield server.address
