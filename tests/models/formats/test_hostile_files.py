"""Whatever can be wrong with what is given: each is said in a sentence that helps, and nothing
already found is lost.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

import fairprobe as fp
from fairprobe import networks
from fairprobe.arrays import Rows
from fairprobe.datasets import Dataset, rows_from_frame
from fairprobe.errors import (
    FairprobeError,
    InputError,
    StorageError,
)
from fairprobe.findings import Findings
from fairprobe.judgement import Verdict, judge
from fairprobe.models import Model, TorchModel, one_thread
from fairprobe.runs.store import RunFolder
from fairprobe.schema.domain import Attribute, Constraint, Domain
from fairprobe.search import Budget, NeuronFair, loop, merge, search
from fairprobe.search.ledger import Ledger
from fairprobe.search.neuron_bias import neuron_bias
from tests.helpers import everybody, planted, read_document, tiny_domain

DOMAIN = tiny_domain()
ROWS = everybody(DOMAIN)
LABELS = (ROWS[:, 0] > 4).astype(np.int64)
WORDS = pd.DataFrame(
    {"skill": [3, 4], "gender": ["female", "male"], "effort": [1, 5], "race": ["a", "c"]}
)


def data(**changes: Any) -> Dataset:
    fields: dict[str, Any] = {
        "name": "toy",
        "domain": Domain(DOMAIN.attributes),
        "x": ROWS,
        "y": LABELS,
        "classes": ("no", "yes"),
    }
    return Dataset(**(fields | changes))


def audit(model: nn.Module | Model, **changes: Any) -> fp.Audit:
    return fp.audit(
        data(**changes), model, "gender", budget=Budget(seeds=20, local_iterations=10), samples=200
    )


def with_cell(row: int, column: int, value: float) -> Rows:
    x = ROWS.copy()
    x[row, column] = value
    return x


def words(**columns: list[Any]) -> pd.DataFrame:
    return WORDS.assign(**columns)


def poisoned(value: float) -> nn.Sequential:
    network = planted(DOMAIN)
    layer = network.linear2
    assert isinstance(layer, nn.Linear)
    with torch.no_grad():
        layer.weight[0, 0] = value
    return network


class Rises(nn.Module):
    """A network with probabilities above one."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 3)

    def forward(self, z: Tensor) -> Tensor:
        return torch.relu(self.first(z))[:, :2] + 3


@pytest.fixture(autouse=True, scope="module")
def one_core() -> Iterator[None]:
    """Networks this small are faster on one core, much faster on a busy machine."""
    with one_thread():
        yield


Attempt = Callable[[], object]

# What is wrong; who is told; and a piece of the sentence: where it is, what came, what was
# expected.
BAD: dict[str, tuple[Attempt, str]] = {
    # numbers that are none
    "NaN in the rows": (
        lambda: data(x=with_cell(7, 2, np.nan)),
        r"Row 7 of the rows of 'toy'.*'effort' \(it is nan\)",
    ),
    "infinity in the rows": (
        lambda: data(x=with_cell(7, 0, np.inf)),
        r"Row 7 .*'skill' \(it is inf\)",
    ),
    "NaN in the labels": (
        lambda: data(y=np.where(np.arange(len(ROWS)) == 3, np.nan, LABELS)),
        r"Row 3 has no label",
    ),
    "NaN in a table": (
        lambda: rows_from_frame(words(skill=[3, np.nan]), DOMAIN),
        r"Row 1 has no value for 'skill' \(1 of 2 rows",
    ),
    "nothing in a table": (
        lambda: rows_from_frame(words(race=["a", None]), DOMAIN),
        r"Row 1 has no value for 'race'",
    ),
    "words for numbers": (lambda: data(x=np.full((4, 4), "much")), r"must be numbers"),
    "a word in a column of numbers": (
        lambda: rows_from_frame(words(skill=["3", "much"]), DOMAIN),
        r"Row 1 has 'much' for 'skill'",
    ),
    "a fraction of a category": (
        lambda: data(x=with_cell(5, 3, 0.5)),
        r"Row 5 .* 0\.5 for 'race'.*categorical.*whole",
    ),
    "a fraction in a table": (
        lambda: rows_from_frame(words(effort=[1, 2.5]), DOMAIN),
        r"Row 1 has '2\.5' for 'effort'.*whole",
    ),
    # categories
    "an unknown category": (
        lambda: rows_from_frame(words(gender=["female", "mal"]), DOMAIN),
        r"Row 1 has 'mal' for 'gender'.*Did you mean 'male'\?.*Known: female, male",
    ),
    # bounds
    "a value above its bounds": (
        lambda: DOMAIN.require_inside(with_cell(9, 0, 11)),
        r"1 of 300 rows lie outside.*row 9 has 11 for 'skill', whose bounds are 0 to 9.*Clip",
    ),
    "a value below its bounds": (
        lambda: DOMAIN.require_inside(with_cell(9, 2, 0)),
        r"row 9 has 0 for 'effort'",
    ),
    "a sensitive value that does not exist": (
        lambda: judge(DOMAIN, TorchModel(planted(DOMAIN)), with_cell(2, 1, 5)),
        r"Row 2 has 5",
    ),
    "rows outside, refused on request": (
        lambda: fp.audit(data(x=with_cell(9, 0, 11)), planted(DOMAIN), "gender", outside="refuse"),
        r"row 9 has 11 for 'skill'",
    ),
    # shapes
    "too few columns": (lambda: data(x=ROWS[:, :3]), r"shape \(300, 3\); expected \(rows, 4\)"),
    "too many columns": (
        lambda: data(x=np.c_[ROWS, ROWS]),
        r"shape \(300, 8\); expected \(rows, 4\)",
    ),
    "a column that is not there": (
        lambda: rows_from_frame(WORDS.drop(columns="skill"), DOMAIN),
        r"no column 'skill'",
    ),
    "a column misspelt": (
        lambda: rows_from_frame(WORDS.rename(columns={"skill": "skil"}), DOMAIN),
        r"no column 'skill'.*Did you mean 'skil'",
    ),
    "fewer labels than rows": (
        lambda: data(y=LABELS[:-1]),
        r"shape \(299,\); expected one for each of the 300 rows",
    ),
    # labels
    "labels of one class": (
        lambda: data(y=np.ones(len(ROWS))),
        r"one class only \('yes'\).*at least two",
    ),
    "labels of no class": (lambda: data(y=LABELS + 1), r"numbers 0 to 1 of the classes no, yes"),
    "no row at all": (lambda: data(x=ROWS[:0], y=LABELS[:0]), r"no row at all"),
    # groups
    "an empty group": (
        lambda: data(x=np.where(np.arange(4) == 1, 0, ROWS)).with_sensitive("gender"),
        r"same value of 'gender' \(female\).*no groups to compare",
    ),
    "a sensitive attribute that is real": (
        lambda: Domain(
            (Attribute(name="r", kind="real", low=0, high=1), *DOMAIN.attributes), sensitive=("r",)
        ),
        r"'r' is real.*Bin it",
    ),
    "constraints that leave nobody": (
        lambda: Domain(
            DOMAIN.attributes, ("gender",), (Constraint("nobody", lambda c: c["skill"] > 99),)
        ).sample(10, rng=np.random.default_rng(0)),
        r"The constraints nobody exclude almost all",
    ),
    # networks
    "a network with NaN": (lambda: audit(poisoned(float("nan"))), r"not finite.*[Cc]heck"),
    "a network with infinity": (lambda: audit(poisoned(float("inf"))), r"not finite.*[Cc]heck"),
    "a black box that answers NaN": (
        lambda: judge(DOMAIN, Model(lambda x: np.full(len(x), np.nan)), ROWS),
        r"output for row 0 is not finite",
    ),
    "a black box that answers too little": (
        lambda: judge(DOMAIN, Model(lambda x: np.zeros(3)), ROWS),
        r"returned shape \(3,\) for 600 rows",
    ),
    "logits taken for probabilities": (
        lambda: judge(DOMAIN, TorchModel(Rises(), outputs="probabilities"), ROWS),
        r"not a probability.*softmax",
    ),
    "a network of another width": (
        lambda: audit(nn.Sequential(nn.Linear(7, 3), nn.ReLU(), nn.Linear(3, 2))),
        r"takes 7 columns; 'toy' has 4",
    ),
    "training that diverges": (
        lambda: networks.train(
            networks.dense(DOMAIN, (4,)), data(), training=networks.Training(learning_rate=1e30)
        ),
        r"diverged.*learning rate",
    ),
    "a table too small to train on": (
        lambda: networks.train(
            networks.dense(DOMAIN, (4,)), data(x=ROWS[[0, 299]], y=LABELS[[0, 299]])
        ),
        r"2 rows, too few",
    ),
    # settings
    "an unknown data set": (lambda: fp.datasets.load("adlt"), r"Did you mean 'adult'"),
    "an unknown attribute": (lambda: data().with_sensitive("rac"), r"Did you mean 'race'"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_is_wrong_is_said_with_its_place_and_a_way_out(what: str) -> None:
    attempt, sentence = BAD[what]
    with pytest.raises(FairprobeError, match=sentence) as caught:
        attempt()
    assert isinstance(caught.value, InputError)
    message = str(caught.value)
    assert "Traceback" not in message
    assert message[0].isupper() or message[0] in "'/"
    assert message.rstrip().endswith((".", "?", ")"))


def test_rows_outside_the_domain_are_counted_by_attribute_and_audited_as_they_are() -> None:
    x = ROWS.copy()
    x[:5, 0], x[3:10, 2] = 50, 70
    body = audit(planted(DOMAIN), x=x).to_dict()
    assert body["data"]["outside"] == {"rows": 10, "by_attribute": {"skill": 5, "effort": 7}}


# -- nothing already found is lost -----------------------------------------------------------------


def full(*_: Any, **__: Any) -> NoReturn:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A run that was made before things went wrong, and how many it found."""
    folder = tmp_path_factory.mktemp("earlier") / "run"
    return folder, len(fp.save(audit(planted(DOMAIN)), folder).findings)


TROUBLE: dict[str, Callable[[Path], object]] = {
    "the folder exists": lambda run: RunFolder(run),
    "the folder is a file": lambda run: RunFolder(run / "audit.json"),
    "the folder lies below a file": lambda run: RunFolder(run / "audit.json" / "run"),
    "the audit fails": lambda run: fp.save(audit(poisoned(float("nan"))), run, overwrite=True),
    "the data are bad": lambda run: fp.save(
        audit(planted(DOMAIN), x=with_cell(0, 0, np.nan)), run, overwrite=True
    ),
}


@pytest.mark.parametrize("trouble", TROUBLE)
def test_trouble_with_a_new_run_leaves_the_earlier_one_readable(
    earlier: tuple[Path, int], trouble: str
) -> None:
    run, count = earlier
    with pytest.raises(FairprobeError):
        TROUBLE[trouble](run)
    assert len(Findings.load(run / "findings.parquet", DOMAIN)) == count > 0
    assert read_document(run)["generation"]["idis"] == count
    assert [path.name for path in run.parent.iterdir()] == ["run"]


def test_a_full_disk_loses_neither_the_new_findings_nor_the_earlier_run(
    earlier: tuple[Path, int], temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, count = earlier
    done = audit(planted(DOMAIN))
    real, calls = networks.save, []

    def once(*words: Any) -> None:
        calls.append(words)
        full() if len(calls) == 1 else real(*words)

    monkeypatch.setattr(networks, "save", once)
    with pytest.raises(StorageError, match=r"No space left on device.*Nothing is lost") as caught:
        fp.save(done, run, overwrite=True)
    assert read_document(run)["generation"]["idis"] == count
    match = re.search(r"the whole run is in (\S+)\.$", str(caught.value))
    assert match is not None
    assert len(Findings.load(Path(match[1]) / "findings.parquet", DOMAIN)) == len(done.findings) > 0


def within_reach(attempt: Callable[[], Findings], *places: Path) -> int:
    """How many findings can still be had after a search that may have failed: returned, carried by
    the error, or in a file.
    """
    try:
        return len(attempt())
    except FairprobeError as error:
        carried = getattr(error, "findings", None)
        if carried is not None:
            return len(carried)
    for place in places:
        if place.exists():
            return len(Findings.load(place, DOMAIN))
    return 0


def go(save_to: Path | None = None) -> Findings:
    model = TorchModel(planted(DOMAIN))
    method = NeuronFair(layer=neuron_bias(DOMAIN, model, ROWS).most_biased)
    return search(
        DOMAIN,
        model,
        method,
        ROWS[::3],
        Budget(local_iterations=50),
        rng=np.random.default_rng(0),
        save_to=save_to,
    )


def test_a_search_whose_temporary_disk_is_full_keeps_what_it_had_found(
    temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Small(Ledger):
        def __init__(self, domain: Domain) -> None:
            super().__init__(domain, limit=20)

    real = Path.open

    def no_room(path: Path, *words: Any, **options: Any) -> Any:
        return full() if temporary in path.parents else real(path, *words, **options)

    assert len(go()) > 20
    monkeypatch.setattr(merge, "Ledger", Small)
    monkeypatch.setattr(Path, "open", no_room)
    assert within_reach(lambda: go(tmp_path / "f.parquet"), tmp_path / "f.parquet") > 0


def test_a_network_that_turns_to_nan_in_the_middle_of_a_search_does_not_take_the_findings_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def sick(domain: Domain, model: Model, x: Rows) -> Verdict:
        calls.append(len(x))
        return judge(
            domain, Model(lambda rows: np.full(len(rows), np.nan)) if len(calls) > 60 else model, x
        )

    assert len(go()) > 0
    monkeypatch.setattr(loop, "judge", sick)
    assert within_reach(lambda: go(tmp_path / "f.parquet"), tmp_path / "f.parquet") > 0


def test_a_place_for_the_findings_that_cannot_be_written_does_not_cost_them(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "nowhere" / "f.parquet", tmp_path / "file" / "f.parquet"):
        assert len(go(save_to=place)) == len(go()) > 0


# -- files -----------------------------------------------------------------------------------------

READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "findings": ("findings.parquet", lambda run: Findings.load(run / "findings.parquet", DOMAIN)),
    "document": ("audit.json", read_document),
    "weights": ("model/model.safetensors", lambda run: networks.load(run / "model", DOMAIN)),
    "description": ("model/model.json", lambda run: networks.load(run / "model", DOMAIN)),
}


@pytest.fixture(scope="module")
def trained_run(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("trained") / "run"
    fp.save(audit(networks.dense(DOMAIN, (6, 4), seed=1)), folder)
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


DAMAGE: dict[str, Callable[[bytes], bytes | None]] = {
    "gone": lambda _: None,
    "empty": lambda _: b"",
    "cut in the middle": lambda content: content[: len(content) // 2],
    "cut by a byte": lambda content: content[:-2],
    "noise": lambda content: np.random.default_rng(0).bytes(len(content)),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("reader", READERS)
def test_a_file_that_was_cut_or_is_something_else_is_named(
    trained_run: dict[str, bytes], tmp_path: Path, reader: str, damage: str
) -> None:
    for name, content in trained_run.items():
        (tmp_path / "run" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "run" / name).write_bytes(content)
    name, read = READERS[reader]
    read(tmp_path / "run")  # as long as nothing is wrong, it is read
    damaged = DAMAGE[damage](trained_run[name])
    (
        (tmp_path / "run" / name).unlink()
        if damaged is None
        else (tmp_path / "run" / name).write_bytes(damaged)
    )
    with pytest.raises(StorageError, match=re.escape(str(tmp_path / "run"))):
        read(tmp_path / "run")
