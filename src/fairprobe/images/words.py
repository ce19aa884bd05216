"""What an image audit found, in sentences: never more than its controls allow."""

from __future__ import annotations

from typing import Any

from fairprobe.images.controls import RANDOM_SIGNS, SHUFFLED_LABELS

Body = dict[str, Any]

# below this share of pairs, "mostly" is said of those in which nobody else sees the attribute
# change
FEW = 0.5


def verdict(body: Body) -> str:
    """What the searches found, and whether that can be about the sensitive attribute."""
    name, methods = (
        body["sensitive"],
        [method for method in body["generation"] if not method["is_control"] and method["seeds"]],
    )
    if not methods and body["partial"]:
        return (
            "The audit was interrupted before a search had begun: nothing is known about differing"
            " pairs."
        )
    if not methods:
        return (
            f"The attribute head's opinion on {name} could not be flipped in any face by a change"
            f" of {body['change']['cap']:g}, so there was nothing to search. A larger change"
            " (--epsilon, --cap) may flip it."
        )
    best = max(methods, key=lambda method: method["idis"])
    if best["idis"] == 0:
        return (
            f"No differing pair was found: starting from {best['seeds']:,} faces, the change of"
            f" {name} never changed the verdict. That is no proof that there is none."
        )
    found = (
        f"{best['title']} turns {best['idis']:,} of {best['seeds']:,} faces into pairs (image IDIs)"
        f" that the detector judges differently when the change of {name} is added."
    )
    return f"{found} {_meaning(body, best)}"


def sentences(body: Body) -> list[str]:
    """The rest, in the order of the audit."""
    said = [
        *_detector(body),
        *_groups(body),
        *_change(body),
        *_interpretation(body),
        *_generation(body),
        *_repair(body),
    ]
    return [body["stopped"], *said] if body["stopped"] else said


def _meaning(body: Body, method: Body) -> str:
    """What the controls leave of a finding."""
    name, own = body["sensitive"], method["success"]
    shuffled, seen = method["controls"].get(SHUFFLED_LABELS), method["seen_by_independent"]
    if shuffled is None or seen is None:
        return (
            "Without all controls this cannot be told from pictures near the decision boundary,"
            f" whatever their {name}."
        )
    blind = shuffled["success"]
    as_many = blind["high"] >= own["low"]
    unseen = seen["estimate"] < FEW
    told = f"an independent network sees {name} change in {_percent(seen)} of the pairs"
    if as_many:
        return (
            "An image IDI is mostly near the decision boundary: a change that knows nothing of"
            f" {name} finds {blind['hits']:,} of {blind['samples']:,}, and {told}."
        )
    fewer = (
        f"a change that knows nothing of {name} finds fewer, {blind['hits']:,} of"
        f" {blind['samples']:,}"
    )
    if unseen:
        return f"An image IDI is mostly near the decision boundary: {fewer}, but {told}."
    return f"That is more than nearness to the decision boundary: {fewer}, and {told}."


def _detector(body: Body) -> list[str]:
    """What should be known of a detector before anything else."""
    told, classes = body["detector"], body["data"]["classes"]
    found, alarms, right = told["detection_rate"], told["false_alarms"], told["accuracy"]
    if (
        alarms
        and found["samples"]
        and found["estimate"] == alarms["estimate"]
        and found["estimate"] in (0, 1)
    ):
        return ["The detector gives all held-out pictures the same answer, so it detects nothing."]
    if right["high"] < 1 / len(classes):
        return [
            f"The detector is right in {_percent(right)} of the held-out pictures, fewer than by"
            f" chance. Are its classes in this order: {', '.join(classes)}?"
        ]
    return []


def _groups(body: Body) -> list[str]:
    """Faces of which value are missed, where the intervals lie apart."""
    groups = [group for group in body["detector"]["by_value"] if group["detection_rate"]["samples"]]
    if len(groups) < 2:
        return []
    low, *_, high = sorted(groups, key=lambda group: float(group["detection_rate"]["estimate"]))
    rates = low["detection_rate"], high["detection_rate"]
    told = f"{low['name']} {_percent(rates[0])}, {high['name']} {_percent(rates[1])}"
    if rates[0]["high"] < rates[1]["low"]:
        return [f"Held-out faces are not found equally often: {told}."]
    return [
        f"How often held-out faces are found does not differ beyond chance by {body['sensitive']}:"
        f" {told}."
    ]


def _change(body: Body) -> list[str]:
    change, head = body["change"], body["attribute"]["head"]["balanced_accuracy"]
    if change is None:
        return []
    said = [
        f"The attribute head tells {body['sensitive']} with a balanced accuracy of {head:.2f}"
        f" (chance {body['attribute']['chance']:.2f}); the change of it (Δ_sens) flips that opinion"
        f" in {_percent(change['flips'])} of {change['flips']['samples']:,} faces."
    ]
    if head <= body["attribute"]["chance"] * 1.1:
        said.append(
            f"So the head hardly knows {body['sensitive']}, and a change that flips it says little"
            " about it."
        )
    return said


def _interpretation(body: Body) -> list[str]:
    inside = body["interpretation"]
    if inside is None or not inside["layers"]:
        return []
    layer = next(layer for layer in inside["layers"] if layer["name"] == inside["most_biased"])
    beside = [
        f"{layer['controls'][key]['auc']:.3f} for {word}"
        for key, word in (
            (RANDOM_SIGNS, "noise of the same size"),
            (SHUFFLED_LABELS, "shuffled labels"),
        )
        if key in layer["controls"]
    ]
    controls = f", beside {' and '.join(beside)}" if beside else ""
    return [
        f"Layer '{layer['name']}' reacts most to the change: AUC {layer['auc']:.3f} (0 is not at"
        f" all){controls}."
    ]


def _generation(body: Body) -> list[str]:
    own = [method for method in body["generation"] if not method["is_control"]]
    said = []
    if own and own[0]["seeds"] and own[0]["at_seed"]:
        said.append(
            f"{own[0]['at_seed']:,} of {own[0]['seeds']:,} faces differ before any step: there the"
            f" change of {body['sensitive']} alone decides. They are counted apart."
        )
    best = max(own, key=lambda method: method["idis"], default=None)
    if best and best["seen_by_head"]:
        said.append(
            f"In {_count(best['seen_by_head'])} pairs of {best['title']} the head itself still sees"
            f" {body['sensitive']} change."
        )
    said += [
        f"Random directions make {method['moved']:,} of {method['seeds']:,} faces differ by steps"
        " of the same length."
        for method in body["generation"]
        if method["is_control"]
    ]
    signs = [
        method["controls"][RANDOM_SIGNS]["success"]
        for method in own
        if RANDOM_SIGNS in method["controls"]
    ]
    if signs:
        said.append(
            f"With random signs in the place of Δ_sens, {own[0]['title']} finds"
            f" {signs[0]['hits']:,} of {signs[0]['samples']:,}."
        )
    return said


def _repair(body: Body) -> list[str]:
    repair = body["repair"]
    if repair is None:
        return []
    after, control = repair["after"], repair["without_idis"]
    if after is None or control is None:
        return []
    if not (after["differing"]["samples"] and control["differing"]["samples"]):
        return [
            f"Retraining with {repair['idis']:,} pictures: no held-out pair is left whose fresh"
            " Δ_sens could be compared."
        ]
    said = (
        f"Retraining with {repair['idis']:,} pictures, measured with a fresh Δ_sens on held-out"
        f" faces and beside the same fine-tuning without IDIs: {_count(after['differing'])} earlier"
        f" pairs still differ instead of {_count(control['differing'])}, accuracy"
        f" {_percent(after['accuracy'])} instead of {_percent(control['accuracy'])}, AUC"
        f" {after['auc']:.3f} instead of {control['auc']:.3f} (for noise of the same size"
        f" {after['auc_random_signs']:.3f} instead of {control['auc_random_signs']:.3f})"
    )
    needs = (after["attack"]["l2"], control["attack"]["l2"])
    if None not in needs:
        said += (
            f", and a new attack needs an L2 of {needs[0]['estimate']:.2f} instead of"
            f" {needs[1]['estimate']:.2f}"
        )
    return [f"{said}.", *_unspecific(after, control)]


def _unspecific(after: Body, control: Body) -> list[str]:
    """A lower AUC is about the attribute only where it fell further than that for noise."""
    kept, noise = (
        [state[key] for state in (after, control)] for key in ("auc", "auc_random_signs")
    )
    if kept[0] >= kept[1] or noise[0] * kept[1] > kept[0] * noise[1]:
        return []
    return [
        "The AUC fell no further than for noise: the repaired detector reacts less to any change,"
        " not to this attribute in particular."
    ]


def _count(rate: Body) -> str:
    return f"{rate['hits']:,} of {rate['samples']:,}"


def _percent(rate: Body) -> str:
    return f"{rate['estimate']:.1%}"
