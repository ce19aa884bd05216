"""Hostile requests: nothing is answered without the token, to another name, from another site, or
beyond a size; and every answer forbids what it can.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from fairprobe.serve.app import ROUTES
from tests.serve.conftest import ADDRESS, TOKEN

PAGES = [
    "/",
    "/run/credit",
    "/report/credit",
    "/findings/credit",
    "/histograms/credit",
    "/pair/credit?row=0",
    "/what-if/credit",
    "/flip/credit",
    "/compare?run=credit&run=repaired",
    "/report/faces",
    "/start",
    "/start?data=german",
    "/repair/credit",
    "/jobs",
    "/export/credit?file=report.html",
    "/csv/credit",
    "/static/app.css",
    "/static/serve.js",
    "/static/htmx.min.js",
]


@pytest.mark.parametrize("path", [route.path for route in ROUTES] + PAGES)
def test_nothing_is_answered_without_the_token(stranger: TestClient, path: str) -> None:
    for method in ("GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS"):
        answer = stranger.request(method, path, headers={"origin": ADDRESS})
        assert answer.status_code == 401, method
        assert "fairprobe serve" in answer.text or method == "HEAD"


@pytest.mark.parametrize(
    "given",
    [
        {"params": {"token": "wrong"}},
        {"params": {"token": ""}},
        {"params": {"token": TOKEN[:-1]}},
        {"headers": {"authorization": "Bearer wrong"}},
        {"headers": {"authorization": TOKEN}},
        {"headers": {"cookie": f"fairprobe-8742={TOKEN}x"}},
        {"headers": {"cookie": f"fairprobe-1={TOKEN}"}},
        {"headers": {"cookie": "fairprobe-8742=\u00e9"}},
    ],
)
def test_a_wrong_token_is_none(stranger: TestClient, given: dict[str, dict[str, str]]) -> None:
    headers = {name: value.encode("utf-8") for name, value in given.get("headers", {}).items()}
    answer = stranger.get("/", params=given.get("params"), headers=headers)  # type: ignore[arg-type]
    assert answer.status_code == 401


def test_the_token_leaves_the_address_for_a_cookie_that_scripts_cannot_read(
    stranger: TestClient,
) -> None:
    answer = stranger.get(f"/?token={TOKEN}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert stranger.get("/").status_code == 200


def test_the_token_in_the_address_opens_the_first_page_only(stranger: TestClient) -> None:
    assert stranger.get(f"/jobs?token={TOKEN}").status_code == 401


def test_a_bearer_token_is_as_good_as_the_cookie(stranger: TestClient) -> None:
    headers = {"authorization": f"Bearer {TOKEN}"}
    assert stranger.get("/jobs", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8742",
        "127.0.0.1",
        "127.0.0.1:80",
        "localhost.evil.example:8742",
        "127.0.0.1:8742.evil.example",
        "[::1]:8742",
        "",
        "0.0.0.0:8742",
    ],
)
def test_another_host_is_refused_with_the_right_token(client: TestClient, host: str) -> None:
    """A name server of somebody else may point any name to this machine (DNS rebinding)."""
    assert client.get("/", headers={"host": host}).status_code == 403
    assert client.get(f"/?token={TOKEN}", headers={"host": host}).status_code == 403


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "http://127.0.0.1:9999",
        "http://localhost",
        "null",
        "https://127.0.0.1:8742",
        "http://127.0.0.1:8742.evil.example",
    ],
)
@pytest.mark.parametrize("path", ["/start", "/jobs/x/cancel", "/upload", "/repair/credit"])
def test_a_page_of_another_site_can_post_nothing(
    client: TestClient, path: str, origin: str
) -> None:
    assert client.post(path, headers={"origin": origin}).status_code == 403


def test_what_changes_something_must_name_its_origin(client: TestClient) -> None:
    del client.headers["origin"]
    assert client.post("/start", data={"data": "german"}).status_code == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_of_another_site_can_embed_nothing(client: TestClient, site: str) -> None:
    headers = {"sec-fetch-site": site}
    assert client.get("/report/faces", headers=headers).status_code == 403


@pytest.mark.parametrize("path", PAGES)
def test_every_answer_forbids_scripts_frames_and_strangers(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    policy = answer.headers["content-security-policy"]
    scripts = re.findall(r"script-src([^;]*)", policy)
    assert scripts == [" 'self'"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "http:" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"


@pytest.mark.parametrize("path", [path for path in PAGES if "static" not in path])
def test_no_page_has_a_script_or_a_handler_of_its_own(client: TestClient, path: str) -> None:
    answer = client.get(path)
    if not answer.headers["content-type"].startswith("text/html"):
        return
    for script in re.findall(r"<script[^>]*>[^<]*", answer.text):
        assert re.fullmatch(r'<script src="/static/[\w.]+\?v=\w+" defer>', script)
    assert not re.search(r"<[^>]*\son\w+=", answer.text)
    assert "javascript:" not in answer.text
    assert "<style" not in answer.text or path.startswith("/export")
    assert len(answer.content) < 200_000 or path.startswith("/export")


def test_a_request_that_says_it_is_too_large_is_not_read(client: TestClient) -> None:
    answer = client.post("/start", content=b"x" * 300_000)
    assert answer.status_code == 413


def test_a_request_that_hides_its_size_is_cut_off(client: TestClient) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(40):
            yield b"sensitive=a&" * 1000

    kind = {"content-type": "application/x-www-form-urlencoded"}
    answer = client.post("/start", content=endless(), headers=kind)
    assert answer.status_code in (400, 413)


@pytest.mark.parametrize("length", ["-1", "1e9", "²", "0x10"])
def test_a_length_that_is_no_number_is_refused(client: TestClient, length: str) -> None:
    headers = {"content-length": length.encode("utf-8")}
    answer = client.post("/start", content=b"", headers=headers)  # type: ignore[arg-type]
    assert answer.status_code == 413


def test_a_socket_is_refused(client: TestClient) -> None:
    with pytest.raises(WebSocketDisconnect) as refused, client.websocket_connect("/jobs"):
        pass
    assert refused.value.code == 1008
