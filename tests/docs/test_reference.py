"""The reference is generated from the package; `test_site` builds the whole site."""

from __future__ import annotations

import re

import pytest

import fairprobe
from docs import hooks
from tests.docs.pages import names, read


@pytest.mark.parametrize("part", sorted(hooks.GENERATED))
def test_every_generated_part_is_used_and_has_content(part: str) -> None:
    assert any(f"<!-- generated: {part} -->" in read(page) for page in names())
    assert len(hooks.GENERATED[part]().splitlines()) > 3


def test_every_placeholder_is_known() -> None:
    for page in names():
        found = re.findall("<!-- generated: (.*?) -->", read(page))
        assert set(found) <= set(hooks.GENERATED), page


def test_every_public_name_is_in_the_api_reference() -> None:
    pages = {name: hooks.api_page(name, room) for name, room in hooks.public_modules().items()}
    for name in set(fairprobe.__all__) - {"__version__"}:
        assert f"fairprobe.{name}" in pages or f"fairprobe.{name}" in pages["fairprobe"], name
    for name, room in hooks.public_modules().items():
        assert all(each in pages[name] for each in hooks.exported(room) if name != "fairprobe")


def test_the_command_line_reference_has_every_command_and_option() -> None:
    text = hooks.command_line()
    assert "## fairprobe audit\n" in text
    assert "`--sensitive`" in text
    assert "### fairprobe data groups" in text
