"""The site is built without a warning, and loads nothing from another host."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

pytestmark = pytest.mark.slow

LOADED = {
    "audio": "src",
    "embed": "src",
    "iframe": "src",
    "img": "src",
    "image": "href",
    "link": "href",
    "object": "data",
    "script": "src",
    "source": "src",
    "use": "href",
    "video": "src",
}
ELSEWHERE = re.compile(r"^\s*(?:https?:)?//", re.IGNORECASE)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return folder


class Loads(HTMLParser):
    """Collects what a page makes a browser load."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.policy = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "meta" and given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"] or ""
        if tag == "link" and given.get("rel") in ("canonical", "next", "prev"):
            return
        for name in {LOADED.get(tag, ""), "srcset", "xlink:href", "style"} & set(given):
            self.addresses += re.split(r"[\s,]+|url\(", given[name] or "")


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 50
    for page in pages:
        found = Loads()
        found.feed(page.read_text(encoding="utf-8"))
        assert not [each for each in found.addresses if ELSEWHERE.match(each)], page
        assert found.policy.startswith("default-src 'self'"), page  # the browser refuses it, too


def test_no_stylesheet_loads_anything_from_another_host(site: Path) -> None:
    sheets = sorted(site.rglob("*.css"))
    assert sheets
    for sheet in sheets:
        text = sheet.read_text(encoding="utf-8")
        used = re.findall(r"""(?:url\(|@import)\s*["']?([^"')]+)""", text)
        assert not [each for each in used if ELSEWHERE.match(each)], sheet


def test_no_page_uses_a_feature_for_which_the_theme_loads_a_script(site: Path) -> None:
    for page in site.rglob("*.html"):  # diagrams, and facts about a repository
        text = page.read_text(encoding="utf-8")
        assert 'class="mermaid"' not in text, page
        assert 'data-md-component="source"' not in text, page


def test_every_public_name_and_every_command_is_in_the_reference(site: Path) -> None:
    import typer

    import fairprobe
    from fairprobe.cli import app

    reference = "".join(
        page.read_text(encoding="utf-8") for page in (site / "reference").rglob("*.html")
    )
    for name in set(fairprobe.__all__) - {"__version__"}:
        assert f'id="fairprobe.{name}"' in reference or f"fairprobe.{name}.html" in reference, name
    for name in typer.main.get_command(app).commands:  # type: ignore[attr-defined]
        assert f'id="fairprobe-{name}"' in reference, name
    assert "<!-- generated:" not in reference
