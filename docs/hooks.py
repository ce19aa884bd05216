"""Generates the reference from the package, so that it cannot disagree with it.

mkdocs calls the functions named `on_...`. A page says where a generated part goes with a comment:
`<!-- generated: methods -->`. The pages of the Python API are generated whole, one for each public
module. The list in `papers.md` is committed, so that it can be read in the repository; after a
change in `papers/`, `python -m docs.hooks` writes it again.
"""

from __future__ import annotations

import inspect
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import fairprobe

API = "reference/api"
PAPERS = Path(__file__).parent / "papers"
PAPERS_PAGE = PAPERS.with_suffix(".md")
PAPERS_BEGIN = "<!-- written by `python -m docs.hooks` from docs/papers/*.toml -->\n"
STATUSES = ("exact", "variant", "not possible")


# -- what mkdocs calls -----------------------------------------------------------------------------


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the generated API pages in the navigation."""
    pages = [f"{API}/index.md", *({name: f"{API}/{name}.md"} for name in public_modules())]
    for section in config.nav or []:
        for entry in next(iter(section.values())):
            if isinstance(entry, dict) and API in entry.values():
                entry[next(iter(entry))] = pages
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the Python API."""
    files.append(File.generated(config, f"{API}/index.md", content=api_index()))
    for name, module in public_modules().items():
        files.append(File.generated(config, f"{API}/{name}.md", content=api_page(name, module)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace each placeholder by what it names, and make room for the papers' wide tables."""
    del config, files
    if page.file.src_uri.startswith("results/"):
        page.meta.setdefault("hide", ["toc"])
    for name, generate in GENERATED.items():
        placeholder = f"<!-- generated: {name} -->"
        if placeholder in markdown:
            markdown = markdown.replace(placeholder, generate())
    return markdown


# -- the Python API --------------------------------------------------------------------------------


def public_modules() -> dict[str, ModuleType]:
    """The public modules by name, the package itself first."""
    inner = {name: getattr(fairprobe, name) for name in fairprobe.__all__}
    return {"fairprobe": fairprobe} | {
        f"fairprobe.{name}": module for name, module in inner.items() if is_room(module)
    }


def api_index() -> str:
    rows = [
        [f"[`{name}`]({name}.md)", first_sentence(module)]
        for name, module in public_modules().items()
    ]
    return f"# Python API\n\n{table(['module', 'what is in it'], rows)}"


def api_page(name: str, module: ModuleType) -> str:
    """A page with every public name of a module; what the package itself exports is only linked."""
    above = set() if module is fairprobe else {id(value) for value in exported(fairprobe).values()}
    public = {each: value for each, value in exported(module).items() if not is_room(value)}
    described = [each for each, value in public.items() if id(value) not in above]
    elsewhere = [f"[`fairprobe.{each}`][]" for each in public if each not in described]
    parts = [f"# {name}", with_fenced_examples(inspect.getdoc(module) or "")]
    if elsewhere:
        parts.append(f"Also here: {', '.join(elsewhere)}.")
    parts += [entry(name, each, public[each]) for each in described]
    return "\n\n".join(parts)


def entry(module: str, name: str, value: Any) -> str:
    """One public name. A function that shares its name with a module is found where it is defined;
    one that a factory made is described from its docstring.
    """
    path = f"{module}.{name}"
    if inspect.isfunction(value) and value.__code__.co_name != name:
        signature = f"```python\n{name}{inspect.signature(value)}\n```"
        return "\n\n".join([f"## {path} {{ #{path} }}", signature, inspect.getdoc(value) or ""])
    if path not in sys.modules or inspect.ismodule(value):
        return f"::: {path}"
    return f"::: {value.__module__}.{value.__qualname__}\n    options:\n      heading: {path}"


def is_room(value: object) -> bool:
    """Whether this is a public module; `fairprobe.repair` is a function that old code imports."""
    return inspect.ismodule(value) and not callable(value)


def exported(module: ModuleType) -> dict[str, Any]:
    return {name: getattr(module, name) for name in module.__all__ if name != "__version__"}


# -- the command line ------------------------------------------------------------------------------


def command_line() -> str:
    """Every command with its arguments and options."""
    import typer

    from fairprobe.cli import app

    parts = []
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        parts += [f"## fairprobe {name}", *describe(command)]
        for inner_name, inner in getattr(command, "commands", {}).items():
            parts += [f"### fairprobe {name} {inner_name}", *describe(inner)]
    return "\n\n".join(parts)


def describe(command: Any) -> Iterable[str]:
    getattr(command, "complete_help", lambda: None)()  # from catalogs that only `--help` imports
    about, examples = split_examples(command.help or "")
    yield markup(about)
    if examples:
        yield f"```console\n{examples}\n```"
    panels: dict[str, list[Any]] = {}
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            panels.setdefault("Arguments", []).append(parameter)
        elif not parameter.hidden:
            panels.setdefault(parameter.rich_help_panel or "Options", []).append(parameter)
    for title, parameters in panels.items():
        yield f"**{title}**"
        head = "argument" if title == "Arguments" else "option"
        yield table([head, "meaning"], [option_row(each) for each in parameters])


def split_examples(text: str) -> tuple[str, str]:
    """The description of a command, and its examples as lines to type."""
    about, _, examples = inspect.cleandoc(text).partition("Example")
    commands = examples.partition(":")[2].split("\n\n")
    lines = [" ".join(command.split()) for command in commands]
    return about.strip(), "\n".join(f"$ {line}" for line in lines if line)


def option_row(parameter: Any) -> list[str]:
    names = [*parameter.opts, *parameter.secondary_opts]
    if parameter.param_type_name == "argument":
        names = [parameter.metavar or parameter.name.upper()]
    about = (parameter.help or "").strip()
    if parameter.required:
        about += " **Required.**"
    elif isinstance(parameter.show_default, str):
        about += f" Default: {parameter.show_default}."
    elif parameter.default not in (None, False, True, (), []):
        about += f" Default: `{parameter.default}`."
    return [" ".join(f"`{name}`" for name in names), escape(about)]


# -- catalogues ------------------------------------------------------------------------------------


def sections(kind: str) -> str:
    """A section for each method or repair, those of other packages included."""
    texts = []
    for part in parts(kind):
        name, title, about = part.pop("name"), part.pop("title"), part.pop("about")
        variants = [each.partition(": ") for each in part.pop("variants")]
        lines = [f"- **{heading}**: {fact}" for heading, fact in part.items() if fact]
        lines += [f"- **variant {variant}**: {words}" for variant, _, words in variants]
        texts += [f"## {name}", f"*{title}.* {about}", "\n".join(lines)]
    return "\n\n".join(texts)


def in_short(kind: str) -> str:
    """A small table of the methods or repairs."""
    rows = [[f"`{part['name']}`", escape(part["about"])] for part in parts(kind)]
    return table([kind.removesuffix("s"), "what it does"], rows)


def parts(kind: str) -> list[dict[str, Any]]:
    from fairprobe.present import listings

    listing: listings.Listing = getattr(listings, kind)()
    return listing.to_dicts()


def formats() -> str:
    rows = [
        [part["--model"], escape(part["about"]), part["white box"], f"`{part['install']}`"]
        for part in parts("formats")
    ]
    return table(["`--model`", "what it is", "white box", "install"], rows).replace("``", "")


def measures() -> str:
    rows = [
        [f"`{part['name']}`", escape(part["about"]), part["good is"]] for part in parts("measures")
    ]
    return table(["measure", "what it is", "good is"], rows)


def layouts() -> str:
    from fairprobe.scenes import LAYOUTS

    rows = [
        [each.title, escape(each.shapes), escape(each.about), f"{each.threshold:g}"]
        for each in LAYOUTS.values()
    ]
    return table(["layout", "inputs and outputs", "what it is", "least score"], rows)


def datasets() -> str:
    from fairprobe.datasets import catalogue

    rows = [
        [
            f"`{each.name}`",
            escape(each.title),
            f"{each.rows:,}",
            str(each.attributes),
            ", ".join(each.protected),
            escape(f"{each.source}. {each.license}"),
        ]
        for each in catalogue()
    ]
    head = ["name", "title", "rows", "attributes", "sensitive", "source and license"]
    return table(head, rows)


def papers_page() -> str:
    """`papers.md` with the list as it should be now."""
    above = PAPERS_PAGE.read_text(encoding="utf-8").partition(PAPERS_BEGIN)[0]
    return f"{above}{PAPERS_BEGIN}\n{papers()}\n"


def papers() -> str:
    """The parts of the papers, by paper: a table each, and how many are exact."""
    parts = []
    for path in sorted(PAPERS.glob("*.toml"), key=lambda path: path.stem != "neuronfair"):
        paper = tomllib.loads(path.read_text(encoding="utf-8"))
        entries = paper["entry"]
        counts = Counter(each["status"] for each in entries)
        said = ", ".join(f"{counts[status]} {status}" for status in STATUSES if counts[status])
        parts += [
            f"## {paper['title']}",
            f"{paper['citation']}. {len(entries)} parts: {said}.",
            table(["part", "what it is", "where", "how"], [paper_row(each) for each in entries]),
        ]
    return "\n\n".join(parts)


def paper_row(entry: dict[str, Any]) -> list[str]:
    name, run, note = entry["item"], entry.get("run"), entry.get("note", "")
    result = entry.get("result")
    code = [f"`{each.removeprefix('fairprobe.')}`" for each in entry["code"]]
    shown = f"[{name}]({result})" if result else name
    return [
        shown,
        escape(entry["about"]),
        "<br>".join([*code, *([f"`{run}`"] if run else [])]),
        f"**{entry['status']}**" + (f": {escape(note)}" if note else ""),
    ]


GENERATED: dict[str, Callable[[], str]] = {
    "cli": command_line,
    "datasets": datasets,
    "formats": formats,
    "layouts": layouts,
    "measures": measures,
    "methods": partial(sections, "methods"),
    "methods in short": partial(in_short, "methods"),
    "repairs": partial(sections, "repairs"),
    "repairs in short": partial(in_short, "repairs"),
}


# -- Markdown --------------------------------------------------------------------------------------


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def escape(text: str) -> str:
    """Text that stays one cell of a table."""
    return markup(" ".join(text.split())).replace("|", "\\|").replace("<", "&lt;")


def markup(text: str) -> str:
    """Command-line markup as Markdown."""
    return text.replace("[bold]", "**").replace("[/bold]", "**")


def with_fenced_examples(docstring: str) -> str:
    """A docstring whose examples (`>>>`) are code blocks."""
    paragraphs = docstring.split("\n\n")
    return "\n\n".join(
        f"```pycon\n{each}\n```" if each.startswith(">>>") else each for each in paragraphs
    )


def first_sentence(thing: object) -> str:
    paragraph = " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())
    return escape(paragraph.split(". ")[0].rstrip(".") + ".")


if __name__ == "__main__":
    PAPERS_PAGE.write_text(papers_page(), encoding="utf-8")
