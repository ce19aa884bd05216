"""Checks of a TorchScript archive before torch sees it.

torch believes what the pickles of an archive say about its tensors: a record that is shorter than
its declared numbers, or a shape that reaches beyond them, makes it read foreign memory. So the
pickles are read here first, by an unpickler that knows no class and calls nothing, and every tensor
must lie within the bytes of its record. What the two readers might understand differently is
refused: other opcodes than torch writes, a name that occurs twice, bytes around the archive. So is
nesting so deep that torch's own readers, which call themselves, would run out of stack.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import re
import zipfile
from math import prod
from typing import Any, NamedTuple

from fairprobe.errors import ModelError

SIZES = {
    **dict.fromkeys(("Byte", "Char", "Bool", "QInt8", "QUInt8"), 1),
    **dict.fromkeys(("Half", "BFloat16", "Short"), 2),
    **dict.fromkeys(("Float", "Int", "QInt32"), 4),
    **dict.fromkeys(("Double", "Long", "ComplexFloat"), 8),
    "ComplexDouble": 16,
}
FLOATS = {"Half": "float16", "Float": "float32", "Double": "float64"}
OPCODES = frozenset(
    {"PROTO", "STOP", "MARK", "GLOBAL", "NEWOBJ", "BUILD", "REDUCE", "BINPERSID"}
    | {"BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET", "NONE", "NEWTRUE", "NEWFALSE"}
    | {"BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE"}
    | {"EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_LIST", "APPEND", "APPENDS"}
    | {"EMPTY_DICT", "SETITEM", "SETITEMS"}
)
PICKLES = ("data.pkl", "constants.pkl")  # those that torch.jit.load reads
DENSE = ("_rebuild_tensor_v2", "_rebuild_qtensor")
MOST = 256 * 2**20  # bytes of a pickle, which holds names and shapes
REPEATED = 2**24  # numbers of a tensor that repeats fewer ones
DEEPEST = 1_000  # things within things in a pickle
LONGEST = 4_000  # brackets and operators in one statement; torch crashes from about 10,000 on
INDENTED = 1_000  # blanks before a statement
TAKEN = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3, "APPEND": 1, "SETITEM": 2}
TAKEN |= {"NEWOBJ": 1, "REDUCE": 1, "BUILD": 1, "BINPERSID": 0}
# The words of a program that matter here: strings and comments, brackets, ends of lines, operators.
TOKEN = re.compile(
    rb'"""(?:[^\\]|\\.)*?"""|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|#[^\n]*'
    rb"|[(\[{]|[)\]}]|\n *|[-+*/%~^|&<>=.]|\b(?:not|and|or|if|else|elif|lambda)\b",
    re.DOTALL,
)


class Damaged(Exception):  # noqa: N818  (the reader turns it into its own error)
    """What is wrong with an archive."""


class Storage(NamedTuple):
    """A record as a pickle declares it: its key and how many numbers of which size and kind it
    holds.
    """

    key: str
    numbers: int
    size: int
    kind: str = ""


def check_records(name: str, file: zipfile.ZipFile) -> None:
    """Refuse an archive whose tensors do not lie within its records."""
    try:
        entries = _entries(file)
        folder = next(iter(entries)).partition("/")[0]
        for pickled in PICKLES:
            info = entries.get(f"{folder}/{pickled}")
            if info is not None:
                records = f"{folder}/{pickled.removesuffix('.pkl')}/"
                _check(_content(file, info), entries, records)
        for entry, info in entries.items():
            if entry.endswith(".debug_pkl"):
                _check_opcodes(_content(file, info))
            elif entry.endswith(".py"):
                _check_program(_content(file, info))
    except Damaged as finding:
        raise ModelError(
            f"{name} is damaged or was altered ({finding}); it is not loaded. Write it again."
        ) from None


def float_records(file: zipfile.ZipFile) -> dict[str, str]:
    """The records of floating-point numbers by their names in the archive, each with NumPy's name
    of its type. The archive was checked before.
    """
    names = {entry.filename.lower(): entry.filename for entry in file.infolist()}
    folder = next(iter(names)).partition("/")[0]
    found: dict[str, str] = {}
    for pickled in PICKLES:
        if f"{folder}/{pickled}" not in names:
            continue
        reader = _Reader(file.read(names[f"{folder}/{pickled}"]))
        reader.load()
        for storage in reader.storages:
            record = f"{folder}/{pickled.removesuffix('.pkl')}/{storage.key}".lower()
            if storage.kind in FLOATS and record in names:
                found[names[record]] = FLOATS[storage.kind]
    return found


def _entries(file: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The parts of the archive by their names in small letters, as torch looks them up."""
    entries = file.infolist()
    if len({entry.filename.lower() for entry in entries}) != len(entries):
        raise Damaged("a name occurs twice in it")
    if file.comment or min(entry.header_offset for entry in entries) != 0:
        raise Damaged("there are bytes before or after it")
    if len({entry.filename.partition("/")[0] for entry in entries}) != 1:
        raise Damaged("it has more than one folder")
    if any(entry.filename.partition("/")[2] == "model.json" for entry in entries):
        raise Damaged("it has the format of an early version of torch")
    return {entry.filename.lower(): entry for entry in entries}


def _content(file: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    if info.file_size > MOST:
        raise Damaged(f"{info.filename} is too large")
    return file.read(info)


def _check(content: bytes, entries: dict[str, zipfile.ZipInfo], records: str) -> None:
    """Every storage is as long as its record, and every tensor lies within its storage."""
    _check_opcodes(content)
    reader = _Reader(content)
    try:
        reader.load()
    except Damaged:
        raise
    except Exception as error:  # whatever the unpickler raises at nonsense
        raise Damaged(f"{type(error).__name__} in {records[:-1]}.pkl") from error
    for storage in reader.storages:
        record = entries.get(records + storage.key.lower())
        if storage.numbers == 0:
            continue
        if record is None or record.file_size < storage.numbers * storage.size:
            there = "none" if record is None else f"{record.file_size:,}"
            raise Damaged(
                f"record {storage.key} needs {storage.numbers * storage.size:,} bytes, and has"
                f" {there}"
            )


def _check_opcodes(content: bytes) -> None:
    """Only what torch writes, not nested too deep, and no place in the memo that would need much
    memory.
    """
    try:
        found = [(opcode.name, argument) for opcode, argument, _ in pickletools.genops(content)]
        for count, (name, argument) in enumerate(found):
            if name not in OPCODES:
                raise Damaged(f"{name} in a pickle")
            if name == "LONG_BINPUT" and not 0 <= (argument or 0) <= count:
                raise Damaged("a pickle counts wrong")
        _check_depth(found)
    except (ValueError, TypeError, LookupError, OverflowError) as error:
        raise Damaged("a pickle is incomplete") from error


def _check_depth(opcodes: list[tuple[str, Any]]) -> None:
    """Follow how deep everything on the unpickler's stack is nested."""
    depths, marks, memo = list[int](), list[int](), dict[int, int]()
    for name, argument in opcodes:
        if name == "MARK":
            marks.append(len(depths))
        elif name in ("BINPUT", "LONG_BINPUT"):
            memo[argument] = depths[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            depths.append(memo[argument])
        elif name in TAKEN or name in ("TUPLE", "APPENDS", "SETITEMS"):
            first = len(depths) - TAKEN[name] if name in TAKEN else marks.pop()
            inside = 1 + max(depths[first:], default=0)
            if inside > DEEPEST:
                raise Damaged("a pickle is nested too deep")
            del depths[first:]
            if name.startswith("TUPLE"):
                depths.append(0)
            depths[-1] = max(depths[-1], inside)
        elif name not in ("PROTO", "STOP"):
            depths.append(0)


def _check_program(content: bytes) -> None:
    """Refuse statements so long, or so deep within others, that torch's parser would crash."""
    depth = operators = 0
    for found in TOKEN.finditer(content):
        token = found[0]
        if token[:1] == b"\n":
            if len(token) > INDENTED:
                raise Damaged("its program is nested too deep")
            operators = operators if depth > 0 else 0
        elif token[:1] not in b"\"'#":
            depth += (token in b"([{") - (token in b")]}")
            operators += 1
            if operators > LONGEST:
                raise Damaged("its program has a statement that is too long")


class _Inert:
    """Stands for an object of any class, and does nothing."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __setstate__(self, _: Any) -> None:
        pass

    def __setitem__(self, _: Any, __: Any) -> None:
        pass


class _Reader(pickle.Unpickler):
    """Reads the storages and tensors of a pickle. No class is looked up, nothing is called."""

    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content))
        self.storages: list[Storage] = []

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and name.endswith("Storage"):
            return name
        if module == "torch._utils" and name.startswith("_rebuild"):
            if name not in DENSE:
                raise Damaged(f"{name} is not supported")
            return self._tensor
        return _Inert

    def persistent_load(self, given: Any) -> Storage:
        word, kind, key, _, numbers = given
        size = SIZES.get(str(kind).removesuffix("Storage"))
        if word != "storage" or size is None or not isinstance(key, str):
            raise Damaged("a storage of an unknown kind")
        if isinstance(numbers, bool) or not isinstance(numbers, int) or not 0 <= numbers < 2**48:
            raise Damaged(f"record {key} has {numbers} numbers")
        self.storages.append(Storage(key, numbers, size, str(kind).removesuffix("Storage")))
        return self.storages[-1]

    def _tensor(self, storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> _Inert:
        numbers = (offset, *shape, *strides)
        if not isinstance(storage, Storage) or not all(
            isinstance(each, int) and not isinstance(each, bool) and each >= 0 for each in numbers
        ):
            raise Damaged("a tensor without a valid shape")
        if len(shape) != len(strides):
            raise Damaged("a tensor with other strides than axes")
        last = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
        if prod(shape) > max(storage.numbers, REPEATED):
            raise Damaged(f"a tensor repeats record {storage.key} {prod(shape):,} times")
        if prod(shape) and last >= storage.numbers:
            raise Damaged(
                f"a tensor reaches to number {last:,} of record {storage.key}, which has"
                f" {storage.numbers:,}"
            )
        return _Inert()
