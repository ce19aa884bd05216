"""A run of an audit on pictures with everything in it, and parts of it to change."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace
from PIL import Image

from fairprobe.images.change import Flips, Spread
from fairprobe.images.controls import Compared, ControlChange
from fairprobe.images.forecast import Forecast
from fairprobe.images.interpret import ImageInterpretation, ImageLayer, LayerReaction
from fairprobe.images.measure import PairCount, Quality, Recalls
from fairprobe.images.pairs import ANSWERED, PICTURES, ImagePair, Label
from fairprobe.images.parts import Parts
from fairprobe.images.repair import DetectorState, ImageRepair
from fairprobe.images.run import (
    AttributeInfo,
    ChangeInfo,
    CountedPairs,
    DetectorInfo,
    Found,
    GroupSize,
    ImageData,
    ImageGeneration,
    ImagesRun,
)
from fairprobe.results import Estimate, Rate, to_dict

# Words of fixed lists, and pictures: all other texts may be anything.
FIXED = {
    *("oracle", "operator", "kind", "cause", "src", "created", "method", "by", "mutations"),
    *("pictures", "name_of", "layout"),
}


def png() -> str:
    file = io.BytesIO()
    Image.new("RGB", (4, 4), (10, 200, 30)).save(file, format="png")
    return base64.b64encode(file.getvalue()).decode()


def counted(pairs: int, faces: int = 247, at_seed: int = 0) -> CountedPairs:
    return CountedPairs(
        success=Rate.of(pairs, faces),
        at_seed=Rate.of(at_seed, faces),
        gsr=Rate.of(pairs - at_seed, faces - at_seed),
        l2=Spread(mean=0.623, median=0.6, high=1.246, samples=100),
    )


def found(strict: int, loose: int | None = None, seen: int | None = None) -> Found:
    return Found(
        strict=counted(strict),
        loose=counted(strict if loose is None else loose),
        seen_by_independent=None if seen is None else Rate.of(seen, strict),
    )


def search(method: str, title: str, own: Found, shuffled: Found | None = None) -> ImageGeneration:
    controls: dict[ControlChange, Found] = {}
    if shuffled is not None:
        controls = {"random_signs": found(12), "shuffled_labels": shuffled}
    return ImageGeneration(
        method=method,
        title=title,
        is_control=method == "random",
        seeds=247,
        generated=1235,
        iterations=Spread(mean=4.2, median=4, high=9, samples=100),
        ms_an_image=21.5,
        stopped="complete",
        found=Compared(own=own, controls=controls),
    )


def state(differing: int, auc: float = 0.312, noise: float = 0.1) -> DetectorState:
    def both(strict: int, loose: int) -> PairCount:
        return PairCount(strict=Rate.of(strict, 420), loose=Rate.of(loose, 420))

    return DetectorState(
        accuracy=Rate.of(815, 840),
        detection_rate=Rate.of(409, 420),
        auc=auc,
        auc_random_signs=noise,
        flips=Rate.of(417, 420),
        differing=both(differing, 420),
        differing_faces=both(9, 10),
        success=both(360, 400),
        l2=Estimate(estimate=0.61, low=0.58, high=0.64, samples=350),
    )


def layer(name: str, auc: float) -> ImageLayer:
    def reaction(auc: float) -> LayerReaction:
        return LayerReaction(auc=auc, curve=[1.0, 0.4, 0.0])

    controls: dict[ControlChange, LayerReaction] = {
        "random_signs": reaction(0.0078),
        "shuffled_labels": reaction(0.0178),
    }
    return ImageLayer(
        name=name,
        layout="maps",
        neurons=32768,
        threshold=0.045,
        biased=814,
        reaction=Compared(own=reaction(auc), controls=controls),
    )


def images_run(**changes: Any) -> ImagesRun:
    """A run of an audit, with these fields changed."""
    recalls = Recalls(
        balanced_accuracy=0.664, rates={name: Rate.of(141, 210) for name in ("Female", "Male")}
    )
    flips = Flips(
        flips=Rate.of(249, 250),
        epsilon_used=Spread(mean=0.03, median=0.03, high=0.06, samples=250),
        l2=Spread(mean=1.62, median=1.6, high=3.24, samples=250),
        seen_by_independent=Rate.of(31, 250),
    )
    answers = {"original": ("face", 0.93), "without": ("face", 0.56), "with": ("not a face", 0.81)}
    run = ImagesRun(
        created="2026-11-16T11:20:00+00:00",
        command="fairprobe audit-images faces.npz --sensitive gender",
        versions={"fairprobe": "0.1.0"},
        seed=5,
        seconds={"Training the network": 40.2},
        messages=["b.png is grey."],
        sensitive="gender",
        target=None,
        settings={"epsilon": 0.03, "iterations": 20},
        forecast=Forecast(60.0, 1e9, 64),
        data=ImageData(
            name="faces32",
            images=2801,
            faces=1400,
            others=1401,
            height=32,
            width=33,
            classes=["not a face", "face"],
            learnt_from=1960,
            held_out=840,
            values=[GroupSize(name="Female", images=700, held_out=210)],
        ),
        detector=DetectorInfo(
            name="small detector",
            trained_here=True,
            parameters=312000,
            parts=Parts("trunk", "head"),
            quality=Quality(
                accuracy=Rate.of(815, 840),
                detection_rate=Rate.of(409, 420),
                false_alarms=Rate.of(14, 420),
                by_value={"Female": Rate.of(204, 210), "Male": Rate.of(205, 210)},
                by_class={},
            ),
        ),
        attribute=AttributeInfo(
            values=["Female", "Male"], head=recalls, independent=recalls, shuffled_labels=None
        ),
        change=ChangeInfo(
            epsilon=0.03,
            cap=0.06,
            smallest=False,
            faces=250,
            flips=Compared(own=flips, controls={"random_signs": flips}),
            others=[],
        ),
        interpretation=ImageInterpretation(
            pairs=249,
            by="channel",
            most_biased="relu1",
            thresholds=[0.0, 0.005, 0.01],
            layers=[layer("relu1", 0.0185), layer("relu2", 0.01)],
        ),
        generation=[
            search("neuronfair", "NeuronFair", found(215, 235, seen=23), found(100)),
            search("random", "random direction", found(2)),
        ],
        repair=ImageRepair(
            idis=1200, epochs=3, before=state(40), without_idis=state(44), after=state(18)
        ),
        pairs=[
            ImagePair(
                row=40,
                value="Female",
                method="neuronfair",
                at_seed=False,
                l2_bias=1.1217,
                l2_change=1.6628,
                amplified=8.0,
                pictures=dict.fromkeys(PICTURES, png()),
                verdicts={
                    name: Label(label=answers[name][0], probability=answers[name][1])
                    for name in ANSWERED
                },
                head=("Female", "Male"),
                independent=("Female", "Female"),
            )
        ],
    )
    return replace(run, **changes)


def images() -> dict[str, Any]:
    """The run as it is stored."""
    return to_dict(images_run())


def with_texts(body: Any, change: Callable[[str], str], key: str = "") -> Any:
    """Change all texts that may be anything."""
    if isinstance(body, str):
        return body if key in FIXED else change(body)
    if key in FIXED:
        return body
    if isinstance(body, list):
        return [with_texts(item, change, key) for item in body]
    if isinstance(body, dict):
        return {name: with_texts(item, change, name) for name, item in body.items()}
    return body
