"""MEPS: reading, preparing and downloading it, with a small wheel in place of the real one."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pytest

from fairprobe.datasets.cache import cache_folder
from fairprobe.errors import DataError, DomainError, StorageError
from papers.data import available
from papers.data.meps import TERMS, VARIABLES, fetch_meps, meps

meps_module = sys.modules["papers.data.meps"]  # the package's `meps` is the function


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("FAIRPROBE_CACHE", str(folder))
    return folder


def survey(people: int = 6, **changes: Any) -> pd.DataFrame:
    """Raw people of panel 21 who are known in every respect; the second half visit often."""
    frame = pd.DataFrame({name: np.ones(people, dtype=int) for name in meps_module.RAW_COLUMNS})
    often = np.arange(people) >= people // 2
    frame = frame.assign(
        PANEL=21,
        HISPANX=2,
        AGE53X=40,
        SEX=np.arange(people) % 2 + 1,
        OBTOTV16=np.where(often, 6, 5),
        PCS42=55.5,
    )
    return frame.assign(**changes)


def wheel_of(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    member: str = meps_module.MEMBER,
    text: str | None = None,
) -> Path:
    """A wheel with this survey inside, which the download step then brings and whose checksum is
    expected.
    """
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / "aif360-0.2.0-py3-none-any.whl"
    with ZipFile(wheel, "w") as archive:
        archive.writestr(member, survey().to_csv(index=False) if text is None else text)
    expect(hashlib.sha256(wheel.read_bytes()).hexdigest(), monkeypatch)
    answer(monkeypatch, 0, brings=wheel)
    return wheel


def expect(sha256: str, monkeypatch: pytest.MonkeyPatch) -> None:
    package = replace(meps_module.PACKAGE, sha256=sha256)
    monkeypatch.setattr(meps_module, "PACKAGE", package)


def answer(
    monkeypatch: pytest.MonkeyPatch, code: int, stderr: str = "", brings: Path | None = None
) -> list[list[str]]:
    """Replaces pip by one that ends so; returns the commands that it is given."""
    commands: list[list[str]] = []

    def run(command: list[str], cwd: Path, **_: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        if brings is not None:
            shutil.copy(brings, cwd)
        return subprocess.CompletedProcess(command, code, stdout="", stderr=stderr)

    monkeypatch.setattr(subprocess, "run", run)
    return commands


def kept(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.rglob("*")) if cache.exists() else []


# -- against the real survey -----------------------------------------------------------------------


def test_preparing_gives_the_reference_rows(assets: Path) -> None:
    prepared = meps_module.prepare(pd.read_csv(assets / "meps_h192_aif360cols.csv.gz"))
    reference = pd.read_csv(assets / "meps21.csv.gz").drop(columns="PERWT")
    pd.testing.assert_frame_equal(prepared, reference)


def test_the_reference_file_loads(assets: Path) -> None:
    data = meps(assets / "meps21.csv.gz")
    assert data.x.shape == (15_675, 41)
    assert np.bincount(data.y).tolist() == [13_047, 2_628]
    assert (
        sum(
            len(attribute.categories) if attribute.one_hot else 1
            for attribute in data.domain.attributes
        )
        == 137
    )
    assert len(data.domain.outside(data.x)) == 233
    assert np.bincount(data.x[:, data.domain.index("gender")].astype(int)).tolist() == [
        8_298,
        7_377,
    ]
    assert np.bincount(data.x[:, data.domain.index("race")].astype(int)).tolist() == [9_653, 6_022]
    assert data.protected == ("gender", "race")


def test_every_category_of_the_codebook_occurs(assets: Path) -> None:
    data = meps(assets / "meps21.csv.gz")
    for codes, attribute in zip(data.x.T, data.domain.attributes, strict=True):
        if attribute.kind == "categorical":
            assert len(np.unique(codes)) == len(attribute.categories), attribute.name


@pytest.mark.skipif(
    os.environ.get("FAIRPROBE_NETWORK") != "1",
    reason="downloads 23 MB: set FAIRPROBE_NETWORK=1 to run it",
)
def test_the_real_download(cache: Path) -> None:
    steps: list[str] = []
    path = fetch_meps(steps.append)
    assert path.parent == cache
    assert len(steps) == 3
    assert len(meps()) == 15_675
    assert kept(cache) == ["meps21.csv.gz"]


# -- preparing -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("PANEL", 20),
        ("REGION53", -1),
        ("AGE53X", -1),
        ("MARRY53X", -1),
        ("ASTHDX", -1),
        ("ADSMOK42", -9),
        ("HIDEG", -7),
    ],
)
def test_people_whose_answers_are_not_known_are_left_out(column: str, value: int) -> None:
    raw = survey()
    raw.loc[0, column] = value
    assert len(meps_module.prepare(raw)) == 5


@pytest.mark.parametrize(("column", "value"), [("ADSMOK42", -1), ("PCS42", -9), ("K6SUM42", -9)])
def test_inapplicable_answers_and_scores_not_ascertained_are_kept(column: str, value: int) -> None:
    raw = survey()
    raw.loc[0, column] = value
    assert len(meps_module.prepare(raw)) == 6


def test_race_and_label() -> None:
    raw = survey(RACEV2X=[1, 1, 2, 2, 1, 1], HISPANX=[2, 1, 2, 1, 2, 2])
    prepared = meps_module.prepare(raw)
    assert prepared["RACE"].tolist() == [
        "White",
        "Non-White",
        "Non-White",
        "Non-White",
        "White",
        "White",
    ]
    assert prepared["UTILIZATION"].tolist() == [0, 0, 0, 1, 1, 1]  # 5 + 4 visits, then 6 + 4


# -- fetching --------------------------------------------------------------------------------------


def test_fetching_keeps_one_table_that_loads(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel_of(tmp_path / "index", monkeypatch)
    steps: list[str] = []
    assert "meps" not in available()
    path = fetch_meps(steps.append)
    assert path == cache / "meps21.csv.gz"
    assert [step.split()[0] for step in steps] == ["Downloading", "Reading", "Keeping"]
    assert kept(cache) == ["meps21.csv.gz"]
    assert "meps" in available()
    data = meps()
    assert data.domain.describe(data.x[0])["gender"] == "Male"
    assert data.y.tolist() == [0, 0, 0, 1, 1, 1]
    before = path.read_bytes()
    fetch_meps()
    assert path.read_bytes() == before


def test_a_wrong_checksum_is_refused(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel_of(tmp_path / "index", monkeypatch)
    expect("0" * 64, monkeypatch)
    with pytest.raises(
        StorageError,
        match=r"not the expected one: SHA-256 [0-9a-f]{64}, expected 0{64}. Nothing was kept",
    ):
        fetch_meps()
    assert kept(cache) == []


@pytest.mark.parametrize(
    ("wheel", "words"),
    [
        (
            {"member": "aif360/data/raw/meps/h181.csv"},
            "has no member aif360/data/raw/meps/h192.csv",
        ),
        ({"text": ""}, "cannot be read"),
        ({"text": "PANEL,SEX\n21,1\n"}, "cannot be read"),
    ],
)
def test_a_wheel_without_the_survey_is_refused(
    wheel: dict[str, str], words: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel_of(tmp_path / "index", monkeypatch, **wheel)
    with pytest.raises(StorageError, match=words):
        fetch_meps()
    assert kept(cache) == []


def test_a_wheel_that_is_not_an_archive_is_refused(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = wheel_of(tmp_path / "index", monkeypatch)
    wheel.write_bytes(b"not a zip")
    expect(hashlib.sha256(b"not a zip").hexdigest(), monkeypatch)
    with pytest.raises(StorageError, match="cannot be read"):
        fetch_meps()
    assert kept(cache) == []


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("FAIRPROBE_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(StorageError, match="Set FAIRPROBE_CACHE"):
        fetch_meps()


def test_a_full_disk_leaves_the_former_table_alone(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel_of(tmp_path / "index", monkeypatch)
    path = fetch_meps()
    before = path.read_bytes()

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_csv", full)
    with pytest.raises(StorageError, match="No space left on device"):
        fetch_meps()
    assert path.read_bytes() == before
    assert kept(cache) == ["meps21.csv.gz"]


@pytest.mark.parametrize(
    ("code", "stderr", "words"),
    [
        (
            1,
            "ERROR: No matching distribution found for aif360==0.2.0\n",
            "No matching distribution found",
        ),
        (1, "/usr/bin/python: No module named pip\n", "Check that pip is installed"),
        (7, "", "it ended with code 7"),
        (0, "", "brought no aif360"),
    ],
)
def test_pip_fails(
    code: int, stderr: str, words: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, code, stderr)
    with pytest.raises(StorageError, match=words):
        fetch_meps()
    assert kept(cache) == []


def test_pip_is_this_interpreters_and_no_host_is_named(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = answer(monkeypatch, 1)
    with pytest.raises(StorageError):
        fetch_meps()
    assert commands[0][:4] == [sys.executable, "-m", "pip", "download"]
    assert not any("://" in part or "index" in part for part in commands[0])


def test_an_interpreter_that_does_not_start(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(cache / "no-python"))
    with pytest.raises(StorageError, match="pip could not be run"):
        fetch_meps()


def test_the_terms_say_what_binds() -> None:
    for word in ("statistical", "not to try to find out who", "not to link", "Data Use Agreement"):
        assert word in TERMS


# -- reading ---------------------------------------------------------------------------------------


def test_a_table_that_was_not_fetched(cache: Path) -> None:
    with pytest.raises(DataError, match="run `python -m papers fetch meps`"):
        meps()


@pytest.mark.parametrize("content", [b"", b"REGION,AGE\n1,2\n", b"\x1f\x8b\x08\x00"])
def test_a_broken_table_says_to_fetch_again(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "meps21.csv.gz"
    file.write_bytes(content)
    with pytest.raises(StorageError, match="fetch meps` again"):
        meps(file)


def test_a_cut_table_says_to_fetch_again(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel_of(tmp_path / "index", monkeypatch)
    path = fetch_meps()
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(StorageError, match="fetch meps` again"):
        meps()


def test_an_unknown_code_is_named(tmp_path: Path) -> None:
    prepared = meps_module.prepare(survey(REGION53=[1, 2, 3, 4, 9, 1]))
    prepared.to_csv(tmp_path / "meps21.csv.gz", index=False)
    with pytest.raises(DomainError, match="Row 4 has 'code 9' for 'region'"):
        meps(tmp_path / "meps21.csv.gz")


def test_scores_not_ascertained_lie_outside_and_inapplicable_ones_inside(tmp_path: Path) -> None:
    prepared = meps_module.prepare(
        survey(PCS42=[-9, -1, 50.5, 50, 50, 50], K6SUM42=[0, 0, -9, -1, 24, 3])
    )
    prepared.to_csv(tmp_path / "meps21.csv.gz", index=False)
    data = meps(tmp_path / "meps21.csv.gz")
    assert data.domain.outside(data.x).rows.tolist() == [True, False, True, False, False, False]
    assert data.domain.describe(data.x[0])["physical-score"] == "not known"


def test_codebook_columns_are_named_once() -> None:
    assert len({variable.column for variable in VARIABLES}) == len(VARIABLES) == 41


# -- the cache folder ------------------------------------------------------------------------------


def test_where_the_cache_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRPROBE_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.delenv("FAIRPROBE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "fairprobe"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "fairprobe"


def test_no_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("FAIRPROBE_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", nowhere)
    with pytest.raises(StorageError, match="Set FAIRPROBE_CACHE"):
        cache_folder()
    assert "meps" not in available()
