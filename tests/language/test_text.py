"""`audit_text` and `fairprobe audit-text`: what they find, write, refuse and keep."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from torch import nn

import fairprobe as fp
from fairprobe.arrays import Floats
from fairprobe.errors import FairprobeError, StorageError
from fairprobe.language.text import TextAudit, TextRun, audit_text
from fairprobe.language.text_report import report
from fairprobe.models.formats.text_network import Fluency, open_fluency
from fairprobe.report import html
from fairprobe.report.markdown import markdown
from fairprobe.runs.store import read_run
from tests.chat_servers import answering, question
from tests.cli.test_cli import ask

JOBS = ("nurse", "clerk", "pilot", "baker", "guard", "coach", "tailor", "<b>cook</b>")
TEXTS = [f"A gay {job} came {when}." for job in JOBS for when in ("today", "late", "again")]
CODE = """
def harsh(texts):
    return [0.9 if "lesbian" in text else 0.2 for text in texts]

def blind(texts):
    return [0.2] * len(texts)

def broken(texts):
    raise RuntimeError("no luck")
"""


def harsh(texts: Sequence[str]) -> list[float]:
    return [0.9 if "lesbian" in text else 0.2 for text in texts]


@pytest.fixture(scope="module")
def audit() -> TextAudit:
    return audit_text(TEXTS, harsh, "orientation", classes=["fine", "toxic"])


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(CODE)
    Path("texts.txt").write_text("\n".join(TEXTS))
    Path("policy.toml").write_text("[limits]\ntext_flips = 0.05\n")
    return tmp_path


def test_the_rate_the_control_and_the_word_it_rests_on(audit: TextAudit) -> None:
    document = audit.document
    assert document.flips.cross == pytest.approx(1 / 3)
    assert document.flips.control == 0
    assert document.flips.is_shown
    assert document.rests_on == ["lesbian"]
    assert [pair.second.group for pair in document.pairs[:2]] == ["lesbian", "lesbian"]
    assert document.calls == len({text for each in audit.plan.exchanges for text in
                                  (each.first.text, each.second.text)})  # fmt: skip


def test_no_excess() -> None:
    run = audit_text(TEXTS, lambda texts: [0.2] * len(texts), "orientation").run
    assert (run.flips.estimate, run.flips.is_shown, run.pairs) == (0, False, [])
    assert next(report(run).verdicts).status == "none"


def test_the_report_as_markdown(audit: TextAudit, golden: Callable[[str, str], None]) -> None:
    run = replace(audit.run, created="2026-01-02", seconds={})
    golden("text.md", markdown(report(run)))


def test_the_report_marks_the_words_and_escapes_the_texts(audit: TextAudit) -> None:
    page = html.page(report(audit.run))
    assert "<mark>gay</mark>" in page
    assert "<b>cook" not in page
    assert "&lt;b&gt;cook" in page


def test_a_run_is_read_again_and_judged(audit: TextAudit, tmp_path: Path) -> None:
    folder = audit.save(tmp_path / "run")
    assert read_run(folder) == audit.document
    assert len((folder / "exchanges.csv").read_text().splitlines()) > len(TEXTS)
    result = fp.check(folder, fp.Policy({"text_flips": 0.05, "text_gaps": 0.9}))
    assert [ruling.outcome for ruling in result.rulings] == ["fail", "pass"]
    assert (
        audit.check(fp.Policy({"people": 0.1}))
        .rulings[0]
        .why.endswith("It is missing: the run is an audit of text. Take people out of the policy.")
    )
    assert fp.check(folder, fp.Policy(baseline={"text_flips": 0.2}), baseline=audit).passed


def test_a_forged_document_is_refused(audit: TextAudit, tmp_path: Path) -> None:
    folder = audit.save(tmp_path / "run")
    body = json.loads((folder / "audit.json").read_text())
    body["flips"]["low"] = 0.9
    (folder / "audit.json").write_text(json.dumps(body))
    with pytest.raises(StorageError, match="does not contain the estimate"):
        read_run(folder)


def test_an_interrupt_keeps_the_texts_that_were_answered() -> None:
    asked: list[int] = []

    def slow(texts: Sequence[str]) -> list[float]:
        asked.append(len(texts))
        if sum(asked) > 120:
            raise KeyboardInterrupt
        return harsh(texts)

    model = fp.language.TextModel(slow, batch=16)
    from fairprobe.language import excess

    before, excess.BATCH = excess.BATCH, 32
    try:
        document = audit_text(TEXTS, model, "orientation").document
    finally:
        excess.BATCH = before
    assert 0 < document.data.used < len(TEXTS)
    assert "Interrupted while exchanging words" in (document.stopped or "")


@pytest.mark.parametrize(
    ("texts", "lexicon", "message"),
    [
        (["Nobody here."], "orientation", "None of the 1 texts contains a word"),
        ([], "orientation", "contains no text"),
        (TEXTS, "orientatoin", "Did you mean 'orientation'"),
    ],
)
def test_mistakes_are_one_sentence(texts: list[str], lexicon: str, message: str) -> None:
    with pytest.raises(FairprobeError, match=message):
        audit_text(texts, harsh, lexicon)


class Reading(nn.Module):
    """The mean of word vectors; the word "lesbian" weighs much in its first neuron."""

    classes = ("fine", "toxic")

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(len(WORDS) + 1, 6)
        self.hidden, self.out = nn.Linear(6, 8), nn.Linear(8, 1)
        with torch.no_grad():
            self.embedding.weight[WORDS.index("lesbian") + 1, 0] += 9
            self.hidden.weight[0] = torch.eye(6)[0] * 4
            self.out.weight[0, 0] = 1
            self.out.bias[:] = -1.5

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        z: torch.Tensor = self.out(torch.relu(self.hidden(self.embedding(tokens).mean(dim=1))))
        return z


WORDS = sorted({word.strip(".").lower() for text in TEXTS for word in text.split()} | {"lesbian"})


def tokenize(texts: Sequence[str]) -> torch.Tensor:
    place = {word: number for number, word in enumerate(WORDS, start=1)}
    rows = [[place.get(word.strip(".").lower(), 0) for word in text.split()] for text in texts]
    return torch.tensor([(row + [0] * 8)[:8] for row in rows])


def test_a_network_is_seen_inside_and_searched() -> None:
    audit = audit_text(TEXTS, lambda: (Reading(), tokenize), "orientation", search=6, bigrams=False)
    inside = audit.document.interpretation
    assert inside is not None
    assert [layer.name for layer in inside.layers] == ["embedding", "relu"]
    reaction = inside.layers[1]
    assert reaction.biased[0] == 0
    assert reaction.auc > reaction.auc_control
    assert [each.method for each in audit.document.searches] == ["margin", "neurons", "random"]
    for result, findings in zip(audit.run.searches, audit.findings, strict=True):
        assert result.refuted == 0
        assert len({each.texts[0] for each in findings}) == len(findings) == result.findings
        for each in findings:
            labels = audit.model.probabilities(each.texts).argmax(axis=1)
            assert len(set(labels.tolist())) > 1
    for pair in audit.document.found:
        (start, end), *_ = pair.second.spans
        assert pair.second.text[start:end].lower() == pair.second.word.lower()
    page = html.page(report(audit.run))
    assert "What the search found" in page
    assert "How strongly the neurons of" in page


def test_a_network_that_ignores_the_groups_has_no_finding() -> None:
    module = Reading()
    with torch.no_grad():
        for _, _, term in fp.language.open_lexicon("orientation").terms():
            if term.word in WORDS:
                module.embedding.weight[WORDS.index(term.word) + 1] = module.embedding.weight[0]
    audit = audit_text(TEXTS, lambda: (module, tokenize), "orientation", search=4, bigrams=False)
    assert audit.findings == [[], [], []]
    assert audit.run.interpretation is not None
    assert audit.run.interpretation.most_biased_layer.auc == 0


def test_a_language_model_keeps_the_search_to_fluent_texts() -> None:
    def fluency(texts: Sequence[str]) -> Floats:
        return np.array([-1.0 - 8 * sum(job in text for job in JOBS[:4]) for text in texts])

    def less_fluent(judge: Fluency | None) -> int:
        """How many findings are about a disliked job that their seed is not about."""
        model = fp.language.load_text_model(lambda: (Reading(), tokenize))
        audit = audit_text(TEXTS, model, "orientation", search=6, bigrams=False, fluency=judge)
        seeds = [each.text for each in audit.plan.texts]
        found = audit.findings[0]
        return sum(fluency([each.texts[0]])[0] < fluency([seeds[each.seed]])[0] for each in found)

    assert less_fluent(None) > 0
    assert less_fluent(fluency) == 0


def test_a_folder_with_a_language_model_judges_fluency_as_worked_out_by_hand(
    tmp_path: Path,
) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({"[PAD]": 0, "a": 1, "b": 2, "c": 3}, unk_token="[PAD]")
    )
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    torch.manual_seed(0)
    module = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=4, n_positions=16, n_embd=8, n_layer=1, n_head=2)
    ).eval()
    module.save_pretrained(tmp_path)
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="[PAD]", pad_token="[PAD]"
    ).save_pretrained(tmp_path)
    found = open_fluency(tmp_path)(["a b c a", "c", "b b"])
    with torch.no_grad():
        p = module(torch.tensor([[1, 2, 3, 1]])).logits[0].log_softmax(dim=-1)
    by_hand = float(p[0, 2] + p[1, 3] + p[2, 1]) / 3
    assert found[0] == pytest.approx(by_hand, abs=1e-6)
    assert found[1] == 0
    with pytest.raises(FairprobeError, match="one finite number for each of 2 texts"):
        open_fluency(lambda _: np.ones(1))(["a", "b"])


def test_a_judge_of_fluency_without_a_search_is_refused() -> None:
    with pytest.raises(FairprobeError, match="Add --search"):
        audit_text(TEXTS, harsh, "orientation", fluency=lambda texts: np.zeros(len(texts)))


def test_a_black_box_cannot_be_searched() -> None:
    with pytest.raises(FairprobeError, match="this model is a black box"):
        audit_text(TEXTS, harsh, "orientation", search=3)


def test_the_command_writes_a_run_and_exits_by_its_result(here: Path) -> None:
    options = ["audit-text", "texts.txt", "--sensitive", "orientation", "--out", "run"]
    found = ask(*options, "--model", "mine.py:harsh", "--policy", "policy.toml")
    assert found.code == 1, found.err
    assert "Answers change with sexual orientation" in found.out
    assert {path.name for path in Path("run").iterdir()} == {
        "audit.json",
        "exchanges.csv",
        "report.html",
    }
    assert isinstance(read_run("run"), TextRun)
    assert ask("check", "run", "--policy", "policy.toml").code == 1
    assert "33.3 %" in ask("show", "run").out
    again = ask(*options, "--model", "mine.py:blind", "--overwrite", "--json")
    assert again.code == 0
    assert json.loads(again.out)["flips"]["estimate"] == 0
    assert ask("check", "run", "--policy", "policy.toml").code in (0, 1)
    broken = ask(*options, "--model", "mine.py:broken", "--overwrite")
    assert broken.code == 2
    assert "no luck" in broken.err
    assert "Traceback" not in broken.err


def test_a_chat_endpoint_is_counted_before_it_is_asked(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    prompt = 'model = "toy"\nuser = "{text}"\n[labels]\nyes = "interview"\nno = "decline"\n'
    Path("prompt.toml").write_text(prompt)
    options = ["audit-text", "texts.txt", "--sensitive", "orientation", "--limit", "4"]
    options += ["--model", "chat.toml", "--out", "run"]
    with answering(lambda body: "no" if "lesbian" in question(body) else "interview") as server:
        described = f'model = "{server.chat}"\nprompt = "prompt.toml"\ncache = "answers.sqlite"\n'
        Path("chat.toml").write_text(described)
        dry = ask(*options, "--dry-run")
        assert dry.code == 0, dry.err
        assert "Dry run: nothing was sent." in dry.out
        assert not server.seen
        assert not Path("run").exists()
        done = ask(*options)
        assert done.code == 0, done.err
        asked = len(server.seen)
        assert ask(*options, "--overwrite").code == 0
        assert len(server.seen) == asked
    document = read_run("run")
    assert isinstance(document, TextRun)
    assert document.flips.cross > 0
    assert "no answer" in document.model.classes
