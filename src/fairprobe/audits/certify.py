"""`certify`: prove for which share of all possible people a network treats them as their
counterparts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np
import pandas as pd

from fairprobe.arrays import Ints, Mask, Rows
from fairprobe.audits.models import as_model
from fairprobe.certificates.branch import Limit
from fairprobe.certificates.chain import UnsupportedError
from fairprobe.certificates.fold import subject_of
from fairprobe.certificates.people import (
    FREE,
    NOT_ASKED,
    OUTSIDE,
    RADII,
    proved_free,
    proved_radius,
)
from fairprobe.certificates.proof import Proof, prove
from fairprobe.certificates.proof import save as save_proof
from fairprobe.datasets.base import Dataset
from fairprobe.documents import (
    CertificateDocument,
    ProvedPeople,
    RateDocument,
    TableDocument,
    encode,
    to_dict,
)
from fairprobe.errors import DataError, SettingError
from fairprobe.models import Decision, Model, TorchModel, one_thread
from fairprobe.people.plausible import PlausiblePeople
from fairprobe.present import render
from fairprobe.present.certificate_page import certificate_page
from fairprobe.present.certificate_sentences import claim
from fairprobe.repairs import Proof as RepairProof
from fairprobe.runs.reopen import OpenModel, data_of, model_of
from fairprobe.runs.stages import OnStage, check_seed
from fairprobe.runs.store import AUDIT, REPORT, read_table_run
from fairprobe.schema.domain import Domain
from fairprobe.schema.twins import CounterpartKind
from fairprobe.statistics.rates import Rate
from fairprobe.storage import replacing, write_text

if TYPE_CHECKING:
    from torch import nn

WHO = {"data": "Proving people in the data", "plausible": "Proving plausible people"}
PLAUSIBLE = 2000  # people who are drawn
CERTIFICATE, PEOPLE, DOCUMENT = "certificate.npz", "proved_people.parquet", "certificate.json"


@dataclass(frozen=True, repr=False)
class Certificate:
    """What is proved about a network. `radius` holds for each person in the data the largest radius
    within which everybody is proved: −1 if not even the person is, −2 outside the schema's bounds.
    `free`: any so many attributes may take any value; −3 where nobody asked. `interrupted`: what
    is here is true, and there would have been more.
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
        return certificate_page(self.document, self.title, whole=False)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        return to_dict(self.document)

    def report(self, path: Path | str = "certificate.html") -> Path:
        """Write the report, one self-contained HTML file, and return its path."""
        place = Path(path)
        write_text(place, certificate_page(self.document, self.title))
        return place

    def save(self, folder: Path | str) -> Path:
        """Write the file that others can check, the document, the people and the report."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        self.save_evidence(place)
        write_text(place / DOCUMENT, encode(self.document).decode())
        self.report(place / REPORT)
        return place

    def save_evidence(self, folder: Path) -> None:
        """Write the file that others can check, and the row-level column."""
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
    processes that ask about everybody, where that is affordable; `seed` draws the people from what
    is undecided, plausible people, and those with free attributes.
    """
    check_seed(seed)
    if not 0 < seconds < 1e9:
        raise SettingError(f"The seconds must be a positive number; got {seconds}.")
    if workers < 1:
        raise SettingError(f"At least one worker is needed; got {workers}.")
    data = data.with_sensitive(sensitive).with_counterparts(counterparts)
    network = as_model(model, data).with_decision(decision, data)
    chain = subject_of(network, data.domain)
    tell = progress or (lambda *_: None)

    def step(stage: str, done: float, proved: float) -> None:
        note = f"proved {100 * proved:.1f} %" if proved else ""
        tell(stage, round(1000 * done), 1000, note)

    proof, found, limit = None, _People(), Limit(seconds, cpu)
    try:
        with one_thread():
            proof = prove(chain, limit, workers=workers, seed=seed, on_progress=step)
            if proof.stopped != "interrupted":
                _around(proof, data, seed, tell, found)
    except KeyboardInterrupt:
        if proof is None:  # nothing is proved yet
            raise
        found.interrupted = True
    document = _document(proof, data, network, found)
    title = f"{data.name}, {', '.join(chain.sensitive)}"
    interrupted = found.interrupted or proof.stopped == "interrupted"
    return Certificate(document, proof, found.radius, found.known_free, title, interrupted)


def certify_run(
    folder: Path | str,
    *,
    table: Path | str | None = None,
    model: OpenModel | None = None,
    **options: Any,
) -> tuple[TableDocument, Certificate]:
    """Certify the network of a run and write the certificate into its folder. `table` and `model`
    are the user's own, if the run was made with them; `options` are those of `certify`.
    """
    place = Path(folder)
    document = read_table_run(place)
    data = data_of(document, place, table)
    network = model_of(document, place, data, model)
    done = certify(
        data, network, document.sensitive, counterparts=document.counterparts.kind, **options
    )
    certified = msgspec.structs.replace(document, certificate=done.document)
    done.save_evidence(place)
    write_text(place / REPORT, render(certified))
    write_text(place / AUDIT, encode(certified).decode())
    return certified, done


def proved_share(model: Model, data: Dataset, seconds: float = 5.0) -> float | None:
    """The share of possible people who are proved to be treated alike, in `seconds` of computing;
    None if nothing can be claimed about the model.
    """
    try:
        with one_thread():
            return prove(subject_of(model, data.domain), Limit(seconds, cpu=True)).alike
    except UnsupportedError:
        return None


def with_proved_shares(
    proof: RepairProof, given: TorchModel, data: Dataset, seconds: float = 20.0
) -> RepairProof:
    """A repair's proof with the proved share of the network before and after, each in `seconds`. A
    blind network ignores the attributes by construction, so all of it is proved.
    """
    before, after = (proved_share(model, data, seconds) for model in (given, proof.model))
    controls = {
        name: replace(each, proved=1.0) if name == "blind" else each
        for name, each in proof.controls.items()
    }
    return replace(
        proof,
        before=replace(proof.before, proved=before),
        after=replace(proof.after, proved=after),
        controls=controls,
    )


@dataclass
class _People:
    """What is proved around people in the data, and the shares of them and of plausible people."""

    radius: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    free: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    rates: list[ProvedPeople] = field(default_factory=list)
    interrupted: bool = False

    @property
    def known_free(self) -> Ints:
        """`free`, also after an interrupt."""
        if len(self.free) == len(self.radius):
            return self.free
        return np.full(len(self.radius), NOT_ASKED)


def _around(proof: Proof, data: Dataset, seed: int, tell: OnStage, found: _People) -> None:
    """Prove what is around each person. An interrupt leaves in `found` what is known until then."""
    _ask_about(data.x, "data", found, proof, data.domain, seed, tell)
    tell("Drawing plausible people", 0, 1, "")
    try:
        maker = PlausiblePeople.fit(data, seed=seed)
        x = maker.draw(PLAUSIBLE, rng=np.random.default_rng(seed))
    except DataError:  # they need more rows, or other rows, than some data has
        return
    _ask_about(x, "plausible", found, proof, data.domain, seed, tell)


def _ask_about(
    x: Rows,
    among: Literal["data", "plausible"],
    found: _People,
    proof: Proof,
    domain: Domain,
    seed: int,
    tell: OnStage,
) -> None:
    """Prove neighborhoods of people and add them to what was found."""

    def step(done: int, total: int) -> None:
        tell(
            f"Proving {'people in the data' if among == 'data' else 'plausible people'}",
            done,
            total,
            "",
        )

    def add(name: str, size: int, hits: Mask, asked: Mask) -> None:
        if asked.any():
            rate = Rate.of(int(hits.sum()), int(asked.sum())).to_dict()
            sizes = {"radius": 0, "free": 0} | {name: size}
            found.rates.append(ProvedPeople(among=among, **sizes, **rate))

    if proof.way == "no weight":
        outside = domain.outside(x).rows | ~domain.comparable(x)
        radius = np.where(outside, OUTSIDE, max(RADII))
        frees = [np.where(outside, OUTSIDE, 1) for _ in FREE]
    else:
        radius = proved_radius(proof.chain, domain, x, on_progress=step)
        frees = []
    for r in RADII:
        add("radius", r, radius >= r, radius > OUTSIDE)
    if among == "data":
        found.radius = radius
    free = np.where(radius > 0, 0, radius)
    for count in FREE:
        known = (
            frees[count - 1]
            if frees
            else proved_free(
                proof.chain,
                domain,
                x,
                free=count,
                rng=np.random.default_rng(seed),
                on_progress=step,
            )
        )
        add("free", count, known == 1, known >= 0)
        free = np.where(known == 1, count, free)
        free = np.where((known == NOT_ASKED) & (count == 1), NOT_ASKED, free)
    if among == "data":
        found.free = free


def _document(proof: Proof, data: Dataset, model: Model, found: _People) -> CertificateDocument:
    chain = proof.chain
    labels = model.labels(data.x)
    rest = proof.rest if proof.rest is not None and proof.rest.samples else None
    counted: Callable[[Rate], RateDocument] = lambda rate: RateDocument(**rate.to_dict())  # noqa: E731
    return CertificateDocument(
        way=proof.way,
        proved=proof.alike,
        upper_bound=min(1.0, max(0.0, proof.upper_bound)),
        affected=proof.affected,
        rest=None if rest is None else counted(rest),
        people=found.rates,
        outside=int((found.radius == OUTSIDE).sum()),
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
