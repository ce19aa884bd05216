"""Careful readers of booster files. The libraries' own readers follow lengths and numbers unchecked
and crash on a damaged file.

`from_ubjson` turns a .ubj file into plain objects, for XGBoost's robust JSON reader.
`checked_lightgbm` checks every part of a LightGBM text and writes a new text from them. Both raise
ValueError if something is wrong.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import numpy as np

from fairprobe.arrays import Floats

DEEPEST = 64
INTEGERS = {b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8"}
NUMBERS = {**INTEGERS, b"d": ">f4", b"D": ">f8"}
CONSTANTS = {b"Z": None, b"T": True, b"F": False}


class _Reader:
    """One pass over the bytes of a Universal Binary JSON file."""

    def __init__(self, content: bytes) -> None:
        self.content, self.at = content, 0

    def take(self, count: int) -> bytes:
        if count < 0 or self.at + count > len(self.content):
            raise ValueError("it ends too early")
        self.at += count
        return self.content[self.at - count : self.at]

    def next_is(self, mark: bytes) -> bool:
        found = self.content[self.at : self.at + 1] == mark
        self.at += found
        return found

    def value(self, mark: bytes, depth: int) -> Any:
        if depth > DEEPEST:
            raise ValueError("it is nested too deep")
        if mark in NUMBERS:
            return self.numbers(mark, 1)[0]
        if mark in CONSTANTS:
            return CONSTANTS[mark]
        if mark == b"S":
            return self.take(self.length()).decode("utf-8")
        if mark == b"C":
            return self.take(1).decode("ascii")
        if mark in (b"[", b"{"):
            return self.many(mark == b"{", depth)
        raise ValueError(f"byte {self.at - 1} does not start a value")

    def many(self, named: bool, depth: int) -> Any:
        kind = self.take(1) if self.next_is(b"$") else None
        count = self.length() if self.next_is(b"#") else None
        if kind is not None and count is None:
            raise ValueError("a list in it has no length")
        if kind in NUMBERS and count is not None and not named:
            return self.numbers(kind, count)
        names: list[str] = []
        values: list[Any] = []
        while (
            len(values) < count if count is not None else not self.next_is(b"}" if named else b"]")
        ):
            if named:
                names.append(self.take(self.length()).decode("utf-8"))
            values.append(self.value(kind or self.take(1), depth + 1))
        return dict(zip(names, values, strict=True)) if named else values

    def numbers(self, mark: bytes, count: int) -> list[Any]:
        form = np.dtype(NUMBERS[mark])
        values: list[Any] = np.frombuffer(self.take(count * form.itemsize), dtype=form).tolist()
        return values

    def length(self) -> int:
        mark = self.take(1)
        if mark not in INTEGERS:
            raise ValueError(f"byte {self.at - 1} does not start a length")
        return int(self.numbers(mark, 1)[0])


def from_ubjson(content: bytes) -> Any:
    """The content of a Universal Binary JSON file."""
    reader = _Reader(content)
    try:
        return reader.value(reader.take(1), 0)
    except UnicodeDecodeError as error:
        raise ValueError("it holds invalid text") from error


# -- LightGBM --------------------------------------------------------------------------------------


class LightGBMText(NamedTuple):
    """A model's text, safe to read, and its description of itself."""

    text: str
    objective: str
    names: tuple[str, ...]
    categories: dict[str, list[Any]]


SPLITS = ("split_feature", "left_child", "right_child", "decision_type", "threshold")
MORE_SPLITS = ("split_gain", "internal_value", "internal_weight", "internal_count")
LIGHTGBM_END = """
end of trees

feature_importances:

parameters:
end of parameters

pandas_categorical:null
"""
MOST_CLASSES = 100_000
MORE_LEAVES = ("leaf_weight", "leaf_count")


def checked_lightgbm(text: str) -> LightGBMText:
    """Checks that every list has its length and holds numbers, and that every child exists."""
    if "\nTree=" not in text or "\nend of trees" not in text or "\nend of parameters" not in text:
        raise ValueError("it ends too early")
    top, *blocks = text.partition("\nend of trees")[0].split("\nTree=")
    head = _fields(top)
    width, per_round = int(head["max_feature_idx"]) + 1, int(head["num_tree_per_iteration"])
    names = tuple(head["feature_names"].split(" "))
    infos = head["feature_infos"].split(" ")
    if not len(names) == len(infos) == width or not all(
        re.fullmatch(r"none|\[[^\s:]+:[^\s:]+\]|-?\d+(:-?\d+)*", info) for info in infos
    ):
        raise ValueError(f"it does not describe {width} columns")
    if per_round < 1 or len(blocks) % per_round:
        raise ValueError(f"its {len(blocks)} trees are not {per_round} for each round")
    objective = head.get("objective", "")
    if not re.fullmatch(r"[a-z_]*( [a-z_]+:[\w.+-]+)*( sqrt)?", objective):
        raise ValueError("its objective cannot be read")
    settings = dict(word.split(":") for word in objective.split() if ":" in word)
    classes = int(settings.get("num_class", 1)) if objective else per_round
    if not int(head["num_class"]) == per_round == classes or classes > MOST_CLASSES:
        raise ValueError("it contradicts itself about the number of its classes")
    lines = ["tree", *(f"{name}={head[name]}" for name in ("version", "label_index"))]
    lines += [f"num_class={classes}", f"num_tree_per_iteration={per_round}"]
    lines += [f"max_feature_idx={width - 1}", *([f"objective={objective}"] if objective else [])]
    lines += ["average_output"] * ("average_output" in top.splitlines())
    lines += [f"feature_names={' '.join(names)}", f"feature_infos={' '.join(infos)}", ""]
    for number, block in enumerate(blocks):
        try:
            lines += [f"Tree={number}", *_tree(_fields(block), width), "", ""]
        except KeyError as error:
            raise ValueError(f"tree {number}: {error} is missing") from error
        except ValueError as error:
            raise ValueError(f"tree {number}: {error}") from error
    checked = "\n".join(lines) + LIGHTGBM_END
    return LightGBMText(checked, objective.partition(" ")[0], names, _categories(text, names))


def check_lightgbm(text: str) -> None:
    """The same checks of a text that LightGBM reads as it is, with the sizes of its trees."""
    checked_lightgbm(text)
    top, *blocks = text.partition("\nend of trees")[0].split("\nTree=")
    sizes = [len(f"Tree={block}\n".encode()) for block in blocks]
    if "tree_sizes" in (head := _fields(top)) and head["tree_sizes"].split() != [*map(str, sizes)]:
        raise ValueError("its trees do not have the sizes that it tells")
    lines = [line for block in blocks for line in block.splitlines()[1:] if line]
    if not all(re.fullmatch(r"[a-z_]+=[^=]*", line) for line in lines):
        raise ValueError("a line of its trees is not a name and a value")


def _fields(block: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in block.splitlines() if "=" in line)


def _tree(fields: dict[str, str], width: int) -> list[str]:
    leaves, groups = int(fields["num_leaves"]), int(fields["num_cat"])
    if fields.get("is_linear", "0") != "0":
        raise ValueError("it has linear models in its leaves, which are not supported")
    if leaves < 1 or groups < 0:
        raise ValueError("it has no leaves")
    lists = {name: _list(fields, name, leaves - 1) for name in SPLITS} | {
        "leaf_value": _list(fields, "leaf_value", leaves)
    }
    lists |= {name: _list(fields, name, leaves - 1) for name in MORE_SPLITS if fields.get(name)}
    lists |= {name: _list(fields, name, leaves) for name in MORE_LEAVES if fields.get(name)}
    children = np.concatenate([lists["left_child"], lists["right_child"]])
    # A child is a split below, or (negative) a leaf. Each has one parent, so that a walk down
    # always ends.
    if leaves > 1 and sorted(children.tolist()) != [*range(-leaves, 0), *range(1, leaves - 1)]:
        raise ValueError("it has nodes that lead nowhere")
    if not _whole(lists["split_feature"], width) or not _whole(lists["decision_type"], 128):
        raise ValueError("it refers to columns that do not exist")
    if groups:
        lists |= _groups(fields, groups, lists)
    elif (lists["decision_type"].astype(int) & 1).any():
        raise ValueError("it refers to categories that do not exist")
    kept = [f"{name}={fields[name]}" for name in lists]
    return [
        f"num_leaves={leaves}",
        f"num_cat={groups}",
        *kept,
        "is_linear=0",
        f"shrinkage={float(fields.get('shrinkage', 1))}",
    ]


def _groups(fields: dict[str, str], groups: int, lists: dict[str, Floats]) -> dict[str, Floats]:
    """The sets of categories that send a row to the left."""
    edges = _list(fields, "cat_boundaries", groups + 1)
    words = _list(fields, "cat_threshold", None)
    chosen = lists["threshold"][lists["decision_type"].astype(int) & 1 == 1]
    rising = edges[0] == 0 and edges[-1] == len(words) and bool((np.diff(edges) >= 0).all())
    limits = ((edges, len(words) + 1), (words, 2**32), (chosen, groups))
    if not rising or not all(_whole(numbers, end) for numbers, end in limits):
        raise ValueError("it refers to categories that do not exist")
    return {"cat_boundaries": edges, "cat_threshold": words}


def _list(fields: dict[str, str], name: str, count: int | None) -> Floats:
    numbers = np.array(fields[name].split(), dtype=np.float64)
    if count is not None and len(numbers) != count:
        raise ValueError(f"{name} has {len(numbers)} numbers; expected {count}")
    if not np.isfinite(numbers).all():
        raise ValueError(f"{name} holds something that is not a number")
    return numbers


def _whole(numbers: Floats, end: int) -> bool:
    return bool(((numbers >= 0) & (numbers < end) & (numbers == np.floor(numbers))).all())


def _categories(text: str, names: tuple[str, ...]) -> dict[str, list[Any]]:
    """The columns that held pandas categories, each with its categories."""
    listed = re.search(r"^pandas_categorical:(.*)$", text, flags=re.MULTILINE)
    known = json.loads(listed[1]) if listed else None
    if not known:
        return {}
    columns = re.search(r"^\[categorical_feature: ([\d,]+)\]$", text, flags=re.MULTILINE)
    numbers = [int(number) for number in columns[1].split(",")] if columns else []
    matches = isinstance(known, list) and len(numbers) == len(known)
    if not matches or any(number >= len(names) for number in numbers):
        raise ValueError("it does not say which of its columns hold categories")
    return {names[number]: list(values) for number, values in zip(numbers, known, strict=True)}
