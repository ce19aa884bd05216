"""The stages of an audit on pictures, in the order in which they add to the evidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np
from torch import nn

from fairprobe.arrays import Ints
from fairprobe.datasets.image_sets import ImageSet
from fairprobe.errors import FairprobeError, ModelError
from fairprobe.images.attribute import attribute_head, attribute_network
from fairprobe.images.change import (
    Change,
    is_flipped,
    random_change,
    sensitive_change,
)
from fairprobe.images.controls import INDEPENDENT, OWN, RANDOM_SIGNS, SHUFFLED_LABELS, Compared
from fairprobe.images.detector import Detector, parts_of, train_detector
from fairprobe.images.forecast import Work, forecast
from fairprobe.images.interpret import image_bias, layer_layouts
from fairprobe.images.measure import (
    differing,
    people,
    quality,
    recalls,
    strict_pairs,
)
from fairprobe.images.models import DetectorSource
from fairprobe.images.pairs import striking_pairs
from fairprobe.images.repair import ON_REPAIRS, ImageRepair, Task, fine_tuned, idi_pictures, measure
from fairprobe.images.run import ImageAudit, OtherAttribute
from fairprobe.images.search import ImageFindings, search_images
from fairprobe.images.settings import Expected, ImageAuditSettings
from fairprobe.results import Rate
from fairprobe.runs.stages import OnStage, OnStep, Stages, counted


class ImageStages:
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
                key: sensitive_change(network, images, self.settings.change, progress=counted(step))
                for key, network in heads.items()
            }
            if self.settings.controls:
                changes[RANDOM_SIGNS] = random_change(
                    self.head, images, changes[OWN], rng=self.signs_rng
                )
            seen = {} if self.independent is None else _seen(self.independent, images, changes)
        others = [self._other(detector, name, rows, changes) for name in self.settings.also]
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
            others=others,
            independent=self.independent,
            seconds=self.stages.seconds,
        )
        return self.audit

    def _detector(
        self, source: DetectorSource, expect: Callable[[Expected], None] | None
    ) -> Detector:
        data = self.data
        channels, height, width = data.images.shape[1:]
        with self.stages.stage("Opening the network"):
            detector = source.open((channels, height, width), len(data.classes), seed=self.seed)
            self.expected = self._expected(source, detector)
        if expect is not None:
            expect(self.expected)
        if source.is_trained:
            return detector
        with self.stages.stage("Training the network") as step:
            images, y = data.images[~data.held_out], data.y[~data.held_out]
            return train_detector(
                detector,
                images,
                y,
                seed=self.seed,
                sgd=self.settings.optimizer == "sgd",
                progress=counted(step),
            )

    def _expected(self, source: DetectorSource, detector: Detector) -> Expected:
        """Forecast what the rest of the audit takes, at most."""
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
                detector, images, codes, count, seed=seed, progress=counted(step)
            )
            heads: dict[str, nn.Module] = {OWN: self.head}
            if self.settings.controls:
                heads[SHUFFLED_LABELS] = attribute_head(
                    detector, images, codes, count, seed=seed, shuffled=True
                )
        if self.settings.controls:
            with self.stages.stage("Training the independent network") as step:
                self.independent = attribute_network(
                    images, codes, count, seed=seed, progress=counted(step)
                )
        return heads

    def _other(
        self, detector: Detector, name: str, rows: Ints, changes: dict[str, Change]
    ) -> OtherAttribute:
        """Learn another attribute from the trunk, and see whether the changes change it."""
        data, attribute = self.data, self.data.attributes[name]
        known = people(data) & (attribute.codes >= 0)
        to_learn, held_out = (
            np.flatnonzero(known & part) for part in (~data.held_out, data.held_out)
        )
        with self.stages.stage(f"Learning {name}") as step:
            head = attribute_head(
                detector,
                data.images[to_learn],
                attribute.codes[to_learn],
                len(attribute.values),
                seed=self.seed,
                progress=counted(step),
            )
            codes = attribute.codes[held_out]
            return OtherAttribute(
                name=name,
                head=recalls(head, data.images[held_out], codes, attribute.values),
                changed=Compared.of(_seen(head, data.images[rows], changes)),
            )

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
                    progress=counted(step),
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
                        progress=counted(step),
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
                "All pictures are of one class, so the network is not retrained: it would forget"
                " the others."
            )
            return
        try:
            self._retrain(found)
        except ModelError as error:  # the findings are worth more than the repair
            audit.messages.append(f"The network could not be retrained. {error}")

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
            before = measure(audit.detector, task, progress=counted(step))
        audit.repair = ImageRepair(idis=len(idis), epochs=ON_REPAIRS.epochs, before=before.state)
        if settings.controls:
            with self.stages.stage("Fine-tuning without IDIs") as step:
                new = self._fine_tuned(data.images[rows], rows, step)
            with self.stages.stage("Measuring without IDIs") as step:
                measured = measure(new, task, before=before, progress=counted(step))
            audit.repair = msgspec.structs.replace(audit.repair, without_idis=measured.state)
        with self.stages.stage("Retraining with IDIs") as step:
            new = self._fine_tuned(idis, rows, step)
        with self.stages.stage("Measuring the repair") as step:
            measured = measure(new, task, before=before, progress=counted(step))
        audit.repair = msgspec.structs.replace(audit.repair, after=measured.state)
        audit.repaired = new

    def _fine_tuned(self, pictures: Any, rows: Ints, step: OnStep) -> Detector:
        return fine_tuned(
            self.audit.detector,
            self.data,
            pictures,
            self.data.y[rows],
            seed=self.seed,
            progress=counted(step),
        )

    def choose_pairs(self) -> None:
        """Choose pairs of the first method that found any which count strictly."""
        audit = self.audit
        found = next(filter(len, audit.strict_findings.values()), None)
        if found is not None:
            audit.pairs = striking_pairs(
                self.data,
                self.sensitive,
                audit.seeds,
                audit.change_of_seeds(),
                found,
                audit.detector,
                self.head,
                self.independent,
            )


def _seen(network: nn.Module, images: Any, changes: dict[str, Change]) -> dict[str, Rate]:
    flipped = {key: is_flipped(network, images, change) for key, change in changes.items()}
    return {key: Rate.of(int(flips.sum()), len(flips)) for key, flips in flipped.items()}


def _sample(rows: Ints, count: int | None, rng: np.random.Generator) -> Ints:
    """At most so many of the rows, drawn at random, in their order."""
    if count is None or count >= len(rows):
        return rows
    return np.sort(rng.choice(rows, count, replace=False))
