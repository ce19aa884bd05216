"""The image audit: complete and honest about its controls, nothing where there is nothing, and
nothing lost when it is interrupted.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from PIL import Image
from scipy.stats import binomtest
from torch import Tensor, nn

import fairprobe as fp
from fairprobe.datasets.image_sets import FACE_CLASSES, ImageAttribute, ImageSet
from fairprobe.errors import DataError, ModelError, SettingError, StorageError
from fairprobe.images.attribute import attribute_head
from fairprobe.images.change import Change, as_numbers
from fairprobe.images.detector import Detector
from fairprobe.images.measure import quality
from fairprobe.images.pairs import ANSWERED
from fairprobe.images.parts import Parts
from fairprobe.images.repair import fine_tuned, idi_pictures
from fairprobe.images.report import report
from fairprobe.images.run import ImageAudit, ImageData, ImagesRun
from fairprobe.images.search import ImageFindings
from fairprobe.models import one_thread
from fairprobe.networks import Training
from fairprobe.networks.vision_training import labels_of
from fairprobe.report import Section
from fairprobe.report.html import page
from fairprobe.report.markdown import markdown
from fairprobe.results import from_dict, to_dict
from fairprobe.runs import store
from fairprobe.runs.store import read_run

SIDE, TIMES = 12, 128
SQUARE, RED = (
    130 / 255,
    125 / 255,
)  # between the brightness of faces and others, and between the red of the two genders


def pictures(count: int = 120, seed: int = 0) -> ImageSet:
    """Noise; every other picture has a bright square, the face, and every other face is a little
    redder.
    """
    rng = np.random.default_rng(seed)
    y = np.arange(count, dtype=np.int64) % 2
    codes = np.where(y == 1, np.arange(count) // 2 % 2, -1)
    images = rng.integers(60, 160, size=(count, 3, SIDE, SIDE))
    images[y == 1, :, 3:9, 3:9] += 40
    images[codes == 1, 0] += 10
    attributes = {"gender": ImageAttribute(("Female", "Male"), codes)}
    return ImageSet(
        "tiny",
        np.clip(images, 0, 255).astype(np.uint8),
        y,
        FACE_CLASSES,
        attributes,
        rng.random(count) < 0.3,
    )


class Square(nn.Module):
    """Knows what the pictures are made of: how bright the square is, and how red all of it; each as
    what lies above and below the middle.

    It says so many times over, because few features would make a narrow head, which learns slowly.
    """

    def forward(self, images: Tensor) -> Tensor:
        seen = torch.stack(
            [images[:, :, 3:9, 3:9].mean(dim=(1, 2, 3)), images[:, 0].mean(dim=(1, 2))], dim=1
        )
        away = 30 * (seen - torch.tensor([SQUARE, RED]))
        return torch.relu(torch.cat([away, -away], dim=1)).repeat(1, TIMES)


def judging_by(square: float, red: float, always: float = 0.0) -> Detector:
    """A detector whose head weighs those two; a face where the sum is positive."""
    head = nn.Linear(4 * TIMES, 2)
    with torch.no_grad():
        weights = torch.tensor([square, red, -square, -red]).repeat(TIMES) / TIMES
        head.weight.copy_(torch.stack([-weights, weights]))
        head.bias.copy_(torch.tensor([-always, always]))
    return Detector(Square(), head).eval()


def honest() -> Detector:
    return judging_by(1.0, 0.0)


def text_of(run: ImagesRun) -> str:
    return markdown(report(run)).replace("\N{NO-BREAK SPACE}", " ")


@pytest.fixture(autouse=True, scope="module")
def one_core() -> Iterator[None]:
    with one_thread():
        yield


@pytest.fixture(scope="module")
def whole() -> ImageAudit:
    """An audit with everything: a detector trained here, all controls, the repair."""
    return fp.audit_images(pictures(), sensitive="gender", faces=12, iterations=6)


@pytest.fixture(scope="module")
def run(whole: ImageAudit) -> ImagesRun:
    return whole.document


# -- complete --------------------------------------------------------------------------------------


def test_the_run_is_complete_and_is_json(whole: ImageAudit, run: ImagesRun) -> None:
    body = json.loads(json.dumps(whole.to_dict(), allow_nan=False))
    assert to_dict(from_dict(body, ImagesRun)) == body
    assert msgspec.structs.replace(run.data, values=[]) == ImageData(
        name="tiny",
        images=120,
        faces=60,
        others=60,
        height=SIDE,
        width=SIDE,
        classes=list(FACE_CLASSES),
        learnt_from=120 - run.data.held_out,
        held_out=int(pictures().held_out.sum()),
        values=[],
    )
    assert run.stopped is None


def test_the_five_controls_run_by_default_and_are_there_for_every_number(run: ImagesRun) -> None:
    both = {"random_signs", "shuffled_labels"}
    assert set(run.change.flips.controls) == both
    assert run.interpretation is not None
    assert all(set(layer.reaction.controls) == both for layer in run.interpretation.layers)
    assert [(search.method, search.is_control) for search in run.generation] == [
        ("neuronfair", False),
        ("adf", False),
        ("eidig", False),
        ("random", True),
    ]
    assert all(set(search.found.controls) == both for search in run.guided)
    assert run.attribute.independent is not None
    assert run.repair is not None
    assert run.repair.without_idis is not None


def test_rates_are_exact_and_those_at_the_seed_are_counted_apart(
    whole: ImageAudit, run: ImagesRun
) -> None:
    for search in run.generation:
        found = whole.findings[search.method]
        strict = found.only(whole.strict[search.method, "own"])
        own = search.found.own
        for counted, pairs in ((own.strict, strict), (own.loose, found)):
            rate = counted.success
            still = np.abs(pairs.delta).max(axis=(1, 2, 3), initial=0) == 0
            assert counted.idis == len(pairs) == counted.at_seed.hits + counted.gsr.hits
            exact = binomtest(rate.hits, rate.samples).proportion_ci(method="exact")
            assert (rate.low, rate.high) == pytest.approx((exact.low, exact.high))
            assert counted.at_seed.hits == still.sum()


def test_every_finding_is_a_pair_that_the_detector_judges_differently(
    whole: ImageAudit,
) -> None:
    found = 0
    for which, by_change in [
        (which, method) for method in whole.found.values() for which in method
    ]:
        one, change = by_change[which], whole.change_of_seeds(which)
        without = np.clip(as_numbers(whole.data.images[whole.seeds[one.rows]]) + one.delta, 0, 1)
        changed = np.clip(without + change.delta[one.rows], 0, 1)
        assert (labels_of(whole.detector, without) != labels_of(whole.detector, changed)).all()
        found += len(one)
    assert found > 0


def test_pairs_are_counted_again_from_the_pictures_in_the_run_folder(
    whole: ImageAudit, run: ImagesRun, tmp_path: Path
) -> None:
    whole.save(tmp_path / "run")
    saved = np.load(tmp_path / "run" / "findings.npz")
    data, attribute = whole.data, whole.data.attributes["gender"]
    learnt = np.flatnonzero((data.y == 1) & (attribute.codes >= 0) & ~data.held_out)
    with one_thread():
        head = attribute_head(
            whole.detector, data.images[learnt], attribute.codes[learnt], 2, seed=whole.seed
        )
        for search in run.generation:
            name, own = search.method, search.found.own
            without, changed = saved[f"{name}_without"], saved[f"{name}_with"]
            strict = np.all(
                [
                    labels_of(network, without) != labels_of(network, changed)
                    for network in (whole.detector, head)
                ],
                axis=0,
            )
            np.testing.assert_array_equal(saved[f"{name}_strict"], strict)
            assert (own.strict.idis, own.loose.idis) == (strict.sum(), len(without))
            seen = own.seen_by_independent
            assert (0 if seen is None else seen.samples) == strict.sum()
    assert sum(search.found.own.strict.idis for search in run.generation) > 0


def test_seeds_are_faces_to_learn_from_and_the_repair_is_measured_on_others(
    whole: ImageAudit, run: ImagesRun
) -> None:
    assert (whole.data.y[whole.rows] == 1).all()
    assert not whole.data.held_out[whole.rows].any()
    held_out = int((whole.data.held_out & (whole.data.y == 1)).sum())
    assert run.repair is not None
    assert run.repair.after is not None
    assert run.repair.before.detection_rate.samples == held_out
    assert run.repair.after.flips.samples == min(12, held_out)


def test_pairs_show_what_was_added_and_what_the_detector_answers(
    whole: ImageAudit, run: ImagesRun
) -> None:
    def pixels(source: str) -> Any:
        picture = Image.open(io.BytesIO(base64.b64decode(source)))
        return np.asarray(picture).transpose(2, 0, 1)

    assert 0 < len(run.pairs) <= 6
    for pair in run.pairs:
        assert pair.verdicts["without"].label != pair.verdicts["with"].label
        three = np.stack([pixels(pair.pictures[name]) for name in ANSWERED])
        answers = [FACE_CLASSES[label] for label in labels_of(whole.detector, three)]
        assert answers == [pair.verdicts[name].label for name in ANSWERED]
        moved = (three[1].astype(np.float64) - three[0]) / 255
        assert pair.l2_bias == pytest.approx(np.sqrt((moved**2).sum()), abs=0.05)


def test_the_run_folder_holds_numbers_report_and_findings(
    whole: ImageAudit, tmp_path: Path
) -> None:
    whole.save(tmp_path / "run")
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "audit.json",
        "report.html",
        "findings.npz",
        "detector.pt2",
        "repaired.pt2",
    }
    assert (
        json.loads((tmp_path / "run" / "audit.json").read_text(encoding="utf-8"))["kind"]
        == "images"
    )
    assert "data:image/png;base64," in (tmp_path / "run" / "report.html").read_text(
        encoding="utf-8"
    )
    with np.load(tmp_path / "run" / "findings.npz", allow_pickle=False) as arrays:
        assert set(whole.data.y[arrays["adf_rows"]]) <= {1}
        assert arrays["adf_delta"].shape == (len(whole.findings["adf"]), 3, SIDE, SIDE)
        assert arrays["change"].shape == (len(whole.seeds), 3, SIDE, SIDE)
    assert whole.report(tmp_path / "alone.html").stat().st_size > 10_000


def test_a_full_disk_costs_nothing(
    whole: ImageAudit, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Section] = []

    def full_at_first(document: Section) -> str:
        calls.append(document)
        if len(calls) == 1:
            raise OSError(28, "No space left on device")
        return page(document)

    monkeypatch.setattr("fairprobe.report.html.page", full_at_first)
    with pytest.raises(StorageError, match="No space left on device") as caught:
        whole.save(tmp_path / "run")
    (rescued,) = temporary.iterdir()
    assert str(caught.value).endswith(f"Nothing is lost: the whole run is in {rescued}.")
    assert f"Cannot write {tmp_path / 'run'}: " in str(caught.value)
    assert {path.name for path in rescued.iterdir()} == {
        "audit.json",
        "detector.pt2",
        "findings.npz",
        "repaired.pt2",
        "report.html",
    }
    assert list(tmp_path.iterdir()) == [temporary]


def test_an_audit_whose_place_was_taken_meanwhile_is_not_lost(
    whole: ImageAudit, tmp_path: Path, temporary: Path
) -> None:
    def save() -> None:
        with store.RunFolder(tmp_path / "run") as run:
            (tmp_path / "run").mkdir()
            (tmp_path / "run" / "audit.json").write_text("somebody else's")
            run.fill(whole)

    with pytest.raises(StorageError, match=r"filled by somebody else meanwhile") as caught:
        save()
    (kept,) = temporary.iterdir()
    assert str(caught.value).endswith(f"the whole run is in {kept}.")
    assert (kept / "findings.npz").exists()
    assert (tmp_path / "run" / "audit.json").read_text() == "somebody else's"


def test_a_folder_that_holds_something_else_is_never_replaced(
    whole: ImageAudit, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    for overwrite, words in ((False, "not empty"), (True, "is not replaced")):
        with pytest.raises(SettingError, match=words):
            whole.save(tmp_path / "mine", overwrite=overwrite)
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingError, match="is a file"):
        whole.save(tmp_path / "file")
    with pytest.raises(StorageError, match="Cannot write"):
        whole.save(tmp_path / "file" / "below")
    whole.save(tmp_path / "run")
    whole.save(tmp_path / "run", overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "mine", "run"]


def test_a_damaged_document_is_refused_in_a_sentence_that_names_the_place(
    whole: ImageAudit, tmp_path: Path
) -> None:
    file = whole.save(tmp_path / "run") / "audit.json"
    text = file.read_text(encoding="utf-8")
    for old, new, words in (
        ('"neurons": ', '"neurons": -', r"\$.interpretation.layers\[0\].neurons"),
        ('"format": 4', '"format": 2', "written by another version"),
        ('"most_biased": "', '"most_biased": "no such ', "is not among the layers"),
    ):
        file.write_text(text.replace(old, new, 1), encoding="utf-8")
        with pytest.raises(StorageError, match=words):
            read_run(tmp_path / "run")
    file.write_text(text, encoding="utf-8")
    assert to_dict(read_run(tmp_path / "run")) == whole.to_dict()


def test_an_audit_shows_itself_in_a_line(whole: ImageAudit) -> None:
    verdict = next(report(whole.document).verdicts)
    assert repr(whole).startswith(f"<ImageAudit: {verdict.headline}")
    assert len(repr(whole)) < 250
    assert verdict.headline in whole._repr_html_()


# -- detectors whose answer is known ---------------------------------------------------------------


def test_a_detector_that_ignores_every_change_has_no_findings() -> None:
    audited = fp.audit_images(
        pictures(), judging_by(0.0, 0.0, always=1.0), "gender", controls=False
    )
    run = audited.document
    assert [search.found.own.strict.idis for search in run.generation] == [0, 0, 0]
    assert run.generation[0].seeds == len(audited.seeds) > 0
    assert next(report(run).verdicts).text.startswith("No differing pair was found")
    assert (run.repair, run.pairs) == (None, [])
    assert run.detector.quality.detection_rate.estimate == 1


def test_a_detector_that_judges_by_the_attribute_differs_at_the_seed() -> None:
    run = fp.audit_images(
        pictures(), judging_by(0.0, 1.0), "gender", controls=False, repair=False
    ).document
    rates = {name: rate.estimate for name, rate in run.detector.quality.by_value.items()}
    assert rates == {"Female": 0, "Male": 1}
    said = "Held-out faces are not found equally often: Female 0 %, Male 100 %."
    assert said in text_of(run)
    first = run.generation[0]
    assert first.found.own.strict.at_seed.hits > 0.9 * first.seeds


def test_the_same_seed_gives_the_same_audit() -> None:
    def body_of(seed: int) -> dict[str, Any]:
        some = fp.audit_images(
            pictures(),
            honest(),
            "gender",
            faces=8,
            methods=["neuronfair"],
            controls=False,
            repair=False,
            seed=seed,
        )
        body = some.to_dict()
        body["generation"][0].pop("ms_an_image")
        times = ("created", "seconds", "forecast")
        return {name: part for name, part in body.items() if name not in times}

    assert body_of(3) == body_of(3)
    assert body_of(3) != body_of(4)


def test_a_network_of_ones_own_is_opened_by_the_names_of_its_parts() -> None:
    mine = nn.Sequential()
    mine.add_module("body", Square())
    mine.add_module("top", honest().head)
    audited = fp.audit_images(
        pictures(), mine, "gender", trunk="body", head="top", faces=4, controls=False, repair=False
    )
    assert (audited.name, audited.trained_here) == ("Sequential", False)
    assert audited.quality == quality(honest(), pictures(), "gender")
    found = fp.audit_images(
        pictures(), mine, "gender", methods=["adf"], faces=4, controls=False, repair=False
    )
    assert found.expected.parts == Parts(None, "top", 0, is_found=True)
    with pytest.raises(ModelError, match="cannot take pictures of 12 × 12 pixels"):
        fp.audit_images(pictures(), Detector(nn.Linear(5, 5), nn.Linear(5, 2)), "gender")
    with pytest.raises(ModelError, match=r"returns the shape \(2, 3\) for two pictures"):
        fp.audit_images(pictures(), Detector(Square(), nn.Linear(4 * TIMES, 3)), "gender")


def test_where_no_face_can_be_flipped_the_audit_says_so_and_does_not_call_itself_interrupted() -> (
    None
):
    nothing = fp.audit_images(
        pictures(40), honest(), "gender", faces=4, epsilon=1e-7, cap=2e-7, controls=False
    )
    run = nothing.document
    assert next(report(run).verdicts).text.startswith(
        "A change of 2e-07 did not flip the attribute head's opinion on gender for any face"
    )
    assert (run.stopped, run.generation) == (None, [])
    assert run.messages == ["A change of 2e-07 flips the gender of no face: nothing to search."]


def test_a_change_may_grow_up_to_a_cap() -> None:
    given: dict[str, Any] = {
        "faces": 8,
        "epsilon": 0.001,
        "methods": ["adf"],
        "controls": False,
        "repair": False,
    }
    small, grown = (
        fp.audit_images(pictures(), honest(), "gender", cap=cap, **given) for cap in (None, 0.1)
    )
    assert len(small.seeds) < len(grown.seeds)
    assert grown.document.change.cap == 0.1
    assert 0.001 < grown.changes["own"].epsilon.max() <= 0.1


def test_a_detector_that_was_frozen_for_use_is_retrained_as_a_copy_that_learns() -> None:
    frozen = judging_by(1.0, 0.0).requires_grad_(False)
    repaired = fp.audit_images(
        pictures(60), frozen, "gender", faces=6, methods=["adf"], controls=False
    ).repaired
    assert repaired is not None
    assert not torch.equal(repaired.head.weight, frozen.head.weight)  # type: ignore[arg-type]
    assert not any(weight.requires_grad for weight in frozen.parameters())


def test_a_detector_that_cannot_be_retrained_is_audited_all_the_same() -> None:
    class Brightness(nn.Module):
        def forward(self, features: Tensor) -> Tensor:
            return torch.stack([features[:, 2], features[:, 0]], dim=1)

    run = fp.audit_images(
        pictures(60),
        Detector(Square(), Brightness()),
        "gender",
        faces=6,
        methods=["adf"],
        controls=False,
    ).document
    assert run.generation[0].found.own.strict.idis > 0
    assert run.messages == ["The network could not be retrained. It has no weights to train."]


def test_warn_about_a_detector_that_detects_nothing_or_has_its_classes_swapped() -> None:
    some: dict[str, Any] = {
        "faces": 4,
        "iterations": 1,
        "methods": ["adf"],
        "controls": False,
        "repair": False,
    }
    same, reverse = (
        text_of(fp.audit_images(pictures(), one, "gender", **some).document)
        for one in (judging_by(0, 0, 1), judging_by(-1, 0))
    )
    assert "The detector gives all held-out pictures the same answer, so it detects noth" in same
    assert "less than by chance. Are its classes in this order: not a face, face?" in reverse


def test_a_value_with_too_few_faces_is_left_out_and_the_rest_goes_on() -> None:
    data = pictures(60)
    codes = data.attributes["gender"].codes.copy()
    learnt = np.flatnonzero((codes >= 0) & ~data.held_out)
    codes[learnt[0]] = 2
    codes[np.flatnonzero((codes >= 0) & data.held_out)[0]] = 3
    data = replace(
        data, attributes={"gender": ImageAttribute(("Female", "Male", "Other", "Unsaid"), codes)}
    )
    run = fp.audit_images(
        data,
        honest(),
        "gender",
        faces=4,
        iterations=1,
        methods=["adf"],
        controls=False,
        repair=False,
    ).document
    assert run.attribute.values == ["Female", "Male"]
    assert run.messages == [
        "The gender 'Other' is left out: one face to learn it from.",
        "The gender 'Unsaid' is left out: no face to learn it from.",
    ]


# -- interrupts ------------------------------------------------------------------------------------


def stopping(
    at: str, after: int = 0, error: BaseException | None = None
) -> Callable[[str, int, int, str], None]:
    """A progress that is interrupted at this stage, or fails."""

    def tell(stage: str, done: int, total: int, note: str) -> None:
        if stage == at and done >= after:
            raise error or KeyboardInterrupt

    return tell


@pytest.mark.parametrize(
    ("stage", "after", "methods"),
    [
        ("Interpreting the network", 0, []),
        ("Searching with neuronfair", 1, ["neuronfair"]),
        ("Searching with adf", 0, ["neuronfair"]),
        ("Measuring before the repair", 1, ["neuronfair", "adf", "eidig"]),
        ("Retraining with IDIs", 0, ["neuronfair", "adf", "eidig"]),
    ],
)
def test_an_interrupt_keeps_what_was_found(
    stage: str, after: int, methods: list[str], tmp_path: Path
) -> None:
    data = pictures(60)
    some = fp.audit_images(
        data,
        honest(),
        "gender",
        faces=8,
        iterations=3,
        controls=False,
        progress=stopping(stage, after),
    )
    run = some.document
    assert run.stopped is not None
    assert run.stopped.startswith(f"Interrupted while {stage[0].lower()}{stage[1:]}")
    assert [search.method for search in run.generation] == methods
    some.save(tmp_path / "run")
    assert "Interrupted while" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


def test_an_interrupt_before_anything_is_known_is_passed_on() -> None:
    with pytest.raises(KeyboardInterrupt):
        fp.audit_images(pictures(), progress=stopping("Training the network"))


@pytest.mark.parametrize("after", [0, 1])
def test_an_error_on_the_way_keeps_what_was_found(after: int, tmp_path: Path) -> None:
    failing = stopping("Searching with adf", after, ModelError("The network went away."))
    some = fp.audit_images(
        pictures(60), judging_by(0, 1), "gender", faces=8, controls=False, progress=failing
    )
    run = some.document
    assert some.failed
    assert run.stopped is not None
    assert run.stopped.startswith(
        "The audit failed while searching with adf: The network went away. What was found until"
        " then is kept"
    )
    assert [search.method for search in run.generation] == ["neuronfair", "adf"][: 1 + after]
    assert run.generation[0].found.own.strict.idis > 0
    assert "The network went away." in (some.save(tmp_path / "run") / "report.html").read_text(
        encoding="utf-8"
    )
    nothing = stopping("Interpreting the network", 0, ModelError("The network went away."))
    with pytest.raises(ModelError, match="went away"):
        fp.audit_images(
            pictures(60), judging_by(0, 1), "gender", faces=8, controls=False, progress=nothing
        )


# -- mistakes --------------------------------------------------------------------------------------


def with_codes(change: Callable[[Any], Any]) -> ImageSet:
    data = pictures(40)
    attribute = data.attributes["gender"]
    return replace(
        data, attributes={"gender": replace(attribute, codes=change(attribute.codes.copy()))}
    )


def test_data_that_cannot_be_audited_are_refused_in_a_sentence() -> None:
    data = pictures(40)
    cases: list[tuple[ImageSet, str, type[Exception], str]] = [
        (
            data,
            "gendr",
            SettingError,
            "There is no attribute 'gendr' in 'tiny'. Did you mean 'gender'?",
        ),
        (
            replace(data, attributes={}),
            "gender",
            DataError,
            "No attribute of the people in 'tiny' is known",
        ),
        (replace(data, y=np.zeros(40, dtype=np.int64)), "gender", DataError, "'tiny' has no faces"),
        (data.take(data.y == 1), "gender", DataError, "All pictures of 'tiny' are faces"),
        (
            with_codes(lambda codes: np.where(codes == 1, 0, codes)),
            "gender",
            DataError,
            "All faces to learn from have the gender 'Female'",
        ),
        (
            replace(data, held_out=np.zeros(40, dtype=bool)),
            "gender",
            DataError,
            "There are too few faces in 'tiny'",
        ),
    ]
    for given, sensitive, kind, words in cases:
        with pytest.raises(kind, match="^" + words.replace("?", r"\?").split(".")[0]):
            fp.audit_images(given, sensitive=sensitive)


def test_settings_that_cannot_be_are_refused_before_anything_is_opened() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        (
            {"methods": ["neuronfare"]},
            "There is no method 'neuronfare' for images. Did you mean 'neuronfair'",
        ),
        ({"methods": []}, "at least one method"),
        ({"faces": 0}, "1 face or more"),
        ({"epsilon": 0.0}, "size of a change"),
        ({"step": -1.0}, "step must be positive"),
        ({"step": float("nan")}, "step must be positive"),
        ({"cap": 0.01}, "cap of a change"),
        ({"outputs": "odds"}, "logits or probabilities"),
        ({"iterations": 0}, "1 step or more"),
        ({"by": "pixel"}, "position or a channel"),
        ({"seed": -1}, "The seed must be"),
        ({"model": "vgg17"}, "There is no network 'vgg17'. Did you mean 'vgg16'"),
        ({"trunk": "body"}, "needs a network of your own"),
        ({"weights": "w.safetensors"}, "Weights need a trunk"),
    ]
    for given, words in cases:
        with pytest.raises(SettingError, match=words):
            fp.audit_images("nowhere.npz", **given)
    with pytest.raises(StorageError, match=r"There is no nowhere.npz"):
        fp.audit_images("nowhere.npz")


def test_a_detector_of_ones_own_needs_no_other_pictures_but_is_not_retrained_without() -> None:
    data = pictures()
    run = fp.audit_images(
        data.take(data.y == 1), honest(), "gender", faces=8, controls=False
    ).document
    assert run.detector.quality.false_alarms is None
    assert run.repair is None
    assert "not retrained" in run.messages[0]


# -- the repair's parts ----------------------------------------------------------------------------


def test_both_pictures_of_a_pair_are_learned() -> None:
    images = np.full((2, 3, 1, 1), 100, dtype=np.uint8)
    change = Change(
        np.full((2, 3, 1, 1), 20 / 255, dtype=np.float32), np.ones(2, dtype=bool), np.full(2, 0.1)
    )
    delta = np.full((1, 3, 1, 1), 5 / 255, dtype=np.float32)
    found = ImageFindings(
        "adf", np.array([1]), delta, np.array([1]), np.array([False]), 2, 2, 0.0, "complete"
    )
    assert idi_pictures(images, change, found)[:, 0, 0, 0].tolist() == [105, 125]


def test_fine_tuning_leaves_the_detector_as_it_was() -> None:
    data, detector = pictures(40), honest()
    before = {name: value.clone() for name, value in detector.state_dict().items()}
    new = fine_tuned(
        detector,
        data,
        data.images[:4],
        data.y[:4],
        seed=0,
        training=Training(batch=8, epochs=1, patience=None, learning_rate=0.1),
    )
    assert all(torch.equal(before[name], value) for name, value in detector.state_dict().items())
    assert any(not torch.equal(before[name], value) for name, value in new.state_dict().items())
