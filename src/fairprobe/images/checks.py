"""Which pictures can be audited for which attribute.

Classifiers of faces may answer something else than face or no face: an attribute of the people is
their target (`--target age`), and another one is the sensitive one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from fairprobe.arrays import Ints
from fairprobe.datasets.image_sets import FACE_CLASSES, ImageAttribute, ImageSet
from fairprobe.errors import DataError, SettingError, suggest
from fairprobe.images.measure import people

FEWEST = 2  # faces of a value to learn it from
MAX_NAMES = 12  # in a message


def auditable(data: ImageSet, sensitive: str, *, needs_others: bool) -> ImageSet:
    """Leave out values of the attribute that are too rare to learn; refuse pictures that cannot be
    audited. `needs_others`: a detector is trained here and needs pictures without a face.
    """
    _check_attribute(data, sensitive)
    data = _without_rare_values(data, sensitive)
    _check_faces(data, sensitive, needs_others=needs_others)
    return data


def check_others(data: ImageSet, sensitive: str, others: Sequence[str]) -> None:
    """Refuse other attributes that cannot be measured beside the sensitive one."""
    for name in others:
        if name == sensitive:
            raise SettingError(
                f"'{name}' is the sensitive attribute itself. Name other attributes that its change"
                " may change as well, or none."
            )
        _check_attribute(data, name)
        _check_faces(data, name, needs_others=False)


def _check_attribute(data: ImageSet, sensitive: str) -> None:
    if not people(data).any():
        raise DataError(
            f"'{data.name}' has no faces to audit. Expected pictures of people with known"
            " attributes."
        )
    why = " ".join(data.attribute_messages.get(sensitive, ()))
    if not data.attributes:
        raise DataError(
            f"No attribute of the people in '{data.name}' is known that divides them into groups."
            f" {why}".rstrip()
        )
    if sensitive not in data.attributes:
        why = why or f"There is no attribute '{sensitive}' in '{data.name}'."
        raise SettingError(why + suggest(sensitive, data.attributes))


def _without_rare_values(data: ImageSet, sensitive: str) -> ImageSet:
    """Leave out values that too few faces have to learn them from, if two others remain, and note
    it.
    """
    attribute = data.attributes[sensitive]
    counts = _to_learn_from(data, attribute)
    kept = np.flatnonzero(counts >= FEWEST).tolist()
    if len(kept) < 2 or len(kept) == len(counts):
        return data
    notes = [
        f"The {sensitive} '{value}' is left out: {'one face' if count else 'no face'} to learn it"
        " from."
        for value, count in zip(attribute.values, counts, strict=True)
        if count < FEWEST
    ]
    messages = data.attribute_messages | {
        sensitive: (*data.attribute_messages.get(sensitive, ()), *notes)
    }
    return replace(
        data,
        attributes=data.attributes | {sensitive: attribute.only(kept)},
        attribute_messages=messages,
    )


def _to_learn_from(data: ImageSet, attribute: ImageAttribute) -> Ints:
    """Count the faces of each value that are not held out."""
    to_learn = people(data) & (attribute.codes >= 0) & ~data.held_out
    return np.bincount(attribute.codes[to_learn], minlength=len(attribute.values))


def _check_faces(data: ImageSet, sensitive: str, *, needs_others: bool) -> None:
    """Refuse pictures that cannot be audited, before anything is trained."""
    attribute = data.attributes[sensitive]
    counts = _to_learn_from(data, attribute)
    held_out = int((people(data) & (attribute.codes >= 0) & data.held_out).sum())
    if (counts > 0).sum() < 2:
        there = [value for value, count in zip(attribute.values, counts, strict=True) if count]
        raise DataError(
            f"All faces to learn from have the {sensitive} '{there[0] if there else 'unknown'}'. A"
            " change of it needs two values or more."
        )
    if counts[counts > 0].min() < FEWEST or not held_out:
        each = zip(attribute.values, counts, strict=True)
        sizes = ", ".join(f"{value} {count}" for value, count in islice(each, MAX_NAMES))
        if len(counts) > MAX_NAMES:
            sizes += f" and {len(counts) - MAX_NAMES:,} more"
        raise DataError(
            f"There are too few faces in '{data.name}': expected {FEWEST} or more of each"
            f" {sensitive} to learn from and some held out; got {sizes} and {held_out} held out."
        )
    if needs_others and data.classes == FACE_CLASSES and (people(data) | data.held_out).all():
        raise DataError(
            f"All pictures of '{data.name}' are faces, and a detector also learns from pictures"
            " without one. Name a folder of them (--others), or give a detector of your own"
            " (--model)."
        )


def with_target(data: ImageSet, target: str, sensitive: str) -> ImageSet:
    """Keep the pictures of people whose value of `target` is known, with that as their class."""
    if target == sensitive:
        raise SettingError(
            f"'{target}' is named as the target and as the sensitive attribute. The target is what"
            " the classifier should say; name another sensitive attribute."
        )
    if target not in data.attributes:
        if why := " ".join(data.attribute_messages.get(target, ())):
            raise DataError(
                f"'{target}' cannot be the target in '{data.name}'. {why} Expected two classes or"
                " more, as a word or a whole number for each picture."
            )
        raise SettingError(
            f"There is no attribute '{target}' in '{data.name}'.{suggest(target, data.attributes)}"
        )
    attribute = data.attributes[target]
    known = attribute.codes >= 0
    part = data.take(known)
    others = {name: one for name, one in part.attributes.items() if name != target}
    missing = int((~known).sum())
    note = f"{missing:,} pictures without a known {target} are left out."
    return replace(
        part,
        y=attribute.codes[known],
        classes=attribute.values,
        attributes=others,
        messages=(*part.messages, *([note] if missing else [])),
    )


def in_order_of(data: ImageSet, classes: Sequence[str] | None) -> ImageSet:
    """Return the same pictures with the classes in the order of a network's outputs; upper and
    lower case are the same. Without names, the data's order is taken.
    """
    if classes is None:
        return data
    known = {name.casefold(): at for at, name in enumerate(classes)}
    if len(known) < len(classes):
        raise SettingError(f"The classes {', '.join(classes)} have a name twice.")
    missing = [name for name in data.classes if name.casefold() not in known]
    if missing:
        raise DataError(
            f"The network's outputs are called {', '.join(classes[:MAX_NAMES])}, and the pictures"
            f" have the classes {', '.join(data.classes[:MAX_NAMES])}. Name the outputs in their"
            f" order, in the words of the pictures: --classes {','.join(data.classes[:MAX_NAMES])}."
        )
    places = np.array([known[name.casefold()] for name in data.classes], dtype=np.int64)
    return replace(data, y=places[data.y], classes=tuple(classes))
