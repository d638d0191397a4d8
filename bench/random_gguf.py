"""Models with random weights at the dimensions of real ones: speed, memory and state sizes are real, words are noise.

They stand in for a model whose release is not on this machine. The hybrid ones are ``qwen35`` as llama.cpp knows it:
of four layers three carry a recurrent state (gated delta net), and one is gated attention.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..core.errors import NotFound
from .gguf_file import F32, Q4_0, Q6_K, Make, Tensor, Value, write_gguf

_CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_MERGES = 2000
_NORMAL_TOKEN, _CONTROL_TOKEN = 1, 3
_MOSTLY_Q4_0 = 2
_VERSION = "1"
"""Part of what names the file: a changed generator makes a new one."""


@dataclass(frozen=True)
class Dimensions:
    """Of a hybrid model; ``vocabulary`` 0 is just what the merges give, ``quantised`` is Q4_0 with a Q6_K embedding."""

    layers: int
    width: int
    feed_forward: int
    heads: int
    heads_kv: int
    head: int
    rotated: int
    sections: tuple[int, int, int, int]
    linear_heads: int
    linear: int
    vocabulary: int
    context: int
    quantised: bool
    convolution: int = 4
    attention_every: int = 4


SIZES = {
    "tiny": Dimensions(8, 64, 128, 2, 1, 32, 8, (2, 1, 1, 0), 2, 32, 0, 4096, quantised=False),
    "0.8b": Dimensions(24, 1024, 3584, 8, 2, 256, 64, (11, 11, 10, 0), 16, 128, 248_320, 262_144, quantised=True),
    "2b": Dimensions(24, 2048, 6144, 8, 2, 256, 64, (11, 11, 10, 0), 16, 128, 248_320, 262_144, quantised=True),
}


def random_model(size: str, folder: Path, text: str) -> Path:
    """The file of a random model of that size in ``folder``, made where it is not there yet (2b: 1.2 GB, a minute).

    ``text`` is of the kind that the model will read: its words become tokens, so that a prompt has about as many
    tokens as with the vocabulary of a real model. Raises ``NotFound`` for a size that is not in ``SIZES``.
    """
    if size not in SIZES:
        raise NotFound(f"There is no random model of size {size!r}; choose one of {', '.join(SIZES)}.")
    path = folder / f"random-hybrid-{size}-{hashlib.sha256((_VERSION + text).encode()).hexdigest()[:8]}.gguf"
    if not path.exists():
        dimensions = SIZES[size]
        tokens, merges = vocabulary(text, dimensions.vocabulary)
        write_gguf(path, _metadata(size, dimensions, tokens, merges), list(_tensors(dimensions, len(tokens))))
    return path


def vocabulary(text: str, size: int) -> tuple[list[str], list[str]]:
    """Byte-pair tokens and merges learnt from ``text``, filled up to ``size`` with tokens that no text gives."""
    alphabet = _byte_letters()
    words = Counter(tuple(alphabet[byte] for byte in word.encode()) for word in _words(text))
    merges = []
    for _ in range(_MERGES):
        pairs: Counter[tuple[str, str]] = Counter()
        for word, count in words.items():
            for pair in pairwise(word):
                pairs[pair] += count
        if not pairs or pairs.most_common(1)[0][1] < 2:
            break
        best = pairs.most_common(1)[0][0]
        merges.append(" ".join(best))
        words = Counter({_merged(word, best): count for word, count in words.items()})
    tokens = [*alphabet, *dict.fromkeys(merge.replace(" ", "") for merge in merges)]
    tokens += [f"Ġfiller{number}" for number in range(size - len(tokens) - len(_CONTROL))]
    return [*tokens, *_CONTROL], merges


def _words(text: str) -> Iterator[str]:
    """About as qwen's own splitter does: runs of letters with the space before them, runs of other signs."""
    yield from re.findall(r" ?[A-Za-z]+|\d| ?[^\sA-Za-z\d]+|\s+", text)


def _merged(word: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    out: list[str] = []
    for letter in word:
        if out and (out[-1], letter) == pair:
            out[-1] += letter
        else:
            out.append(letter)
    return tuple(out)


def _byte_letters() -> list[str]:
    """GPT-2's printable stand-in for each of the 256 bytes."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    letters, extra = [], 256
    for byte in range(256):
        if byte in printable:
            letters.append(chr(byte))
        else:
            letters.append(chr(extra))
            extra += 1
    return letters


def _metadata(name: str, d: Dimensions, tokens: list[str], merges: list[str]) -> dict[str, Value]:
    arch = "qwen35"
    return {
        "general.architecture": arch,
        "general.name": f"random hybrid {name}",
        "general.file_type": _MOSTLY_Q4_0 if d.quantised else 0,
        f"{arch}.block_count": d.layers,
        f"{arch}.context_length": d.context,
        f"{arch}.embedding_length": d.width,
        f"{arch}.feed_forward_length": d.feed_forward,
        f"{arch}.attention.head_count": d.heads,
        f"{arch}.attention.head_count_kv": d.heads_kv,
        f"{arch}.attention.key_length": d.head,
        f"{arch}.attention.value_length": d.head,
        f"{arch}.attention.layer_norm_rms_epsilon": 1e-6,
        f"{arch}.rope.freq_base": 1e7,
        f"{arch}.rope.dimension_count": d.rotated,
        f"{arch}.rope.dimension_sections": d.sections,
        f"{arch}.ssm.conv_kernel": d.convolution,
        f"{arch}.ssm.state_size": d.linear,
        f"{arch}.ssm.group_count": d.linear_heads,
        f"{arch}.ssm.time_step_rank": d.linear_heads,
        f"{arch}.ssm.inner_size": d.linear * d.linear_heads,
        f"{arch}.full_attention_interval": d.attention_every,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen35",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [_CONTROL_TOKEN if token in _CONTROL else _NORMAL_TOKEN for token in tokens],
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.eos_token_id": tokens.index("<|im_end|>"),
        "tokenizer.ggml.padding_token_id": tokens.index("<|endoftext|>"),
        "tokenizer.ggml.add_bos_token": False,
    }


def _tensors(d: Dimensions, tokens: int) -> Iterator[Tensor]:
    make = _Maker(d.quantised)
    yield make.matrix("token_embd.weight", tokens, d.width, spread=0.05, embedding=True)
    yield make.constant("output_norm.weight", d.width)
    if not d.quantised:  # tied to the embedding, as the large ones are, a small random model only echoes
        yield make.matrix("output.weight", tokens, d.width, gain=3)
    for layer in range(d.layers):
        block = f"blk.{layer}."
        yield make.constant(block + "attn_norm.weight", d.width)
        yield make.constant(block + "post_attention_norm.weight", d.width)
        yield from (_attention if (layer + 1) % d.attention_every == 0 else _recurrent)(make, d, block)
        yield make.matrix(block + "ffn_gate.weight", d.feed_forward, d.width)
        yield make.matrix(block + "ffn_up.weight", d.feed_forward, d.width)
        yield make.matrix(block + "ffn_down.weight", d.width, d.feed_forward)


def _attention(make: _Maker, d: Dimensions, block: str) -> Iterator[Tensor]:
    yield make.matrix(block + "attn_q.weight", d.heads * d.head * 2, d.width, gain=2)  # query and output gate in one
    yield make.matrix(block + "attn_k.weight", d.heads_kv * d.head, d.width, gain=2)
    yield make.matrix(block + "attn_v.weight", d.heads_kv * d.head, d.width)
    yield make.matrix(block + "attn_output.weight", d.width, d.heads * d.head)
    yield make.constant(block + "attn_q_norm.weight", d.head)
    yield make.constant(block + "attn_k_norm.weight", d.head)


def _recurrent(make: _Maker, d: Dimensions, block: str) -> Iterator[Tensor]:
    inner = d.linear * d.linear_heads
    yield make.matrix(block + "attn_qkv.weight", 3 * inner, d.width)
    yield make.matrix(block + "attn_gate.weight", inner, d.width)
    yield make.noise(block + "ssm_conv1d.weight", (3 * inner, d.convolution), 0.5)
    yield make.noise(block + "ssm_dt.bias", (d.linear_heads,), 0.5)
    yield make.decay(block + "ssm_a", d.linear_heads)
    yield make.matrix(block + "ssm_beta.weight", d.linear_heads, d.width)
    yield make.matrix(block + "ssm_alpha.weight", d.linear_heads, d.width)
    yield make.constant(block + "ssm_norm.weight", d.linear)
    yield make.matrix(block + "ssm_out.weight", d.width, inner)


class _Maker:
    """Tensors from one random stream, so that the same size gives the same file."""

    def __init__(self, quantised: bool) -> None:
        self._random = np.random.default_rng(7)
        self._quantised = quantised

    def constant(self, name: str, length: int) -> Tensor:
        return Tensor(name, (length,), F32, lambda: np.ones(length, np.float32))

    def decay(self, name: str, length: int) -> Tensor:
        return Tensor(name, (length,), F32, lambda: -self._random.uniform(0.02, 0.5, length).astype(np.float32))

    def noise(self, name: str, shape: tuple[int, ...], spread: float) -> Tensor:
        return Tensor(name, shape, F32, lambda: self._random.normal(0, spread, shape).astype(np.float32))

    def matrix(
        self, name: str, rows: int, columns: int, *, gain: float = 1.0, spread: float = 0.0, embedding: bool = False
    ) -> Tensor:
        spread = spread or gain / columns**0.5
        if not self._quantised:
            return self.noise(name, (rows, columns), spread)
        make: Make
        if embedding:
            kind, make = Q6_K, lambda: self._q6_k(rows, columns, spread)
        else:
            kind, make = Q4_0, lambda: self._q4_0(rows, columns, spread)
        return Tensor(name, (rows, columns), kind, make)

    def _q4_0(self, rows: int, columns: int, spread: float) -> npt.NDArray[np.generic]:
        """Blocks of 32: a 16-bit scale, then 4 bits each; 4.32 is the deviation of those bits."""
        blocks = np.empty((rows, columns // 32, 18), np.uint8)
        blocks[:, :, :2] = np.array([spread / 4.32], np.float16).view(np.uint8)
        low, high = (self._random.integers(1, 16, (rows, columns // 32, 16), np.uint8) for _ in range(2))
        blocks[:, :, 2:] = low | high << 4
        return blocks

    def _q6_k(self, rows: int, columns: int, spread: float) -> npt.NDArray[np.generic]:
        """Blocks of 256: 6 bits each, 16 scales of 8 bits, then a 16-bit scale of them all."""
        blocks: npt.NDArray[np.generic] = self._random.integers(0, 256, (rows, columns // 256, 210), np.uint8)
        scales = self._random.integers(-64, 64, (rows, columns // 256, 16)).astype(np.int8)
        blocks[:, :, 192:208] = scales.view(np.uint8)
        blocks[:, :, 208:] = np.array([spread / (18.5 * 37)], np.float16).view(np.uint8)
        return blocks
