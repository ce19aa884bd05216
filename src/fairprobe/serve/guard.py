"""Who may ask: nothing reaches a page that has not passed here.

- The token of the printed address, as a cookie (set when that address is opened) or as a bearer
  token. There is no request without it.
- `Host` is this machine by the number or the name that was printed, with the port that was asked: a
  name that somebody's name server points here is refused (DNS rebinding).
- `Origin`, where a browser sends it, and `Sec-Fetch-Site` are of this server: pages of other sites,
  and of other servers on this machine, can neither post nor embed. What changes something must
  have an `Origin`.
- A request is no larger than its page allows.

Every answer forbids the browser to run anything but the dashboard's own files, to load anything
from elsewhere, to be framed, and to guess types.
"""

from __future__ import annotations

from hmac import compare_digest

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

NAMES = ("127.0.0.1", "localhost")
SAFE = ("GET", "HEAD")
LARGEST = 256 * 1024  # bytes of a request that is no upload
POLICY = (
    "default-src 'none'; script-src 'self'; style-src-elem 'self'; style-src-attr 'unsafe-inline';"
    " img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none';"
    " frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # without one, browsers send no origin either
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
WITHOUT = (
    "This page needs the token of the address that `fairprobe serve` printed. Open that address,"
    " or start the server again for a new one."
)


class TooLargeError(Exception):
    """A request is larger than its page allows."""


class Guard:
    """Checks requests and adds headers to answers."""

    def __init__(self, app: ASGIApp, *, token: str, most_upload: int) -> None:
        self._app, self._token, self._most_upload = app, token.encode(), most_upload

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        request, most = Request(scope), self._most(scope)
        answer = self._refusal(request, most)
        if answer is not None:
            await answer(scope, receive, send_guarded)
            return
        began = False

        async def send_began(message: Message) -> None:
            nonlocal began
            began = True
            await send_guarded(message)

        try:
            await self._app(scope, _limited(receive, most), send_began)
        except TooLargeError:
            if began:
                raise
            await _too_large(most)(scope, receive, send_guarded)

    def _most(self, scope: Scope) -> int:
        return self._most_upload + LARGEST if scope["path"] == "/upload" else LARGEST

    def _refusal(self, request: Request, most: int) -> Response | None:
        """Return the answer in place of a page; None for a request that may pass."""
        headers, port = request.headers, (request.scope.get("server") or ("", 0))[1]
        ours = {f"{name}:{port}" for name in NAMES}
        if not _is_only(headers, "host", ours):
            return _refused("This server answers only to 127.0.0.1 and localhost.")
        origins = {f"http://{host}" for host in ours}
        if "origin" in headers and not _is_only(headers, "origin", origins):
            return _refused("This request comes from another site.")
        if request.method not in SAFE and "origin" not in headers:
            return _refused("A request that changes something must name its origin.")
        given = request.query_params.get("token", "")
        is_first = request.method == "GET" and request.url.path == "/" and self._fits(given)
        if not is_first and headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return _refused("This request comes from another site.")
        if is_first:
            return self._welcome(port)
        if not self._fits(_bearer(headers) or request.cookies.get(_cookie(port), "")):
            return PlainTextResponse(WITHOUT, 401)
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or int(length) > most:
            return _too_large(most)
        return None

    def _fits(self, given: str) -> bool:
        return compare_digest(given.encode("utf-8", "surrogateescape"), self._token)

    def _welcome(self, port: int) -> Response:
        """Keep the token in a cookie and take it out of the address."""
        answer = RedirectResponse("/", 303)
        answer.set_cookie(_cookie(port), self._token.decode(), httponly=True, samesite="strict")
        return answer


def _cookie(port: int) -> str:
    return f"fairprobe-{port}"  # browsers share cookies between the ports of a host


def _bearer(headers: Headers) -> str:
    kind, _, token = headers.get("authorization", "").partition(" ")
    return token if kind.lower() == "bearer" else ""


def _is_only(headers: Headers, name: str, allowed: set[str]) -> bool:
    given = headers.getlist(name)
    return len(given) == 1 and given[0] in allowed


def _refused(why: str) -> Response:
    return PlainTextResponse(why, 403)


def _too_large(most: int) -> Response:
    return PlainTextResponse(
        f"The request is larger than {most / 10**6:,.1f} MB, which is the most that this server"
        " takes (--max-upload).",
        413,
        headers={"connection": "close"},
    )


def _limited(receive: Receive, most: int) -> Receive:
    """Receive at most so many bytes, whatever the request says of its length."""
    received = 0

    async def limited() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > most:
            raise TooLargeError
        return message

    return limited
