"""Services behind an HTTP address: how a request is sent, and when it is sent again.

Failed connections, time-outs, 429 and 5xx are retried with growing pauses, or after the pause that
the server requests. The token comes from the environment only; it is sent to the host that the user
named, never over plain http to another machine, and never written: where a server repeats it, it is
struck out.
"""

from __future__ import annotations

import datetime
import email.utils
import json
import os
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeAlias

import httpx
import tenacity

from fairprobe.errors import ModelError, SettingError

Send: TypeAlias = Callable[[bytes, str], bytes]  # a body, and what it is called in messages

TOKEN = "FAIRPROBE_ENDPOINT_TOKEN"  # noqa: S105  (the variable's name)
# Names of query parameters that probably hold a secret.
SECRET = re.compile(
    r"(key|token|secret|password|passwd|signature|credential|^sig$|^code$|^auth)", re.IGNORECASE
)
LOCAL = ("localhost", "127.0.0.1", "::1")
LONGEST_PAUSE = 60.0  # seconds, even if a server requests more
LARGEST = 64 * 2**20  # bytes of one answer
SHOWN = 80  # characters of an answer in a message
REDIRECTS = 3


class _Retry(Exception):  # noqa: N818  (a signal, not a failure)
    """Raised at a temporary failure; `after` is the pause that the server requests."""

    def __init__(self, message: str, after: float = 0.0) -> None:
        super().__init__(message)
        self.after = after


class RefusedError(ModelError):
    """Raised when the server rejects a request; `said` is what it answered."""

    def __init__(self, message: str, said: bytes) -> None:
        super().__init__(message)
        self.said = said.decode("utf-8", errors="replace")


class _Connection:
    """Keep the connection of a client, and a deadline for each request. httpx limits single waits,
    so a server that sends a byte now and then, of its headers or its answer, could take forever;
    here its connection is shut down.
    """

    is_late = False

    def __init__(self) -> None:
        self._stream: Any = None

    def trace(self, step: str, details: dict[str, Any]) -> None:
        """Note the connection; httpx reports every step of a request."""
        if step.endswith(("connect_tcp.complete", "start_tls.complete")):
            self._stream = details["return_value"]
            if self.is_late:
                self._shut_down()

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Shut the connection down if the block takes longer than this."""
        self.is_late = False
        timer = threading.Timer(seconds, self._end)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _end(self) -> None:
        self.is_late = True
        self._shut_down()

    def _shut_down(self) -> None:
        if self._stream is not None:
            with suppress(OSError, AttributeError):
                self._stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)


class Service:
    """Sends JSON to one address.

    The token in FAIRPROBE_ENDPOINT_TOKEN is sent as `Authorization: Bearer …`, or unchanged in the
    header that `header` names. `per_second` limits the rate of requests; `pause` is the wait before
    the first retry, and `pauses_all` says whether other threads wait as well when the server asks
    for a pause. `ca` is a file of certificates to trust, `certificate` one of the client's own with
    its key.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout: float = 30.0,
        retries: int = 4,
        per_second: float | None = None,
        header: str | None = None,
        pause: float = 0.5,
        ca: str | None = None,
        certificate: str | None = None,
        pauses_all: bool = False,
    ) -> None:
        self.url = _checked(url)
        self.shown = _public(self.url)
        positive = timeout > 0 and (per_second is None or per_second > 0)
        if retries < 0 or pause < 0 or not positive:
            raise SettingError(
                "An endpoint's time-out and rate must be greater than 0, its retries and pause not"
                f" negative; got timeout={timeout}, per_second={per_second}, retries={retries},"
                f" pause={pause}."
            )
        self.timeout, self.retries, self._header = timeout, retries, header
        self._interval = 0.0 if per_second is None else 1 / per_second
        self._next_turn, self._lock = 0.0, threading.Lock()
        self._backoff = tenacity.wait_exponential(pause) + tenacity.wait_random(0, pause)
        self._certificates, self._pauses_all = _certificates(ca, certificate), pauses_all

    @contextmanager
    def session(self) -> Iterator[Send]:
        """Open a connection for one thread: a function that sends a body and returns the answer."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        headers |= {"Accept-Encoding": "identity", "User-Agent": "fairprobe", **self._token()}
        connection = _Connection()
        with httpx.Client(
            headers=headers, timeout=self.timeout, verify=self._certificates
        ) as client:
            yield partial(self._deliver, partial(self._send, client, connection))

    def _deliver(self, send: Send, body: bytes, what: str) -> bytes:
        """Send a body, with retries, and return the answer."""
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_Retry),
            stop=tenacity.stop_after_attempt(self.retries + 1),
            wait=self._pause,
            sleep=time.sleep,
            reraise=True,
        )
        try:
            return self._struck_out(retrying(send, body, what))
        except _Retry as failure:
            raise ModelError(
                f"{what} {failure}; tried {self.retries + 1} times. Check that the server is up and"
                " the address is right."
            ) from failure

    def _struck_out(self, content: bytes) -> bytes:
        """Remove the token from the content, in case the server repeats it."""
        token = os.environ.get(TOKEN, "").strip().encode()
        return content.replace(token, b"***") if token else content

    def _pause(self, state: tenacity.RetryCallState) -> float:
        failure = state.outcome and state.outcome.exception()
        requested = failure.after if isinstance(failure, _Retry) else 0.0
        if requested and self._pauses_all:
            with self._lock:
                until = time.monotonic() + min(requested, LONGEST_PAUSE)
                self._next_turn = max(self._next_turn, until)
        return min(max(self._backoff(state), requested), LONGEST_PAUSE)

    def _wait_for_turn(self) -> None:
        with self._lock:
            now = time.monotonic()
            turn = max(now, self._next_turn)
            self._next_turn = turn + self._interval
        time.sleep(turn - now)

    def _send(self, client: httpx.Client, connection: _Connection, body: bytes, what: str) -> bytes:
        """Send a body and return the answer within the time-out; follow redirections on the same
        host only.
        """
        self._wait_for_turn()
        url = self.url
        try:
            with connection.within(self.timeout):
                for _ in range(REDIRECTS + 1):
                    with client.stream(
                        "POST", url, content=body, extensions={"trace": connection.trace}
                    ) as response:
                        if response.is_success:
                            return self._read(response, what)
                        url = self._redirected(response, what)
        except (httpx.RequestError, _Retry) as error:
            if connection.is_late or isinstance(error, httpx.TimeoutException):
                raise _Retry(f"did not answer within {self.timeout:g} seconds") from error
            if isinstance(error, _Retry):
                raise
            raise _failure(error, what) from error
        raise ModelError(f"{what} redirects in a circle. Give the address that answers.")

    def _read(self, response: httpx.Response, what: str) -> bytes:
        """Read the whole answer, if it is not too large."""
        content = bytearray()
        try:
            for part in response.iter_bytes():
                content += part
                if len(content) > LARGEST:
                    raise ModelError(
                        f"{what} answered with more than {LARGEST // 2**20} MiB. Check that this is"
                        " the address of a model."
                    )
        except (httpx.RemoteProtocolError, httpx.DecodingError) as error:
            raise _Retry("broke off in the middle of its answer") from error
        return bytes(content)

    def _redirected(self, response: httpx.Response, what: str) -> httpx.URL:
        """Return the address to which a response redirects; raise an error if it does not."""
        if response.has_redirect_location and response.status_code != 303:
            here, location = response.url, response.headers["Location"]
            try:
                there = here.join(location)
            except (httpx.InvalidURL, ValueError, LookupError, TypeError) as error:
                raise ModelError(f"{what} redirects to an invalid address.") from error
            if not _same_host(here, there):
                raise ModelError(
                    f"{what} redirects to another host ({there.host}), which is not followed. Give"
                    " its address."
                )
            return there
        message = f"answered {response.status_code} {response.reason_phrase}"
        if response.status_code == 429 or response.status_code >= 500:
            raise _Retry(message, retry_after(response.headers.get("Retry-After")))
        try:
            whole = self._struck_out(next(response.iter_bytes(4096), b""))
        except httpx.RequestError:
            whole = b""
        said = beginning(whole)
        hint = f" {self._about_token()}" if response.status_code in (401, 403) else ""
        raise RefusedError(f"{what} {message}{f': {said}' if said else ''}.{hint}", whole)

    def _token(self) -> dict[str, str]:
        token = os.environ.get(TOKEN, "").strip()
        if not token or not self._may_send_token():
            return {}
        if not token.isascii() or not token.isprintable():
            raise SettingError(
                f"The token in {TOKEN} holds characters that cannot be sent. Set it again."
            )
        return {self._header: token} if self._header else {"Authorization": f"Bearer {token}"}

    def _may_send_token(self) -> bool:
        return self.url.scheme == "https" or self.url.host in LOCAL

    def _about_token(self) -> str:
        if not os.environ.get(TOKEN, "").strip():
            return f"If it needs a token, set the environment variable {TOKEN}."
        if self._may_send_token():
            return f"The token in {TOKEN} was sent."
        return "A token is not sent over plain http; use https."


def _certificates(ca: str | None, certificate: str | None) -> ssl.SSLContext:
    """Load the certificates to trust, and the client's own."""
    trusted = ssl.create_default_context()
    for option, load, file in (
        ("ca", trusted.load_verify_locations, ca),
        ("certificate", trusted.load_cert_chain, certificate),
    ):
        try:
            if file:
                load(file)
        except (OSError, ssl.SSLError) as error:
            raise SettingError(
                f"Cannot read the endpoint's '{option}' from {file}: {error.strerror or error}."
                " Expected a PEM file, for `certificate` with its key."
            ) from error
    return trusted


# -- addresses -------------------------------------------------------------------------------------


def _checked(address: str) -> httpx.URL:
    url = None
    with suppress(httpx.InvalidURL, ValueError):
        url = httpx.URL(address)
    if (
        url is None
        or url.scheme not in ("http", "https")
        or not url.host
        or (url.port or 0) > 65535
    ):
        raise SettingError(
            "The endpoint's address cannot be read: it starts with https:// (or http://) and a"
            " host, such as https://host/predict."
        )
    secrets = ["a password"] if url.userinfo else []
    secrets += [
        f"what looks like a secret ('{name}')" for name in url.params if SECRET.search(name)
    ]
    if secrets:  # the address is written into the run, so that the run can be repeated
        raise SettingError(
            f"The address of {_public(url)} holds {secrets[0]}. Remove it, and set a token in the"
            f" environment variable {TOKEN}."
        )
    return url


def _public(url: httpx.URL) -> str:
    """Return the address without anything that may be secret."""
    return str(url.copy_with(username=None, password=None, query=None, fragment=None))


def _same_host(here: httpx.URL, there: httpx.URL) -> bool:
    """Return True if a redirection stays on the same server, or on the same host by https."""
    if here.host != there.host or there.userinfo:
        return False
    to_https = (here.scheme, there.scheme, there.port) == ("http", "https", None)
    return to_https or (here.scheme, here.port) == (there.scheme, there.port)


def _failure(error: httpx.RequestError, what: str) -> Exception:
    """Return a connection error as one to report at once, or one to retry."""
    cause: BaseException = error
    while cause.__context__ is not None:
        cause = cause.__context__
        if isinstance(cause, httpx.InvalidURL):
            return ModelError(f"{what} redirects to an invalid address.")
    if isinstance(cause, ssl.SSLCertVerificationError):
        return ModelError(
            f"{what} has a certificate that cannot be trusted: {cause.verify_message}. No rows were"
            " sent."
        )
    if isinstance(cause, ConnectionRefusedError):
        return _Retry("refused the connection")
    said = getattr(cause, "strerror", None) or str(cause) or "the connection ended"
    return _Retry(f"could not be reached ({said[:SHOWN].rstrip('.')})")


def retry_after(header: str | None) -> float:
    """Return the seconds to wait that a Retry-After header requests, as a number or a date; 0 if
    none.
    """
    try:
        return max(float(header or 0), 0.0)
    except ValueError:
        pass
    try:
        date = email.utils.parsedate_to_datetime(header or "")
    except ValueError:
        return 0.0
    now = datetime.datetime.now(datetime.UTC)
    return max((date.replace(tzinfo=date.tzinfo or datetime.UTC) - now).total_seconds(), 0.0)


# -- JSON ------------------------------------------------------------------------------------------


def decoded(content: bytes, what: str, expected: str) -> Any:
    """Decode the JSON of an answer, or raise an error that says what it is instead; `expected` is
    an example.
    """
    if not content.strip():
        raise ModelError(f"{what} answered with nothing. Expected JSON such as {expected}.")
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        page = content.lstrip()[:1] == b"<"
        kind = "a web page" if page else "invalid or truncated JSON"
        raise ModelError(
            f"{what} answered with {kind} ({beginning(content)}). Give the address of the model"
            " itself."
        ) from error


def beginning(content: bytes) -> str:
    """Return the first words of an answer, on one line."""
    text = " ".join(content[: 8 * SHOWN].decode("utf-8", errors="replace").split())
    return text[:SHOWN] + ("…" if len(text) > SHOWN else "")
