"""Face verification: every pair is counted once, and what is planted is found."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fairprobe.arrays import Ints
from fairprobe.audits.embeddings import audit_embeddings
from fairprobe.datasets.image_sets import FACE_CLASSES, ImageAttribute, ImageSet, open_images
from fairprobe.documents import from_dict, to_dict
from fairprobe.documents.verification import VerificationDocument
from fairprobe.errors import DataError, FairprobeError
from fairprobe.images import verification
from fairprobe.images.verification import compare, scores, threshold_at
from fairprobe.present.verification_page import render_verification
from tests.cli.test_cli import ask
from tests.images.architectures import folder_resnet


class Means(nn.Module):
    """Embeds a picture as the means of its three channels, minus a middle gray."""

    def forward(self, images: Tensor) -> Tensor:
        return images.mean(dim=(2, 3)) - 0.5


class Answers(nn.Module):
    """Answers each picture with whatever a function gives."""

    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, images: Tensor) -> Any:
        return self.function(images)


def people(blur: float = 0.0, count: int = 40, seed: int = 0) -> ImageSet:
    """Four pictures of each of some people, of one color each. `blur` spreads the pictures of every
    second person, so that they are less like each other.
    """
    rng = np.random.default_rng(seed)
    identities = np.repeat(np.arange(count), 4)
    group = identities % 2
    color = rng.uniform(40, 215, (count, 3))[identities]
    color = color + rng.normal(0, 4, color.shape)
    color[group == 1] += rng.normal(0, blur, color.shape)[group == 1] if blur else 0
    images = np.clip(color, 0, 255).astype(np.uint8)[:, :, None, None]
    return ImageSet(
        "people",
        np.broadcast_to(images, (len(group), 3, 8, 8)).copy(),
        np.ones(len(group), dtype=np.int64),
        FACE_CLASSES,
        {"gender": ImageAttribute(("female", "male"), group)},
        identities % 4 < 2,
        identities=identities,
    )


def who(data: ImageSet) -> Ints:
    assert data.identities is not None
    return data.identities


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
def test_every_pair_is_counted_once(distance: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a loop over all pairs; small blocks, so that several are joined."""
    monkeypatch.setattr(verification, "BLOCK", 7)
    rng = np.random.default_rng(0)
    found, people = rng.normal(size=(30, 4)), rng.integers(0, 8, 30)
    threshold = 0.2 if distance == "cosine" else -2.0
    errors = {"own": [0, 0], "other": [0, 0]}
    for a, b in combinations(range(30), 2):
        if distance == "cosine":
            alike = found[a] @ found[b] / np.linalg.norm(found[a]) / np.linalg.norm(found[b])
        else:
            alike = -np.linalg.norm(found[a] - found[b])
        kind = "own" if people[a] == people[b] else "other"
        errors[kind][0] += (alike < threshold) if kind == "own" else (alike >= threshold)
        errors[kind][1] += 1
    result = compare(found, people, threshold, distance)
    assert [result.false_non_match.hits, result.false_non_match.pairs] == errors["own"]
    assert [result.false_match.hits, result.false_match.pairs] == errors["other"]


def test_a_chosen_threshold_keeps_the_share_of_false_matches() -> None:
    rng = np.random.default_rng(0)
    found = rng.normal(size=(60, 3))
    threshold = threshold_at(found, np.arange(60), 0.05, "cosine")
    alike = scores(found, found, "cosine")[np.triu_indices(60, 1)]
    assert (alike >= threshold).mean() <= 0.05
    assert (alike >= threshold).mean() > 0.04


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
@pytest.mark.parametrize("share", [0.0005, 0.05, 0.9])
def test_a_threshold_is_exact_though_only_the_highest_scores_are_kept(
    distance: Any, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "BLOCK", 16)
    rng = np.random.default_rng(2)
    found, who = np.round(rng.normal(size=(90, 3)), 1), rng.integers(0, 30, 90)  # with ties
    rows, columns = np.triu_indices(90, 1)
    others = scores(found, found, distance)[rows, columns][who[rows] != who[columns]]
    must_not = np.sort(others)[len(others) - 1 - int(share * len(others))]
    assert threshold_at(found, who, share, distance) == pytest.approx(must_not, abs=1e-9)


def test_the_memory_of_a_threshold_does_not_grow_with_all_pairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(verification, "BLOCK", 128)
    found, who = np.random.default_rng(0).normal(size=(3000, 8)), np.arange(3000)
    tracemalloc.start()
    threshold_at(found, who, 0.001, "cosine")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 36e6 / 10  # all scores alone would take 36 MB


def test_a_threshold_near_one_is_shown_with_the_digits_that_tell_it_from_one() -> None:
    for threshold, text in ((0.99964, "0.999640"), (0.4, "0.400"), (-0.9991, "−0.999100")):
        document = audit_embeddings(people(), Means(), threshold=threshold)
        assert f"at least {text}, as given" in document.sentences[-1]


def test_a_classifier_is_not_taken_for_embeddings_without_a_word(tmp_path: Path) -> None:
    folder_resnet().save_pretrained(tmp_path / "network")
    document = audit_embeddings(people(), str(tmp_path / "network"), threshold=0.5)
    assert any("network is a classifier" in one for one in document.messages)
    assert not audit_embeddings(people(), Means(), threshold=0.5).messages


def test_a_planted_difference_is_found_and_a_network_without_one_gives_none() -> None:
    planted = audit_embeddings(people(blur=40), Means(), threshold=0.9)
    beyond = [(one.measure, one.one) for one in planted.compared if one.is_beyond_chance]
    assert ("false_non_match", "female") in beyond
    assert planted.sentences[0].startswith("The false non-match rate differs by gender")
    fair = audit_embeddings(people(), Means(), threshold=0.9)
    assert not any(one.is_beyond_chance for one in fair.compared)
    assert fair.sentences[0].startswith("No error rate differs by gender")


def test_embeddings_of_nothing_but_the_person_make_no_error_at_all() -> None:
    data = people()
    exact = np.eye(40)[who(data)]
    for code in (0, 1):
        rows = data.attributes["gender"].codes == code
        result = compare(exact[rows], who(data)[rows], 0.5, "cosine")
        assert result.false_non_match.hits == result.false_match.hits == 0


def test_a_threshold_is_chosen_on_people_that_are_not_measured() -> None:
    data = people(count=60)
    document = audit_embeddings(data, Means(), false_matches=0.1)
    assert document.chosen_on == len(np.unique(who(data)[~data.held_out]))
    assert sum(group.pictures for group in document.groups) == data.held_out.sum()
    assert document.wanted == 0.1
    same = from_dict(to_dict(document), VerificationDocument)
    assert same == document
    page = render_verification(document)
    assert "chosen on" in page
    assert "False non-match rate" in page


def test_what_cannot_be_measured_is_refused(tmp_path: Path) -> None:
    data = people()
    nameless = tmp_path / "nameless.npz"
    np.savez(nameless, images=data.images.transpose(0, 2, 3, 1), gender=who(data) % 2)
    one_gender = tmp_path / "one.npz"
    pictures = data.images.transpose(0, 2, 3, 1)
    np.savez(one_gender, images=pictures, gender=["male"] * len(data), identity=who(data))
    cases: list[tuple[Any, Any, dict[str, Any], str]] = [
        (nameless, Means(), {}, "does not say who is in its pictures"),
        (data, Means(), {"sensitive": "gendr"}, "Did you mean 'gender'"),
        (data, Means(), {"distance": "manhattan"}, "cosine or euclidean"),
        (data, Means(), {"false_matches": 2.0}, "between 0 and 1"),
        (data, Means(), {"threshold": float("nan")}, "must be a number"),
        (data, Means(), {"threshold": 3.0}, "from -1 to 1; got the threshold 3"),
        (data, Means(), {"threshold": -1.0, "distance": "euclidean"}, "0 or more"),
        (data, nn.Sequential(nn.Flatten(), nn.Linear(192, 1)), {}, "two numbers or more"),
        (data, Answers(lambda x: x[:, 0, 0, 0]), {}, r"numbers \(64,\)"),
        (data, Answers(lambda x: x), {}, r"numbers \(64, 3, 8, 8\); expected an embedding"),
        (data, Answers(lambda x: (x, x)), {}, "answers with a tuple"),
        (
            data,
            Answers(lambda x: 0 * x.mean((2, 3))),
            {},
            "160 of 160 pictures an embedding of zer",
        ),
        (
            data,
            Answers(lambda x: x.mean((2, 3)) / 0),
            {},
            "160 of 160 pictures embeddings that are",
        ),
        (one_gender, Means(), {}, "All people whose gender is known have 'male'"),
        (data, nn.Linear(3, 3), {}, "cannot take"),
        (data.take(who(data) % 2 == 0), Means(), {"threshold": 0.5}, "two groups of gender"),
    ]
    for given, network, options, words in cases:
        with pytest.raises(FairprobeError, match=words):
            audit_embeddings(given, network, **{"sensitive": "gender"} | options)


def test_people_in_an_npz_are_held_out_whole(tmp_path: Path) -> None:
    data = people()
    path = tmp_path / "people.npz"
    names = np.array([f"person {one}" for one in who(data)])
    names[:4] = ""
    images = data.images.transpose(0, 2, 3, 1)
    np.savez(path, images=images, identity=names, gender=who(data) % 2)
    opened = open_images(path)
    assert opened.identities is not None
    assert (opened.identities[:4] == -1).all()
    for one in np.unique(opened.identities[4:]):
        assert len(np.unique(opened.held_out[opened.identities == one])) == 1
    np.savez(path, images=images, identity=np.zeros((2, 2)), gender=who(data) % 2)
    with pytest.raises(DataError, match="`identity` must be a whole number or a name"):
        open_images(path)


def test_the_command_writes_json_and_a_page(tmp_path: Path) -> None:
    data = people(blur=40)
    np.savez(
        tmp_path / "people.npz",
        images=data.images.transpose(0, 2, 3, 1),
        identity=who(data),
        gender=who(data) % 2,
        gender_names=np.array(["female", "male"]),
    )
    (tmp_path / "code.py").write_text(
        "from torch import nn\n\n\nclass Means(nn.Module):\n    def forward(self, x):\n"
        "        return x.mean(dim=(2, 3)) - 0.5\n"
    )
    answer = ask(
        *("audit-embeddings", tmp_path / "people.npz", "--model", f"{tmp_path / 'code.py'}:Means"),
        *("--sensitive", "gender", "--threshold", "0.9", "--out", tmp_path / "out.json"),
        *("--report", tmp_path / "page.html"),
    )
    assert answer.code == 0, answer.said
    assert "false non-match rate" in answer.out
    body = json.loads((tmp_path / "out.json").read_text())
    assert body["groups"][0]["false_match"]["pairs"] == 20 * 19 // 2 * 16
    assert "<h1>" in (tmp_path / "page.html").read_text()
    assert torch.is_grad_enabled()
