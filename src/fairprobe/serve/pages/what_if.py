"""What if: the prediction for a person, and for the same person with other values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from fairprobe.arrays import Floats, Rows
from fairprobe.errors import SettingError
from fairprobe.judgement import judge
from fairprobe.report import Bar, Bars, Block, Plot, Section, Text
from fairprobe.report.formats import listed, one_in, plural
from fairprobe.schema.attributes import Attribute
from fairprobe.serve.desk import address, answer, fill, is_part, run_of
from fairprobe.serve.opened import OpenRun
from fairprobe.serve.pages.run import links
from fairprobe.table.what_if import (
    VALUES,
    Answers,
    ask,
    reactions,
    sensitive_answers,
    shortest_flip,
)

CHOICES = 400  # values of an attribute that are listed; more are typed
NEURONS = 8  # listed by name
DRAWN = 200  # plausible people at a time


@dataclass(frozen=True)
class Field:
    """An attribute in the form: a list to choose from, or a value to type within bounds."""

    attribute: Attribute
    column: int
    value: float
    choices: list[tuple[float, str]]
    is_sensitive: bool
    was: str  # the value of the person that was picked, if it differs


@dataclass(frozen=True)
class Prediction:
    """A decision in words, with all probabilities, the decided class first."""

    label: str
    probability: float
    others: list[tuple[str, float]]
    is_sure: bool
    is_favourable: bool | None


def show(request: Request) -> Response:
    """Show the form and the answer; for a change of the form, the answer alone."""
    run = run_of(request)
    base, row = people_of(run, request.query_params)
    shown = {
        **links(run),
        "active": "runs",
        "document": run.table,
        "codes": ",".join(f"{code:.9g}" for code in base),
        "query": request.query_params,
        **looked_at(run, base, row),
    }
    if is_part(request):
        return HTMLResponse(fill("what_if_part.html.j2", **shown))
    return answer(
        request,
        "what_if.html.j2",
        fields=_fields(run, base, row),
        can_draw=run.has_rows,
        findings=run.table.generation.idis,
        **shown,
    )


def flip(request: Request) -> Response:
    """Find the shortest change that flips the decision, which takes a moment longer."""
    run = run_of(request)
    domain = run.outline.domain
    _, row = people_of(run, request.query_params)
    found = shortest_flip(domain, run.model, row)
    moved: list[tuple[str, str, str]] = []
    if found is not None:
        mine, other = domain.describe(row), domain.describe(found.x)
        moved = [(name, mine[name], other[name]) for name in found.changed]
    link = None
    if found is not None:
        query = {f"a{column}": f"{code:.9g}" for column, code in enumerate(found.x)}
        link = address("what-if", run.name, base=",".join(f"{c:.9g}" for c in row), **query)
    return HTMLResponse(
        fill(
            "flip.html.j2",
            flip=found,
            moved=moved,
            label=None if found is None else run.outline.classes[found.label],
            probability=None if found is None else float(found.probabilities[found.label]),
            changing=listed(domain.changing),
            values=VALUES,
            link=link,
        )
    )


def pick(request: Request) -> Response:
    """Choose another person: a new plausible one, or one whom the search found."""
    run, given = run_of(request), request.query_params
    text = given.get("number", "")
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if given.get("from") == "findings":
        total = len(run.browser)
        if not total:
            raise SettingError("The search found nobody in this run. Pick a plausible person.")
        row = run.browser.pair(int(np.random.default_rng(number).integers(total))).x
    else:
        seed, place = divmod(number, DRAWN)
        row = run.drawn(seed, DRAWN)[place]
    base = ",".join(f"{code:.9g}" for code in row)
    return RedirectResponse(address("what-if", run.name, base=base, number=number), 303)


# -- who it is about -------------------------------------------------------------------------------


def people_of(run: OpenRun, given: QueryParams) -> tuple[Rows, Rows]:
    """Return the person that was picked, and the same with the changes of the form."""
    domain = run.outline.domain
    if text := given.get("base", ""):
        base = _checked(run, [_code(each, "the person") for each in text.split(",")])
    elif text := given.get("row", ""):
        if not (text.isascii() and text.isdigit() and len(text) < 18):
            raise SettingError(f"'{text}' is not the number of a finding.")
        pair = run.browser.pair(int(text))
        base = pair.x_other if given.get("side") == "other" else pair.x
    elif len(run.browser):
        base = run.browser.pair(0).x
    else:
        base = domain.repair(np.rint((domain.low + domain.high) / 2)[None])[0]
    row = base.copy()
    for column, attribute in enumerate(domain.attributes):
        if (text := given.get(f"a{column}", "")) != "":
            row[column] = _code(text, f"'{attribute.name}'")
    return base, _checked(run, row.tolist())


def _code(text: str, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise SettingError(f"'{text[:40]}' is not a number for {what}. Type a number.") from None


def _checked(run: OpenRun, codes: list[float]) -> Rows:
    """Raise SettingError unless every value is within its bounds or the code for a missing one."""
    domain = run.outline.domain
    row: Rows = domain.check([codes], what="person")[0]
    for attribute, code in zip(domain.attributes, row.tolist(), strict=True):
        inside = attribute.low <= code <= attribute.high
        if not inside and (code != attribute.missing or attribute.name in domain.sensitive):
            raise SettingError(
                f"'{attribute.name}' goes from {attribute.describe(attribute.low)} to"
                f" {attribute.describe(attribute.high)}; {code:g} lies outside. Choose a value"
                " within."
            )
    return row


def _fields(run: OpenRun, base: Rows, row: Rows) -> list[Field]:
    domain = run.outline.domain
    fields = []
    for column, attribute in enumerate(domain.attributes):
        choices: list[tuple[float, str]] = []
        is_number = attribute.kind == "integer" and attribute.bin == 1
        if attribute.size is not None and attribute.size <= CHOICES and not is_number:
            codes = np.arange(attribute.low, attribute.high + 1).tolist()
            if attribute.missing is not None and attribute.name not in domain.sensitive:
                codes.append(attribute.missing)
            choices = [(code, attribute.describe(code)) for code in codes]
        was = "" if base[column] == row[column] else attribute.describe(float(base[column]))
        value = float(row[column])
        is_sensitive = attribute.name in domain.sensitive
        fields.append(Field(attribute, column, value, choices, is_sensitive, was))
    return fields


# -- what the model says ---------------------------------------------------------------------------


def looked_at(run: OpenRun, base: Rows, row: Rows) -> dict[str, Any]:
    """Return all that the answer shows, except the shortest flip."""
    domain, model = run.outline.domain, run.model
    values, allowed = sensitive_answers(domain, model, row)
    verdict = judge(domain, model, row[None])
    own = int(domain.own_value(row[None])[0])
    is_changed = bool((base != row).any())
    label = int(verdict.label[0])
    return {
        "prediction": _predicted(run, values, own),
        "was": _predicted(run, ask(model, base[None]), 0) if is_changed else None,
        "edits": [
            (name, mine, now)
            for (name, mine), now in zip(
                domain.describe(base).items(), domain.describe(row).values(), strict=True
            )
            if mine != now
        ],
        "is_discriminatory": bool(verdict.is_discriminatory[0]),
        "has_counterpart": bool(verdict.has_counterpart[0]),
        "obeys": bool(domain.satisfies(row[None])[0]),
        "label": run.outline.classes[label],
        "values": [
            {
                "words": domain.describe_value(place),
                "is_own": place == own,
                "is_allowed": bool(allowed[place]),
                "prediction": _predicted(run, values, place),
                "share": float(values.probabilities[place, label]),
                "differs": int(values.labels[place]) != label,
                "link": _with(run, base, values.x[place]),
            }
            for place in range(domain.value_count)
        ],
        "usual": _usual(run, row),
        "name": listed(domain.sensitive),
        "changing": listed(domain.changing),
        "neurons": _inside(run, base, row, verdict.x_other[0]),
    }


def _predicted(run: OpenRun, answers: Answers, place: int) -> Prediction:
    classes, label = run.outline.classes, int(answers.labels[place])
    p = answers.probabilities[place]
    order = [label, *(each for each in range(len(classes)) if each != label)]
    favourable = run.outline.favourable
    return Prediction(
        classes[label],
        float(p[label]),
        [(classes[each], float(p[each])) for each in order],
        bool(answers.is_sure[place]),
        None if favourable is None else label == favourable,
    )


def _with(run: OpenRun, base: Rows, row: Rows) -> str:
    """Return the address of this page for a changed person."""
    query = {f"a{column}": f"{code:.9g}" for column, code in enumerate(row)}
    return address("what-if", run.name, base=",".join(f"{code:.9g}" for code in base), **query)


def _usual(run: OpenRun, row: Rows) -> str:
    """Say how usual the person is, if the model of people is fitted."""
    people = run.people_if_known
    if people is None:
        return ""
    return (
        f"{one_in(float(people.score(row[None])[0]))} people in the data are at least as unusual."
    )


def _inside(run: OpenRun, base: Rows, row: Rows, other: Rows) -> Section | None:
    """Show the neurons that react to the other sensitive value, and to changes in the form."""
    network = run.network
    if network is None or not network.layers(row[None]):
        return None
    wanted = {f"To another {listed(run.outline.domain.sensitive)}": other}
    if (base != row).any():
        wanted = {"To your change": base, **wanted}
    parts = [
        Section(title, _reaction(reactions(network, row, changed)))
        for title, changed in wanted.items()
    ]
    return Section("Neurons that react", parts)


def _reaction(found: Mapping[str, Floats]) -> list[Block]:
    """Count the neurons that change their value, and name those that change most."""
    changes = [
        (float(value), f"{layer}, neuron {neuron}")
        for layer, values in found.items()
        for neuron, value in enumerate(values)
    ]
    reacting = sorted((change for change in changes if change[0] > 0), key=lambda one: -one[0])
    text = (
        f"{plural(len(reacting), 'neuron')} of {plural(len(changes), 'neuron')} in"
        f" {plural(len(found), 'hidden layer')} change their value."
    )
    bars = [Bar(name, value) for value, name in reacting[:NEURONS]]
    return [Text(text), Plot("Neurons that react most", Bars(bars, "number"))]
