"""The image audit: complete and honest about its controls, nothing where there is nothing, and
nothing lost when it is interrupted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binomtest
from torch import Tensor, nn

import fairprobe as fp
from fairprobe.audits.images import ImageAudit
from fairprobe.datasets.image_sets import FACE_CLASSES, ImageAttribute, ImageSet
from fairprobe.documents import from_dict, to_dict
from fairprobe.documents.images import ImagesDocument
from fairprobe.errors import DataError, ModelError, SettingError, StorageError
from fairprobe.images.attribute import attribute_head
from fairprobe.images.change import Change, as_numbers
from fairprobe.images.controls import CONTROLS
from fairprobe.images.detector import Detector
from fairprobe.images.measure import quality
from fairprobe.images.parts import Parts
from fairprobe.images.repair import fine_tuned, idi_pictures
from fairprobe.images.search import ImageFindings
from fairprobe.models import one_thread
from fairprobe.networks import Training
from fairprobe.networks.vision_training import labels_of
from fairprobe.present import render
from fairprobe.present.image_sentences import sentences, verdict
from fairprobe.results import Rate
from fairprobe.runs import store
from fairprobe.runs.store import read_run

SIDE, TIMES = 12, 128
SQUARE, RED = (
    130 / 255,
    125 / 255,
)  # between the brightness of faces and others, and between the red of the two genders
PARTS = {
    "data",
    "detector",
    "attribute",
    "change",
    "interpretation",
    "generation",
    "repair",
    "controls",
    "pairs",
    "sentences",
    "verdict",
}
FACTS = {
    "kind",
    "format",
    "created",
    "command",
    "versions",
    "seed",
    "sensitive",
    "partial",
    "stopped",
    "messages",
    "seconds",
    "settings",
    "forecast",
    "target",
}


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


@pytest.fixture(autouse=True, scope="module")
def one_core() -> Iterator[None]:
    with one_thread():
        yield


@pytest.fixture(scope="module")
def whole() -> ImageAudit:
    """An audit with everything: a detector trained here, all controls, the repair."""
    return fp.audit_images(pictures(), sensitive="gender", faces=12, iterations=6)


@pytest.fixture(scope="module")
def body(whole: ImageAudit) -> dict[str, Any]:
    return whole.to_dict()


# -- complete --------------------------------------------------------------------------------------


def test_the_document_is_complete_and_is_json(body: dict[str, Any]) -> None:
    assert set(body) == PARTS | FACTS
    assert json.loads(json.dumps(body, allow_nan=False)) == body
    assert body["data"] | {"values": 0} == {
        "name": "tiny",
        "images": 120,
        "faces": 60,
        "others": 60,
        "height": SIDE,
        "width": SIDE,
        "classes": list(FACE_CLASSES),
        "learnt_from": 120 - body["data"]["held_out"],
        "held_out": int(pictures().held_out.sum()),
        "values": 0,
    }
    assert (body["partial"], body["stopped"]) == (False, None)


def test_the_five_controls_run_by_default_and_stand_beside_every_figure(
    body: dict[str, Any],
) -> None:
    both = {"random_signs", "shuffled_labels"}
    assert [control["key"] for control in body["controls"]] == list(CONTROLS)
    assert set(body["change"]["controls"]) == both
    assert all(set(layer["controls"]) == both for layer in body["interpretation"]["layers"])
    assert [(method["method"], method["is_control"]) for method in body["generation"]] == [
        ("neuronfair", False),
        ("adf", False),
        ("eidig", False),
        ("random", True),
    ]
    assert all(
        set(method["controls"]) == both for method in body["generation"] if not method["is_control"]
    )
    assert body["attribute"]["independent"] is not None
    assert body["repair"]["without_idis"] is not None


def test_rates_are_exact_and_those_at_the_seed_are_counted_apart(
    whole: ImageAudit, body: dict[str, Any]
) -> None:
    for method in body["generation"]:
        found = whole.findings[method["method"]]
        strict = found.only(whole.strict[method["method"], "own"])
        assert method["idis"] == method["at_seed"] + method["moved"]
        for counted, pairs in ((method, strict), (method["loose"], found)):
            rate, still = (
                counted["success"],
                np.abs(pairs.delta).max(axis=(1, 2, 3), initial=0) == 0,
            )
            assert counted["idis"] == len(pairs) == rate["hits"]
            exact = binomtest(rate["hits"], rate["samples"]).proportion_ci(method="exact")
            assert (rate["low"], rate["high"]) == pytest.approx((exact.low, exact.high))
            assert counted["at_seed"] == still.sum()


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
    whole: ImageAudit, body: dict[str, Any], tmp_path: Path
) -> None:
    whole.save(tmp_path / "run")
    saved = np.load(tmp_path / "run" / "findings.npz")
    data, attribute = whole.data, whole.data.attributes["gender"]
    learnt = np.flatnonzero((data.y == 1) & (attribute.codes >= 0) & ~data.held_out)
    with one_thread():
        head = attribute_head(
            whole.detector, data.images[learnt], attribute.codes[learnt], 2, seed=whole.seed
        )
        for method in body["generation"]:
            name = method["method"]
            without, changed = saved[f"{name}_without"], saved[f"{name}_with"]
            strict = np.all(
                [
                    labels_of(network, without) != labels_of(network, changed)
                    for network in (whole.detector, head)
                ],
                axis=0,
            )
            np.testing.assert_array_equal(saved[f"{name}_strict"], strict)
            assert (method["idis"], method["loose"]["idis"]) == (strict.sum(), len(without))
            seen = method["seen_by_independent"]
            assert (0 if seen is None else seen["samples"]) == strict.sum()
    assert sum(one["idis"] for one in body["generation"]) > 0


def test_seeds_are_faces_to_learn_from_and_the_repair_is_measured_on_others(
    whole: ImageAudit, body: dict[str, Any]
) -> None:
    assert (whole.data.y[whole.rows] == 1).all()
    assert not whole.data.held_out[whole.rows].any()
    held_out = int((whole.data.held_out & (whole.data.y == 1)).sum())
    assert body["repair"]["before"]["detection_rate"]["samples"] == held_out
    assert body["repair"]["after"]["flips"]["samples"] == min(12, held_out)
    ratio, clean = body["repair"]["compared"]["auc_ratio"], body["repair"]["without_idis"]["auc"]
    assert ratio == (pytest.approx(body["repair"]["after"]["auc"] / clean) if clean else None)


def test_pairs_show_what_was_added_and_what_the_detector_says(
    whole: ImageAudit, body: dict[str, Any]
) -> None:
    assert 0 < len(body["pairs"]) <= 6
    for pair, described in zip(whole.pairs, body["pairs"], strict=True):
        assert set(described["pictures"]) == {"original", "bias", "without", "change", "with"}
        assert described["verdicts"]["without"]["label"] != described["verdicts"]["with"]["label"]
        asked = labels_of(whole.detector, np.stack([pair.original, pair.without, pair.changed]))
        assert [FACE_CLASSES[label] for label in asked] == [
            verdict["label"] for verdict in described["verdicts"].values()
        ]
        assert described["l2_bias"] == pytest.approx(
            float(np.sqrt((pair.bias.astype(np.float64) ** 2).sum()))
        )


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
    calls: list[ImagesDocument] = []

    def full_at_first(document: ImagesDocument) -> str:
        calls.append(document)
        if len(calls) == 1:
            raise OSError(28, "No space left on device")
        return render(document)

    monkeypatch.setattr(store, "page", full_at_first)
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
        ('"format": 3', '"format": 2', "written by another version"),
        ('"most_biased": "', '"most_biased": "no such ', "is not among the layers"),
    ):
        file.write_text(text.replace(old, new, 1), encoding="utf-8")
        with pytest.raises(StorageError, match=words):
            read_run(tmp_path / "run")
    file.write_text(text, encoding="utf-8")
    assert to_dict(read_run(tmp_path / "run")) == whole.to_dict()


def test_an_audit_shows_itself_in_a_line(whole: ImageAudit) -> None:
    assert repr(whole).startswith(f"<ImageAudit: {whole.document.verdict[:150]}")
    assert len(repr(whole)) < 250
    assert whole.document.verdict in whole._repr_html_().replace("\xa0", " ")


# -- detectors whose answer is known ---------------------------------------------------------------


def test_a_detector_that_ignores_every_change_has_no_findings() -> None:
    audited = fp.audit_images(
        pictures(), judging_by(0.0, 0.0, always=1.0), "gender", controls=False
    )
    body = audited.to_dict()
    assert [method["idis"] for method in body["generation"]] == [0, 0, 0]
    assert body["generation"][0]["seeds"] == len(audited.seeds) > 0
    assert body["verdict"].startswith("No differing pair was found")
    assert (body["repair"], body["pairs"]) == (None, [])
    assert body["detector"]["detection_rate"]["estimate"] == 1


def test_a_detector_that_judges_by_the_attribute_differs_at_the_seed() -> None:
    body = fp.audit_images(
        pictures(), judging_by(0.0, 1.0), "gender", controls=False, repair=False
    ).to_dict()
    by_value = {
        group["name"]: group["detection_rate"]["estimate"] for group in body["detector"]["by_value"]
    }
    assert by_value == {"Female": 0, "Male": 1}
    assert (
        body["sentences"][0]
        == "Held-out faces are not found equally often: Female 0 %, Male 100 %."
    )
    assert body["generation"][0]["at_seed"] > 0.9 * body["generation"][0]["seeds"]


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


def test_where_no_face_can_be_flipped_the_audit_says_so_and_does_not_call_itself_interrupted(
    tmp_path: Path,
) -> None:
    nothing = fp.audit_images(
        pictures(40), honest(), "gender", faces=4, epsilon=1e-7, cap=2e-7, controls=False
    )
    body = nothing.to_dict()
    assert body["verdict"].startswith(
        "A change of 2e-07 did not flip the attribute head's opinion on gender for any face"
    )
    assert (body["partial"], body["generation"]) == (False, [])
    assert body["messages"] == ["A change of 2e-07 flips the gender of no face: nothing to search."]
    assert "Nothing to search: no face’s gender could be flipped" in nothing.report(
        tmp_path / "r.html"
    ).read_text(encoding="utf-8")


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
    assert grown.to_dict()["change"]["cap"] == 0.1
    assert 0.001 < grown.changes["own"].epsilon.max() <= 0.1


def test_a_detector_that_was_frozen_for_use_is_retrained_as_a_copy_that_learns() -> None:
    frozen = judging_by(1.0, 0.0).requires_grad_(False)
    repaired = fp.audit_images(
        pictures(60), frozen, "gender", faces=6, methods=["adf"], controls=False
    ).repaired
    assert repaired is not None
    assert repaired.after is not None
    assert not torch.equal(repaired.detector.head.weight, frozen.head.weight)  # type: ignore[arg-type]
    assert not any(weight.requires_grad for weight in frozen.parameters())


def test_a_detector_that_cannot_be_retrained_is_audited_all_the_same() -> None:
    class Brightness(nn.Module):
        def forward(self, features: Tensor) -> Tensor:
            return torch.stack([features[:, 2], features[:, 0]], dim=1)

    body = fp.audit_images(
        pictures(60),
        Detector(Square(), Brightness()),
        "gender",
        faces=6,
        methods=["adf"],
        controls=False,
    ).to_dict()
    assert body["generation"][0]["idis"] > 0
    assert body["messages"] == ["The network could not be retrained. It has no weights to train."]


def test_warn_about_a_detector_that_detects_nothing_or_has_its_classes_swapped() -> None:
    some: dict[str, Any] = {
        "faces": 4,
        "iterations": 1,
        "methods": ["adf"],
        "controls": False,
        "repair": False,
    }
    same, reverse = (
        fp.audit_images(pictures(), one, "gender", **some).to_dict()
        for one in (judging_by(0, 0, 1), judging_by(-1, 0))
    )
    assert (
        same["sentences"][0]
        == "The detector gives all held-out pictures the same answer, so it detects nothing."
    )
    assert reverse["sentences"][0].endswith(
        "less than by chance. Are its classes in this order: not a face, face?"
    )


def test_a_value_with_too_few_faces_is_left_out_and_the_rest_goes_on() -> None:
    data = pictures(60)
    codes = data.attributes["gender"].codes.copy()
    learnt = np.flatnonzero((codes >= 0) & ~data.held_out)
    codes[learnt[0]] = 2
    codes[np.flatnonzero((codes >= 0) & data.held_out)[0]] = 3
    data = replace(
        data, attributes={"gender": ImageAttribute(("Female", "Male", "Other", "Unsaid"), codes)}
    )
    body = fp.audit_images(
        data,
        honest(),
        "gender",
        faces=4,
        iterations=1,
        methods=["adf"],
        controls=False,
        repair=False,
    ).to_dict()
    assert body["attribute"]["values"] == ["Female", "Male"]
    assert body["messages"] == [
        "The gender 'Other' is left out: one face to learn it from.",
        "The gender 'Unsaid' is left out: no face to learn it from.",
    ]


def test_a_repair_after_which_nothing_can_be_compared_praises_nothing(body: dict[str, Any]) -> None:
    changed = json.loads(json.dumps(body))
    changed["repair"]["after"] |= {
        "differing": Rate.of(0, 0).to_dict(),
        "loose_differing": Rate.of(0, 0).to_dict(),
    }
    said = " ".join(sentences(from_dict(changed, ImagesDocument)))
    assert "no held-out pair is left" in said
    assert "still differ" not in said


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
    body = some.to_dict()
    assert body["partial"]
    assert body["stopped"].startswith(f"Interrupted while {stage[0].lower()}{stage[1:]}")
    assert body["sentences"][0] == body["stopped"]
    assert [method["method"] for method in body["generation"]] == methods
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
    body = some.to_dict()
    assert some.failed
    assert body["partial"]
    assert body["stopped"].startswith(
        "The audit failed while searching with adf: The network went away. What was found until"
        " then is kept"
    )
    assert [method["method"] for method in body["generation"]] == ["neuronfair", "adf"][: 1 + after]
    assert body["generation"][0]["idis"] > 0
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
    body = fp.audit_images(
        data.take(data.y == 1), honest(), "gender", faces=8, controls=False
    ).to_dict()
    assert body["detector"]["false_alarms"] is None
    assert body["repair"] is None
    assert "not retrained" in body["messages"][0]


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


# -- words -----------------------------------------------------------------------------------------


def verdict_of(
    body: dict[str, Any],
    found: int,
    shuffled: int | None = None,
    seen: float | None = None,
    loose: int | None = None,
) -> str:
    """The verdict of an audit whose only search found so many of 200, and more loosely; an
    independent network sees such a share.
    """
    method = body["generation"][0]
    control = method["controls"]["shuffled_labels"]

    def counted(pairs: int, loosely: int, part: dict[str, Any]) -> dict[str, Any]:
        rates = [
            {"idis": one, "at_seed": 0, "success": Rate.of(one, 200).to_dict()}
            for one in (pairs, loosely)
        ]
        return part | rates[0] | {"loose": part["loose"] | rates[1], "seen_by_independent": None}

    changed = counted(found, found if loose is None else loose, method) | {
        "seeds": 200,
        "controls": {},
    }
    if seen is not None:
        changed["seen_by_independent"] = Rate.of(round(seen * found), found).to_dict()
    if shuffled is not None:
        changed["controls"] = {"shuffled_labels": counted(shuffled, shuffled, control)}
    return verdict(from_dict(body | {"generation": [changed]}, ImagesDocument))


def test_the_verdict_never_says_more_than_the_controls_allow(body: dict[str, Any]) -> None:
    boundary = "Image IDIs mostly lie near the decision boundary"
    assert boundary in verdict_of(body, 170, 180, 0.11)
    # others see the attribute change, but any change would do
    assert boundary in verdict_of(body, 170, 180, 0.9)
    # only this change does it, but no other network sees the attribute change
    assert boundary in verdict_of(body, 170, 60, 0.11)
    assert "more than nearness to the decision boundary" in verdict_of(body, 170, 60, 0.9)
    counted = verdict_of(body, 60, 10, 0.9, loose=170)
    assert "turns 60 of 200 faces" in counted
    assert "Counted loosely, as in the paper, there are 170" in counted
    assert verdict_of(body, 0, 0, loose=170).startswith(
        "No pair counts: NeuronFair turns 170 of 200"
    )
    assert "Without all controls, such pairs cannot be told apart" in verdict_of(body, 170)
    assert verdict_of(body, 0, 0).startswith("No differing pair was found")
    interrupted = from_dict(body | {"generation": [], "partial": True}, ImagesDocument)
    assert "interrupted before any search" in verdict(interrupted)


def test_a_lower_auc_is_not_praised_where_noise_does_as_much(body: dict[str, Any]) -> None:
    def sentence(auc: float, noise: float) -> str:
        changed = json.loads(json.dumps(body))
        changed["repair"]["without_idis"] |= {"auc": 0.4, "auc_random_signs": 0.2}
        changed["repair"]["after"] |= {"auc": auc, "auc_random_signs": noise}
        return " ".join(sentences(from_dict(changed, ImagesDocument)))

    unspecific = "The AUC fell no further than for noise"
    assert (
        "AUC 0.300 instead of 0.400 (for noise of the same size 0.100 instead of 0.200)"
        in sentence(0.3, 0.1)
    )
    assert unspecific in sentence(0.3, 0.1)  # a quarter less, noise a half
    assert unspecific in sentence(0.3, 0.15)  # both a quarter
    assert unspecific not in sentence(0.2, 0.19)
    assert unspecific not in sentence(0.5, 0.1)  # it did not fall at all
