"""The streets of `fairprobe scenes demo`: drawn once (`tools/demo_streets.py`), packaged, and read
like anybody's pictures and COCO annotations.
"""

from __future__ import annotations

from pathlib import Path

COUNT, SEED = 12, 2026  # of `DrawnScenes`; the packaged detector was not trained on them
FOLDER = Path(__file__).with_name("demo-streets")
PICTURES, ANNOTATIONS = FOLDER / "images", FOLDER / "instances.json"
