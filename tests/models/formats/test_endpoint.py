"""Models behind an address, against a real server that speaks well and misbehaves in every way we
know.
"""

from __future__ import annotations

import datetime
import email.utils
import http.server
import json
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairprobe.errors import FairprobeError, ModelError, SettingError
from fairprobe.models.formats.endpoint import TOKEN, Endpoint, open_endpoint

FRAME = pd.DataFrame({"age": [30, 40, 50], "sex": ["f", "m", None], "gain": [1.5, np.nan, 0.0]})
ROWS = np.array([[0.1, 1.0], [0.2, np.nan], [0.3, 3.0]], dtype=np.float32)
SECRET = "s3cret-t0ken"

Handle = Callable[["Handler", list[Any]], None]


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers by what the path says."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append((self.path, dict(self.headers), body))
        MANNERS[self.path.split("?")[0]](self, body.get("instances", []))

    def answer(
        self, content: bytes, *, code: int = 200, length: int | None = None, **headers: str
    ) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(content) if length is None else length))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content)
        self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Nothing is written anywhere."""


class Server(http.server.ThreadingHTTPServer):
    """Remembers what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen: list[tuple[str, dict[str, str], Any]] = []
        self.address = f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, *_: Any) -> None:
        """A client that hung up is no news."""


def says(make: Callable[[list[Any]], Any]) -> Handle:
    return lambda handler, rows: handler.answer(json.dumps(make(rows)).encode())


def sends(content: bytes, **settings: Any) -> Handle:
    return lambda handler, rows: handler.answer(content, **settings)


def first_then(first: Handle, then: Handle, times: int = 1) -> Handle:
    """Misbehaves so many times, then thinks better of it."""

    def handle(handler: Handler, rows: list[Any]) -> None:
        asked = sum(path == handler.path for path, _, _ in handler.server.seen)
        (first if asked <= times else then)(handler, rows)

    return handle


def hangs(handler: Handler, rows: list[Any]) -> None:
    time.sleep(1.5)


def drips(handler: Handler, rows: list[Any]) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    for _ in range(30):
        handler.wfile.write(b" ")
        handler.wfile.flush()
        time.sleep(0.05)


def drops(handler: Handler, rows: list[Any]) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True


def redirects(to: str) -> Handle:
    return lambda handler, rows: handler.answer(b"", code=307, Location=to)


def needs_token(handler: Handler, rows: list[Any]) -> None:
    if (
        handler.headers.get("Authorization") != f"Bearer {SECRET}"
        and handler.headers.get("X-Api-Key") != SECRET
    ):
        handler.answer(b"who are you?", code=401)
    else:
        good(handler, rows)


def in_http(seconds: float) -> str:
    return email.utils.format_datetime(
        datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds), usegmt=True
    )


good = says(
    lambda rows: {
        "predictions": [row["age"] / 100 if isinstance(row, dict) else row[0] for row in rows]
    }
)
late = says(lambda rows: {"predictions": [row["age"] and 0.5 for row in rows]})
PAGE = b"<!DOCTYPE html><html><body>Sign in</body></html>"
MANNERS: dict[str, Handle] = {
    "/good": good,
    "/late": late,
    "/bare": says(lambda rows: [0.5 for _ in rows]),
    "/probabilities": says(lambda rows: {"probabilities": [[0.2, 0.3, 0.5] for _ in rows]}),
    "/scores": says(lambda rows: {"scores": [[0.2, 0.8] for _ in rows]}),
    "/named": says(lambda rows: {"predictions": [{"yes": 0.7, "no": 0.3} for _ in rows]}),
    "/numbered": says(
        lambda rows: {"predictions": [{"10": 0.1, "2": 0.3, "0": 0.6} for _ in rows]}
    ),
    "/once-500": first_then(sends(b"oops", code=500), good),
    "/once-503": first_then(sends(b"", code=503, Retry_After="0.2"), good),
    "/once-429": first_then(sends(b"", code=429, Retry_After="0.3"), good),
    "/once-429-date": first_then(
        lambda handler, rows: handler.answer(b"", code=429, Retry_After=in_http(1.2)), good
    ),
    "/once-dropped": first_then(drops, good),
    "/once-slow": first_then(hangs, good),
    "/once-short": first_then(sends(b'{"predic', length=100), good),
    "/token": needs_token,
    "/moved": redirects("/good"),
    "/moved-away": redirects("http://localhost:1/good"),
    "/moved-round": redirects("/moved-round"),
    "/html": sends(PAGE),
    "/empty": sends(b""),
    "/no-json": sends(b"0.2 0.3"),
    "/short-json": sends(b'{"predictions": [0.1, 0.'),
    "/deep-json": sends(b"[" * 100_000),
    "/binary": sends(b"\xff\xfe\x00\x01"),
    "/fewer": says(lambda rows: {"predictions": [0.5]}),
    "/more": says(lambda rows: {"predictions": [0.5] * (len(rows) + 1)}),
    "/nan": sends(b'{"predictions": [0.1, NaN, 0.2]}'),
    "/infinite": sends(b'{"predictions": [0.1, Infinity, 0.2]}'),
    "/null": says(lambda rows: {"predictions": [0.1, None, 0.2]}),
    "/strings": says(lambda rows: {"predictions": ["0.1", "0.2", "0.3"]}),
    "/labels": says(lambda rows: {"predictions": ["yes", "no", "no"]}),
    "/booleans": says(lambda rows: {"predictions": [True, False, True]}),
    "/nested": says(lambda rows: {"predictions": [[[0.1, 0.9]] for _ in rows]}),
    "/ragged": says(lambda rows: {"predictions": [[0.1, 0.9], [0.2, 0.3, 0.5], [0.5, 0.5]]}),
    "/mixed": says(lambda rows: {"predictions": [0.1, [0.2, 0.8], 0.3]}),
    "/hollow": says(lambda rows: {"predictions": [[], [], []]}),
    "/logits": says(lambda rows: {"predictions": [-3.2, 0.4, 8.1]}),
    "/other-names": says(
        lambda rows: {
            "predictions": [{"no": 0.1, "yes": 0.9}, {"no": 1.0}, {"no": 0.5, "yes": 0.5}]
        }
    ),
    "/other-field": says(lambda rows: {"result": [0.1, 0.2, 0.3]}),
    "/error-field": says(lambda rows: {"error": "model not loaded"}),
    "/number": says(lambda rows: {"predictions": 0.3}),
    "/hangs": hangs,
    "/drips": drips,
    "/drops": drops,
    "/always-500": sends(b"oops", code=500),
    "/400": sends(b'{"detail": "column height is missing"}', code=400),
    "/404": sends(PAGE, code=404),
}


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(
            target=lambda: server.serve_forever(poll_interval=0.02), daemon=True
        )
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def server(running: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.delenv(TOKEN, raising=False)
    monkeypatch.setenv("no_proxy", "*")
    running.seen.clear()
    return running


def ask(server: Server, path: str, **settings: Any) -> Any:
    timeout = 0.5 if path.split("?")[0] in ("/hangs", "/drips", "/once-slow") else 10.0
    return Endpoint(
        server.address + path, **{"timeout": timeout, "retries": 1, "pause": 0.01, **settings}
    )


# -- speaking well ---------------------------------------------------------------------------------


def test_records_carry_the_tables_words_and_gaps_are_null(server: Server) -> None:
    opened = open_endpoint(f"{server.address}/good")
    assert (opened.takes, opened.network, opened.name) == ("words", None, f"{server.address}/good")
    np.testing.assert_allclose(opened.ask(FRAME), [0.3, 0.4, 0.5])
    assert server.seen[0][2] == {
        "instances": [
            {"age": 30, "sex": "f", "gain": 1.5},
            {"age": 40, "sex": "m", "gain": None},
            {"age": 50, "sex": None, "gain": 0.0},
        ]
    }


def test_values_of_every_kind_become_json(server: Server) -> None:
    frame = pd.DataFrame(
        {
            "age": [np.float32(30)],
            "flag": [True],
            "day": [pd.Timestamp("2024-05-01")],
            "kind": pd.Categorical(["x"]),
            "n": [np.int64(3)],
        }
    )
    ask(server, "/good")(frame)
    assert server.seen[0][2]["instances"] == [
        {"age": 30.0, "flag": True, "day": "2024-05-01T00:00:00", "kind": "x", "n": 3}
    ]


def test_rows_are_lists_of_numbers(server: Server) -> None:
    opened = open_endpoint(f"{server.address}/good", form="rows")
    assert opened.takes == "numbers"
    np.testing.assert_allclose(opened.ask(ROWS), [0.1, 0.2, 0.3], rtol=1e-6)
    assert server.seen[0][2]["instances"][1][1] is None


def test_many_rows_go_in_batches_and_come_back_in_order(server: Server) -> None:
    rows = np.linspace(0, 1, 1030, dtype=np.float32)[:, None]
    np.testing.assert_allclose(
        ask(server, "/good", form="rows", batch=200)(rows), rows[:, 0], atol=1e-6
    )
    assert [len(body["instances"]) for _, _, body in server.seen] == [200] * 5 + [30]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/bare", 0.5),
        ("/probabilities", [0.2, 0.3, 0.5]),
        ("/named", [0.3, 0.7]),
        ("/numbered", [0.6, 0.3, 0.1]),
    ],
)
def test_every_form_of_answer_is_understood(path: str, expected: Any, server: Server) -> None:
    np.testing.assert_allclose(ask(server, path)(FRAME), [expected] * 3)


def test_the_classes_names_are_kept_and_no_rows_need_no_request(server: Server) -> None:
    endpoint = ask(server, "/named")
    endpoint(FRAME)
    assert endpoint.classes == ("no", "yes")
    assert endpoint(FRAME.iloc[:0]).shape == (0, 2)
    assert len(server.seen) == 1


def test_the_fields_may_have_other_names(server: Server) -> None:
    with pytest.raises(
        ModelError, match="0 predictions to 3 rows"
    ):  # the server of the tests only knows "instances"
        ask(server, "/scores", rows_field="inputs", answer_field="scores")(FRAME)
    assert list(server.seen[0][2]) == ["inputs"]
    np.testing.assert_allclose(
        ask(server, "/scores", answer_field="scores")(FRAME), [[0.2, 0.8]] * 3
    )


@pytest.mark.parametrize(
    "path",
    [
        "/once-500",
        "/once-503",
        "/once-429",
        "/once-429-date",
        "/once-dropped",
        "/once-slow",
        "/once-short",
    ],
)
def test_what_may_pass_is_tried_again(path: str, server: Server) -> None:
    started = time.monotonic()
    np.testing.assert_allclose(ask(server, path)(FRAME), [0.3, 0.4, 0.5])
    assert len(server.seen) == 2
    assert time.monotonic() - started >= {
        "/once-429": 0.3,
        "/once-503": 0.2,
        "/once-429-date": 0.1,
    }.get(path, 0)


def test_requests_keep_to_the_rate(server: Server) -> None:
    started = time.monotonic()
    ask(server, "/good", batch=1, per_second=10)(FRAME)
    assert time.monotonic() - started >= 0.2


def test_a_redirection_on_the_same_server_keeps_the_rows(server: Server) -> None:
    np.testing.assert_allclose(ask(server, "/moved")(FRAME), [0.3, 0.4, 0.5])


# -- misbehaving -----------------------------------------------------------------------------------

MISBEHAVIOUR: list[tuple[str, str]] = [
    ("/html", "answered with a web page .*Sign in"),
    ("/empty", "answered with nothing"),
    ("/no-json", "no JSON"),
    ("/short-json", "cut short"),
    ("/deep-json", "no JSON"),
    ("/binary", "no JSON"),
    ("/fewer", "1 predictions to 3 rows"),
    ("/more", "4 predictions to 3 rows"),
    ("/nan", "answered NaN for row 1"),
    ("/infinite", "answered Infinity for row 1"),
    ("/null", "answered null for row 1"),
    ("/strings", 'answered "0.1" for row 0'),
    ("/labels", 'answered "yes" for row 0'),
    ("/booleans", "answered true for row 0"),
    ("/nested", r"answered \[\[0.1, 0.9\]\] for row 0"),
    ("/ragged", "different lengths"),
    ("/mixed", "different lengths"),
    ("/hollow", r"answered \[\] for row 0"),
    ("/logits", "answered -3.2 for row 0; expected a probability"),
    ("/other-names", r"named other classes for row 1 \(no\)"),
    ("/other-field", "without 'predictions' or 'probabilities'; it has 'result'"),
    ("/error-field", "it has 'error'"),
    ("/number", "answered with 0.3 where a list"),
    ("/hangs", "did not answer within 0.5 seconds; tried 2 times"),
    ("/drips", "did not answer within 0.5 seconds"),
    ("/drops", "could not be reached"),
    ("/always-500", "answered 500 .*tried 2 times"),
    ("/400", "answered 400 Bad Request: .*column height is missing"),
    ("/404", "answered 404 Not Found"),
    ("/moved-away", r"another host \(localhost\), which is not followed"),
    ("/moved-round", "redirects in a circle"),
    ("/token", "answered 401 .*who are you.*set the environment variable"),
]


@pytest.mark.parametrize(("path", "told"), MISBEHAVIOUR, ids=[path for path, _ in MISBEHAVIOUR])
def test_a_server_that_misbehaves_is_told_in_a_sentence(
    path: str, told: str, server: Server
) -> None:
    with pytest.raises(ModelError, match=told) as caught:
        ask(server, f"{path}?view=hidden")(FRAME)
    message = str(caught.value)
    assert f"{server.address}{path}, asked for rows 0 to 2," in message
    assert "hidden" not in message
    assert "\n" not in message


@pytest.mark.parametrize("path", ["/400", "/404", "/token", "/html", "/nan"])
def test_what_will_not_pass_is_not_tried_again(path: str, server: Server) -> None:
    with pytest.raises(ModelError):
        ask(server, path, retries=3)(FRAME)
    assert len(server.seen) == 1


def test_a_later_batch_is_named(server: Server) -> None:
    with pytest.raises(ModelError, match="asked for rows 2 to 3, answered null for row 3"):
        ask(server, "/late", batch=2)(pd.concat([FRAME, FRAME.iloc[:1].assign(age=None)]))


def test_nobody_at_the_address_and_no_such_host(server: Server) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ModelError, match="refused the connection; tried 3 times"):
        Endpoint(f"http://127.0.0.1:{port}/x", retries=2, pause=0.01)(FRAME)
    with pytest.raises(ModelError, match="could not be reached"):
        Endpoint("http://no-such-host.invalid/x", retries=0)(FRAME)


def test_a_certificate_that_nobody_signed_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    files = [str(tmp_path / "key.pem"), str(tmp_path / "cert.pem")]
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-keyout",
            files[0],
            "-out",
            files[1],
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
        ],
        check=True,
        capture_output=True,
    )
    with Server() as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files[1], files[0])
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(
            target=lambda: server.serve_forever(poll_interval=0.02), daemon=True
        )
        thread.start()
        with pytest.raises(ModelError, match="certificate that cannot be trusted"):
            Endpoint(server.address.replace("http", "https") + "/good", timeout=2, retries=3)(FRAME)
        server.shutdown()
        thread.join()
    assert server.seen == []


# -- tokens and settings ---------------------------------------------------------------------------


@pytest.mark.parametrize("header", [None, "X-Api-Key"])
def test_a_token_comes_from_the_environment_and_is_never_shown(
    header: str | None, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN, SECRET)
    np.testing.assert_allclose(ask(server, "/token", header=header)(FRAME), [0.3, 0.4, 0.5])
    monkeypatch.setenv(TOKEN, "wrong-" + SECRET)
    with pytest.raises(ModelError, match=f"The token in {TOKEN} was sent") as caught:
        ask(server, "/token", header=header)(FRAME)
    assert SECRET not in str(caught.value)


def test_a_token_that_cannot_be_sent_is_not_shown(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN, f"{SECRET}\r\nX: y")
    with pytest.raises(SettingError, match="cannot be sent") as caught:
        ask(server, "/good")(FRAME)
    assert SECRET not in str(caught.value)


def test_a_token_never_goes_over_plain_http_to_another_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(TOKEN, SECRET)
    assert Endpoint("http://example.com/x")._token() == {}
    assert "not sent over plain http" in Endpoint("http://example.com/x")._about_token()
    assert Endpoint("https://example.com/x")._token() == {"Authorization": f"Bearer {SECRET}"}
    assert Endpoint("http://localhost:8000/x")._token() == {"Authorization": f"Bearer {SECRET}"}


BAD_SETTINGS: list[tuple[str, dict[str, Any], str]] = [
    ("ftp://host/x", {}, "starts with https://"),
    ("file:///etc/passwd", {}, "starts with https://"),
    ("https://", {}, "starts with https://"),
    ("https://host:99999/x", {}, "cannot be read"),
    ("https://[::1/x", {}, "cannot be read"),
    ("https://anna:pass@host/x", {}, "holds a password"),
    ("https://host/x", {"form": "columns"}, "'records' or 'rows'; got 'columns'"),
    ("https://host/x", {"batch": 0}, "batch must be at least 1"),
    ("https://host/x", {"timeout": 0}, "time-out"),
    ("https://host/x", {"retries": -1}, "retries"),
    ("https://host/x", {"per_second": 0}, "rate"),
    ("https://host/x", {"colour": "red"}, "colour"),
]


@pytest.mark.parametrize(("url", "settings", "told"), BAD_SETTINGS)
def test_settings_that_make_no_sense_are_refused(
    url: str, settings: dict[str, Any], told: str
) -> None:
    with pytest.raises(SettingError, match=told) as caught:
        open_endpoint(url, **settings)
    assert "pass@" not in str(caught.value)


def test_values_that_json_cannot_hold_are_named(server: Server) -> None:
    with pytest.raises(FairprobeError, match="cannot be written as JSON"):
        ask(server, "/good")(pd.DataFrame({"age": [np.inf]}))
    with pytest.raises(FairprobeError, match="type complex has no place in JSON"):
        ask(server, "/good")(pd.DataFrame({"age": [1j]}, dtype=object))
    assert server.seen == []


@pytest.mark.parametrize(
    "query", ["api_key=1", "version=2&subscription-key=abc", "access_token=x", "sig=9", "code="]
)
def test_an_address_with_a_secret_in_it_is_refused_for_it_would_be_written_down(query: str) -> None:
    with pytest.raises(
        SettingError, match=r"looks like a secret.*FAIRPROBE_ENDPOINT_TOKEN"
    ) as caught:
        open_endpoint(f"https://example.org/predict?{query}")
    assert "abc" not in str(caught.value)


def test_an_address_may_have_an_ordinary_query() -> None:
    assert open_endpoint("https://example.org/predict?api-version=2026-01-01").takes == "words"
