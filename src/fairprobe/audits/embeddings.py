"""`audit_embeddings`: how often a network for face verification is wrong, by group, at one fixed
threshold.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import numpy as np
from torch import nn

from fairprobe.arrays import Mask
from fairprobe.audits.base import OnStage, Stages, check_seed, counted
from fairprobe.audits.image_forecast import Cost, forecast_embeddings
from fairprobe.datasets.image_sets import ImageSet, open_images
from fairprobe.documents.verification import (
    GroupsCompared,
    PairRateDocument,
    VerificationDocument,
    VerifiedGroup,
)
from fairprobe.errors import DataError, ModelError, SettingError, suggest
from fairprobe.images.networks import TRANSFORMERS, Network, open_network
from fairprobe.images.verification import Distance, compare, embeddings, threshold_at
from fairprobe.present.verification_page import sentences
from fairprobe.statistics.pair_rates import PairRate, differences
from fairprobe.statistics.rates import CONFIDENCE
from fairprobe.versions import versions

MEASURES = ("false_non_match", "false_match")
FALSE_MATCHES = 0.001


def audit_embeddings(
    data: ImageSet | Path | str,
    model: nn.Module | str,
    sensitive: str = "gender",
    *,
    threshold: float | None = None,
    false_matches: float = FALSE_MATCHES,
    distance: Distance = "cosine",
    weights: Path | None = None,
    size: int | None = None,
    limit: int | None = None,
    seed: int = 0,
    command: str = "",
    progress: OnStage | None = None,
    expect: Callable[[Cost], None] | None = None,
) -> VerificationDocument:
    """Compare all pairs of pictures within each group of the sensitive attribute.

    `threshold` is the similarity (cosine) from which on, or the distance (euclidean) up to which,
    two faces are taken for one person's. Without it, one is chosen on people that are not held out,
    such that a share of `false_matches` of them match, and all else is measured on the held-out.
    `expect` is called with what that will take, before the work begins.
    """
    check_seed(seed)
    _check(threshold, false_matches, distance)
    if not isinstance(data, ImageSet):
        data = open_images(data, size=size, limit=limit, seed=seed)
    height, width = data.images.shape[2:]
    network = open_network(model, weights=weights, size=(height, width))
    sized = network.says_size(data.other_sizes)
    known = _known(data, sensitive)
    stages = Stages(progress)
    people, attribute = data.identities, data.attributes[sensitive]
    assert people is not None
    learned = known & (~data.held_out if threshold is None else False)
    measured = known & (data.held_out if threshold is None else True)
    rows_of = {
        value: rows
        for code, value in enumerate(attribute.values)
        if (rows := np.flatnonzero(measured & (attribute.codes == code))).size
    }
    if expect is not None and rows_of:
        with stages.stage("Trying a few pictures"):
            sizes = [int(learned.sum()), *map(len, rows_of.values())]
            share = false_matches if threshold is None else 0
            cost = forecast_embeddings(network.module, data.images, sizes, share)
        expect(cost)
    with stages.stage("Computing embeddings") as step:
        found = embeddings(network.module, data.images, progress=counted(step))
    zeros = int((~found.any(axis=1)).sum())
    if zeros and distance == "cosine":
        raise ModelError(
            f"The network gives {zeros:,} of {len(found):,} pictures an embedding of zeros, which"
            " has no cosine similarity to any other. Check its weights, or name the distance:"
            " euclidean."
        )
    sign = 1 if distance == "cosine" else -1
    if threshold is None:
        with stages.stage("Choosing the threshold") as step:
            limit_score = threshold_at(
                found[learned], people[learned], false_matches, distance, progress=counted(step)
            )
    else:
        limit_score = sign * threshold
    chosen_on = len(np.unique(people[learned]))
    groups = {}
    for value, rows in rows_of.items():
        with stages.stage(f"Comparing pairs, {value}") as step:
            groups[value] = compare(
                found[rows], people[rows], limit_score, distance, progress=counted(step)
            )
    if len(groups) < 2:
        raise DataError(
            f"Expected two groups of {sensitive} or more to compare; got"
            f" {', '.join(groups) or 'none'}."
        )
    rates: dict[str, dict[str, PairRate]] = {
        measure: {
            name: rate for name, one in groups.items() if (rate := getattr(one, measure)).pairs
        }
        for measure in MEASURES
    }
    document = VerificationDocument(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        command=command,
        versions=versions("torch", "numpy"),
        seed=seed,
        model=network.name,
        data=data.name,
        sensitive=sensitive,
        distance=distance,
        threshold=sign * limit_score,
        wanted=false_matches if threshold is None else None,
        chosen_on=chosen_on,
        height=height,
        width=width,
        messages=[
            *data.messages,
            *sized,
            *data.attribute_messages.get(sensitive, ()),
            *([_classifier(network.name)] if _is_classifier(network) else []),
        ],
        groups=[
            VerifiedGroup(
                name=name,
                people=one.people,
                pictures=one.pictures,
                false_non_match=_rate(one.false_non_match),
                false_match=_rate(one.false_match),
            )
            for name, one in groups.items()
        ],
        compared=[
            GroupsCompared(
                measure=measure,  # type: ignore[arg-type]
                one=one.one,
                other=one.other,
                estimate=one.estimate,
                low=one.low,
                high=one.high,
                is_beyond_chance=one.is_beyond_chance,
            )
            for measure in MEASURES
            for one in differences(rates[measure], tests=len(MEASURES))
        ],
        sentences=[],
    )
    return msgspec.structs.replace(document, sentences=sentences(document))


def _check(threshold: float | None, false_matches: float, distance: str) -> None:
    """Refuse impossible settings before anything is opened."""
    if distance not in ("cosine", "euclidean"):
        raise SettingError(f"The distance is cosine or euclidean; got '{distance}'.")
    if threshold is None:
        if not 0 < false_matches < 1:
            raise SettingError(
                f"A false match rate is between 0 and 1, such as 0.001; got {false_matches:g}."
            )
    elif not np.isfinite(threshold):
        raise SettingError(f"The threshold must be a number; got {threshold:g}.")
    elif distance == "cosine" and not -1 <= threshold <= 1:
        raise SettingError(
            f"A cosine similarity is from -1 to 1; got the threshold {threshold:g}. Give one of"
            " them, or name the distance: euclidean."
        )
    elif distance == "euclidean" and threshold < 0:
        raise SettingError(f"A distance is 0 or more; got the threshold {threshold:g}.")


def _is_classifier(network: Network) -> bool:
    return network.kind == TRANSFORMERS or network.classes is not None


def _classifier(name: str) -> str:
    return (
        f"{name} is a classifier: its answers, a number for each class, are compared as if they"
        " were embeddings. Give a network that ends before the classes."
    )


def _known(data: ImageSet, sensitive: str) -> Mask:
    """The pictures of people whose identity and group are known; refuse sets without any."""
    if data.identities is None:
        raise DataError(
            f"'{data.name}' does not say who is in its pictures. Verification needs that: the"
            " folders of LFW, DiveFace or CelebA (identity_CelebA.txt), or an .npz with an array"
            " `identity`."
        )
    if sensitive not in data.attributes:
        why = " ".join(data.attribute_messages.get(sensitive, ()))
        known_ones = suggest(sensitive, data.attributes) if data.attributes else ""
        raise SettingError(
            (why or f"There is no attribute '{sensitive}' in '{data.name}'.") + known_ones
        )
    known: Mask = (data.identities >= 0) & (data.attributes[sensitive].codes >= 0)
    return known


def _rate(rate: PairRate) -> PairRateDocument | None:
    if not rate.pairs:
        return None
    low, high = rate.interval()
    return PairRateDocument(
        estimate=rate.estimate,
        low=low,
        high=high,
        hits=rate.hits,
        pairs=rate.pairs,
        people=rate.people,
        confidence=CONFIDENCE,
    )
