"""`fairprobe audit-scenes` as it is called: what it prints, how it ends, and what it says when
nothing could be judged.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from fairprobe.cli import app
from fairprobe.errors import DataError, SettingError, StorageError
from fairprobe.report.markdown import markdown
from fairprobe.runs.store import verdict_of
from fairprobe.scenes import LAYOUTS
from fairprobe.scenes.audit import MEASURING, ScenesRun, audit_scenes
from fairprobe.scenes.cutouts import cutouts_in
from fairprobe.scenes.detectors import FORMS
from fairprobe.scenes.detectors.base import Detection
from fairprobe.scenes.report import report
from fairprobe.scenes.scene import Picture
from tests.toy_scenes import fair, toy_scenes

pytest.importorskip("cv2")

CLI = CliRunner()
NUMBERS = {"road": 1, "sky": 2, "person": 3, "car": 4, "bicycle": 5}
FAST: dict[str, Any] = {"inpainting": "ns"}
DETECTORS = """
from tests.toy_scenes import fair

def blind(image):
    return []

def tires(image, asked=[]):
    asked.append(1)
    if len(asked) > 2:
        raise RuntimeError("tired")
    return fair(image)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two toy streets with class masks, and recognizers in a file."""
    folder = tmp_path_factory.mktemp("toys")
    for name in ("pictures", "masks"):
        (folder / name).mkdir()
    for scene in toy_scenes(2):
        mask = np.where(scene.stuff == 1, NUMBERS["road"], NUMBERS["sky"]).astype(np.uint8)
        for one in scene.instances:
            left, top, right, bottom = one.box
            mask[top:bottom, left:right][one.mask] = NUMBERS[one.label]
        Image.fromarray(scene.image).save(folder / "pictures" / f"{scene.name}.png")
        Image.fromarray(mask).save(folder / "masks" / f"{scene.name}.png")
    (folder / "names.json").write_text(
        json.dumps({str(number): name for name, number in NUMBERS.items()})
    )
    (folder / "toys.py").write_text(DETECTORS)
    return folder


def called(folder: Path, out: Path, *words: str) -> Result:
    given = [
        "--annotations",
        str(folder / "masks"),
        "--names",
        str(folder / "names.json"),
        "--out",
        str(out),
    ]
    usual = ["--mutations", "delete", "--classes", "person", "--set", "inpainting=ns"]
    return CLI.invoke(app, ["audit-scenes", str(folder / "pictures"), *given, *usual, *words])


@pytest.mark.parametrize(
    ("detector", "reason"),
    [
        ("blind", "no class that was not mutated has 10 objects or more"),
        ("tires", "no mutated picture was made and answered"),
    ],
)
def test_a_run_that_could_judge_nothing_ends_with_exit_code_3_and_says_that_nothing_was_shown(
    detector: str, reason: str, folder: Path, tmp_path: Path
) -> None:
    detector = f"{folder / 'toys.py'}:{detector}"
    done = called(folder, tmp_path, "--detector", detector)
    assert done.exit_code == 3, done.output
    text = " ".join(done.output.split())
    assert f"Nothing could be judged: {reason}." in text
    assert "The result is inconclusive." in text
    page = (tmp_path / "report.html").read_text()
    assert "Nothing could be judged" in page
    assert "The result is inconclusive." in page
    assert "It is evidence, not a certificate" not in page
    assert "No class was shown to fail" not in page
    # It is no finished run, so the same command goes on; without a summary it says why it ends.
    again = called(folder, tmp_path, "--detector", detector, "--quiet")
    assert (again.exit_code, again.stdout) == (3, "")
    assert reason in again.stderr
    as_json = called(folder, tmp_path, "--detector", detector, "--json")
    assert as_json.exit_code == 3
    assert json.loads(as_json.stdout)["kind"] == "scenes"


def test_a_run_that_judged_something_ends_with_exit_code_0(folder: Path, tmp_path: Path) -> None:
    (folder / "good.py").write_text(DETECTORS)
    done = called(folder, tmp_path, "--detector", f"{folder / 'good.py'}:fair", "--fewest", "1")
    assert done.exit_code == 0, done.output
    assert (
        called(folder, tmp_path, "--detector", f"{folder / 'good.py'}:fair").exit_code == 2
    )  # it is finished


def test_a_recognizer_of_which_nothing_could_be_judged_is_named_beside_one_that_was(
    tmp_path: Path,
) -> None:
    asked: list[int] = []

    def tires(image: Picture) -> list[Detection]:
        asked.append(1)
        if len(asked) > 3:
            raise RuntimeError("tired")
        return fair(image)

    done = audit_scenes(
        toy_scenes(3),
        [fair, tires],
        classes=["person"],
        mutations=["delete"],
        fewest=1,
        folder=tmp_path,
        **FAST,
    )
    assert done.run.judged is True
    assert verdict_of(done.run).endswith("Nothing could be judged of tires.")


# -- progress --------------------------------------------------------------------------------------


def measured(document: ScenesRun) -> int:
    assert document.comparisons.quality is not None
    return document.comparisons.quality.pictures


def test_measuring_quality_tells_its_progress_and_an_interrupt_there_keeps_the_verdict(
    tmp_path: Path,
) -> None:
    reported: list[tuple[int, int, str]] = []

    def audit(*, stop: bool) -> ScenesRun:
        def tell(stage: str, done: int, total: int, note: str) -> None:
            if stage == MEASURING and done:
                reported.append((done, total, note))
                if stop:
                    raise KeyboardInterrupt

        done = audit_scenes(
            toy_scenes(3),
            fair,
            classes=["person"],
            mutations=["delete"],
            fewest=1,
            folder=tmp_path,
            progress=tell,
            **FAST,
        )
        return done.document

    stopped = audit(stop=True)
    assert (reported, stopped.judged) == ([(1, 3, "1 of 3")], True)
    assert measured(stopped) == 0
    assert "Interrupted while measuring image quality" in markdown(report(stopped))
    reported.clear()
    assert measured(audit(stop=False)) == 3
    assert reported == [(1, 3, "1 of 3"), (2, 3, "2 of 3"), (3, 3, "3 of 3")]


# -- given cut-outs --------------------------------------------------------------------------------


def given(folder: Path, *names: str) -> Path:
    """A folder of cut-outs with one PNG of each name."""
    pixels = np.zeros((40, 30, 4), np.uint8)
    pixels[5:35, 5:25] = (220, 20, 20, 255)
    for name in names:
        (folder / name).mkdir(parents=True)
        Image.fromarray(pixels).save(folder / name / "one.PNG")
    return folder


def never(image: Picture) -> list[Detection]:
    raise AssertionError


@pytest.mark.parametrize(
    ("names", "classes", "message"),
    [
        (
            ("persons", "dog"),
            ["person", "car"],
            r"no cut-outs of these classes: person, car\. It has folders for: dog, persons\. Did"
            r" you write 'persons' for 'person'\? "
            r"Expected a folder for each of them, such as .*person, of PNGs",
        ),
        (
            ("person",),
            ["person", "car"],
            r"no cut-outs of the class: car\. It has folders for: person\. Expected",
        ),
        (
            ("tree", "trucks"),
            None,
            (
                r"these classes: .*car.*It has folders for: tree, trucks\. Did you write 'trucks'"
                r" for 'truck'\? .* one of them or more"
            ),
        ),
        ((), ["car"], r"It has no folders at all\."),
    ],
)
def test_cut_outs_of_no_class_are_reported_with_what_is_there_before_any_query(
    names: tuple[str, ...], classes: list[str] | None, message: str, tmp_path: Path
) -> None:
    (tmp_path / "cut").mkdir()
    with pytest.raises(DataError, match=message):
        audit_scenes(
            toy_scenes(1),
            never,
            classes=classes,
            cutouts=given(tmp_path / "cut", *names),
            folder=tmp_path / "run",
        )
    (tmp_path / "cut" / "car").mkdir()
    with pytest.raises(DataError, match=r"car \(no PNG in it\)"):
        audit_scenes(
            toy_scenes(1), never, classes=["car"], cutouts=tmp_path / "cut", folder=tmp_path / "run"
        )
    with pytest.raises(SettingError, match=r"There is no folder .*gone"):
        audit_scenes(toy_scenes(1), never, cutouts=tmp_path / "gone", folder=tmp_path / "run")


def test_folders_of_cut_outs_may_be_named_as_others_name_the_class_and_what_is_not_used_is_reported(
    tmp_path: Path,
) -> None:
    done = audit_scenes(
        toy_scenes(2),
        fair,
        mutations=["insert"],
        repeats=1,
        cutouts=given(tmp_path / "cut", "Pedestrian", "zebra"),
        folder=tmp_path,
        **FAST,
    )
    assert {label: len(several) for label, several in done.evidence.cutouts.items()} == {
        "person": 1
    }
    assert {test.label for test in done.tests} == {"person"}
    assert any(
        "match no class that is inserted: zebra. To insert them" in message
        for message in done.document.messages
    )
    assert any("since there are no cut-outs:" in message for message in done.document.messages)


def test_cut_outs_that_are_not_inserted_or_cannot_be_read_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = given(tmp_path / "cut", "person")
    done = audit_scenes(
        toy_scenes(2),
        fair,
        mutations=["delete"],
        repeats=1,
        cutouts=cut,
        folder=tmp_path / "run",
        **FAST,
    )
    assert (
        f"The cut-outs of {cut} are not used: 'insert' is not among the mutations."
        in done.document.messages
    )

    def refused(folder: Path) -> NoReturn:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(Path, "iterdir", refused)
    with pytest.raises(StorageError, match=f"{cut} cannot be read: Permission denied"):
        cutouts_in(cut, ["person"])


# -- services and functions that query one ---------------------------------------------------------


class Service:
    """A function that queries a service: how often it was called, and how many calls were under way
    together at most, over all services that share `under_way`.
    """

    is_remote = True

    def __init__(self, under_way: list[int] | None = None) -> None:
        self.calls, self.together = 0, 0
        self.under_way = [] if under_way is None else under_way

    def __call__(self, image: Picture) -> list[Detection]:
        self.under_way.append(1)
        self.calls += 1
        self.together = max(self.together, len(self.under_way))
        time.sleep(0.02)
        self.under_way.pop()
        return fair(image)


def test_a_remote_function_is_called_at_once_up_to_the_cap_and_each_original_is_paid_once(
    tmp_path: Path,
) -> None:
    def audit(**more: Any) -> tuple[Service, ScenesRun]:
        service = Service()
        done = audit_scenes(
            toy_scenes(6),
            service,
            classes=["person"],
            mutations=["delete"],
            fewest=1,
            **FAST,
            **more,
        )
        return service, done.document

    service, document = audit(at_once=3)
    assert service.calls == 6 + 12  # originals, mutants and their controls
    assert service.together == 3
    assert document.detectors[0].remote is True
    assert document.detectors[0].agreement is not None
    assert any("every run pays for its answers again" in one for one in document.messages)
    capped, document = audit(most_requests=7)
    assert capped.calls == 7
    assert any("cap of 7 requests" in one.reason for one in document.failures)


def test_several_services_are_queried_at_the_same_time() -> None:
    under_way: list[int] = []
    services = [Service(under_way), Service(under_way)]
    audit_scenes(
        toy_scenes(6), services, classes=["person"], mutations=["delete"], at_once=1, **FAST
    )
    assert max(one.together for one in services) == 2
    assert [one.calls for one in services] == [18, 18]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--most-requests", "5", "--set", "at_once=8"),
            "--set at_once, --most-requests would have no eff",
        ),
        (("--dry-run", "--price", "1"), "If your function queries one, add --remote"),
        (("--remote", "--price", "1"), "--price needs --dry-run"),
    ],
)
def test_limits_without_a_service_are_refused(
    words: tuple[str, ...], said: str, folder: Path, tmp_path: Path
) -> None:
    done = called(folder, tmp_path, "--detector", f"{folder / 'toys.py'}:fair", *words)
    assert done.exit_code == 2, done.output
    assert said in " ".join(done.output.split())


def test_a_dry_run_says_which_pictures_are_left_out(folder: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(folder, tmp_path / "toys"))
    (copied / "pictures" / "damaged.png").write_bytes(b"nothing")
    (copied / "masks" / "damaged.png").write_bytes(b"nothing")
    words = ("--detector", f"{folder / 'toys.py'}:fair", "--dry-run")
    done = called(copied, tmp_path / "run", *words)
    assert done.exit_code == 0, done.output
    assert "damaged.png cannot be read as a picture and is left out" in " ".join(
        done.output.split()
    )


def test_a_file_is_no_remote_function_and_the_demo_has_its_own_detector(tmp_path: Path) -> None:
    for words, said in (
        (("--remote",), "no recognizer is a function"),
        (("--score", "0.3"), "need a --detector of your own"),
    ):
        done = CLI.invoke(app, ["audit-scenes", "demo", "--out", str(tmp_path), *words])
        assert done.exit_code == 2, done.output
        assert said in " ".join(done.output.split())


def test_a_function_whose_boxes_are_elsewhere_is_refused_unless_unchecked(
    folder: Path, tmp_path: Path
) -> None:
    (folder / "shifted.py").write_text(
        "from tests.toy_scenes import fair\n\n"
        "def detect(image):\n"
        "    return [(one.label, one.score, (0, 0, 9, 9)) for one in fair(image)]\n"
    )
    words = ("--detector", f"{folder / 'shifted.py'}:detect", "--fewest", "1")
    done = called(folder, tmp_path, *words)
    assert done.exit_code == 2, done.output
    assert "hardly more than chance" in " ".join(done.output.split())
    assert not list(tmp_path.rglob("*.png"))
    done = called(folder, tmp_path, *words, "--unchecked")
    assert done.exit_code == 0, done.output
    agreement = json.loads((tmp_path / "audit.json").read_text())["detectors"][0]["agreement"]
    assert (agreement["matched"], agreement["title"]) == (0, "")


# -- the help --------------------------------------------------------------------------------------


def test_the_help_names_every_form_and_layout_of_a_detector() -> None:
    done = CLI.invoke(app, ["audit-scenes", "--help"], env={"COLUMNS": "200"})
    text = " ".join(re.sub(r"[│\s]+", " ", done.output).split())
    for form in FORMS:
        assert form in text, form
    for name in LAYOUTS:
        assert name in text, name
