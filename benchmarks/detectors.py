"""Every layout of detectors on annotated photographs, as a Markdown table.

    FAIRPROBE_ASSETS=... python -m benchmarks.detectors

Three detectors are as published (YOLOX, SSD, FastestDet). For the other layouts the YOLOX network
is re-encoded: it takes pictures and returns boxes by the conventions of the other family. The
layout is chosen by the self-test, not named. The last rows are a wrong reading and a file of
another kind.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.detector_encodings import encode
from tests.helpers import assets

from fairprobe.errors import ModelError
from fairprobe.scenes import open_detector, open_scenes
from fairprobe.scenes.detectors.layouts import LAYOUTS
from fairprobe.scenes.detectors.onnx import OnnxDetector
from fairprobe.scenes.detectors.self_test import settle

PUBLISHED = {
    "yolox": "yolox_nano",
    "fastestdet": "FastestDet",
    "ssd": "coco_ssd_lite_mobilenet_v2",
}


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    vision = assets() / "vision"
    streets = open_scenes(vision / "camvid" / "images", vision / "camvid" / "masks")
    print(
        "| layout | file | candidates | chosen | matched / annotated / recognized | agreement |"
        " chance |"
    )
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in LAYOUTS:
            if name in PUBLISHED:
                _row(name, vision / f"{PUBLISHED[name]}.onnx", "as published", streets)
            if name != "yolox" and name != "fastestdet":
                file = encode(vision / "yolox_nano.onnx", name, Path(folder) / f"{name}.onnx")
                _row(name, file, "YOLOX re-encoded", streets)
        misread = Path(folder) / "yolov6.onnx"
        _row(
            "yolov6 read as yolox-decoded",
            Path(f"yolox-decoded:{misread}"),
            "named wrongly",
            streets,
        )
    _refused(vision / "yunet_n_640_640.onnx")


def _row(name: str, file: Path, kind: str, streets: object) -> None:
    detector = open_detector(str(file))
    assert isinstance(detector, OnnxDetector)
    found = settle(detector, streets)  # type: ignore[arg-type]
    assert found is not None
    several = ", ".join(one.name for one in detector.candidates)
    counts = f"{found.matched} / {found.annotated} / {found.recognized}"
    print(
        f"| {name} | {kind} | {several} | {found.layout} | {counts} | {found.score:.2f} |"
        f" {found.by_chance:.2f} |"
    )


def _refused(file: Path) -> None:
    try:
        open_detector(str(file))
    except ModelError as error:
        print(f"| none | {file.name} | none | refused: {str(error)[:60]}… | | | |")


if __name__ == "__main__":
    main()
