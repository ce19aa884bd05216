"""The size of the house: no room grows above its number in house.toml."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "fairprobe"
HOUSE = tomllib.loads((ROOT / "house.toml").read_text(encoding="utf-8"))
NOUNS = re.compile(r"(The|A|An|What|How|One|Whether|Which|Of|That)\b")
RAISE = "make it smaller; or raise the number in house.toml, and say in CHANGELOG.md what for"


def lines(folder: Path) -> Counter[str]:
    """The lines of Python in each room of a folder."""
    rooms: Counter[str] = Counter()
    for path in folder.rglob("*.py"):
        first, *below = path.relative_to(folder).parts
        rooms[first if below else "top level"] += path.read_text(encoding="utf-8").count("\n")
    return rooms


def docstrings(folder: Path) -> list[str]:
    """What each function of a folder says of itself."""
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    nodes = (
        node
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, functions)
    )
    return [text for node in nodes if (text := ast.get_docstring(node))]


@pytest.mark.parametrize(("room", "size"), lines(SOURCE).items())
def test_no_room_grows(room: str, size: int) -> None:
    assert room in HOUSE["rooms"], f"give the room {room} a number in house.toml"
    assert size <= HOUSE["rooms"][room], f"{room} has {size:,} lines: {RAISE}"


def test_the_house_does_not_grow() -> None:
    sizes = {
        "source": lines(SOURCE).total(),
        "files": len(list(SOURCE.rglob("*.py"))),
        "tests": lines(ROOT / "tests").total(),
        "papers": lines(ROOT / "papers").total(),
        "plain_docstrings": sum(bool(NOUNS.match(text)) for text in docstrings(SOURCE)),
    }
    over = {name: size for name, size in sizes.items() if size > HOUSE[name]}
    assert not over, RAISE
