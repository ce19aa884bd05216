"""A model behind an HTTP address: rows are sent as JSON in batches, and probabilities come back.

    POST {"instances": [{"age": 39, "sex": "Male"}, …]}       with form="records"
         {"instances": [[39, 1], …]}                          with form="rows"
    ->   {"predictions": [0.2, …]}                            the probability of class 1,
         {"predictions": [[0.8, 0.2], …]}                     of every class,
         {"predictions": [{"no": 0.8, "yes": 0.2}, …]}        or of every class by name

A bare list and {"probabilities": …} are accepted as well. Failed connections, time-outs, 429 and
5xx are retried with growing pauses.
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
from pathlib import Path
from typing import Any, Literal

import httpx
import numpy as np
import pandas as pd
import tenacity

from fairprobe.arrays import Rows
from fairprobe.errors import ModelError, SettingError
from fairprobe.models.formats.base import Format, Opened

Form = Literal["records", "rows"]

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
    """A failure that another attempt may not have; `after` is the pause the server requests."""

    def __init__(self, message: str, after: float = 0.0) -> None:
        super().__init__(message)
        self.after = after


class _Connection:
    """The connection of a client, and a deadline for each request. httpx limits every single wait,
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


class Endpoint:
    """A callable from a DataFrame (form "records") or an array (form "rows") to probabilities.

    A token is read from the variable FAIRPROBE_ENDPOINT_TOKEN only. It is sent as `Authorization:
    Bearer …`, or unchanged in the header that `header` names, and never over plain http to another
    machine. `per_second` limits the rate of requests; `pause` is the wait before the first retry.
    """

    def __init__(
        self,
        url: str,
        *,
        form: Form = "records",
        batch: int = 512,
        timeout: float = 30.0,
        retries: int = 4,
        per_second: float | None = None,
        header: str | None = None,
        pause: float = 0.5,
        rows_field: str = "instances",
        answer_field: str | None = None,
    ) -> None:
        self.url = _checked(url)
        self.shown = _public(self.url)
        if form not in ("records", "rows"):
            raise SettingError(f"An endpoint is sent 'records' or 'rows'; got '{form}'.")
        positive = timeout > 0 and (per_second is None or per_second > 0)
        if batch < 1 or retries < 0 or pause < 0 or not positive:
            raise SettingError(
                "An endpoint's batch must be at least 1, its time-out and rate greater than 0, its"
                f" retries and pause not negative; got batch={batch}, timeout={timeout},"
                f" per_second={per_second}, retries={retries}, pause={pause}."
            )
        self.form, self.batch, self.timeout, self.retries = form, batch, timeout, retries
        self.classes: tuple[str, ...] | None = None
        self._header, self._rows_field = header, rows_field
        self._answer_fields = (answer_field,) if answer_field else ("predictions", "probabilities")
        self._interval = 0.0 if per_second is None else 1 / per_second
        self._next_turn, self._lock = 0.0, threading.Lock()
        self._backoff = tenacity.wait_exponential(pause) + tenacity.wait_random(0, pause)
        self._certificates = ssl.create_default_context()

    def __call__(self, x: pd.DataFrame | Rows) -> Rows:
        if not len(x):
            return np.empty((0, len(self.classes or "01")), dtype=np.float32)
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        headers |= {"Accept-Encoding": "identity", "User-Agent": "fairprobe", **self._token()}
        connection = _Connection()
        with httpx.Client(
            headers=headers, timeout=self.timeout, verify=self._certificates
        ) as client:
            send = partial(self._send, client, connection)
            parts = [
                self._predict(send, x[first : first + self.batch], first)
                for first in range(0, len(x), self.batch)
            ]
        if len({part.shape[1:] for part in parts}) > 1:
            raise ModelError(
                f"{self.shown} answered with different numbers of classes in different batches."
            )
        return np.concatenate(parts)

    def _predict(
        self, send: Callable[[bytes, str], bytes], x: pd.DataFrame | Rows, first: int
    ) -> Rows:
        """The probabilities of one batch, whose first row is row number `first`."""
        which = f"rows {first} to {first + len(x) - 1}"
        what = f"{self.shown} ({which})"
        rows = _records(x) if isinstance(x, pd.DataFrame) else _lists(x)
        try:
            body = json.dumps({self._rows_field: rows}, default=_plain, allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise ModelError(f"Cannot write {which} as JSON: {error}.") from error
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_Retry),
            stop=tenacity.stop_after_attempt(self.retries + 1),
            wait=self._pause,
            sleep=time.sleep,
            reraise=True,
        )
        try:
            content = retrying(send, body, what)
        except _Retry as failure:
            raise ModelError(
                f"{what} {failure}; tried {self.retries + 1} times. Check that the server is up and"
                " the address is right."
            ) from failure
        answer = self._predictions(_decoded(content, what), what)
        if len(answer) != len(x):
            raise ModelError(
                f"{what} answered with {len(answer)} predictions to {len(x)} rows; expected one for"
                " each row."
            )
        return self._table(answer, first, what)

    # -- sending -----------------------------------------------------------------------------------

    def _pause(self, state: tenacity.RetryCallState) -> float:
        failure = state.outcome and state.outcome.exception()
        requested = failure.after if isinstance(failure, _Retry) else 0.0
        return min(max(self._backoff(state), requested), LONGEST_PAUSE)

    def _wait_for_turn(self) -> None:
        with self._lock:
            now = time.monotonic()
            turn = max(now, self._next_turn)
            self._next_turn = turn + self._interval
        time.sleep(turn - now)

    def _send(self, client: httpx.Client, connection: _Connection, body: bytes, what: str) -> bytes:
        """The content of the answer, within the time-out; redirections are followed on the same
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
        """The whole answer, if it is not too large."""
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
        """The address to which an unsuccessful response redirects; an error if it does not."""
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
            said = _beginning(next(response.iter_bytes(4096), b""))
        except httpx.RequestError:
            said = ""
        hint = f" {self._about_token()}" if response.status_code in (401, 403) else ""
        raise ModelError(f"{what} {message}{f': {said}' if said else ''}.{hint}")

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

    # -- reading the answer ------------------------------------------------------------------------

    def _predictions(self, answer: Any, what: str) -> list[Any]:
        if isinstance(answer, dict):
            field = next((name for name in self._answer_fields if name in answer), None)
            if field is None:
                expected = " or ".join(f"'{name}'" for name in self._answer_fields)
                raise ModelError(
                    f"{what} answered without {expected}; it has"
                    f" {', '.join(map(repr, list(answer)[:8])) or 'no fields'}."
                )
            answer = answer[field]
        if not isinstance(answer, list):
            raise ModelError(
                f"{what} answered with {_beginning(json.dumps(answer).encode())}; expected a list"
                " of predictions."
            )
        return answer

    def _table(self, answer: list[Any], first: int, what: str) -> Rows:
        if isinstance(answer[0], dict):
            answer = self._by_name(answer, first, what)
        for row, one in enumerate(answer, start=first):
            numbers = one if isinstance(one, list) else [one]
            if not numbers or not all(
                isinstance(p, int | float) and not isinstance(p, bool) and -1e-3 <= p <= 1 + 1e-3
                for p in numbers
            ):
                raise ModelError(
                    f"{what} answered {_beginning(json.dumps(one).encode())} for row {row};"
                    " expected a probability, or a list with one for each class."
                )
        if len({len(one) if isinstance(one, list) else 0 for one in answer}) > 1:
            raise ModelError(f"{what} answered with lists of different lengths.")
        return np.asarray(answer, dtype=np.float32)

    def _by_name(self, answer: list[Any], first: int, what: str) -> list[Any]:
        """The probabilities in the order of the class names, numbers before words."""
        names = self.classes or tuple(
            sorted(
                answer[0],
                key=lambda name: (float(name), name) if name.isdecimal() else (np.inf, name),
            )
        )
        for row, one in enumerate(answer, start=first):
            if not isinstance(one, dict) or set(one) != set(names):
                came = ", ".join(one) if isinstance(one, dict) else json.dumps(one)[:SHOWN]
                raise ModelError(
                    f"{what} named other classes for row {row} ({came}) than before"
                    f" ({', '.join(names)})."
                )
        self.classes = names
        return [[one[name] for name in names] for one in answer]


def open_endpoint(url: str, **settings: Any) -> Opened:
    """A model behind an address, as a black box; the settings are those of `Endpoint`."""
    try:
        endpoint = Endpoint(url, **settings)
    except TypeError as error:
        raise SettingError(f"Invalid settings for an endpoint: {error}.") from error
    return Opened(
        kind="endpoint",
        name=endpoint.shown,
        takes="words" if endpoint.form == "records" else "numbers",
        predict=endpoint,
        outputs="probabilities",
        why="It is behind an address: it can be queried, but its inside cannot be seen.",
    )


ENDPOINT = Format(
    name="endpoint",
    title="A service",
    about="A model behind an HTTP address that takes rows and returns probabilities as JSON.",
    given="https://…",
    white_box="no",
    open=open_endpoint,
)


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
    """The address without anything that may be secret."""
    return str(url.copy_with(username=None, password=None, query=None, fragment=None))


def _same_host(here: httpx.URL, there: httpx.URL) -> bool:
    """Whether a redirection stays on the same server, or on the same host by https."""
    if here.host != there.host or there.userinfo:
        return False
    to_https = (here.scheme, there.scheme, there.port) == ("http", "https", None)
    return to_https or (here.scheme, here.port) == (there.scheme, there.port)


def _failure(error: httpx.RequestError, what: str) -> Exception:
    """A connection error as one to report at once, or one to retry."""
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
    """The seconds to wait that a Retry-After header requests, as a number or a date; 0 if none."""
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


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    plain = frame.astype(object).where(frame.notna(), None)
    return [{str(name): row[name] for name in row} for row in plain.to_dict("records")]


def _lists(x: Rows) -> list[list[float | None]]:
    rows = np.asarray(x)
    lists: list[list[float | None]] = rows.tolist()
    if np.isnan(rows).any():
        lists = [[None if value != value else value for value in row] for row in lists]
    return lists


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"a value of type {type(value).__name__} cannot be written")


def _decoded(content: bytes, what: str) -> Any:
    if not content.strip():
        raise ModelError(
            f'{what} answered with nothing. Expected JSON such as {{"predictions": [0.2, 0.7]}}.'
        )
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        page = content.lstrip()[:1] == b"<"
        kind = "a web page" if page else "invalid or truncated JSON"
        raise ModelError(
            f"{what} answered with {kind} ({_beginning(content)}). Give the address of the model"
            " itself."
        ) from error


def _beginning(content: bytes) -> str:
    """The first words of an answer, on one line."""
    text = " ".join(content[: 8 * SHOWN].decode("utf-8", errors="replace").split())
    return text[:SHOWN] + ("…" if len(text) > SHOWN else "")
