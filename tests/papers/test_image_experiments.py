"""The experiments with faces and digits: how faces are mixed, what the tables make of the jobs, and
small whole runs.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fairprobe.datasets.image_layouts import RACES
from fairprobe.datasets.image_sets import open_images
from fairprobe.errors import DataError, SettingError, StorageError
from fairprobe.images.activation_ratio import ImageGroup, InsideBias, LayerActivation
from fairprobe.images.audit import audit_images
from fairprobe.images.run import ImageAudit
from fairprobe.results import to_dict
from papers import catalogue, insidebias, insidebias_faces, neuronfair_images, paper
from papers.base import Experiment, Plan, Scale
from papers.data.fetching import FACES_AND_OTHERS, FAIRFACE, placed
from papers.insidebias import ColoredMNIST, Samples
from papers.insidebias_faces import (
    FaceNetwork,
    FaceTables,
    mixed,
    regrouped,
    shift,
    varied,
    verdict,
)
from papers.jobs import Outcome
from papers.neuronfair_images import Table10, Table11
from papers.page import markdown
from tests.helpers import assets

SIDE = 12


def faces_file(path: Path, each: int = 12, *, others: int = 0) -> Path:
    """Made-up faces, `each` of each race and gender, a quarter of them held out; men are a little
    lighter, other things a little darker.
    """
    rng = np.random.default_rng(0)
    race, gender = (part.ravel() for part in np.meshgrid(np.arange(7), np.arange(2), indexing="ij"))
    race, gender = np.tile(race, each), np.tile(gender, each)
    light = (
        rng.integers(60, 120, size=(len(race), SIDE, SIDE, 3))
        + 6 * (1 - gender)[:, None, None, None]
    )
    dark = rng.integers(50, 110, size=(others, SIDE, SIDE, 3))
    unknown = np.full(others, 255)
    split = np.concatenate([np.repeat(np.arange(each) % 4 == 0, 14), np.arange(others) % 4 == 0])
    np.savez(
        path,
        images=np.concatenate([light, dark]).astype(np.uint8),
        is_face=np.repeat([1, 0], [len(race), others]),
        gender=np.concatenate([gender, unknown]).astype(np.uint8),
        race=np.concatenate([race, unknown]).astype(np.uint8),
        gender_names=np.array(["Male", "Female"]),
        race_names=np.array(RACES),
        split=split.astype(np.uint8),
    )
    return path


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, and no other place to look."""
    monkeypatch.delenv("FAIRPROBE_ASSETS", raising=False)
    monkeypatch.setenv("FAIRPROBE_CACHE", str(tmp_path))
    return tmp_path


# -- where faces are -------------------------------------------------------------------------------


def test_faces_are_looked_for_in_two_places_and_both_are_named(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        StorageError, match=rf"no fairface64_jpeg.npz or fairface in {cache}\. Put it there"
    ):
        placed(FAIRFACE)
    (cache / "fairface").mkdir()
    assert placed(FAIRFACE) == cache / "fairface"
    own = tmp_path / "own"
    own.mkdir()
    monkeypatch.setenv("FAIRPROBE_ASSETS", str(own))
    assert placed(FAIRFACE) == cache / "fairface"
    (own / "fairface64_jpeg.npz").touch()
    assert placed(FAIRFACE) == own / "fairface64_jpeg.npz"
    with pytest.raises(StorageError, match=rf"{own} and {cache}"):
        placed(FACES_AND_OTHERS)


# -- InsideBias: mixtures --------------------------------------------------------------------------


def test_faces_fall_into_the_papers_three_groups_and_the_rest_is_left_out(tmp_path: Path) -> None:
    learnt, held_out = regrouped(open_images(faces_file(tmp_path / "f.npz")))
    assert np.bincount(learnt.group).tolist() == [36, 36, 36]  # 9 of each race and gender
    assert np.bincount(held_out.group).tolist() == [12, 12, 12]
    assert {name: len(images) for name, images in held_out.groups().items()} == {
        "a": 12,
        "b": 12,
        "c": 12,
    }


@pytest.mark.parametrize(("own", "counts"), [(None, [12, 12, 12]), ("b", [2, 36, 2])])
def test_a_mixture_has_its_shares_and_as_many_women_as_men(
    tmp_path: Path, own: str | None, counts: list[int]
) -> None:
    learnt, _ = regrouped(open_images(faces_file(tmp_path / "f.npz")))
    found = mixed(learnt, 40, own, np.random.default_rng(0))
    assert np.bincount(found.group).tolist() == counts
    assert np.bincount(found.gender).tolist() == [sum(counts) // 2] * 2
    assert len(np.unique(found.images.reshape(len(found.images), -1), axis=0)) == sum(
        counts
    )  # nobody twice
    shrunk = mixed(learnt, 4000, "b", np.random.default_rng(0))
    assert np.bincount(shrunk.group).tolist() == [2, 36, 2]


def test_faces_that_lack_a_group_are_refused(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "few.npz",
        images=np.zeros((4, 8, 8, 3), dtype=np.uint8),
        gender=np.array([0, 1, 0, 1]),
    )
    with pytest.raises(DataError, match="must have a gender and a race"):
        regrouped(open_images(tmp_path / "few.npz"))
    data = open_images(faces_file(tmp_path / "f.npz"))
    with pytest.raises(DataError, match="lack women or men"):
        regrouped(data.take(data.attributes["race"].codes < RACES.index("East Asian")))


def test_a_varied_face_is_moved_by_few_pixels_and_perhaps_mirrored() -> None:
    images = np.random.default_rng(0).integers(0, 255, size=(40, 3, 32, 32)).astype(np.uint8)
    found = varied(images, np.random.default_rng(1))
    larger = np.pad(images, ((0, 0), (0, 0), (2, 2), (2, 2)), mode="reflect")
    seen = set()
    for before, after in zip(larger, found, strict=True):
        places = [(top, left, step) for top in range(5) for left in range(5) for step in (1, -1)]
        fitting = [
            (top, left, step)
            for top, left, step in places
            if (before[:, top : top + 32, left : left + 32][..., ::step] == after).all()
        ]
        assert len(fitting) == 1
        seen.add(fitting[0])
    assert {step for _, _, step in seen} == {1, -1}
    assert len(seen) > 20


def test_the_shift_is_the_own_gain_minus_the_others_change() -> None:
    unbiased = {"a": 0.90, "b": 0.80, "c": 0.85}
    assert shift("a", {"a": 0.93, "b": 0.78, "c": 0.85}, unbiased) == pytest.approx(
        0.03 - (-0.02 + 0) / 2
    )


def comparison(ratio: float, activation: dict[str, float]) -> InsideBias:
    """A comparison of one layer."""
    layer = LayerActivation(
        name="last",
        maps=1,
        is_convolution=True,
        activation=activation,
        ratio=ratio,
        low=0,
        high=1,
        p_value=0.5,
        by_chance=0.9,
    )
    groups = [ImageGroup(name=name, images=5) for name in activation]
    return InsideBias(groups=groups, layers=[layer], decisive=layer, order="image", resamples=100)


def ratios(*values: float) -> list[FaceNetwork | None]:
    return [
        FaceNetwork(
            source="faces",
            right={},
            found=comparison(value, {}),
            learnt={},
            tested={},
            score={},
            few=Samples(below_tau=0, beyond_chance=0, ratio=value),
        )
        for value in values
    ]


def test_a_note_says_where_a_lower_ratio_of_biased_networks_is_not_shown() -> None:
    apart = {"biased_a": ratios(0.5, 0.6, 0.55), "unbiased": ratios(0.9, 0.95, 0.92)}
    assert "Λ is lower in biased networks (Mann–Whitney, p = 0.05)" in verdict("vgg", apart)
    mixed_up = {"biased_a": ratios(0.9, 0.95, 0.91), "unbiased": ratios(0.9, 0.96, 0.89)}
    assert (
        "0.90 to 0.95, of unbiased ones 0.89 to 0.96; that biased ones have a lower Λ is not shown"
        in verdict("vgg", mixed_up)
    )
    assert "cannot show" in verdict("resnet", {"biased_a": ratios(0.5), "unbiased": ratios(0.9)})
    assert verdict("vgg", {"biased_a": [None], "unbiased": [None]}) == ""


# -- InsideBias: the tables ------------------------------------------------------------------------


def test_the_networks_are_trained_and_compared_beside_the_paper(cache: Path) -> None:
    faces_file(cache / "fairface64_jpeg.npz", each=24)
    plan = Plan()
    ((*jobs,),) = FaceTables().stages(plan)
    small = [{**job.settings, "side": SIDE, "epochs": 2, "draws": 2} for job in jobs]
    results = {
        job.id: to_dict(insidebias_faces.look(settings, {}))
        for job, settings in zip(jobs, small, strict=True)
    }
    assert to_dict(insidebias_faces.look(small[0], {})) == results[jobs[0].id]  # the same again
    document = FaceTables().table(plan, Outcome(results, {}, {}))
    cells = {(cell.method, cell.measure): cell for cell in document.cells}
    assert cells["biased_a", "accuracy_a"].paper == pytest.approx(0.9572)
    assert cells["unbiased", "ratio"].paper == 0.93
    assert cells["biased_a", "shift"].paper == pytest.approx(0.0088 + (0.0153 + 0.0060) / 2)
    for kind in ("biased_a", "unbiased"):
        measures = ("accuracy", "low", "ratio", "high")
        of = {measure: cells[kind, measure].values[0] or 0 for measure in measures}
        assert 0 < of["low"] <= of["ratio"] <= of["high"] <= 1
        assert of["accuracy"] == pytest.approx(
            np.mean([cells[kind, f"accuracy_{name}"].mean for name in "abc"])
        )
    assert [figure.title for figure in document.figures] == [
        "Figure 4: VGG, biased (A)",
        "Figure 4: VGG, biased (A), one scale",
        "Figure 4: VGG, unbiased",
        "Figure 4: VGG, unbiased, one scale",
    ]
    assert any("tested on 24 of group A" in note for note in document.notes)


def test_the_text_of_an_experiment_with_faces_names_those_that_were_used() -> None:
    """With DiveFace nothing says FairFace, a tenth, or 32 pixels of the faces that were used."""
    plan = Plan(options={"faces": "DiveFace", "side": "120", "images": "18000"})
    ((first, *_),) = FaceTables().stages(plan)
    inside = digit_network(dict.fromkeys("abc", 1.0))["found"]
    network = {
        "source": "DiveFace",
        "right": dict.fromkeys("abc", 0.9),
        "found": inside,
        "learnt": dict.fromkeys("abc", 6000),
        "tested": dict.fromkeys("abc", 100),
        "score": dict.fromkeys("abc", 0.9),
        "few": {"below_tau": 0.0, "beyond_chance": 0.0, "ratio": 0.9},
    }
    notes = " ".join(FaceTables().notes(plan, Outcome({first.id: network}, {}, {})))
    assert "Faces from DiveFace, brought to 120 × 120 pixels: a network learns from 18000" in notes
    assert "tenth" not in notes
    assert "FairFace" not in FaceTables.about


def test_at_the_papers_scale_there_are_three_seeds_of_each_kind_at_least() -> None:
    for repeats, seeds in ((1, 3), (4, 4)):
        ((*jobs,),) = FaceTables().stages(Plan(scale="full", repeats=repeats))
        assert len(jobs) == 2 * 4 * seeds


# -- InsideBias: colored digits -------------------------------------------------------------------


@pytest.fixture
def few_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache folder with a hundred and twenty made-up digits."""
    rng = np.random.default_rng(0)
    x, y = (
        rng.integers(0, 255, size=(120, 28, 28)).astype(np.uint8),
        np.arange(120, dtype=np.uint8) % 10,
    )
    np.savez(tmp_path / "mnist.npz", x_train=x[:60], y_train=y[:60], x_test=x[60:], y_test=y[60:])
    monkeypatch.setenv("FAIRPROBE_CACHE", str(tmp_path))


@pytest.mark.usefixtures("few_digits")
def test_the_experiment_has_a_network_for_each_bias_and_shows_both_figures() -> None:
    chosen, plan = ColoredMNIST(), Plan()
    jobs = [job for stage in chosen.stages(plan) for job in stage]
    small = {"images": 40, "epochs": 1, "counts": [5, 8], "draws": 2, "resamples": 100}
    results = {}
    for job in jobs:
        result = insidebias.look({**job.settings, **small}, {})
        result.samples["100"] = result.samples["8"]
        results[job.id] = to_dict(result)
    assert [result["learnt"] for result in results.values()] == [40] * 4
    document = chosen.table(plan, Outcome(results, {}, {}))
    ratios = {cell.method: cell.values for cell in document.cells if cell.measure == "ratio"}
    assert {kind: len(values) for kind, values in ratios.items()} == {
        "red": 1,
        "green": 1,
        "blue": 1,
        "unbiased": 1,
    }
    assert ratios["red"][0] == results["insidebias-mnist-quick-red-0"]["ratio"]
    red, unbiased = (results[f"insidebias-mnist-quick-{name}"] for name in ("red-0", "unbiased-3"))
    assert unbiased["share_in_training"] == unbiased["share_in_tied_digit"] == {}
    every, tied = red["share_in_training"], red["share_in_tied_digit"]
    assert sum(every.values()) == pytest.approx(1)
    assert sum(tied.values()) == pytest.approx(1)
    zeros = round(40 * every["red"] / tied["red"])  # all that is red is a zero
    assert 0 < 40 * every["red"] == pytest.approx(zeros * tied["red"])
    assert zeros < 10
    text = markdown(document)
    assert "it is the rarest" in text
    assert "Figure 3" in text
    assert text.count("Figure 4, colored digits") == 8
    assert "Digits from mnist.npz." in text


def test_a_tied_color_is_common_in_its_digit_and_rare_in_training() -> None:
    """The two shares correlate with λ in opposite directions, and the notes name both."""
    plan, results = Plan(), {}
    for job in ColoredMNIST().stages(plan)[0]:
        own = job.settings["colour"]
        is_own = {name: name == own for name in ("red", "green", "blue")}
        results[job.id] = digit_network(
            activation={name: 2.0 if yes else 1.0 for name, yes in is_own.items()},
            right={name: 0.1 if yes else 0.9 for name, yes in is_own.items()},
            share_in_training={name: 0.09 if yes else 0.455 for name, yes in is_own.items()}
            if own
            else {},
            share_in_tied_digit={name: 0.9 if yes else 0.05 for name, yes in is_own.items()}
            if own
            else {},
        )
    notes = " ".join(ColoredMNIST().notes(plan, Outcome(results, {}, {})))
    assert "9.0 % of all training images, against 45.5 % for each other color" in notes
    assert "over 3 networks" in notes
    assert "share among images of the tied digit and accuracy -1.00" in notes
    assert "share among images of the tied digit and λ 1.00" in notes
    assert "share of all training images and accuracy 1.00" in notes
    assert "share of all training images and λ -1.00" in notes
    assert "share in training" not in notes


def digit_network(activation: dict[str, float], **more: Any) -> dict[str, Any]:
    """A result as it is stored, with one layer."""
    return {
        "source": "mnist.npz",
        "learnt": 60,
        "tested": 60,
        "ratio": 0.5,
        "highest": "red",
        "samples": {},
        "found": to_dict(comparison(0.5, activation)),
        **more,
    }


def test_at_the_papers_scale_there_are_thirty_biased_networks_and_three_unbiased() -> None:
    for repeats, unbiased in ((1, 3), (5, 5)):
        ids = [
            job.id
            for stage in ColoredMNIST().stages(Plan(scale="full", repeats=repeats))
            for job in stage
        ]
        assert sum("unbiased" in name for name in ids) == unbiased
        assert len(ids) == 30 + unbiased


def test_fewer_digits_are_the_same_networks_with_the_same_seeds() -> None:
    def jobs(**options: str) -> dict[str, Any]:
        (stage,) = ColoredMNIST().stages(Plan(scale="full", repeats=3, options=options))
        return {job.id: job.settings for job in stage}

    every, few = jobs(), jobs(digits="3, 7")
    assert len(few) == 2 * 3 + 3
    assert few.items() <= every.items()
    with pytest.raises(SettingError, match="digits from 0 to 9"):
        jobs(digits="ten")


def test_faces_of_any_size_are_jobs_of_their_own() -> None:
    def jobs(**options: str) -> dict[str, Any]:
        (stage,) = FaceTables().stages(Plan(options=options))
        return {job.id: job.settings for job in stage}

    usual, larger = jobs(), jobs(side="120", images="18000", faces="DiveFace")
    assert not usual.keys() & larger.keys()
    one = next(iter(larger.values()))
    assert (one["side"], one["images"], one["faces"]) == (120, 18_000, "DiveFace")
    assert "faces" not in next(iter(usual.values()))
    with pytest.raises(SettingError, match="The option side is a whole number of 8 or more"):
        jobs(side="4")


@pytest.mark.usefixtures("assets")
@pytest.mark.parametrize("chosen", [Table10(), ColoredMNIST(), FaceTables()])
def test_a_title_has_as_many_repeats_as_were_done(
    chosen: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "run", lambda *_, **__: Outcome({}, {}, {}))
    done = catalogue.experiment(chosen.name, tmp_path, repeats=5)
    table = json.loads(done.paths[-1].read_text(encoding="utf-8"))
    assert "(quick scale, 1 repeat, seed 0" in table["title"]
    assert table["about"]["repeats"] == 1
    fewest = 3 if chosen.citation == paper.PAPERS["INSIDEBIAS"] else 1
    assert [chosen.repeats(Plan(scale="full", repeats=n)) for n in (1, 5)] == [fewest, 5]


# -- NeuronFair: tables 10 and 11 ------------------------------------------------------------------


def test_tables_10_and_11_share_their_jobs() -> None:
    scales: tuple[Scale, ...] = ("quick", "full")
    for scale in scales:
        plan = Plan(scale=scale, repeats=2)
        assert Table10().stages(plan) == Table11().stages(plan)


@pytest.fixture
def small_audits(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few made-up pictures, and short searches from few faces."""
    faces_file(cache / "face_nonface32.npz", each=6, others=60)

    def short(*args: Any, **options: Any) -> ImageAudit:
        return audit_images(*args, **{**options, "faces": 6, "iterations": 5})

    monkeypatch.setattr(neuronfair_images, "audit_images", short)


@pytest.mark.slow
@pytest.mark.usefixtures("small_audits")
def test_tables_10_and_11_take_any_faces_and_trunk(tmp_path: Path) -> None:
    faces_file(tmp_path / "own.npz", each=6, others=60)
    plan = Plan(scale="quick", options={"faces": str(tmp_path / "own.npz"), "variant": "paper"})
    ((job,),) = Table10().stages(plan)
    ((usual,),) = Table10().stages(Plan(scale="quick"))
    assert job.id.startswith(f"{usual.id}-")
    assert "options" not in usual.settings
    found = neuronfair_images.look(job.settings, {})
    assert found.source == "own.npz"
    assert found.used == (
        "84 faces of own and 60 pictures of own without a face, at 12 × 12 pixels; detector: small"
        " network of six convolutions; 40 steps along plain gradients from 6 faces."
    )
    assert found.numbers["other"]["change"][""] is not None
    outcome = Outcome({job.id: to_dict(found)}, {}, {})
    document = Table10().table(plan, outcome, catalogue.provenance(plan, outcome))
    assert f"faces = {tmp_path / 'own.npz'}, variant = paper" in document.title


@pytest.mark.slow
def test_a_table_names_the_pictures_and_the_trunk_that_were_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(*args: Any, **options: Any) -> ImageAudit:
        changes = {"faces": 4, "iterations": 2, "epsilon": 0.5, "controls": False}
        return audit_images(*args, **{**options, **changes})

    monkeypatch.setattr(neuronfair_images, "audit_images", short)
    monkeypatch.setattr(neuronfair_images, "retrained", lambda _: {})  # table 11 alone needs it
    rng = np.random.default_rng(0)
    for at in range(16):
        for place, light in (
            (f"MyFaces/30_{at % 2}_{at // 2 % 2}_{at}.png", 99),
            (f"things/tree/{at}.png", 9),
        ):
            pixels = rng.integers(light + 50 * (at % 2), 160, size=(32, 32, 3)).astype(np.uint8)
            (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(tmp_path / place)
    given = {"faces": str(tmp_path / "MyFaces"), "others": str(tmp_path / "things")}
    plan = Plan(options=given | {"trunk": "vgg16"})
    ((job,),) = Table10().stages(plan)
    result = to_dict(neuronfair_images.look(job.settings, {}))
    text = " ".join(markdown(Table10().table(plan, Outcome({job.id: result}, {}, {}))).split())
    assert "| MyFaces and things, VGG16 | gender |" in text
    assert (
        "Here (gender): 16 faces of MyFaces and 16 pictures of things without a face, at 32 × 32"
        " pixels; detector: vgg16 trunk; 2 steps of L2 length 0.15 from 4 faces." in text
    )
    for untrue in ("FairFace", "CIFAR", "The data are not the paper's"):
        assert untrue not in text


def test_the_searches_start_from_as_many_faces_as_wanted() -> None:
    def faces(scale: Scale, **options: str) -> set[int | None]:
        (jobs,) = Table10().stages(Plan(scale=scale, options=options))
        return {job.settings["faces"] for job in jobs}

    assert faces("full") == {250}
    assert faces("full", searched="0") == {None}  # all
    assert faces("quick", searched="7") == {7}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"trunk": "vgg17"}, "Did you mean 'vgg16'"),
        ({"size": "large"}, "whole number of pixels"),
        ({"searched": "all"}, "whole number of faces, 0 for all"),
        ({"others": "imagenet"}, "need a folder of faces"),
        ({"optimizer": "lion"}, "adam or sgd"),
        ({"variant": "papr"}, "Did you mean 'paper'"),
        ({"weights": "w.safetensors"}, "Weights need a trunk"),
    ],
)
def test_options_that_no_job_could_take_are_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        Table10().stages(Plan(options=options))


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("neuronfair-table10", {}, "no face_nonface32.npz in"),
        ("neuronfair-table11", {"faces": "nowhere"}, "no nowhere, which --set faces="),
        ("insidebias-faces", {}, "no diveface or DiveFace or fairface64_jpeg.npz or fairface in"),
        ("insidebias-faces", {"faces": "nowhere"}, "no nowhere, which --set faces="),
    ],
)
def test_pictures_that_are_missing_are_named_before_any_job_begins(
    name: str, options: dict[str, str], words: str, cache: Path
) -> None:
    with pytest.raises(StorageError, match=words):
        catalogue.experiment(name, cache / "out", options=options)
    assert not (cache / "out").exists()


def test_options_of_an_experiment_are_known_by_name(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"has no option 'face'\. Did you mean 'faces'"):
        catalogue.experiment("neuronfair-table10", tmp_path, options={"face": "x"})
    with pytest.raises(SettingError, match=r"has no option 'faces'\. It has none"):
        catalogue.experiment("neuronfair-table6", tmp_path, options={"faces": "x"})


@pytest.mark.usefixtures("small_audits")
def test_both_tables_have_every_method_beside_its_controls_and_the_paper_in_rows_of_its_own() -> (
    None
):
    plan = Plan()
    ((job,),) = Table10().stages(plan)
    result = neuronfair_images.look(job.settings, {})
    outcome = Outcome({job.id: to_dict(result)}, {}, {})
    ten, eleven = (one.table(plan, outcome) for one in (Table10(), Table11()))
    found = {
        (cell.dataset, cell.method, cell.variant, cell.measure): cell
        for cell in (*ten.cells, *eleven.cells)
        if cell.sensitive == "gender"
    }
    for method in neuronfair_images.METHODS:
        for variant in ("", "random_signs", "shuffled_labels"):
            (gsr,) = found["faces", method, variant, "gsr"].values
            assert gsr is not None
            assert 0 <= gsr <= 1
        (kept,) = found["faces", method, "", "auc_kept"].values
        ours, clean = (result.numbers["auc"][name][""] for name in (method, "without_idis"))
        assert ours is not None
        assert clean is not None
        assert kept == pytest.approx(ours / clean)
    assert found["celeba_imagenet", "neuronfair", "", "gsr"].paper == pytest.approx(0.6990)
    assert found["lfw_imagenet", "neuronfair", "", "auc"].paper == pytest.approx(0.1091)
    assert found["faces", "neuronfair", "", "gsr"].paper is None
    text = markdown(ten) + markdown(eleven)
    assert "The data are not the paper's" in text
    assert "random direction (control)" in text
    assert "without IDIs (control)" in text


# -- the papers' numbers ---------------------------------------------------------------------------


def transcript(name: str) -> list[dict[str, str]]:
    path = assets().parent / "paper_tables" / f"{name}.csv"
    if not path.exists():
        pytest.skip(f"compares with {path}, which is not there")
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def test_tables_10_and_11_are_the_transcript() -> None:
    rows = transcript("neuronfair_table10_11_images")
    for row in rows:
        place = (row["dataset"], row["sensitive"])
        for method in ("adf", "eidig", "neuronfair"):
            assert paper.figure("table10", *place, method, "idis") == float(row[f"{method}_idis"])
            assert paper.figure("table10", *place, method, "gsr") == pytest.approx(
                float(row[f"{method}_gsr_pct"]) / 100
            )
        for method in ("before", "adf", "eidig", "neuronfair"):
            assert paper.figure("table11", *place, method, "auc") == float(row[f"auc_{method}"])
            assert paper.figure("table11", *place, method, "detection_rate") == pytest.approx(
                float(row[f"dr_{method}_pct"]) / 100
            )
    assert (len(paper.figures("table10")), len(paper.figures("table11"))) == (
        6 * len(rows),
        8 * len(rows),
    )


def test_tables_1_and_2_of_insidebias_are_the_transcript() -> None:
    accuracies, activations = (
        transcript("insidebias_table1_accuracy"),
        transcript("insidebias_table2_activation_ratio"),
    )
    for row in accuracies:
        place = ("insidebias-table1", row["network"].lower(), "race", row["training"])
        for measure, column in (
            ("accuracy", "avg"),
            ("accuracy_sd", "std"),
            *((f"accuracy_{one}", f"group_{one}") for one in "abc"),
        ):
            assert paper.figure(*place, measure) == pytest.approx(float(row[column]) / 100)
    for row in activations:
        place = ("insidebias-table2", row["network"].lower(), "race", row["training"])
        assert paper.figure(*place, "ratio") == float(row["activation_ratio"])
        assert [paper.figure(*place, f"lambda_{one}") for one in "abc"] == [
            float(row[f"lambda_{one}"]) for one in "abc"
        ]
    scores = [row for row in transcript("insidebias_more") if row["table"] == "table2"]
    for row in scores:
        network, training = row["system"].split()
        measure = f"score_{row['class_or_group'][-1]}"
        place = ("insidebias-table2", network.lower(), "race", training)
        assert paper.figure(*place, measure) == float(row["value"])
    assert (len(paper.figures("insidebias-table1")), len(paper.figures("insidebias-table2"))) == (
        5 * 8,
        7 * 8,
    )


def test_distrofair_s_summary_is_the_transcript() -> None:
    """The totals of tables 6, 7, 8 and 10 by another transcript than the one they were made of."""
    printed = {row["measure"]: float(row["value"]) for row in transcript("distrofair_summary")}
    found = {
        "gt_oracle_violation_rate_all": ("table6", "all", "", "all", "violation_rate", 1),
        "gt_oracle_fairness_error_rate_all": ("table6", "all", "", "all", "error_rate", 1),
        "mt_oracle_exclusion_error_rate_all": (
            "table7",
            "all",
            "exclusion",
            "all",
            "error_rate",
            1,
        ),
        "mt_oracle_inclusion_error_rate_all": (
            "table7",
            "all",
            "inclusion",
            "all",
            "error_rate",
            1,
        ),
        "ood_vs_id_exclusion_error_rate_gain_pct": (
            "table8",
            "exclusion",
            "",
            "all",
            "error_gain",
            100,
        ),
        "realism_vs_real_pct": ("table10", "all", "", "every", "realism_ratio", 100),
    }
    for name, (table, row, phase, method, measure, scale) in found.items():
        value = paper.values()[f"distrofair-{table}", "all", row, phase, method, measure]
        assert value * scale == pytest.approx(printed[name])
