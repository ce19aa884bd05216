"""One name for one class, whatever a data set or recogniser calls it.

Only words for the same thing share a name. What a vendor calls a taxi stays a taxi, as in the
paper, although others would say car. Kinds of ground come out as road, earth, floor, pavement or
grass, which is all that the mutations ask of them.
"""

from __future__ import annotations

UNKNOWN = "unknown"

NAMES = {
    # people; a mask or box of a "bicyclist" (CamVid, KITTI) holds the machine too, that of a
    # "rider" (Cityscapes) only the human
    "pedestrian": "person",
    "people": "person",
    "human": "person",
    "man": "person",
    "woman": "person",
    "boy": "person",
    "girl": "person",
    "child": "person",
    "adult": "person",
    "male": "person",
    "female": "person",
    "rider": "person",
    "bicyclist": "bicycle",
    "cyclist": "bicycle",
    # vehicles
    "bike": "bicycle",
    "pushbike": "bicycle",
    "motorbike": "motorcycle",
    "motorcyclist": "motorcycle",
    "motor scooter": "motorcycle",
    "scooter": "motorcycle",
    "moped": "motorcycle",
    "minibike": "motorcycle",
    "lorry": "truck",
    "automobile": "car",
    "auto": "car",
    "autobus": "bus",
    "coach": "bus",
    "aeroplane": "airplane",
    "plane": "airplane",
    "tram": "train",
    "on rails": "train",
    # along the street
    "traffic sign": "sign",
    "sign symbol": "sign",
    "signsymbol": "sign",
    "signboard": "sign",
    "trafficlight": "traffic light",
    "traffic signal": "traffic light",
    "column pole": "pole",
    "polegroup": "pole",
    "hydrant": "fire hydrant",
    "streetlight": "street light",
    "street lamp": "street light",
    "vegetation": "tree",
    "palm": "tree",
    "skyscraper": "building",
    "house": "building",
    "rail track": "railroad",
    "stairway": "stairs",
    # rooms
    "sofa": "couch",
    "pottedplant": "potted plant",
    "houseplant": "potted plant",
    "plant pot": "potted plant",
    "diningtable": "dining table",
    "kitchen & dining room table": "dining table",
    "tvmonitor": "tv",
    "television": "tv",
    "television receiver": "tv",
    "mobile phone": "cell phone",
    "cellphone": "cell phone",
    "computer keyboard": "keyboard",
    "computer mouse": "mouse",
    "doughnut": "donut",
    "hairdryer": "hair drier",
    "hair dryer": "hair drier",
    # ground
    "route": "road",
    "street": "road",
    "lane marking": "road",
    "road marking": "road",
    "road shoulder": "road",
    "parking": "road",
    "runway": "road",
    "sidewalk": "pavement",
    "footpath": "pavement",
    "path": "pavement",
    "platform": "pavement",
    "dirt": "earth",
    "dirt track": "earth",
    "terrain": "earth",
    "ground": "earth",
    "land": "earth",
    "soil": "earth",
    "gravel": "earth",
    "sand": "earth",
    "field": "grass",
    "playingfield": "grass",
    "lawn": "grass",
    "floor wood": "floor",
    "flooring": "floor",
    # surfaces of one kind
    "wall brick": "wall",
    "wall stone": "wall",
    "wall tile": "wall",
    "wall wood": "wall",
    "window blind": "window",
    "windowpane": "window",
    # nothing that is known
    "unlabelled": UNKNOWN,
    "unlabeled": UNKNOWN,
    "void": UNKNOWN,
    "background": UNKNOWN,
    "ignore": UNKNOWN,
    "static": UNKNOWN,
    "dynamic": UNKNOWN,
    "ego vehicle": UNKNOWN,
    "rectification border": UNKNOWN,
    "out of roi": UNKNOWN,
}

COCO_ENDINGS = (" merged", " other", " stuff")
"""What COCO's panoptic classes of stuff carry after their name: "sky-other-merged", "door-stuff".
"""

GROUND = frozenset({"road", "earth", "floor", "pavement", "grass"})

_LISTED = (
    "banner,blanket,bridge,building,cabinet,cardboard,ceiling,counter,curtain,door,fence,flower,food,fruit,guard"
    " rail,hill,lake,light,"
    "mirror,mountain,net,paper,pillow,pole,railing,railroad,river,rock,roof,rug,sea,shelf,sign,sky,snow,stairs,table,tent,towel,tree,tunnel,"
    "wall,water,waterfall,window"
)
STUFF = GROUND | frozenset(_LISTED.split(","))
"""Names of what has no instances, where the source does not say itself which of its classes are
things.
"""


def common(name: str) -> str:
    """The lower-case name that all sources share. Of a list of synonyms ("road, route", as ADE20K
    has them) the first counts.
    """
    plain = " ".join(name.replace("_", " ").replace("-", " ").lower().split())
    for ending in COCO_ENDINGS:
        plain = plain.removesuffix(ending)
    first = plain.split(",")[0].strip()
    return NAMES.get(plain, NAMES.get(first, first))


def is_stuff(label: str) -> bool:
    """Whether a common name is for what covers pixels but cannot be counted."""
    return label in STUFF
