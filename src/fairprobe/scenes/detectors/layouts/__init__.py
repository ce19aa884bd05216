"""The layouts of detectors' files, by name: messages, help and documentation come from here."""

from __future__ import annotations

from fairprobe.scenes.detectors.layouts.base import Layout, Port, Signature
from fairprobe.scenes.detectors.layouts.others import (
    DecidedSsd,
    FastestDet,
    NanoDet,
    NanoDetPlus,
    Ssd,
    TorchVision,
)
from fairprobe.scenes.detectors.layouts.queries import (
    DecidedRtDetr,
    DeformableDetr,
    Detr,
    JoinedRtDetr,
    RtDetr,
)
from fairprobe.scenes.detectors.layouts.yolo import (
    DecodedYolox,
    SuppressedYoloV7,
    YoloV5,
    YoloV6,
    YoloV8,
    YoloV10,
    Yolox,
)

__all__ = ["LAYOUTS", "Layout", "Port", "Signature", "candidates"]

LAYOUTS: dict[str, type[Layout]] = {
    layout.name: layout
    for layout in (
        Yolox,
        DecodedYolox,
        YoloV5,
        YoloV6,
        SuppressedYoloV7,
        YoloV8,
        YoloV10,
        Detr,
        RtDetr,
        DeformableDetr,
        JoinedRtDetr,
        DecidedRtDetr,
        Ssd,
        DecidedSsd,
        TorchVision,
        FastestDet,
        NanoDet,
        NanoDetPlus,
    )
}
ULTRALYTICS = (YoloV5, YoloV8, YoloV10, JoinedRtDetr)  # layouts of this exporter


def candidates(file: Signature) -> list[Layout]:
    """List the layouts that fit the shapes of a file, and its exporter if the file names it."""
    layouts = ULTRALYTICS if file.is_ultralytics else tuple(LAYOUTS.values())
    return [reading for layout in layouts for reading in layout.match(file)]
