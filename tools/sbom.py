"""The software bill of materials: fairprobe and everything it needs, with the versions installed
here, as CycloneDX JSON. With a wheel it is put into it, where PEP 770 says it belongs.

    python tools/sbom.py                    print it
    python tools/sbom.py dist/*.whl         add it to wheels
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
FILE = "fairprobe.cdx.json"


def bill(project: dict[str, Any]) -> dict[str, Any]:
    """The bill of a project, from its pyproject.toml and what is installed. Equal environments give
    equal bills: it holds no time and no random number.
    """
    found: dict[str, Distribution | None] = {}
    direct = sorted(_names(project["dependencies"]))
    _collect(direct, found)
    root = _reference(project["name"], project["version"])
    references = {
        name: _reference(name, None if each is None else each.version)
        for name, each in found.items()
    }
    dependencies = [{"ref": root, "dependsOn": [references[name] for name in direct]}]
    for name, each in sorted(found.items()):
        needed = sorted(_names(each.requires or ()) if each is not None else ())
        known = [references[other] for other in needed if other in references]
        dependencies.append({"ref": references[name], "dependsOn": known})
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": root,
                "name": project["name"],
                "version": project["version"],
                "licenses": [{"license": {"id": project["license"]}}],
            }
        },
        "components": [
            _component(name, each, references[name]) for name, each in sorted(found.items())
        ],
        "dependencies": dependencies,
    }


def add_to(wheel: Path, text: str) -> None:
    """Put a bill into a wheel, in the place of an earlier one, and into the wheel's record."""
    with zipfile.ZipFile(wheel) as old:
        parts = {entry.filename: (entry, old.read(entry)) for entry in old.infolist()}
    (record,) = (name for name in parts if name.endswith(".dist-info/RECORD"))
    place = f"{record.removesuffix('RECORD')}sboms/{FILE}"
    content = text.encode()
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    entry, listed = parts.pop(record)
    lines = [line for line in listed.decode().splitlines() if not line.startswith(f"{place},")]
    lines.insert(-1, f"{place},sha256={digest},{len(content)}")
    parts[place] = (_entry(place, entry), content)
    parts[record] = (entry, ("\n".join(lines) + "\n").encode())
    new = wheel.with_suffix(".part")
    with zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as file:
        for each, data in parts.values():
            file.writestr(each, data)
    new.replace(wheel)


def _entry(name: str, like: zipfile.ZipInfo) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, like.date_time)
    entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, like.external_attr
    return entry


def _collect(names: Iterable[str], found: dict[str, Distribution | None]) -> None:
    """Add these packages and all that they need; None for one that is not installed."""
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        try:
            found[name] = each = distribution(name)
        except PackageNotFoundError:
            found[name] = None
            continue
        waiting += _names(each.requires or ())


def _names(requirements: Iterable[str]) -> Iterator[str]:
    """The packages that requirements name; not those of optional extras or of other systems."""
    for requirement in map(Requirement, requirements):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield canonicalize_name(requirement.name)


def _reference(name: str, version: str | None) -> str:
    return f"{name}@{version}" if version else name


def _component(name: str, each: Distribution | None, reference: str) -> dict[str, Any]:
    component: dict[str, Any] = {"type": "library", "bom-ref": reference, "name": name}
    if each is None:
        return component
    component |= {"version": each.version, "purl": f"pkg:pypi/{name}@{each.version}"}
    if "License-Expression" in each.metadata:
        component["licenses"] = [{"expression": each.metadata["License-Expression"]}]
    return component


def main(wheels: list[str]) -> None:
    """Print the bill, or add it to wheels."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = json.dumps(bill(project), indent=1) + "\n"
    if not wheels:
        sys.stdout.write(text)
    for wheel in wheels:
        add_to(Path(wheel), text)
        sys.stdout.write(f"Added {FILE} to {wheel}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
