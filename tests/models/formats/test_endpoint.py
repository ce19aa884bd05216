"""Models behind an address, against a real server that also fails in every way we know."""

from __future__ import annotations

import datetime
import email.utils
import json
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairprobe.errors import FairprobeError, ModelError, SettingError
from fairprobe.models.formats import http
from fairprobe.models.formats.endpoint import Endpoint, open_endpoint
from fairprobe.models.formats.http import TOKEN, retry_after
from tests.services import Handler, Request, Server, running

FRAME = pd.DataFrame({"age": [30, 40, 50], "sex": ["f", "m", None], "gain": [1.5, np.nan, 0.0]})
ROWS = np.array([[0.1, 1.0], [0.2, np.nan], [0.3, 3.0]], dtype=np.float32)
SECRET = "s3cret-t0ken"

Respond = Callable[["Service", list[Any]], None]


class Service(Handler):
    """Answers by what the path says."""

    def respond(self, request: Request) -> None:
        RESPONSES[request.path.split("?")[0]](self, request.json.get("instances", []))


def says(make: Callable[[list[Any]], Any]) -> Respond:
    return lambda service, rows: service.reply(json.dumps(make(rows)).encode())


def sends(content: bytes, **settings: Any) -> Respond:
    return lambda service, rows: service.reply(content, **settings)


def first_then(first: Respond, then: Respond) -> Respond:
    """Fails once, then recovers."""

    def respond(service: Service, rows: list[Any]) -> None:
        requests = sum(request.path == service.path for request in service.server.seen)
        (first if requests == 1 else then)(service, rows)

    return respond


def hangs(service: Service, rows: list[Any]) -> None:
    time.sleep(1.5)


def drips(service: Service, rows: list[Any]) -> None:
    service.send_response(200)
    service.send_header("Content-Length", "1000")
    service.end_headers()
    for _ in range(30):
        service.wfile.write(b" ")
        service.wfile.flush()
        time.sleep(0.05)


def drops(service: Service, rows: list[Any]) -> None:
    service.connection.shutdown(socket.SHUT_RDWR)
    service.close_connection = True


def redirects(to: str) -> Respond:
    return lambda service, rows: service.reply(b"", code=307, Location=to)


def needs_token(service: Service, rows: list[Any]) -> None:
    if (
        service.headers.get("Authorization") != f"Bearer {SECRET}"
        and service.headers.get("X-Api-Key") != SECRET
    ):
        service.reply(b"who are you?", code=401)
    else:
        good(service, rows)


good = says(
    lambda rows: {
        "predictions": [row["age"] / 100 if isinstance(row, dict) else row[0] for row in rows]
    }
)
late = says(lambda rows: {"predictions": [row["age"] and 0.5 for row in rows]})
PAGE = b"<!DOCTYPE html><html><body>Sign in</body></html>"
RESPONSES: dict[str, Respond] = {
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
    "/once-429": first_then(sends(b"", code=429, Retry_After="30"), good),
    "/once-too-patient": first_then(sends(b"", code=429, Retry_After="86400"), good),
    "/once-dropped": first_then(drops, good),
    "/once-slow": first_then(hangs, good),
    "/once-short": first_then(sends(b'{"predic', Content_Length="100"), good),
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
def shared_server() -> Iterator[Server]:
    server = Server(Service)
    with running(server):
        yield server


@pytest.fixture
def server(shared_server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.delenv(TOKEN, raising=False)
    monkeypatch.setenv("no_proxy", "*")
    shared_server.seen.clear()
    return shared_server


def connect(server: Server, path: str, **settings: Any) -> Endpoint:
    timeout = {"/hangs": 0.5, "/drips": 0.5, "/once-slow": 2.0}.get(path.split("?")[0], 10.0)
    return Endpoint(
        server.address + path, **{"timeout": timeout, "retries": 1, "pause": 0.01, **settings}
    )


# -- good answers ----------------------------------------------------------------------------------


def test_records_hold_the_values_of_the_table_and_gaps_are_null(server: Server) -> None:
    opened = open_endpoint(f"{server.address}/good")
    assert (opened.takes, opened.network, opened.name) == ("words", None, f"{server.address}/good")
    np.testing.assert_allclose(opened.predict(FRAME), [0.3, 0.4, 0.5])
    assert server.seen[0].json == {
        "instances": [
            {"age": 30, "sex": "f", "gain": 1.5},
            {"age": 40, "sex": "m", "gain": None},
            {"age": 50, "sex": None, "gain": 0.0},
        ]
    }


def test_values_of_every_type_become_json(server: Server) -> None:
    frame = pd.DataFrame(
        {
            "age": [np.float32(30)],
            "flag": [True],
            "day": [pd.Timestamp("2024-05-01")],
            "kind": pd.Categorical(["x"]),
            "n": [np.int64(3)],
        }
    )
    connect(server, "/good")(frame)
    assert server.seen[0].json["instances"] == [
        {"age": 30.0, "flag": True, "day": "2024-05-01T00:00:00", "kind": "x", "n": 3}
    ]


def test_rows_are_lists_of_numbers(server: Server) -> None:
    opened = open_endpoint(f"{server.address}/good", form="rows")
    assert opened.takes == "numbers"
    np.testing.assert_allclose(opened.predict(ROWS), [0.1, 0.2, 0.3], rtol=1e-6)
    assert server.seen[0].json["instances"][1][1] is None


def test_many_rows_go_in_batches_and_come_back_in_order(server: Server) -> None:
    rows = np.linspace(0, 1, 1030, dtype=np.float32)[:, None]
    np.testing.assert_allclose(
        connect(server, "/good", form="rows", batch=200)(rows), rows[:, 0], atol=1e-6
    )
    assert [len(request.json["instances"]) for request in server.seen] == [200] * 5 + [30]


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
    np.testing.assert_allclose(connect(server, path)(FRAME), [expected] * 3)


def test_class_names_are_kept_and_an_empty_table_needs_no_request(server: Server) -> None:
    endpoint = connect(server, "/named")
    endpoint(FRAME)
    assert endpoint.classes == ("no", "yes")
    assert endpoint(FRAME.iloc[:0]).shape == (0, 2)
    assert len(server.seen) == 1


def test_the_fields_may_have_other_names(server: Server) -> None:
    # the server of these tests only knows "instances"
    with pytest.raises(ModelError, match="0 predictions to 3 rows"):
        connect(server, "/scores", rows_field="inputs", answer_field="scores")(FRAME)
    assert list(server.seen[0].json) == ["inputs"]
    np.testing.assert_allclose(
        connect(server, "/scores", answer_field="scores")(FRAME), [[0.2, 0.8]] * 3
    )


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that an endpoint makes, which take no time."""
    pauses: list[float] = []
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=pauses.append)
    monkeypatch.setattr(http, "time", clock)
    return pauses


@pytest.mark.parametrize(
    ("path", "requested"),
    [
        ("/once-500", 0.0),
        ("/once-503", 0.2),
        ("/once-429", 30.0),
        ("/once-too-patient", 60.0),
        ("/once-dropped", 0.0),
        ("/once-slow", 0.0),
        ("/once-short", 0.0),
    ],
)
def test_failures_that_may_pass_are_retried_after_the_requested_pause(
    path: str, requested: float, server: Server, slept: list[float]
) -> None:
    np.testing.assert_allclose(connect(server, path)(FRAME), [0.3, 0.4, 0.5])
    assert len(server.seen) == 2
    (pause,) = [pause for pause in slept if pause > 0]
    assert pause == requested or requested < pause < 0.05


def test_pauses_grow_until_the_retries_are_used_up(server: Server, slept: list[float]) -> None:
    with pytest.raises(ModelError, match="tried 5 times"):
        connect(server, "/always-500", retries=4, pause=1.0)(FRAME)
    pauses = [pause for pause in slept if pause > 0]
    assert [int(np.log2(pause)) for pause in pauses] == [0, 1, 2, 3]


def test_a_server_may_request_a_pause_in_seconds_or_until_a_date() -> None:
    now = datetime.datetime.now(datetime.UTC)
    in_an_hour = email.utils.format_datetime(now + datetime.timedelta(hours=1), usegmt=True)
    assert retry_after("2.5") == 2.5
    assert 3000 < retry_after(in_an_hour) <= 3600
    assert retry_after(email.utils.format_datetime(now - datetime.timedelta(hours=1))) == 0
    assert retry_after(None) == retry_after("soon") == retry_after("-3") == 0


def test_requests_stay_below_the_rate_limit(server: Server, slept: list[float]) -> None:
    connect(server, "/good", batch=1, per_second=0.001)(FRAME)
    assert slept[0] == 0
    assert 900 < slept[1] <= 1000
    assert 1900 < slept[2] <= 2000


def test_a_redirection_on_the_same_server_keeps_the_rows(server: Server) -> None:
    np.testing.assert_allclose(connect(server, "/moved")(FRAME), [0.3, 0.4, 0.5])


# -- failures --------------------------------------------------------------------------------------

FAILURES: list[tuple[str, str]] = [
    ("/html", "answered with a web page .*Sign in"),
    ("/empty", "answered with nothing"),
    ("/no-json", "invalid or truncated JSON"),
    ("/short-json", "invalid or truncated JSON"),
    ("/deep-json", "invalid or truncated JSON"),
    ("/binary", "invalid or truncated JSON"),
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
    ("/number", "answered with 0.3; expected a list"),
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


@pytest.mark.parametrize(("path", "message"), FAILURES, ids=[path for path, _ in FAILURES])
def test_every_failure_is_reported_in_one_sentence(path: str, message: str, server: Server) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        connect(server, f"{path}?view=hidden")(FRAME)
    text = str(caught.value)
    assert f"{server.address}{path} (rows 0 to 2) " in text
    assert "hidden" not in text
    assert "\n" not in text


@pytest.mark.parametrize("path", ["/400", "/404", "/token", "/html", "/nan"])
def test_failures_that_will_not_pass_are_not_retried(path: str, server: Server) -> None:
    with pytest.raises(ModelError):
        connect(server, path, retries=3)(FRAME)
    assert len(server.seen) == 1


def test_an_error_in_a_later_batch_names_its_rows(server: Server) -> None:
    with pytest.raises(ModelError, match=r"\(rows 2 to 3\) answered null for row 3"):
        connect(server, "/late", batch=2)(pd.concat([FRAME, FRAME.iloc[:1].assign(age=None)]))


def test_an_address_without_a_server_is_reported(server: Server) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ModelError, match="refused the connection; tried 3 times"):
        Endpoint(f"http://127.0.0.1:{port}/x", retries=2, pause=0.01)(FRAME)
    with pytest.raises(ModelError, match="could not be reached"):
        Endpoint("http://no-such-host.invalid/x", retries=0)(FRAME)


def test_a_self_signed_certificate_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    options = "-x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout key.pem"
    subprocess.run(
        ["openssl", "req", *options.split(), "-out", certificate.name],
        check=True,
        capture_output=True,
        cwd=tmp_path,
    )
    server = Server(Service)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with (
        running(server),
        pytest.raises(ModelError, match="certificate that cannot be trusted"),
    ):
        Endpoint(server.address.replace("http", "https") + "/good", retries=3)(FRAME)
    assert server.seen == []


# -- tokens and settings ---------------------------------------------------------------------------


@pytest.mark.parametrize("header", [None, "X-Api-Key"])
def test_a_token_comes_from_the_environment_and_is_never_shown(
    header: str | None, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN, SECRET)
    np.testing.assert_allclose(connect(server, "/token", header=header)(FRAME), [0.3, 0.4, 0.5])
    monkeypatch.setenv(TOKEN, "wrong-" + SECRET)
    with pytest.raises(ModelError, match=f"The token in {TOKEN} was sent") as caught:
        connect(server, "/token", header=header)(FRAME)
    assert SECRET not in str(caught.value)


def test_a_token_that_cannot_be_sent_is_not_shown(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN, f"{SECRET}\r\nX: y")
    with pytest.raises(SettingError, match="cannot be sent") as caught:
        connect(server, "/good")(FRAME)
    assert SECRET not in str(caught.value)


def test_a_token_never_goes_over_plain_http_to_another_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(TOKEN, SECRET)
    assert http.Service("http://example.com/x")._token() == {}
    assert "not sent over plain http" in http.Service("http://example.com/x")._about_token()
    assert http.Service("https://example.com/x")._token() == {"Authorization": f"Bearer {SECRET}"}
    assert http.Service("http://localhost:8000/x")._token() == {"Authorization": f"Bearer {SECRET}"}


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


@pytest.mark.parametrize(("url", "settings", "message"), BAD_SETTINGS)
def test_invalid_settings_are_refused(url: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message) as caught:
        open_endpoint(url, **settings)
    assert "pass@" not in str(caught.value)


def test_values_that_json_cannot_hold_are_refused(server: Server) -> None:
    with pytest.raises(FairprobeError, match="Cannot write rows 0 to 0 as JSON"):
        connect(server, "/good")(pd.DataFrame({"age": [np.inf]}))
    with pytest.raises(FairprobeError, match="type complex cannot be written"):
        connect(server, "/good")(pd.DataFrame({"age": [1j]}, dtype=object))
    assert server.seen == []


@pytest.mark.parametrize(
    "query", ["api_key=1", "version=2&subscription-key=abc", "access_token=x", "sig=9", "code="]
)
def test_an_address_with_a_secret_is_refused_because_runs_record_it(query: str) -> None:
    with pytest.raises(
        SettingError, match=r"looks like a secret.*FAIRPROBE_ENDPOINT_TOKEN"
    ) as caught:
        open_endpoint(f"https://example.org/predict?{query}")
    assert "abc" not in str(caught.value)


def test_an_address_may_have_a_harmless_query() -> None:
    assert open_endpoint("https://example.org/predict?api-version=2026-01-01").takes == "words"


# -- servers that mean no good ---------------------------------------------------------------------


def trickles_headers(service: Service, rows: list[Any]) -> None:
    """A byte of the headers now and then, each within the time-out."""
    service.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    for _ in range(100):
        service.wfile.write(b"x")
        service.wfile.flush()
        time.sleep(0.1)


def sends_huge_headers(service: Service, rows: list[Any]) -> None:
    service.wfile.write(b"HTTP/1.1 200 OK\r\n")
    for number in range(2_000):
        service.wfile.write(f"X-{number}: {'y' * 1_000}\r\n".encode())
    service.wfile.write(b"Content-Length: 0\r\n\r\n")


def redirects_without_end(service: Service, rows: list[Any]) -> None:
    time.sleep(0.3)
    service.reply(b"", code=307, Location="/slowly-round")


RESPONSES["/trickles"] = trickles_headers
RESPONSES["/huge-headers"] = sends_huge_headers
RESPONSES["/slowly-round"] = redirects_without_end
RESPONSES["/bad-location"] = redirects("http://[::1")
RESPONSES["/odd-location"] = redirects("http://localhost:99999999/")
RESPONSES["/odd-names"] = says(lambda rows: {"predictions": [{"²": 0.7, "1": 0.3} for _ in rows]})


@pytest.mark.parametrize("path", ["/trickles", "/drips", "/slowly-round"])
def test_one_deadline_holds_for_a_whole_request_however_slowly_a_server_answers(
    server: Server, path: str
) -> None:
    endpoint = connect(server, path, timeout=0.5, retries=0)
    start = time.monotonic()
    with pytest.raises(ModelError, match=r"did not answer within 0\.5 seconds"):
        endpoint(FRAME)
    assert time.monotonic() - start < 3
    assert len(connect(server, "/good")(FRAME)) == 3


@pytest.mark.parametrize("path", ["/bad-location", "/odd-location", "/huge-headers"])
def test_invalid_redirections_and_headers_are_reported_in_a_sentence(
    server: Server, path: str
) -> None:
    with pytest.raises(ModelError) as caught:
        connect(server, path, retries=0)(FRAME)
    assert "\n" not in str(caught.value)
    assert "Error" not in str(caught.value)
    if "location" in path:
        assert "redirects to" in str(caught.value)


def test_class_names_may_be_digits_that_are_no_numbers(server: Server) -> None:
    endpoint = connect(server, "/odd-names")
    assert endpoint(FRAME).shape == (3, 2)
    assert endpoint.classes == ("1", "²")
