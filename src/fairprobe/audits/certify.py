"""`certify`: prove for which share of all possible people a network treats them as their
counterparts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pandas as pd

from fairprobe.arrays import Ints
from fairprobe.audits.base import OnStage, check_seed
from fairprobe.audits.models import as_model
from fairprobe.certificates.branch import Limit
from fairprobe.certificates.chain import UnsupportedError
from fairprobe.certificates.fold import chain_of
from fairprobe.certificates.people import OUTSIDE, RADII, proved_radius
from fairprobe.certificates.proof import Proof, prove
from fairprobe.certificates.proof import save as save_proof
from fairprobe.datasets.base import Dataset
from fairprobe.documents import (
    AUDIT,
    CertificateDocument,
    ProvedPeople,
    RateDocument,
    TableDocument,
    encode,
    read_table_run,
    to_dict,
)
from fairprobe.errors import SettingError
from fairprobe.models import Decision, Model, TorchModel, one_thread
from fairprobe.present import render
from fairprobe.present.certificate_page import certificate_page
from fairprobe.present.certificate_sentences import claim
from fairprobe.repairs import Proof as RepairProof
from fairprobe.runs import REPORT, OpenModel, data_of, model_of
from fairprobe.schema.twins import CounterpartKind
from fairprobe.statistics.rates import Rate
from fairprobe.storage import replacing, write_text

if TYPE_CHECKING:
    from torch import nn

CERTIFICATE, PEOPLE, DOCUMENT = "certificate.npz", "proved_people.parquet", "certificate.json"


@dataclass(frozen=True, repr=False)
class Certificate:
    """What is proved about a network. `radius` holds for each person in the data the largest radius
    within which everybody is proved: −1 if not even the person is, −2 outside the schema's bounds.
    """

    document: CertificateDocument
    proof: Proof
    radius: Ints
    title: str

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
            pd.DataFrame({"proved_radius": self.radius.astype(np.int8)}).to_parquet(part)


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
    until then is true. It needs a dense network; what is not supported is named in an error. The
    claim is about the network in real arithmetic. `workers` are processes that ask about everybody,
    where that is affordable; `seed` draws the people from what is undecided.
    """
    check_seed(seed)
    if not 0 < seconds < 1e9:
        raise SettingError(f"The seconds must be a positive number; got {seconds}.")
    if workers < 1:
        raise SettingError(f"At least one worker is needed; got {workers}.")
    data = data.with_sensitive(sensitive).with_counterparts(counterparts)
    network = as_model(model, data).with_decision(decision, data)
    chain = chain_of(network, data.domain)
    tell = progress or (lambda *_: None)

    def step(stage: str, done: float, proved: float) -> None:
        note = f"proved {100 * proved:.1f} %" if proved else ""
        tell(stage, round(1000 * done), 1000, note)

    with one_thread():
        proof = prove(chain, Limit(seconds, cpu), workers=workers, seed=seed, on_progress=step)
        radius = _around(proof, data, tell)
    document = _document(proof, data, network, radius)
    return Certificate(document, proof, radius, f"{data.name}, {', '.join(chain.sensitive)}")


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


def with_proved_shares(
    proof: RepairProof, given: TorchModel, data: Dataset, seconds: float = 20.0
) -> RepairProof:
    """A repair's proof with the proved share of the network before and after, each in `seconds`. A
    blind network ignores the attributes by construction, so all of it is proved.
    """

    def share(model: Model) -> float | None:
        try:
            return prove(chain_of(model, data.domain), Limit(seconds)).alike
        except UnsupportedError:
            return None

    with one_thread():
        before, after = share(given), share(proof.model)
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


def _around(proof: Proof, data: Dataset, tell: OnStage) -> Ints:
    """The proved radius of each person; after an interrupt nobody's is known."""
    if proof.way == "no weight":
        outside = data.domain.outside(data.x).rows | ~data.domain.comparable(data.x)
        return np.where(outside, OUTSIDE, max(RADII)).astype(np.int64)

    def step(done: int, total: int) -> None:
        tell("Proving people in the data", done, total, "")

    try:
        return proved_radius(proof.chain, data.domain, data.x, on_progress=step)
    except KeyboardInterrupt:
        return np.empty(0, dtype=np.int64)


def _document(proof: Proof, data: Dataset, model: Model, radius: Ints) -> CertificateDocument:
    chain, inside = proof.chain, radius[radius != OUTSIDE]
    labels = model.labels(data.x)
    people = [
        ProvedPeople(radius=r, **Rate(int((inside >= r).sum()), len(inside)).to_dict())
        for r in (RADII if len(inside) else ())
    ]
    rest = proof.rest if proof.rest is not None and proof.rest.samples else None
    counted: Callable[[Rate], RateDocument] = lambda rate: RateDocument(**rate.to_dict())  # noqa: E731
    bare = data.domain.constraints
    return CertificateDocument(
        way=proof.way,
        proved=proof.alike,
        upper_bound=min(1.0, max(0.0, proof.upper_bound)),
        affected=proof.affected,
        rest=None if rest is None else counted(rest),
        people=people,
        outside=int((radius == OUTSIDE).sum()),
        cases=None if chain.people is None else float(chain.people),
        values=chain.values,
        boxes=0 if proof.search is None else proof.search.looked_at,
        seconds=proof.seconds,
        stopped=proof.stopped,
        network=chain.digest,
        accuracy=float((labels == data.y).mean()),
        constant=bool((labels == labels[0]).all()),
        uses_constraints=bool(bare),
        coupled=[name for name in data.domain.changing if name not in data.domain.sensitive],
    )
