"""Reading texts: tables, JSON lines, plain lines, templates."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from fairprobe.errors import DataError, FairprobeError
from fairprobe.language.lexicon import open_lexicon
from fairprobe.language.texts import Text, expand, open_texts, read_slots


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", "id,comment\n1,one\n2,\n3,two\n"),
        ("t.tsv", "id\tcomment\n1\tone\n3\ttwo\n"),
        ("t.jsonl", '{"id": 1, "comment": "one"}\n\n{"id": 3, "comment": "two"}\n'),
        ("t.txt", "one\n\ntwo\n"),
    ],
)
def test_all_kinds_of_files_give_the_same_texts(tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    assert [each.text for each in open_texts(path)] == ["one", "two"]
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(content.encode()))
    assert [each.text for each in open_texts(packed)] == ["one", "two"]


def test_clusters_are_a_column(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("comment,t\none,a\ntwo,b\n")
    found = open_texts(path, column="comment", cluster="t")
    assert found == [Text("one", 0, "a"), Text("two", 1, "b")]


@pytest.mark.parametrize(
    ("name", "content", "column", "message"),
    [
        ("t.csv", "a,b\n1,2\n", None, "name the one that contains the texts"),
        ("t.csv", "a,b\n1,2\n", "c", "no column 'c'"),
        ("t.csv", "", None, "is empty"),
        ("t.jsonl", "{\n", None, "line 1 is not JSON"),
        ("t.jsonl", "[1]\n", None, "neither a text nor an object"),
        ("t.txt", "\n\n", None, "contains no text"),
        ("t.txt", "x\n", "c", "plain lines"),
    ],
)
def test_a_wrong_file_is_one_sentence(
    tmp_path: Path, name: str, content: str, column: str | None, message: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(FairprobeError, match=message):
        open_texts(tmp_path / name, column=column)


def test_a_file_that_is_not_there_or_not_text_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no file"):
        open_texts(tmp_path / "t.csv")
    (tmp_path / "t.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="Expected UTF-8"):
        open_texts(tmp_path / "t.txt")


def test_a_template_becomes_a_text_for_each_group_and_word(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text('job = ["nurse", "clerk"]')
    slots = read_slots(tmp_path / "s.toml")
    lexicon, rng = open_lexicon("orientation"), np.random.default_rng(0)
    found = expand([Text("A {adjective} {job}.", 3), Text("plain", 4)], lexicon, slots, rng)
    assert len(found) == 4 * 2 + 1
    assert {each.cluster for each in found} == {"A {adjective} {job}.", ""}
    assert all("{" not in each.text for each in found)
    assert expand([Text("{He} came.", 0)], open_lexicon("gender"), {}, rng)[0].text == "He came."
    with pytest.raises(DataError, match=r"no words for the slot \{color\}"):
        expand([Text("A {color} car", 0)], lexicon, {}, rng)
