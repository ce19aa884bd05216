"""Search of an audit: its checkpoint, confirming its findings with the user's own model, and
describing the method and the pairs.

A checkpoint is a folder next to the unfinished run:

    fingerprint    of the data, the settings and the version
    networks/      trained networks
    search/        finished chunks of the search, with a fingerprint that includes the model
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import torch

from fairprobe import networks, search
from fairprobe.arrays import Mask, Rows
from fairprobe.datasets.base import Dataset, Outline
from fairprobe.documents.people import ScorePair
from fairprobe.documents.table import MethodDescription, PairDocument, Search
from fairprobe.errors import FairprobeError, StorageError
from fairprobe.findings import Findings, Generation
from fairprobe.models import Model, ScoreModel, TorchModel, one_thread
from fairprobe.report.formats import plural
from fairprobe.schema.domain import Domain
from fairprobe.search import Method
from fairprobe.search.chunks import Checkpoint, check_fingerprint
from fairprobe.table.generation import Pair, cells, gsr, ms_per_1000_idis, seed_distance, spread
from fairprobe.versions import versions

# -- checkpoints -----------------------------------------------------------------------------------


def fingerprint(data: Dataset, *settings: object, model: Model | None = None) -> str:
    """Digest everything that a run depends on: the rows and their schema, the settings, the
    versions and the model: its weights, or its answers to everybody in the data.
    """
    digest = sha256(repr((versions("torch", "numpy"), data.domain, data.classes)).encode())
    for part in (data.x, data.y if data.amounts is None else data.amounts):
        digest.update(np.ascontiguousarray(part).data)
    for setting in settings:
        digest.update(_identity(setting))
    network = model.network if isinstance(model, ScoreModel) else model
    if isinstance(network, TorchModel):
        for name, value in network.module.state_dict().items():
            raw = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
            digest.update(name.encode() + raw.numpy().tobytes())
    if isinstance(model, ScoreModel):
        digest.update(repr(model.tolerance).encode() + model.amounts(data.x).tobytes())
    elif model is not None:
        digest.update(model.labels(data.x).astype(np.int64).tobytes())
    return digest.hexdigest()


def _identity(setting: object) -> bytes:
    """Identify a setting. Arrays among those of a method follow from data and model."""
    if isinstance(setting, np.ndarray):
        return sha256(np.ascontiguousarray(setting).data).digest()
    if is_dataclass(setting):
        values = {field.name: getattr(setting, field.name) for field in fields(setting)}
        plain = {
            name: value
            for name, value in values.items()
            if isinstance(value, str | int | float | bool | tuple | None)
        }
        return repr((type(setting).__qualname__, plain)).encode()
    return repr(setting).encode()


def search_checkpoint(
    folder: Path | None, data: Dataset, model: Model, *settings: object
) -> Checkpoint | None:
    """Return the checkpoint of this search; None without a folder, or without room."""
    if folder is None:
        return None
    try:
        return Checkpoint(folder / "search", fingerprint(data, *settings, model=model))
    except (OSError, StorageError):  # a full disk is no reason to lose what was trained
        return None


def kept_network(
    folder: Path, data: Dataset, settings: object, train: Callable[[], TorchModel]
) -> TorchModel:
    """Load the network that an earlier run trained with these settings, or train it."""
    place = folder / "networks" / "audited"
    check_fingerprint(place, fingerprint(data, settings))
    return networks.kept(place, data.domain, train)


def check_repair(folder: Path, data: Dataset, model: Model, *settings: object) -> None:
    """Raise an error if the folder is the checkpoint of another repair."""
    check_fingerprint(folder / "networks", fingerprint(data, *settings, model=model))


# -- confirming ------------------------------------------------------------------------------------


def confirmed(
    findings: Findings, original: Model | None, progress: Callable[[int, int], None]
) -> tuple[Findings, int | None]:
    """Drop the findings that the user's own model does not confirm, and count them; None if the
    search used that model. An interrupt keeps those that were confirmed until then.
    """
    if original is None:
        return findings, None
    total = len(findings)
    kept: list[Mask] = []
    judged = hits = 0
    is_interrupted = False
    with one_thread():
        for batch in findings.batches():
            mask = np.zeros(len(batch), dtype=bool)
            if not is_interrupted:
                try:
                    progress(judged, max(total, 1))
                    mask = _is_confirmed(findings, batch, original)
                    judged, hits = judged + len(mask), hits + int(mask.sum())
                except KeyboardInterrupt:
                    is_interrupted = True
                except FairprobeError as error:
                    # What was found is not lost with the model that cannot confirm it.
                    error.findings = findings
                    raise
            kept.append(mask)
    if is_interrupted:
        findings = replace(findings, generation=replace(findings.generation, stopped="interrupted"))
    return (
        findings if hits == total and not is_interrupted else findings.where(kept)
    ), judged - hits


def _is_confirmed(findings: Findings, batch: pa.RecordBatch, original: Model) -> Mask:
    """Return where the model gives the two people of a pair the labels of the finding, or amounts
    that differ by more than the tolerance.
    """
    x, x_other = (findings.rows(batch, other=other) for other in (False, True))
    if isinstance(original, ScoreModel):
        amounts, amounts_other = original.amounts(x), original.amounts(x_other)
        change = np.abs(amounts - amounts_other)
        limit = np.maximum(original.limits(amounts), original.rounding(amounts))
        return np.asarray(change > limit)
    return np.asarray(
        (original.labels(x) == batch.column("label").to_numpy())
        & (original.labels(x_other) == batch.column("label_other").to_numpy())
    )


# -- descriptions ----------------------------------------------------------------------------------


def describe_search(
    method: Method,
    findings: Findings,
    seeds: Rows,
    *,
    people: Literal["plausible", "possible"],
    refuted: int | None,
    noun: str,
    seed: int,
) -> Search:
    """Describe what the search was given, what it found, and its costs."""
    how, idis = findings.generation, len(findings)
    first = findings.count("global")
    return Search(
        method=how.method,
        description=describe_method(type(method), how, noun),
        variant=how.variant,
        people=people,
        settings=_changed_settings(method, how),
        seeds=how.seeds,
        global_iterations=how.global_iterations,
        local_iterations=how.local_iterations,
        clusters=how.clusters,
        seeds_by=how.seeds_by,
        tried=how.tried,
        judged=how.judged,
        idis=idis,
        global_idis=first,
        local_idis=idis - first,
        gsr=gsr(idis, how.tried),
        spread=spread(findings),
        cells=cells(findings, seed=seed),
        distance=seed_distance(findings, seeds) if method.origin == "seed" else None,
        stopped=how.stopped,
        refuted=refuted,
        wall_seconds=how.wall_seconds,
        cpu_seconds=how.cpu_seconds,
        wall_ms_per_1000_idis=ms_per_1000_idis(how.wall_seconds, idis),
        cpu_ms_per_1000_idis=ms_per_1000_idis(how.cpu_seconds, idis),
        scores={name: finite(score) for name, score in how.scores.items()},
    )


def describe_method(method: type[Method], how: Generation, noun: str) -> MethodDescription | None:
    """Describe a method in its own words; None for a user's method without any."""
    if not method.title:
        return None
    again = f", each up to {plural(how.global_iterations, 'time')} again until it is a case"
    room = "fp.search" if hasattr(search, method.__name__) else method.__module__
    return MethodDescription(
        title=method.title,
        about=method.about,
        how=method.search_text(
            seeds=plural(how.seeds, "person", "people"),
            global_steps=plural(how.global_iterations, "step"),
            local_steps=plural(how.local_iterations, "step"),
            again=again if how.global_iterations else "",
            noun=noun,
        ),
        origin=method.origin,
        uses_seeds=method.uses_seeds,
        has_phases=method.has_phases,
        needs_neurons=method.needs_neurons,
        created_by=f"{room}.{method.__qualname__}",
        required=list(method.required),
    )


def _changed_settings(method: Method, how: Generation) -> dict[str, Any]:
    """Return settings of the method that differ from its defaults; variant and iterations have
    fields of their own. No global step is a setting: a budget has 1 or more.
    """
    if not is_dataclass(method):
        return {}
    elsewhere = {"variant", "global_iterations", "local_iterations"}
    if how.global_iterations == 0:
        elsewhere.remove("global_iterations")
    return {
        field.name: value
        for field in fields(method)
        if field.init
        and field.name not in elsewhere
        and is_plain(value := getattr(method, field.name))
        and value != field.default
    }


def finite(value: float) -> float | None:
    """Convert infinities and NaN to null."""
    return (value if isinstance(value, int) else float(value)) if isfinite(value) else None


def is_plain(value: object) -> bool:
    """Return True if JSON can hold a setting as it is."""
    return isinstance(value, str | int) or (isinstance(value, float) and isfinite(value))


def describe_pair(data: Outline, pair: Pair) -> PairDocument:
    """Describe two people and their classes."""
    classes = data.classes
    return PairDocument(
        **_describe_people(data.domain, pair),
        label=classes[pair.label],
        label_other=classes[pair.label_other],
        favourable=None if data.favourable is None else pair.label == data.favourable,
        probability=pair.probability,
        probability_other=pair.probability_other,
        gap=pair.gap,
    )


def describe_amounts(domain: Domain, pair: Pair) -> ScorePair:
    """Describe two people and their amounts."""
    return ScorePair(
        **_describe_people(domain, pair),
        answer=pair.probability,
        answer_other=pair.probability_other,
        change=pair.gap,
    )


def _describe_people(domain: Domain, pair: Pair) -> dict[str, Any]:
    """Return what two people share, what differs, and their origin."""
    first, second = domain.describe(pair.x), domain.describe(pair.x_other)
    along = [name for name in domain.names if name not in domain.sensitive]
    changed = [*domain.sensitive, *(name for name in along if first[name] != second[name])]
    return {
        "shared": {name: first[name] for name in domain.names if name not in changed},
        "sensitive": {name: (first[name], second[name]) for name in changed},
        "phase": pair.phase,
        "origin": pair.origin,
        "plausibility": pair.plausibility,
        "plausibility_other": pair.plausibility_other,
        "is_record": pair.is_record,
    }
