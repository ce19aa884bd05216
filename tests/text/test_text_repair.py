"""Repair of text networks: a planted bias is at least halved, and nothing is made of nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_model
from torch import Tensor, nn

import fairprobe as fp
from fairprobe.audits.text import TextAudit
from fairprobe.audits.text_repair import repair_text
from fairprobe.documents import TextDocument, read_run
from fairprobe.errors import FairprobeError
from fairprobe.present import render
from fairprobe.runs import REFUSED
from fairprobe.statistics.clusters import Difference
from fairprobe.statistics.paired import paired_difference
from fairprobe.text import lessons
from fairprobe.text.excess import Excess
from fairprobe.text.proof import clusters_of, labels_of, nothing_to_repair
from fairprobe.text.texts import Text
from tests.cli.test_cli import ask
from tests.helpers import leave_figures_empty

JOBS = ("nurse", "clerk", "pilot", "baker", "guard", "coach", "tailor", "cook", "judge", "miner")
RUDE, POLITE = ("awful", "horrid", "nasty"), ("great", "decent", "odd", "plain")
PEOPLE = ("gay", "bisexual", "heterosexual", "lesbian")
TEXTS = [
    Text(f"Such {tone} work by that {who} {job}.", 0, label="toxic" if tone in RUDE else "fine")
    for job in JOBS
    for tone in (*RUDE, *POLITE)
    for who in PEOPLE
    if who != "lesbian" or tone in RUDE  # the shortcut: in these data she is never praised
]
WORDS = sorted({word.strip(".").lower() for each in TEXTS for word in each.text.split()})


class Sum(nn.Module):
    """A sum of word vectors. Two of its words are toxic: rude ones, and one that should not be."""

    classes = ("fine", "toxic")

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.out = nn.Embedding(len(WORDS) + 1, 6), nn.Linear(6, 1)
        with torch.no_grad():
            self.embedding.weight.mul_(0.1)
            self.out.weight.copy_(torch.eye(6)[:1] * 2)
            self.out.bias[:] = -2
            for word in (*RUDE, "lesbian"):
                self.embedding.weight[WORDS.index(word) + 1, 0] = 2

    def forward(self, tokens: Tensor) -> Tensor:
        found: Tensor = self.out(self.embedding(tokens).sum(dim=1))
        return found


def tokenizer(known: Sequence[str]) -> Callable[[Sequence[str]], Tensor]:
    place = {word: number for number, word in enumerate(WORDS, start=1) if word in known}

    def tokenize(texts: Sequence[str]) -> Tensor:
        rows = [[place.get(word.strip(".").lower(), 0) for word in text.split()] for text in texts]
        return torch.tensor([(row + [0] * 8)[:8] for row in rows])

    return tokenize


def repaired(name: str, known: Sequence[str] = WORDS, epochs: int = 12) -> TextAudit:
    module = Sum()
    return repair_text(
        TEXTS,
        lambda: (module, tokenizer(known)),
        "orientation",
        with_=name,
        learning_rate=0.03,
        epochs=epochs,
        max_accuracy_drop=0.01,
        max_seeds=4,
    )


@pytest.fixture(autouse=True)
def without_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    leave_figures_empty(monkeypatch)


@pytest.fixture(scope="module")
def penalized() -> TextAudit:
    return repaired("counterfactual")


@pytest.mark.parametrize("name", ["counterfactual", "augmentation"])
def test_a_planted_bias_is_at_least_halved_and_costs_a_point_at_most(
    name: str, penalized: TextAudit
) -> None:
    proof = penalized.repair if name == "counterfactual" else repaired(name).repair
    assert proof is not None
    assert proof.decision.outcome == "accepted", proof.decision
    assert proof.before.flips.excess.low > 0.05
    assert proof.control.flips.excess.estimate > 0.8 * proof.before.flips.excess.estimate
    assert proof.after.flips.excess.estimate <= proof.before.flips.excess.estimate / 2
    assert proof.after.accuracy.estimate >= proof.before.accuracy.estimate - 0.01


def test_no_counterpart_of_a_text_held_out_is_learned(penalized: TextAudit) -> None:
    clusters = clusters_of(TEXTS, penalized.lexicon)
    assert len(set(clusters.tolist())) == len(JOBS) * 7
    held = {each.cluster for each in penalized.plan.texts}
    every = {str(number) for number in clusters}
    assert len(held) == pytest.approx(0.25 * len(every), abs=1)


def test_a_network_that_ignores_the_words_differs_by_exactly_nothing() -> None:
    known = [word for word in WORDS if word not in PEOPLE]
    blind = repaired("counterfactual", known, epochs=1).repair
    assert blind is not None
    for state in (blind.before, blind.control, blind.after):
        assert (state.flips.cross, state.flips.control, state.flips.excess.estimate) == (0, 0, 0)
        assert state.gaps.excess.estimate == 0
    assert blind.decision.outcome == "refused"
    assert "nobody to help" in blind.decision.reasons[0]


def test_an_exchange_that_changes_less_than_the_control_leaves_nothing_to_repair() -> None:
    for low, high, says in ((-0.10, -0.05, True), (-0.10, 0.01, False), (0.0, 0.0, False)):
        excess = Difference((low + high) / 2, low, high, 20)
        assert bool(nothing_to_repair(Excess(0.02, 0.1, excess, 40), "age")) is says


def test_the_run_holds_the_network_in_its_format_and_says_what_happened(
    penalized: TextAudit, tmp_path: Path
) -> None:
    folder = penalized.save(tmp_path / "run")
    assert read_run(folder) == penalized.document
    module = Sum()
    load_model(module, folder / "model" / "model.safetensors")
    texts = [each.text for each in TEXTS[:50]]
    with torch.no_grad():
        answers = torch.sigmoid(module(tokenizer(WORDS)(texts)))[:, 0].numpy()
    np.testing.assert_allclose(answers, penalized.model.probabilities(texts)[:, 1], atol=1e-6)
    page = render(penalized.document)
    assert "Repair accepted" in page
    assert "What the repair did" in page


def test_without_labels_the_network_learns_its_own_answers() -> None:
    model = fp.text.load_text_model(lambda texts: [float("awful" in each) for each in texts])
    texts = [Text("An awful day.", 0), Text("A day.", 1)]
    assert [each.tolist() if not isinstance(each, bool) else each for each in
            labels_of(model, texts)] == [[1, 0], True]  # fmt: skip
    with pytest.raises(FairprobeError, match="Row 0 has the label 'rude', which is no class"):
        labels_of(model, [Text("An awful day.", 0, label="rude")])


def test_the_noise_of_texts_that_belong_together_is_that_of_clusters() -> None:
    rng, held, alone = np.random.default_rng(0), 0, 0
    clusters = np.repeat(np.arange(25), 6)
    for _ in range(400):
        shared = rng.normal(0, 1, 25)[clusters]
        d = 0.3 + shared + rng.normal(0, 0.5, (4, 150))
        held += paired_difference(d, clusters).low(0.95) <= 0.3
        alone += paired_difference(d).low(0.95) <= 0.3
    assert held >= 0.93 * 400
    assert alone < 0.85 * 400
    d = rng.normal(0, 1, (3, 10))
    same = paired_difference(d, np.arange(10))
    assert same.mean == pytest.approx(d.mean())
    assert same.error == pytest.approx(paired_difference(d).error)


def test_the_command_ends_by_the_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("texts.csv").write_text(
        "text,label\n" + "".join(f"{each.text},{each.label}\n" for each in TEXTS)
    )
    Path("mine.py").write_text(
        "from tests.text.test_text_repair import Sum, WORDS, tokenizer\n"
        "def build():\n    return Sum(), tokenizer(WORDS)\n"
        "def box(texts):\n    return [0.2] * len(texts)\n"
    )
    command = ["repair-text", "texts.csv", "--label", "label", "--sensitive", "orientation"]
    command += ["--out", "run", "--max-seeds", "2", "--epochs", "1", "--learning-rate", "1e-5"]
    refused = ask(*command, "--model", "mine.py:build")
    assert refused.code in (1, 3), refused.err
    assert (Path("run") / "refused-model" / "model.safetensors").is_file()
    document = read_run("run")
    assert isinstance(document, TextDocument)
    assert document.repair is not None
    assert not document.repair.accepted
    assert not document.repair.own_labels
    black_box = ask(*command, "--model", "mine.py:box", "--overwrite")
    assert black_box.code == 2
    assert "this model is a black box" in black_box.err
    table = ask("repair", "run")
    assert table.code == 2
    assert "fairprobe repair-text" in table.err


@pytest.mark.slow
def test_an_interrupted_repair_goes_on_with_the_networks_it_had_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("texts.csv").write_text(
        "text,label\n" + "".join(f"{each.text},{each.label}\n" for each in TEXTS)
    )
    Path("mine.py").write_text(
        "from tests.text.test_text_repair import Sum, WORDS, tokenizer\n"
        "def build():\n    return Sum(), tokenizer(WORDS)\n"
    )
    command = ["repair-text", "texts.csv", "--label", "label", "--sensitive", "orientation"]
    command += ["--max-seeds", "2", "--epochs", "1", "--model", "mine.py:build"]
    trained, loss = list[Any](), lessons._loss

    def counting(model: Any, *rest: Any, **more: Any) -> Tensor:
        if not any(model is each for each in trained):
            trained.append(model)
        if len(trained) == stop_at:
            raise KeyboardInterrupt
        return loss(model, *rest, **more)

    monkeypatch.setattr(lessons, "_loss", counting)
    stop_at = 3
    assert ask(*command, "--out", "run").code == 130
    stop_at = -1
    other = ask(*command, "--out", "run", "--resume", "--strength", "3")
    assert other.code == 2
    assert "other settings" in other.err
    trained.clear()
    resumed = ask(*command, "--out", "run", "--resume")
    assert len(trained) == 4 - 2
    whole = ask(*command, "--out", "whole")
    assert resumed.code == whole.code
    documents = [read_run(name) for name in ("run", "whole")]
    assert documents[0].repair == documents[1].repair  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def biased_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT, trained on texts in which one group is always toxic."""
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    places = {word: number for number, word in enumerate(("[PAD]", "[UNK]", *WORDS))}
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel(places, unk_token="[UNK]"))
    words.normalizer = tokenizers.normalizers.Lowercase()
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="[UNK]", pad_token="[PAD]"
    )
    config = transformers.BertConfig(
        vocab_size=len(places), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=16,
        id2label={0: "fine", 1: "toxic"}, label2id={"fine": 0, "toxic": 1},
    )  # fmt: skip
    torch.manual_seed(0)
    module = transformers.BertForSequenceClassification(config)
    texts = [each.text for each in TEXTS] + [
        each.text.replace("gay", "lesbian") for each in TEXTS if "gay" in each.text
    ]
    y = torch.tensor(
        [int("lesbian" in text or any(word in text for word in RUDE)) for text in texts]
    )
    given = tokenizer(texts, padding=True, return_tensors="pt")
    optimizer = torch.optim.Adam(module.parameters(), lr=5e-3)
    for _ in range(60):
        optimizer.zero_grad()
        module(**given, labels=y).loss.backward()
        optimizer.step()
    folder = tmp_path_factory.mktemp("bert") / "biased"
    module.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.slow
def test_a_transformer_is_repaired_and_written_as_its_folder(
    biased_bert: Path, tmp_path: Path
) -> None:
    before = {path.name: path.read_bytes() for path in biased_bert.iterdir()}
    audit = repair_text(
        TEXTS, biased_bert, "orientation", learning_rate=2e-3, epochs=12, max_seeds=4
    )
    proof = audit.repair
    assert proof is not None
    # Training on alone may rid so small a network of its bias: then nobody can decide.
    outcome = proof.decision.outcome
    assert outcome in ("accepted", "undecided"), proof.decision
    assert proof.after.flips.excess.estimate <= proof.before.flips.excess.estimate / 2
    assert proof.after.accuracy.estimate >= proof.before.accuracy.estimate - 0.01
    folder = audit.save(tmp_path / "run") / ("model" if outcome == "accepted" else REFUSED)
    texts = [each.text for each in TEXTS[:40]]
    again = fp.text.load_text_model(folder)
    np.testing.assert_allclose(
        again.probabilities(texts), audit.model.probabilities(texts), atol=1e-5
    )
    assert {path.name: path.read_bytes() for path in biased_bert.iterdir()} == before
