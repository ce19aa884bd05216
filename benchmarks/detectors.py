"""Every layout of detectors on annotated photographs, as a Markdown table.

    FAIRPROBE_ASSETS=... python -m benchmarks.detectors

Three detectors are as published (YOLOX, SSD, FastestDet). For the other layouts the YOLOX network
is re-encoded: it takes pictures and returns boxes by the conventions of the other family. The
layout is chosen by the self-test, not named. The last rows are wrong readings and a file of another
kind.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from fairprobe.errors import ModelError
from fairprobe.scenes import Scenes, open_detector, open_scenes
from fairprobe.scenes.detectors.layout import IMAGENET, Layout, Normal
from fairprobe.scenes.detectors.layouts import LAYOUTS
from fairprobe.scenes.detectors.onnx import OnnxDetector
from fairprobe.scenes.detectors.self_test import doubt, is_good, settle
from fairprobe.scenes.labels import COCO_NAMES
from tests.detector_encodings import encode
from tests.helpers import assets

PUBLISHED = {
    "yolox": "yolox_nano",
    "fastestdet": "FastestDet",
    "ssd": "coco_ssd_lite_mobilenet_v2",
}
# A network that expects (x - mean) / deviation but gets x sees what another would see of
# x * deviation + mean.
MISSING: Normal = (
    tuple(-mean / deviation for mean, deviation in zip(*IMAGENET, strict=True)),
    tuple(1 / deviation for deviation in IMAGENET[1]),
)


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    vision = assets() / "vision"
    streets = open_scenes(vision / "camvid" / "images", vision / "camvid" / "masks")
    print(
        "| layout | file | candidates | chosen | matched / annotated / recognized | agreement |"
        " chance | outcome |"
    )
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in LAYOUTS:
            if name in PUBLISHED:
                _row(name, vision / f"{PUBLISHED[name]}.onnx", "as published", streets)
            if name != "yolox" and name != "fastestdet":
                file = encode(vision / "yolox_nano.onnx", name, Path(folder) / f"{name}.onnx")
                _row(name, file, "YOLOX re-encoded", streets)
        _row(
            "yolov8 that expects ImageNet's normalization",
            Path(folder) / "yolov8.onnx",
            "YOLOX re-encoded",
            streets,
            normal=MISSING,
        )
        reversed_names = tuple(reversed(COCO_NAMES[:8])) + COCO_NAMES[8:]
        _row(
            "yolov8, first eight names reversed",
            Path(folder) / "yolov8.onnx",
            "YOLOX re-encoded",
            streets,
            names=reversed_names,
        )
        _row(
            "yolov6 read as yolox-decoded",
            Path(f"yolox-decoded:{Path(folder) / 'yolov6.onnx'}"),
            "named wrongly",
            streets,
        )
    _refused(vision / "yunet_n_640_640.onnx")


def _row(
    name: str,
    file: Path,
    kind: str,
    streets: Scenes,
    *,
    names: Sequence[str] | None = None,
    normal: Normal | None = None,
) -> None:
    """One file: what was chosen, and whether it is used, with a warning, or refused."""
    detector = open_detector(str(file), names=names, unchecked=True)
    assert isinstance(detector, OnnxDetector)
    if normal is not None:
        detector.candidates = [_normalized(one, normal) for one in detector.candidates]
    found = settle(detector, streets)
    assert found is not None
    several = ", ".join(one.name for one in detector.candidates)
    counts = f"{found.matched} / {found.annotated} / {found.recognized}"
    outcome = "used" if doubt(detector, found) is None else "used, with a warning"
    print(
        f"| {name} | {kind} | {several} | {found.layout} | {counts} | {found.score:.2f} |"
        f" {found.by_chance:.2f} | {outcome if is_good(found) else 'refused'} |"
    )


def _normalized(layout: Layout, normal: Normal) -> Layout:
    """The same layout with another normalization."""
    kind = type(f"Normalized{type(layout).__name__}", (type(layout),), {"normal": normal})
    changed: Layout = kind(**{one.name: getattr(layout, one.name) for one in fields(layout)})
    return changed


def _refused(file: Path) -> None:
    try:
        open_detector(str(file))
    except ModelError as error:
        print(f"| none | {file.name} | none | | | | | refused: {str(error)[:60]}… |")


if __name__ == "__main__":
    main()
