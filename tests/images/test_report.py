"""The run of an audit on pictures and its report: complete, honest about its controls, and safe."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fairprobe.errors import StorageError
from fairprobe.images.report import report
from fairprobe.images.run import ImagesRun
from fairprobe.report.html import page
from fairprobe.report.markdown import markdown
from fairprobe.report.sections import Level
from fairprobe.results import Rate, encode, from_dict, to_dict
from fairprobe.runs.store import read_run
from tests.image_runs import found, images_run, layer, png, search, state, with_texts
from tests.present.test_report import EVIL, Page

LEVELS: tuple[Level, ...] = ("summary", "report", "appendix")
Body = dict[str, Any]


def text_of(run: ImagesRun) -> str:
    """The whole report, with plain spaces."""
    return markdown(report(run), levels=LEVELS).replace("\N{NO-BREAK SPACE}", " ")


# -- the run ---------------------------------------------------------------------------------------


def test_a_run_comes_back_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "audit.json").write_bytes(encode(images_run()))
    assert read_run(tmp_path) == images_run()


def best(body: Body) -> Body:
    own: Body = body["generation"][0]["found"]["own"]
    return own


@pytest.mark.parametrize(
    ("change", "fragment"),
    [
        (lambda body: body.update(format=3), "another version"),
        (lambda body: body.update(surprise=1), "surprise"),
        (lambda body: body.pop("detector"), "detector"),
        (lambda body: body["interpretation"].update(most_biased="no"), "not among the layers"),
        (lambda body: body["interpretation"].update(thresholds=[0.0]), "number of points"),
        (lambda body: body["pairs"][0]["pictures"].pop("bias"), "lacks a picture"),
        (lambda body: body["pairs"][0]["pictures"].update({"with": "x.png"}), r"pictures"),
        (lambda body: best(body).update(loose=best(body)["strict"] | {
            "success": to_dict(Rate.of(9, 247))}), "215 pairs count strictly, but only 9 loosely"),
        (lambda body: best(body)["loose"].update(success=to_dict(Rate.of(290, 300))),
         "different numbers of faces"),
        (lambda body: best(body)["strict"].update(at_seed=to_dict(Rate.of(2, 247))),
         "2 pairs before any step count strictly"),
        (lambda body: best(body).update(seen_by_independent=to_dict(Rate.of(1, 7))),
         "7 pairs were shown to others, but 215 count"),
        (lambda body: body["repair"]["after"]["differing"].update(
            loose=to_dict(Rate.of(1, 420))), "18 of 420 pairs count strictly, but only 1 of 420"),
        (lambda body: body["repair"]["after"]["l2"].update(low=1.0), "does not contain"),
    ],
)  # fmt: skip
def test_an_impossible_run_is_rejected_where_it_is_wrong(
    change: Callable[[Body], object], fragment: str, tmp_path: Path
) -> None:
    body = to_dict(images_run())
    change(body)
    (tmp_path / "audit.json").write_text(json.dumps(body))
    with pytest.raises(StorageError, match=fragment):
        read_run(tmp_path)


# -- the report ------------------------------------------------------------------------------------


def test_the_report_contains_everything_that_was_measured(
    golden: Callable[[str, str], None],
) -> None:
    golden("images.md", markdown(report(images_run()), levels=LEVELS))
    html = page(report(images_run()))
    assert html.count(f"data:image/png;base64,{png()}") == 5
    assert "pixelated" in html


def test_texts_of_the_run_stay_texts() -> None:
    body = with_texts(to_dict(images_run()), lambda text: f"{text} {EVIL}")
    body["interpretation"]["most_biased"] = body["interpretation"]["layers"][0]["name"]
    evil, plain = (Page(page(report(run))) for run in (from_dict(body, ImagesRun), images_run()))
    assert Counter(evil.tags) == Counter(plain.tags)
    assert "alert(1)" in evil.text
    assert evil.open == []


BOUNDARY = "Image IDIs mostly lie near the decision boundary"
HEADLINES = {
    "same": "Verdicts change, but as often with a change that is not about gender",
    "unseen": "Verdicts change, but mostly where no other network sees gender change",
    "found": "Verdicts that change with gender were found",
    "head": "Verdicts change, but nowhere where the attribute head sees gender change",
    "none": "No verdict that changes with gender was found",
}


@pytest.mark.parametrize(
    ("own", "shuffled", "headline", "sentence"),
    [
        (found(200, seen=22), found(207), "same", BOUNDARY),
        # others see the attribute change, but any change would do
        (found(200, seen=180), found(207), "same", BOUNDARY),
        # only this change does it, but no other network sees the attribute change
        (found(200, seen=22), found(60), "unseen", BOUNDARY),
        (found(200, seen=180), found(60), "found", "more than nearness to the decision boundary"),
        (found(60, 170, seen=50), found(10), "found", "turns 60 of 247 faces"),
        (found(60, 170, seen=50), found(10), "found", "loosely, as in the paper, there are 170"),
        (found(170), None, "found", "Without all controls, such pairs cannot be told apart"),
        (found(0, 170), found(0), "head", "No pair counts: NeuronFair turns 170 of 247 faces"),
        (found(0), found(0), "none", "No differing pair was found"),
    ],
)
def test_the_verdict_says_no_more_than_the_controls_allow(
    own: Any, shuffled: Any, headline: str, sentence: str
) -> None:
    one = search("neuronfair", "NeuronFair", own, shuffled)
    verdict = next(report(images_run(generation=[one])).verdicts)
    assert verdict.headline == HEADLINES[headline]
    assert sentence in verdict.text


@pytest.mark.parametrize(
    ("auc", "noise", "is_unspecific"),
    [(0.3, 0.1, True), (0.3, 0.15, True), (0.2, 0.19, False), (0.5, 0.1, False)],
)
def test_a_lower_auc_is_not_praised_where_noise_does_as_much(
    auc: float, noise: float, is_unspecific: bool
) -> None:
    repair = images_run().repair
    assert repair is not None
    repair = replace(repair, without_idis=state(44, 0.4, 0.2), after=state(18, auc, noise))
    text = text_of(images_run(repair=repair))
    assert ("The AUC fell no further than for noise" in text) == is_unspecific


def test_the_report_has_the_settings_that_a_variant_changed() -> None:
    assert "Small steps of equal length from each face" in text_of(images_run())
    search_settings = {"max_iter": 40, "gradient": "plain"}
    settings = {"step": 0.15, "iterations": 20, "search_settings": search_settings}
    text = text_of(images_run(settings=settings))
    assert "**iterations**: 40" in text
    assert "Steps along the gradient as it is, long where it is steep, from each face" in text


def test_a_classifier_is_not_called_a_detector() -> None:
    run = images_run()
    groups = run.detector.quality.by_value
    quality = replace(
        run.detector.quality, by_class={"smiling": groups, "serious": groups}, false_alarms=None
    )
    detector = replace(run.detector, name="smiles.onnx", quality=quality)
    text = text_of(replace(run, detector=detector, data=replace(run.data, classes=["yes", "no"])))
    for expected in (
        "**Classifier**: smiles.onnx",
        "the classifier’s own head",
        "Inside the classifier",
        "that the classifier judges differently",
        "“smiling” recognized, Female",
    ):
        assert expected in text
    assert "detector" not in text.lower()
    assert "faces found" not in text


def without_controls() -> ImagesRun:
    run = images_run(generation=[search("adf", "ADF", found(7))])
    assert run.repair is not None
    flips = replace(run.change.flips, controls={})
    return replace(
        run,
        change=replace(run.change, flips=flips),
        attribute=replace(run.attribute, independent=None),
        repair=replace(run.repair, without_idis=None),
    )


def with_repair(**changes: Any) -> ImagesRun:
    repair = images_run().repair
    assert repair is not None
    return images_run(repair=replace(repair, **changes))


def without_pairs() -> ImagesRun:
    none = Rate.of(0, 0)
    after = state(18)
    return with_repair(after=replace(after, differing=replace(after.differing, strict=none)))


def many_layers() -> ImagesRun:
    inside = images_run().interpretation
    assert inside is not None
    layers = [*inside.layers, *(layer(f"conv{number}", number / 1e4) for number in range(20))]
    return images_run(interpretation=replace(inside, layers=layers))


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (
            images_run(
                interpretation=None, repair=None, generation=[], pairs=[], stopped="It ended."
            ),
            "The audit was interrupted before any search began",
        ),
        (
            images_run(generation=[], repair=None, pairs=[]),
            "Nothing to search: no face’s gender could be flipped",
        ),
        (without_controls(), "Without all controls"),
        (without_controls(), "No control was run."),
        (without_controls(), "it is unknown how much of the change comes from more training"),
        (with_repair(after=None), "The audit ended before the repair was measured."),
        (without_pairs(), "No held-out pair is left that could be compared."),
        (many_layers(), "conv19"),
    ],
)
def test_a_run_with_less_or_more_in_it_is_reported_too(run: ImagesRun, message: str) -> None:
    assert message in text_of(run)
    assert Page(page(report(run))).open == []
