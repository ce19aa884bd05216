"""What is done with each kind of file: the same as a command of fairprobe does with it.

Only public names and the command line are used, so the same table serves older versions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any, TypeAlias

from campaign.originals import TABLE

Load: TypeAlias = Callable[[Path], None]
Words: TypeAlias = Callable[[Path], list[str]]
QUICK = ("--samples", "200", "--seeds", "5", "--quiet", "--overwrite", "--out")


@dataclass(frozen=True)
class Kind:
    """A kind of input: the file that is damaged, what reads it, the command for it, and how many of
    a hundred inputs are of this kind.
    """

    name: str
    target: str
    load: Load
    words: Words
    share: float = 2.0


class Refused(Exception):  # noqa: N818  (it is no error of the campaign)
    """A command that ended with exit code 2."""


def command(*words: str | Path) -> int:
    """The exit code of a command in this process."""
    import click
    import typer

    app = import_module("fairprobe.cli").app
    try:
        return int(typer.main.get_command(app).main([*map(str, words)], standalone_mode=False) or 0)
    except click.ClickException:
        return 2  # the command line itself refuses what was typed


def commands(*several: list[str]) -> None:
    """Some commands in this process, all of them tried."""
    if 2 in [command(*words) for words in several]:
        raise Refused


# -- tables ----------------------------------------------------------------------------------------


def _table(file: str) -> tuple[Load, Words]:
    def words(folder: Path) -> list[str]:
        out = ["--out", str(folder / "out.toml"), "--overwrite"]
        return ["data", "schema", str(folder / file), *TABLE, *out]

    return lambda folder: commands(words(folder)), words


def _domain(folder: Path) -> None:
    import fairprobe as fp

    fp.datasets.open_table(
        folder / "people.csv", label="hired", sensitive=["sex"], domain=folder / "domain.toml"
    ).with_sensitive(["sex"])


def _audit(folder: Path, *more: str) -> list[str]:
    return ["audit", str(folder / "people.csv"), *TABLE, *more, *QUICK, str(folder / "out")]


@cache
def _people(folder: Path) -> Any:
    import fairprobe as fp

    data = fp.datasets.open_table(folder / "people.csv", label="hired", sensitive=["sex"])
    return data.with_sensitive(["sex"])


def _costs(folder: Path) -> None:
    import_module("fairprobe.cli.decision").decision_of(str(folder / "costs.csv"), _people(folder))


# -- models ----------------------------------------------------------------------------------------


def _model(file: str, folder: Path, **settings: Any) -> None:
    import fairprobe as fp

    source = folder / file if ":" not in file else f"{folder}/{file}"
    weights = {name: folder / value for name, value in settings.items()}
    data = _people(folder)
    model = fp.load_model(source, data, **weights)
    model.probabilities(data.x[:20])


def _model_kind(name: str, file: str, share: float = 3.0) -> Kind:
    return Kind(
        name,
        file,
        partial(_model, file),
        lambda folder: _audit(folder, "--model", str(folder / file)),
        share,
    )


# -- texts and prompts -----------------------------------------------------------------------------


def _texts(file: str, sensitive: str, folder: Path) -> list[str]:
    name = str(folder / sensitive) if "." in sensitive else sensitive
    return [
        *("audit-text", str(folder / file), "--model", f"{folder / 'own.py'}:classify"),
        *("--sensitive", name, "--quiet", "--overwrite", "--out", str(folder / "out")),
    ]


def _text_kind(name: str, target: str, file: str = "texts.csv", sensitive: str = "gender") -> Kind:
    words = partial(_texts, file, sensitive)
    return Kind(name, target, lambda folder: commands(words(folder)), words, share=3)


def _ask(folder: Path) -> list[str]:
    """A dry run: nobody is asked."""
    described = f'model = "chat:http://127.0.0.1:9/v1"\nprompt = "{folder / "prompt.toml"}"\n'
    (folder / "chat.toml").write_text(described, encoding="utf-8")
    return _audit(folder, "--model", str(folder / "chat.toml"), "--dry-run")


# -- runs ------------------------------------------------------------------------------------------


def _run(folder: Path) -> None:
    run = str(folder / "run")
    card = ["show", run, "--as", "card"]
    try:
        commands(["show", run], card, [*card[:-1], "bias-audit"], _check(folder))
    finally:
        _reopen(folder)


def _reopen(folder: Path) -> None:
    for home in ("fairprobe.runs.reopen", "fairprobe.runs"):
        try:
            opened = import_module(home).reopen
        except (ImportError, AttributeError):
            continue
        takes_table = "table" in signature(opened).parameters
        table = {"table": folder / "people.csv"} if takes_table else {}
        data, model = opened(folder / "run", **table)
        model.probabilities(data.x[:20])
        return


def _check(folder: Path) -> list[str]:
    run = str(folder / "run")
    return ["check", run, "--policy", str(folder / "policy.toml"), "--baseline", run]


def _shown(folder: Path) -> None:
    run = str(folder / "run")
    commands(["show", run], ["show", run, "--as", "json"])


def _verify(folder: Path) -> list[str]:
    return ["verify", str(folder / "run" / "certificate.npz")]


def _browse(folder: Path) -> None:
    """What the dashboard shows of a run: its pages answer, or refuse in a sentence."""
    client = _dashboard(folder)
    pages = ("run", "findings", "histograms", "csv", "what-if", "pictures")
    codes = [client.get(f"/{page}/run").status_code for page in pages]
    if 500 in codes:
        raise RuntimeError(f"the pages answer {codes}")
    if set(codes) != {200}:
        raise Refused


def _dashboard(folder: Path) -> Any:
    """Somebody with the token, who is answered as a browser would be."""
    from starlette.testclient import TestClient

    settings = import_module("fairprobe.serve.settings").ServeSettings(
        runs=folder, state=folder.parent.parent / "state", token="campaign"
    )
    client = TestClient(
        import_module("fairprobe.serve.app").application(settings),
        base_url="http://127.0.0.1:8742",
        raise_server_exceptions=False,
    )
    client.get("/?token=campaign")
    return client


def _card_of_run(folder: Path) -> list[str]:
    return ["show", str(folder / "run"), "--as", "card"]


def _show_run(folder: Path) -> list[str]:
    return ["show", str(folder / "run")]


# -- pictures and scenes ---------------------------------------------------------------------------


def _pictures(folder: Path, *, file: str = "") -> None:
    opened = import_module("fairprobe.datasets.image_sets").open_images
    opened(folder / file if file else folder)


def _audit_images(file: str, folder: Path) -> list[str]:
    few = [
        "--faces",
        "4",
        "--set",
        "iterations=1",
        "--methods",
        "adf",
        "--no-repair",
        "--no-controls",
    ]
    out = ["--quiet", "--overwrite", "--out", str(folder.parent / "out")]
    return ["audit-images", str(folder / file), "--sensitive", "gender", *few, *out]


def _scenes(annotations: str, folder: Path) -> None:
    import fairprobe as fp

    scenes = fp.scenes.open_scenes(folder / "pictures", folder / annotations)
    for name in scenes.names:
        scene = scenes.read(name)
        [instance.mask for instance in scene.instances]


def _masks(folder: Path) -> None:
    import fairprobe as fp

    scenes = fp.scenes.open_scenes(
        folder / "pictures", folder / "masks", kind="masks", names=folder / "names.json"
    )
    for name in scenes.names:
        scenes.read(name)


def _scenes_words(annotations: str, folder: Path) -> list[str]:
    code = folder.parent / "detector.py"
    code.write_text("def detect(image):\n    return []\n")
    out = ["--out", str(folder.parent / "out"), "--overwrite"]
    names = ["--names", str(folder / "names.json")] if annotations == "masks" else []
    return [
        *("audit-scenes", str(folder / "pictures"), "--annotations", str(folder / annotations)),
        *("--detector", f"{code}:detect", "--mutations", "delete", "--set", "inpainting=ns"),
        *("--classes", "person", "--repeats", "1", "--quiet", *names, *out),
    ]


def _scene_kind(name: str, target: str, annotations: str) -> Kind:
    load: Load = _masks if annotations == "masks" else partial(_scenes, annotations)
    return Kind(name, target, load, partial(_scenes_words, annotations))


def _picture_kind(name: str, target: str, file: str = "") -> Kind:
    return Kind(name, target, partial(_pictures, file=file), partial(_audit_images, file))


RUN = "run/audit.json"
KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("csv", "people.csv", *_table("people.csv"), share=6),
        Kind("tsv", "people.tsv", *_table("people.tsv")),
        Kind("csv.gz", "people.csv.gz", *_table("people.csv.gz")),
        Kind("parquet", "people.parquet", *_table("people.parquet"), share=5),
        Kind(
            "domain",
            "domain.toml",
            _domain,
            lambda folder: _audit(folder, "--domain", str(folder / "domain.toml")),
            share=6,
        ),
        Kind("policy", "policy.toml", lambda folder: commands(_check(folder)), _check, share=4),
        Kind(
            "costs",
            "costs.csv",
            _costs,
            lambda folder: _audit(folder, "--decision", str(folder / "costs.csv")),
        ),
        Kind(
            "table-run",
            RUN,
            _run,
            lambda folder: ["show", str(folder / "run"), "--as", "card"],
            share=10,
        ),
        Kind(
            "certificate", "run/certificate.npz", lambda f: commands(_verify(f)), _verify, share=4
        ),
        Kind(
            "certified-run",
            RUN,
            _run,
            lambda folder: ["show", str(folder / "run"), "--as", "card"],
            share=4,
        ),
        Kind("findings", "run/findings.parquet", _browse, _card_of_run, share=3),
        Kind("image-findings", "run/findings.npz", _browse, _show_run),
        Kind("run-network", "run/model/model.json", _reopen, _check),
        Kind("run-weights", "run/model/model.safetensors", _reopen, _check),
        Kind("run-domain", "run/domain.toml", _reopen, _check),
        Kind("images-run", RUN, _shown, lambda folder: ["show", str(folder / "run")], share=3),
        Kind("scenes-run", RUN, _shown, lambda folder: ["show", str(folder / "run")], share=3),
        _model_kind("onnx", "model.onnx", 6),
        _model_kind("pt2", "model.pt2", 4),
        _model_kind("keras", "model.keras", 3),
        _model_kind("pickled-pt", "model.pt", 1),
        _model_kind("state-pt", "model.pt", 1),
        _model_kind("skops", "model.skops", 3),
        _model_kind("skops-forest", "model.skops", 3),
        _model_kind("xgboost-json", "model.json", 4),
        _model_kind("xgboost-ubj", "model.ubj", 4),
        _model_kind("lightgbm", "model.txt", 4),
        _model_kind("catboost", "model.cbm", 0.3),  # each in a process of its own: slow
        Kind(
            "safetensors",
            "model.safetensors",
            partial(_model, "own.py:build", weights="model.safetensors"),
            lambda folder: _audit(
                folder,
                *("--model", f"{folder}/own.py:build"),
                *("--weights", str(folder / "model.safetensors")),
            ),
            share=3,
        ),
        _text_kind("texts-csv", "texts.csv"),
        _text_kind("texts-jsonl", "texts.jsonl", "texts.jsonl"),
        _text_kind("lexicon", "lexicon.toml", sensitive="lexicon.toml"),
        Kind("prompt", "prompt.toml", lambda folder: commands(_ask(folder)), _ask, share=3),
        Kind("text-run", RUN, _shown, _show_run, share=4),
        Kind("score-run", RUN, _shown, _show_run, share=4),
        _picture_kind("npz", "faces.npz", "faces.npz"),
        _picture_kind("npz-jpeg", "faces.npz", "faces.npz"),
        _picture_kind("fairface", "fairface_label_train.csv"),
        _picture_kind("fairface-jpeg", "train/1.jpg"),
        _picture_kind("celeba", "list_attr_celeba.txt"),
        _picture_kind("lfw", "lfw_attributes.txt"),
        _picture_kind("utkface-png", "21_1_1_2017.png"),
        _scene_kind("coco", "instances.json", "instances.json"),
        _scene_kind("panoptic", "panoptic.json", "panoptic.json"),
        _scene_kind(
            "cityscapes", "gtFine/aachen/aachen_000000_000019_gtFine_polygons.json", "gtFine"
        ),
        _scene_kind("masks", "masks/street_0.png", "masks"),
        _scene_kind("mask-names", "names.json", "masks"),
        _scene_kind("scene-png", "pictures/street_0.png", "masks"),
    )
}
