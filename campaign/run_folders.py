"""What is wrong with a run folder after a kill, what is left beside it, and whether it equals
another.
"""

from __future__ import annotations

import json
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from pyarrow import parquet

VARIES = (
    *("created", "command", "second", "cpu", "versions", "stopped", "speed", "per_", "elapsed"),
    *("ms_an_", "source"),  # an uploaded table lies in the server's folder
)

DESCRIBED = (".png", ".safetensors")
WORK = ("checkpoint", "jobs", "pictures")  # folders with finished work in an unfinished run
UPLOADS = "/state/uploads/"


def run_harms(out: Path, *, must_be_there: bool) -> list[str]:
    """What is wrong with a run folder: it is complete, or it is not there."""
    if not out.exists() or (not (out / "audit.json").exists() and not any(out.glob("*.html"))):
        return ["the run is gone"] if must_be_there and not (out / "jobs").exists() else []
    harms = []
    for path in sorted(out.rglob("*")):
        if path.suffix == ".json":
            try:
                json.loads(path.read_bytes())
            except ValueError:
                harms.append(f"{path.name} is not complete")
        if path.suffix == ".html" and b"</html>" not in path.read_bytes()[-200:]:
            harms.append(f"{path.name} is not complete")
        if path.suffix == ".parquet" and path.read_bytes()[-4:] != b"PAR1":
            harms.append(f"{path.name} is not complete")
    if (out / "audit.json").exists() and not (out / "report.html").exists():
        harms.append("report.html is not there")
    return harms


def leftovers(folder: Path, temporary: Path, out: Path) -> list[str]:
    """What lies beside a run, in it with a hidden name, and in the temporary folder."""
    beside = [path for path in folder.iterdir() if path != out]
    hidden = list(out.rglob(".*")) if out.is_dir() else []
    ours = [path for path in temporary.iterdir() if path.name.startswith(("fairprobe", "."))]
    return [str(path.relative_to(folder.parent)) for path in (*beside, *hidden, *ours)]


def differing(names: tuple[str, ...], one: Path, other: Path) -> list[str]:
    """The files that differ, times and dates aside."""
    found = []
    for name in names:
        is_there = [(place / name).exists() for place in (one, other)]
        if not all(is_there):
            found += [f"{name} is missing in one"] * any(is_there)
            continue
        first, second = (_content(place / name) for place in (one, other))
        if first != second:
            where = f" at {_first_place(first, second)}" if name.endswith(".json") else ""
            found.append(f"{name}{where}")
    return found


def _content(path: Path) -> Any:
    content = path.read_bytes()
    if path.suffix == ".json":
        return _timeless(json.loads(content))
    if path.suffix == ".npz":
        return _arrays(content)
    return _rows(content) if path.suffix == ".parquet" else content


def _rows(content: bytes) -> Any:
    """The rows of a Parquet file and what it says about itself, times aside."""
    table = parquet.read_table(BytesIO(content))
    about = json.loads((table.schema.metadata or {}).get(b"fairprobe", b"{}"))
    return table.replace_schema_metadata(None), _timeless(about)


def _arrays(content: bytes) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    with np.load(BytesIO(content)) as file:
        return {name: (str(a.dtype), a.shape, a.tobytes()) for name, a in file.items()}


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _timeless(each)
            for key, each in value.items()
            if key != "date" and not any(word in key for word in VARIES)
        }
    if isinstance(value, list):
        return [_timeless(each) for each in value]
    # Where the dashboard keeps an uploaded table: each server of the campaign has its own folder.
    return value[value.index(UPLOADS) :] if isinstance(value, str) and UPLOADS in value else value


def _first_place(one: Any, other: Any, path: str = "$") -> str:
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        items: Any = one.items()
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        items = enumerate(one)
    else:
        return f"{path}: {str(one)[:60]} / {str(other)[:60]}"
    different = partial(next, (key for key, each in items if each != other[key]))
    key = different()
    return _first_place(one[key], other[key], f"{path}.{key}")


def finished_work(folder: Path) -> dict[Path, int]:
    """The files with finished work of a killed command, and when they were written. A picture or
    a network is finished with its description, which is written after it.
    """
    return {
        path: path.stat().st_mtime_ns
        for path in folder.rglob("*")
        if path.is_file()
        and not path.name.startswith(".")
        and not set(WORK).isdisjoint(path.relative_to(folder).parts[:-1])
        and (path.suffix not in DESCRIBED or path.with_suffix(".json").exists())
    }


def done_again(work: dict[Path, int], moves: list[str]) -> list[str]:
    """Finished work that the next start wrote again."""
    return [
        path.name
        for path, written in work.items()
        if str(path) in moves or (path.exists() and path.stat().st_mtime_ns != written)
    ]
