"""What an audit of texts found, in sentences: never more than the control allows."""

from __future__ import annotations

from fairprobe.documents.text import ExcessDocument, TextDocument
from fairprobe.report.formats import (
    SPACE,
    count,
    interval,
    level,
    percent,
    plain,
    plural,
    points,
    quoted,
)

MOST_RESTING = 3  # words that a sentence names


def headline(document: TextDocument) -> str:
    """The result in one line."""
    if not document.flips.clusters:
        return "No text was judged"
    title = document.lexicon.title
    if document.flips.is_shown:
        return f"Answers change with {title}, more than with the control"
    if document.gaps.is_shown:
        return f"No answer is shown to change with {title}, but probabilities do"
    return f"No excess: answers change with {title} no more than with the control"


def status(document: TextDocument) -> str:
    """Whether the excess is shown, for the color of the verdict."""
    return "found" if document.flips.is_shown or document.gaps.is_shown else "none"


def verdict(document: TextDocument) -> str:
    """The rate, the control, and the excess with its interval."""
    flips = document.flips
    if not flips.clusters:
        return "No text with a word of the lexicon was answered, so nothing was shown."
    control = (
        "neutral words in the same places"
        if document.lexicon.control == "neutral words"
        else "words of the same group"
    )
    said = (
        f"Exchanging words of {document.lexicon.title} changes the answer in"
        f" {percent(flips.cross)} of cases; exchanging {control} does in {percent(flips.control)}."
    )
    if flips.is_shown:
        return plain(f"{said} The excess is {_excess(flips)}.")
    why = "which holds 0" if flips.high >= 0 else "all of it below 0"
    return plain(f"{said} No excess is shown: {_excess(flips)}, {why}.")


def _excess(found: ExcessDocument) -> str:
    return f"{points(found.estimate)} ({level(found.confidence)} interval {interval(found, bare)})"


def bare(share: float) -> str:
    """A percentage without its sign."""
    return percent(share).removesuffix(f"{SPACE}%")


def sentences(document: TextDocument) -> list[str]:
    """What must be said beside the verdict."""
    data, flips = document.data, document.flips
    about = f"{plural(data.used, 'text')} with a word of the lexicon"
    if data.clusters != data.used:
        about += f" from {plural(data.clusters, 'template or cluster', 'templates or clusters')}"
    found = [f"This is about {about}, of {count(data.texts)} given."]
    if document.lexicon.words == "sample":
        found.append(
            "The interval covers other texts and other words like these: it is clustered by text or"
            " template, and by word."
        )
    else:
        found.append(
            "The interval covers other texts with these words: it is clustered by text or template."
            " It says nothing about words that are not in the lexicon."
        )
    rests = document.rests_on
    if rests:
        first = next(each for each in document.words if each.word == rests[0])
        found.append(
            f"It rests on {quoted(rests, most=MOST_RESTING)}: without “{first.word}” alone,"
            f" {points(first.estimate)} remain ({interval(first, bare)})."
        )
    elif flips.is_shown and document.words:
        weakest = document.words[0]
        found.append(
            f"It does not rest on one word: without “{weakest.word}”, the most important one, the"
            f" excess is still {points(weakest.estimate)}."
        )
    if document.gaps.is_shown:
        gaps = document.gaps
        found.append(
            f"The probability of the answer moves by {points(gaps.cross)} on average, with the"
            f" control by {points(gaps.control)}."
        )
    if document.stopped:
        found.append(document.stopped)
    return [plain(each) for each in (*found, *document.model.notes)]
