"""Files that try to execute something, to contact somebody, to fill the memory or to reach the
terminal and the report: each is written by a function, with the command that opens it.

`WRITERS` has one entry a case: it writes the files into a folder and returns the words of the
command. What is executed writes the file `canary`; what is contacted is the address `server`.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from campaign.originals import TABLE, people

QUICK = ("--samples", "200", "--seeds", "5", "--quiet", "--overwrite")
ESCAPES = "\x1b[31mred\x1b]0;title\x07\x9b5m"
HTML = "<script>alert(1)</script><img src=x onerror=alert(1)>"
FORMULA = "=cmd|' /C calc'!A0"


@dataclass(frozen=True)
class Case:
    """Where a hostile file is written, and what must stay untouched."""

    folder: Path
    originals: Path
    canary: Path
    server: str

    @property
    def table(self) -> Path:
        path = self.folder / "people.csv"
        if not path.exists():
            people().to_csv(path, index=False)
        return path

    def audit(self, *words: str | Path) -> list[str]:
        out = ["--out", str(self.folder / "out")]
        return ["audit", str(self.table), *TABLE, *QUICK, *map(str, words), *out]

    def model(self, name: str, content: bytes) -> list[str]:
        (self.folder / name).write_bytes(content)
        return self.audit("--model", self.folder / name)

    @property
    def shell(self) -> str:
        return f"echo executed > {self.canary}"

    @property
    def program(self) -> str:
        return f"open({str(self.canary)!r}, 'w').write('executed')\n"


class _Evil:
    def __init__(self, words: str) -> None:
        self.words = words

    def __reduce__(self) -> Any:
        return os.system, (self.words,)


Writer: TypeAlias = Callable[[Case], list[str]]
WRITERS: dict[str, Writer] = {}


def case(name: str) -> Callable[[Writer], Writer]:
    """Adds a case to the table."""

    def add(writer: Writer) -> Writer:
        WRITERS[name] = writer
        return writer

    return add


# -- pickles ---------------------------------------------------------------------------------------


def _pickle(given: Case) -> bytes:
    return pickle.dumps(_Evil(given.shell))


for _name in ("pkl", "joblib", "pt", "pth", "bin", "onnx", "keras", "h5", "txt", "json", "skops"):
    WRITERS[f"a pickle called model.{_name}"] = lambda given, name=_name: given.model(  # type: ignore[misc]
        f"model.{name}", _pickle(given)
    )


def packed(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as file:
        for name, content in members.items():
            file.writestr(zipfile.ZipInfo(name), content, compress_type=method)
    return buffer.getvalue()


@case("a torch.save archive with a pickle that calls the shell")
def _torch_save(given: Case) -> list[str]:
    return given.model(
        "model.pt", packed({"archive/data.pkl": _pickle(given), "archive/version": b"3\n"})
    )


@case("a pickle as weights of own code")
def _weights(given: Case) -> list[str]:
    (given.folder / "own.py").write_text(
        "from torch import nn\n\ndef build():\n    return nn.Linear(4, 2)\n"
    )
    (given.folder / "w.safetensors").write_bytes(_pickle(given))
    return given.audit(
        *("--model", f"{given.folder}/own.py:build"),
        *("--weights", given.folder / "w.safetensors"),
    )


@case("a pickle as encoder")
def _encoder(given: Case) -> list[str]:
    (given.folder / "encoder.pkl").write_bytes(_pickle(given))
    words = given.model("model.onnx", (given.originals / "onnx" / "model.onnx").read_bytes())
    return [*words, "--encoder", str(given.folder / "encoder.pkl")]


@case("an .npz whose pictures are a pickled object")
def _object_array(given: Case) -> list[str]:
    path = given.folder / "faces.npz"
    np.savez(path, images=np.array([_Evil(given.shell)], dtype=object), is_face=np.ones(1))
    return ["audit-images", str(path), "--sensitive", "gender", "--out", str(given.folder / "out")]


@case("a Parquet file with a pickled extension type")
def _extension_type(given: Case) -> list[str]:
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.Table.from_pandas(people(), preserve_index=False)
    evil = {
        b"ARROW:extension:name": b"arrow.py_extension_type",
        b"ARROW:extension:metadata": _pickle(given),
    }
    field = table.schema.field("age").with_metadata(evil)
    table = table.cast(table.schema.set(table.schema.get_field_index("age"), field))
    parquet.write_table(table, given.folder / "people.parquet")
    out = ["--out", str(given.folder / "out")]
    return ["audit", str(given.folder / "people.parquet"), *TABLE, *QUICK, *out]


@case("skops with a type of its own")
def _skops(given: Case) -> list[str]:
    content = (given.originals / "skops" / "model.skops").read_bytes()
    text = _member(content, "schema.json").decode()
    schema = json.loads(text)
    schema["__class__"], schema["__module__"] = "system", "os"
    return given.model("model.skops", _with(content, "schema.json", json.dumps(schema).encode()))


@case("skops that calls a function by its name")
def _skops_function(given: Case) -> list[str]:
    content = (given.originals / "skops" / "model.skops").read_bytes()
    node = {
        "__class__": "function",
        "__module__": "builtins",
        "__loader__": "FunctionNode",
        "content": {"module_path": "os", "function": "system"},
        "protocol": 2,
        "_skops_version": "0.11",
    }
    return given.model("model.skops", _with(content, "schema.json", json.dumps(node).encode()))


def _member(content: bytes, name: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        found = next(each for each in file.namelist() if each.endswith(name))
        return file.read(found)


def _with(content: bytes, name: str, new: bytes) -> bytes:
    """The archive with another record of this name."""
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        members = {each: file.read(each) for each in file.namelist()}
    found = next(each for each in members if each.endswith(name))
    return packed({**members, found: new})


# -- Keras, torch.export, ONNX ---------------------------------------------------------------------


def _keras(given: Case, layer: dict[str, Any]) -> list[str]:
    content = (given.originals / "keras" / "model.keras").read_bytes()
    config = json.loads(_member(content, "config.json"))
    config["config"]["layers"].append(layer)
    return given.model("model.keras", _with(content, "config.json", json.dumps(config).encode()))


@case("a Keras Lambda layer")
def _lambda(given: Case) -> list[str]:
    import base64
    import marshal

    code = compile(given.program, "evil", "exec")
    packed = base64.b64encode(marshal.dumps(code)).decode()
    function = {"class_name": "__lambda__", "config": {"code": packed, "defaults": None}}
    layer = {"module": "keras.layers", "class_name": "Lambda", "registered_name": None}
    return _keras(given, {**layer, "config": {"name": "evil", "function": function}})


@case("a Keras layer that is os.system")
def _system_layer(given: Case) -> list[str]:
    layer = {"module": "os", "class_name": "system", "registered_name": None}
    return _keras(given, {**layer, "config": given.shell})


@case("a Keras layer from a module in the current folder")
def _local_layer(given: Case) -> list[str]:
    (given.folder / "evil_layers.py").write_text(f"{given.program}class Evil:\n    pass\n")
    layer = {"module": "evil_layers", "class_name": "Evil", "registered_name": "Evil"}
    return _keras(given, {**layer, "config": {}})


@case("TorchScript that writes a file")
def _script(given: Case) -> list[str]:
    """A TorchScript archive; torch would run its program."""
    save = f"def forward(self, x):\n  torch.save([1], {json.dumps(str(given.canary))})\n"
    parts = {"data.pkl": b"\x80\x02N.", "constants.pkl": b"\x80\x02).", "version": b"3\n"}
    parts["code/__torch__.py"] = save.encode()
    return given.model("model.pt", packed({f"m/{name}": part for name, part in parts.items()}))


@case("torch.export whose weights are a pickle that calls the shell")
def _export_weights(given: Case) -> list[str]:
    content = (given.originals / "pt2" / "model.pt2").read_bytes()
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        names = [each for each in file.namelist() if "weight" in each and "config" not in each]
    for name in names:
        content = _with(content, name, _pickle(given))
    return given.model("model.pt2", content)


def _external(given: Case, location: str) -> list[str]:
    import onnx

    model = onnx.load(str(given.originals / "onnx" / "model.onnx"))
    for tensor in model.graph.initializer:
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        del tensor.external_data[:]
        tensor.external_data.add(key="location", value=location)
    return given.model("model.onnx", model.SerializeToString())


for _place in ("/etc/passwd", "../../../../../../../../etc/passwd", "link"):
    WRITERS[f"ONNX with external data at {_place}"] = lambda given, place=_place: (  # type: ignore[misc]
        (given.folder / "link").symlink_to("/etc/passwd"),
        _external(given, place),
    )[1]


@case("ONNX with an operator of a foreign domain")
def _foreign_operator(given: Case) -> list[str]:
    import onnx

    model = onnx.load(str(given.originals / "onnx" / "model.onnx"))
    model.graph.node[0].domain = "evil"
    model.opset_import.add(domain="evil", version=1)
    return given.model("model.onnx", model.SerializeToString())


@case("LightGBM that names a file to load")
def _lightgbm(given: Case) -> list[str]:
    text = (given.originals / "lightgbm" / "model.txt").read_text()
    hostile = text.replace("parameters:", "parameters:\n[input_model: /etc/passwd]\n[machines: x]")
    return given.model("model.txt", hostile.encode())
