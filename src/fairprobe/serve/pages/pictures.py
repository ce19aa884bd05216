"""Images and scenes: a grid of pairs, filtered by class and verdict."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from fairprobe.documents.images import ImagePair, ImagesDocument
from fairprobe.documents.scenes import Example, ScenesDocument
from fairprobe.errors import SettingError
from fairprobe.present.formats import percent
from fairprobe.present.shots import PICTURE, Shot, shots
from fairprobe.serve.desk import address, answer, is_part, part, run_of
from fairprobe.serve.opened import OpenRun
from fairprobe.serve.pages.run import links

PAGE = 24  # pairs on a page
SIDES: dict[str, Callable[[ImagePair], str]] = {
    "original": lambda pair: pair.pictures.original,
    "without": lambda pair: pair.pictures.without,
    "with": lambda pair: pair.pictures.changed,
    "change": lambda pair: pair.pictures.change,
    "bias": lambda pair: pair.pictures.bias,
}
KINDS = {"png": "image/png", "jpeg": "image/jpeg", "webp": "image/webp", "gif": "image/gif"}


@dataclass(frozen=True)
class Facing:
    """Two pictures that face each other, and what each is given."""

    number: int
    heading: str
    group: str  # by which classes are filtered
    verdict: str
    sentence: str
    before: Shot
    after: Shot
    details: list[tuple[str, str]]


def show(request: Request) -> Response:
    """The grid."""
    run, given = run_of(request), request.query_params
    every = _facing(run)
    group, verdict = given.get("class", ""), given.get("verdict", "")
    some = [
        each
        for each in every
        if (not group or each.group == group) and (not verdict or each.verdict == verdict)
    ]
    number = given.get("page", "1")
    pages = max(1, -(-len(some) // PAGE))
    page = min(max(int(number[:9]), 1), pages) if number.isascii() and number.isdigit() else 1
    shown = {
        **links(run),
        "active": "runs",
        "pairs": some[(page - 1) * PAGE : page * PAGE],
        "matching": len(some),
        "total": len(every),
        "groups": sorted({each.group for each in every}),
        "verdicts": sorted({each.verdict for each in every}),
        "group": group,
        "verdict": verdict,
        "page": page,
        "pages": pages,
        "is_scene": isinstance(run.document, ScenesDocument),
    }
    if is_part(request):
        return HTMLResponse(part("pictures_page.html.j2", "list", **shown))
    return answer(request, "pictures_page.html.j2", **shown)


def _facing(run: OpenRun) -> list[Facing]:
    document = run.document
    if isinstance(document, ImagesDocument):
        return [_of_images(run, document, *each) for each in enumerate(document.pairs)]
    if isinstance(document, ScenesDocument):
        return [_of_scenes(run, *each) for each in enumerate(document.examples)]
    raise SettingError(f"'{run.name}' has no pictures. Choose an audit of images or of scenes.")


def _of_images(run: OpenRun, document: ImagesDocument, number: int, pair: ImagePair) -> Facing:
    without, changed = pair.verdicts.without, pair.verdicts.changed
    width, height = document.data.width, document.data.height

    def shot(side: str, what: str, label: str, probability: float) -> Shot:
        source = address("picture", run.name, pair=number, side=side)
        said = f"{label}, {percent(probability)}"
        return Shot(source, f"{what}: {said}", width, height, Markup(), said)

    original = pair.verdicts.original
    return Facing(
        number,
        f"Picture {pair.row}: {pair.value}",
        pair.value,
        f"{without.label} → {changed.label}",
        f"With the {document.sensitive} change: {changed.label} instead of {without.label}.",
        shot(
            "without",
            f"Without the {document.sensitive} change",
            without.label,
            without.probability,
        ),
        shot("with", f"With the {document.sensitive} change", changed.label, changed.probability),
        [
            ("Original", f"{original.label}, {percent(original.probability)}"),
            ("The head sees", " → ".join(pair.head)),
            *([("Independent network", " → ".join(pair.independent))] if pair.independent else []),
            ("Found by", pair.method),
        ],
    )


def _of_scenes(run: OpenRun, number: int, example: Example) -> Facing:
    before, after = shots(example)
    sides = [
        replace(shot, src=shot.src and address("picture", run.name, pair=number, side=side))
        for side, shot in (("original", before), ("with", after))
    ]
    return Facing(
        number,
        f"{example.label}, {example.operator} {example.mutated_label}",
        example.label,
        f"{example.operator} {example.mutated_label}",
        example.sentence,
        sides[0],
        sides[1],
        [("Recognizer", example.detector), ("Scene", example.scene)],
    )


def picture(request: Request) -> Response:
    """One picture of a pair, out of the document."""
    run, given = run_of(request), request.query_params
    number, side = given.get("pair", ""), given.get("side", "")
    if not (number.isascii() and number.isdigit() and len(number) < 8):
        raise HTTPException(404)
    try:
        kind, text = _source(run.document, int(number), side)
        content = base64.b64decode(text, validate=True)
    except (LookupError, binascii.Error):
        raise HTTPException(404) from None
    headers = {"cache-control": "private, max-age=3600"}
    return Response(content, media_type=KINDS[kind], headers=headers)


def _source(document: Any, number: int, side: str) -> tuple[str, str]:
    """The type and the base64 text of a picture."""
    if isinstance(document, ImagesDocument):
        return "png", SIDES[side](document.pairs[number])
    if isinstance(document, ScenesDocument):
        example = document.examples[number]
        source = {"original": example.original, "with": example.mutated}[side].src
        if PICTURE.fullmatch(source):
            head, _, text = source.partition(";base64,")
            return head.rpartition("/")[2], text
    raise LookupError(side)
