"""A model behind an address: rows go out as JSON in batches, probabilities come back.

    POST {"instances": [{"age": 39, "sex": "Male"}, …]}   or, with form="rows", {"instances": [[39,
                                                          1], …]}
    ->   {"predictions": [0.2, …]}                        the probability of class 1,
         {"predictions": [[0.8, 0.2], …]}                 or of every class,
         {"predictions": [{"no": 0.8, "yes": 0.2}, …]}    or of every class by its name (in the
                                                          order of the names)

A bare list and {"probabilities": …} are understood, too. A connection that fails, a time-out, 429
and 5xx are tried again, later and later.
"""

from __future__ import annotations

import datetime
import email.utils
import http.client
import json
import os
import random
import re
import ssl
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Literal
from urllib.parse import SplitResult, parse_qsl, urljoin, urlsplit

import numpy as np
import pandas as pd

from fairprobe.arrays import Rows
from fairprobe.errors import ModelError, SettingError
from fairprobe.models.formats.opened import Opened

Form = Literal["records", "rows"]

TOKEN = "FAIRPROBE_ENDPOINT_TOKEN"  # noqa: S105  (the variable's name)
SECRET = re.compile(
    r"(key|token|secret|password|passwd|signature|credential|^sig$|^code$|^auth)", re.IGNORECASE
)  # names in an address
LOCAL = ("localhost", "127.0.0.1", "::1")
LONGEST_PAUSE = 60.0  # seconds, whatever a server asks for
LARGEST = 64 * 2**20  # bytes of one answer
SHOWN = 80  # characters of an answer in a message
REDIRECTS = 3


class _Again(Exception):  # noqa: N818  (a signal, not a failure)
    """Trying again may help; `after` is what the server asks to wait."""

    def __init__(self, told: str, after: float = 0.0) -> None:
        super().__init__(told)
        self.after = after


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirection is looked at first: the rows and the token must not go to another host."""

    def redirect_request(self, *_: Any) -> None:
        return None


class Endpoint:
    """A callable from a DataFrame (form "records") or an array (form "rows") to probabilities.

    A token is only taken from the variable FAIRPROBE_ENDPOINT_TOKEN and sent as `Authorization:
    Bearer …`, or plainly in the header that `header` names; never over plain http to another
    machine. `per_second` limits requests, `pause` is the first wait before another try.
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
        parts = _checked(url)
        if form not in ("records", "rows"):
            raise SettingError(f"An endpoint is sent 'records' or 'rows'; got '{form}'.")
        if (
            batch < 1
            or timeout <= 0
            or retries < 0
            or pause < 0
            or (per_second is not None and per_second <= 0)
        ):
            raise SettingError(
                "An endpoint's batch must be at least 1, its time-out and rate greater than 0, its"
                f" retries and pause not negative; got batch={batch}, timeout={timeout},"
                f" per_second={per_second}, retries={retries}, pause={pause}."
            )
        self.url, self.form, self.batch, self.timeout, self.retries = (
            url,
            form,
            batch,
            timeout,
            retries,
        )
        self.shown = _shown(parts)
        self.classes: tuple[str, ...] | None = None
        self._header, self._pause = header, pause
        self._rows_field, self._answer_fields = (
            rows_field,
            ((answer_field,) if answer_field else ("predictions", "probabilities")),
        )
        self._interval, self._free_at, self._lock = (
            (0.0 if per_second is None else 1 / per_second),
            0.0,
            threading.Lock(),
        )
        self._opener = urllib.request.build_opener(
            _NoRedirect, urllib.request.HTTPSHandler(context=ssl.create_default_context())
        )

    def __call__(self, x: pd.DataFrame | Rows) -> Rows:
        if not len(x):
            return np.empty((0, len(self.classes or "01")), dtype=np.float32)
        parts = [
            self._ask(x[first : first + self.batch], first)
            for first in range(0, len(x), self.batch)
        ]
        if len({part.shape[1:] for part in parts}) > 1:
            raise ModelError(
                f"{self.shown} answers with different numbers of classes in different batches."
            )
        return np.concatenate(parts)

    # -- one batch ---------------------------------------------------------------------------------

    def _ask(self, x: pd.DataFrame | Rows, first: int) -> Rows:
        what = f"{self.shown}, asked for rows {first} to {first + len(x) - 1},"
        rows = _records(x) if isinstance(x, pd.DataFrame) else _lists(x)
        try:
            body = json.dumps({self._rows_field: rows}, default=_plain, allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise ModelError(
                f"Rows {first} to {first + len(x) - 1} cannot be written as JSON: {error}."
            ) from error
        answer = self._predictions(self._decoded(self._send_patiently(body, what), what), what)
        if len(answer) != len(x):
            raise ModelError(
                f"{what} answered with {len(answer)} predictions to {len(x)} rows; expected one for"
                " each."
            )
        return self._table(answer, first, what)

    def _send_patiently(self, body: bytes, what: str) -> bytes:
        for attempt in range(self.retries + 1):
            self._wait_for_turn()
            try:
                return self._send(body, what)
            except _Again as again:
                if attempt == self.retries:
                    raise ModelError(
                        f"{what} {again}; tried {attempt + 1} times. Is the server up, and the"
                        " address right?"
                    ) from again
                jitter = random.uniform(0.5, 1.0)  # noqa: S311  (so that clients that failed together do not come back together)
                time.sleep(min(max(self._pause * 2**attempt * jitter, again.after), LONGEST_PAUSE))
        raise AssertionError

    def _wait_for_turn(self) -> None:
        with self._lock:
            now = time.monotonic()
            turn = max(now, self._free_at)
            self._free_at = turn + self._interval
        time.sleep(turn - now)

    def _send(self, body: bytes, what: str) -> bytes:
        url = self.url
        for _ in range(REDIRECTS + 1):
            headers = {
                "Content-Type": "application/json",
                "Accept": "application/json",
                "User-Agent": "fairprobe",
                **self._token(),
            }
            request = urllib.request.Request(url, data=body, headers=headers)  # noqa: S310  (http and https only: see _checked)
            try:
                with self._opener.open(request, timeout=self.timeout) as response:
                    return self._read(response, what)
            except urllib.error.HTTPError as error:
                with error:
                    url = self._after(error, url, what)
            except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
                raise self._trouble(error, what) from error
        raise ModelError(f"{what} redirects in a circle. Give the address that answers.")

    def _read(self, response: Any, what: str) -> bytes:
        """The whole answer within the time; a server that sends a byte now and then must not hold
        us for ever.
        """
        until, parts, size = time.monotonic() + self.timeout, [], 0
        while part := response.read1(65536):
            parts.append(part)
            size += len(part)
            if time.monotonic() > until:
                raise TimeoutError
            if size > LARGEST:
                raise ModelError(
                    f"{what} answered with more than {LARGEST // 2**20} MiB. Is this the address of"
                    " a model?"
                )
        if response.length:  # bytes that were announced and never came
            raise _Again("broke off in the middle of its answer")
        return b"".join(parts)

    def _after(self, error: urllib.error.HTTPError, url: str, what: str) -> str:
        """What follows from an answer that is no success: another address on the same host, another
        try, or an error.
        """
        if error.code in (301, 302, 307, 308) and (location := error.headers.get("Location")):
            there = urljoin(url, location)
            if not _same_host(urlsplit(url), urlsplit(there)):
                raise ModelError(
                    f"{what} redirects to another host ({urlsplit(there).hostname}), which is not"
                    " followed. Give its address."
                )
            return there
        told = f"answered {error.code} {error.reason}"
        if error.code == 429 or error.code >= 500:
            raise _Again(told, retry_after(error.headers.get("Retry-After")))
        try:
            said = _beginning(error.read(4096))
        except (OSError, http.client.HTTPException):
            said = ""
        hint = f" {self._about_token()}" if error.code in (401, 403) else ""
        raise ModelError(f"{what} {told}{f': {said}' if said else ''}.{hint}")

    def _trouble(self, error: Exception, what: str) -> Exception:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(reason, ssl.SSLCertVerificationError):
            return ModelError(
                f"{what} has a certificate that cannot be trusted: {reason.verify_message}. It is"
                " not asked."
            )
        if isinstance(reason, TimeoutError):
            return _Again(f"did not answer within {self.timeout:g} seconds")
        if isinstance(reason, ConnectionRefusedError):
            return _Again("refused the connection")
        if isinstance(reason, http.client.IncompleteRead):
            return _Again("broke off in the middle of its answer")
        return _Again(f"could not be reached ({type(reason).__name__}: {str(reason)[:SHOWN]})")

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
        parts = urlsplit(self.url)
        return parts.scheme == "https" or parts.hostname in LOCAL

    def _about_token(self) -> str:
        if not os.environ.get(TOKEN, "").strip():
            return f"If it needs a token, set the environment variable {TOKEN}."
        return (
            f"The token in {TOKEN} was sent."
            if self._may_send_token()
            else "A token is not sent over plain http; use https."
        )

    # -- understanding the answer ------------------------------------------------------------------

    def _decoded(self, content: bytes, what: str) -> Any:
        if not content.strip():
            raise ModelError(
                f'{what} answered with nothing. Expected JSON such as {{"predictions": [0.2,'
                " 0.7]}."
            )
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            page = content.lstrip()[:1] == b"<"
            kind = "with a web page" if page else "with something that is no JSON, or is cut short"
            raise ModelError(
                f"{what} answered {kind} ({_beginning(content)}). Give the address of the model"
                " itself."
            ) from error

    def _predictions(self, answer: Any, what: str) -> list[Any]:
        if isinstance(answer, dict):
            field = next((name for name in self._answer_fields if name in answer), None)
            if field is None:
                expected = " or ".join(f"'{name}'" for name in self._answer_fields)
                raise ModelError(
                    f"{what} answered without {expected}; it has"
                    f" {', '.join(map(repr, list(answer)[:8])) or 'nothing'}."
                )
            answer = answer[field]
        if not isinstance(answer, list):
            raise ModelError(
                f"{what} answered with {_beginning(json.dumps(answer).encode())} where a list of"
                " predictions was expected."
            )
        return answer

    def _table(self, answer: list[Any], first: int, what: str) -> Rows:
        if isinstance(answer[0], dict):
            answer = self._by_name(answer, first, what)
        widths = {len(one) if isinstance(one, list) else 0 for one in answer}
        for row, one in enumerate(answer, start=first):
            numbers = one if isinstance(one, list) else [one]
            if not numbers or not all(
                isinstance(p, int | float) and not isinstance(p, bool) and -1e-3 <= p <= 1 + 1e-3
                for p in numbers
            ):
                said = _beginning(json.dumps(one).encode())
                raise ModelError(
                    f"{what} answered {said} for row {row}; expected a probability, or a list of"
                    " them, one for each class."
                )
        if len(widths) > 1:
            raise ModelError(f"{what} answered with lists of different lengths.")
        return np.asarray(answer, dtype=np.float32)

    def _by_name(self, answer: list[Any], first: int, what: str) -> list[Any]:
        names = self.classes or tuple(
            sorted(
                answer[0],
                key=lambda name: (float(name), name) if name.isdigit() else (np.inf, name),
            )
        )
        for row, one in enumerate(answer, start=first):
            if not isinstance(one, dict) or set(one) != set(names):
                came = (
                    ", ".join(map(str, one)) if isinstance(one, dict) else json.dumps(one)[:SHOWN]
                )
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
        raise SettingError(f"An endpoint cannot be set up so: {error}.") from error
    return Opened(
        kind="endpoint",
        name=endpoint.shown,
        takes="words" if endpoint.form == "records" else "numbers",
        ask=endpoint,
        outputs="probabilities",
        why="It is behind an address: it can be asked, but not looked into.",
    )


# -- addresses -------------------------------------------------------------------------------------


def _checked(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        ready = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError as error:
        raise SettingError(
            "The endpoint's address cannot be read. Expected something like https://host/predict."
        ) from error
    if not ready:
        raise SettingError(
            "An endpoint's address starts with https:// (or http://) and a host; got"
            f" '{_shown(parts)}'."
        )
    if parts.username or parts.password:
        raise SettingError(
            f"The address of {_shown(parts)} holds a password. Take it out, and set a token in the"
            f" environment variable {TOKEN}."
        )
    secrets = [
        name for name, _ in parse_qsl(parts.query, keep_blank_values=True) if SECRET.search(name)
    ]
    if secrets:  # the address is written into the run, for it to be repeated
        raise SettingError(
            f"The address of {_shown(parts)} holds what looks like a secret ('{secrets[0]}'). Take"
            f" it out, and set a token in the environment variable {TOKEN}."
        )
    return parts


def _shown(parts: SplitResult) -> str:
    """The address without anything that may be secret."""
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}{parts.path}"


def _same_host(here: SplitResult, there: SplitResult) -> bool:
    """The same server, or the same host by https."""
    ports = {"http": 80, "https": 443}
    if here.hostname != there.hostname or there.scheme not in ports or there.username:
        return False
    same = (here.scheme, here.port or ports[here.scheme]) == (
        there.scheme,
        there.port or ports[there.scheme],
    )
    return same or (here.scheme == "http" and there.scheme == "https" and there.port in (None, 443))


def retry_after(told: str | None) -> float:
    """Seconds, or a date."""
    if not told:
        return 0.0
    try:
        return max(float(told), 0.0)
    except ValueError:
        pass
    try:
        date = email.utils.parsedate_to_datetime(told)
    except ValueError:
        return 0.0
    now = datetime.datetime.now(datetime.UTC)
    return max((date.replace(tzinfo=date.tzinfo or datetime.UTC) - now).total_seconds(), 0.0)


# -- rows ------------------------------------------------------------------------------------------


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    plain = frame.astype(object)
    return [
        {str(name): value for name, value in row.items()}
        for row in plain.where(frame.notna(), None).to_dict("records")
    ]


def _lists(x: Rows) -> list[list[float | None]]:
    rows = np.asarray(x)
    lists: list[list[float | None]] = rows.tolist()
    if np.isnan(rows).any():
        lists = [[None if value != value else value for value in row] for row in lists]
    return lists


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, datetime.date | pd.Timestamp):
        return value.isoformat()
    return str(value) if isinstance(value, Path) else _refuse(value)


def _refuse(value: Any) -> None:
    raise TypeError(f"a value of type {type(value).__name__} has no place in JSON")


def _beginning(content: bytes) -> str:
    """The first words of an answer, on one line."""
    text = " ".join(content[: 8 * SHOWN].decode("utf-8", errors="replace").split())
    return text[:SHOWN] + ("…" if len(text) > SHOWN else "")
