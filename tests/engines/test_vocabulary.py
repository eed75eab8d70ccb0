"""The printed table is what the commands really say."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from click.testing import CliRunner

from kvantage.cli import cli
from kvantage.core import ArmSettings, HostFacts, ServerSettings, Speculation, UsageError
from kvantage.engines.llamacpp import Llamacpp
from kvantage.engines.sglang import Sglang
from kvantage.engines.vllm import command as vllm
from kvantage.engines.vocabulary import ENGINES, PINS, SETTINGS, SPECULATION

HOST = HostFacts("here", "CPU", 2, 1 << 34)
SAMPLES: dict[str, Any] = {
    "tensor_parallel_size": 2,
    "nodes": 2,
    "memory_fraction": 0.5,
    "pool_bytes": 1 << 30,
    "pool_tokens": 4096,
    "kv_dtype": "bf16",
    "dtype": "bf16",
    "context_length": 2048,
    "chunked_prefill": 512,
    "max_running_requests": 2,
    "page_size": 16,
    "prefix_caching": False,
    "eager": True,
}
STARTED = {"sglang": Sglang(), "llamacpp": Llamacpp()}


def flags_of(engine: str, arm: ArmSettings) -> list[str]:
    launch = STARTED[engine].command(arm, HOST, 1)
    return [
        word for word in (launch.per_node[1] if launch.per_node else launch.argv) if word.startswith("--")
    ]


def test_every_word_of_the_vocabulary_is_there() -> None:
    assert set(SETTINGS) == {field.name for field in dataclasses.fields(ServerSettings)} == set(SAMPLES)
    for section in (SETTINGS, SPECULATION, PINS):
        assert all(set(flags) == set(ENGINES) for flags in section.values())


@pytest.mark.parametrize("engine", STARTED)
@pytest.mark.parametrize("word", SETTINGS)
def test_a_word_gives_those_flags(engine: str, word: str) -> None:
    bare = ArmSettings("a", engine, "m.gguf", settings=ServerSettings())
    asked = dataclasses.replace(bare, settings=ServerSettings(**{word: SAMPLES[word]}))
    wanted = SETTINGS[word][engine].split()
    if word == "pool_bytes":
        return  # It needs the model's own file: tests/engines/llamacpp/test_gguf.py.
    try:
        added = set(flags_of(engine, asked)) - set(flags_of(engine, bare))
    except UsageError:
        assert not wanted
        return
    pinned = {"--max-running-requests", "--parallel"}
    assert set(wanted) - pinned <= added | {"--no-kv-unified", "--kv-unified"}
    assert added <= set(wanted) | {"--no-kv-unified", "--kv-unified"}


@pytest.mark.parametrize("engine", STARTED)
def test_methods_and_pins(engine: str) -> None:
    bare = ArmSettings("a", engine, "m.gguf")
    for method in ("ngram", "draft_model", "eagle3", "mtp", "dflash"):
        draft = None if method in ("ngram", "mtp") else "draft.gguf"
        arm = dataclasses.replace(bare, speculation=Speculation(method, 3, draft))  # type: ignore[arg-type]
        assert SPECULATION[method][engine] in STARTED[engine].command(arm, HOST, 1).argv
    text = " ".join(STARTED[engine].command(bare, HOST, 1).argv)
    for flags in PINS.values():
        for flag in flags[engine].split(" --"):
            words = flag if flag.startswith("--") or not flags[engine].startswith("--") else f"--{flag}"
            assert words in text or not flags[engine].startswith("--")


def test_vllms_single_flags() -> None:
    for word, flag in vllm._WORDS.items():
        assert SETTINGS[word]["vllm"] == f"--{flag}"


def test_it_is_printed() -> None:
    result = CliRunner().invoke(cli, ["engines"], env={"COLUMNS": "140"})
    assert result.exit_code == 0
    assert "--mem-fraction-static" in result.output
    assert json.loads(CliRunner().invoke(cli, ["engines", "--json"]).output)["settings"] == SETTINGS
