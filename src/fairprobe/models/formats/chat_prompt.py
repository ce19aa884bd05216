"""Prompts of a chat endpoint, read from a TOML file:

    model = "small-instruct"                # the name that the server knows
    system = "You decide on loans. Answer with one word: approve or reject."
    user = "Age: {age}. Purpose: {purpose}. Sex: {sex}. Decision?"

    [labels]                                # each class, and the words that stand for it
    good = ["approve", "approved"]
    bad = "reject"

    [[examples]]                            # turns of the conversation before the question
    values = { age = 50, purpose = "car", sex = "male" }
    answer = "approve"

    [parameters]                            # sent as they are; temperature is 0 by default
    max_tokens = 4

    [answers]                               # how they are read: "text" or "logprobs"
    read = "text"
    asks = 3                                # of each person; by default 1 where nothing varies

    [limits]                                # requests, tokens, cost; of one run
    requests = 5000

    [prices]                                # for a million tokens
    input = 0.15
    output = 0.60

A word in braces is replaced by the person's value, {text} by the text of a text audit and {row} by
all attributes, one a line; {{ and }} are braces. What is filled in is not looked at again, so a
value with braces cannot reach another one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from fairprobe.documents.files import read_toml
from fairprobe.errors import SettingError, StorageError, suggest
from fairprobe.results import Amount

TEXT, ROW = "text", "row"  # slots with a meaning of their own
SLOT = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
UNKNOWN = "unknown"  # stands for a missing value
# What other settings say, or what would make answers of another form.
OURS = ("model", "messages", "logprobs", "top_logprobs", "stream", "n")
CHARACTERS = 3  # of a token, in estimates: rather too few than too many

Words = str | list[str]
Positive: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]


class Example(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Turn before the question: what was asked, or the values that the template asks with, and
    the answer.
    """

    answer: str
    user: str = ""
    values: dict[str, str | int | float | bool] = {}


class Answers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Define how answers are read.

    - `asks`: requests for each person. None: `VARYING` where answers vary, otherwise 1.
    - `settle`: requests for each side of a pair whose answers differ, before it is a finding.
    - `top`: the tokens whose probabilities are requested.
    """

    read: Literal["text", "logprobs"] = "text"
    asks: Positive | None = None
    settle: Positive = 10
    top: Positive = 20


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limit what a run may use, and how many requests may be pending together."""

    requests: Positive | None = 10_000
    tokens: Positive | None = None
    cost: Amount | None = None
    parallel: Annotated[int, msgspec.Meta(ge=1, le=64)] = 4


class Prices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Price of a million tokens."""

    input: Amount = 0.0
    output: Amount = 0.0
    currency: str = "USD"

    def of(self, sent: int, received: int) -> float:
        """Return the cost of this many tokens."""
        return (sent * self.input + received * self.output) / 1e6


class Prompt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Define the question, how answers are read, and what that may cost."""

    model: str
    user: str
    labels: dict[str, Words] | list[str]
    system: str = ""
    examples: list[Example] = []
    parameters: dict[str, Any] = {}
    answers: Answers = Answers()
    limits: Limits = Limits()
    prices: Prices = Prices()
    header: str | None = None

    @property
    def classes(self) -> tuple[str, ...]:
        """Return the classes, in the order of the file."""
        return tuple(self.labels)

    @property
    def words(self) -> dict[str, tuple[str, ...]]:
        """Return the words that stand for each class."""
        if isinstance(self.labels, list):
            return {label: (label,) for label in self.labels}
        return {
            label: (words,) if isinstance(words, str) else tuple(words)
            for label, words in self.labels.items()
        }

    @property
    def slots(self) -> tuple[str, ...]:
        """Return the names in braces of the question."""
        return tuple(dict.fromkeys(found[1] for found in SLOT.finditer(self.user) if found[1]))

    @property
    def request(self) -> dict[str, Any]:
        """Return the parameters of a request, without the messages."""
        request: dict[str, Any] = {"model": self.model, "temperature": 0}
        if self.answers.read == "logprobs":
            request |= {"logprobs": True, "top_logprobs": self.answers.top, "max_tokens": 1}
        return request | self.parameters

    def messages(self, values: Mapping[str, Any]) -> list[dict[str, str]]:
        """Return the conversation about one person or text."""
        turns = [{"role": "system", "content": self.system}] if self.system else []
        for example in self.examples:
            asked = example.user or filled(self.user, example.values)
            turns += [{"role": "user", "content": asked}]
            turns += [{"role": "assistant", "content": example.answer}]
        return [*turns, {"role": "user", "content": filled(self.user, values)}]

    def estimate(self, messages: list[dict[str, str]]) -> tuple[int, int]:
        """Estimate how many tokens a request sends, and may receive at most."""
        sent = sum(math.ceil(len(turn["content"]) / CHARACTERS) + 4 for turn in messages)
        parameters = self.request
        most = parameters.get("max_tokens", parameters.get("max_completion_tokens", 256))
        return sent, int(most)


def filled(template: str, values: Mapping[str, Any]) -> str:
    """Fill the slots of a template, in one pass."""

    def fill(slot: re.Match[str]) -> str:
        if slot[0] in ("{{", "}}"):
            return slot[0][0]
        name = slot[1]
        if name == ROW and ROW not in values:
            return "\n".join(f"{key}: {_shown(value)}" for key, value in values.items())
        return _shown(values[name])

    return SLOT.sub(fill, template)


def _shown(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return UNKNOWN
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 1e15
    return str(int(value)) if whole else str(value)


def read_prompt(path: Path | str) -> Prompt:
    """Read and validate a prompt file."""
    file = Path(path)
    try:
        body = read_toml(file)
    except FileNotFoundError as error:
        raise SettingError(
            f"There is no prompt file {file}. It is a TOML file with model, user and [labels]."
        ) from error
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise SettingError(f"The prompt file {file} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        why = str(error).partition("\n")[0]
        raise SettingError(f"The prompt file {file} is not valid TOML: {why}.") from error
    for key in body:
        if key not in Prompt.__struct_fields__:
            fields = Prompt.__struct_fields__
            raise SettingError(f"{file}: there is no setting '{key}'.{suggest(key, fields)}")
    return checked(body, str(file))


def checked(prompt: Prompt | dict[str, Any], where: str = "The prompt") -> Prompt:
    """Return the prompt, if it can be used."""
    try:
        found = msgspec.convert(msgspec.to_builtins(prompt), Prompt)
    except msgspec.ValidationError as error:
        raise SettingError(f"{where}: {error}. Correct this setting.") from None
    for problem in _problems(found):
        raise SettingError(f"{where}: {problem}")
    return found


def _problems(prompt: Prompt) -> list[str]:
    words = [word.casefold().strip() for all_ in prompt.words.values() for word in all_]
    stray = [slot[0] for slot in SLOT.finditer(prompt.user) if slot[0] in ("{", "}", "{}")]
    ours = [name for name in prompt.parameters if name in OURS]
    secret = [name for name in prompt.parameters if "key" in name.lower()]
    gaps = [
        name
        for entry in prompt.examples
        for name in prompt.slots
        if not entry.user and name not in entry.values and name != ROW
    ]
    is_free = not (prompt.prices.input or prompt.prices.output)
    problems = {
        "[labels] needs at least two different classes.": len(set(prompt.classes))
        < max(2, len(prompt.classes)),
        "every class of [labels] needs at least one word.": not all(words)
        or not all(prompt.words.values()),
        "a word of [labels] stands for two classes; each must stand for one.": len(set(words))
        < len(words),
        "`user` needs a slot such as {age}, {text} or {row}.": not prompt.slots,
        f"`user` has a stray '{''.join(stray[:1])}'; write {{{{ and }}}} for braces.": stray,
        f"an example has no value for {{{''.join(gaps[:1])}}}; give `values` for all slots, or the"
        " whole text as `user`.": gaps,
        f"{''.join(ours[:1])} cannot be set in [parameters].": ours,
        f"'{''.join(secret[:1])}' looks like a key. Keys come from the environment only.": secret,
        "[limits] cost needs the [prices] of the tokens.": prompt.limits.cost is not None
        and is_free,
    }
    return [problem for problem, is_so in problems.items() if is_so]
