"""Where the experiments find their faces. No package index carries them, so somebody has to put
them there.

FairFace (Kärkkäinen and Joo, CC BY 4.0) is looked for as `fairface64_jpeg.npz` or as its own
folder, called `fairface`; faces beside other pictures as `face_nonface32.npz`. The places are the
folder that `FAIRPROBE_ASSETS` names, and the cache folder.
"""

from __future__ import annotations

import os
from pathlib import Path

from fairprobe.datasets.cache import cache_folder
from fairprobe.errors import StorageError

FAIRFACE = ("fairface64_jpeg.npz", "fairface")
FACES_AND_OTHERS = ("face_nonface32.npz",)


def placed(names: tuple[str, ...]) -> Path:
    """The first of these files or folders that somebody has put there."""
    assets = os.environ.get("FAIRPROBE_ASSETS")
    places = [*([Path(assets)] if assets else []), cache_folder()]
    for place in places:
        for name in names:
            if (place / name).exists():
                return place / name
    looked = " and ".join(str(place) for place in places)
    raise StorageError(
        f"There is no {' or folder '.join(names)} in {looked}. Put it there, or set"
        " FAIRPROBE_ASSETS to the folder that holds it."
    )
