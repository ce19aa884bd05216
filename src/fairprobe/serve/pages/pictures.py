"""Images and scenes: a grid of pairs, filtered by class and verdict."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from fairprobe.errors import SettingError
from fairprobe.images.pairs import ImagePair
from fairprobe.images.run import ImagesRun
from fairprobe.report import Picture
from fairprobe.report.formats import listed, percent
from fairprobe.scenes.audit import ScenesRun
from fairprobe.scenes.examples import (
    Example,
    OriginalPicture,
    example_pictures,
    example_sentence,
    facing_pictures,
)
from fairprobe.serve.albums import (
    VERDICTS,
    FoundPair,
    SceneTest,
    scene_original,
    scene_picture,
    scene_size,
)
from fairprobe.serve.desk import address, answer, is_part, part, run_of
from fairprobe.serve.opened import OpenRun
from fairprobe.serve.pages.run import links

PAGE = 24  # pairs on a page
PICTURE = re.compile(r"data:image/(?:png|jpeg|webp|gif);base64,[A-Za-z0-9+/]+=*")
SIDES_OF_PAIR = ("without", "with")
KINDS_OF_TESTS = {"ood": "mutant", "control": "control"}
KINDS = {"png": "image/png", "jpeg": "image/jpeg", "webp": "image/webp", "gif": "image/gif"}


@dataclass(frozen=True)
class Facing:
    """Two pictures that face each other, and what each is given."""

    number: int
    heading: str
    group: str  # by which classes are filtered
    verdict: str
    sentence: str
    before: Picture
    after: Picture
    details: list[tuple[str, str]]


@dataclass(frozen=True)
class Entry:
    """A pair as the filters see it; what is shown of it is made when its page is. `groups` are the
    classes that it is about.
    """

    groups: tuple[str, ...]
    verdict: str
    make: Callable[[], Facing]


def show(request: Request) -> Response:
    """The grid."""
    run, given = run_of(request), request.query_params
    every = _entries(run)
    group, verdict = given.get("class", ""), given.get("verdict", "")
    some = [
        each
        for each in every
        if (not group or group in each.groups) and (not verdict or each.verdict == verdict)
    ]
    number = given.get("page", "1")
    pages = max(1, -(-len(some) // PAGE))
    page = min(max(int(number[:9]), 1), pages) if number.isascii() and number.isdigit() else 1
    shown = {
        **links(run),
        "active": "runs",
        "pairs": [each.make() for each in some[(page - 1) * PAGE : page * PAGE]],
        "matching": len(some),
        "total": len(every),
        "groups": sorted({group for each in every for group in each.groups}),
        "verdicts": sorted({each.verdict for each in every}),
        "group": group,
        "verdict": verdict,
        "page": page,
        "pages": pages,
        "is_scene": isinstance(run.document, ScenesRun),
        "has_answers": run.scene_answers is not None,
        "is_partial": not run.scene_tests and run.album is None,
    }
    if is_part(request):
        return HTMLResponse(part("pictures_page.html.j2", "list", **shown))
    return answer(request, "pictures_page.html.j2", **shown)


def _entries(run: OpenRun) -> list[Entry]:
    """Every pair of the run folder; without one, those of the document."""
    document = run.document
    if isinstance(document, ImagesRun):
        if run.album is not None:
            return [_found(run, document, pair) for pair in run.album.pairs]
        every = [_of_images(run, document, *each) for each in enumerate(document.pairs)]
        return [Entry((each.group,), each.verdict, partial(_same, each)) for each in every]
    if isinstance(document, ScenesRun):
        tests = [_tested(run, *each) for each in enumerate(run.scene_tests)]
        tests.sort(key=lambda each: VERDICTS.index(each.verdict))
        if run.scene_answers is not None:
            return tests
        shown = [_of_scenes(run, *each) for each in enumerate(document.examples)]
        examples = [Entry((each.group,), each.verdict, partial(_same, each)) for each in shown]
        return examples + tests
    raise SettingError(f"'{run.name}' has no pictures. Choose an audit of images or of scenes.")


def _same(facing: Facing) -> Facing:
    return facing


def _found(run: OpenRun, document: ImagesRun, pair: FoundPair) -> Entry:
    verdict = " → ".join(pair.labels)

    def make() -> Facing:
        before, after = (
            _shot(run, document, side, label, probability, method=pair.method, place=pair.place)
            for side, label, probability in zip(
                SIDES_OF_PAIR, pair.labels, pair.probabilities, strict=True
            )
        )
        strict = "yes" if pair.is_strict else "no: the head does not see the change"
        return Facing(
            pair.place,
            f"Picture {pair.row}: {pair.value}",
            pair.value,
            verdict,
            _says(document, *pair.labels),
            before,
            after,
            [("Found by", pair.method), ("Counts strictly", strict)],
        )

    return Entry((pair.value,), verdict, make)


def _tested(run: OpenRun, number: int, test: SceneTest) -> Entry:
    def make() -> Facing:
        before, after = _sides(run, number, test)
        return Facing(
            number,
            f"{test.scene}, {test.operator} {test.label}",
            test.label,
            test.verdict,
            _changed(test),
            before,
            after,
            [("Recognizer", test.detector), ("Kind", KINDS_OF_TESTS.get(test.kind, test.kind))],
        )

    groups = sorted({test.label, *test.lost, *test.new})
    return Entry(tuple(groups), test.verdict, make)


def _sides(run: OpenRun, number: int, test: SceneTest) -> tuple[Picture, Picture]:
    """The original with what was recognized in it, and the mutant. Runs of older versions have no
    boxes here, and originals only among the report's examples.
    """
    document, answers = run.document, run.scene_answers
    assert isinstance(document, ScenesRun)
    width, height = scene_size(run.place.folder, test)
    source = address("picture", run.name, test=number)
    if answers is not None:
        original = answers.sizes.get(test.scene)
        seen = answers.originals.get(test.detector, {}).get(test.scene, [])
        found = answers.mutants.get(test.detector, {}).get(test.image, [])
        wide, high = (original.width, original.height) if original else (width, height)
        before = address("picture", run.name, test=number, side="original") if original else ""
        first, second = facing_pictures(
            OriginalPicture(src=before, width=wide, height=high, detections=seen),
            OriginalPicture(src=source, width=width, height=height, detections=found),
            mutated=test.label,
            scene=test.scene,
        )
        return first, second
    said, after = _counted(test.original), _counted(test.found)
    first = Picture("", said)
    known = next((each for each in document.examples if each.scene == test.scene), None)
    if known is not None:
        place, picture = document.examples.index(known), known.original
        before = picture.src and address("picture", run.name, pair=place, side="original")
        first = Picture(before, said, f"Original picture of {test.scene}. {said}")
    return first, Picture(source, after, f"Mutated {test.scene}. {after}")


def _counted(counts: dict[str, int]) -> str:
    some = [f"{many} × {label}" for label, many in sorted(counts.items()) if many]
    return f"Recognized: {listed(some)}." if some else "Nothing is recognized."


def _changed(test: SceneTest) -> str:
    """What happened to the classes that were not mutated."""
    said = []
    for words, counts in (("lost", test.lost), ("new", test.new)):
        if counts:
            said.append(f"{words}: {listed(f'{n} × {each}' for each, n in sorted(counts.items()))}")
    return f"Of other classes {' and '.join(said)}." if said else "Other classes are unchanged."


def _of_images(run: OpenRun, document: ImagesRun, number: int, pair: ImagePair) -> Facing:
    without, changed = pair.verdicts["without"], pair.verdicts["with"]
    original = pair.verdicts["original"]
    return Facing(
        number,
        f"Picture {pair.row}: {pair.value}",
        pair.value,
        f"{without.label} → {changed.label}",
        _says(document, without.label, changed.label),
        _shot(run, document, "without", without.label, without.probability, pair=number),
        _shot(run, document, "with", changed.label, changed.probability, pair=number),
        [
            ("Original", f"{original.label}, {percent(original.probability)}"),
            ("The head sees", " → ".join(pair.head)),
            *([("Independent network", " → ".join(pair.independent))] if pair.independent else []),
            ("Found by", pair.method),
        ],
    )


def _shot(
    run: OpenRun,
    document: ImagesRun,
    side: str,
    label: str,
    probability: float,
    **where: Any,
) -> Picture:
    """One side of a pair of pictures, and what the detector answers to it."""
    said = f"{label}, {percent(probability)}"
    what = f"{side.capitalize()} the {document.sensitive} change: {said}"
    source = address("picture", run.name, side=side, **where)
    return Picture(source, said, what, is_pixelated=True)


def _says(document: ImagesRun, without: str, changed: str) -> str:
    return f"With the {document.sensitive} change: {changed} instead of {without}."


def _of_scenes(run: OpenRun, number: int, example: Example) -> Facing:
    sides = [
        replace(
            picture, source=picture.source and address("picture", run.name, pair=number, side=side)
        )
        for side, picture in zip(("original", "with"), example_pictures(example), strict=True)
    ]
    return Facing(
        number,
        f"{example.label}, {example.operator} {example.mutated_label}",
        example.label,
        f"{example.operator} {example.mutated_label}",
        example_sentence(example),
        sides[0],
        sides[1],
        [("Recognizer", example.detector), ("Scene", example.scene)],
    )


def picture(request: Request) -> Response:
    """One picture: of the document, of all pairs that were found, or of a test."""
    run, given = run_of(request), request.query_params
    kinds = [name for name in ("test", "place", "pair") if name in given]
    number = given[kinds[0]] if kinds else ""
    if not (number.isascii() and number.isdigit() and len(number) < 8):
        raise HTTPException(404)
    try:
        kind, content = _content(run, kinds[0], int(number), given)
    except (LookupError, binascii.Error):
        raise HTTPException(404) from None
    headers = {"cache-control": "private, max-age=3600"}
    return Response(content, media_type=KINDS[kind], headers=headers)


def _content(run: OpenRun, kind: str, number: int, given: Mapping[str, str]) -> tuple[str, bytes]:
    """The type of a picture, and its bytes."""
    side = given.get("side", "")
    if kind == "test" and side == "original":
        if run.scene_answers is None:
            raise LookupError(number)
        size = run.scene_answers.sizes[run.scene_tests[number].scene]
        return "jpeg", scene_original(run.place.folder, size)
    if kind == "test":
        return "png", scene_picture(run.place.folder, run.scene_tests[number])
    if kind == "place":
        method = given.get("method", "")
        known = run.album is not None and any(
            (pair.method, pair.place) == (method, number) for pair in run.album.pairs
        )
        if run.album is None or not known or side not in SIDES_OF_PAIR:
            raise LookupError(number)
        return "png", run.album.png(method, number, side)
    ending, text = _source(run.document, number, side)
    return ending, base64.b64decode(text, validate=True)


def _source(document: Any, number: int, side: str) -> tuple[str, str]:
    """The type and the base64 text of a picture."""
    if isinstance(document, ImagesRun):
        return "png", document.pairs[number].pictures[side]
    if isinstance(document, ScenesRun):
        example = document.examples[number]
        source = {"original": example.original, "with": example.mutated}[side].src
        if PICTURE.fullmatch(source):
            head, _, text = source.partition(";base64,")
            return head.rpartition("/")[2], text
    raise LookupError(side)
