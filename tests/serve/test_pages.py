"""The pages say what the documents hold, in every kind of run, and texts stay texts."""

from __future__ import annotations

import html
import io
import json
import os
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from fairprobe.images.run import ImagesRun
from fairprobe.report import html as renderer
from fairprobe.report.formats import percent
from fairprobe.report.markdown import markdown
from fairprobe.results import encode, to_dict
from fairprobe.runs.kinds import report_of
from fairprobe.runs.store import read_run, read_table_run
from fairprobe.scenes.detectors.base import Detection
from fairprobe.scenes.examples import OriginalSize, SceneAnswers
from fairprobe.serve.index import chosen, line_of
from fairprobe.serve.places import runs_below
from fairprobe.table.evidence import bias_audit
from tests.image_runs import images, with_texts
from tests.present.test_report import EVIL
from tests.present.test_report import with_texts as with_table_texts
from tests.present.test_report_documents import document
from tests.scene_runs import scenes_run

FIRST = re.compile(r'<th scope="row"><a href="/run/([^"]+)"')


def listed(client: TestClient, query: str = "") -> list[str]:
    return FIRST.findall(client.get(f"/{query}").text)


# -- runs ------------------------------------------------------------------------------------------


def test_the_list_has_every_kind_of_run(client: TestClient, runs: Path) -> None:
    text = client.get("/").text
    assert sorted(listed(client)) == sorted(place.name for place in runs_below(runs))
    for kind in ("Table", "Repair", "Images", "Scenes"):
        assert f'<td data-title="Kind">{kind}</td>' in text
    people = read_table_run(runs / "credit").people
    assert percent(people.estimate) in text


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("?words=german+GENDER", ["credit"]),
        ("?kind=images", ["faces"]),
        ("?words=nothing-like-it", []),
        (
            "?sort=name&order=asc",
            ["below/street", "credit", "faces", "repaired"],
        ),
        (
            "?sort=name&order=desc",
            ["repaired", "faces", "credit", "below/street"],
        ),
    ],
)
def test_the_list_is_searched_and_sorted(client: TestClient, query: str, names: list[str]) -> None:
    assert listed(client, query) == names


@pytest.mark.parametrize(
    "query",
    ["?page=0", "?page=-3", "?page=²", "?page=99999999999999999999", "?sort=nothing", "?order=x"],
)
def test_an_odd_address_is_answered_with_what_is_there(client: TestClient, query: str) -> None:
    assert len(listed(client, query)) == 4


def test_runs_without_a_number_come_last_whatever_the_order(runs: Path) -> None:
    lines = [line_of(place) for place in runs_below(runs)]
    for descending in (False, True):
        some = chosen(lines, sort="accuracy", descending=descending)
        known = [line.accuracy.estimate for line in some if line.accuracy.estimate is not None]
        assert known == sorted(known, reverse=descending)
        assert all(line.accuracy.estimate is None for line in some[len(known) :])


def test_a_run_that_changes_is_read_again_and_one_that_goes_is_gone(
    client: TestClient, runs: Path
) -> None:
    client.get("/")
    body = document()
    body["data"]["title"] = "Another title"
    (runs / "repaired" / "audit.json").write_text(json.dumps(body), encoding="utf-8")
    (runs / "faces" / "audit.json").unlink()
    text = client.get("/").text
    assert "Another title" in text
    assert "faces" not in listed(client)


def test_a_damaged_run_says_so_and_spoils_nothing(client: TestClient, runs: Path) -> None:
    (runs / "faces" / "audit.json").write_text('{"format": 3, "kind": "images"', encoding="utf-8")
    text = client.get("/").text
    assert "damaged" in text
    assert len(listed(client)) == 3
    assert client.get("/run/faces").status_code == 400


def test_a_search_of_the_page_gets_the_list_alone(client: TestClient) -> None:
    part = client.get("/?words=credit", headers={"hx-request": "true"}).text
    assert "<html" not in part
    assert FIRST.findall(part) == ["credit"]


# -- a run -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["credit", "repaired", "faces", "below/street"])
def test_every_run_has_its_report_inside_the_dashboard(client: TestClient, name: str) -> None:
    head, whole = client.get(f"/run/{name}"), client.get(f"/report/{name}")
    assert head.status_code == whole.status_code == 200
    assert 'aria-label="This run"' in head.text
    assert "<h2" in whole.text
    assert "loads nothing and" not in whole.text  # said by the file, and not true here


def test_a_new_section_of_the_report_is_in_the_dashboard_at_once(
    client: TestClient, runs: Path
) -> None:
    """The dashboard extends the report's template: every section of the file is on its page."""
    file = renderer.page(report_of(read_run(runs / "credit")))
    page = client.get("/report/credit").text
    sections = re.findall(r'<section id="(\w+)"', file)
    assert len(sections) >= 6
    assert re.findall(r'<section id="(\w+)"', page) == sections


def test_exports_are_made_from_the_validated_document(client: TestClient, runs: Path) -> None:
    (runs / "credit" / "report.html").write_text("<script>evil()</script>", encoding="utf-8")
    run = read_table_run(runs / "credit")
    for file, text in {
        "report.html": renderer.page(report_of(run)),
        "audit.json": encode(run).decode(),
        "card.md": markdown(report_of(run)),
        "bias-audit.md": markdown(bias_audit(run)),
    }.items():
        answer = client.get(f"/export/credit?file={file}")
        assert answer.text == text
        assert answer.headers["content-disposition"].startswith("attachment;")
    for file in ("findings.parquet", "../credit/audit.json", "model/weights.safetensors", ""):
        assert client.get(f"/export/credit?file={file}").status_code == 404


def test_only_tables_have_cards(client: TestClient) -> None:
    assert client.get("/export/faces?file=audit.json").status_code == 200
    assert client.get("/export/faces?file=card.md").status_code == 404


def street() -> dict[str, Any]:
    return to_dict(scenes_run())


@pytest.mark.parametrize(
    ("name", "make"), [("credit", document), ("faces", images), ("below/street", street)]
)
def test_texts_of_a_document_stay_texts_on_every_page(
    client: TestClient, runs: Path, name: str, make: Callable[[], dict[str, Any]]
) -> None:
    change = with_table_texts if make is document else with_texts
    body = change(make(), lambda text: EVIL + text if text else text)
    (runs / name / "audit.json").write_text(json.dumps(body), encoding="utf-8")
    pages = [
        "/",
        f"/run/{name}",
        f"/report/{name}",
        f"/compare?run={name}&run=repaired",
        f"/repair/{name}",
        f"/pictures/{name}",
    ]
    for page in pages:
        text = client.get(page).text
        assert EVIL not in text, page
        assert "<script>" not in text
        assert "<img src=x" not in text


def test_a_hostile_name_of_a_run_stays_a_name(client: TestClient, runs: Path) -> None:
    (runs / "faces").rename(runs / '"><img src=x onerror=alert(1)>&?#')
    text = client.get("/").text
    assert "<img src=x" not in text
    (link,) = [name for name in listed(client) if "img" in name]
    assert client.get(f"/run/{link}").status_code == 200


# -- compare ---------------------------------------------------------------------------------------


def test_two_runs_stand_side_by_side_with_what_changed(client: TestClient, runs: Path) -> None:
    before = json.loads((runs / "credit" / "audit.json").read_text(encoding="utf-8"))
    after = {**before, "created": "2999-01-01T00:00:00+00:00"}
    people = before["people"]
    after["people"] = {**people, "hits": 0, "estimate": 0.0, "low": 0.0, "high": 0.004}
    (runs / "after").mkdir()
    (runs / "after" / "audit.json").write_text(json.dumps(after), encoding="utf-8")
    text = client.get("/compare?run=after&run=credit").text
    row = next(part for part in text.split("<tr>") if "people in the data affected" in part)
    assert percent(people["estimate"]) in row  # the older run first
    assert row.index(percent(people["estimate"])) < row.index(percent(0.0))
    assert 'class="better"' in row


def test_runs_about_other_data_are_shown_without_a_difference(client: TestClient) -> None:
    text = client.get("/compare?run=credit&run=repaired").text
    assert "without a difference" in text
    assert "What changed" not in text


@pytest.mark.parametrize("query", ["", "?run=credit", "?run=credit&run=faces&run=repaired"])
def test_two_runs_are_compared_not_one_or_three(client: TestClient, query: str) -> None:
    answer = client.get(f"/compare{query}")
    assert answer.status_code == 400
    assert "Tick two" in answer.text


def test_a_repair_is_compared_with_its_proof(client: TestClient, runs: Path) -> None:
    body = document()
    body["created"] = "2000-01-01T00:00:00+00:00"
    (runs / "before").mkdir()
    (runs / "before" / "audit.json").write_text(json.dumps(body), encoding="utf-8")
    text = client.get("/compare?run=before&run=repaired").text
    assert '<section id="repair"' in text


# -- pictures --------------------------------------------------------------------------------------


def test_without_the_file_of_pairs_the_page_of_pictures_says_what_is_missing(
    client: TestClient,
) -> None:
    for name, file in (("faces", "findings.npz"), ("below/street", "tests.csv")):
        answer = client.get(f"/pictures/{name}")
        assert answer.status_code == 400
        assert f"has no {file}" in answer.text


def test_a_table_has_no_pictures_and_pictures_have_no_findings(client: TestClient) -> None:
    for page in ("/pictures/credit", "/findings/faces", "/what-if/below/street", "/repair/faces"):
        assert client.get(page).status_code == 400


def face_pairs(count: int = 30) -> dict[str, Any]:
    """Findings of an audit of images: pictures of one color each."""
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 255, (count, 3, 4, 4), dtype=np.uint8)
    return {
        "rows": np.arange(count),
        "values": np.arange(count) % 2,
        "labels": np.stack([np.zeros(count, int), np.arange(count) // 20], axis=1),
        "probabilities": np.full((count, 2), 0.75, np.float32),
        "strict": np.arange(count) >= 5,
        "without": pictures,
        "with": 255 - pictures,
    }


def write_pairs(runs: Path, changes: dict[str, Any] | None = None) -> dict[str, Any]:
    arrays, body = face_pairs() | (changes or {}), images()
    body["data"]["values"].append({"name": "Male", "images": 700, "held_out": 210})
    (runs / "faces" / "audit.json").write_text(json.dumps(body), encoding="utf-8")
    document = read_run(runs / "faces")
    assert isinstance(document, ImagesRun)
    named = {
        f"{each.method}_{name}": array[: 0 if place else None]
        for place, each in enumerate(each for each in document.generation if not each.is_control)
        for name, array in arrays.items()
    }
    np.savez_compressed(runs / "faces" / "findings.npz", **named)
    return arrays


def test_every_pair_of_the_run_folder_is_in_the_grid(client: TestClient, runs: Path) -> None:
    arrays = write_pairs(runs)
    first, second = (client.get(f"/pictures/faces?page={page}").text for page in (1, 2))
    assert "<b>30 pairs</b>" in first
    sources = [re.findall(r'<img src="(/picture/[^"]+)"', page) for page in (first, second)]
    assert [len(each) for each in sources] == [48, 12]
    place = int(re.findall(r"place=(\d+)", sources[0][0])[0])
    assert arrays["strict"][place]  # those that count strictly come first
    shown = client.get(sources[0][0].replace("&amp;", "&"))
    pixels = np.asarray(Image.open(io.BytesIO(shown.content))).transpose(2, 0, 1)
    assert (pixels == arrays["without"][place]).all()
    classes = images()["data"]["classes"]
    kept = client.get("/pictures/faces", params={"class": "Male"}).text
    assert "<b>15 pairs</b> of 30" in kept
    verdict = {"verdict": f"{classes[0]} → {classes[1]}"}
    assert "<b>10 pairs</b> of 30" in client.get("/pictures/faces", params=verdict).text
    for query in (
        "place=99&method=neuronfair&side=with",
        "place=0&method=../x&side=with",
        "place=0&method=neuronfair&side=__class__",
        *("place=0", "place=-1", "place=x", "test=0", ""),
    ):
        assert client.get(f"/picture/faces?{query}").status_code == 404


@pytest.mark.parametrize(
    "changes",
    [
        {"labels": np.full((30, 2), 99)},
        {"labels": np.full((30, 2), -1)},
        {"values": np.full(30, 99)},
        {"strict": np.ones(3, bool)},
        {"rows": np.array([{}] * 30, dtype=object)},
    ],
)
def test_damaged_pairs_are_a_sentence(client: TestClient, runs: Path, changes: Any) -> None:
    write_pairs(runs, changes)
    answer = client.get("/pictures/faces")
    assert answer.status_code == 400
    assert "damaged" in answer.text


def test_all_pairs_of_scenes_have_boxes_and_are_found_by_class_and_verdict(
    client: TestClient, runs: Path
) -> None:
    place = runs / "below" / "street"
    (place / "pictures").mkdir()
    Image.new("RGB", (60, 40)).save(place / "pictures" / "a.png")
    head = "detector,scene,operator,label,kind,repeat,objects,image,original,found,truth"
    seen, found = '"{""car"": 1, ""<i>"": 1}"', '"{""bus"": 1}"'
    rows = [
        f"toy,street,delete,car,ood,0,1,pictures/a.png,{seen},{found},{{}}",
        f"toy,street,rotate,dog,ood,0,1,pictures/a.png,{seen},{seen},{{}}",
    ]
    (place / "tests.csv").write_text("\n".join([head, *rows]), encoding="utf-8")
    size = OriginalSize(picture="0.jpg", width=60, height=40)
    boxes = {name: _object(name, 5.0 * n) for n, name in enumerate(("car", "<i>", "bus"))}
    answers = SceneAnswers(
        sizes={"street": size},
        originals={"toy": {"street": [boxes["car"], boxes["<i>"]]}},
        mutants={"toy": {"pictures/a.png": [boxes["bus"]]}},
    )
    with zipfile.ZipFile(place / "pairs.zip", "w") as file:
        file.writestr("answers.json", msgspec.json.encode(answers))
        file.writestr("0.jpg", b"a picture")
    page = client.get("/pictures/below/street", params={"class": "bus"})
    assert "1 pair" in page.text
    assert "Of other classes lost: 1 × &lt;i&gt; and new: 1 × bus." in page.text
    assert page.text.count('<svg class="boxes"') == 2
    kinds = re.findall(r'class="box ([a-z ]+)"', page.text)
    assert sorted(kinds) == ["lost", "lost", "mutated", "new"]
    assert "<title>&lt;i&gt; 0.90</title>" in page.text
    assert "<i>" not in page.text
    source = re.search(r'<img src="(/picture/[^"]+side=original)"', page.text)
    assert source
    assert client.get(html.unescape(source[1])).content == b"a picture"
    mutant = html.unescape(source[1]).replace("original", "mutant")
    assert client.get(mutant).content == (place / "pictures" / "a.png").read_bytes()
    for query in ("test=2&side=mutant", "test=0&side=x", "test=-1", "place=0&side=with", ""):
        assert client.get(f"/picture/below/street?{query}").status_code == 404
    assert "1 pair" in client.get("/pictures/below/street?verdict=others+unchanged").text
    hostile = f"toy,street,delete,car,control,0,1,../../secret.png,{seen},{found},{{}}"
    Image.new("RGB", (6, 4)).save(runs / "secret.png")
    (place / "tests.csv").write_text("\n".join([head, hostile]), encoding="utf-8")
    os.utime(place / "audit.json")
    assert client.get("/pictures/below/street").status_code == 400
    assert client.get("/picture/below/street?test=0&side=mutant").status_code == 400
    (place / "pairs.zip").write_bytes(b"no zip")
    os.utime(place / "audit.json")
    assert "damaged" in client.get("/pictures/below/street").text


def _object(label: str, left: float) -> Detection:
    return Detection(label=label, score=0.9, box=(left, 2.0, left + 4, 9.0))


def test_the_page_of_an_unknown_kind_of_run_says_so(client: TestClient, runs: Path) -> None:
    (runs / "letters").mkdir()
    body = {"kind": "letters", "format": 9, "title": "<b>"}
    (runs / "letters" / "audit.json").write_text(json.dumps(body), encoding="utf-8")
    assert "Unreadable" in client.get("/").text
    for page in ("run", "report", "findings", "what-if", "pictures"):
        answer = client.get(f"/{page}/letters")
        assert answer.status_code in (400, 404), page
        assert "<b>" not in answer.text.partition("<main")[2].replace("<b></b>", "")
    assert "letters" in client.get("/run/letters").text
