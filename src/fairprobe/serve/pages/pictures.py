"""Pictures: a grid of pairs, filtered by class and verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from fairprobe.errors import SettingError
from fairprobe.images.run import ImagesRun
from fairprobe.report import Pair, Picture, Side
from fairprobe.report.formats import listed, percent
from fairprobe.scenes.audit import ScenesRun
from fairprobe.scenes.examples import OriginalPicture, facing_pictures
from fairprobe.serve.albums import FoundPair, SceneTest
from fairprobe.serve.desk import address, answer, is_part, part, run_of
from fairprobe.serve.opened import OpenRun
from fairprobe.serve.pages.run import links

PAGE = 24  # pairs on a page
SIDES = ("without", "with")
KINDS_OF_TESTS = {"ood": "mutant", "control": "control"}


@dataclass(frozen=True)
class Entry:
    """A pair as the filters see it, by its classes and verdict; `make` builds what is shown."""

    groups: tuple[str, ...]
    verdict: str
    make: Callable[[], Pair]


def show(request: Request) -> Response:
    """Show a page of the grid."""
    run, given = run_of(request), request.query_params
    entries = _entries(run)
    group, verdict = given.get("class", ""), given.get("verdict", "")
    some = [
        entry
        for entry in entries
        if (not group or group in entry.groups) and (not verdict or entry.verdict == verdict)
    ]
    number = given.get("page", "1")
    pages = max(1, -(-len(some) // PAGE))
    page = min(max(int(number[:9]), 1), pages) if number.isascii() and number.isdigit() else 1
    shown = {
        **links(run),
        "active": "runs",
        "pairs": [entry.make() for entry in some[(page - 1) * PAGE : page * PAGE]],
        "matching": len(some),
        "total": len(entries),
        "groups": sorted({group for entry in entries for group in entry.groups}),
        "verdicts": sorted({entry.verdict for entry in entries}),
        "group": group,
        "verdict": verdict,
        "page": page,
        "pages": pages,
        "is_scene": isinstance(run.document, ScenesRun),
    }
    if is_part(request):
        return HTMLResponse(part("pictures_page.html.j2", "list", **shown))
    return answer(request, "pictures_page.html.j2", **shown)


def _entries(run: OpenRun) -> list[Entry]:
    if isinstance(run.document, ImagesRun):
        return [
            Entry((pair.value,), " → ".join(pair.labels), partial(_of_images, run, pair))
            for pair in run.image_album.pairs
        ]
    if isinstance(run.document, ScenesRun):
        return [
            Entry(
                tuple(sorted({test.label, *test.lost, *test.new})),
                test.verdict,
                partial(_of_scenes, run, number, test),
            )
            for number, test in enumerate(run.scene_album.tests)
        ]
    raise SettingError(f"'{run.name}' has no pictures. Choose an audit of images or of scenes.")


def _of_images(run: OpenRun, pair: FoundPair) -> Pair:
    """Show a picture with and without the change of the attribute."""
    document = run.document
    assert isinstance(document, ImagesRun)
    sides: list[Side] = []
    for side, label, probability in zip(SIDES, pair.labels, pair.probabilities, strict=True):
        source = address("picture", run.name, method=pair.method, place=pair.place, side=side)
        said = f"{label}, {percent(probability)}"
        alt = f"{side.capitalize()} the {document.sensitive} change: {said}"
        picture = Picture(source, alt=alt, is_pixelated=True)
        title = f"{side.capitalize()} the change"
        sides.append(Side(title, {}, label, percent(probability), picture=picture))
    strict = "strictly" if pair.is_strict else "loosely: the head does not see the change"
    note = f"Found by {pair.method}; counts {strict}."
    return Pair(f"Picture {pair.row}: {pair.value}", sides[0], sides[1], {}, notes=[note])


def _of_scenes(run: OpenRun, number: int, test: SceneTest) -> Pair:
    """Show the original and the mutant, with what was recognized in them."""
    album = run.scene_album
    width, height = album.size(test)
    original = album.answers.sizes.get(test.scene)
    wide, high = (original.width, original.height) if original else (width, height)
    pictures = facing_pictures(
        OriginalPicture(
            src=address("picture", run.name, test=number, side="original"),
            width=wide,
            height=high,
            detections=album.answers.originals.get(test.detector, {}).get(test.scene, []),
        ),
        OriginalPicture(
            src=address("picture", run.name, test=number, side="mutant"),
            width=width,
            height=height,
            detections=album.answers.mutants.get(test.detector, {}).get(test.image, []),
        ),
        mutated=test.label,
        scene=test.scene,
    )
    sides = [
        Side(title, {}, _counted(counts), picture=picture)
        for title, counts, picture in zip(
            ("Original", "Mutated"), (test.original, test.found), pictures, strict=True
        )
    ]
    notes = [_changed(test), f"{test.detector}; {KINDS_OF_TESTS.get(test.kind, test.kind)}."]
    return Pair(f"{test.scene}, {test.operator} {test.label}", sides[0], sides[1], {}, notes=notes)


def _counted(counts: dict[str, int]) -> str:
    some = [f"{many} × {label}" for label, many in sorted(counts.items()) if many]
    return f"Recognized: {listed(some)}." if some else "Nothing is recognized."


def _changed(test: SceneTest) -> str:
    """Name the changes of classes that were not mutated."""
    changes = [
        f"{verb}: {listed(f'{many} × {label}' for label, many in sorted(counts.items()))}"
        for verb, counts in (("lost", test.lost), ("new", test.new))
        if counts
    ]
    return (
        f"Of other classes {' and '.join(changes)}." if changes else "Other classes are unchanged."
    )


def picture(request: Request) -> Response:
    """Respond with one picture of a pair or of a test."""
    run, given = run_of(request), request.query_params
    number = given.get("test", given.get("place", ""))
    if not (number.isascii() and number.isdigit() and len(number) < 8):
        raise HTTPException(404)
    try:
        kind, content = _content(run, int(number), given)
    except LookupError:
        raise HTTPException(404) from None
    headers = {"cache-control": "private, max-age=3600"}
    return Response(content, media_type=f"image/{kind}", headers=headers)


def _content(run: OpenRun, number: int, given: QueryParams) -> tuple[str, bytes]:
    """Return the type of a picture, and its bytes."""
    side = given.get("side", "")
    if isinstance(run.document, ImagesRun) and "place" in given and side in SIDES:
        return "png", run.image_album.png(given.get("method", ""), number, side)
    if isinstance(run.document, ScenesRun) and "test" in given:
        album, test = run.scene_album, run.scene_album.tests[number]
        if side == "original":
            return "jpeg", album.original(test)
        if side == "mutant":
            return "png", album.mutant(test)
    raise LookupError(side)
