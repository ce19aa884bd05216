"""Findings: the columns that are promised, the file they live in, and what happens when that file
is not what it should be.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fairprobe import findings as findings_module
from fairprobe import storage
from fairprobe.errors import DomainError, StorageError
from fairprobe.findings import PROVENANCE, Findings, check_names
from fairprobe.models import TorchModel, one_thread
from fairprobe.schema.domain import Attribute, Domain
from fairprobe.search import Budget, NeuronFair, choose_seeds, search
from fairprobe.search.neuron_bias import neuron_bias
from tests.helpers import everybody, planted, tiny_domain


def find(
    domain: Domain, *, seed: int = 0, save_to: Path | None = None, bias: float = 2.0
) -> Findings:
    rng = np.random.default_rng(seed)
    model = TorchModel(planted(domain, bias=bias))
    x = domain.sample(300, rng=np.random.default_rng(0))
    method = NeuronFair(layer=neuron_bias(domain, model, x).most_biased)
    seeds = choose_seeds(domain, x, 30, rng=rng)
    return search(
        domain, model, method, seeds, Budget(local_iterations=30), rng=rng, save_to=save_to
    )


@pytest.fixture(autouse=True, scope="module")
def one_core() -> Iterator[None]:
    """Networks this small are faster on one core, much faster on a busy machine."""
    with one_thread():
        yield


@pytest.fixture(scope="module")
def domain() -> Domain:
    return Domain(
        (
            Attribute(name="gender", kind="categorical", categories=("female", "male")),
            Attribute(name="income", kind="real", low=0, high=10),
            Attribute(name="age", low=18, high=60),
            Attribute(name="race", low=0, high=2),
            Attribute(name="children", low=0, high=9),
        ),
        sensitive=("race", "gender"),
    )


@pytest.fixture(scope="module")
def found(domain: Domain) -> Findings:
    findings = find(domain)
    assert len(findings) > 100
    assert findings.count("global") > 0
    return findings


# -- columns ---------------------------------------------------------------------------------------

COLUMNS = ["gender", "income", "age", "race", "children", "race_other", "gender_other"]
BESIDE = ["label", "label_other", "probability", "probability_other", "gap", "phase", "origin"]
SCORES = ["plausibility", "plausibility_other"]


def test_the_columns_are_the_attributes_the_counterparts_values_and_the_provenance(
    found: Findings,
) -> None:
    assert list(found.to_pandas(codes=True).columns) == COLUMNS + BESIDE + SCORES
    assert list(PROVENANCE) == BESIDE


def test_codes_of_whole_attributes_are_integers_and_of_real_ones_floats(found: Findings) -> None:
    kinds = {name: str(kind) for name, kind in found.to_pandas(codes=True).dtypes.items()}
    whole = [
        "gender",
        "age",
        "race",
        "children",
        "race_other",
        "gender_other",
        "label",
        "label_other",
        "origin",
    ]
    assert all(kinds[name].startswith("int") for name in whole), kinds
    assert all(
        kinds[name] == "float32" for name in ("income", "probability", "probability_other", "gap")
    ), kinds


def test_no_cell_is_empty_and_every_number_is_what_its_name_says(found: Findings) -> None:
    frame = found.to_pandas(codes=True)
    assert frame[SCORES].isna().all().all()  # a search without a model of the table
    assert not frame.drop(columns=SCORES).isna().any().any()
    assert set(frame["phase"].astype(str)) == {"global", "local"}
    assert (
        frame[["probability", "probability_other", "gap"]]
        .apply(lambda column: column.between(0, 1))
        .all()
        .all()
    )
    assert frame["probability"].min() >= 0.5  # of the predicted class, of two
    assert frame["origin"].between(0, 29).all()


def test_x_and_x_other_are_the_rows_of_the_table(found: Findings, domain: Domain) -> None:
    frame = found.to_pandas(codes=True)
    np.testing.assert_array_equal(found.x, frame[list(domain.names)].to_numpy(dtype=np.float32))
    other = frame[["gender_other", "income", "age", "race_other", "children"]].to_numpy(
        dtype=np.float32
    )
    np.testing.assert_array_equal(found.x_other, other)
    assert found.x.dtype == found.x_other.dtype == np.float32


def test_a_data_frame_is_in_the_words_of_the_table_unless_codes_are_asked_for() -> None:
    domain = Domain(
        (
            Attribute(name="gender", kind="categorical", categories=("female", "male")),
            Attribute(name="age", low=1, high=6, bin=10),
            Attribute(name="children", low=0, high=9),
            Attribute(name="income", kind="real", low=0, high=10),
        ),
        sensitive=("gender",),
    )
    found = find(domain)
    words, codes = found.to_pandas(), found.to_pandas(codes=True)
    assert list(words.columns) == list(codes.columns)
    for place in range(len(found)):
        row = domain.describe(found.x[place])
        assert words["gender"][place] == row["gender"]
        assert words["age"][place] == row["age"]
        assert words["gender_other"][place] == domain.describe(found.x_other[place])["gender"]
    untouched = [name for name in codes if name not in ("gender", "gender_other", "age")]
    pd.testing.assert_frame_equal(words[untouched], codes[untouched])
    assert set(words["gender"]) == {"female", "male"}


def test_the_counts_of_the_phases_add_up(found: Findings) -> None:
    phases = found.to_pandas(codes=True)["phase"].astype(str)
    assert found.count("global") == (phases == "global").sum()
    assert found.count("local") == (phases == "local").sum()
    assert found.count("global") + found.count("local") == len(found)


@pytest.mark.parametrize("name", [*PROVENANCE, "gender_other"])
def test_an_attribute_may_not_be_called_like_a_column_of_the_findings(name: str) -> None:
    clash = Domain(
        (
            Attribute(name=name, low=0, high=3),
            Attribute(name="gender", low=0, high=1),
            Attribute(name="age", low=0, high=3),
        ),
        sensitive=("gender",),
    )
    with pytest.raises(DomainError, match=rf"cannot be called '{name}'.*Rename it"):
        check_names(clash)


def test_other_names_are_allowed(domain: Domain) -> None:
    check_names(domain)
    check_names(
        Domain(
            (Attribute(name="age_other", low=0, high=3), Attribute(name="gender", low=0, high=1)),
            sensitive=("gender",),
        )
    )


# -- files -----------------------------------------------------------------------------------------


def test_a_saved_file_gives_back_the_same_findings(
    found: Findings, domain: Domain, tmp_path: Path
) -> None:
    path = found.save(tmp_path / "findings.parquet")
    again = Findings.load(path, domain)
    assert again.table is None
    assert len(again) == len(found)
    pd.testing.assert_frame_equal(again.to_pandas(codes=True), found.to_pandas(codes=True))
    np.testing.assert_array_equal(again.x, found.x)
    np.testing.assert_array_equal(again.x_other, found.x_other)
    assert (again.count("global"), again.count("local")) == (
        found.count("global"),
        found.count("local"),
    )
    assert again.generation == found.generation


def test_a_saved_file_can_be_read_without_fairprobe(found: Findings, tmp_path: Path) -> None:
    found.save(tmp_path / "findings.parquet")
    frame = pd.read_parquet(tmp_path / "findings.parquet")
    pd.testing.assert_frame_equal(frame, found.to_pandas(codes=True))


def test_saving_takes_a_string_and_replaces_a_file_that_is_there(
    found: Findings, domain: Domain, tmp_path: Path
) -> None:
    path = tmp_path / "findings.parquet"
    path.write_text("older")
    assert found.save(str(path)) == path
    assert len(Findings.load(str(path), domain)) == len(found)
    assert [file.name for file in tmp_path.iterdir()] == ["findings.parquet"]


def test_findings_on_disk_can_be_saved_elsewhere_and_over_themselves(
    found: Findings, domain: Domain, tmp_path: Path
) -> None:
    on_disk = Findings.load(found.save(tmp_path / "a.parquet"), domain)
    on_disk.save(tmp_path / "b.parquet")
    on_disk.save(tmp_path / "a.parquet")
    for name in ("a.parquet", "b.parquet"):
        pd.testing.assert_frame_equal(
            Findings.load(tmp_path / name, domain).to_pandas(codes=True),
            found.to_pandas(codes=True),
        )


def test_a_file_is_readable_by_others_as_other_files_are(found: Findings, tmp_path: Path) -> None:
    assert found.save(tmp_path / "f.parquet").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("where", ["memory", "disk"])
@pytest.mark.parametrize("size", [1, 7, 10**6])
def test_batches_together_are_the_whole_and_none_is_too_large(
    found: Findings, domain: Domain, tmp_path: Path, where: str, size: int
) -> None:
    findings = (
        found if where == "memory" else Findings.load(found.save(tmp_path / "f.parquet"), domain)
    )
    batches = list(findings.batches(size))
    assert max(batch.num_rows for batch in batches) <= size
    np.testing.assert_array_equal(
        np.concatenate([findings.rows(batch) for batch in batches]), found.x
    )
    np.testing.assert_array_equal(
        np.concatenate([findings.rows(batch, other=True) for batch in batches]), found.x_other
    )


def test_batches_of_a_wide_table_are_smaller(
    found: Findings, domain: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairprobe.findings.CELLS", 3 * len(domain))
    assert {batch.num_rows for batch in list(found.batches())[:-1]} == {3}


def test_no_findings_are_saved_and_loaded_like_any(domain: Domain, tmp_path: Path) -> None:
    none = find(domain, bias=0.0)
    assert len(none) == 0
    again = Findings.load(none.save(tmp_path / "none.parquet"), domain)
    for findings in (none, again):
        assert len(findings) == findings.count("global") == findings.count("local") == 0
        assert findings.x.shape == findings.x_other.shape == (0, len(domain))
        assert list(findings.to_pandas(codes=True).columns) == COLUMNS + BESIDE + SCORES
        assert len(findings.merge(none)) == 0


# -- merging ---------------------------------------------------------------------------------------


def people(findings: Findings) -> list[tuple[float, ...]]:
    return [tuple(row) for row in findings.x[:, findings.domain.other_columns].tolist()]


def test_merged_findings_hold_everybody_of_both_once_and_the_first_as_they_were() -> None:
    domain = tiny_domain()
    x = everybody(domain)
    model = TorchModel(planted(domain))
    method = NeuronFair(layer=neuron_bias(domain, model, x).most_biased)
    one, two = (
        search(
            domain,
            model,
            method,
            x[part],
            Budget(global_iterations=1, local_iterations=1),
            rng=np.random.default_rng(0),
        )
        for part in (np.s_[:160], np.s_[140:])
    )
    assert set(people(one)) & set(people(two))
    assert set(people(two)) - set(people(one))
    both = one.merge(two)
    assert len(both) == len(set(people(both)))
    assert set(people(both)) == set(people(one)) | set(people(two))
    pd.testing.assert_frame_equal(
        both.to_pandas(codes=True).head(len(one)), one.to_pandas(codes=True)
    )


def test_merged_findings_add_up_what_both_searches_were_given_and_cost(
    found: Findings, domain: Domain
) -> None:
    more = find(domain, seed=1)
    both, one, two = (each.generation for each in (found.merge(more), found, more))
    assert one.cpu_seconds > 0
    for name in ("seeds", "tried", "judged", "wall_seconds", "cpu_seconds"):
        assert getattr(both, name) == getattr(one, name) + getattr(two, name), name
    assert (both.method, both.variant) == (one.method, one.variant)


def test_merging_with_itself_changes_nothing(found: Findings) -> None:
    pd.testing.assert_frame_equal(
        found.merge(found).to_pandas(codes=True), found.to_pandas(codes=True)
    )


def test_findings_on_disk_merge_as_those_in_memory_and_can_be_saved(
    found: Findings, domain: Domain, tmp_path: Path
) -> None:
    more = find(domain, seed=1)
    in_memory = found.merge(more)
    on_disk = Findings.load(found.save(tmp_path / "a.parquet"), domain).merge(
        Findings.load(more.save(tmp_path / "b.parquet"), domain)
    )
    pd.testing.assert_frame_equal(on_disk.to_pandas(codes=True), in_memory.to_pandas(codes=True))
    again = Findings.load(on_disk.save(tmp_path / "both.parquet"), domain)
    assert len(again) == len(in_memory) > len(found)
    assert again.count("global") + again.count("local") == len(again)


def test_merged_findings_are_no_more_than_were_tried(found: Findings, domain: Domain) -> None:
    # Else the success rate of the merged findings would be above one.
    both = found.merge(find(domain, seed=1)).merge(find(domain, seed=2)).merge(find(domain, seed=3))
    assert both.generation.tried >= len(both)
    assert both.generation.tried > found.generation.tried


def test_findings_of_another_domain_or_other_sensitive_attributes_are_not_merged(
    found: Findings, domain: Domain
) -> None:
    with pytest.raises(DomainError, match="cannot be merged"):
        found.merge(find(tiny_domain()))
    with pytest.raises(DomainError, match="cannot be merged"):
        found.merge(replace(found, domain=domain.with_sensitive("gender")))


# -- files that are not what they should be --------------------------------------------------------


def truncate(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def write_parquet(path: Path, table: pa.Table, about: str | None) -> None:
    pq.write_table(
        table if about is None else table.replace_schema_metadata({"fairprobe": about}), path
    )


def make_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGE: dict[str, Callable[[Path], object]] = {
    "truncated": truncate,
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("a,b\n1,2\n"),
    "missing": Path.unlink,
    "a folder": make_a_folder,
    "a table of somebody else": lambda path: write_parquet(
        path, pa.table({"age": [1], "label": [0]}), None
    ),
    "a table without columns": lambda path: write_parquet(path, pa.table({}), None),
    "our note is no JSON": lambda path: write_parquet(path, pa.table({"age": [1]}), "{half"),
    "our note is another JSON": lambda path: write_parquet(path, pa.table({"age": [1]}), "[1, 2]"),
    "written by another version": lambda path: write_parquet(
        path, pa.table({"age": [1]}), json.dumps({"generation": {"speed": 3}})
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_file_that_holds_no_findings_is_refused_by_name(
    found: Findings, domain: Domain, tmp_path: Path, damage: str
) -> None:
    path = found.save(tmp_path / "findings.parquet")
    DAMAGE[damage](path)
    with pytest.raises(StorageError, match=r"findings\.parquet"):
        Findings.load(path, domain)


@pytest.mark.parametrize("place", ["the start", "the middle"])
def test_a_file_damaged_inside_is_never_taken_for_findings(
    found: Findings, domain: Domain, tmp_path: Path, place: str
) -> None:
    path = found.save(tmp_path / "findings.parquet")
    content = path.read_bytes()
    path.write_bytes(
        content[100:] if place == "the start" else content[:200] + b"\xff" * 60 + content[260:]
    )
    with pytest.raises(StorageError, match=r"findings\.parquet"):
        Findings.load(path, domain).to_pandas(codes=True)


def flip_a_bit_unnoticed(path: Path) -> None:
    """Changes one value in a file so that reading it without its checksums gives no error."""
    content, before = path.read_bytes(), pq.read_table(path)
    chunk = pq.read_metadata(path).row_group(0).column(1)
    for place in range(chunk.data_page_offset, len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        try:
            if pq.read_table(path) != before:
                return
        except (OSError, pa.ArrowException):
            continue
    raise AssertionError("every change is noticed")


@pytest.mark.parametrize(
    "read",
    [lambda findings: list(findings.batches()), lambda findings: findings.to_pandas(codes=True)],
    ids=["in batches", "whole"],
)
def test_a_flipped_bit_is_found_by_its_checksum(
    found: Findings, domain: Domain, tmp_path: Path, read: Callable[[Findings], Any]
) -> None:
    path = found.save(tmp_path / "findings.parquet")
    flip_a_bit_unnoticed(path)
    with pytest.raises(StorageError, match=r"findings\.parquet"):
        read(Findings.load(path, domain))


WRONG_DOMAINS: dict[str, Callable[[Domain], Domain]] = {
    "other attributes": lambda domain: tiny_domain(),
    "another sensitive attribute": lambda domain: domain.with_sensitive("gender"),
    "the sensitive attributes in another order": lambda domain: domain.with_sensitive(
        ("gender", "race")
    ),
    "the attributes in another order": lambda domain: Domain(
        domain.attributes[::-1], sensitive=domain.sensitive
    ),
    "one attribute less": lambda domain: Domain(domain.attributes[:-1], sensitive=domain.sensitive),
    "another kind": lambda domain: Domain(
        tuple(
            (
                replace(attribute, kind="integer", grain=1.0)
                if attribute.name == "income"
                else attribute
            )
            for attribute in domain.attributes
        ),
        sensitive=domain.sensitive,
    ),
}


@pytest.mark.parametrize("wrong", WRONG_DOMAINS)
def test_findings_are_not_loaded_with_a_domain_that_does_not_describe_them(
    found: Findings, domain: Domain, tmp_path: Path, wrong: str
) -> None:
    path = found.save(tmp_path / "findings.parquet")
    with pytest.raises(
        StorageError, match=r"findings\.parquet.*Give the domain they were found in"
    ):
        Findings.load(path, WRONG_DOMAINS[wrong](domain))


# -- a disk that is full, a place that cannot be written -------------------------------------------


def full(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_saving_to_a_full_disk_says_so_leaves_nothing_and_keeps_the_findings(
    found: Findings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = found.to_pandas(codes=True)
    with monkeypatch.context() as patch:
        patch.setattr(pq.ParquetWriter, "write_batch", full)
        with pytest.raises(StorageError, match=r"findings\.parquet: No space left on device"):
            found.save(tmp_path / "findings.parquet")
    assert list(tmp_path.iterdir()) == []
    pd.testing.assert_frame_equal(found.to_pandas(codes=True), before)
    assert found.save(tmp_path / "findings.parquet").exists()


def test_a_failed_save_leaves_the_older_file_as_it_was(
    found: Findings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "findings.parquet"
    path.write_text("older")
    monkeypatch.setattr(pq.ParquetWriter, "write_batch", full)
    with pytest.raises(StorageError):
        found.save(path)
    assert path.read_text() == "older"
    assert [file.name for file in tmp_path.iterdir()] == ["findings.parquet"]


def test_an_interrupted_save_leaves_nothing_half_written(
    found: Findings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pq.ParquetWriter, "write_batch", interrupt)
    with pytest.raises(KeyboardInterrupt):
        found.save(tmp_path / "findings.parquet")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["not there/f.parquet", "file/f.parquet"])
def test_a_place_that_cannot_be_written_is_named(
    found: Findings, tmp_path: Path, place: str
) -> None:
    (tmp_path / "file").write_text("a file, no folder")
    with pytest.raises(StorageError, match=r"Cannot write .*f\.parquet.*another place"):
        found.save(tmp_path / place)


FAILURES: dict[str, tuple[Any, str]] = {
    "the writer": (pq.ParquetWriter, "write_batch"),
    "the name": (Path, "replace"),
    "the folder": (storage, "_part"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_search_whose_file_cannot_be_written_keeps_its_findings_in_memory(
    domain: Domain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: str
) -> None:
    expected = find(domain).to_pandas(codes=True)
    with monkeypatch.context() as patch:
        patch.setattr(*FAILURES[failure], full)
        kept = find(domain, save_to=tmp_path / "findings.parquet")
    assert list(tmp_path.iterdir()) == []
    assert kept.path is None
    pd.testing.assert_frame_equal(kept.to_pandas(codes=True), expected)
    assert len(Findings.load(kept.save(tmp_path / "later.parquet"), domain)) == len(expected)


def test_a_file_that_cannot_be_finished_keeps_the_findings_in_memory(
    domain: Domain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, closed = pq.ParquetWriter.close, []

    def close(writer: Any) -> None:
        closed.append(writer)
        real(writer)
        if len(closed) == 1:
            full()

    monkeypatch.setattr(pq.ParquetWriter, "close", close)
    kept = find(domain, save_to=tmp_path / "findings.parquet")
    assert closed
    assert list(tmp_path.iterdir()) == []
    pd.testing.assert_frame_equal(kept.to_pandas(codes=True), find(domain).to_pandas(codes=True))


def test_a_disk_that_fills_up_in_the_middle_of_many_batches_keeps_everything(
    domain: Domain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = find(domain)
    real, calls = pq.ParquetWriter.write_batch, []

    def sometimes(writer: Any, batch: Any) -> None:
        calls.append(batch.num_rows)
        full() if len(calls) == 2 else real(writer, batch)

    monkeypatch.setattr(pq.ParquetWriter, "write_batch", sometimes)
    on_disk = find(domain, save_to=tmp_path / "f.parquet")
    assert on_disk.path is not None  # one batch is all there is
    many = (
        replace(expected, table=pa.Table.from_batches(expected.table.to_batches(max_chunksize=20)))
        if expected.table
        else expected
    )
    calls.clear()
    with pytest.raises(StorageError, match="No space left"):
        many.save(tmp_path / "g.parquet")
    assert len(calls) == 2
    assert [file.name for file in tmp_path.iterdir()] == ["f.parquet"]
    assert len(many) == len(expected)


def test_the_size_of_a_batch_keeps_memory_flat() -> None:
    assert findings_module.BATCH <= 2**20
