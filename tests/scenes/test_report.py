"""The run of an audit on scenes and its report: complete, honest about chance, and strict."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fairprobe.errors import StorageError
from fairprobe.report.html import page
from fairprobe.report.markdown import markdown
from fairprobe.results import encode, to_dict
from fairprobe.runs.store import read_run
from fairprobe.scenes.comparison_tables import p_value, share
from fairprobe.scenes.comparisons import Comparisons
from fairprobe.scenes.detectors.base import Detection
from fairprobe.scenes.examples import Example, example_pictures
from fairprobe.scenes.report import report
from tests.scene_runs import analysis, example, scenes_run

Body = dict[str, Any]


# -- the run ---------------------------------------------------------------------------------------


def test_a_run_comes_back_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "audit.json").write_bytes(encode(scenes_run()))
    assert read_run(tmp_path) == scenes_run()


def first_class(body: Body) -> Body:
    row: Body = body["results"][0]["classes"][0]
    return row


@pytest.mark.parametrize(
    ("change", "fragment"),
    [
        (lambda body: body.update(confidence=-1), r"\$\.confidence"),
        (lambda body: body.update(seconds="fast"), r"\$\.seconds"),
        (lambda body: body.update(surprise=1), "surprise"),
        (lambda body: body.pop("results"), "results"),
        (lambda body: body.update(mutations=["explode"]), r"\$\.mutations\[0\]"),
        (lambda body: body["results"][0].update(error_rate=1.5), r"\$\.results\[0\]\.error_rate"),
        (lambda body: body["results"][0].update(error_low=0.9), "is reversed"),
        (lambda body: body["results"][0].update(error_inducing=999), "999 of 123 tests"),
        (lambda body: first_class(body).update(low=0.5), "does not contain the estimate"),
        (lambda body: first_class(body).update(p_adjusted=0.001), "above its adjusted"),
        (lambda body: first_class(body).update(rate=float("nan")), r"is not an audit|is damaged"),
        (lambda body: body["comparisons"]["causes"][0].update(low=1.0), "does not contain"),
        (
            lambda body: body["examples"][0]["original"]["detections"][0].update(box=[1, 2]),
            r"\$\.examples\[0\]\.original\.detections\[0\]\.box",
        ),
        (lambda body: body["examples"][0]["original"].update(width=0), r"original\.width"),
        (lambda body: body["examples"][0]["original"].update(src=7), r"original\.src"),
        (lambda body: body.update(format=3), "another version"),
    ],
)
def test_an_impossible_run_is_rejected_where_it_is_wrong(
    change: Callable[[Body], object], fragment: str, tmp_path: Path
) -> None:
    body = to_dict(scenes_run())
    change(body)
    (tmp_path / "audit.json").write_text(json.dumps(body))
    with pytest.raises(StorageError, match=fragment):
        read_run(tmp_path)


# -- the report ------------------------------------------------------------------------------------


def test_the_report_contains_everything_that_was_measured(
    golden: Callable[[str, str], None],
) -> None:
    tree = report(scenes_run())
    golden("scenes.md", markdown(tree, levels=("summary", "report", "appendix")))


EMPTY: Body = {
    "results": [],
    "comparisons": Comparisons(),
    "examples": [],
    "skipped": [],
    "failures": [],
    "messages": [],
    "stopped": "Interrupted while making mutants.",
    "settings": {},
    "classes": [],
}


def fair() -> list[Any]:
    """The same results without a class that fails more."""
    return [
        replace(
            result,
            unfair=(),
            classes=tuple(replace(row, is_unfair=False) for row in result.classes),
        )
        for result in scenes_run().results
    ]


@pytest.mark.parametrize(
    ("changes", "fragments"),
    [
        (
            {"results": [one for one in scenes_run().results if one.kind == "ood"]},
            ["There is no in-painting control here"],
        ),
        (
            {"results": fair()},
            ["No class was shown to fail more than the others", "“bicycle” at Argus: perhaps by"],
        ),
        (EMPTY, ["Interrupted while making mutants.", "no mutated picture was made and answered"]),
        ({"results": [analysis("delete", "exclusion")]}, ["Lost objects, deletion"]),
        (
            {"results": [replace(analysis("all", "gt"), classes=(), unfair=())]},
            ["no class that was not mutated has 10 objects or more"],
        ),
    ],
)
def test_runs_with_less_in_them_are_shown_too(changes: Body, fragments: list[str]) -> None:
    tree = report(scenes_run(**changes))
    text = markdown(tree)
    for fragment in fragments:
        assert fragment in text
    assert "<!doctype html>" in page(tree)


def test_rates_may_be_negative_or_more_than_all() -> None:
    shares = [share(value) for value in (0.31, -0.05, 1.634, -1e-12, None)]
    assert shares == ["31.0\xa0%", "−5.0\xa0%", "163.4\xa0%", "0\xa0%", "–"]
    values = [p_value(value) for value in (None, 1e-46, 0.0134, 0.48)]
    assert values == ["–", "<\xa00.001", "0.013", "0.48"]


# -- pictures --------------------------------------------------------------------------------------


def with_detections(before: list[Detection], after: list[Detection]) -> Example:
    plain = example()
    return replace(
        plain,
        original=replace(plain.original, detections=before),
        mutated=replace(plain.mutated, detections=after),
    )


def test_lost_new_and_expected_detections_are_distinguished() -> None:
    before, after = example_pictures(example())
    assert [(box.label, box.kind) for box in before.boxes] == [
        ("bicycle 0.81", "same"),
        ("bicycle 0.62", "lost"),
        ("car 0.50", "mutated"),
    ]
    assert [(box.label, box.kind) for box in after.boxes] == [
        ("bicycle 0.80", "same"),
        ("sign 0.40", "new"),
        ("bicycle: lost", "lost"),
    ]
    box = before.boxes[0]
    sides = (box.left, box.top, box.width, box.height)
    assert sides == pytest.approx((10 / 480, 100 / 360, 40 / 480, 100 / 360))
    assert before.caption.replace("\xa0", " ") == "Recognized: 2 × bicycle and 1 × car."
    assert (
        after.alt.replace("\xa0", " ")
        == "Mutated picture of street 7. Recognized: 1 × bicycle and 1 × sign. Lost: 1 × bicycle."
    )


@pytest.mark.parametrize(("shift", "kind"), [(0, "same"), (33, "same"), (34, "lost")])
def test_boxes_are_the_same_object_if_half_of_their_union_is_shared(shift: int, kind: str) -> None:
    """100 wide, moved by s: (100 − s) / (100 + s) is ½ at s = 33⅓."""
    moved = with_detections(
        [Detection("bicycle", 0.5, (0, 0, 100, 50))],
        [Detection("bicycle", 0.5, (shift, 0, 100 + shift, 50))],
    )
    assert example_pictures(moved)[0].boxes[0].kind == kind


def test_detections_without_boxes_are_listed_in_the_caption_only() -> None:
    bicycle = Detection("bicycle", 0.5)
    before, after = example_pictures(with_detections([bicycle, bicycle], [bicycle]))
    assert [*before.boxes, *after.boxes] == []
    assert "Lost: 1\xa0×\xa0bicycle" in after.caption
