"""`audit`: from pictures and a detector to evidence, with the five controls beside every figure.

NeuronFair on images (Zheng et al., ICSE 2022, §3.3 and §5.5): train or open a detector, learn the
sensitive attribute from its frozen trunk, make the change Δ_sens that flips it, see which neurons
react, search for pictures that the change makes the detector fail on, and retrain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

import numpy as np
from torch import nn

from fairprobe.arrays import Ints
from fairprobe.datasets.image_sets import FACE_CLASSES, ImageAttribute, ImageSet, open_images
from fairprobe.errors import DataError, FairprobeError, ModelError, SettingError, suggest
from fairprobe.images.attribute import attribute_head, attribute_network
from fairprobe.images.change import Change, is_flipped, random_change, sensitive_change
from fairprobe.images.controls import CHANGES, INDEPENDENT, OWN, RANDOM_SIGNS, SHUFFLED_LABELS
from fairprobe.images.detector import Detector, train_detector
from fairprobe.images.evidence import METHODS, AuditSettings, ImageAudit
from fairprobe.images.interpret import By, image_bias
from fairprobe.images.measure import as_numbers, people, quality, reading, seen
from fairprobe.images.models import Given
from fairprobe.images.pairs import striking_pairs
from fairprobe.images.repair import Repaired, Task, fine_tuned, idi_pictures, measure
from fairprobe.images.search import ImageFindings, search_images
from fairprobe.models import Outputs
from fairprobe.statistics.rates import Rate

OnStage = Callable[[str, int, int, str], None]  # what is going on, done, total, a word about it
FEWEST = 2  # faces of a value to learn it from


def audit(
    images: ImageSet | Path | str,
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
    methods: Sequence[str] = METHODS,
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
) -> ImageAudit:
    """Looks for pictures that a detector judges differently when a change of the sensitive
    attribute is added.

    `images`: a set, or what `datasets.open_images` opens (with `others`, `size`, `limit`). `model`:
      a detector, a torch module with named
    `trunk` and `head`, `module:function`, "vgg16" or "resnet50"; without one a small detector is
    trained. `faces`: how many the search starts from. Δ_sens has the size `epsilon`; it grows up to
    `cap` where that flips nothing, and with `smallest` is as small as will do. An interrupt keeps
    what was measured and found until then, once Δ_sens is made; `stopped` says so. So does an
    error, if anything was found before it.
    """
    settings = AuditSettings(
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
    if not 0 <= seed < 2**63:
        raise SettingError(f"The seed must be a whole number from 0 to 2^63 - 1; got {seed}.")
    given = Given(model=model, trunk=trunk, head=head, outputs=outputs, weights=weights)
    given.check()
    data = (
        images
        if isinstance(images, ImageSet)
        else open_images(images, others=others, size=size, limit=limit, seed=seed)
    )
    _check_attribute(data, sensitive)
    data = _with_groups_to_learn(data, sensitive)
    _check_faces(data, sensitive, needs_others=not given.is_trained)
    work = _Work(data, sensitive, settings, seed, progress)
    work.prepare(given)
    try:
        work.interpret()
        work.search(OWN, settings.methods)
        work.control()
        work.repair()
    except KeyboardInterrupt:
        work.audit.stopped = (
            f"Interrupted while {work.doing}: what comes after it is missing, and counts may be of"
            " fewer faces."
        )
    except FairprobeError as error:
        if not any(map(len, work.audit.findings.values())):
            raise
        work.audit.failed = True
        work.audit.stopped = (
            f"The audit failed while {work.doing}: {error} What was found until then is kept; the"
            " rest is missing."
        )
    work.show_pairs()
    return work.audit


class _Work:
    """The stages, each of which adds to the audit. Every stage has random numbers of its own."""

    audit: ImageAudit
    head: nn.Module
    independent: nn.Module | None = None

    def __init__(
        self,
        data: ImageSet,
        sensitive: str,
        settings: AuditSettings,
        seed: int,
        progress: OnStage | None,
    ) -> None:
        self.data, self.sensitive, self.settings, self.seed = data, sensitive, settings, seed
        self.tell = progress or (lambda *_: None)
        self.doing = ""
        self.seconds: dict[str, float] = {}
        attribute = data.attributes[sensitive]
        known = people(data) & (attribute.codes >= 0)
        self.codes, self.values = attribute.codes, attribute.values
        self.learnt = np.flatnonzero(known & ~data.held_out)
        self.held_out = np.flatnonzero(known & data.held_out)
        self.faces_rng, self.signs_rng, self.attacked_rng = np.random.default_rng(seed).spawn(3)

    @contextmanager
    def stage(self, name: str) -> Iterator[Callable[[int, int], None]]:
        """Times it, shows it, and lets an interrupt in before it begins."""
        self.doing = name[0].lower() + name[1:]
        self.tell(name, 0, 1, "")
        start = perf_counter()
        try:
            yield lambda done, total: self.tell(name, done, total, f"{done:,} of {total:,}")
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + perf_counter() - start

    # -- before the search -------------------------------------------------------------------------

    def prepare(self, given: Given) -> None:
        """The detector, the heads for the attribute, and the changes."""
        data, how = self.data, self.settings
        channels, height, width = data.images.shape[1:]
        with self.stage(
            "Opening the detector" if given.is_trained else "Training the detector"
        ) as tell:
            detector = given.open((channels, height, width), len(data.classes), seed=self.seed)
            if not given.is_trained:
                train_detector(
                    detector,
                    data.images[~data.held_out],
                    data.y[~data.held_out],
                    seed=self.seed,
                    progress=tell,
                )
        rows = _some(self.learnt, how.faces, self.faces_rng)
        learnt, codes = data.images[self.learnt], self.codes[self.learnt]
        readings, changes = {}, {}
        with self.stage("Learning the attribute") as tell:
            heads = {
                OWN: attribute_head(
                    detector, learnt, codes, len(self.values), seed=self.seed, progress=tell
                )
            }
            if how.controls:
                heads[SHUFFLED_LABELS] = attribute_head(
                    detector, learnt, codes, len(self.values), seed=self.seed, shuffled=True
                )
        if how.controls:
            with self.stage("Training the independent network") as tell:
                self.independent = attribute_network(
                    learnt, codes, len(self.values), seed=self.seed, progress=tell
                )
        self.head = heads[OWN]
        networks: dict[str, nn.Module] = {
            **heads,
            **({} if self.independent is None else {INDEPENDENT: self.independent}),
        }
        with self.stage("Changing the attribute") as tell:
            for key, network in networks.items():
                readings[key] = reading(
                    network, data.images[self.held_out], self.codes[self.held_out], self.values
                )
            for key, network in heads.items():
                changes[key] = sensitive_change(
                    network, data.images[rows], how.change, progress=tell
                )
            if how.controls:
                changes[RANDOM_SIGNS] = random_change(
                    self.head, data.images[rows], changes[OWN], rng=self.signs_rng
                )
            seen_change = (
                {}
                if self.independent is None
                else {key: self._seen(rows, change) for key, change in changes.items()}
            )
        self.audit = ImageAudit(
            data=data,
            sensitive=self.sensitive,
            detector=detector,
            name=given.name,
            trained_here=not given.is_trained,
            settings=how,
            seed=self.seed,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            quality=quality(detector, data, self.sensitive),
            readings=readings,
            rows=rows,
            changes=changes,
            seen_change=seen_change,
            seconds=self.seconds,
        )

    def _seen(self, rows: Ints, change: Change) -> Rate:
        assert self.independent is not None
        flipped = is_flipped(self.independent, self.data.images[rows], change)
        return Rate(int(flipped.sum()), len(flipped))

    # -- what is found -----------------------------------------------------------------------------

    def interpret(self) -> None:
        """Which neurons react, to the change and to those it is compared with."""
        audit = self.audit
        if len(audit.seeds) == 0:
            audit.messages.append(
                f"No face's {self.sensitive} could be flipped by a change of"
                f" {max(self.settings.change.sizes):g}: nothing to search."
            )
            return
        with self.stage("Interpreting the network") as tell:
            for key in audit.changes:
                audit.bias[key] = image_bias(
                    audit.detector,
                    self.data.images[audit.seeds],
                    audit.change_of_seeds(key),
                    by=self.settings.by,
                    progress=tell,
                )

    def search(self, which: str, methods: Sequence[str]) -> None:
        """Each method, with one of the changes."""
        audit = self.audit
        if len(audit.seeds) == 0:
            return
        images, change = self.data.images[audit.seeds], audit.change_of_seeds(which)
        for method in methods:
            name = {"random": "Searching at random"}.get(method, f"Searching with {method}")
            with self.stage(name if which == OWN else f"{name}, control") as tell:
                try:
                    found = search_images(
                        audit.detector,
                        images,
                        change,
                        self.settings.search(method),
                        bias=audit.bias[which],
                        rng=np.random.default_rng(self.seed),
                        progress=tell,
                    )
                except FairprobeError as error:
                    if which == OWN and error.findings:
                        audit.found.setdefault(method, {})[which] = error.findings
                    raise
                is_whole = found.stopped == "complete"
                if which == OWN or is_whole:  # half a control says nothing
                    audit.found.setdefault(method, {})[which] = found
                    self._ask_others(method, which, found)
                if not is_whole:
                    raise KeyboardInterrupt

    def _ask_others(self, method: str, which: str, found: ImageFindings) -> None:
        """Who sees the attribute change in the pairs: the head that Δ_sens was made with, at
        another place, and the independent network.
        """
        audit = self.audit
        without = np.clip(as_numbers(self.data.images[audit.seeds[found.rows]]) + found.delta, 0, 1)
        changed = np.clip(without + audit.change_of_seeds(which).delta[found.rows], 0, 1)
        if which == OWN:
            audit.seen_by_head[method] = seen(self.head, without, changed)
        if self.independent is not None:
            audit.seen[method, which] = seen(self.independent, without, changed)

    def control(self) -> None:
        """The same searches with the other changes, and one without a direction."""
        if not self.settings.controls:
            return
        self.search(OWN, ("random",))
        for which in CHANGES:
            self.search(which, self.settings.methods)

    def repair(self) -> None:
        """Retrains with everything that was found, and measures before, after, and after the same
        without.
        """
        audit = self.audit
        found = [
            audit.findings[method] for method in self.settings.methods if method in audit.findings
        ]
        if not self.settings.repair or not any(len(one) for one in found):
            return
        if len(np.unique(self.data.y[~self.data.held_out])) < 2:
            audit.messages.append(
                "All pictures are of one class, so the detector is not retrained: it would forget"
                " the others."
            )
            return
        try:
            self._retrain(found)
        except ModelError as error:  # what was found is worth more than what it could have mended
            audit.messages.append(f"The detector could not be retrained. {error}")

    def _retrain(self, found: list[ImageFindings]) -> None:
        audit = self.audit
        images, change = self.data.images[audit.seeds], audit.change_of_seeds()
        idis = np.concatenate([idi_pictures(images, change, one) for one in found])
        rows = np.concatenate([np.tile(audit.seeds[one.rows], 2) for one in found])
        task = Task(
            self.data,
            self.sensitive,
            self.learnt,
            _some(self.held_out, self.settings.faces, self.attacked_rng),
            self.settings.change,
            self.settings.search(self.settings.methods[0]),
            self.settings.by,
            self.seed,
        )
        with self.stage("Measuring before the repair") as tell:
            before = measure(audit.detector, task, progress=tell)
        audit.repaired = Repaired(audit.detector, len(idis), before, None, None)
        for name, pictures in (("without_idis", self.data.images[rows]), ("after", idis)):
            if name == "without_idis" and not self.settings.controls:
                continue
            with self.stage(
                "Retraining with IDIs" if name == "after" else "Fine-tuning without IDIs"
            ) as tell:
                new = fine_tuned(
                    audit.detector,
                    self.data,
                    pictures,
                    self.data.y[rows],
                    seed=self.seed,
                    progress=tell,
                )
            with self.stage(
                "Measuring the repair" if name == "after" else "Measuring without IDIs"
            ) as tell:
                state = measure(new, task, before=before, progress=tell)
            if name == "after":
                audit.repaired = replace(audit.repaired, detector=new, after=state)
            else:
                audit.repaired = replace(audit.repaired, without_idis=state)

    def show_pairs(self) -> None:
        """Pairs of the first method that found any."""
        audit = self.audit
        found = next((one for one in audit.findings.values() if len(one)), None)
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


def _some(rows: Ints, count: int | None, rng: np.random.Generator) -> Ints:
    """So many of the rows, drawn, in their order."""
    return (
        rows
        if count is None or count >= len(rows)
        else np.sort(rng.choice(rows, count, replace=False))
    )


def _check_attribute(data: ImageSet, sensitive: str) -> None:
    if not people(data).any():
        raise DataError(
            f"'{data.name}' has no faces, so there is nobody to audit for. Expected pictures of"
            " people with known attributes."
        )
    if not data.attributes:
        said = data.told.get(sensitive, ())
        raise DataError(
            " ".join(
                [f"Nothing is known of the people in '{data.name}' that tells groups apart.", *said]
            )
        )
    if sensitive not in data.attributes:
        why = (
            " ".join(data.told.get(sensitive, ()))
            or f"There is no attribute '{sensitive}' in '{data.name}'."
        )
        raise SettingError(why + suggest(sensitive, data.attributes))


def _with_groups_to_learn(data: ImageSet, sensitive: str) -> ImageSet:
    """Without values of the attribute that too few faces have to learn it from, if two others are
    left; they are told.
    """
    attribute = data.attributes[sensitive]
    counts = _to_learn_from(data, attribute)
    kept = np.flatnonzero(counts >= FEWEST).tolist()
    if len(kept) < 2 or len(kept) == len(counts):
        return data
    said = [
        f"The {sensitive} '{value}' is left out: {'one face' if count else 'no face'} to learn it"
        " from."
        for value, count in zip(attribute.values, counts, strict=True)
        if count < FEWEST
    ]
    told = data.told | {sensitive: (*data.told.get(sensitive, ()), *said)}
    return replace(data, attributes=data.attributes | {sensitive: attribute.only(kept)}, told=told)


def _to_learn_from(data: ImageSet, attribute: ImageAttribute) -> Ints:
    """How many faces of each value there are that are not held out."""
    learnt = people(data) & (attribute.codes >= 0) & ~data.held_out
    return np.bincount(attribute.codes[learnt], minlength=len(attribute.values))


def _check_faces(data: ImageSet, sensitive: str, *, needs_others: bool) -> None:
    """Refuses pictures that cannot be audited, before anything is trained."""
    attribute = data.attributes[sensitive]
    counts = _to_learn_from(data, attribute)
    held_out = int((people(data) & (attribute.codes >= 0) & data.held_out).sum())
    if (counts > 0).sum() < 2:
        there = [value for value, count in zip(attribute.values, counts, strict=True) if count]
        raise DataError(
            f"All faces to learn from have the {sensitive} '{there[0] if there else 'unknown'}': a"
            " change of it needs two values or more."
        )
    if counts[counts > 0].min() < FEWEST or not held_out:
        each = zip(attribute.values, counts, strict=True)
        raise DataError(
            f"There are too few faces in '{data.name}': expected {FEWEST} or more of each"
            f" {sensitive} to learn from and some held out; got"
            f" {', '.join(f'{value} {count}' for value, count in each)}"
            f" and {held_out} held out."
        )
    if needs_others and data.classes == FACE_CLASSES and (people(data) | data.held_out).all():
        raise DataError(
            f"All pictures of '{data.name}' are faces, and a detector also learns from pictures"
            " without one: name a folder of them (--others), or give a detector of your own"
            " (--model)."
        )
