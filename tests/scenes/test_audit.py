"""The audit of recognizers on scenes, from pictures to the report: planted unfairness is named,
mishaps cost nothing else.
"""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from math import log10
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np
import pytest
from typer.testing import CliRunner

import fairprobe as fp
from fairprobe.cli import app
from fairprobe.errors import DataError, ModelError, SettingError, StorageError
from fairprobe.results import RankTest, encode
from fairprobe.runs.store import verdict_of
from fairprobe.scenes.audit import SceneAudit, _table, audit_scenes
from fairprobe.scenes.collect import MAKING
from fairprobe.scenes.detectors.base import Detection
from fairprobe.scenes.examples import SceneAnswers
from fairprobe.scenes.mutants import read_mutant
from fairprobe.scenes.oracles import Test
from fairprobe.scenes.plan import SceneFacts, Settings, Task, find_usual, plan_tasks
from fairprobe.scenes.quality import ImageQuality, QualityMeasure
from fairprobe.scenes.scene import GivenScenes, Picture, Scene, Scenes
from fairprobe.versions import commit
from papers.__main__ import app as papers_app
from papers.base import Plan
from papers.catalogue import EXPERIMENTS, experiment
from papers.distrofair.answers import evaluate_survey
from papers.distrofair.survey import write_survey
from papers.jobs import Outcome
from papers.page import markdown
from papers.tables import Cell
from tests.scene_runs import scenes_run
from tests.toy_scenes import COLORS, fair, toy_scenes, unfair

pytest.importorskip("cv2")

SCENES = toy_scenes(11)
CLI = CliRunner()
FAST: dict[str, Any] = {"inpainting": "ns"}  # what fills the holes does not matter here
WHOLE = {"classes": ["person", "car"], "repeats": 1, "clusters": 1, "title": "toys", **FAST}


def deleted(scenes: Scenes, detectors: Any, folder: Path, *classes: str, **more: Any) -> SceneAudit:
    """Audit by deletions of these classes alone."""
    wanted = {"classes": list(classes) or None, "mutations": ["delete"], **FAST, **more}
    return audit_scenes(scenes, detectors, folder=folder, **wanted)


def named(label: str) -> Callable[[Picture], list[Detection]]:
    """Make a recognizer that sees one class."""

    def see(image: Picture) -> list[Detection]:
        return [one for one in fair(image) if one.label == label]

    return see


def no_weights(image: Picture) -> list[Detection]:
    raise RuntimeError("no weights")


class _Known:
    """A toy recognizer that says what it is, so that its answers are kept; how often it is asked is
    counted.
    """

    asked: ClassVar = Counter[str]()

    def __init__(self, function: Callable[[Picture], list[Detection]]) -> None:
        self._function, self.__name__, self.identity = function, function.__name__, "toy"

    def __call__(self, image: Picture) -> list[Detection]:
        self.asked[self.__name__] += 1
        return self._function(image)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> SceneAudit:
    """Both recognizers with every mutation."""
    folder = tmp_path_factory.mktemp("scenes")
    both = [_Known(fair), _Known(unfair)]
    done = audit_scenes(SCENES, both, folder=folder, **WHOLE)
    done.save(folder)
    write_survey(done, folder)
    return done


def test_the_planted_class_is_named_and_a_fair_recognizer_is_not(whole: SceneAudit) -> None:
    assert whole.unfair["fair"] == ()
    assert whole.unfair["unfair"] == ("bicycle",)
    assert "unfair fails bicycle more often than other classes" in verdict_of(whole.run)
    lost = next(
        one
        for one in whole.run.results
        if (one.detector, one.operator, one.oracle, one.kind)
        == ("unfair", "all", "exclusion", "ood")
    )
    assert {one.label: one.is_unfair for one in lost.classes}["bicycle"]


def test_the_tests_are_what_the_recognizer_says_of_the_pictures_on_disk(whole: SceneAudit) -> None:
    from PIL import Image

    for test in whole.tests[:: max(1, len(whole.tests) // 12)]:
        with Image.open(whole.evidence.folder / test.image) as image:
            pixels = np.asarray(image.convert("RGB"))
        detect = {"fair": fair, "unfair": unfair}[test.detector]
        assert Counter(one.label for one in detect(pixels)) == test.found
        assert Counter(one.label for one in detect(SCENES.read(test.scene).image)) == test.original
        # The fair recognizer is perfect, so the union adds nothing.
        assert test.truth == SCENES.read(test.scene).counts()


def test_a_perfect_recognizer_counts_what_was_inserted_and_deleted(whole: SceneAudit) -> None:
    own = [test for test in whole.tests if test.detector == "fair"]
    inserted = [test for test in own if test.operator == "insert" and test.kind != "control"]
    deleted = [test for test in own if test.operator == "delete" and test.kind == "ood"]
    assert len(inserted) >= 10
    assert len(deleted) >= 10
    # One that stands before another of its color is one blob with it.
    exact = [test.found[test.label] - test.original[test.label] - test.objects for test in inserted]
    assert max(exact) == 0
    assert exact.count(0) >= 0.8 * len(exact)
    assert all(
        test.found[test.label] == 0 and test.objects == test.original[test.label]
        for test in deleted
    )


def test_a_run_has_its_pages_and_numbers(whole: SceneAudit) -> None:
    folder = whole.evidence.folder
    body = json.loads((folder / "audit.json").read_text())
    assert body == json.loads(json.dumps(whole.to_dict()))
    assert {one["kind"] for one in body["results"]} == {"ood", "control", "id"}
    assert {one["operator"] for one in body["results"]} == {"insert", "delete", "rotate", "all"}
    assert "bicycle" in (folder / "report.html").read_text()
    tables = (folder / "tables.md").read_text()
    assert all(part in tables for part in ("RQ5", "RQ6", "pictures with an error", "Time"))
    rates = [rate for one in whole.document.results for rate in one.classes]
    assert all(rate.images is not None and rate.images <= rate.objects for rate in rates)
    assert any(rate.images for rate in rates)
    with (folder / "tests.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(whole.tests)
    with zipfile.ZipFile(folder / "pairs.zip") as zipped:
        seen = msgspec.json.decode(zipped.read("answers.json"), type=SceneAnswers)
        names = zipped.namelist()
    for test in whole.tests:
        assert seen.sizes[test.scene].picture in names
        for counts, objects in (
            (test.original, seen.originals[test.detector][test.scene]),
            (test.found, seen.mutants[test.detector][test.image]),
        ):
            assert Counter(one.label for one in objects) == +Counter(counts)
    assert body["examples"][0]["mutated"]["src"].startswith("data:image/jpeg;base64,")
    reasons = [(one["operator"], one["label"], one["reason"]) for one in body["skipped"]]
    assert len(set(reasons)) == len(reasons)


def test_the_time_is_that_of_unusual_pictures_as_in_the_paper(whole: SceneAudit) -> None:
    """The paper's Table 9 has as many insertions as its Table 6: no usual ones, no controls."""
    made = Counter(one.task.kind for one in whole.evidence.made.values())
    unusual = Counter[str](
        one.task.operator for one in whole.evidence.made.values() if one.task.kind == "ood"
    )
    assert min(made["id"], made["control"], *unusual.values()) > 0
    counted = {one.operator: one.images for one in whole.document.comparisons.times}
    assert counted == {**unusual, "total": made["ood"]}


def test_a_second_run_paints_and_asks_nothing_again_and_says_the_same(whole: SceneAudit) -> None:
    before = {path: path.stat().st_mtime_ns for path in whole.evidence.folder.rglob("*/*.[jp]*")}
    asked = _Known.asked.copy()
    both = [_Known(fair), _Known(unfair)]
    again = audit_scenes(SCENES, both, folder=whole.evidence.folder, **WHOLE)
    assert [vars(test) for test in again.tests] == [vars(test) for test in whole.tests]
    assert {
        path: path.stat().st_mtime_ns for path in whole.evidence.folder.rglob("*/*.[jp]*")
    } == before
    assert min(asked.values()) >= len(SCENES.names)
    assert _Known.asked == asked


def test_two_processes_paint_the_same_pictures(whole: SceneAudit, tmp_path: Path) -> None:
    done = deleted(SCENES, fair, tmp_path, "person", workers=2)
    for path in (tmp_path / "pictures").rglob("*.png"):
        alone = whole.evidence.folder / path.relative_to(tmp_path)
        assert path.read_bytes() == alone.read_bytes()
    assert done.tests


def test_a_recognizer_that_fails_on_some_pictures_is_judged_on_the_others(tmp_path: Path) -> None:
    def moody(image: Picture) -> list[Detection]:
        found = fair(image)
        if Counter(one.label for one in found)["person"] == 2:
            raise RuntimeError("two people are too many")
        return found

    done = deleted(toy_scenes(8), moody, tmp_path, "car")
    (failure,) = done.document.failures
    assert failure.detector == "moody"
    assert "two people are too many" in failure.reason
    assert done.tests
    assert all(test.original["person"] != 2 for test in done.tests)


def test_a_recognizer_that_never_answers_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no_weights answered for no picture.*no weights"):
        audit_scenes(toy_scenes(3), no_weights, folder=tmp_path)


class _Torn(Scenes):
    """One of three pictures cannot be read."""

    def __init__(self) -> None:
        self._good = toy_scenes(3)
        self.names = (*self._good.names, "torn")

    def read(self, name: str) -> Scene:
        if name == "torn":
            raise DataError("torn.png cannot be read as a picture.")
        return self._good.read(name)


def test_a_picture_that_cannot_be_read_is_named_and_the_others_are_tested(tmp_path: Path) -> None:
    done = deleted(_Torn(), fair, tmp_path, "person")
    assert any("torn.png cannot be read" in message for message in done.document.messages)
    assert {test.scene for test in done.tests} == set(toy_scenes(3).names)


def test_an_interrupt_keeps_what_was_painted_and_the_next_run_goes_on(tmp_path: Path) -> None:
    stopped: list[bool] = []

    def stop(stage: str, done: int, total: int, note: str) -> None:
        if stage == MAKING and done >= total / 2 and not stopped:
            stopped.append(True)
            raise KeyboardInterrupt

    first = deleted(SCENES, fair, tmp_path, "person", progress=stop)
    assert first.run.stopped is not None
    assert any(
        "fair will be queried for all pictures again" in message
        for message in first.document.messages
    )
    assert first.save(tmp_path).exists()
    assert deleted(SCENES, fair, tmp_path, "person").run.stopped is None


def test_classes_that_no_recognizer_names_are_left_out_and_said(tmp_path: Path) -> None:
    done = deleted(toy_scenes(4), named("person"), tmp_path, "car")
    assert any("bicycle, car" in message for message in done.document.messages)
    assert all(set(test.truth) == {"person"} for test in done.tests)


def test_a_background_that_is_not_annotated_is_named_as_a_limit(tmp_path: Path) -> None:
    bare = [replace(one, stuff=np.zeros_like(one.stuff)) for one in toy_scenes(4)]
    for given, said in ((bare, True), (list(toy_scenes(4)), False)):
        done = deleted(GivenScenes(given), fair, tmp_path / str(said))
        assert said == any(
            "background of 4 of 4 scenes is not annotated" in one for one in done.document.messages
        )


# -- what lies in the folder is used again only if it is still right -------------------------------


def _brighter(scene: Scene) -> Scene:
    return replace(scene, image=np.minimum(scene.image, 245) + np.uint8(10))


def _without_one(scene: Scene) -> Scene:
    first = scene.of("person")[0]
    return replace(scene, instances=tuple(one for one in scene.instances if one is not first))


@pytest.mark.parametrize("changed", [_brighter, _without_one])
def test_a_scene_that_has_changed_under_its_name_is_mutated_again(
    changed: Callable[[Scene], Scene], tmp_path: Path
) -> None:
    before = list(toy_scenes(3))
    after = [changed(before[0]), *before[1:]]

    def pictures(scenes: list[Scene], folder: Path) -> dict[str, bytes]:
        done = deleted(GivenScenes(scenes), fair, folder, "person")
        return {name: made.path.read_bytes() for name, made in done.evidence.pictures().items()}

    pictures(before, tmp_path / "again")
    assert pictures(after, tmp_path / "again") == pictures(after, tmp_path / "fresh")


def test_a_kill_between_a_picture_and_its_control_costs_the_control_alone(tmp_path: Path) -> None:
    def audited() -> dict[Path, int]:
        deleted(toy_scenes(2), fair, tmp_path, "person")
        return {path: path.stat().st_mtime_ns for path in (tmp_path / "pictures").rglob("*.png")}

    before = audited()
    lost = next(path for path in before if "control" in path.name)
    picture = lost.read_bytes()
    lost.unlink()
    lost.with_suffix(".json").unlink()
    after = audited()
    assert lost.read_bytes() == picture
    assert {path for path in before if after[path] != before[path]} == {lost}


def test_every_task_has_a_file_of_its_own() -> None:
    tasks = [
        Task("a" * 300, "delete", "собака", "ood", 0),
        Task("a" * 300, "delete", "кошка", "ood", 0),
        Task("a" * 300, "delete", "traffic light", "ood", 0),
        Task("a" * 300, "delete", "traffic_light", "ood", 0),
        Task("a" * 300, "rotate", "car", "ood", 0, usual=(10.0,)),
        Task("a" * 300, "rotate", "car", "ood", 0, usual=(10.0, 90.0)),
        Task("街" * 300, "delete", "car", "ood", 0),
    ]
    assert len({task.file for task in tasks}) == len(tasks)
    assert all(len(part.encode()) <= 250 for task in tasks for part in Path(task.file).parts)


def test_a_picture_that_was_damaged_in_the_folder_is_named(tmp_path: Path) -> None:
    damaged = tmp_path / "picture.png"
    damaged.write_bytes(b"no picture")
    with pytest.raises(StorageError, match=r"picture\.png cannot be read"):
        read_mutant(damaged)


# -- recognizers -----------------------------------------------------------------------------------


def test_a_recognizer_that_never_answers_does_not_stop_the_others(tmp_path: Path) -> None:
    done = deleted(toy_scenes(3), [fair, no_weights], tmp_path, "car")
    assert {test.detector for test in done.tests} == {"fair"}
    assert done.unfair.keys() == {"fair"}
    assert any(
        "no_weights answered for no picture" in message and "no weights" in message
        for message in done.document.messages
    )
    assert done.save(tmp_path).exists()


def test_two_functions_from_one_maker_do_not_get_each_others_answers(tmp_path: Path) -> None:
    done = deleted(toy_scenes(2), [named("car"), named("person")], tmp_path, "bicycle")
    seen = {
        name: {label for counts in done.evidence.counts(name).values() for label in counts}
        for name in done.evidence.originals
    }
    assert seen == {"see": {"car"}, "see #2": {"person"}}


def test_recognizers_with_the_same_identity_are_refused(tmp_path: Path) -> None:
    class Model:
        identity = "of May"

        def __call__(self, image: Picture) -> list[Detection]:
            return fair(image)

    with pytest.raises(
        SettingError,
        match=r"Model and Model #2 have the same identity.*'identity' must have different ones",
    ):
        audit_scenes(SCENES, [Model(), Model()], folder=tmp_path)


def test_a_function_that_has_changed_under_its_name_is_queried_again(tmp_path: Path) -> None:
    blind: list[str] = []

    def see(image: Picture) -> list[Detection]:
        return [one for one in fair(image) if one.label not in blind]

    def bicycles() -> int:
        done = deleted(toy_scenes(2), see, tmp_path, "car")
        return sum(counts["bicycle"] for counts in done.evidence.counts("see").values())

    assert bicycles() == 2
    blind.append("bicycle")
    assert bicycles() == 0


# -- settings and verdicts -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"seed": -1}, "seed must be"),
        ({"seed": 2**32}, "seed must be"),
        ({"clusters": 0}, "at least one cluster"),
        ({"timeout": float("inf")}, "time-out"),
        ({"rate": float("nan")}, "rate of requests"),
        ({"mutations": ["insrt"]}, r"Unknown mutation 'insrt'\. Did you mean 'insert'"),
        ({"detectors": []}, "There is no recognizer"),
        ({"repeats": 0}, "at least 1 repeat"),
        ({"inpainting": "magic"}, "in-painting"),
        (
            {"classes": ["zebra"], "mutations": ["delete"]},
            "No scene has an object of these classes: zebra. There are: bicycle, car, person",
        ),
    ],
)
def test_a_wrong_setting_is_refused_before_any_query(
    wrong: dict[str, Any], message: str, tmp_path: Path
) -> None:
    def never(image: Picture) -> list[Detection]:
        raise AssertionError

    with pytest.raises(SettingError, match=message):
        audit_scenes(toy_scenes(1), **{"detectors": never, "folder": tmp_path, **wrong})


def test_classes_may_be_named_as_others_call_them_and_too_few_objects_are_no_verdict(
    tmp_path: Path,
) -> None:
    twice = {"mutations": ["delete", "delete"], "fewest": 50}
    done = deleted(toy_scenes(2), fair, tmp_path, "Pedestrian", "person", **twice)
    assert {test.label for test in done.tests} == {"person"}
    assert done.document.mutations == ["delete"]
    assert "no class that was not mutated has 50 objects" in verdict_of(done.run)


def test_classes_that_no_recognizer_names_do_not_lower_its_accuracy(tmp_path: Path) -> None:
    def lonely(image: Picture) -> list[Detection]:
        """Never sees a car, always a sign, and no bicycle where nobody is."""
        found = [one for one in fair(image) if one.label != "car"]
        return [
            Detection("sign", 0.9),
            *(found if Counter(one.label for one in found)["person"] else []),
        ]

    done = deleted(toy_scenes(4), lonely, tmp_path, "person", fewest=1)
    (row,) = done.document.comparisons.rq6
    assert (row.pictures, row.reference, row.mutated) == (4, 1.0, 0.0)


# -- the plan --------------------------------------------------------------------------------------


def test_the_paper_s_variant_is_the_paper_s_from_painting_to_judging(tmp_path: Path) -> None:
    wanted = {**WHOLE, "classes": ["person"], "mutations": ["insert"], "variant": "paper"}
    done = audit_scenes(toy_scenes(3), fair, folder=tmp_path, **wanted)
    assert done.tests
    assert all(test.as_printed for test in done.tests)
    assert done.document.settings["variant"] == "paper"


def test_pictures_are_clustered_by_the_classes_that_were_named() -> None:
    facts = {str(at): SceneFacts(Counter(car=1, chair=9 * (at % 2)), {}) for at in range(6)}
    seen = {"d": {name: one.counts for name, one in facts.items()}}
    usual, other, every = (
        find_usual(facts, seen, Settings(clusters=2, cluster_by=by))
        for by in (None, ("chair",), ("all",))
    )
    assert set(usual.members.values()) == {0}  # chairs are not among the classes of roads
    assert other.members == every.members
    assert set(every.members.values()) == {0, 1}


def test_insertions_go_beyond_the_clusters_most_and_the_baseline_stays_within() -> None:
    facts = {f"s{at}": SceneFacts(Counter(car=count), {}) for at, count in enumerate((0, 1, 3))}
    seen = {"one": {name: one.counts for name, one in facts.items()}}
    settings = Settings(mutations=("insert",), classes=("car",), repeats=2, clusters=1)
    plan = plan_tasks(facts, seen, settings, find_usual(facts, seen, settings))["one"]
    unusual = {task.scene: task.objects for task in plan if task.kind == "ood"}
    assert unusual == {"s0": 4, "s1": 3, "s2": 1}  # each ends with four, one more than any
    usual = [task for task in plan if task.kind == "id"]
    assert all(1 <= task.objects <= 3 - facts[task.scene].counts["car"] for task in usual)
    assert "s2" not in {task.scene for task in usual}  # it has the most already


def test_names_of_pictures_cannot_leave_the_folder_or_meet() -> None:
    names = ["../../etc/passwd", "a/b", "a_b", "a b", "..", ""]
    files = {Task(name, "delete", "traffic light", "ood", 0).file for name in names}
    assert len(files) == len(names)
    assert all(
        ".." not in Path(file).parts and not Path(file).is_absolute() and len(Path(file).parts) == 2
        for file in files
    )


# -- people ----------------------------------------------------------------------------------------


def test_exported_mutants_are_annotated_as_they_are_now(whole: SceneAudit, tmp_path: Path) -> None:
    """Counts follow the mutation, and the masks lie on pixels of the class's color."""
    path = whole.export_coco(tmp_path / "export")
    exported = fp.scenes.open_scenes(path.parent / "images", path)
    files = {one.path: one.task for one in whole.evidence.made.values()}
    tasks = {task.file.replace("/", "-"): task for task in files.values() if task.kind == "ood"}
    assert len(exported) == len(tasks)
    for scene in exported:
        task = tasks[f"{scene.name.removesuffix('.png')}.png"]
        change = {"insert": task.objects, "rotate": 0}
        before, after = SCENES.read(task.scene).counts()[task.label], scene.counts()[task.label]
        assert after == (0 if task.operator == "delete" else before + change[task.operator])
        for one in scene.instances:
            strongest = int(np.argmax(COLORS[one.label]))
            colors = scene.image[one.whole(scene.size)].astype(np.int64)
            is_right = colors[:, strongest] > np.delete(colors, strongest, axis=1).max(axis=1) + 60
            assert is_right.mean() > 0.8
    with pytest.raises(SettingError, match="holds an export"):
        whole.export_coco(tmp_path / "export")


def test_scenes_are_drawn_among_those_with_a_class() -> None:
    few = [replace(scene, name=f"few {scene.name}", instances=()) for scene in toy_scenes(4)]
    scenes = GivenScenes([*toy_scenes(8), *few])
    drawn = {
        seed: fp.scenes.sample_scenes(GivenScenes([*scenes]), limit=3, containing="Car", seed=seed)
        for seed in (0, 0, 1)
    }
    assert all(len(one) == 3 and "few" not in "".join(one.names) for one in drawn.values())
    assert drawn[0].names != drawn[1].names
    assert drawn[0].messages == (
        "Of 12 scenes, 3 with an object of class car were drawn (seed 0).",
    )
    every = fp.scenes.sample_scenes(GivenScenes([*scenes]), containing="car")
    assert every.names == scenes.names[:8]
    short = fp.scenes.sample_scenes(GivenScenes([*scenes]), limit=9, containing="car")
    assert "fewer than 9" in short.messages[0]
    with pytest.raises(DataError, match="None of the 12 scenes"):
        fp.scenes.sample_scenes(scenes, containing="tram")
    assert fp.scenes.sample_scenes(scenes) is scenes


def test_a_survey_is_written_answered_and_evaluated(whole: SceneAudit, tmp_path: Path) -> None:
    folder = whole.evidence.folder
    key = json.loads((folder / "survey.json").read_text())["pictures"]
    page = (folder / "survey.html").read_text()
    # Nothing says which are mutated.
    assert not any(one["image"] in page for one in key if one["operator"] != "real")
    answers = tmp_path / "answers.csv"
    with answers.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("participant", "picture", "realism", "likelihood", "vehicles"))
        for one in key:
            writer.writerow(
                ("anna", one["name"], 8 if one["operator"] == "real" else 6, 9, one["vehicles"])
            )
    total = next(row for row in evaluate_survey(folder, [answers]).rows if row.name == "total")
    assert (total.realism["real"].mean, total.realism["mutated"].mean) == (8, 6)
    result = CLI.invoke(papers_app, ["survey", str(folder), str(answers)])
    assert result.exit_code == 0, result.output
    assert "1 of 1 participants" in result.output


def test_the_paper_s_tables_are_made_from_a_run(whole: SceneAudit, tmp_path: Path) -> None:
    """Totals are sums of the settings; what the paper has and the run has not stands beside."""
    folder = whole.evidence.folder
    plan, nothing = Plan(runs=(f"toys={folder}",)), Outcome({}, {}, {})

    def cells(name: str) -> dict[tuple[str, ...], Cell]:
        document = EXPERIMENTS[f"distrofair-{name}"].table(plan, nothing)
        assert markdown(document).startswith("# DistroFair")
        assert f"({len(SCENES)} scenes of toys, 2 recognizers, 1 repeat, seed 0" in document.title
        assert document.title.endswith(f", commit {commit()})" if commit() else ")")
        return {
            (one.dataset, one.sensitive, one.method, one.variant, one.measure): one
            for one in document.cells
        }

    six, seven = cells("table6"), cells("table7")
    for found, oracles in ((six, ["gt"]), (seven, ["exclusion", "inclusion"])):
        for oracle in oracles:
            own = [
                one
                for one in whole.document.results
                if (one.kind, one.oracle) == ("ood", oracle) and one.operator != "all"
            ]
            total = {
                key: found[
                    "all data sets",
                    "all mutations",
                    "all recognizers",
                    oracle.removeprefix("gt"),
                    key,
                ]
                for key in ("classes", "violations", "error_inducing", "tests", "error_rate")
            }
            assert total["classes"].mean == sum(len(one.classes) for one in own)
            assert total["violations"].mean == sum(len(one.violations) for one in own)
            errors, tests = sum(one.error_inducing for one in own), sum(one.tests for one in own)
            assert (total["error_inducing"].mean, total["tests"].mean) == (errors, tests)
            assert total["error_rate"].mean == pytest.approx(errors / tests)
            assert total["error_rate"].ratio("mean") is not None
    assert six["all data sets", "all mutations", "all recognizers", "", "classes"].paper == 451
    google = six["coco", "insert", "google", "", "violations"]
    assert (google.mean, google.paper, google.failed) == (None, 16, "–")
    single = six["toys", "insert", "unfair", "", "error_rate"]
    assert single.ends[0] is not None
    eight = cells("table8")
    gain = eight["all data sets", "exclusion", "all recognizers", "", "error_gain"]
    assert gain.paper == pytest.approx(1.3148)
    each = cells("table9")["all data sets", "all mutations", "distrofair", "", "seconds_each"]
    assert each.paper == pytest.approx(140205 / 18186)
    twelve = cells("table12")
    assert twelve["cityscapes", "", "all recognizers", "", "kept"].paper == pytest.approx(0.758)
    assert twelve["toys", "", "unfair", "", "kept"].mean is not None
    assert cells("table3")["toys", "", "pictures", "", "images"].mean == len(SCENES)
    assert cells("table11")
    four = cells("table4")
    assert four["all data sets", "", "fair", "", "labels"].mean == len(COLORS)
    assert four["all data sets", "", "google", "", "labels"].paper == 9000
    three = cells("figure3")
    part = {
        key: three["all data sets", "", "all recognizers", "a", key]
        for key in ("gt", "mt", "both", "either", "both_share", "only_gt", "only_mt")
    }
    gt, mt, both, either = (part[key].mean or 0 for key in ("gt", "mt", "both", "either"))
    assert either == gt + mt - both > 0
    shares = [part[key].mean for key in ("both_share", "only_gt", "only_mt")]
    assert shares == pytest.approx([both / either, (gt - both) / either, (mt - both) / either])
    assert [part[key].paper for key in ("either", "both_share")] == [103, 0.67]
    alone = three["all data sets", "", "all recognizers", "b", "alone"]
    assert (alone.paper, alone.mean is not None) == (51, True)
    hour = cells("table9")["all data sets", "all mutations", "distrofair", "", "per_hour"]
    assert hour.paper == 460
    assert hour.mean == pytest.approx(3600 / (each.mean or 0))
    ranks = cells("tests")
    test = whole.document.comparisons.ood_vs_id["unfair"]
    power = pytest.approx(log10(test.p_value or 1))
    assert ranks["toys", "usual", "unfair", "", "u"].mean == test.statistic
    assert ranks["toys", "usual", "unfair", "", "log_p"].mean == power
    assert ranks["all data sets", "clip", "all recognizers", "", "u"].paper == 448.5
    only = cells("figure2")["all data sets", "", "all recognizers", "", "only_mutants"]
    assert only.paper == pytest.approx(0.218)
    names = " ".join(EXPERIMENTS["distrofair-figure2"].table(plan, nothing).notes)
    assert "unfair on toys: below the mean only in unusual pictures: bicycle" in names
    with pytest.raises(SettingError, match="both test"):
        EXPERIMENTS["distrofair-table6"].table(Plan(runs=plan.runs * 2), nothing)
    with pytest.raises(SettingError, match="Name their folders"):
        experiment("distrofair-table6", tmp_path)
    with pytest.raises(SettingError, match="not made from runs"):
        experiment("neuronfair-table4", tmp_path, runs=plan.runs)
    paths = experiment("distrofair-table6", tmp_path, runs=plan.runs).paths
    assert {path.name for path in paths} >= {"distrofair-table6.md", "distrofair-table6.csv"}


def test_what_people_and_clip_say_stands_beside_the_paper_s_tests(
    whole: SceneAudit, tmp_path: Path
) -> None:
    test = RankTest(
        first=30,
        second=30,
        first_mean=0.7,
        second_mean=0.6,
        statistic=500.0,
        p_value=0.1,
        superiority=0.55,
    )
    measure = QualityMeasure(
        name="clip_realism", original=0.7, mutated=0.6, operators={}, test=test
    )
    found = msgspec.structs.replace(
        whole.document.comparisons, quality=ImageQuality(pictures=30, measures=[measure])
    )
    document = msgspec.structs.replace(whole.document, comparisons=found)
    (tmp_path / "audit.json").write_bytes(encode(document))
    key = (whole.evidence.folder / "survey.json").read_text()
    (tmp_path / "survey.json").write_text(key)
    (tmp_path / "answers").mkdir()
    lines = ["participant,picture,realism,likelihood,vehicles"]
    for one in json.loads(key)["pictures"]:
        score = 8 if one["operator"] == "real" else 2
        lines.append(f"anna,{one['name']},{score},9,{one['vehicles']}")
    (tmp_path / "answers" / "anna.csv").write_text("\n".join(lines))
    table = EXPERIMENTS["distrofair-tests"].table(
        Plan(runs=(f"toys={tmp_path}",)), Outcome({}, {}, {})
    )
    rows = {(one.sensitive, one.measure): one for one in table.cells if one.dataset != "toys"}
    clip = {key: rows["clip", key] for key in ("mutated", "other", "u", "log_p")}
    assert [one.mean for one in clip.values()] == [0.6, 0.7, 500, -1]
    assert [one.paper for one in clip.values()][:3] == [0.696, 0.695, 448.5]
    assert (rows["people", "mutated"].mean, rows["people", "other"].mean) == (2, 8)
    assert rows["people", "u"].paper == 3791661.5


def test_surveys_are_mixed_and_make_the_paper_s_tables(whole: SceneAudit, tmp_path: Path) -> None:
    folder, study = whole.evidence.folder, tmp_path / "study"
    result = CLI.invoke(
        papers_app,
        ["mix-surveys", f"coco={folder}", f"bremen={folder}", "--mix", "coco=4,bremen=2",
         "--each", "2", "--out", str(study)],
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    key = json.loads((study / "survey.json").read_text())["pictures"]
    assert Counter(one["dataset"] for one in key) == {"coco": 8, "bremen": 4}
    assert all((study / "survey" / f"{one['name']}.jpg").exists() for one in key)
    plan, nothing = Plan(runs=(str(study),)), Outcome({}, {}, {})
    with pytest.raises(DataError, match="no answers"):
        EXPERIMENTS["distrofair-table10"].table(plan, nothing)
    (study / "answers").mkdir()
    with (study / "answers" / "anna.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("participant", "picture", "realism", "likelihood", "vehicles"))
        for one in key:
            score = 8 if one["operator"] == "real" else 2
            writer.writerow(("anna", one["name"], score, 9, one["vehicles"]))
    five, ten, four = (
        EXPERIMENTS[f"distrofair-{name}"].table(plan, nothing)
        for name in ("table5", "table10", "figure4")
    )
    assert five.title.endswith("user study (12 pictures)")
    shown = {(one.dataset, one.sensitive, one.method): one for one in five.cells}
    assert shown["all data sets", "all mutations", "every"].mean == 6
    assert shown["coco", "real", "every"].paper == 20
    rated = {(one.dataset, one.sensitive, one.method, one.measure): one for one in ten.cells}
    every = ("all data sets", "all mutations", "every")
    assert rated[*every, "realism"].mean == 2
    assert rated[*every, "realism_ratio"].mean == pytest.approx(0.25)
    assert rated[*every, "realism_ratio"].paper == pytest.approx(0.804)
    (bars,) = four.figures
    assert bars.numbers is not None
    heights = {row[0]: list(row[1:]) for row in bars.numbers.rows}
    assert (heights["8"], heights["2"], heights["0"]) == (["6", "0"], ["0", "6"], ["0", "0"])
    wrong = CLI.invoke(
        papers_app, ["mix-surveys", str(folder), "--mix", "x=1", "--out", str(study)]
    )
    assert wrong.exit_code == 2
    assert "No run has the name" in wrong.output


# -- the command line ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Name a recognizer to test"),
        (["--detector", "my.py:detect"], "give --annotations, or --segmenter"),
        (["--detector", "nothing", "--annotations", "pictures"], "Unknown detector"),
        (["--detector", "gone.onnx", "--annotations", "."], "gone.onnx"),
        (["--detector", "my.py:detect", "--annotations", ".", "--segmenter", "x"], "not both"),
    ],
)
def test_a_mistake_is_a_sentence_and_exit_code_2(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pictures").mkdir()
    (tmp_path / "my.py").write_text("def detect(image):\n    return []\n")
    result = CLI.invoke(app, ["audit-scenes", "pictures", *words])
    assert result.exit_code == 2, result.output
    assert message in " ".join(result.output.split())
    assert "Traceback" not in result.output


def test_a_finished_run_is_replaced_only_on_request(whole: SceneAudit) -> None:
    result = CLI.invoke(app, ["audit-scenes", "demo", "--out", str(whole.evidence.folder)])
    assert result.exit_code == 2
    assert "--overwrite" in result.output


def test_an_interrupted_run_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    for stopped, message in (("Interrupted.", "Name a recognizer"), (None, "finished run")):
        (tmp_path / "run" / "audit.json").write_bytes(encode(scenes_run(stopped=stopped)))
        result = CLI.invoke(app, ["audit-scenes", "pictures", "--out", "run"])
        assert message in " ".join(result.output.split())


@pytest.mark.parametrize("option", ["--annotations", "--segmenter", "--kind", "--names"])
def test_the_demo_takes_no_other_annotations(option: str, tmp_path: Path) -> None:
    result = CLI.invoke(
        app, ["audit-scenes", "demo", option, "coco", "--out", str(tmp_path / "run")]
    )
    assert result.exit_code == 2
    assert "brings its own pictures and annotations" in " ".join(result.output.split())


def test_a_name_that_the_package_does_not_have_lists_those_it_has() -> None:
    with pytest.raises(AttributeError, match="It has: LAYOUTS, Detection"):
        fp.scenes.nothing  # noqa: B018


def test_names_that_a_spreadsheet_would_take_for_formulas_are_texts_in_the_table_of_tests() -> None:
    hostile = Test(
        scene="=cmd|' /C calc'!A0",
        detector="+1",
        operator="insert",
        label="@SUM(A1)",
        kind="ood",
        repeat=-1,
        image="-2",
        original=Counter({"=1": 1}),
        found=Counter(),
        truth=Counter(),
    )
    _, row = csv.reader(io.StringIO(_table([hostile], {})))
    assert row[:4] == ["'+1", "'=cmd|' /C calc'!A0", "insert", "'@SUM(A1)"]
    assert row[5] == "-1"  # a number stays one
    assert row[7] == "'-2"
    assert row[8] == '{"=1": 1}'
