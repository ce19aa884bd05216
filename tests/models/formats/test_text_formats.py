"""Classifiers of texts in files and behind addresses: ONNX with text, transformers, endpoints."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from torch import nn

from fairprobe.errors import FairprobeError
from fairprobe.models.text import TextModel, load_text_model

VOCABULARY = {"[PAD]": 0, "[UNK]": 1, "good": 2, "bad": 3, "gay": 4, "a": 5}


def text_graph(path: Path, *, locale: str | None = None, probabilities: bool = True) -> Path:
    """Upper-case texts; "BAD" has the second class."""
    normalize = {"case_change_action": "UPPER", **({"locale": locale} if locale else {})}
    nodes = [
        helper.make_node("StringNormalizer", ["text"], ["upper"], **normalize),
        helper.make_node(
            "LabelEncoder",
            ["upper"],
            ["score"],
            domain="ai.onnx.ml",
            keys_strings=["BAD"],
            values_floats=[0.75],
            default_float=0.25,
        ),
        helper.make_node("Reshape", ["score", "shape"], ["second"]),
        helper.make_node("Sub", ["one", "second"], ["first"]),
        helper.make_node("Concat", ["first", "second"], ["probabilities"], axis=1),
    ]
    last = "probabilities" if probabilities else "upper"
    kind = TensorProto.FLOAT if probabilities else TensorProto.STRING
    graph = helper.make_graph(
        nodes if probabilities else nodes[:1],
        "texts",
        [helper.make_tensor_value_info("text", TensorProto.STRING, [None])],
        [helper.make_tensor_value_info(last, kind, None)],
        [
            helper.make_tensor("shape", TensorProto.INT64, [2], [-1, 1]),
            helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0]),
        ],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 2)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    return path


@pytest.mark.parametrize("locale", ["C", "xx_XX.unknown"])
def test_onnx_takes_text(tmp_path: Path, locale: str) -> None:
    model = load_text_model(text_graph(tmp_path / "m.onnx", locale=locale), classes=["ok", "not"])
    np.testing.assert_allclose(model.probabilities(["bad", "x"]), [[0.25, 0.75], [0.75, 0.25]])
    assert bool(model.notes) == (locale != "C")


def test_onnx_without_text_or_scores_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(FairprobeError, match="labels only"):
        load_text_model(text_graph(tmp_path / "m.onnx", locale="C", probabilities=False))
    numbers = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "numbers",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 2])],
    )
    onnx.save(helper.make_model(numbers, ir_version=9), tmp_path / "n.onnx")
    with pytest.raises(FairprobeError, match="expected one input of text"):
        load_text_model(tmp_path / "n.onnx")


@pytest.fixture(scope="module")
def transformers_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny classifier of our own, saved by transformers."""
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel(VOCABULARY, unk_token="[UNK]"))
    words.normalizer = tokenizers.normalizers.Lowercase()
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="[UNK]", pad_token="[PAD]"
    )
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=16,
        id2label={0: "ok", 1: "toxic"},
        label2id={"ok": 0, "toxic": 1},
    )
    folder = tmp_path_factory.mktemp("bert") / "tiny"
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.slow
def test_a_transformers_folder_is_a_white_box(transformers_folder: Path) -> None:
    model = load_text_model(transformers_folder)
    assert model.classes == ("ok", "toxic")
    p = model.probabilities(["a good one", "a bad one that is " + "longer " * 40])
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
    assert p[0, 0] != p[1, 0]
    assert model.network is not None


@pytest.mark.slow
def test_a_label_of_several_is_chosen(transformers_folder: Path, tmp_path: Path) -> None:
    for file in transformers_folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    config["problem_type"] = "multi_label_classification"
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(FairprobeError, match="--target NAME"):
        load_text_model(tmp_path)
    with pytest.raises(FairprobeError, match=r"no label 'tox'\. Did you mean 'toxic'"):
        load_text_model(tmp_path, target="tox")
    model = load_text_model(tmp_path, target="toxic")
    assert model.classes == ("not toxic", "toxic")
    assert model.probabilities(["a"]).shape == (1, 2)
    (tmp_path / "model.safetensors").write_bytes(b"x")
    with pytest.raises(FairprobeError, match="cannot be opened"):
        load_text_model(tmp_path, target="toxic")


def test_folders_that_are_no_classifier_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(FairprobeError, match=r"no config\.json"):
        load_text_model(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"x")
    with pytest.raises(FairprobeError, match="may be pickles"):
        load_text_model(tmp_path)
    with pytest.raises(FairprobeError, match="is a pickle"):
        load_text_model("model.pkl")


class Bag(nn.Module):
    """The mean of word vectors, and a probability."""

    classes = ("ok", "toxic")

    def __init__(self, *, sigmoid: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(VOCABULARY), 4)
        self.out = nn.Linear(4, 1)
        self.sigmoid = sigmoid

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        z: torch.Tensor = self.out(torch.tanh(self.embedding(tokens)).mean(dim=1))
        return torch.sigmoid(z) if self.sigmoid else z


def tokens(texts: Sequence[str]) -> list[list[int]]:
    split = [[VOCABULARY.get(word, 1) for word in text.split()][:6] for text in texts]
    return [[*words, *[0] * (6 - len(words))] for words in split]


def test_a_module_with_its_tokenizer_is_a_white_box() -> None:
    found: list[TextModel] = []
    for sigmoid in (True, False):

        def build(sigmoid: bool = sigmoid) -> tuple[nn.Module, object]:
            torch.manual_seed(1)
            return Bag(sigmoid=sigmoid), tokens

        found.append(load_text_model(build))
    answers = [model.probabilities(["a bad one", "good"]) for model in found]
    np.testing.assert_allclose(answers[0], answers[1], atol=1e-6)
    assert found[0].classes == ("ok", "toxic")
    assert found[0].network is not None


@pytest.fixture
def address() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            rows = [
                {"ok": 1 - p, "toxic": p}
                for p in (0.9 if "bad" in row["text"] else 0.1 for row in body["instances"])
            ]
            data = json.dumps({"predictions": rows}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/model"
    server.shutdown()
    server.server_close()


def test_an_endpoint_is_asked_for_texts(address: str) -> None:
    model = load_text_model(address)
    assert model.classes == ("ok", "toxic")
    np.testing.assert_allclose(model.probabilities(["bad", "x"])[:, 1], [0.9, 0.1], rtol=1e-6)
    assert model.kind == "HTTP endpoint"
