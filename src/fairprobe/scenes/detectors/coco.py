"""The classes of COCO, as detectors number them."""

from __future__ import annotations

from fairprobe.scenes.labels import common

_NAMES = """
person, bicycle, car, motorcycle, airplane, bus, train, truck, boat, traffic light, fire hydrant,
stop sign, parking meter, bench,
bird, cat, dog, horse, sheep, cow, elephant, bear, zebra, giraffe,
backpack, umbrella, handbag, tie, suitcase,
frisbee, skis, snowboard, sports ball, kite, baseball bat, baseball glove, skateboard, surfboard,
tennis racket,
bottle, wine glass, cup, fork, knife, spoon, bowl,
banana, apple, sandwich, orange, broccoli, carrot, hot dog, pizza, donut, cake,
chair, couch, potted plant, bed, dining table, toilet, tv, laptop, mouse, remote, keyboard,
cell phone,
microwave, oven, toaster, sink, refrigerator, book, clock, vase, scissors, teddy bear, hair drier,
toothbrush
"""
NAMES = tuple(common(name) for name in _NAMES.split(","))
"""The 80 classes of COCO, in the order of detectors' outputs."""
UNUSED = frozenset({12, 26, 29, 30, 45, 66, 68, 69, 71, 83})  # of the ids 1 to 90: never annotated
IDS = tuple(number for number in range(1, 91) if number not in UNUSED)
"""The number of each of `NAMES` in COCO's own files."""
_BY_ID = dict(zip(IDS, NAMES, strict=True))
BY_ID = tuple(_BY_ID.get(number, "") for number in range(91))
"""The class of each id from 0 to 90; empty where there is none."""
BY_COUNT = {80: NAMES, 90: BY_ID[1:], 91: BY_ID}
"""What a detector with this many classes means by them, unless it says otherwise."""
