"""The typed document of an audit on pictures, built from its evidence."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from fairprobe.arrays import Floats, Ints
from fairprobe.catalogue import METHODS
from fairprobe.documents import RateDocument
from fairprobe.documents.images import (
    Attack,
    AttributeDocument,
    Change,
    ControlDocument,
    CountedPairs,
    DetectorDocument,
    DetectorState,
    Flips,
    ForecastDocument,
    Found,
    GroupDetection,
    GroupSize,
    ImageData,
    ImageGeneration,
    ImageInterpretation,
    ImageLayer,
    ImagePair,
    ImageRepair,
    ImagesDocument,
    Label,
    LayerReaction,
    MeanDocument,
    OtherChanged,
    PairLabels,
    PairPictures,
    PartsDocument,
    Recall,
    Recognition,
    RepairComparison,
    Spread,
    StageTime,
    Times,
)
from fairprobe.images.controls import (
    CHANGES,
    CONTROLS,
    INDEPENDENT,
    OWN,
    RANDOM_DIRECTION,
    SHUFFLED_LABELS,
    WITHOUT_IDIS,
)
from fairprobe.images.measure import Recalls, people
from fairprobe.images.pairs import Pair, as_picture, png
from fairprobe.images.repair import ON_REPAIRS, State
from fairprobe.images.search import ImageFindings
from fairprobe.present.image_sentences import sentences, verdict
from fairprobe.results import CONFIDENCE, Rate
from fairprobe.search.neuron_bias import THRESHOLDS, LayerBias
from fairprobe.statistics.repeats import Repeats

if TYPE_CHECKING:
    from fairprobe.audits.images import ImageAudit

FEWEST = 10  # values whose mean has an interval


def images_document(audit: ImageAudit) -> ImagesDocument:
    """Everything that a reader of the audit needs; null where nothing was measured."""
    data = audit.data
    document = ImagesDocument(
        created=audit.created,
        command="",
        versions=audit.versions,
        seed=audit.seed,
        sensitive=audit.sensitive,
        target=audit.target,
        partial=audit.stopped is not None,
        stopped=audit.stopped,
        messages=[
            *data.messages,
            *data.attribute_messages.get(audit.sensitive, ()),
            *audit.messages,
        ],
        seconds=Times(
            total=sum(audit.seconds.values()),
            parts=[StageTime(name=name, seconds=taken) for name, taken in audit.seconds.items()],
        ),
        settings=asdict(audit.settings),
        forecast=ForecastDocument(
            seconds=audit.expected.forecast.seconds, bytes=audit.expected.forecast.bytes
        ),
        data=_data(audit),
        detector=_detector(audit),
        attribute=_attribute(audit),
        change=_change(audit),
        interpretation=_interpretation(audit),
        generation=[_generation(audit, method) for method in audit.findings],
        repair=_repair(audit),
        controls=_controls(audit),
        verdict="",
        sentences=[],
        pairs=[_pair(audit, pair) for pair in audit.pairs],
    )
    return msgspec.structs.replace(
        document, verdict=verdict(document), sentences=sentences(document)
    )


# -- the detector and the attribute ----------------------------------------------------------------


def _data(audit: ImageAudit) -> ImageData:
    data, attribute = audit.data, audit.data.attributes[audit.sensitive]
    faces = int(people(data).sum())
    return ImageData(
        name=data.name,
        images=len(data),
        faces=faces,
        others=len(data) - faces,
        height=data.images.shape[2],
        width=data.images.shape[3],
        classes=list(data.classes),
        learnt_from=int((~data.held_out).sum()),
        held_out=int(data.held_out.sum()),
        values=[
            GroupSize(
                name=value,
                images=int((attribute.codes == code).sum()),
                held_out=int((data.held_out & (attribute.codes == code)).sum()),
            )
            for code, value in enumerate(attribute.values)
        ],
    )


def _detector(audit: ImageAudit) -> DetectorDocument:
    quality, parts = audit.quality, audit.expected.parts
    return DetectorDocument(
        name=audit.name,
        trained_here=audit.trained_here,
        parameters=sum(parameter.numel() for parameter in audit.detector.parameters()),
        accuracy=_rate(quality.accuracy),
        detection_rate=_rate(quality.detection_rate),
        false_alarms=_optional(quality.false_alarms),
        by_value=[
            GroupDetection(name=name, detection_rate=_rate(rate))
            for name, rate in quality.by_value.items()
        ],
        parts=PartsDocument(
            trunk=parts.trunk, head=parts.head, is_found=parts.is_found, attends=parts.attends
        ),
        by_class={
            name: [
                GroupDetection(name=value, detection_rate=_rate(rate))
                for value, rate in rates.items()
            ]
            for name, rates in quality.by_class.items()
        },
    )


def _attribute(audit: ImageAudit) -> AttributeDocument:
    def recognition(recalls: Recalls | None) -> Recognition | None:
        return None if recalls is None else _recognition(recalls)

    values = audit.data.attributes[audit.sensitive].values
    return AttributeDocument(
        values=list(values),
        chance=1 / len(values),
        head=_recognition(audit.recalls[OWN]),
        independent=recognition(audit.recalls.get(INDEPENDENT)),
        shuffled_labels=recognition(audit.recalls.get(SHUFFLED_LABELS)),
    )


def _recognition(recalls: Recalls) -> Recognition:
    return Recognition(
        balanced_accuracy=recalls.balanced_accuracy,
        recalls=[Recall(name=name, rate=_rate(rate)) for name, rate in recalls.rates.items()],
    )


def _change(audit: ImageAudit) -> Change:
    how = audit.settings.change
    return Change(
        epsilon=how.epsilon,
        cap=how.epsilon if how.cap is None else how.cap,
        smallest=how.smallest,
        faces=len(audit.rows),
        **msgspec.structs.asdict(_flips(audit, OWN)),
        controls={key: _flips(audit, key) for key in CHANGES if key in audit.changes},
        others=[
            OtherChanged(
                name=name,
                head=_recognition(one.recalls),
                chance=1 / len(one.recalls.rates),
                changed=_rate(one.changed[OWN]),
                controls={key: _rate(one.changed[key]) for key in CHANGES if key in one.changed},
            )
            for name, one in audit.others.items()
        ],
    )


def _flips(audit: ImageAudit, which: str) -> Flips:
    change = audit.changes[which]
    return Flips(
        flips=_rate(Rate.of(int(change.flipped.sum()), len(change))),
        epsilon_used=_spread(change.epsilon),
        l2=_spread(change.l2),
        seen_by_independent=_optional(audit.seen_change.get(which)),
    )


# -- what was found --------------------------------------------------------------------------------


def _interpretation(audit: ImageAudit) -> ImageInterpretation | None:
    if OWN not in audit.bias:
        return None
    own = audit.bias[OWN]
    controls = {key: audit.bias[key].layers for key in CHANGES if key in audit.bias}
    return ImageInterpretation(
        pairs=own.pairs,
        by=audit.settings.by,
        most_biased=own.most_biased.name,
        auc=own.auc,
        thresholds=np.round(THRESHOLDS, 3).tolist(),
        layers=[
            ImageLayer(
                name=layer.name,
                layout=audit.layouts.get(layer.name),  # type: ignore[arg-type]
                neurons=layer.neurons,
                **msgspec.structs.asdict(_reaction(layer)),
                threshold=layer.threshold,
                biased=len(layer.biased),
                controls={key: _reaction(layers[place]) for key, layers in controls.items()},
            )
            for place, layer in enumerate(own.layers)
        ],
    )


def _reaction(layer: LayerBias) -> LayerReaction:
    return LayerReaction(auc=layer.auc, curve=np.round(layer.curve, 4).tolist())


def _generation(audit: ImageAudit, method: str) -> ImageGeneration:
    loose, strict = audit.findings[method], audit.strict_findings[method]
    is_control = method == "random"
    at_seed = int(strict.at_seed.sum())
    return ImageGeneration(
        method=method,
        title=CONTROLS[RANDOM_DIRECTION].name if is_control else METHODS[method].title,
        is_control=is_control,
        seeds=loose.seeds,
        generated=loose.generated,
        moved=strict.made,
        at_seed_rate=_rate(Rate.of(at_seed, loose.seeds)),
        gsr_rate=_rate(Rate.of(strict.made, loose.tried)),
        iterations=_spread(strict.iterations[~strict.at_seed]),
        ms_an_image=1000 * loose.seconds / loose.seeds if loose.seeds else 0.0,
        stopped=loose.stopped,
        **msgspec.structs.asdict(_found(audit, method, OWN)),
        controls={key: _found(audit, method, key) for key in CHANGES if key in audit.found[method]},
    )


def _found(audit: ImageAudit, method: str, which: str) -> Found:
    loose = audit.found[method][which]
    return Found(
        **msgspec.structs.asdict(_counted(loose.only(audit.strict[method, which]), loose.tried)),
        loose=_counted(loose, loose.tried),
        seen_by_independent=_optional(audit.seen.get((method, which))),
    )


def _counted(found: ImageFindings, tried: int) -> CountedPairs:
    return CountedPairs(
        idis=len(found),
        at_seed=int(found.at_seed.sum()),
        success=_rate(Rate.of(len(found), found.seeds)),
        gsr=found.made / tried if tried else 0.0,
        l2=_spread(found.moved_by),
    )


def _controls(audit: ImageAudit) -> list[ControlDocument]:
    """The controls that were run."""
    repaired = audit.repaired
    ran: dict[str, bool] = {
        **{key: key in audit.changes for key in CHANGES},
        INDEPENDENT: INDEPENDENT in audit.recalls,
        RANDOM_DIRECTION: "random" in audit.found,
        WITHOUT_IDIS: repaired is not None and repaired.without_idis is not None,
    }
    return [
        ControlDocument(key=key, **asdict(control)) for key, control in CONTROLS.items() if ran[key]
    ]


# -- the repair ------------------------------------------------------------------------------------


def _repair(audit: ImageAudit) -> ImageRepair | None:
    repaired = audit.repaired
    if repaired is None:
        return None
    control, after = repaired.without_idis, repaired.after
    return ImageRepair(
        idis=repaired.idis,
        method="all",
        epochs=ON_REPAIRS.epochs,
        before=_state(repaired.before),
        without_idis=None if control is None else _state(control),
        after=None if after is None else _state(after),
        compared=None if control is None or after is None else _compared(control, after),
    )


def _state(state: State) -> DetectorState:
    return DetectorState(
        accuracy=_rate(state.accuracy),
        detection_rate=_rate(state.detection_rate),
        auc=state.auc,
        auc_random_signs=state.auc_random_signs,
        flips=_rate(state.flips),
        differing=_rate(state.differing.strict),
        loose_differing=_rate(state.differing.loose),
        differing_faces=_rate(state.differing_faces.strict),
        loose_differing_faces=_rate(state.differing_faces.loose),
        attack=Attack(
            success=_rate(state.success.strict),
            loose_success=_rate(state.success.loose),
            l2=_mean(state.l2[state.strict]),
        ),
    )


def _compared(control: State, after: State) -> RepairComparison:
    lengths = [one.l2[one.strict] for one in (after, control)]
    far = [float(one.mean()) if len(one) else 0.0 for one in lengths]
    return RepairComparison(
        differing_ratio=_ratio(after.differing.strict.estimate, control.differing.strict.estimate),
        l2_ratio=_ratio(*far) if all(map(len, lengths)) else None,
        auc_ratio=_ratio(after.auc, control.auc),
        accuracy_points=100 * (after.accuracy.estimate - control.accuracy.estimate),
    )


# -- pairs and numbers -----------------------------------------------------------------------------


def _pair(audit: ImageAudit, pair: Pair) -> ImagePair:
    attribute, classes = audit.data.attributes[audit.sensitive], audit.data.classes
    labels = [
        Label(label=classes[label], probability=probability)
        for label, probability in zip(pair.labels, pair.probabilities, strict=True)
    ]

    def values(codes: tuple[int, int]) -> tuple[str, str]:
        return attribute.values[codes[0]], attribute.values[codes[1]]

    return ImagePair(
        row=pair.row,
        value=attribute.values[attribute.codes[pair.row]],
        method=pair.method,
        at_seed=pair.at_seed,
        l2_bias=pair.l2[0],
        l2_change=pair.l2[1],
        amplified=pair.amplified,
        pictures=PairPictures(
            original=png(pair.original),
            bias=png(as_picture(pair.bias, pair.amplified)),
            without=png(pair.without),
            change=png(as_picture(pair.change, pair.amplified)),
            changed=png(pair.changed),
        ),
        verdicts=PairLabels(original=labels[0], without=labels[1], changed=labels[2]),
        head=values(pair.head),
        independent=None if pair.independent is None else values(pair.independent),
    )


def _rate(rate: Rate) -> RateDocument:
    return RateDocument(**rate.to_dict())


def _optional(rate: Rate | None) -> RateDocument | None:
    """A rate, where anything was counted."""
    return _rate(rate) if rate is not None and rate.samples else None


def _spread(values: Floats | Ints) -> Spread | None:
    if len(values) == 0:
        return None
    return Spread(
        mean=float(values.mean()),
        median=float(np.median(values)),
        high=float(values.max()),
        samples=len(values),
    )


def _mean(values: Floats) -> MeanDocument | None:
    """A mean with Student's interval; of few values, which may be skewed, it would not hold."""
    if len(values) == 0:
        return None
    ends = Repeats(tuple(values.tolist())).interval if len(values) >= FEWEST else None
    low, high = ends or (None, None)
    return MeanDocument(
        estimate=float(values.mean()),
        low=low,
        high=high,
        samples=len(values),
        confidence=CONFIDENCE,
    )


def _ratio(one: float, other: float) -> float | None:
    return one / other if other else None
