"""Reading texts: a column of a CSV or JSON-lines file, the lines of a plain file, or templates.

A template is a text with slots in braces. A slot names a word of the lexicon ({he}, {black},
{women}), a kind of word that has one entry in it ({adjective}, {name}), or a list of `slots` that
the caller gives ({job}). All texts of one template belong together: they are one cluster.
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

from fairprobe.documents import read_toml
from fairprobe.errors import DataError, SettingError, suggest
from fairprobe.language.lexicon import Lexicon

TextsSource: TypeAlias = "Path | str | Iterable[str | Text]"
Slots: TypeAlias = Mapping[str, Sequence[str]]
SLOT = re.compile(r"\{([^{}\n]{1,40})\}")
LIKELY = ("text", "comment", "comment_text", "sentence", "tweet", "content", "body", "message")
LONGEST = 100_000  # characters of a text
MOST_OF_TEMPLATE = 200  # texts of one template; more are drawn at random
MOST = 5_000_000  # texts of a file


@dataclass(frozen=True)
class Text:
    """A text, the number of its row, and its template or whatever else it shares with others that
    are not independent of it.
    """

    text: str
    row: int
    cluster: str = ""


def open_texts(
    source: TextsSource,
    *,
    column: str | None = None,
    cluster: str | None = None,
) -> list[Text]:
    """The texts of a file, or those given; empty ones are left out. `cluster` names the column that
    tells which texts belong together.
    """
    if isinstance(source, Path | str):
        texts = list(itertools.islice(_read(Path(source), column, cluster), MOST))
        where = str(source)
    else:
        texts = [
            each if isinstance(each, Text) else Text(str(each), row)
            for row, each in enumerate(source)
        ]
        where = "The list"
    texts = [each for each in texts if each.text.strip()]
    if not texts:
        raise DataError(f"{where} holds no text. Expected one on each line or in each row.")
    if long := next((each for each in texts if len(each.text) > LONGEST), None):
        raise DataError(
            f"{where}: the text of row {long.row} has {len(long.text):,} characters; expected at"
            f" most {LONGEST:,}. Split it."
        )
    return texts


def _read(path: Path, column: str | None, cluster: str | None) -> Iterator[Text]:
    name = path.name.lower().removesuffix(".gz")
    try:
        with _opened(path) as file:
            if name.endswith((".csv", ".tsv")):
                rows: Iterable[tuple[int, Mapping[str, Any]]] = _table(file, path, name)
            elif name.endswith((".jsonl", ".ndjson")):
                rows = _json_lines(file, path)
            elif column or cluster:
                raise SettingError(
                    f"{path} is read as plain lines, which have no columns. Leave the column out,"
                    " or give a .csv or .jsonl file."
                )
            else:
                rows = ((row, {"text": line.rstrip("\r\n")}) for row, line in enumerate(file))
            yield from _picked(rows, path, column, cluster)
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


def _table(file: IO[str], path: Path, name: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    csv.field_size_limit(10 * LONGEST)
    reader = csv.DictReader(file, delimiter="\t" if name.endswith(".tsv") else ",")
    if not reader.fieldnames:
        raise DataError(f"{path} is empty. Expected a line of column names, then the rows.")
    yield from enumerate(reader)


def _json_lines(file: IO[str], path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
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


def _picked(
    rows: Iterable[tuple[int, Mapping[str, Any]]],
    path: Path,
    column: str | None,
    cluster: str | None,
) -> Iterator[Text]:
    for row, body in rows:
        column = column or _likely(body, path)
        for wanted in filter(None, (column, cluster)):
            if wanted not in body:
                known = [str(name) for name in body if name is not None]
                raise DataError(
                    f"{path} has no column '{wanted}' in row {row}.{suggest(wanted, known)}"
                )
        text = body[column]
        if text is not None:
            yield Text(str(text), row, "" if cluster is None else str(body[cluster]))


def _likely(body: Mapping[str, Any], path: Path) -> str:
    """The column of texts, where nobody named it."""
    names = [str(name) for name in body if name is not None]
    if len(names) == 1:
        return names[0]
    found = [name for name in names if name.lower() in LIKELY]
    if len(found) == 1:
        return found[0]
    raise SettingError(
        f"{path} has the columns {', '.join(names[:20])}; name the one that holds the texts:"
        " --column NAME."
    )


# -- templates -------------------------------------------------------------------------------------


def read_slots(path: Path | str) -> dict[str, list[str]]:
    """Lists of words for the slots of templates, from a TOML file: job = ["nurse", "doctor"]."""
    try:
        body = read_toml(Path(path))
    except ValueError as error:
        why = str(error).partition("\n")[0]
        raise SettingError(f"The slots {path} are not valid TOML: {why}.") from error
    except OSError as error:
        raise SettingError(
            f"The slots {path} cannot be read: {error.strerror or error}."
        ) from error
    for name, words in body.items():
        if not isinstance(words, list) or not words or not all(isinstance(w, str) for w in words):
            raise SettingError(f"{path}: {name} must be a list of words, such as ['nurse'].")
    return body


def expand(
    texts: Sequence[Text], lexicon: Lexicon, slots: Slots, rng: np.random.Generator
) -> list[Text]:
    """Texts without slots. A slot of the lexicon becomes one word of each group, all other slots
    all their words; the texts of one template are one cluster.
    """
    kinds = _kinds(lexicon)
    found: list[Text] = []
    for each in texts:
        names = list(dict.fromkeys(SLOT.findall(each.text)))
        if not names:
            found.append(each)
            continue
        choices = [_choices(name, slots, kinds, lexicon, each, rng) for name in names]
        every = list(itertools.islice(itertools.product(*choices), 50 * MOST_OF_TEMPLATE))
        if len(every) > MOST_OF_TEMPLATE:
            drawn = rng.choice(len(every), MOST_OF_TEMPLATE, replace=False)
            every = [every[place] for place in np.sort(drawn)]
        for words in every:
            chosen = dict(zip(names, words, strict=True))
            filled = each.text
            for name, word in chosen.items():
                filled = filled.replace(f"{{{name}}}", word)
            found.append(Text(filled, each.row, each.cluster or each.text))
    return found


def _kinds(lexicon: Lexicon) -> dict[str, list[str]]:
    """The slots that kinds of words give: a word of each group and entry, at random places of its
    list; plurals by the plural of the kind.
    """
    found: dict[str, list[str]] = {}
    for kind in dict.fromkeys(entry.kind for entry in lexicon.entries):
        entries = [entry for entry in lexicon.entries if entry.kind == kind]
        if len(entries) > 1 and kind != "name":
            continue
        terms = [terms for entry in entries for terms in entry.groups.values()]
        found[kind] = [" | ".join(term.word for term in group) for group in terms]
        if all(term.plural for group in terms for term in group):
            found[f"{kind}s"] = [" | ".join(term.plural or "" for term in group) for group in terms]
    return found


def _choices(
    name: str,
    slots: Slots,
    kinds: Mapping[str, Sequence[str]],
    lexicon: Lexicon,
    text: Text,
    rng: np.random.Generator,
) -> list[str]:
    if name in slots:
        return list(slots[name])
    if name in kinds:
        return [str(rng.choice(group.split(" | "))) for group in kinds[name]]
    forms = {
        form.lower() for _, _, term in lexicon.terms() for form in (term.word, term.plural) if form
    }
    if name.lower() in forms:
        return [name]
    raise DataError(
        f"Row {text.row}: there are no words for the slot {{{name}}}."
        f"{suggest(name, [*slots, *kinds])} Other slots are given with --slots, and words of the"
        " lexicon can be slots themselves."
    )
