"""The software bill of materials, and the wheel that carries it."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent


def sbom(*wheels: Path) -> str:
    command = [sys.executable, str(ROOT / "tools" / "sbom.py"), *map(str, wheels)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def bill() -> dict[str, Any]:
    body: dict[str, Any] = json.loads(sbom())
    return body


def test_the_bill_names_every_package_that_is_needed_with_its_version(bill: dict[str, Any]) -> None:
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert bill["metadata"]["component"]["version"] == project["version"]
    versions = {each["name"]: each["version"] for each in bill["components"]}
    for requirement in project["dependencies"]:
        name = requirement.partition(">")[0]
        assert versions[name] == version(name)
    assert versions.keys() >= {"markupsafe", "httpcore", "joblib"}  # needed by those
    assert "colorama" not in versions  # for Windows
    assert all(each["type"] == "library" for each in bill["components"])
    assert {each["purl"] for each in bill["components"]} >= {f"pkg:pypi/torch@{version('torch')}"}


def test_references_are_unique_and_every_dependency_is_a_component(bill: dict[str, Any]) -> None:
    references = [each["bom-ref"] for each in (bill["metadata"]["component"], *bill["components"])]
    assert len(set(references)) == len(references)
    assert [each["ref"] for each in bill["dependencies"]] == references
    for each in bill["dependencies"]:
        assert set(each["dependsOn"]) <= set(references)


def test_a_wheel_carries_the_bill_once_and_its_record_lists_it(tmp_path: Path) -> None:
    wheel = tmp_path / "fairprobe-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("fairprobe/__init__.py", "")
        file.writestr("fairprobe-0.1.0.dist-info/METADATA", "Name: fairprobe\n")
        lines = "fairprobe/__init__.py,,0\nfairprobe-0.1.0.dist-info/RECORD,,\n"
        file.writestr("fairprobe-0.1.0.dist-info/RECORD", lines)
    for _ in range(2):
        sbom(wheel)
    place = "fairprobe-0.1.0.dist-info/sboms/fairprobe.cdx.json"
    with zipfile.ZipFile(wheel) as file:
        assert file.testzip() is None
        assert file.namelist().count(place) == 1
        content = file.read(place)
        record = list(
            csv.reader(file.read("fairprobe-0.1.0.dist-info/RECORD").decode().splitlines())
        )
    assert json.loads(content)["bomFormat"] == "CycloneDX"
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    assert record.count([place, f"sha256={digest}", str(len(content))]) == 1
    assert record[-1][0].endswith("RECORD")
