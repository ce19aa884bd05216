"""The report of an audit on pictures: never more than its controls allow."""

from __future__ import annotations

from collections.abc import Iterator

from fairprobe.images.controls import CHANGES, RANDOM_SIGNS, SHUFFLED_LABELS
from fairprobe.images.report_parts import (
    cell,
    hits_of,
    inside_section,
    mean,
    pairs_section,
    repair_section,
    searches_section,
    share,
)
from fairprobe.images.run import FORMAT, ImageGeneration, ImagesRun
from fairprobe.images.settings import Expected
from fairprobe.report import (
    Bar,
    Bars,
    Notes,
    Number,
    Plot,
    Section,
    Table,
    Terms,
    Text,
    Verdict,
)
from fairprobe.report.formats import (
    count,
    date,
    level,
    percent,
    plain,
    plural,
    ratio,
    seconds,
    size,
)
from fairprobe.report.run import method, reproduction
from fairprobe.results import Rate
from fairprobe.runs.kinds import Kind

MOSTLY = 0.5  # below this share of pairs, an independent network mostly sees no change
HARDLY = 1.1  # times the accuracy of guessing


def report(run: ImagesRun) -> Section:
    """Build the report of an audit on pictures. What an interrupt left out is not there."""
    subject = "" if run.target is None else f": classifier of {run.target}"
    return Section(
        f"{run.data.name}{subject}, by {run.sensitive}",
        [
            Terms(_facts(run)),
            _summary(run),
            _controls(run),
            pairs_section(run),
            searches_section(run),
            inside_section(run),
            repair_section(run),
            _method(run),
            reproduction(run),
        ],
        eyebrow="Fairness audit on pictures",
    )


KIND = Kind(name="images", title="images", format=FORMAT, run=ImagesRun, report=report)


def expected_lines(expected: Expected) -> list[str]:
    """Tell before an audit how the network is divided, and what the audit takes."""
    parts, forecast = expected.parts, expected.forecast
    cost = (
        f"The audit takes at most about {plain(seconds(forecast.seconds))} of one core, and about"
        f" {plain(size(forecast.bytes))} of memory besides Python and torch."
    )
    if (parts.trunk, parts.head) == ("trunk", "head"):  # as every detector of ours
        return [cost]
    kind = " It computes attention." if parts.attends else ""
    how = "" if not parts.is_found else " Found by watching it; --trunk or --head changes that."
    return [f"{expected.name}: {parts.says}.{how}{kind}", cost]


# -- the verdict -----------------------------------------------------------------------------------


def _facts(run: ImagesRun) -> dict[str, str]:
    data, parts = run.data, run.detector.parts
    others = f" and {count(data.others)} without a face" if run.is_detector else ""
    named = {"trunk up to": parts.trunk, "head from": parts.head}
    divided = ", ".join(f"{what} ‘{name}’" for what, name in named.items() if name is not None)
    layers = run.interpretation.layers if run.interpretation else []
    has_tokens = any(layer.layout == "tokens" for layer in layers)
    kind = "a vision transformer" if has_tokens else "computes attention"
    return {
        "Date": date(run.created),
        "Pictures": f"{data.name}, {plural(data.faces, 'face')}{others},"
        f" {data.width} × {data.height} pixels",
        run.network.capitalize(): run.detector.name,
        "Divided": f"{divided}{' (found)' * parts.is_found}{f'; {kind}' * parts.attends}",
        "Seed": str(run.seed),
    }


def _summary(run: ImagesRun) -> Section:
    return Section(
        "Verdict",
        [
            _verdict(run),
            Text(run.stopped or "", "warning"),
            *_numbers(run),
            _success_plot(run),
            Notes([*_useless(run), *_groups(run)]),
        ],
        level="summary",
    )


def is_matched(found: ImageGeneration) -> bool:
    """Return True if a change that cannot know the attribute finds as many pairs, as far as the
    intervals can tell, in either count.
    """
    own, control = found.found.own, found.found.controls.get(SHUFFLED_LABELS)
    return control is not None and (
        control.strict.success.high >= own.strict.success.low
        or control.loose.success.high >= own.loose.success.low
    )


def is_unseen(search: ImageGeneration) -> bool:
    """Return True if an independent network sees no change of the attribute in most pairs."""
    seen = search.found.own.seen_by_independent
    return seen is not None and seen.estimate < MOSTLY


def _verdict(run: ImagesRun) -> Verdict:
    """Judge what the searches found, and whether that can be about the sensitive attribute."""
    name, best = run.sensitive, run.best_search
    kind = run.network if run.target is None else f"{run.network} of {run.target}"
    if best is None and run.stopped is not None:
        text = "The audit was interrupted before any search began, so no pairs are known."
        return Verdict("The audit ended before any search", text)
    if best is None:
        text = (
            f"A change of {run.change.cap:g} did not flip the attribute head's opinion on {name}"
            " for any face, so there was nothing to search. A larger change (--set epsilon, cap)"
            " may flip it."
        )
        return Verdict(f"Nothing to search: no face’s {name} could be flipped", text)
    strict, loose = best.found.own.strict.idis, best.found.own.loose.idis
    if loose == 0:
        text = (
            f"No differing pair was found: from {count(best.seeds)} faces, the change of {name}"
            f" never changed the verdict of the {kind}. This is evidence, not a certificate."
        )
        return Verdict(f"No verdict that changes with {name} was found", text, "none")
    if strict == 0:
        text = (
            f"No pair counts: {best.title} turns {count(loose)} of {count(best.seeds)} faces into"
            f" pairs that the {kind} judges differently, but where the search ended the attribute"
            f" head sees no change of {name} in any of them."
        )
        headline = f"Verdicts change, but nowhere where the attribute head sees {name} change"
        return Verdict(headline, text, "none")
    headline = f"Verdicts that change with {name} were found"
    if is_matched(best):
        headline = f"Verdicts change, but as often with a change that is not about {name}"
    elif is_unseen(best):
        headline = f"Verdicts change, but mostly where no other network sees {name} change"
    text = (
        f"{best.title} turns {count(strict)} of {count(best.seeds)} faces into pairs (image IDIs)"
        f" that the {kind} judges differently when the change of {name} is added, and in which the"
        f" attribute head sees {name} change. Counted loosely, as in the paper, there are"
        f" {count(loose)}: there the head need only see the change before the search."
        f" {_meaning(run, best)}"
    )
    return Verdict(headline, text, "found")


def _meaning(run: ImagesRun, search: ImageGeneration) -> str:
    """Tell what the controls leave of a finding."""
    name, seen = run.sensitive, search.found.own.seen_by_independent
    control = search.found.controls.get(SHUFFLED_LABELS)
    if control is None or seen is None:
        return (
            "Without all controls, such pairs cannot be told apart from faces near the decision"
            f" boundary, whatever their {name}."
        )
    sees = f"an independent network sees {name} change in {plain(share(seen))} of the pairs"
    finds = f"a change that knows nothing about {name} finds"
    shuffled = hits_of(control.strict.success)
    if is_matched(search):
        return f"Image IDIs mostly lie near the decision boundary: {finds} {shuffled}, and {sees}."
    if is_unseen(search):
        return (
            f"Image IDIs mostly lie near the decision boundary: {finds} fewer, {shuffled}, but"
            f" {sees}."
        )
    return (
        f"That is more than nearness to the decision boundary: {finds} fewer, {shuffled}, and"
        f" {sees}."
    )


def _numbers(run: ImagesRun) -> Iterator[Number]:
    """List the accuracy of the network, the pairs of the best search, and what the repair left."""
    best, repair = run.best_search, run.repair
    where = "trained here" if run.detector.trained_here else "as it was given"
    accuracy = run.detector.quality.accuracy
    yield Number(accuracy, label="Correct answers on held-out pictures", detail=where)
    if best is not None:
        found = best.found
        shares = {CHANGES[key]: one.strict for key, one in found.controls.items()}
        shares |= {
            search.title: search.found.own.strict for search in run.generation if search.is_control
        }
        controls = [f"{name} {share(one.success)}" for name, one in shares.items()]
        loosely = f"loosely counted {share(found.own.loose.success)}"
        label = f"Faces with a pair, {best.title}"
        yield Number(found.own.strict.success, label=label, detail="; ".join([loosely, *controls]))
        if (seen := found.own.seen_by_independent) is not None:
            label = f"Pairs in which an independent network sees {run.sensitive} change"
            yield Number(seen, label=label, detail=hits_of(seen))
    if repair is not None and repair.after is not None:
        parts = [f"before {share(repair.before.differing.strict)}"]
        if repair.without_idis is not None:
            parts.append(f"control without IDIs {share(repair.without_idis.differing.strict)}")
        differing = repair.after.differing.strict
        label = "Pairs that still differ, after the repair"
        yield Number(differing if differing.samples else None, label=label, detail="; ".join(parts))


def _success_plot(run: ImagesRun) -> Plot | None:
    bars = [
        Bar(
            f"{search.title} (control)" if search.is_control else f"{search.title}, {name}",
            found.strict.success,
            is_marked=found is search.found.own and not search.is_control,
        )
        for search in run.generation
        for name, found in search.found.named.items()
    ]
    if not bars:
        return None
    confidence = level(run.generation[0].found.own.strict.success.confidence)
    caption = (
        "How many faces end in a pair with different verdicts in which the head that the change was"
        f" made with sees another value; the thin line is the {confidence} interval. If a control"
        " finds as many, the pairs are not about the attribute but about faces near the"
        f" {run.network}’s decision boundary."
    )
    return Plot("Faces for which a pair was found", Bars(bars), caption)


def _useless(run: ImagesRun) -> Iterator[str]:
    """Warn about a network that is of little use."""
    quality, classes = run.detector.quality, run.data.classes
    found, alarms = quality.detection_rate, quality.false_alarms
    is_constant = alarms and found.samples and found.estimate == alarms.estimate
    if run.is_detector and is_constant and found.estimate in (0, 1):
        yield "The detector gives all held-out pictures the same answer, so it detects nothing."
    elif quality.accuracy.high < 1 / len(classes):
        yield (
            f"The {run.network} is right on {plain(share(quality.accuracy))} of the held-out"
            " pictures, less than by chance. Are its classes in this order:"
            f" {', '.join(classes)}?"
        )


def _groups(run: ImagesRun) -> Iterator[str]:
    """Compare how often faces of each value are found."""
    groups = {name: rate for name, rate in run.detector.quality.by_value.items() if rate.samples}
    if len(groups) < 2:
        return
    low, *_, high = sorted(groups, key=lambda name: groups[name].estimate)
    rates = ", ".join(f"{name} {plain(share(groups[name]))}" for name in (low, high))
    if groups[low].high < groups[high].low:
        if run.is_detector:
            yield f"Held-out faces are not found equally often: {rates}."
        else:
            yield f"Answers to held-out faces are not right equally often: {rates}."
        return
    what = "held-out faces are found" if run.is_detector else "answers to held-out faces are right"
    yield f"How often {what} does not differ beyond chance by {run.sensitive}: {rates}."


# -- the controls ----------------------------------------------------------------------------------


def _controls(run: ImagesRun) -> Section:
    name, ran = run.sensitive, _controls_run(run)
    lead = Text(
        f"A change of a few gray levels can turn the verdict on almost any face near the"
        f" {run.network}’s decision boundary, whatever the change is about. So every number is"
        f" compared with that of a change that is not about {name}."
    )
    if not ran:
        lead = Text(
            "No control was run. Without them, the numbers below do not show that a verdict depends"
            f" on {name}: a change that has nothing to do with it may do the same.",
            "warning",
        )
    change = run.change
    up_to = f", up to {change.cap:g} where it did not flip" if change.cap != change.epsilon else ""
    return Section(
        "The controls",
        [
            lead,
            Terms(ran),
            Section(
                f"Who recognizes {name}",
                [
                    Text(
                        "On held-out faces; guessing has a balanced accuracy of"
                        f" {percent(run.attribute.chance)}.",
                        "note",
                    ),
                    _attribute_table(run),
                ],
            ),
            Section(
                f"The change of {name} (Δ) and the control changes",
                [
                    Text(
                        f"Made for {plural(change.faces, 'face')}, of at most {change.epsilon:g} on"
                        f" each color of each pixel (from 0 to 1){up_to}. “Flips its head”: the"
                        " head that the change was made with sees another value.",
                        "note",
                    ),
                    _change_table(run),
                    Notes(list(_about_change(run))),
                ],
            ),
        ],
    )


def _controls_run(run: ImagesRun) -> dict[str, str]:
    """Name the controls that were run, and what each shows."""
    repair = run.repair
    every = {
        "random signs": (
            RANDOM_SIGNS in run.change.flips.controls,
            "A change of the same size with random signs: what any noise of this size does.",
        ),
        "shuffled labels": (
            SHUFFLED_LABELS in run.change.flips.controls,
            "A change made with a head that was trained on shuffled labels: what a change does that"
            " cannot know the attribute.",
        ),
        "independent network": (
            run.attribute.independent is not None,
            "A separate network for the attribute: whether anything but the head on the audited"
            " network sees the attribute change.",
        ),
        "random direction": (
            any(search.is_control for search in run.generation),
            "Steps of the same length in random directions: what trial and error finds.",
        ),
        "without IDIs": (
            repair is not None and repair.without_idis is not None,
            "The same fine-tuning with clean pictures instead of the IDIs: what more training alone"
            " changes.",
        ),
    }
    return {name: shows for name, (was_run, shows) in every.items() if was_run}


def _attribute_table(run: ImagesRun) -> Table:
    attribute = run.attribute
    networks = {
        f"the {run.network}’s own head": attribute.head,
        "independent network": attribute.independent,
        "head trained on shuffled labels": attribute.shuffled_labels,
    }
    return Table(
        ("network", "balanced accuracy", *(f"recall, {value}" for value in attribute.values)),
        [
            (name, percent(one.balanced_accuracy), *map(cell, one.rates.values()))
            for name, one in networks.items()
            if one is not None
        ],
    )


def _change_table(run: ImagesRun) -> Table:
    others = run.change.others
    return Table(
        (
            "change",
            "flips its head",
            "seen by an independent network",
            "L2, mean",
            *(f"changes {other.name} as well" for other in others),
        ),
        [
            (
                name,
                cell(one.flips),
                cell(one.seen_by_independent),
                mean(one.l2),
                *(cell(other.changed.named.get(name)) for other in others),
            )
            for name, one in run.change.flips.named.items()
        ],
    )


def _about_change(run: ImagesRun) -> Iterator[str]:
    name, flips, attribute = run.sensitive, run.change.flips.own.flips, run.attribute
    accuracy = attribute.head.balanced_accuracy
    yield (
        f"The attribute head recognizes {name} with a balanced accuracy of {ratio(accuracy)}"
        f" (chance {ratio(attribute.chance)}); the change of it (Δ_sens) flips that opinion in"
        f" {plain(share(flips))} of {count(flips.samples)} faces."
    )
    for other in run.change.others:
        noise = other.changed.controls.get(RANDOM_SIGNS)
        compared = "" if noise is None else f" (noise of the same size: {plain(share(noise))})"
        yield (
            f"The change of {name} also changes what a head for {other.name} sees, in"
            f" {plain(share(other.changed.own))} of the faces{compared}; that head has a balanced"
            f" accuracy of {ratio(other.head.balanced_accuracy)} (chance {ratio(other.chance)})."
        )
    if accuracy <= attribute.chance * HARDLY:
        yield f"The head hardly recognizes {name}, so a change that flips it says little about it."


# -- how it was measured ---------------------------------------------------------------------------


def _method(run: ImagesRun) -> Section:
    settings = dict(run.settings)
    search = dict(settings.pop("search_settings", None) or {})
    if "max_iter" in search:
        settings["iterations"] = search.pop("max_iter")
    settings |= search
    settings["expected before, at most, of one core"] = seconds(run.forecast.seconds)
    steps = (
        "Steps along the gradient as it is, long where it is steep,"
        if settings.get("gradient") == "plain"
        else "Small steps of equal length"
    )
    name = run.sensitive
    terms = {
        "Pair (IDI)": f"A face with a small perturbation (Δ_bias) that the {run.network} judges"
        f" differently once the {name} change is added as well.",
        f"{name.capitalize()} change": f"A step of each pixel away from the {name} that a head on"
        f" the {run.network}’s own trunk sees, until the head sees another value. It is made for"
        " the network; people may not see it.",
        "Search": f"{steps} from each face, until its verdict depends on the change. NeuronFair"
        f" follows the neurons that react most to {name}, ADF and EIDIG the gradients of loss and"
        " output.",
        "Before any step": "Pairs that differ before the search moves them; they are counted"
        " separately.",
    }
    quality = Section(f"The {run.network}", [_quality_table(run)])
    return method(run, settings, [Terms(terms), quality])


def _quality_table(run: ImagesRun) -> Table:
    """List how often the network is right, and for whom."""
    quality = run.detector.quality
    rates: dict[str, Rate | None] = {"correct answers": quality.accuracy}
    what = "faces found" if run.is_detector else "correct answers"
    if run.is_detector:
        rates["faces found"] = quality.detection_rate
        rates["other pictures taken for a face"] = quality.false_alarms
    rates |= {f"{what}, {value}": rate for value, rate in quality.by_value.items()}
    rates |= {
        f"“{name}” recognized, {value}": rate
        for name, groups in quality.by_class.items()
        for value, rate in groups.items()
        if rate.samples
    }
    return Table(
        ("on held-out pictures", "share", "pictures"),
        [
            (name, cell(rate), count(rate.samples))
            for name, rate in rates.items()
            if rate is not None
        ],
    )
