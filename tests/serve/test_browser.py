"""The dashboard in a real Chromium, over a real server that runs real audits."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fairprobe.runs.store import read_table_run

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or ""
TOKEN = "a-token-for-the-browser"
AXE = Path(__file__).parent / "axe" / "axe.min.js"
PATIENCE = 120_000  # milliseconds for an audit on a busy machine

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not CHROMIUM, reason="no browser is installed: apt-get install chromium, or set CHROMIUM"
    ),
]

PAGES = [
    "/",
    "/run/credit",
    "/run/faces",
    "/findings/credit",
    "/findings/credit?sort=gap&gap=1",
    "/pair/credit?row=0",
    "/what-if/credit",
    "/compare?run=credit&run=repaired",
    "/compare?run=faces&run=below/street",
    "/start",
    "/start?data=german",
    "/repair/credit",
    "/jobs",
    "/run/nothing",
]


@dataclass
class Server:
    """A server in a process of its own."""

    runs: Path
    state: Path
    port: int = 0
    process: subprocess.Popen[str] | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, on the same port as before, and wait until it says where it is."""
        words = ["serve", str(self.runs), "--state", str(self.state), "--port", str(self.port), "--jobs", "1"]  # noqa: E501  # fmt: skip
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fairprobe", *words],
            env={**os.environ, "FAIRPROBE_SERVE_TOKEN": TOKEN, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout
        line = self.process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/\?token=", line)
        assert found, line
        self.port = int(found[1])

    def end(self, how: signal.Signals = signal.SIGINT) -> int:
        assert self.process
        self.process.send_signal(how)
        code = self.process.wait(30)
        if self.process.stdout:
            self.process.stdout.close()
        return code


@pytest.fixture(scope="module")
def served(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    place = tmp_path_factory.mktemp("browser")
    server = Server(Path(shutil.copytree(made, place / "runs")), place / "state")
    server.start()
    yield server
    assert server.end() == 0


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@contextmanager
def page_of(browser: Any, server: Server, **options: Any) -> Iterator[Any]:
    """A page of somebody who opened the address; nothing may go wrong on it unnoticed."""
    options.setdefault("viewport", {"width": 1280, "height": 900})
    context = browser.new_context(**options)
    page, wrong = context.new_page(), []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on(
        "console", lambda message: wrong.append(message.text) if message.type == "error" else None
    )
    page.goto(f"{server.address}/?token={TOKEN}")
    yield page
    context.close()
    expected = re.compile(
        "status of 404|status of 400|ERR_CONNECTION|ERR_SOCKET|ERR_INCOMPLETE|ERR_EMPTY"
    )
    assert [text for text in wrong if not expected.search(text)] == []


@pytest.fixture
def page(browser: Any, served: Server) -> Iterator[Any]:
    with page_of(browser, served) as page:
        yield page


def start_audit(page: Any, server: Server, name: str, *, data: str = "german", **more: str) -> None:
    """Fill in the form as people do."""
    page.goto(f"{server.address}/start")
    page.get_by_role("link", name={"german": "German Credit", "adult": "Adult"}[data]).click()
    page.get_by_label("Name of the run").fill(name)
    page.get_by_text("More settings").click()
    for label, value in more.items():
        page.get_by_label(label.replace("_", " ")).fill(value)
    page.get_by_role("button", name="Start the audit").click()
    page.wait_for_url("**/jobs/*")


SMALL = {"Rows_to_search_from": "30", "Possible_people_to_draw": "500"}


def test_an_audit_is_started_watched_and_its_people_are_looked_at(
    page: Any, served: Server
) -> None:
    start_audit(page, served, "first", **SMALL)
    page.get_by_text("Running", exact=True).wait_for(timeout=PATIENCE)
    page.get_by_text("Done", exact=True).wait_for(timeout=PATIENCE)  # without a reload
    assert "Report:" in page.locator(".log").inner_text()
    page.get_by_role("link", name="Open the run").click()
    page.get_by_role("heading", name="Who is affected", exact=True).wait_for()
    page.get_by_role("link", name="Findings").click()
    idis = read_table_run(served.runs / "first").generation.idis
    assert f"{idis:,} findings" in page.locator("#list").inner_text()
    page.get_by_label("Order").select_option("gap")
    page.wait_for_url("**sort=gap**")
    page.locator(".histogram").first.wait_for()
    page.locator(".found tbody a").first.click()
    page.get_by_role("link", name="What if they were different?").click()
    before = page.locator(".decided").inner_text()
    page.get_by_label("duration-months").fill("71")
    page.get_by_text("Changed: duration-months").wait_for()
    assert page.locator(".decided").inner_text() != before
    page.get_by_text("changes were tried").or_(page.get_by_text("No change of one")).wait_for()
    assert page.get_by_role("img").count() == 2  # to the change, and to another gender
    assert "a1=71" in page.url  # the person can be shared and reloaded
    page.reload()
    assert page.get_by_label("duration-months").input_value() == "71"


def test_two_runs_are_compared_with_the_keyboard_alone(page: Any) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    button = page.get_by_role("button", name="Compare two runs")
    assert button.is_disabled()
    for name in ("credit", "repaired"):
        page.get_by_label(f"Compare {name}").focus()
        page.keyboard.press("Space")
    assert button.is_enabled()
    button.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/compare?run=*")
    assert page.get_by_role("heading", level=1).inner_text().count("and") == 1


def test_a_search_is_live_and_the_address_keeps_it(page: Any) -> None:
    page.get_by_label("Search").press_sequentially("street")
    page.wait_for_url("**words=street**")
    assert page.locator("tbody tr").count() == 1
    page.reload()
    assert page.get_by_label("Search").input_value() == "street"
    page.go_back()


def test_a_job_is_cancelled(page: Any, served: Server) -> None:
    start_audit(page, served, "cancelled", data="adult", Rows_to_search_from="100000")
    page.locator(".stage", has_text="Training the network").wait_for(timeout=PATIENCE)
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("Cancelled", exact=True).wait_for(timeout=PATIENCE)
    page.goto(f"{served.address}/jobs")
    assert "Cancelled" in page.locator("tbody tr").first.inner_text()


def test_a_killed_server_loses_nothing(browser: Any, made: Path, tmp_path: Path) -> None:
    """kill -9 during a job, with another waiting: the job goes on, both end, and the page that was
    open goes on showing it after the restart.
    """
    server = Server(Path(shutil.copytree(made, tmp_path / "runs")), tmp_path / "state")
    server.start()
    with page_of(browser, server) as page:
        start_audit(page, server, "survivor", **SMALL)
        job = page.url
        page.get_by_text("Running", exact=True).wait_for(timeout=PATIENCE)
        start_audit(page, server, "waiting", **SMALL)
        page.get_by_text("Waiting", exact=True).wait_for(timeout=PATIENCE)
        page.goto(job)
        server.end(signal.SIGKILL)
        time.sleep(1)
        server.start()
        page.get_by_text("Done", exact=True).wait_for(timeout=PATIENCE)  # it asks again by itself
        page.goto(f"{server.address}/jobs")
        page.locator("tr", has_text="waiting").get_by_text("Done").or_(
            page.locator("tr", has_text="waiting").get_by_text("Running")
        ).first.wait_for(timeout=PATIENCE)
        page.locator("tbody tr").first.get_by_role("link").first.click()
        page.get_by_text("Done", exact=True).wait_for(timeout=PATIENCE)
    assert server.end() == 0
    for name in ("survivor", "waiting"):
        assert read_table_run(server.runs / name).generation.stopped == "complete"


# -- for everybody ---------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_on_any_page(browser: Any, served: Server, scheme: str) -> None:
    found = {}
    with page_of(browser, served, color_scheme=scheme) as page:
        for path in PAGES:
            page.goto(served.address + path)
            page.wait_for_load_state("networkidle")
            page.evaluate(AXE.read_text(encoding="utf-8"))
            result = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
            found[path] = [
                (each["id"], each["impact"], each["nodes"][0]["html"][:200])
                for each in result["violations"]
                if each["impact"] in ("serious", "critical")
            ]
    assert {path: each for path, each in found.items() if each} == {}


SHIFTS = """
window.shifted = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifted += entry.value;
}).observe({type: "layout-shift", buffered: true});
"""


@pytest.mark.parametrize("width", [360, 1000, 2000])
def test_every_page_fits_keeps_still_and_is_small(browser: Any, served: Server, width: int) -> None:
    with page_of(browser, served, viewport={"width": width, "height": 800}) as page:
        page.add_init_script(SHIFTS)
        for path in PAGES:
            page.goto(served.address + path)
            page.wait_for_load_state("networkidle")
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, (path, wide)
            assert page.evaluate("window.shifted") < 0.1, path
            size = page.evaluate("document.documentElement.outerHTML.length")
            assert size < 200_000, (path, size)  # with the parts that it loads after itself
