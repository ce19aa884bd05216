"""What an audit on pictures found, in sentences: never more than its controls allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairprobe.documents import RateDocument
from fairprobe.documents.images import DetectorState, ImageGeneration, ImagesDocument
from fairprobe.present.image_tables import CHANGES, is_detector, kind_of
from fairprobe.report.formats import (
    count,
    decimal,
    listed,
    percent,
    plain,
    ratio,
    seconds,
    size,
)

if TYPE_CHECKING:
    from fairprobe.images.parts import Parts

MOSTLY = 0.5  # below this share of pairs, an independent network mostly sees no change


def expected_lines(name: str, parts: Parts, duration: float, memory: float) -> list[str]:
    """What is known before an audit begins: how the network is divided, and what it takes."""
    cost = (
        f"The audit takes at most about {plain(seconds(duration))} of one core, and about"
        f" {plain(size(memory))} of memory beside Python and torch."
    )
    if (parts.trunk, parts.head) == ("trunk", "head"):  # as every detector of ours
        return [cost]
    kind = " It computes attention." if parts.attends else ""
    how = "" if not parts.is_found else " Found by watching it; --trunk or --head changes that."
    return [f"{name}: {parts.says}.{how}{kind}", cost]


def guided(document: ImagesDocument) -> list[ImageGeneration]:
    """The searches that follow a method, without the random control."""
    return [one for one in document.generation if not one.is_control]


def best_search(document: ImagesDocument) -> ImageGeneration | None:
    """The search that found most, of those that began."""
    begun = [one for one in guided(document) if one.seeds]
    return max(begun, key=lambda one: (one.idis, one.loose.idis), default=None)


def is_matched(search: ImageGeneration) -> bool:
    """Whether a change that cannot know the attribute finds as many pairs, as far as the intervals
    can tell, in either count.
    """
    control = search.controls.get("shuffled_labels")
    return control is not None and (
        control.success.high >= search.success.low
        or control.loose.success.high >= search.loose.success.low
    )


def is_unseen(search: ImageGeneration) -> bool:
    """Whether an independent network sees no change of the attribute in most pairs."""
    seen = search.seen_by_independent
    return seen is not None and seen.estimate < MOSTLY


def headline(document: ImagesDocument) -> str:
    """The result in one line."""
    name, best = document.sensitive, best_search(document)
    if best is None:
        if document.partial:
            return "The audit ended before any search"
        return f"Nothing to search: no face’s {name} could be flipped"
    if best.idis == 0 and best.loose.idis:
        return f"Verdicts change, but nowhere where the attribute head sees {name} change"
    if best.idis == 0:
        return f"No verdict that changes with {name} was found"
    if is_matched(best):
        return f"Verdicts change, but as often with a change that is not about {name}"
    if is_unseen(best):
        return f"Verdicts change, but mostly where no other network sees {name} change"
    return f"Verdicts that change with {name} were found"


def verdict(document: ImagesDocument) -> str:
    """What the searches found, and whether that can be about the sensitive attribute."""
    name, kind = document.sensitive, kind_of(document)
    kind += "" if document.target is None else f" of {document.target}"
    best = best_search(document)
    if best is None and document.partial:
        return "The audit was interrupted before any search began, so no pairs are known."
    if best is None:
        return (
            f"A change of {document.change.cap:g} did not flip the attribute head's opinion on"
            f" {name} for any face, so there was nothing to search. A larger change (--epsilon,"
            " --cap) may flip it."
        )
    if best.loose.idis == 0:
        return (
            f"No differing pair was found: from {count(best.seeds)} faces, the change of {name}"
            f" never changed the verdict of the {kind}. This does not prove that there is none."
        )
    if best.idis == 0:
        return (
            f"No pair counts: {best.title} turns {count(best.loose.idis)} of {count(best.seeds)}"
            f" faces into pairs that the {kind} judges differently, but where the search ended the"
            f" attribute head sees no change of {name} in any of them."
        )
    return (
        f"{best.title} turns {count(best.idis)} of {count(best.seeds)} faces into pairs (image"
        f" IDIs) that the {kind} judges differently when the change of {name} is added, and in"
        f" which the attribute head sees {name} change. Counted loosely, as in the paper, there are"
        f" {count(best.loose.idis)}: there the head need only see the change before the search."
        f" {_meaning(document, best)}"
    )


def _meaning(document: ImagesDocument, search: ImageGeneration) -> str:
    """What the controls leave of a finding."""
    name, seen = document.sensitive, search.seen_by_independent
    control = search.controls.get("shuffled_labels")
    if control is None or seen is None:
        return (
            "Without all controls, such pairs cannot be told apart from faces near the decision"
            f" boundary, whatever their {name}."
        )
    sees = f"an independent network sees {name} change in {_percent(seen)} of the pairs"
    finds = f"a change that knows nothing about {name} finds"
    if is_matched(search):
        return (
            "Image IDIs mostly lie near the decision boundary:"
            f" {finds} {_of(control.success)}, and {sees}."
        )
    fewer = f"{finds} fewer, {_of(control.success)}"
    if is_unseen(search):
        return f"Image IDIs mostly lie near the decision boundary: {fewer}, but {sees}."
    return f"That is more than nearness to the decision boundary: {fewer}, and {sees}."


def sentences(document: ImagesDocument) -> list[str]:
    """Everything else, in the order of the audit."""
    return [
        *([document.stopped] if document.stopped else []),
        *_detector(document),
        *_groups(document),
        *_change(document),
        *_interpretation(document),
        *_generation(document),
        *_repair(document),
    ]


def _detector(document: ImagesDocument) -> list[str]:
    """Warn about a detector that is of little use."""
    detector, classes = document.detector, document.data.classes
    found, alarms, right = detector.detection_rate, detector.false_alarms, detector.accuracy
    is_constant = alarms and found.samples and found.estimate == alarms.estimate
    if is_detector(document) and is_constant and found.estimate in (0, 1):
        return ["The detector gives all held-out pictures the same answer, so it detects nothing."]
    if right.high < 1 / len(classes):
        return [
            f"The {kind_of(document)} is right on {_percent(right)} of the held-out pictures, less"
            f" than by chance. Are its classes in this order: {', '.join(classes)}?"
        ]
    return []


def _groups(document: ImagesDocument) -> list[str]:
    """Whether faces of some value are missed more often."""
    groups = [group for group in document.detector.by_value if group.detection_rate.samples]
    if len(groups) < 2:
        return []
    low, *_, high = sorted(groups, key=lambda group: group.detection_rate.estimate)
    rates = ", ".join(f"{one.name} {_percent(one.detection_rate)}" for one in (low, high))
    finds = is_detector(document)
    if low.detection_rate.high < high.detection_rate.low:
        if finds:
            return [f"Held-out faces are not found equally often: {rates}."]
        return [f"Answers to held-out faces are not right equally often: {rates}."]
    what = "held-out faces are found" if finds else "answers to held-out faces are right"
    return [f"How often {what} does not differ beyond chance by {document.sensitive}: {rates}."]


def _change(document: ImagesDocument) -> list[str]:
    name, flips = document.sensitive, document.change.flips
    head, chance = document.attribute.head.balanced_accuracy, document.attribute.chance
    said = [
        f"The attribute head recognizes {name} with a balanced accuracy of {ratio(head)} (chance"
        f" {ratio(chance)}); the change of it (Δ_sens) flips that opinion in {_percent(flips)} of"
        f" {count(flips.samples)} faces."
    ]
    for other in document.change.others:
        control = other.controls.get("random_signs")
        beside = "" if control is None else f" (noise of the same size: {_percent(control)})"
        said.append(
            f"The change of {name} also changes what a head for {other.name} sees, in"
            f" {_percent(other.changed)} of the faces{beside}; that head has a balanced accuracy of"
            f" {ratio(other.head.balanced_accuracy)} (chance {ratio(other.chance)})."
        )
    if head <= chance * 1.1:
        said.append(
            f"The head hardly recognizes {name}, so a change that flips it says little about it."
        )
    return said


def _interpretation(document: ImagesDocument) -> list[str]:
    if document.interpretation is None:
        return []
    layer = document.interpretation.most_biased_layer
    has_tokens = any(one.layout == "tokens" for one in document.interpretation.layers)
    tokens = (
        " The network works on tokens, which are not maps: a neuron is one channel"
        + (" of all tokens." if document.interpretation.by == "channel" else " of one token.")
        if has_tokens
        else ""
    )
    words = {
        "random_signs": "noise of the same size",
        "shuffled_labels": CHANGES["shuffled_labels"],
    }
    controls = [
        f"{decimal(control.auc)} for {words[key]}" for key, control in layer.controls.items()
    ]
    beside = f", compared with {listed(controls)}" if controls else ""
    return [
        f"Layer '{layer.name}' reacts most to the change: AUC {decimal(layer.auc)} (0 means not at"
        f" all){beside}.{tokens}"
    ]


def _generation(document: ImagesDocument) -> list[str]:
    name, own = document.sensitive, guided(document)
    said = []
    if own and own[0].at_seed:
        said.append(
            f"{count(own[0].at_seed)} of {count(own[0].seeds)} faces differ before any step: for"
            f" them the change of {name} alone decides. They are counted apart."
        )
    said += [
        f"Random directions make {count(one.moved)} of {count(one.seeds)} faces differ with steps"
        " of the same length."
        for one in document.generation
        if one.is_control
    ]
    signs = next((one for one in own if "random_signs" in one.controls), None)
    if signs:
        success = signs.controls["random_signs"].success
        said.append(f"With random signs instead of Δ_sens, {signs.title} finds {_of(success)}.")
    return said


def _repair(document: ImagesDocument) -> list[str]:
    repair = document.repair
    if repair is None or repair.after is None or repair.without_idis is None:
        return []
    after, control = repair.after, repair.without_idis
    pairs = "no held-out pair is left that could be compared"
    if after.differing.samples and control.differing.samples:
        pairs = (
            f"{_of(after.differing)} earlier pairs still differ instead of {_of(control.differing)}"
            f" (loosely counted {_of(after.loose_differing)} instead of"
            f" {_of(control.loose_differing)})"
        )
    said = (
        f"Retraining with {count(repair.idis)} pictures, measured with a fresh Δ_sens on held-out"
        f" faces and compared with the same fine-tuning without IDIs: {pairs},"
        f" accuracy {_percent(after.accuracy)} instead of {_percent(control.accuracy)}, AUC"
        f" {decimal(after.auc)} instead of {decimal(control.auc)} (for noise of the same size"
        f" {decimal(after.auc_random_signs)} instead of {decimal(control.auc_random_signs)})"
    )
    if after.attack.l2 and control.attack.l2:
        said += (
            f", and a new attack needs an L2 of {ratio(after.attack.l2.estimate)} instead of"
            f" {ratio(control.attack.l2.estimate)}"
        )
    return [f"{said}.", *_unspecific(after, control)]


def _unspecific(after: DetectorState, control: DetectorState) -> list[str]:
    """A lower AUC is about the attribute only if it fell further than that for noise."""
    if after.auc >= control.auc or (
        after.auc_random_signs * control.auc > after.auc * control.auc_random_signs
    ):
        return []
    return [
        "The AUC fell no further than for noise: the repaired network reacts less to any change,"
        " not to this attribute in particular."
    ]


def _of(rate: RateDocument) -> str:
    return f"{count(rate.hits)} of {count(rate.samples)}"


def _percent(rate: RateDocument) -> str:
    return plain(percent(rate.estimate))
