"""The pages with pictures: scenes, images and the survey. Self-contained, complete, honest about
their controls, and safe.
"""

from __future__ import annotations

import base64
import io
import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from PIL import Image

from fairprobe.documents import from_dict
from fairprobe.documents.images import ImagesDocument
from fairprobe.present import render
from fairprobe.present.image_sentences import sentences, verdict
from fairprobe.present.shots import source
from tests.present.test_report import EVIL, Page

Document = dict[str, Any]

# Words of fixed lists, and pictures: all other texts may be anything.
FIXED = {
    "oracle",
    "operator",
    "kind",
    "cause",
    "src",
    "created",
    "original",
    "bias",
    "without",
    "change",
    "with",
    "method",
    "key",
    "by",
    "mutations",
    "name_of",
}


def png() -> str:
    file = io.BytesIO()
    Image.new("RGB", (4, 4), (10, 200, 30)).save(file, format="png")
    return base64.b64encode(file.getvalue()).decode()


SRC = f"data:image/png;base64,{png()}"


# -- documents -------------------------------------------------------------------------------------


def share(hits: int, samples: int) -> Document:
    middle = hits / samples
    return {
        "estimate": middle,
        "low": max(middle - 0.04, 0.0),
        "high": min(middle + 0.04, 1.0),
        "hits": hits,
        "samples": samples,
        "confidence": 0.95,
    }


def spread(mean: float) -> Document:
    return {"mean": mean, "median": mean, "high": 2 * mean, "samples": 100}


def search(method: str, title: str, hits: int, *, is_control: bool = False) -> Document:
    part = {"at_seed": 3, "gsr": 0.174, "l2": spread(0.623)}

    def found(strict: int) -> Document:
        loose = strict and min(247, strict + 20)
        return {
            "idis": strict,
            "success": share(strict, 247),
            "loose": {"idis": loose, "success": share(loose, 247), **part},
            "seen_by_independent": share(strict // 9, strict) if strict else None,
            **part,
        }

    others = {"random_signs": found(12), "shuffled_labels": found(100)}
    counts = {
        "seeds": 247,
        "generated": 1235,
        "moved": hits,
        "at_seed_rate": share(3, 247),
        "gsr_rate": share(43, 247),
        "iterations": spread(4.2),
        "stopped": "complete",
    }
    own = {
        "method": method,
        "title": title,
        "is_control": is_control,
        "ms_an_image": 21.5,
    }
    return {**counts, **own, **found(hits), "controls": {} if is_control else others}


def state(differing: int) -> Document:
    attack = {
        "success": share(360, 420),
        "loose_success": share(400, 420),
        "l2": {"estimate": 0.61, "low": 0.58, "high": 0.64, "samples": 350, "confidence": 0.95},
    }
    rates = {
        "accuracy": share(815, 840),
        "detection_rate": share(409, 420),
        "flips": share(417, 420),
        "differing": share(differing, 420),
        "loose_differing": share(420, 420),
        "differing_faces": share(9, 420),
        "loose_differing_faces": share(10, 420),
    }
    return {**rates, "auc": 0.312, "auc_random_signs": 0.1, "attack": attack}


def images() -> Document:
    recalls = [{"name": name, "rate": share(141, 210)} for name in ("Female", "Male")]
    change = {
        "flips": share(249, 250),
        "epsilon_used": spread(0.03),
        "l2": spread(1.62),
        "seen_by_independent": share(31, 250),
    }
    layer = {
        "name": "relu1",
        "layout": None,
        "neurons": 32768,
        "auc": 0.0185,
        "curve": [1.0, 0.4, 0.0],
        "threshold": 0.045,
        "biased": 814,
    }
    random = {
        "random_signs": {"auc": 0.0078, "curve": [1.0, 0.2, 0.0]},
        "shuffled_labels": {"auc": 0.0178, "curve": [1.0, 0.3, 0.0]},
    }
    pictures = dict.fromkeys(("original", "bias", "without", "change", "with"), png())
    verdicts = {"original": ("face", 0.93), "without": ("face", 0.56), "with": ("not a face", 0.81)}
    return {
        "kind": "images",
        "target": None,
        "format": 3,
        "created": "2026-11-16T11:20:00+00:00",
        "command": "fairprobe audit-images faces.npz --sensitive gender",
        "versions": {"fairprobe": "0.1.0"},
        "seed": 5,
        "sensitive": "gender",
        "partial": False,
        "stopped": None,
        "messages": ["b.png is grey."],
        "seconds": {"total": 93.1, "parts": [{"name": "Training the detector", "seconds": 40.2}]},
        "settings": {"epsilon": 0.03, "max_iter": 20},
        "forecast": None,
        "data": {
            "name": "faces32",
            "images": 2800,
            "faces": 1400,
            "others": 1401,
            "height": 32,
            "width": 33,
            "classes": ["not a face", "face"],
            "learnt_from": 1960,
            "held_out": 840,
            "values": [{"name": "Female", "images": 700, "held_out": 210}],
        },
        "detector": {
            "name": "small detector",
            "trained_here": True,
            "parameters": 312000,
            "accuracy": share(815, 840),
            "detection_rate": share(409, 420),
            "false_alarms": share(14, 420),
            "parts": None,
            "by_value": [{"name": "Female", "detection_rate": share(204, 210)}],
            "by_class": {},
        },
        "attribute": {
            "values": ["Female", "Male"],
            "chance": 0.5,
            "head": {"balanced_accuracy": 0.664, "recalls": recalls},
            "independent": {"balanced_accuracy": 0.751, "recalls": recalls},
            "shuffled_labels": None,
        },
        "change": {
            "epsilon": 0.03,
            "cap": 0.06,
            "smallest": False,
            "faces": 250,
            **change,
            "controls": {"random_signs": change},
            "others": [],
        },
        "interpretation": {
            "pairs": 249,
            "by": "channel",
            "most_biased": "relu1",
            "auc": 0.0185,
            "thresholds": [0.0, 0.005, 0.01],
            "layers": [
                {**layer, "controls": random},
                {**layer, "name": "relu2", "auc": 0.01, "controls": {}},
            ],
        },
        "generation": [
            search("neuronfair", "NeuronFair", 215),
            search("random", "random direction", 2, is_control=True),
        ],
        "repair": {
            "idis": 1200,
            "method": "all",
            "epochs": 3,
            "before": state(40),
            "without_idis": state(44),
            "after": state(18),
            "compared": {
                "differing_ratio": 0.409,
                "l2_ratio": 1.283,
                "auc_ratio": None,
                "accuracy_points": -0.476,
            },
        },
        "controls": [
            {
                "key": "random_signs",
                "name": "random signs",
                "says": "What any noise of this size does.",
            }
        ],
        "verdict": "NeuronFair turns 215 of 247 faces into pairs.",
        "sentences": ["The random direction finds 2."],
        "pairs": [
            {
                "row": 40,
                "value": "Female",
                "method": "neuronfair",
                "at_seed": False,
                "l2_bias": 1.1217,
                "l2_change": 1.6628,
                "amplified": 8.0,
                "pictures": pictures,
                "verdicts": {
                    name: {"label": label, "probability": sure}
                    for name, (label, sure) in verdicts.items()
                },
                "head": ["Female", "Male"],
                "independent": ["Female", "Female"],
            }
        ],
    }


def changed(make: Callable[[], Document], **parts: Any) -> Document:
    return {**make(), **parts}


def render_images(body: Document) -> str:
    return render(from_dict(body, ImagesDocument))


RENDER: dict[Callable[[], Document], Callable[[Document], str]] = {
    images: render_images,
}
KINDS = list(RENDER)


@cache
def rendered(make: Callable[[], Document]) -> str:
    """Drawing takes most of the time of these tests, so each page is made once."""
    return RENDER[make](make())


def words(html: str) -> str:
    """All texts of a page in one line, those of two cells with a space between them."""
    return " ".join(" ".join(Page(html).pieces).split())


# -- every page ------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", KINDS)
def test_a_page_is_one_well_formed_file_that_loads_nothing(make: Callable[[], Document]) -> None:
    html, page = rendered(make), Page(rendered(make))
    assert html.startswith("<!doctype html>")
    assert page.open == []
    assert "://" not in html
    assert "@import" not in html
    links = [
        value
        for _, name, value in page.attributes
        if name in {"src", "href", "xlink:href", "srcset", "data", "action"}
    ]
    assert all(link.startswith(("#", "data:,", "data:image/png;base64,")) for link in links)
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert any(tag == "meta" and "default-src 'none'" in value for tag, _, value in page.attributes)
    assert "script" not in page.tags


@pytest.mark.parametrize("make", KINDS)
def test_ids_are_unique_and_references_lead_somewhere(make: Callable[[], Document]) -> None:
    page = Page(rendered(make))
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert max(Counter(ids).values()) == 1
    wanted = {
        value[1:]
        for _, name, value in page.attributes
        if name in {"href", "xlink:href"} and value.startswith("#")
    }
    wanted |= {value for _, name, value in page.attributes if name in {"aria-labelledby", "for"}}
    wanted |= {
        found for _, _, value in page.attributes for found in re.findall(r"url\(#([^)]*)\)", value)
    }
    assert wanted <= set(ids)


@pytest.mark.parametrize("make", KINDS)
def test_every_picture_has_words_and_every_table_has_heads(make: Callable[[], Document]) -> None:
    html, page = rendered(make), Page(rendered(make))
    assert page.tags.count("img") == len(
        [value for tag, name, value in page.attributes if tag == "img" and name == "alt" and value]
    )
    assert html.count("<table") == html.count("<thead>")
    assert all('scope="' in head for head in re.findall(r"<th\b[^>]*>", html))


def with_texts(body: Any, change: Callable[[str], str], key: str = "") -> Any:
    if isinstance(body, str):
        return body if key in FIXED else change(body)
    if isinstance(body, list):
        return [with_texts(item, change, key) for item in body]
    if isinstance(body, dict):
        return {name: with_texts(item, change, name) for name, item in body.items()}
    return body


@pytest.mark.parametrize("make", KINDS)
def test_texts_of_the_document_stay_texts(make: Callable[[], Document]) -> None:
    evil = Page(RENDER[make](with_texts(make(), lambda text: f"{text} {EVIL}")))
    plain = Page(rendered(make))
    assert Counter(evil.tags) == Counter(plain.tags)
    assert "alert(1)" in evil.text
    assert evil.open == []


@pytest.mark.parametrize(
    "text",
    [
        "https://elsewhere/a.png",
        "data:text/html;base64,AAAA",
        'data:image/png;base64,AA" onload="x',
        "",
        None,
        7,
    ],
)
def test_only_pictures_that_the_page_holds_are_shown(text: Any) -> None:
    assert source(text) == ""


# -- images ----------------------------------------------------------------------------------------


def test_the_images_page_tells_all_that_was_measured() -> None:
    text = words(rendered(images))
    for message in (
        "faces32, 1,400 faces and 1,401 without a face, 33 × 32 pixels",
        "Verdicts change, but mostly where no other network sees gender change",
        "97.0 % 95 % interval 93.0 % to 100 %",
        (
            "87.0 % loosely counted, as in the paper: 95.1 % random signs: 4.9 % shuffled labels:"
            " 40.5 % random direction: 0.81 %"
        ),
        "the detector’s own head 66.4 %",
        "independent network 75.1 %",
        "What any noise of this size does.",
        "215 of 247 3 before any step",
        "17.4 %",
        "0.623 at most 1.246",
        "21.5 ms",
        "0.018 | 0.008",  # AUC beside that of random signs
        "relu1 ▲ 32,768 0.018 0.008 0.018 0.045 814",
        "pairs that still differ × 0.41; L2 that a new attack needs × 1.28; accuracy −0.5 points",
        "9.5 % 5.5 % to 13.5 % 10.5 % 6.5 % to 14.5 % 4.3 %",  # differing: before, control, after
        "Pair 1: Female",
        (
            "not a face 81.0 % probable ≠ another verdict the detector’s head sees Male the"
            " independent network sees Female"
        ),
        "shown × 8 L2 1.12",
        "Found by NeuronFair, from picture 40.",
        "Training the detector 40.2 s",
        "b.png is grey.",
        "max iter 20",
    ):
        assert message in text, message


def test_the_images_page_has_the_settings_that_a_variant_changed() -> None:
    body = images()
    assert "Small steps of equal length from each face" in words(render_images(body))
    body["settings"] = {
        "step": 0.15,
        "iterations": 20,
        "search_settings": {"max_iter": 40, "gradient": "plain"},
    }
    text = words(render_images(body))
    assert "step 0.15 iterations 40 gradient plain" in text
    assert "Steps along the gradient as it is, long where it is steep, from each face" in text
    assert "equal length" not in text


def of_classifier() -> Document:
    body = images()
    body["data"] = {**body["data"], "classes": ["smiling", "serious"], "others": 0}
    by_value = body["detector"]["by_value"]
    body["detector"] = {
        **body["detector"],
        "name": "smiles.onnx",
        "by_class": {"smiling": by_value, "serious": by_value},
        "false_alarms": None,
    }
    body["seconds"] = {"total": 93.1, "parts": []}
    document = from_dict(body, ImagesDocument)
    return {**body, "verdict": verdict(document), "sentences": sentences(document)}


def test_a_classifier_is_not_called_a_detector() -> None:
    text = words(render_images(of_classifier()))
    for expected in (
        "Classifier smiles.onnx",
        "the classifier’s own head",
        "Inside the classifier",
    ):
        assert expected in text
    assert "that the classifier judges differently" in text
    assert "detector" not in text.lower()
    assert "faces found" not in text


def test_small_pictures_keep_their_pixels() -> None:
    html = rendered(images)
    assert "image-rendering: pixelated" in html
    assert html.count(f'src="{SRC}"') == 5


@pytest.mark.parametrize(
    ("shuffled", "seen", "message"),
    [
        (207, 200, "Verdicts change, but as often with a change that is not about gender"),
        (100, 23, "Verdicts change, but mostly where no other network sees gender change"),
        (100, 200, "Verdicts that change with gender were found"),
    ],
)
def test_the_headline_says_no_more_than_the_controls_allow(
    shuffled: int, seen: int, message: str
) -> None:
    body = changed(images, pairs=[], interpretation=None, repair=None)
    control = search("adf", "ADF", shuffled)
    body["generation"][0]["controls"]["shuffled_labels"] = {
        name: control[name] for name in body["generation"][0]["controls"]["shuffled_labels"]
    }
    body["generation"][0]["seen_by_independent"] = share(seen, 215)
    assert message in Page(render_images(body)).text


def interrupted_early() -> Document:
    return changed(
        images,
        interpretation=None,
        repair=None,
        generation=[],
        pairs=[],
        controls=[],
        sentences=[],
        messages=[],
        partial=True,
        stopped="It ended while the network was interpreted.",
    )


def without_controls() -> Document:
    body = changed(
        images,
        controls=[],
        generation=[{**search("adf", "ADF", 7), "controls": {}, "seen_by_independent": None}],
    )
    body["repair"] = {**body["repair"], "without_idis": None, "compared": None}
    body["interpretation"]["layers"] = [
        {**layer, "controls": {}} for layer in body["interpretation"]["layers"]
    ]
    body["pairs"][0]["independent"] = None
    return body


def interrupted_repair() -> Document:
    body = changed(images, pairs=[])
    body["detector"]["false_alarms"] = None
    body["repair"] = {**body["repair"], "without_idis": None, "after": None, "compared": None}
    return body


def nothing_found() -> Document:
    return changed(images, generation=[search("adf", "ADF", 0)], pairs=[], repair=None)


def many_layers() -> Document:
    body = images()
    layer = body["interpretation"]["layers"][1]
    body["interpretation"]["layers"] += [
        {**layer, "name": f"conv{place}", "auc": place / 1000} for place in range(20)
    ]
    return body


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (interrupted_early, "It ended while the network was interpreted."),
        (interrupted_early, "No control was run."),
        (
            without_controls,
            "it is unknown how much of the change comes from more training alone",
        ),
        (interrupted_repair, "The audit ended before the repair was measured."),
        (nothing_found, "No verdict that changes with gender was found"),
        (many_layers, "Of 22 layers, these 12 react most."),
    ],
)
def test_images_documents_with_less_or_more_in_them_are_shown_too(
    make: Callable[[], Document], message: str
) -> None:
    page = Page(render_images(make()))
    assert message in page.text
    assert page.open == []
