"""`audit_images`: from pictures and a detector to evidence, with five controls beside every figure.

NeuronFair on images (Zheng et al., ICSE 2022, §3.3 and §5.5): train or open a detector, learn the
sensitive attribute from its frozen trunk, make the change Δ_sens that flips it, see which neurons
react, search for pictures whose verdict the change turns, and retrain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from fairprobe.arrays import Ints, Mask
from fairprobe.audits.base import AuditResult, OnStage, OnStep, Stages, Write, check_seed
from fairprobe.audits.image_document import images_document
from fairprobe.audits.image_forecast import Work, forecast
from fairprobe.audits.image_settings import IMAGE_METHODS, Expected, ImageAuditSettings
from fairprobe.datasets.image_sets import FACE_CLASSES, ImageSet, open_images
from fairprobe.documents.images import ImagesDocument
from fairprobe.errors import FairprobeError, ModelError
from fairprobe.images.attribute import attribute_head, attribute_network
from fairprobe.images.change import (
    Change,
    is_flipped,
    random_change,
    sensitive_change,
)
from fairprobe.images.checks import auditable
from fairprobe.images.controls import CHANGES, INDEPENDENT, OWN, RANDOM_SIGNS, SHUFFLED_LABELS
from fairprobe.images.detector import Detector, parts_of, train_detector
from fairprobe.images.interpret import By, image_bias, layer_layouts
from fairprobe.images.measure import (
    Quality,
    Recalls,
    answers,
    differing,
    people,
    quality,
    recalls,
    strict_pairs,
)
from fairprobe.images.models import DetectorSource
from fairprobe.images.pairs import Pair, striking_pairs
from fairprobe.images.repair import Repaired, Task, fine_tuned, idi_pictures, measure
from fairprobe.images.saved import NETWORKS, packed
from fairprobe.images.search import ImageFindings, search_images
from fairprobe.images.target import in_order_of, with_target
from fairprobe.interpret import NeuronBias
from fairprobe.models import Outputs
from fairprobe.statistics.rates import Rate
from fairprobe.storage import replacing
from fairprobe.versions import versions

FINDINGS = "findings.npz"


@dataclass(repr=False)
class ImageAudit(AuditResult[ImagesDocument]):
    """The evidence, filled stage by stage, so that an interrupt leaves what was found until then.

    `rows` are the faces that were tried, as rows of the data. `changes`, `bias` and `found` hold
    what belongs to the attribute's own change (`OWN`) and to the control changes. Searches start
    from `seeds`, the faces whose attribute the own change flips. `strict` says which pairs count
    where the search ended, asked of the classifier that the change was made with (`heads`).
    `stopped` says why the audit ended early; `failed`, that an error was the reason.
    """

    data: ImageSet
    sensitive: str
    detector: Detector
    name: str
    trained_here: bool
    settings: ImageAuditSettings
    seed: int
    created: str
    quality: Quality
    recalls: dict[str, Recalls]
    rows: Ints
    heads: dict[str, nn.Module]
    changes: dict[str, Change]
    expected: Expected
    independent: nn.Module | None = None
    file: Path | None = None  # of the detector, if it was read from one
    seen_change: dict[str, Rate] = field(default_factory=dict)
    layouts: dict[str, str] = field(default_factory=dict)  # of the layers, by name
    bias: dict[str, NeuronBias] = field(default_factory=dict)
    found: dict[str, dict[str, ImageFindings]] = field(default_factory=dict)  # by method, by change
    strict: dict[tuple[str, str], Mask] = field(default_factory=dict)  # by method and change
    seen: dict[tuple[str, str], Rate] = field(default_factory=dict)  # by the independent network
    repaired: Repaired | None = None
    pairs: list[Pair] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    stopped: str | None = None
    failed: bool = False
    versions: dict[str, str] = field(default_factory=lambda: versions("torch", "numpy"))

    @property
    def seeds(self) -> Ints:
        return self.rows[self.changes[OWN].flipped]

    @property
    def findings(self) -> dict[str, ImageFindings]:
        """What each method found with the attribute's own change."""
        return {
            method: by_change[OWN] for method, by_change in self.found.items() if OWN in by_change
        }

    @property
    def strict_findings(self) -> dict[str, ImageFindings]:
        """Those of them that count strictly."""
        return {
            method: found.only(self.strict[method, OWN]) for method, found in self.findings.items()
        }

    def change_of_seeds(self, which: str = OWN) -> Change:
        """A change of the seeds alone: the same faces for every control."""
        return self.changes[which].take(self.changes[OWN].flipped)

    @property
    def document(self) -> ImagesDocument:
        """All of it as a typed document."""
        return images_document(self)

    def files(self) -> dict[str, Write]:
        """The findings: the seeds with their Δ_sens, and for each method which of them it made
        differ, by which Δ_bias, the two pictures that this gives, whether they count strictly, the
        attribute's value, and what the detector answers to both, with its probability. The networks
        with which `verify_images` checks them again.
        """
        return {FINDINGS: self._write_findings, NETWORKS: self._write_networks}

    def _write_networks(self, path: Path) -> None:
        repaired = self.repaired
        content = packed(
            self.detector,
            self.heads,
            self.independent,
            repaired.detector if repaired is not None and repaired.after is not None else None,
            self.data.images[self.rows],
            self.file,
        )
        with replacing(path) as temporary:
            temporary.write_bytes(content)

    def _write_findings(self, path: Path) -> None:
        change, images = self.change_of_seeds(), self.data.images[self.seeds]
        arrays: dict[str, Any] = {"seeds": self.seeds, "change": change.delta}
        codes = self.data.attributes[self.sensitive].codes
        for method, found in self.findings.items():
            without, changed = found.pictures(images, change)
            labels, sure = answers(self.detector, without, changed)
            arrays |= {
                f"{method}_rows": self.seeds[found.rows],
                f"{method}_delta": found.delta,
                f"{method}_iterations": found.iterations,
                f"{method}_at_seed": found.at_seed,
                f"{method}_strict": self.strict[method, OWN],
                f"{method}_without": without,
                f"{method}_with": changed,
                f"{method}_values": codes[self.seeds[found.rows]],
                f"{method}_labels": labels,
                f"{method}_probabilities": sure,
            }
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **arrays)


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
    should say, instead of face or no face; `classes` names its outputs in their order. `expect` is
    called with what the audit will take before it begins. `faces` is how many the search starts
    from. Δ_sens has the size `epsilon`; it grows up to `cap` where that flips nothing, and
    with `smallest` is as small as possible. Once Δ_sens is made, an interrupt keeps what was
    measured and found until then; `stopped` says so. So does an error, if anything was found.
    """
    settings = ImageAuditSettings(
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
    )
    check_seed(seed)
    source = DetectorSource(model=model, trunk=trunk, head=head, outputs=outputs, weights=weights)
    source.check()
    if not isinstance(data, ImageSet):
        data = open_images(data, others=others, size=size, limit=limit, seed=seed)
    if target is not None:
        data = with_target(data, target, sensitive)
    names = classes or (source.classes if data.classes != FACE_CLASSES else None)
    data = in_order_of(data, names)
    data = auditable(data, sensitive, needs_others=not source.is_trained)
    run = _Run(data, sensitive, settings, seed, progress)
    audit = run.prepare(source, expect)
    with run.stages.keep_partial(lambda: any(map(len, audit.findings.values()))):
        run.interpret()
        run.search(OWN, settings.methods)
        if settings.controls:
            run.search(OWN, ("random",))
            for which in CHANGES:
                run.search(which, settings.methods)
        run.repair()
    audit.stopped, audit.failed = run.stages.stopped, run.stages.failed
    run.choose_pairs()
    return audit


class _Run:
    """The stages of an audit, each of which adds to the evidence and has random numbers of its
    own.
    """

    audit: ImageAudit
    expected: Expected
    head: nn.Module
    independent: nn.Module | None = None

    def __init__(
        self,
        data: ImageSet,
        sensitive: str,
        settings: ImageAuditSettings,
        seed: int,
        progress: OnStage | None,
    ) -> None:
        self.data, self.sensitive, self.settings, self.seed = data, sensitive, settings, seed
        self.stages = Stages(progress)
        attribute = data.attributes[sensitive]
        is_known = people(data) & (attribute.codes >= 0)
        self.codes, self.values = attribute.codes, attribute.values
        self.to_learn = np.flatnonzero(is_known & ~data.held_out)
        self.held_out = np.flatnonzero(is_known & data.held_out)
        self.faces_rng, self.signs_rng, self.attacked_rng = np.random.default_rng(seed).spawn(3)

    # -- before the search -------------------------------------------------------------------------

    def prepare(
        self, source: DetectorSource, expect: Callable[[Expected], None] | None
    ) -> ImageAudit:
        """Open or train the detector, learn the attribute, and make the changes."""
        detector = self._detector(source, expect)
        heads = self._learn_attribute(detector)
        networks: dict[str, nn.Module] = dict(heads)
        if self.independent is not None:
            networks[INDEPENDENT] = self.independent
        rows = _sample(self.to_learn, self.settings.faces, self.faces_rng)
        images = self.data.images[rows]
        held_out, codes = self.data.images[self.held_out], self.codes[self.held_out]
        with self.stages.stage("Changing the attribute") as step:
            recognized = {
                key: recalls(network, held_out, codes, self.values)
                for key, network in networks.items()
            }
            changes = {
                key: sensitive_change(
                    network, images, self.settings.change, progress=_counted(step)
                )
                for key, network in heads.items()
            }
            if self.settings.controls:
                changes[RANDOM_SIGNS] = random_change(
                    self.head, images, changes[OWN], rng=self.signs_rng
                )
            seen = {} if self.independent is None else _seen(self.independent, images, changes)
        self.audit = ImageAudit(
            data=self.data,
            sensitive=self.sensitive,
            detector=detector,
            name=source.name,
            trained_here=not source.is_trained,
            settings=self.settings,
            seed=self.seed,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            quality=quality(detector, self.data, self.sensitive),
            recalls=recognized,
            rows=rows,
            heads=heads,
            changes=changes,
            seen_change=seen,
            expected=self.expected,
            independent=self.independent,
            file=source.file,
            seconds=self.stages.seconds,
        )
        return self.audit

    def _detector(
        self, source: DetectorSource, expect: Callable[[Expected], None] | None
    ) -> Detector:
        data = self.data
        channels, height, width = data.images.shape[1:]
        with self.stages.stage("Opening the detector"):
            detector = source.open((channels, height, width), len(data.classes), seed=self.seed)
            self.expected = self._expected(source, detector)
        if expect is not None:
            expect(self.expected)
        if source.is_trained:
            return detector
        with self.stages.stage("Training the detector") as step:
            images, y = data.images[~data.held_out], data.y[~data.held_out]
            return train_detector(detector, images, y, seed=self.seed, progress=_counted(step))

    def _expected(self, source: DetectorSource, detector: Detector) -> Expected:
        """What the rest of the audit takes, at most."""
        data, settings = self.data, self.settings
        faces = len(self.to_learn) if settings.faces is None else settings.faces
        work = Work(
            to_learn=int((~data.held_out).sum()),
            faces=len(self.to_learn),
            held_out=int(data.held_out.sum()),
            seeds=min(faces, len(self.to_learn)),
            attacked=min(faces, len(self.held_out)),
            methods=len(settings.methods),
            controls=settings.controls,
            repair=settings.repair,
            trains=not source.is_trained,
        )
        how = settings.search(settings.methods[0])
        found = forecast(detector, data.images, len(self.values), work, settings.change, how)
        return Expected(source.name, parts_of(detector), found)

    def _learn_attribute(self, detector: Detector) -> dict[str, nn.Module]:
        images, codes = self.data.images[self.to_learn], self.codes[self.to_learn]
        count, seed = len(self.values), self.seed
        with self.stages.stage("Learning the attribute") as step:
            self.head = attribute_head(
                detector, images, codes, count, seed=seed, progress=_counted(step)
            )
            heads: dict[str, nn.Module] = {OWN: self.head}
            if self.settings.controls:
                heads[SHUFFLED_LABELS] = attribute_head(
                    detector, images, codes, count, seed=seed, shuffled=True
                )
        if self.settings.controls:
            with self.stages.stage("Training the independent network") as step:
                self.independent = attribute_network(
                    images, codes, count, seed=seed, progress=_counted(step)
                )
        return heads

    # -- what is found -----------------------------------------------------------------------------

    def interpret(self) -> None:
        """See which neurons react to the change and to the control changes."""
        audit = self.audit
        if len(audit.seeds) == 0:
            audit.messages.append(
                f"A change of {max(self.settings.change.sizes):g} flips the {self.sensitive} of no"
                " face: nothing to search."
            )
            return
        with self.stages.stage("Interpreting the network") as step:
            audit.layouts = layer_layouts(audit.detector, self.data.images[audit.seeds[:1]])
            for key in audit.changes:
                audit.bias[key] = image_bias(
                    audit.detector,
                    self.data.images[audit.seeds],
                    audit.change_of_seeds(key),
                    by=self.settings.by,
                    progress=_counted(step),
                )

    def search(self, which: str, methods: Sequence[str]) -> None:
        """Search with each method and one of the changes."""
        audit = self.audit
        if len(audit.seeds) == 0:
            return
        images, change = self.data.images[audit.seeds], audit.change_of_seeds(which)
        for method in methods:
            name = "Searching at random" if method == "random" else f"Searching with {method}"
            with self.stages.stage(name if which == OWN else f"{name}, control") as step:
                try:
                    found = search_images(
                        audit.detector,
                        images,
                        change,
                        replace(self.settings.search(method), batch=self.expected.forecast.batch),
                        bias=audit.bias[which],
                        rng=np.random.default_rng(self.seed),
                        progress=_counted(step),
                    )
                except FairprobeError as error:
                    if which == OWN and error.findings:
                        self._keep(method, which, error.findings)
                    raise
                is_complete = found.stopped == "complete"
                if which == OWN or is_complete:  # half a control says nothing
                    self._keep(method, which, found)
                if not is_complete:
                    raise KeyboardInterrupt

    def _keep(self, method: str, which: str, found: ImageFindings) -> None:
        """Keep what was found, and ask again where the search ended: the classifier that the change
        was made with, and of the pairs that then count, the independent network. Random signs know
        no classifier, so the attribute's own is asked.
        """
        audit = self.audit
        without, changed = found.pictures(
            self.data.images[audit.seeds], audit.change_of_seeds(which)
        )
        strict = strict_pairs(audit.detector, audit.heads.get(which, self.head), without, changed)
        audit.found.setdefault(method, {})[which] = found
        audit.strict[method, which] = strict
        if self.independent is not None:
            audit.seen[method, which] = differing(
                self.independent, without[strict], changed[strict]
            )

    # -- the repair --------------------------------------------------------------------------------

    def repair(self) -> None:
        """Retrain with all pairs that count strictly, and measure before, after, and after the same
        training without them.
        """
        audit, data = self.audit, self.data
        found = [
            found
            for method, found in audit.strict_findings.items()
            if method in self.settings.methods
        ]
        if not self.settings.repair or not any(map(len, found)):
            return
        if len(np.unique(data.y[~data.held_out])) < 2:
            audit.messages.append(
                "All pictures are of one class, so the detector is not retrained: it would forget"
                " the others."
            )
            return
        try:
            self._retrain(found)
        except ModelError as error:  # the findings are worth more than the repair
            audit.messages.append(f"The detector could not be retrained. {error}")

    def _retrain(self, found: list[ImageFindings]) -> None:
        audit, data, settings = self.audit, self.data, self.settings
        images, change = data.images[audit.seeds], audit.change_of_seeds()
        idis = np.concatenate([idi_pictures(images, change, one) for one in found])
        rows = np.concatenate([np.tile(audit.seeds[one.rows], 2) for one in found])
        task = Task(
            data,
            self.sensitive,
            self.to_learn,
            _sample(self.held_out, settings.faces, self.attacked_rng),
            settings.change,
            replace(settings.search(settings.methods[0]), batch=self.expected.forecast.batch),
            settings.by,
            self.seed,
        )
        with self.stages.stage("Measuring before the repair") as step:
            before = measure(audit.detector, task, progress=_counted(step))
        audit.repaired = Repaired(audit.detector, len(idis), before, None, None)
        if settings.controls:
            with self.stages.stage("Fine-tuning without IDIs") as step:
                new = self._fine_tuned(data.images[rows], rows, step)
            with self.stages.stage("Measuring without IDIs") as step:
                state = measure(new, task, before=before, progress=_counted(step))
            audit.repaired = replace(audit.repaired, without_idis=state)
        with self.stages.stage("Retraining with IDIs") as step:
            new = self._fine_tuned(idis, rows, step)
        with self.stages.stage("Measuring the repair") as step:
            state = measure(new, task, before=before, progress=_counted(step))
        audit.repaired = replace(audit.repaired, detector=new, after=state)

    def _fine_tuned(self, pictures: Any, rows: Ints, step: OnStep) -> Detector:
        return fine_tuned(
            self.audit.detector,
            self.data,
            pictures,
            self.data.y[rows],
            seed=self.seed,
            progress=_counted(step),
        )

    def choose_pairs(self) -> None:
        """Choose pairs of the first method that found any which count strictly."""
        audit = self.audit
        found = next(filter(len, audit.strict_findings.values()), None)
        if found is not None:
            audit.pairs = striking_pairs(
                self.data,
                audit.seeds,
                audit.change_of_seeds(),
                found,
                audit.detector,
                self.head,
                self.independent,
            )


def _seen(network: nn.Module, images: Any, changes: dict[str, Change]) -> dict[str, Rate]:
    flipped = {key: is_flipped(network, images, change) for key, change in changes.items()}
    return {key: Rate(int(flips.sum()), len(flips)) for key, flips in flipped.items()}


def _counted(step: OnStep) -> Callable[[int, int], None]:
    return lambda done, total: step(done, total, f"{done:,} of {total:,}")


def _sample(rows: Ints, count: int | None, rng: np.random.Generator) -> Ints:
    """At most so many of the rows, drawn at random, in their order."""
    if count is None or count >= len(rows):
        return rows
    return np.sort(rng.choice(rows, count, replace=False))
