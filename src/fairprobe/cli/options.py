"""Options that several commands share, declared once.

A group is a dataclass whose fields are options. A command takes it as one parameter, and `grouped`
shows its fields as options of the command:

    @app.command()
    @grouped
    def certify(table: TableOptions, named: ModelOptions, seed: Seed = 0) -> None: ...

A command for which an option means something else takes a subclass that declares it again.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace the run that is in the folder.")
]
Seed = Annotated[int, typer.Option(help="The same seed gives the same result.")]


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for every field of its groups."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    shown: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name not in groups:
            shown.append(_option(name, hints[name], parameter.default))
            continue
        kinds = get_type_hints(groups[name], include_extras=True)
        for each in fields(groups[name]):
            default = inspect.Parameter.empty if each.default is MISSING else each.default
            shown.append(_option(each.name, kinds[each.name], default))

    @wraps(command)
    def run(**values: Any) -> None:
        made = {
            name: kind(**{each.name: values.pop(each.name) for each in fields(kind)})
            for name, kind in groups.items()
        }
        command(**values, **made)

    del run.__wrapped__
    setattr(run, "__signature__", inspect.Signature(shown))  # noqa: B010
    run.__annotations__ = {each.name: each.annotation for each in shown}
    return run


def _option(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )
