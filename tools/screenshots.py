"""Pictures for the documentation: five pages of the dashboard, light and dark, and the report on
scenes.

    python tools/screenshots.py RUNS        # a folder with adult-gender, german-gender,
                                            # german-gender-repaired and streets (scenes demo)

It starts `fairprobe serve` on the folder, opens the pages in Chromium (`CHROMIUM`, or the one that
is installed), and writes `docs/images/dashboard/*.png` and `docs/images/scenes.png` with few
colors, so that they stay small.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

OUT = Path(__file__).parent.parent / "docs" / "images" / "dashboard"
SIZE = {"width": 1280, "height": 860}
COLORS = 200
PAGES = {
    "runs": "/",
    "findings": "/findings/adult-gender?sort=gap&plausibility=20",
    "what-if": "/what-if/adult-gender?row=1",
    "compare": "/compare?run=german-gender&run=german-gender-repaired",
    "pictures": "/pictures/streets?verdict=others+lost",
}


REPORT = OUT.parent / "scenes.png"
TALL = {"width": 1200, "height": 2960}


@contextmanager
def served(runs: Path) -> Iterator[str]:
    """The address of a server of these runs."""
    words = ["serve", str(runs), "--state", str(runs.parent / "screenshots-state"), "--port", "0"]
    process = subprocess.Popen(  # noqa: S603  (our own program)
        [sys.executable, "-m", "fairprobe", *words], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    try:
        found = re.search(r"http\S+", process.stdout.readline())
        assert found
        yield found[0]
    finally:
        process.terminate()
        process.wait()


def shot(page: Page, path: Path) -> None:
    """A picture of what is on the screen, with few colors."""
    page.wait_for_load_state("networkidle")
    image = Image.open(BytesIO(page.screenshot())).convert("RGB")
    few = image.quantize(COLORS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


def report_shot(browser: Browser, run: Path) -> None:
    """The upper part of a run's report."""
    page = browser.new_page(viewport=TALL, device_scale_factor=0.64)  # type: ignore[arg-type]
    page.goto((run / "report.html").resolve().as_uri())
    shot(page, REPORT)


def main() -> None:
    """Take all pictures."""
    OUT.mkdir(parents=True, exist_ok=True)
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    schemes: Any = ("light", "dark")
    with served(Path(sys.argv[1])) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for scheme in schemes:
            page = browser.new_page(viewport=SIZE, color_scheme=scheme)  # type: ignore[arg-type]
            page.goto(address)
            for name, path in PAGES.items():
                page.goto(address.partition("/?")[0] + path)
                shot(page, OUT / f"{name}-{scheme}.png")
        report_shot(browser, Path(sys.argv[1]) / "streets")
        browser.close()
    total = sum(path.stat().st_size for path in OUT.glob("*.png"))
    sys.stdout.write(f"{len(list(OUT.glob('*.png')))} pictures, {total / 1000:,.0f} kB\n")


if __name__ == "__main__":
    main()
