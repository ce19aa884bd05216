"""A small run of every kind of result on scenes, as structs: no audit is made for it."""

from __future__ import annotations

import base64
import io
from typing import Any

from msgspec.structs import replace
from PIL import Image

from fairprobe.results import RankTest
from fairprobe.scenes.accuracy import ReferenceComparison
from fairprobe.scenes.analysis import Analysis, ClassRate, Total
from fairprobe.scenes.audit import (
    DetectorFailures,
    DetectorInfo,
    SceneData,
    ScenesRun,
    SkippedTasks,
)
from fairprobe.scenes.comparisons import (
    Comparisons,
    ControlRate,
    OperatorTime,
    OracleOverlap,
    OriginalsOverlap,
    UsualComparison,
)
from fairprobe.scenes.detectors.base import Detection
from fairprobe.scenes.examples import Example, MutatedPicture, OriginalPicture
from fairprobe.scenes.oracles import ORACLES, Operator, Oracle
from fairprobe.scenes.quality import ImageQuality, QualityMeasure
from fairprobe.scenes.realism_check import OperatorRealism
from fairprobe.scenes.scene import Kind


def png() -> str:
    file = io.BytesIO()
    Image.new("RGB", (4, 4), (10, 200, 30)).save(file, format="png")
    return base64.b64encode(file.getvalue()).decode()


SRC = f"data:image/png;base64,{png()}"


def class_rate(label: str, errors: int, objects: int, **flags: bool) -> ClassRate:
    rate = errors / objects
    return ClassRate(
        label=label,
        errors=errors,
        objects=objects,
        scenes=7,
        images=3,
        rate=rate,
        low=rate - 0.05,
        high=rate + 0.05,
        excess=0.0,
        matched=0.0,
        p=0.01,
        p_adjusted=0.02,
        is_above=flags.get("above", False),
        is_unfair=flags.get("unfair", False),
    )


def analysis(operator: Operator, oracle: Oracle, kind: Kind = "ood", **changes: Any) -> Analysis:
    is_unfair = kind == "ood"
    values: dict[str, Any] = {
        "detector": "Argus",
        "operator": operator,
        "oracle": oracle,
        "kind": kind,
        "tests": 123,
        "scenes": 7,
        "classes": (
            class_rate("bicycle", 31, 100, above=True, unfair=is_unfair),
            class_rate("bus", 7, 50, above=True),
            class_rate("car", -3, 100),
        ),
        "left_out": ("dog",),
        "mean": 0.14,
        "violations": ("bicycle", "bus"),
        "unfair": ("bicycle",) if is_unfair else (),
        "violation_rate": 2 / 3,
        "error_inducing": 41,
        "error_rate": 41 / 123,
        "error_low": 0.21,
        "error_high": 0.47,
        "fewest": 10,
        "is_primary": operator == "all" and kind == "ood" and oracle != "inclusion",
        "family": 12,
        "flips": 1000,
        "confidence": 0.95,
    }
    return Analysis(**{**values, **changes})


def example() -> Example:
    """A car is taken away; of two bicycles one is lost, and a sign appears."""
    bicycles = [
        Detection("bicycle", 0.81, (10, 100, 50, 200)),
        Detection("bicycle", 0.62, (300, 100, 340, 200)),
    ]
    return Example(
        detector="Argus",
        label="bicycle",
        operator="delete",
        mutated_label="car",
        oracle="exclusion",
        scene="street 7",
        image="pictures/7.png",
        known=2,
        recognized=2,
        recognized_now=1,
        original=OriginalPicture(
            src=SRC,
            width=480,
            height=360,
            detections=[*bicycles, Detection("car", 0.5, (100, 100, 200, 200))],
        ),
        mutated=MutatedPicture(
            src=SRC,
            width=480,
            height=360,
            places=[(100, 100, 200, 200)],
            detections=[
                Detection("bicycle", 0.8, (11, 100, 51, 200)),
                Detection("sign", 0.4, (400, 10, 420, 40)),
            ],
        ),
    )


RANKS = RankTest(
    first=123,
    second=39,
    first_mean=0.311,
    second_mean=0.272,
    statistic=2911.5,
    p_value=0.013,
    superiority=0.567,
)


TOTAL = Total(
    name="gt",
    classes=3,
    violations=2,
    unfair=1,
    tests=123,
    error_inducing=41,
    violation_rate=0.667,
    error_rate=0.333,
)


def accuracy(**values: Any) -> ReferenceComparison:
    return ReferenceComparison(detector="Argus", **values)


def comparisons() -> Comparisons:
    return Comparisons(
        ood_vs_original={"Argus": RANKS},
        ood_vs_id={"Argus": replace(RANKS, p_value=0.4)},
        ood_vs_control={"Argus": replace(RANKS, statistic=None, p_value=None, superiority=None)},
        usual=[
            UsualComparison(
                detector="Argus",
                oracle="gt",
                unusual=TOTAL,
                usual=TOTAL,
                violation_gain=0.0,
                error_gain=-23.0,
            )
        ],
        overlaps=[OracleOverlap(detector="Argus", gt=3, mt=4, both=2, covered=0.6667)],
        originals=OriginalsOverlap(
            originals=4, mutants=7, both=3, only_mutants=0.571, covered=0.75
        ),
        causes=[
            ControlRate(
                detector="Argus",
                operator="delete",
                oracle="gt",
                label="bus",
                rate=0.14,
                control=0.13,
                difference=0.01,
                low=-0.02,
                high=None,
                cause="in-painting",
            )
        ],
        rq5=[accuracy(pictures=12, objects=99, reference=0.41, mutated=0.523)],
        rq6=[accuracy(pictures=41, objects=88, reference=0.0, mutated=None)],
        times=[
            OperatorTime(operator="insert", images=80, seconds=0.061),
            OperatorTime(operator="total", images=0, seconds=None),
        ],
        quality=ImageQuality(
            pictures=123,
            measures=[
                QualityMeasure(
                    name="blur",
                    original=0.341,
                    mutated=0.352,
                    operators={"insert": 0.36},
                    test=None,
                )
            ],
            messages=["CLIP-IQA was left out."],
        ),
        realism=[
            OperatorRealism(
                operator="delete",
                pictures=40,
                passed=29,
                share=0.725,
                low=0.561,
                high=0.854,
                threshold=0.41,
                real=126,
            )
        ],
    )


def scenes_run(**changes: Any) -> ScenesRun:
    """A run with everything in it, apart from changes."""
    values: dict[str, Any] = {
        "created": "2026-11-16T11:30:00+00:00",
        "command": "fairprobe audit-scenes streets --detector argus.onnx",
        "versions": {"fairprobe": "0.1.0"},
        "seed": 11,
        "seconds": {"Making mutants": 431.2},
        "messages": ["a.png has no annotation."],
        "title": "Streets of Bath",
        "data": SceneData(name="Bath", scenes=39, clusters=3, objects={"car": 12}),
        "detectors": [
            DetectorInfo(
                name="Argus",
                identity="argus.onnx 1f3a",
                remote=True,
                named=12,
                agreement=None,
            )
        ],
        "mutations": ["insert", "delete"],
        "classes": ["car", "person"],
        "repeats": 5,
        "confidence": 0.95,
        "least_objects": 10,
        "settings": {"in-painting": "ns", "time-out": None, "fast": True, "steps": [1, 2]},
        "results": [
            *(analysis(operator, oracle) for operator in ("all", "delete") for oracle in ORACLES),
            *(analysis("delete", oracle, "control") for oracle in ORACLES),
            analysis("insert", "gt", "id"),
        ],
        "comparisons": comparisons(),
        "examples": [example()],
        "skipped": [
            SkippedTasks(operator="insert", label="truck", reason="no free ground", count=31)
        ],
        "failures": [DetectorFailures(detector="Argus", reason="no answer within 10 s", count=2)],
    }
    return ScenesRun(**{**values, **changes})
