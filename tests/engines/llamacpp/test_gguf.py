"""The head of a GGUF file, written here by hand."""

from __future__ import annotations

import dataclasses
import struct
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kvantage.core import ArmSettings, HostFacts, ServerSettings
from kvantage.engines.llamacpp import Llamacpp
from kvantage.engines.llamacpp.gguf import cells_of

HOST = HostFacts("here", "CPU", 2, 1 << 34)
QWEN3 = {
    "general.architecture": "qwen3",
    "tokenizer.ggml.tokens": ["a", "b"],
    "tokenizer.ggml.scores": [0.5, 0.25],
    "qwen3.block_count": 6,
    "qwen3.embedding_length": 256,
    "qwen3.attention.head_count": 4,
    "qwen3.attention.head_count_kv": 2,
    "qwen3.attention.key_length": 64,
    "qwen3.attention.value_length": 64,
}


def head(pairs: dict[str, Any]) -> bytes:
    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value.encode())) + value.encode()

    def typed(value: Any) -> bytes:
        if isinstance(value, str):
            return struct.pack("<I", 8) + text(value)
        if isinstance(value, list) and isinstance(value[0], str):
            return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
        if isinstance(value, list):
            return struct.pack(f"<IIQ{len(value)}f", 9, 6, len(value), *value)
        return struct.pack("<II", 4, value)

    body = b"".join(text(key) + typed(value) for key, value in pairs.items())
    return struct.pack("<4sIQQ", b"GGUF", 3, 0, len(pairs)) + body


def written(folder: Path, pairs: dict[str, Any]) -> Path:
    path = folder / "model.gguf"
    path.write_bytes(head(pairs))
    return path


def test_a_token_takes_its_heads_in_every_layer(tmp_path: Path) -> None:
    cells = cells_of(written(tmp_path, QWEN3))
    assert cells is not None
    assert cells.bytes("f16") == 6 * 2 * (64 + 64) * 2
    assert cells.bytes("q8_0") == 6 * 2 * (64 + 64) * 34 / 32
    plain = {key: value for key, value in QWEN3.items() if "length" not in key or "embedding" in key}
    assert cells_of(written(tmp_path, plain)) == cells


def test_what_does_not_grow_with_the_context_is_not_guessed(tmp_path: Path) -> None:
    assert cells_of(written(tmp_path, {**QWEN3, "qwen3.attention.sliding_window": 512})) is None
    assert cells_of(written(tmp_path, {**QWEN3, "qwen3.ssm.state_size": 16})) is None
    assert cells_of(tmp_path / "none.gguf") is None


def test_a_pool_in_bytes_becomes_cells(tmp_path: Path) -> None:
    arm = ArmSettings(
        "a", "llamacpp", str(written(tmp_path, QWEN3)), settings=ServerSettings(pool_bytes=35 << 20)
    )
    argv = Llamacpp().command(arm, HOST, 1).argv
    assert argv[argv.index("--ctx-size") + 1] == "11776"
    quantised = dataclasses.replace(arm, settings=ServerSettings(pool_bytes=35 << 20, kv_dtype="q8_0"))
    argv = Llamacpp().command(quantised, HOST, 1).argv
    assert argv[argv.index("--ctx-size") + 1] == "22272"
    unknown = dataclasses.replace(arm, model="owner/name")
    assert any("pool_tokens" in problem for problem in Llamacpp().problems(unknown, HOST))
    both = dataclasses.replace(arm, settings=ServerSettings(pool_bytes=35 << 20, pool_tokens=4096))
    assert any("keep one" in problem for problem in Llamacpp().problems(both, HOST))


@settings(max_examples=80, deadline=None)
@given(st.integers(0, len(head(QWEN3)) - 1), st.binary(max_size=40))
def test_a_cut_or_foreign_file_is_no_model(tmp_path_factory: Any, cut: int, foreign: bytes) -> None:
    path = tmp_path_factory.mktemp("gguf") / "model.gguf"
    for content in (head(QWEN3)[:cut], foreign):
        path.write_bytes(content)
        assert cells_of(path) is None
