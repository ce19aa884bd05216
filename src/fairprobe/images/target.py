"""Classifiers of faces that answer something else than face or no face: an attribute of the people
is what they should say (`--target age`), and another one is the sensitive one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fairprobe.datasets.image_sets import ImageSet
from fairprobe.errors import DataError, SettingError, suggest

SHOWN = 12  # names in a message


def with_target(data: ImageSet, target: str, sensitive: str) -> ImageSet:
    """The pictures of people whose value of `target` is known, with that as their class."""
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
    """The same pictures with the classes in the order of a network's outputs; upper and lower case
    are the same. Without names, the data's order is taken.
    """
    if classes is None:
        return data
    known = {name.casefold(): at for at, name in enumerate(classes)}
    if len(known) < len(classes):
        raise SettingError(f"The classes {', '.join(classes)} have a name twice.")
    missing = [name for name in data.classes if name.casefold() not in known]
    if missing:
        raise DataError(
            f"The network's outputs are called {', '.join(classes[:SHOWN])}, and the pictures have"
            f" the classes {', '.join(data.classes[:SHOWN])}. Name the outputs in their order, in"
            " the words of the pictures: --classes"
            f" {','.join(data.classes[:SHOWN])}."
        )
    places = np.array([known[name.casefold()] for name in data.classes], dtype=np.int64)
    return replace(data, y=places[data.y], classes=tuple(classes))
