"""`certify`: prove for which share of all possible people a model treats them as their
counterparts, and for which people in the data together with their neighborhood.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np
import pandas as pd

from fairprobe.arrays import Ints, Rows
from fairprobe.certificates.branch import Limit
from fairprobe.certificates.chain import UnsupportedError
from fairprobe.certificates.fold import subject_of
from fairprobe.certificates.people import (
    FREE,
    NOT_TRIED,
    OUTSIDE,
    RADII,
    proved_free,
    proved_radius,
)
from fairprobe.certificates.proof import Proof, prove
from fairprobe.certificates.proof import save as save_proof
from fairprobe.certificates.report import claim, report
from fairprobe.datasets.base import Dataset
from fairprobe.documents.certificate import CertificateDocument, ProvedPeople
from fairprobe.documents.table import TableRun
from fairprobe.errors import DataError, SettingError
from fairprobe.models import Decision, Model, load_model, one_thread
from fairprobe.people.plausible import PlausiblePeople
from fairprobe.report import html
from fairprobe.results import Rate, encode, to_dict
from fairprobe.runs.kinds import report_of
from fairprobe.runs.reopen import OpenModel, data_of, model_of
from fairprobe.runs.stages import OnStage, check_seed
from fairprobe.runs.store import AUDIT, REPORT, read_table_run
from fairprobe.schema.domain import Domain
from fairprobe.schema.twins import CounterpartKind
from fairprobe.storage import replacing, write_text

if TYPE_CHECKING:
    from torch import nn

PLAUSIBLE = 2000  # people who are drawn
CERTIFICATE, PEOPLE, DOCUMENT = "certificate.npz", "proved_people.parquet", "certificate.json"


@dataclass(frozen=True, repr=False)
class Certificate:
    """Certificate of a model. `radius` contains for each person in the data the largest
    radius within which everybody is proved: −1 if not even the person is, −2 outside the schema's
    bounds. `free`: any so many attributes may take any value; −3 where it was not tried.
    `interrupted`: what is here is true, and there would have been more.
    """

    document: CertificateDocument
    proof: Proof
    radius: Ints
    free: Ints
    title: str
    interrupted: bool = False

    def __repr__(self) -> str:
        return f"<Certificate: {claim(self.document)}>"

    def _repr_html_(self) -> str:
        return html.notebook(report(self.document, self.title))

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        return to_dict(self.document)

    def report(self, path: Path | str = "certificate.html") -> Path:
        """Write the report, one self-contained HTML file, and return its path."""
        write_text(Path(path), html.page(report(self.document, self.title)))
        return Path(path)

    def save(self, folder: Path | str) -> Path:
        """Write the file that others can check, the document, the people and the report."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        self.save_evidence(place)
        write_text(place / DOCUMENT, encode(self.document).decode())
        self.report(place / REPORT)
        return place

    def save_evidence(self, folder: Path) -> None:
        """Write the file that others can check, and the row-level columns."""
        save_proof(self.proof, folder / CERTIFICATE, {"title": self.title})
        with replacing(folder / PEOPLE) as part:
            columns = {"proved_radius": self.radius, "proved_free": self.free}
            pd.DataFrame(columns).astype(np.int8).to_parquet(part)


def certify(
    data: Dataset,
    model: Model | nn.Module,
    sensitive: str | tuple[str, ...] | list[str],
    *,
    counterparts: CounterpartKind = "twins",
    decision: Decision | None = None,
    seconds: float = 20.0,
    cpu: bool = False,
    workers: int = 1,
    seed: int = 0,
    progress: OnStage | None = None,
) -> Certificate:
    """Prove for which share of all possible people the network gives one answer, whatever the
    sensitive attributes are, and for which people in the data together with their neighborhood.

    The proof works for `seconds` (of computing, with `cpu`) and can be interrupted: what was proved
    until then is true. It needs a dense network, or trees (XGBoost, LightGBM, forests); what is not
    supported is named in an error. The claim is about the model in real arithmetic. `workers` are
    processes that enumerate everybody, where that is affordable; `seed` draws the people from what
    is undecided, plausible people, and those with free attributes.
    """
    check_seed(seed)
    if not 0 < seconds < 1e9:
        raise SettingError(f"The seconds must be a positive number; got {seconds}.")
    if workers < 1:
        raise SettingError(f"At least one worker is needed; got {workers}.")
    data = data.with_sensitive(sensitive).with_counterparts(counterparts)
    opened = model if isinstance(model, Model) else load_model(model, data)
    network = opened.with_decision(decision, data)
    chain = subject_of(network, data.domain)
    tell = progress or (lambda *_: None)

    def step(stage: str, done: float, proved: float) -> None:
        note = f"proved {100 * proved:.1f} %" if proved else ""
        tell(stage, round(1000 * done), 1000, note)

    proof, people, interrupted = None, _People(), False
    try:
        with one_thread():
            proof = prove(chain, Limit(seconds, cpu), workers=workers, seed=seed, on_progress=step)
            interrupted = proof.stopped == "interrupted"
            if not interrupted:
                for among, x in _groups(data, seed, tell):
                    people.prove(proof, data.domain, x, among, seed, tell)
    except KeyboardInterrupt:
        if proof is None:  # nothing is proved yet
            raise
        interrupted = True
    return Certificate(
        _document(proof, data, network, people),
        proof,
        people.radius,
        people.free,
        f"{data.name}, {', '.join(chain.sensitive)}",
        interrupted,
    )


def certify_run(
    folder: Path | str,
    *,
    table: Path | str | None = None,
    model: OpenModel | None = None,
    **options: Any,
) -> tuple[TableRun, Certificate]:
    """Certify the network of a run and write the certificate into its folder. `table` and `model`
    are user-supplied, if the run was made with them; `options` are those of `certify`.
    """
    place = Path(folder)
    run = read_table_run(place)
    data = data_of(run, place, table)
    network = model_of(run, place, data, model)
    certificate = certify(
        data, network, run.sensitive, counterparts=run.counterparts.kind, **options
    )
    certified = msgspec.structs.replace(run, certificate=certificate.document)
    certificate.save_evidence(place)
    write_text(place / REPORT, html.page(report_of(certified)))
    write_text(place / AUDIT, encode(certified).decode())
    return certified, certificate


def proved_share(model: Model, data: Dataset, seconds: float = 5.0) -> float | None:
    """Return the share of possible people who are proved to be treated as their counterparts, in
    `seconds` of computing; None if nothing can be claimed about the model.
    """
    try:
        with one_thread():
            return prove(subject_of(model, data.domain), Limit(seconds, cpu=True)).alike
    except UnsupportedError:
        return None


Among = Literal["data", "plausible"]


def _groups(data: Dataset, seed: int, tell: OnStage) -> Iterator[tuple[Among, Rows]]:
    """Yield the people in the data, then plausible people if the data allows them."""
    yield "data", data.x
    tell("Drawing plausible people", 0, 1, "")
    try:
        maker = PlausiblePeople.fit(data, seed=seed)
        x = maker.draw(PLAUSIBLE, rng=np.random.default_rng(seed))
    except DataError:  # they need more rows, or other rows, than some data has
        return
    yield "plausible", x


@dataclass
class _People:
    """Proofs around people in the data, and the shares of them and of plausible people."""

    radius: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    free: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    rates: list[ProvedPeople] = field(default_factory=list)

    def prove(
        self, proof: Proof, domain: Domain, x: Rows, among: Among, seed: int, tell: OnStage
    ) -> None:
        """Prove neighborhoods of people. An interrupt keeps what is proved until then."""

        def step(done: int, total: int) -> None:
            who = "people in the data" if among == "data" else "plausible people"
            tell(f"Proving {who}", done, total, "")

        everybody = proof.way == "no weight"
        outside = domain.outside(x).rows | ~domain.comparable(x)
        radius = (
            np.where(outside, OUTSIDE, max(RADII))
            if everybody
            else proved_radius(proof.chain, domain, x, on_progress=step)
        )
        for size in RADII:
            self._add(among, radius >= size, radius > OUTSIDE, radius=size)
        if among == "data":
            self.radius, self.free = radius, np.full(len(radius), NOT_TRIED)
        free = np.where(radius > 0, 0, radius)
        for size in FREE:
            rng = np.random.default_rng(seed)
            known = (
                np.where(outside, OUTSIDE, 1)
                if everybody
                else proved_free(proof.chain, domain, x, free=size, rng=rng, on_progress=step)
            )
            self._add(among, known == 1, known >= 0, free=size)
            free = np.where(known == 1, size, free)
            free = np.where((known == NOT_TRIED) & (size == 1), NOT_TRIED, free)
        if among == "data":
            self.free = free

    def _add(self, among: Among, hits: Any, tried: Any, *, radius: int = 0, free: int = 0) -> None:
        if tried.any():
            rate = Rate.of(int(hits.sum()), int(tried.sum())).to_dict()
            self.rates.append(ProvedPeople(among=among, radius=radius, free=free, **rate))


def _document(proof: Proof, data: Dataset, model: Model, people: _People) -> CertificateDocument:
    chain = proof.chain
    labels = model.labels(data.x)
    return CertificateDocument(
        way=proof.way,
        proved=proof.alike,
        upper_bound=min(1.0, max(0.0, proof.upper_bound)),
        affected=proof.affected,
        rest=proof.rest if proof.rest is not None and proof.rest.samples else None,
        people=people.rates,
        outside=int((people.radius == OUTSIDE).sum()),
        cases=None if chain.possible is None else float(chain.possible),
        values=len(data.domain.sensitive_values),
        boxes=0 if proof.search is None else proof.search.looked_at,
        seconds=proof.seconds,
        stopped=proof.stopped,
        network=chain.digest,
        accuracy=float((labels == data.y).mean()),
        constant=bool((labels == labels[0]).all()),
        allowed=None if chain.allowed is None else chain.allowed.share,
        unused=chain.constraints,
        coupled=[name for name in data.domain.changing if name not in data.domain.sensitive],
    )
