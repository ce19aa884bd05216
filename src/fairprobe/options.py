"""Declarations of the command line's options: each once, for `--help`, the reference and the
dashboard's form.

A group is a dataclass whose fields are options. A command takes it as one parameter, and `grouped`
shows its fields as options of the command:

    @app.command()
    @grouped
    def certify(table: TableOptions, model: ModelOptions, seed: Seed = 0) -> None: ...

What few people change has no option but a name for `--set NAME=VALUE`: a field of a dataclass of
settings, read by `read_settings`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from fairprobe.catalogue import METHODS, POST_HOC, REPAIRS
from fairprobe.errors import SettingError, suggest

AUDIT, PROVE, DECIDE, LOOK = "Audit", "Repair and prove", "Decide", "Look"  # panels of commands
DATA, MODEL, MEASURE, SEARCH, RUN = "Data", "Model", "Measure", "Search", "Run"
Settings = TypeVar("Settings")


def option(panel: str, about: str, *names: str, **more: Any) -> Any:
    """Declare an option in a panel of the help."""
    return typer.Option(*names, help=about, rich_help_panel=panel, **more)


def choice(panel: str, about: str, *words: str, **more: Any) -> Any:
    """Declare an option that takes one of a few words; the first is the default."""
    return option(
        panel,
        about,
        metavar="|".join(words),
        autocompletion=lambda: list(words),
        show_default=False,
        **more,
    )


def method_names() -> list[str]:
    """List the search methods, plug-ins included."""
    return ["auto", *METHODS]


def repair_names() -> list[str]:
    """List the repairs, plug-ins included."""
    return [*REPAIRS, *POST_HOC]


@dataclass(frozen=True)
class Bounds:
    """The least and greatest number that the dashboard takes for an option."""

    least: float
    most: float


# -- data ------------------------------------------------------------------------------------------

Sensitive = Annotated[str, option(DATA, "The sensitive attributes, with commas.", metavar="A,B")]
Label = Annotated[str | None, option(DATA, "Own table: the column to predict.", metavar="COLUMN")]
Favorable = Annotated[str | None, option(DATA, "The label that people want.", metavar="LABEL")]
Drop = Annotated[str, option(DATA, "Own table: columns to leave out.", metavar="A,B")]
Table = Annotated[
    Path | None,
    option(DATA, "Your own table of the run: its folder names it, but never opens it."),
]


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """How a table is read. The command declares the table itself."""

    label: Label = None
    favorable: Favorable = None
    drop: Drop = ""
    domain: Annotated[
        Path | None,
        option(DATA, "Own table: its schema ('fairprobe data schema').", metavar="FILE"),
    ] = None
    target: Annotated[
        str | None,
        choice(
            DATA,
            "Own table: what the label is; guessed.",
            "classes",
            "amount",
        ),
    ] = None


# -- model -----------------------------------------------------------------------------------------

TRAINED = ("auto", "lfcn", "hfcn")  # networks that an audit can train
MODELS = (
    "A file, run, module:function, https://…, or model.toml that describes it ('fairprobe list"
    " formats'); or what to train: auto, lfcn, hfcn."
)


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The user's model and how it is read. A TOML file can say all of it, and more."""

    model: Annotated[
        str | None,
        option(MODEL, "Your own model of the run, with the options of its audit.", metavar="MODEL"),
    ] = None
    encoder: Annotated[
        str | None,
        option(MODEL, "Turns rows into its inputs: .skops, module:function.", metavar="X"),
    ] = None
    weights: Annotated[
        Path | None, option(MODEL, "safetensors for module:function.", metavar="FILE")
    ] = None
    inputs: Annotated[
        str, choice(MODEL, "Its inputs without encoder.", "auto", "numbers", "one-hot")
    ] = "auto"
    classes: Annotated[
        str, option(MODEL, "The classes in the order of its outputs.", metavar="A,B")
    ] = ""


@dataclass(frozen=True, kw_only=True)
class AuditedModel(ModelOptions):
    """The model of an audit, which may train a network."""

    model: Annotated[str, option(MODEL, MODELS, metavar="MODEL", show_default=False)] = "auto"


# -- measure and search ----------------------------------------------------------------------------

DECISION = "From 0.3 on, by group (female=0.3,male=0.4), or by costs (CSV)."
SET = "A further setting, repeatable ('fairprobe list settings')."
Samples = Annotated[
    int, option(MEASURE, "Possible people to draw.", metavar="N"), Bounds(100, 10**7)
]
Set = Annotated[list[str] | None, option(SEARCH, SET, "--set", metavar="NAME=VALUE")]


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """How an audit of a table decides, measures and searches."""

    decision: Annotated[str | None, option(MEASURE, DECISION, metavar="P|FILE")] = None
    counterparts: Annotated[
        str,
        choice(MEASURE, "Change what is coupled, or only the attribute.", "twins", "bare"),
    ] = "twins"
    samples: Samples = 50_000
    tolerance: Annotated[
        str | None,
        option(
            MEASURE,
            "Amounts: the least change that counts (0.1sd).",
            metavar="N|P%|Nsd",
        ),
    ] = None
    people: Annotated[
        str,
        choice(
            SEARCH, "Search among people like those in the data, or all.", "plausible", "possible"
        ),
    ] = "plausible"
    method: Annotated[
        str,
        option(
            SEARCH,
            "How to search ('fairprobe list methods').",
            metavar="NAME",
            autocompletion=method_names,
        ),
    ] = "auto"
    seeds: Annotated[int, option(SEARCH, "Rows to search from.", metavar="N"), Bounds(1, 10**6)] = (
        1000
    )
    time: Annotated[
        float | None,
        option(SEARCH, "Stop the search after so many seconds.", metavar="SECONDS"),
        Bounds(0.1, 10**6),
    ] = None
    max_findings: Annotated[
        int | None, option(SEARCH, "Stop the search after so many findings.", metavar="N")
    ] = None
    set_: Set = None


# -- run -------------------------------------------------------------------------------------------

Out = Annotated[
    Path | None,
    option(RUN, "The run folder to write.", show_default="below runs", metavar="FOLDER"),
]
Overwrite = Annotated[bool, option(RUN, "Replace the run in the folder.", "--overwrite")]
Resume = Annotated[bool, option(RUN, "Go on with the same command that was killed.", "--resume")]
Seed = Annotated[
    int, option(RUN, "The same seed gives the same result.", metavar="N"), Bounds(0, 2**31)
]
GatePolicy = Annotated[
    Path | None, option(RUN, "Exit with 1 if the run violates this policy.", metavar="FILE")
]
DryRun = Annotated[bool, option(RUN, "Print what it would take, and end.", "--dry-run")]
AsJson = Annotated[bool, option(RUN, "Print the result as JSON and nothing else.", "--json")]
Quiet = Annotated[bool, option(RUN, "No progress bar and no summary.", "--quiet", "-q")]


# -- repair ----------------------------------------------------------------------------------------

WITH = "How to repair, or with a variant (cfair+iifr). 'fairprobe list repairs' explains them."


@dataclass(frozen=True, kw_only=True)
class RepairOptions:
    """How to repair a run, and what a repair must keep."""

    with_: Annotated[str, option(SEARCH, WITH, "--with", autocompletion=repair_names)] = (
        "counterfactual"
    )
    strength: Annotated[
        float | None,
        option(
            SEARCH,
            "How strongly: a weight such as λ.",
            show_default="chosen on validation people",
        ),
        Bounds(0, 10**6),
    ] = None
    set_: Set = None
    max_accuracy_drop: Annotated[
        float,
        option(MEASURE, "Refuse a repair that costs more points of accuracy."),
        Bounds(0, 100),
    ] = 2.0
    max_harm: Annotated[
        float,
        option(
            MEASURE, "Refuse one after which another attribute decides this many times as often."
        ),
    ] = 1.3
    max_seeds: Annotated[
        int, option(MEASURE, "Train at most so many pairs of networks to decide."), Bounds(2, 12)
    ] = 12
    accept_anyway: Annotated[
        bool, option(MEASURE, "Keep the network even if it would be refused.", "--accept-anyway")
    ] = False
    choose: Annotated[
        str | None,
        option(
            SEARCH,
            "The point of the trade-off: fairness, accuracy, or its number.",
            show_default="fairness",
        ),
    ] = None
    no_curve: Annotated[
        bool, option(SEARCH, "Try no other strengths: quicker, no trade-off.", "--no-curve")
    ] = False
    samples: Annotated[
        int | None, option(MEASURE, "Possible people to draw.", show_default="as in the run")
    ] = None


# -- settings of --set -----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class AuditSettings:
    """Settings of `fairprobe audit --set`, next to those of the method."""

    variant: Annotated[str | None, "the method's variant ('fairprobe list methods')"] = None
    rows: Annotated[int | None, "stop the search after so many people judged"] = None
    cpu_seconds: Annotated[float | None, "stop the search after so much computing"] = None
    global_iterations: Annotated[int | None, "steps of each seed towards a first finding"] = None
    local_iterations: Annotated[int | None, "steps around each first finding"] = None
    seeds_by: Annotated[str, "cluster the seeds by scaled attributes or by raw codes"] = "scaled"
    outside: Annotated[str, "clip rows outside the domain, or refuse the data"] = "clip"
    tau: Annotated[
        str | None, "the divergences (nats), with commas, that IFR_p counts as alike; or boundary"
    ] = None
    pairs: Annotated[
        str, "individual fairness rates compare with all counterparts, or a single one"
    ] = "all"
    show_records: Annotated[bool, "let the report show people in the data as pairs"] = False
    keep: Annotated[str, "own table: columns to keep although they look like ids"] = ""
    sample_weights: Annotated[
        str | None, "own table: the column that says how much each row counts in training"
    ] = None
    coding: Annotated[str | None, "COMPAS: one-hot, or free, the paper's bounds"] = None


@dataclass(frozen=True, kw_only=True)
class RepairSettings:
    """Settings of `fairprobe repair --set`. One that the repair does not have is refused."""

    from_scratch: Annotated[bool, "begin with fresh weights"] = False
    threshold: Annotated[float | None, "iifr: the least cosine of a pair"] = None
    labels: Annotated[
        str | None, "retrain: soft, vote or seed; counterfactual: truth or own (predictions)"
    ] = None
    single: Annotated[bool, "retrain: add findings without their counterparts"] = False
    real: Annotated[float | None, "retrain: the share from around real people"] = None
    rounds: Annotated[int | None, "retrain: how often to search and train again"] = None
    balanced: Annotated[bool, "cfair: rare classes and groups weigh as much as common ones"] = False
    by_share: Annotated[bool, "average: a sensitive value counts as often as it occurs"] = False
    optimizer: Annotated[str | None, "adam, or adadelta as in the IIFR paper"] = None
    learning_rate: Annotated[float | None, "by default 0.001 for adam, 0.1 for adadelta"] = None
    criterion: Annotated[
        str | None, "thresholds: equalize demographic_parity or equal_opportunity"
    ] = None
    max_handed_over: Annotated[
        float | None, "abstain: hand over at most this percentage of people"
    ] = None
    individual: Annotated[float | None, "counterfactual: priority of equal treatment"] = None
    parity: Annotated[float | None, "counterfactual: priority of demographic parity"] = None
    odds: Annotated[float | None, "counterfactual: priority of equalized odds"] = None


@dataclass(frozen=True, kw_only=True)
class ImageSettings:
    """Settings of `fairprobe audit-images --set`, next to those of the search (momentum, …)."""

    epsilon: Annotated[float, "size of Δ_sens, the change of the attribute, per pixel"] = 0.03
    cap: Annotated[float | None, "let Δ_sens grow up to this size for faces it does not flip"] = (
        None
    )
    smallest: Annotated[bool, "use the smallest change that flips each face"] = False
    step: Annotated[float, "the length (L2) of a search step"] = 0.15
    iterations: Annotated[int, "search steps per face"] = 20
    by: Annotated[str, "a neuron of a convolution is a position or a channel"] = "position"
    optimizer: Annotated[str, "what trains a network here: adam, or sgd as in the paper"] = "adam"


@dataclass(frozen=True, kw_only=True)
class TextSettings:
    """Settings of `fairprobe audit-text --set`."""

    per_group: Annotated[int, "words of each other group that a text is given"] = 2
    bigrams: Annotated[bool, "put words only next to words they stood next to in the texts"] = True


SETTINGS: dict[str, type[Any]] = {
    "audit": AuditSettings,
    "audit-images": ImageSettings,
    "audit-text": TextSettings,
    "repair": RepairSettings,
}


def declared_settings(kind: type[Any]) -> dict[str, Any]:
    """Return the settings of a dataclass by name (`search.settings.Setting`)."""
    from fairprobe.search.settings import Setting

    hints, texts = get_type_hints(kind), get_type_hints(kind, include_extras=True)
    return {
        item.name: Setting(
            item.name, item.default, hints[item.name], texts[item.name].__metadata__[0]
        )
        for item in fields(kind)
    }


def read_settings(
    kind: type[Settings], given: Iterable[str] | None
) -> tuple[Settings, dict[str, str]]:
    """Read `NAME=VALUE` words into a dataclass of settings; return the others as they are."""
    from fairprobe.search.settings import parsed

    words, declared = parsed(list(given or ())), declared_settings(kind)
    values = {name: declared[name].read(words.pop(name)) for name in declared if name in words}
    return kind(**values), words


def refuse_unknown(words: Mapping[str, str], kind: type[Any]) -> None:
    """Raise SettingError if settings are left that nobody declared."""
    names = [item.name for item in fields(kind)]
    for word in words:
        raise SettingError(f"There is no setting '{word}'.{suggest(word, names)}")


# -- the dashboard's form --------------------------------------------------------------------------


@dataclass(frozen=True)
class Field:
    """An option in the dashboard's form: words to choose from, or a number within bounds."""

    name: str
    about: str
    default: Any
    words: tuple[str, ...]
    bounds: Bounds | None
    is_whole: bool

    def read(self, text: str) -> str | float | None:
        """Read what was filled in; raise SettingError if it is no such value."""
        if not text:
            return None
        value: str | float = text
        if self.bounds is not None:
            with suppress(ValueError):
                value = int(text) if self.is_whole else float(text)
        if not self.takes(value):
            expected = " or ".join(self.words)
            if self.bounds is not None:
                expected = f"a number from {self.bounds.least:g} to {self.bounds.most:g}"
            raise SettingError(
                f"'{text[:40]}' is not {expected}, as {self.name.replace('_', ' ')} must be."
            )
        return value

    def takes(self, value: object) -> bool:
        """Return True if the option takes this value."""
        if self.bounds is None:
            return value in self.words
        is_number = isinstance(value, int if self.is_whole else int | float)
        return is_number and self.bounds.least <= value <= self.bounds.most  # type: ignore[operator]


def form(kind: type[Any], *names: str) -> dict[str, Field]:
    """Return fields for these options of a group, by name."""
    hints = get_type_hints(kind, include_extras=True)
    defaults = {item.name: item.default for item in fields(kind)}
    return {name: _field(name, hints[name], defaults[name]) for name in names}


def _field(name: str, hint: Any, default: Any) -> Field:
    declared, *more = hint.__metadata__
    words = declared.autocompletion() if declared.autocompletion else ()
    bounds = next((each for each in more if isinstance(each, Bounds)), None)
    is_whole = hint.__origin__ in (int, int | None)
    return Field(name, (declared.help or "").rstrip("."), default, tuple(words), bounds, is_whole)


AUDIT_FORM = {
    **form(AuditOptions, "people", "counterparts", "method", "seeds", "time", "samples"),
    "seed": _field("seed", Seed, 0),
}
REPAIR_FORM = form(RepairOptions, "max_accuracy_drop", "strength", "max_seeds")


# -- commands --------------------------------------------------------------------------------------


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Give the command an option for every field of its groups."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    shown: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name not in groups:
            shown.append(_parameter(name, hints[name], parameter.default))
            continue
        kinds = get_type_hints(groups[name], include_extras=True)
        for item in fields(groups[name]):
            default = inspect.Parameter.empty if item.default is MISSING else item.default
            shown.append(_parameter(item.name, kinds[item.name], default))

    @wraps(command)
    def run(**values: Any) -> None:
        made = {
            name: kind(**{item.name: values.pop(item.name) for item in fields(kind)})
            for name, kind in groups.items()
        }
        command(**values, **made)

    del run.__wrapped__
    setattr(run, "__signature__", inspect.Signature(shown))  # noqa: B010
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    return run


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )
