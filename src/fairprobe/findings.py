"""`Findings`: the unique IDIs of a search, each with its counterpart and where it came from, in
memory or in a Parquet file.

A row of the table is one pair: a column for every attribute (codes), `<name>_other` for the
counterpart's values of what can change (the sensitive attributes and those coupled to them),
`label` and `label_other`, the model's `probability` of each, the `gap`, the `phase`, and the
`origin` (the number of the seed). `plausibility` and `plausibility_other` are the share of people
who are at least as unusual as each side of the pair; empty where the search had no model of the
table. Where the answer is a number, `answer`, `answer_other` and `change` stand for probabilities
and gap, and `label` is 1 for the higher answer of the two.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fairprobe.arrays import Mask, Rows
from fairprobe.errors import DomainError, StorageError
from fairprobe.schema.attributes import Attribute
from fairprobe.schema.domain import Domain
from fairprobe.storage import replacing

if TYPE_CHECKING:
    import pandas as pd

PHASES = ("global", "local")
PROVENANCE = ("label", "label_other", "probability", "probability_other", "gap", "phase", "origin")
PLAUSIBILITY = ("plausibility", "plausibility_other")
BATCH = 262_144  # pairs at once, and
CELLS = 2**24  # numbers at once: fewer pairs of a wide table
SCORED = {"probability": "answer", "probability_other": "answer_other", "gap": "change"}


@dataclass(frozen=True, kw_only=True)
class Generation:
    """Origin of findings. `tried`: different instances; `judged`: with repetitions;
    `stopped`: what ended the search, "complete", "seconds", "cpu_seconds", "rows", "wanted",
    "interrupted" or "failed"; `scores`: what the method measured itself; `scored`: the answers are
    numbers, not classes. `clusters` and `seeds_by` are how the budget chooses seeds.
    """

    method: str
    variant: str
    seeds: int
    global_iterations: int
    local_iterations: int
    tried: int
    judged: int
    stopped: str
    wall_seconds: float
    cpu_seconds: float
    scores: dict[str, float] = field(default_factory=dict)
    scored: bool = False
    clusters: int = 4
    seeds_by: str = "scaled"


@dataclass(frozen=True)
class Findings:
    """Pairs, in memory (`table`) or on disk (`path`)."""

    domain: Domain
    generation: Generation
    table: pa.Table | None = None
    path: Path | None = None

    # -- looking at them ---------------------------------------------------------------------------

    def __len__(self) -> int:
        if self.table is not None:
            return int(self.table.num_rows)
        with reading(self.path):
            return int(pq.read_metadata(self.path).num_rows)

    def batches(self, size: int | None = None) -> Iterator[pa.RecordBatch]:
        """All pairs, a batch at a time, so that memory stays flat."""
        size = size or min(BATCH, max(1, CELLS // len(self.domain)))
        if self.table is not None:
            yield from self.table.to_batches(max_chunksize=size)
        else:
            with (
                reading(self.path),
                pq.ParquetFile(self.path, page_checksum_verification=True) as file,
            ):
                yield from file.iter_batches(batch_size=size)

    def to_pandas(self, *, codes: bool = False) -> pd.DataFrame:
        """All pairs as a data frame: attributes in words as in the table, or as `codes`."""
        frame: pd.DataFrame = self._whole().to_pandas()
        if not codes:
            for name in self.domain.names:
                frame[name] = _in_words(self.domain[name], frame[name])
            for name in self.domain.changing:
                other = f"{name}_other"
                frame[other] = _in_words(self.domain[name], frame[other])
        return frame

    @property
    def x(self) -> Rows:
        """(n, A) the instances."""
        return self.rows(self._whole())

    @property
    def x_other(self) -> Rows:
        """(n, A) their counterparts."""
        return self.rows(self._whole(), other=True)

    def rows(self, pairs: pa.Table | pa.RecordBatch, *, other: bool = False) -> Rows:
        """Return the instances of some pairs, or their counterparts."""
        names = [
            f"{name}_other" if other and name in self.domain.changing else name
            for name in self.domain.names
        ]
        columns = [
            (
                pairs.column(name).to_numpy(zero_copy_only=False)
                if isinstance(pairs, pa.RecordBatch)
                else pairs.column(name).to_numpy()
            )
            for name in names
        ]
        return (
            np.stack(columns, axis=1).astype(np.float32)
            if columns
            else np.empty((0, 0), dtype=np.float32)
        )

    def column(self, name: str) -> str:
        """Name a column of `PROVENANCE` as in these findings."""
        return SCORED.get(name, name) if self.generation.scored else name

    def some(self, n: int) -> Rows:
        """At most `n` instances, evenly spread over all of them."""
        every = max(1, -(-len(self) // n))
        parts = [self.rows(batch)[::every] for batch in self.batches()]
        return np.concatenate(parts) if parts else self.x

    def count(self, phase: str) -> int:
        """Count the findings of the phase "global" or "local"."""
        code = PHASES.index(phase)
        return sum(int((_phase_codes(batch) == code).sum()) for batch in self.batches())

    def _whole(self) -> pa.Table:
        if self.table is not None:
            return self.table
        with reading(self.path):
            return pq.read_table(self.path, page_checksum_verification=True)

    # -- creating, saving, loading -----------------------------------------------------------------

    @classmethod
    def from_records(
        cls,
        domain: Domain,
        records: Callable[[], Iterable[Any]],
        generation: Generation,
        save_to: Path | None = None,
        *,
        score: Callable[[Rows], Rows] | None = None,
        batches: Callable[[pa.Schema], Iterable[pa.RecordBatch]] | None = None,
    ) -> Findings:
        """Create findings from a ledger's records. They are read again if the file cannot be
        written, so none is lost. `score` is the plausibility of rows. `batches` makes the rows of
        the table elsewhere.
        """
        schema = _schema(domain, generation)

        def here() -> Iterator[pa.RecordBatch]:
            return (batch_of(domain, some, schema, score) for some in records())

        if save_to is not None:
            with suppress(StorageError):  # a later `save` raises it; until then they are in memory
                _write(save_to, schema, here() if batches is None else batches(schema))
                return cls(domain, generation, path=save_to)
        return cls(domain, generation, table=pa.Table.from_batches(here(), schema))

    def save(self, path: Path | str) -> Path:
        """Write a Parquet file, whole or not at all."""
        target = Path(path)
        _write(target, _schema(self.domain, self.generation), self.batches())
        return target

    @classmethod
    def load(cls, path: Path | str, domain: Domain) -> Findings:
        """Open a file written by `save`; the pairs stay on disk. `domain` says which columns are
        attributes.
        """
        source = Path(path)
        with reading(source):
            schema = pq.read_schema(source)
            about = json.loads((schema.metadata or {}).get(b"fairprobe", b"{}"))
            generation = Generation(**about["generation"])
        expected = _schema(domain, generation)
        if schema.names != expected.names or schema.types != expected.types:
            wrong = (
                ", ".join(sorted(set(map(str, schema)) ^ set(map(str, expected)))[:5])
                or "their order"
            )
            raise StorageError(
                f"{source} holds other findings than this domain describes (different: {wrong})."
                " Give the domain they were found in."
            )
        return cls(domain, generation, path=source)

    def where(self, kept: Sequence[Mask]) -> Findings:
        """Keep the pairs that the masks, one for each of `batches()`, select; in memory, or in the
        same file as before.
        """
        schema = _schema(self.domain, self.generation)
        some = (
            batch.filter(pa.array(mask)) for batch, mask in zip(self.batches(), kept, strict=True)
        )
        if self.path is not None and self.table is None:
            _write(self.path, schema, some)
            return self
        return replace(self, table=pa.Table.from_batches(some, schema))

    def merge(self, other: Findings) -> Findings:
        """Merge with other findings, each instance once; those of this one come first."""
        if other.domain != self.domain:
            raise DomainError(
                "Findings of different domains, or of different sensitive attributes, cannot be"
                " merged."
            )
        both = pa.concat_tables([self._whole(), other._whole().cast(self._whole().schema)])
        part = self.domain.canonical(self.rows(both))[:, self.domain.other_columns]
        _, first = np.unique(part, axis=0, return_index=True)
        ours, theirs = self.generation, other.generation
        # The sum of `tried` is an upper bound.
        summed = ("seeds", "tried", "judged", "wall_seconds", "cpu_seconds")
        generation = replace(
            ours,
            **{name: getattr(ours, name) + getattr(theirs, name) for name in summed},
            scores={},
        )
        return Findings(self.domain, generation, table=both.take(np.sort(first)))


def _in_words(attribute: Attribute, codes: pd.Series[Any]) -> Any:
    """Names of categories and ranges of binned numbers; other numbers stay numbers."""
    if attribute.kind == "real" or (attribute.kind == "integer" and attribute.bin == 1):
        return codes
    values, place = np.unique(codes, return_inverse=True)
    return np.array([attribute.describe(float(value)) for value in values], dtype=object)[place]


@contextmanager
def reading(path: Path | None) -> Iterator[None]:
    """Say what is wrong with a file of findings that cannot be read."""
    try:
        yield
    except (
        *(OSError, pa.ArrowException, ValueError, KeyError, TypeError),
        *(RecursionError, MemoryError, OverflowError),
    ) as error:
        raise StorageError(
            f"{path} cannot be read as findings: {error}. Run the audit again."
        ) from error


def check_names(domain: Domain, *, scored: bool = False) -> None:
    """Raise DomainError if an attribute has the name of another column of the findings."""
    columns = _names(domain, scored=scored)
    for name in domain.names:
        if columns.count(name) > 1:
            raise DomainError(
                f"An attribute cannot be called '{name}': the findings have a column of that name."
                " Rename it."
            )


def _names(domain: Domain, *, scored: bool) -> list[str]:
    others = (f"{name}_other" for name in domain.changing)
    own = [SCORED.get(name, name) if scored else name for name in PROVENANCE]
    return [*domain.names, *others, *own, *PLAUSIBILITY]


def _schema(domain: Domain, generation: Generation) -> pa.Schema:
    kinds = {
        "label": pa.int32(),
        "label_other": pa.int32(),
        "origin": pa.int64(),
        "phase": pa.dictionary(pa.int8(), pa.string()),
    }
    codes = [
        pa.float32() if attribute.kind == "real" else pa.int32() for attribute in domain.attributes
    ]
    others = [codes[column] for column in domain.changing_columns]
    rest = [kinds.get(name, pa.float32()) for name in (*PROVENANCE, *PLAUSIBILITY)]
    about = json.dumps({"generation": asdict(generation), "sensitive": domain.sensitive})
    return pa.schema(
        list(zip(_names(domain, scored=generation.scored), [*codes, *others, *rest], strict=True)),
        metadata={"fairprobe": about},
    )


def batch_of(
    domain: Domain, records: Any, schema: pa.Schema, score: Callable[[Rows], Rows] | None
) -> pa.RecordBatch:
    """Return records of a ledger as rows of the table."""
    x = domain.unpack(records["x"])
    other = domain.unpack(records["other"], domain.changing_columns)
    x_other = x.copy()
    x_other[:, domain.changing_columns] = other
    unknown = np.full(len(x), np.nan, dtype=np.float32)
    scores = [unknown, unknown] if score is None else [score(x), score(x_other)]
    columns = [*x.T, *other.T, *(records[name] for name in PROVENANCE), *scores]
    arrays = []
    for column, values in zip(schema, columns, strict=True):
        if column.name == "phase":
            arrays.append(
                pa.DictionaryArray.from_arrays(pa.array(values.astype(np.int8)), pa.array(PHASES))
            )
        else:
            codes = np.ascontiguousarray(values).astype(column.type.to_pandas_dtype())
            arrays.append(pa.array(codes, from_pandas=True))  # a score that is not known is null
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _phase_codes(batch: pa.RecordBatch) -> Any:
    column = batch.column("phase")
    names = column.dictionary.to_pylist()
    return np.array([PHASES.index(name) for name in names], dtype=np.int8)[
        column.indices.to_numpy(zero_copy_only=False)
    ]


def _write(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    # A dictionary of numbers that hardly repeat takes time and room.
    repeat = [column.name for column in schema if column.type not in (pa.float32(), pa.int64())]
    with (
        replacing(path) as temporary,
        pq.ParquetWriter(
            temporary, schema, compression="zstd", use_dictionary=repeat, write_page_checksum=True
        ) as writer,
    ):
        for batch in batches:
            writer.write_batch(batch)
