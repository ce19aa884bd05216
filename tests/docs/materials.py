"""Files that a page assumes the reader has: pictures, masks, a detector. Here they are tiny."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from PIL import Image

from tests.images.test_image_audit import pictures
from tests.toy_scenes import toy_scenes

CLASSES = {"road": 1, "sky": 2, "person": 3, "car": 4, "bicycle": 5}
NETWORK = """
from torch import nn

def network():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)
    )
"""


def faces(folder: Path) -> None:
    data = pictures()
    np.savez(
        folder / "faces.npz",
        images=data.images.transpose(0, 2, 3, 1),
        is_face=data.y.astype(np.uint8),
        gender=np.where(data.y == 1, data.attributes["gender"].codes, 255).astype(np.uint8),
        gender_names=np.array(["Female", "Male"]),
        split=data.held_out.astype(np.uint8),
    )


def groups(folder: Path) -> None:
    from safetensors.torch import save_file
    from torch import nn

    (folder / "my_code.py").write_text(NETWORK)
    code: dict[str, object] = {}
    exec(NETWORK, code)
    network: nn.Module = code["network"]()  # type: ignore[operator]
    save_file(network.state_dict(), folder / "faces.safetensors")
    rng = np.random.default_rng(0)
    for group in ("women", "men"):
        (folder / "faces" / group).mkdir(parents=True)
        for number in range(8):
            pixels = rng.integers(50, 200, (16, 16, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / "faces" / group / f"{number}.png")


def streets(folder: Path) -> None:
    for name in ("photos", "masks"):
        (folder / name).mkdir()
    for scene in toy_scenes(3):
        mask = np.where(scene.stuff == 1, CLASSES["road"], CLASSES["sky"]).astype(np.uint8)
        for one in scene.instances:
            left, top, right, bottom = one.box
            mask[top:bottom, left:right][one.mask] = CLASSES[one.label]
        Image.fromarray(scene.image).save(folder / "photos" / f"{scene.name}.png")
        Image.fromarray(mask).save(folder / "masks" / f"{scene.name}.png")
    named = {str(number): name for name, number in CLASSES.items()}
    (folder / "classes.json").write_text(json.dumps(named))
    (folder / "my_code.py").write_text("from tests.toy_scenes import unfair as detect\n")


MATERIALS = {
    "how-to/images": faces,
    "how-to/insidebias": groups,
    "how-to/scenes": streets,
}
