"""Read texts: a column of a CSV or JSON-lines file, the lines of a plain file, or templates.

A template is a text with slots in braces. A slot names a word of the lexicon ({he}, {black},
{women}), a kind of word with one entry in the lexicon ({adjective}, {name}), or a list in `slots`
({job}). All texts of a template are one cluster.
"""

from __future__ import annotations

import csv
import gzip
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np

from fairprobe.errors import DataError, SettingError, suggest
from fairprobe.language.lexicon import Lexicon, read_settings

TextsSource: TypeAlias = "Path | str | Iterable[str | Text]"
Slots: TypeAlias = Mapping[str, Sequence[str]]
Row: TypeAlias = tuple[int, Mapping[str, Any]]
SLOT = re.compile(r"\{([^{}\n]{1,40})\}")
LIKELY = ("text", "comment", "comment_text", "sentence", "tweet", "content", "body", "message")
MAX_CHARACTERS = 100_000  # of a text
MAX_EXPANDED = 200  # texts of a template; more are sampled
MAX_TEXTS = 5_000_000  # of a file


@dataclass(frozen=True)
class Text:
    """A text, the number of its row, and its template or whatever else it shares with others that
    are not independent of it.
    """

    text: str
    row: int
    cluster: str = ""


def open_texts(
    source: TextsSource, *, column: str | None = None, cluster: str | None = None
) -> list[Text]:
    """Read the texts of a file, or number those of a list; empty ones are left out. `cluster` names
    the column that says which texts belong together.
    """
    if isinstance(source, Path | str):
        texts = list(itertools.islice(_read(Path(source), column, cluster), MAX_TEXTS))
        where = str(source)
    else:
        texts = [
            text if isinstance(text, Text) else Text(str(text), row)
            for row, text in enumerate(source)
        ]
        where = "The list"
    texts = [text for text in texts if text.text.strip()]
    if not texts:
        raise DataError(f"{where} contains no text. Expected one on each line or in each row.")
    if long := next((text for text in texts if len(text.text) > MAX_CHARACTERS), None):
        raise DataError(
            f"{where}: the text of row {long.row} has {len(long.text):,} characters; expected at"
            f" most {MAX_CHARACTERS:,}. Split it."
        )
    return texts


def _read(path: Path, column: str | None, cluster: str | None) -> Iterator[Text]:
    name = path.name.lower().removesuffix(".gz")
    try:
        with _opened(path) as file:
            if name.endswith((".csv", ".tsv")):
                rows: Iterable[Row] = _table(file, path, name)
            elif name.endswith((".jsonl", ".ndjson")):
                rows = _json_lines(file, path)
            elif column or cluster:
                raise SettingError(
                    f"{path} is read as plain lines, which have no columns. Leave the column out,"
                    " or give a .csv or .jsonl file."
                )
            else:
                rows = ((row, {"text": line.rstrip("\r\n")}) for row, line in enumerate(file))
            yield from _texts_of(rows, path, column, cluster)
    except FileNotFoundError as error:
        raise DataError(f"There is no file {path}. Name a file of texts.") from error
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(
            f"{path} cannot be read as text ({getattr(error, 'strerror', None) or error}). Expected"
            " UTF-8."
        ) from error


def _opened(path: Path) -> IO[str]:
    if path.name.lower().endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _table(file: IO[str], path: Path, name: str) -> Iterator[Row]:
    csv.field_size_limit(10 * MAX_CHARACTERS)
    reader = csv.DictReader(file, delimiter="\t" if name.endswith(".tsv") else ",")
    if not reader.fieldnames:
        raise DataError(f"{path} is empty. Expected a line of column names, then the rows.")
    yield from enumerate(reader)


def _json_lines(file: IO[str], path: Path) -> Iterator[Row]:
    for row, line in enumerate(file):
        if not line.strip():
            continue
        try:
            body = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}: line {row + 1} is not JSON.") from error
        if isinstance(body, str):
            body = {"text": body}
        if not isinstance(body, dict):
            raise DataError(
                f'{path}: line {row + 1} is neither a text nor an object such as {{"text": …}}.'
            )
        yield row, body


def _texts_of(
    rows: Iterable[Row], path: Path, column: str | None, cluster: str | None
) -> Iterator[Text]:
    for row, body in rows:
        column = column or _likely(body, path)
        for name in filter(None, (column, cluster)):
            if name not in body:
                names = [str(name) for name in body if name is not None]
                raise DataError(
                    f"{path} has no column '{name}' in row {row}.{suggest(name, names)}"
                )
        if body[column] is not None:
            yield Text(str(body[column]), row, "" if cluster is None else str(body[cluster]))


def _likely(body: Mapping[str, Any], path: Path) -> str:
    """Guess the column of texts by its name."""
    names = [str(name) for name in body if name is not None]
    if len(names) == 1:
        return names[0]
    likely = [name for name in names if name.lower() in LIKELY]
    if len(likely) == 1:
        return likely[0]
    raise SettingError(
        f"{path} has the columns {', '.join(names[:20])}; name the one that contains the texts:"
        " --column NAME."
    )


# -- templates -------------------------------------------------------------------------------------


def read_slots(path: Path | str) -> dict[str, list[str]]:
    """Read words for the slots of templates from a TOML file: job = ["nurse", "doctor"]."""
    body = read_settings(Path(path), "file of slots")
    for name, words in body.items():
        if not isinstance(words, list) or not words or not all(isinstance(w, str) for w in words):
            raise SettingError(f"{path}: {name} must be a list of words, such as ['nurse'].")
    return body


def expand(
    texts: Sequence[Text], lexicon: Lexicon, slots: Slots, rng: np.random.Generator
) -> list[Text]:
    """Fill the slots of templates. A slot of the lexicon becomes one word of each group, any other
    slot all its words; the texts of a template are one cluster.
    """
    kinds = _kinds(lexicon)
    expanded: list[Text] = []
    for text in texts:
        names = list(dict.fromkeys(SLOT.findall(text.text)))
        if not names:
            expanded.append(text)
            continue
        choices = [_choices(name, slots, kinds, lexicon, text, rng) for name in names]
        every = list(itertools.islice(itertools.product(*choices), 50 * MAX_EXPANDED))
        if len(every) > MAX_EXPANDED:
            sample = rng.choice(len(every), MAX_EXPANDED, replace=False)
            every = [every[index] for index in np.sort(sample)]
        for words in every:
            filled = text.text
            for name, word in zip(names, words, strict=True):
                filled = filled.replace(f"{{{name}}}", word)
            expanded.append(Text(filled, text.row, text.cluster or text.text))
    return expanded


def _kinds(lexicon: Lexicon) -> dict[str, list[list[str]]]:
    """Map the slots that stand for a kind of word, or its plural, to the words of each group."""
    kinds: dict[str, list[list[str]]] = {}
    for kind in dict.fromkeys(entry.kind for entry in lexicon.entries):
        entries = [entry for entry in lexicon.entries if entry.kind == kind]
        if len(entries) > 1 and kind != "name":
            continue
        groups = [terms for entry in entries for terms in entry.groups.values()]
        kinds[kind] = [[term.word for term in terms] for terms in groups]
        plurals = [[term.plural for term in terms if term.plural] for terms in groups]
        if list(map(len, plurals)) == list(map(len, groups)):
            kinds[f"{kind}s"] = plurals
    return kinds


def _choices(
    name: str,
    slots: Slots,
    kinds: Mapping[str, Sequence[Sequence[str]]],
    lexicon: Lexicon,
    text: Text,
    rng: np.random.Generator,
) -> list[str]:
    if name in slots:
        return list(slots[name])
    if name in kinds:
        return [str(rng.choice(words)) for words in kinds[name]]
    forms = {
        form.lower() for _, _, term in lexicon.terms() for form in (term.word, term.plural) if form
    }
    if name.lower() in forms:
        return [name]
    raise DataError(
        f"Row {text.row}: there are no words for the slot {{{name}}}."
        f"{suggest(name, [*slots, *kinds])} Define other slots with --slots; words of the lexicon"
        " can be slots too."
    )
