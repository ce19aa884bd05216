"""`audit_images`: from pictures and a detector to evidence, with five controls for every figure.

NeuronFair on images (Zheng et al., ICSE 2022, §3.3 and §5.5): train or open a detector, learn the
sensitive attribute from its frozen trunk, make the change Δ_sens that flips it, see which neurons
react, search for pictures whose verdict the change turns, and retrain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from torch import nn

from fairprobe.datasets.image_sets import FACE_CLASSES, ImageSet, open_images
from fairprobe.errors import SettingError
from fairprobe.images.checks import auditable, check_others, in_order_of, with_target
from fairprobe.images.controls import CHANGES, OWN
from fairprobe.images.detector import Detector
from fairprobe.images.interpret import By
from fairprobe.images.models import DetectorSource
from fairprobe.images.run import RANDOM, ImageAudit
from fairprobe.images.settings import (
    IMAGE_METHODS,
    Expected,
    ImageAuditSettings,
    search_settings,
)
from fairprobe.images.stages import ImageStages
from fairprobe.models import Outputs
from fairprobe.runs.stages import OnStage, check_seed


def audit_images(
    data: ImageSet | Path | str,
    model: Detector | nn.Module | str | None = None,
    sensitive: str = "gender",
    *,
    others: Path | str | None = None,
    size: int | None = None,
    limit: int | None = None,
    trunk: str | None = None,
    head: str | None = None,
    outputs: Outputs = "logits",
    weights: Path | str | None = None,
    target: str | None = None,
    classes: Sequence[str] | None = None,
    methods: Sequence[str] = IMAGE_METHODS,
    faces: int | None = 250,
    epsilon: float = 0.03,
    cap: float | None = None,
    smallest: bool = False,
    step: float = 0.15,
    iterations: int = 20,
    by: By = "position",
    repair: bool = True,
    controls: bool = True,
    variant: Literal["default", "paper"] = "default",
    settings: Mapping[str, object] | None = None,
    optimizer: Literal["adam", "sgd"] = "adam",
    also: Sequence[str] = (),
    labels: Path | str | None = None,
    seed: int = 0,
    progress: OnStage | None = None,
    expect: Callable[[Expected], None] | None = None,
) -> ImageAudit:
    """Find pictures that a detector or classifier judges differently when a change of the sensitive
    attribute is added.

    `data` is an `ImageSet`, or what `datasets.open_images` opens (with `others`, `size`, `limit`).
    `model` is a detector, a torch module, `module:function`, a file (.onnx, .pt2), a folder of
    transformers, "vgg16" or "resnet50"; without one, a small detector is trained. Its trunk and
    head are found unless `trunk` or `head` names them. `target` is the attribute that a classifier
    should say, instead of face or no face; `classes` names its outputs in their order. `labels` is
    a CSV with more attributes of the pictures in a folder. `variant` "paper" searches as printed,
    with plain gradients and 40 iterations; `settings` are those of the search by name, and
    `optimizer` "sgd" trains a detector as in the paper. `also` names other attributes, of which it
    is measured whether the change changes them as well. `expect` is
    called with what the audit will take before it begins. `faces` is how many the search starts
    from. Δ_sens has the size `epsilon`; it grows up to `cap` where that flips nothing, and
    with `smallest` is as small as possible. Once Δ_sens is made, an interrupt keeps what was
    measured and found until then; `stopped` says so. So does an error, if anything was found.
    """
    how = ImageAuditSettings(
        methods=tuple(methods),
        faces=faces,
        epsilon=epsilon,
        cap=cap,
        smallest=smallest,
        step=step,
        iterations=iterations,
        by=by,
        repair=repair,
        controls=controls,
        optimizer=optimizer,
        also=tuple(also),
        search_settings=search_settings(variant, settings or {}),
    )
    check_seed(seed)
    source = DetectorSource(model=model, trunk=trunk, head=head, outputs=outputs, weights=weights)
    source.check()
    if not isinstance(data, ImageSet):
        data = open_images(data, others=others, size=size, limit=limit, labels=labels, seed=seed)
    elif labels is not None:
        raise SettingError("Labels are read with a folder of pictures. Name the folder.")
    height, width = data.images.shape[2:]
    source = replace(source, size=(height, width))
    data = replace(data, messages=(*data.messages, *source.says_size(data.other_sizes)))
    if target is not None:
        data = with_target(data, target, sensitive)
    names = classes or (source.classes if data.classes != FACE_CLASSES else None)
    data = in_order_of(data, names)
    data = auditable(data, sensitive, needs_others=not source.is_trained)
    check_others(data, sensitive, how.also)
    run = ImageStages(data, sensitive, how, seed, progress)
    audit = run.prepare(source, expect)
    audit.target = target
    with run.stages.keep_partial(lambda: any(map(len, audit.findings.values()))):
        run.interpret()
        run.search(OWN, how.methods)
        if how.controls:
            run.search(OWN, (RANDOM,))
            for which in CHANGES:
                run.search(which, how.methods)
        run.repair()
    audit.stopped, audit.failed = run.stages.stopped, run.stages.failed
    run.choose_pairs()
    return audit
