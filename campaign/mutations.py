"""Damage to files: what `damaged` returns depends on the file's bytes, its kind and a number alone,
so every damaged input can be made again from its number.

Bytes are flipped, cut, doubled and replaced; length fields get extreme values; in archives the
records are cut, swapped and renamed with correct checksums, so that the damage reaches the reader
behind the archive; in JSON, TOML and tables single values become hostile ones.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

Rng: TypeAlias = np.random.Generator
Damage: TypeAlias = Callable[[bytes, Rng], bytes]

LENGTHS = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63, 2**64 - 1)
DEEP = 20_000
VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    2**31,
    2**63,
    10**40,
    -0.5,
    1.5,
    1e308,
    float("nan"),
    float("inf"),
    float("-inf"),
    "",
    "²",
    "a" * 3000,
    "\x1b[31mred",
    "\ud800",
    "nan",
    "=1+1",
    "../../etc/passwd",
    [],
    {},
    [[]],
    {"": 0},
    [0] * 3000,
)
TOKENS = (
    b"1e999",
    b"-1",
    b"9" * 400,
    b"nan",
    b"inf",
    b"\x00",
    b"\xff\xfe",
    b"\xc3",
    b"\xe2\x82",
    b'"',
    b"'",
    b"\r",
    b"\n",
    b",",
    b"\t",
    b"=cmd|' /C calc'!A0",
    b"\x1b[31m",
    "²".encode(),
    "١".encode(),
    b"\xf0\x9f\x92\xa9",
    b"[" * DEEP,
    b'{"a":' * DEEP,
    b"a." * DEEP,
    b"a" * 20_000,
    b"\xef\xbb\xbf",
)


def damaged(original: bytes, kind: str, number: int, seed: int = 0) -> bytes:
    """The damaged input of this number."""
    rng = np.random.default_rng([seed, number, zlib.crc32(kind.encode())])
    choices = _fitting(original)
    result = original
    for _ in range(1 if rng.random() < 0.75 else int(rng.integers(2, 5))):
        result = choices[int(rng.integers(len(choices)))](result, rng)
    return result


def _fitting(data: bytes) -> list[Damage]:
    """The kinds of damage for a file like this, those that get deeper into a reader more often."""
    if data.startswith(b"PK"):
        return [*BYTES, *ARCHIVE, *ARCHIVE, *ARCHIVE]
    if data.startswith(b"\x1f\x8b"):
        return [*BYTES, _inside_gzip, _inside_gzip, _inside_gzip]
    if _is_safetensors(data):
        return [*BYTES, *(3 * [_safetensors])]
    if b"\x00" not in data[:4096]:
        text = [*BYTES, *TEXT]
        return [*text, *(len(text) * [_json])] if data.lstrip()[:1] in (b"{", b"[") else text
    return [*BYTES, _length, _length]


# -- bytes -----------------------------------------------------------------------------------------


def _at(data: bytes, rng: Rng) -> int:
    """A place in the file: anywhere, near its beginning or near its end."""
    if not data:
        return 0
    where = rng.random()
    near = min(len(data), 256)
    if where < 0.25:
        return int(rng.integers(near))
    if where < 0.5:
        return len(data) - 1 - int(rng.integers(near))
    return int(rng.integers(len(data)))


def _flip(data: bytes, rng: Rng) -> bytes:
    result = bytearray(data)
    for _ in range(int(rng.integers(1, 9)) if data else 0):
        result[_at(data, rng)] ^= 1 << int(rng.integers(8))
    return bytes(result)


def _replace_bytes(data: bytes, rng: Rng) -> bytes:
    at, size = _at(data, rng), int(rng.integers(1, 17))
    return data[:at] + bytes(rng.bytes(size)) + data[at + size :]


def _cut(data: bytes, rng: Rng) -> bytes:
    return data[: _at(data, rng)]


def _remove(data: bytes, rng: Rng) -> bytes:
    at = _at(data, rng)
    return data[:at] + data[at + int(rng.integers(1, 64)) :]


def _repeat(data: bytes, rng: Rng) -> bytes:
    at, size = _at(data, rng), int(rng.integers(1, 512))
    return data[: at + size] + data[at:]


def _length(data: bytes, rng: Rng) -> bytes:
    """A number of 1, 2, 4 or 8 bytes becomes an extreme one."""
    size: int = (1, 2, 4, 8)[int(rng.integers(4))]
    value = LENGTHS[int(rng.integers(len(LENGTHS)))] % (1 << 8 * size)
    at = _at(data, rng)
    number = value.to_bytes(size, "little" if rng.random() < 0.7 else "big")
    return data[:at] + number + data[at + size :]


def _zeros(data: bytes, rng: Rng) -> bytes:
    at, size = _at(data, rng), int(rng.integers(1, 2048))
    return data[:at] + bytes(min(size, len(data) - at)) + data[at + size :]


BYTES: tuple[Damage, ...] = (_flip, _replace_bytes, _cut, _remove, _repeat, _length, _zeros)


# -- text ------------------------------------------------------------------------------------------


def _token(data: bytes, rng: Rng) -> bytes:
    """A hostile word somewhere."""
    at = _at(data, rng)
    return data[:at] + TOKENS[int(rng.integers(len(TOKENS)))] + data[at:]


def _cell(data: bytes, rng: Rng) -> bytes:
    """A word or number of the text becomes a hostile one."""
    words = list(re.finditer(rb"[\w.+-]+", data))
    if not words:
        return data
    word = words[int(rng.integers(len(words)))]
    token = TOKENS[int(rng.integers(len(TOKENS)))]
    return data[: word.start()] + token + data[word.end() :]


def _line_ends(data: bytes, rng: Rng) -> bytes:
    ends = (b"\r", b"\r\n", b"\n\r", b"\n\n", b"\x0b", b"")
    return data.replace(b"\n", ends[int(rng.integers(len(ends)))])


def _encoding(data: bytes, rng: Rng) -> bytes:
    text = data.decode("utf-8", errors="replace").replace("e", "é")
    names = ("latin1", "utf-16", "utf-32", "utf-7")
    return text.encode(names[int(rng.integers(len(names)))], errors="replace")


def _lines(data: bytes, rng: Rng) -> bytes:
    """Lines change places, vanish or come often."""
    lines = data.split(b"\n")
    first, second = (int(rng.integers(len(lines))) for _ in range(2))
    how = rng.integers(4)
    if how == 0:
        lines[first], lines[second] = lines[second], lines[first]
    elif how == 1:
        del lines[first]
    elif how == 2:
        lines[first:first] = [lines[second]] * 2000
    else:
        lines = lines[first : first + 1]
    return b"\n".join(lines)


TEXT: tuple[Damage, ...] = (_token, _token, _cell, _cell, _cell, _line_ends, _encoding, _lines)


# -- JSON ------------------------------------------------------------------------------------------


def _json(data: bytes, rng: Rng) -> bytes:
    """A value in the document becomes another, is left out, doubled or nested deeply."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return _token(data, rng)
    places = list(_places(document))
    if not places:
        return _token(data, rng)
    for _ in range(1 if rng.random() < 0.8 else 3):
        holder, key = places[int(rng.integers(len(places)))]
        _alter(holder, key, rng)
    # Python's own numbers that JSON does not have are written as they are: NaN, Infinity.
    text = json.dumps(document)
    if rng.random() < 0.03:
        text = text.replace('"nested"', "[" * DEEP + "]" * DEEP)
    return text.encode("utf-8", errors="surrogatepass")


def _alter(holder: Any, key: Any, rng: Rng) -> None:
    how = rng.random()
    try:
        value = holder[key]
    except (KeyError, IndexError):
        return  # an earlier change removed it
    if how < 0.12:
        del holder[key]
    elif how < 0.2 and isinstance(holder, dict):
        holder[f"{key}²"] = holder.pop(key)
    elif how < 0.28 and isinstance(value, list) and value:
        holder[key] = value[: len(value) // 2] if rng.random() < 0.5 else value * 3
    elif how < 0.5 and isinstance(value, int | float) and not isinstance(value, bool):
        holder[key] = (-value, value + 1, value * 1e6, value + 0.5, -1, 1e308, 10**30)[
            rng.integers(7)
        ]
    elif how < 0.53:
        holder[key] = "nested"
    else:
        holder[key] = VALUES[int(rng.integers(len(VALUES)))]


def _places(value: Any) -> Any:
    entries: Any = ()
    if isinstance(value, dict):
        entries = value.items()
    elif isinstance(value, list):
        entries = enumerate(value[:200])
    for key, each in list(entries):
        yield value, key
        yield from _places(each)


def _is_safetensors(data: bytes) -> bool:
    return len(data) > 9 and data[8:9] == b"{" and struct.unpack("<Q", data[:8])[0] < len(data)


def _safetensors(data: bytes, rng: Rng) -> bytes:
    """The header becomes another, its length stays right."""
    if not _is_safetensors(data):
        return _flip(data, rng)
    size = struct.unpack("<Q", data[:8])[0]
    header = _json(data[8 : 8 + size], rng)
    return struct.pack("<Q", len(header)) + header + data[8 + size :]


# -- archives --------------------------------------------------------------------------------------


def _members(data: bytes) -> list[tuple[zipfile.ZipInfo, bytes]] | None:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            return [(entry, file.read(entry)) for entry in file.infolist()]
    except (zipfile.BadZipFile, OSError, ValueError, EOFError, NotImplementedError, zlib.error):
        return None
    except (RuntimeError, struct.error, MemoryError):
        return None


def _packed(members: list[tuple[zipfile.ZipInfo, bytes]], rng: Rng) -> bytes:
    buffer = io.BytesIO()
    method = zipfile.ZIP_DEFLATED if rng.random() < 0.2 else zipfile.ZIP_STORED
    with zipfile.ZipFile(buffer, "w", method) as file:
        for entry, content in members:
            file.writestr(zipfile.ZipInfo(entry.filename or "x"), content, compress_type=method)
    return buffer.getvalue()


def _inside_member(data: bytes, rng: Rng) -> bytes:
    """One record is damaged, and its checksum agrees."""
    members = _members(data)
    if not members:
        return _flip(data, rng)
    at = int(rng.integers(len(members)))
    entry, content = members[at]
    choices = _fitting(content)
    members[at] = (entry, choices[int(rng.integers(len(choices)))](content, rng))
    return _packed(members, rng)


def _shorter_record(data: bytes, rng: Rng) -> bytes:
    """One record ends before the length that others declare for it, or goes on after it."""
    members = _members(data)
    if not members:
        return _cut(data, rng)
    at = int(rng.integers(len(members)))
    entry, content = members[at]
    cut = content[: int(rng.integers(len(content) + 1))]
    members[at] = (entry, cut if rng.random() < 0.7 else content + rng.bytes(64))
    return _packed(members, rng)


def _other_records(data: bytes, rng: Rng) -> bytes:
    """Two records change places, one vanishes, comes twice or has another name."""
    members = _members(data)
    if not members:
        return _remove(data, rng)
    first, second = (int(rng.integers(len(members))) for _ in range(2))
    (one, content), (other, other_content) = members[first], members[second]
    how = rng.integers(4)
    if how == 0:
        members[first], members[second] = (one, other_content), (other, content)
    elif how == 1:
        del members[first]
    elif how == 2:
        members.append((other, content))
    else:
        names = ("../../x", "/etc/passwd", "", one.filename.upper(), f"{one.filename}/", "a\x00b")
        members[first] = (zipfile.ZipInfo(names[int(rng.integers(len(names)))] or "x"), content)
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a name that comes twice
        return _packed(members, rng)


def _inside_gzip(data: bytes, rng: Rng) -> bytes:
    try:
        content = gzip.decompress(data)
    except (OSError, EOFError, zlib.error):
        return _flip(data, rng)
    choices = _fitting(content)
    return gzip.compress(choices[int(rng.integers(len(choices)))](content, rng), mtime=0)


ARCHIVE: tuple[Damage, ...] = (_inside_member, _inside_member, _shorter_record, _other_records)
