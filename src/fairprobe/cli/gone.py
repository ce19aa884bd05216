"""Commands and options that went, and what replaces them. Typing one prints its replacement."""

from __future__ import annotations

from typing import Any

CLONE = "(in a clone of the repository)"
COMMANDS = {
    "card": "show RUN --as card; show RUN --as bias-audit instead of --table",
    "clean": "nothing: every audit removes what killed ones left next to its run",
    "datasets": "list datasets; data groups NAME for the base rates of one",
    "domain": "data schema TABLE",
    "evidence": "show RUN --as evidence",
    "formats": "list formats",
    "measures": "list measures",
    "methods": "list methods",
    "names": "audit-names",
    "repairs": "list repairs",
    "repair-text": "your own training code, with audit-text before and after it",
    "scenes": "audit-scenes",
    "similar": "data similar TABLE",
    "experiments": f"python -m papers {CLONE}",
    "experiment": f"python -m papers NAME {CLONE}",
    "survey": f"python -m papers survey {CLONE}",
    "mix-surveys": f"python -m papers mix-surveys {CLONE}",
    "data fetch": f"python -m papers fetch meps {CLONE}; what 'list datasets' names is packaged",
}

FILE = "a line {name} = … in a TOML file that describes the model: --model model.toml"
SET = "--set {name}=VALUE"
TRUE = "--set {name}=true"
AUDITS = "nothing: 'fairprobe audit … --policy' audits and decides; check only reads a run"
FAVORABLE = ("favourable", "--favorable")
ENDPOINT = (
    "outputs blind-to form timeout per-second protocol rows-field header concurrency ca certificate"
    " prompt cache",
    FILE,
)
TABLE = (FAVORABLE, ("keep sample-weights coding", SET), ENDPOINT)
# By command: options that went, separated by spaces, and what replaces them.
OPTIONS: dict[str, tuple[tuple[str, str], ...]] = {
    "audit": (
        *TABLE,
        ("network", "--model lfcn, hfcn or auto"),
        ("decision-threshold", "--decision P"),
        ("costs", "--decision FILE.csv"),
        (
            "variant error seeds-by global-iterations local-iterations cpu-seconds rows outside tau"
            " pairs",
            SET,
        ),
        ("seconds", "--time"),
        ("wanted", "--max-findings"),
        ("show-records", TRUE),
        ("cluster", "--workers HOST:PORT"),
        ("fail-over", "--policy FILE, with the limit idis or dm_rs"),
    ),
    "check": (
        ENDPOINT,
        (
            "data sensitive label favourable drop keep sample-weights coding domain target people"
            " method variant error seeds seeds-by global-iterations local-iterations seconds"
            " cpu-seconds rows wanted outside tau pairs show-records cluster set counterparts"
            " samples tolerance decision-threshold costs seed workers resume out overwrite",
            AUDITS,
        ),
    ),
    "repair": (
        ENDPOINT,
        ("from-scratch single balanced by-share", TRUE),
        ("threshold labels real rounds optimizer learning-rate criterion max-handed-over", SET),
        ("goals", "--set individual=2, --set parity=1, --set odds=1"),
    ),
    "certify": (
        *TABLE,
        ("seconds", "--time"),
        ("check", "fairprobe verify FILE"),
        ("data", "the first argument: fairprobe certify people.csv --model my.onnx"),
    ),
    "show": (("json", "--as json"), ("table", "--as bias-audit")),
    "list": (("json", "--as json"), ("format", "--as")),
    "audit-images": (("epsilon cap step iterations by optimizer", SET), ("smallest", TRUE)),
    "audit-names": (ENDPOINT,),
    "audit-text": (
        ENDPOINT,
        ("per-group", SET),
        ("bigrams", "--set bigrams=true"),
        ("no-bigrams", "--set bigrams=false"),
        ("fail-over", "--policy FILE, with the limit text_flips"),
    ),
    "audit-scenes": (
        ("clusters cluster-by inpainting any-angle timeout at-once", SET),
        ("per-second", "--set rate=VALUE"),
    ),
    "similar": (FAVORABLE,),
    "schema": (FAVORABLE,),
}


def gone_command(name: str) -> str | None:
    """Say what replaces a command; None if there never was one of this name."""
    return f"'fairprobe {name}' is now: {COMMANDS[name]}." if name in COMMANDS else None


def gone_option(error: Any) -> str | None:
    """Say what replaces the option that a parser did not find; None if there never was one."""
    name, context = getattr(error, "option_name", ""), getattr(error, "ctx", None)
    if not name or context is None:
        return None
    word = name.lstrip("-")
    for words, now in OPTIONS.get(context.info_name, ()):
        if word in words.split():
            instead = now.format(name=word.replace("-", "_"))
            return f"{name} of 'fairprobe {context.info_name}' is now: {instead}."
    return None
