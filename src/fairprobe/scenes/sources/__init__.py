"""Where scenes come from: COCO (instances and panoptic), Cityscapes, class masks."""

from __future__ import annotations

from fairprobe.scenes.sources.opening import Kind, open_scenes

__all__ = ["Kind", "open_scenes"]
