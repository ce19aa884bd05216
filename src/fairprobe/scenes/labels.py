"""One name for one class, whatever a data set or recognizer calls it.

Only words for the same thing share a name. What a vendor calls a taxi stays a taxi, as in the
paper, although others would say car. Kinds of ground become road, earth, floor, pavement or grass,
which is all that the mutations distinguish.
"""

from __future__ import annotations

UNKNOWN = "unknown"

# A mask or box of a "bicyclist" (CamVid, KITTI) holds the machine too, that of a "rider"
# (Cityscapes) only the human.
_SYNONYMS = {
    "person": "pedestrian, people, human, man, woman, boy, girl, child, adult, male, female, rider",
    # vehicles
    "bicycle": "bike, pushbike, bicyclist, cyclist",
    "motorcycle": "motorbike, motorcyclist, motor scooter, scooter, moped, minibike",
    "truck": "lorry",
    "car": "automobile, auto",
    "bus": "autobus, coach",
    "airplane": "aeroplane, plane",
    "train": "tram, on rails",
    # along the street
    "sign": "traffic sign, sign symbol, signsymbol, signboard",
    "traffic light": "trafficlight, traffic signal",
    "pole": "column pole, polegroup",
    "fire hydrant": "hydrant",
    "street light": "streetlight, street lamp",
    "tree": "vegetation, palm",
    "building": "skyscraper, house",
    "railroad": "rail track",
    "stairs": "stairway",
    # rooms
    "couch": "sofa",
    "potted plant": "pottedplant, houseplant, plant pot",
    "dining table": "diningtable, kitchen & dining room table",
    "tv": "tvmonitor, television, television receiver",
    "cell phone": "mobile phone, cellphone",
    "keyboard": "computer keyboard",
    "mouse": "computer mouse",
    "donut": "doughnut",
    "hair drier": "hairdryer, hair dryer",
    # ground
    "road": "route, street, lane marking, road marking, road shoulder, parking, runway",
    "pavement": "sidewalk, footpath, path, platform",
    "earth": "dirt, dirt track, terrain, ground, land, soil, gravel, sand",
    "grass": "field, playingfield, lawn",
    "floor": "floor wood, flooring",
    # surfaces
    "wall": "wall brick, wall stone, wall tile, wall wood",
    "window": "window blind, windowpane",
    UNKNOWN: "unlabelled, unlabeled, void, background, ignore, static, dynamic, ego vehicle,"
    " rectification border, out of roi, n/a",
}
NAMES = {word: name for name, words in _SYNONYMS.items() for word in words.split(", ")}

COCO_ENDINGS = (" merged", " other", " stuff")
"""Suffixes of COCO's panoptic classes of stuff: "sky-other-merged", "door-stuff"."""

UPRIGHT = frozenset({"sign", "pole", "traffic light"})
"""Thin things along the street; some annotations count them as stuff."""
VEHICLES = frozenset({"bus", "car", "motorcycle", "truck", "bicycle"})
GROUND = frozenset({"road", "earth", "floor", "pavement", "grass"})

_STUFF = (
    "banner, blanket, bridge, building, cabinet, cardboard, ceiling, counter, curtain, door, fence,"
    " flower, food, fruit, guard rail, hill, lake, light, mirror, mountain, net, paper, pillow,"
    " pole, railing, railroad, river, rock, roof, rug, sea, shelf, sign, sky, snow, stairs, table,"
    " tent, towel, tree, tunnel, wall, water, waterfall, window"
)
STUFF = GROUND | frozenset(_STUFF.split(", "))
"""Names without instances, for sources that do not say which of their classes are things."""


def common(name: str) -> str:
    """Return the shared lower-case name; the first of a list of synonyms ("road, route" in
    ADE20K).
    """
    plain = " ".join(name.replace("_", " ").replace("-", " ").lower().split())
    for ending in COCO_ENDINGS:
        plain = plain.removesuffix(ending)
    first = plain.split(",")[0].strip()
    return NAMES.get(plain, NAMES.get(first, first))


def is_stuff(label: str) -> bool:
    """Return True for stuff, which covers pixels but cannot be counted."""
    return label in STUFF


_COCO = """
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
COCO_NAMES = tuple(common(name) for name in _COCO.split(","))
"""The 80 classes of COCO, in the order of detectors' outputs."""
COCO_IDS = tuple(sorted({*range(1, 91)} - {12, 26, 29, 30, 45, 66, 68, 69, 71, 83}))
"""The number of each of `COCO_NAMES` in COCO's own files; the others were never annotated."""
_BY_ID = dict(zip(COCO_IDS, COCO_NAMES, strict=True))
COCO_BY_ID = tuple(_BY_ID.get(number, "") for number in range(91))
"""The class of each id from 0 to 90; empty where there is none."""
COCO_BY_COUNT = {80: COCO_NAMES, 90: COCO_BY_ID[1:], 91: COCO_BY_ID}
"""What a detector with this many classes means by them, unless it says otherwise."""
