"""What `kvantage inspect` reads from every capture, against a table that was checked by eye.

Token counts of the table stand in the captures as they are, but for sums: a llama.cpp log's and metrics'
prompt tokens are those of its six requests (178 + 3 x 199 + 2 x 3,239, of which 3,628 came from the cache),
vLLM's windows add up to the counters of the dump beside them where the log is whole. SGLang repeats a prompt
of 2,001 tokens.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kvantage.cli import cli

DATA = Path(__file__).parents[1] / "data"
EXPECTED = json.loads((DATA / "captures-expected.json").read_text(encoding="utf-8"))

WORDS = (
    "engine",
    "engine_version",
    "kv_pool_tokens",
    "kv_pool_bytes",
    "draft_kv_pool_bytes",
    "effective_max_running",
    "acceptance_length",
    "drafted_tokens",
    "accepted_tokens",
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
)


@pytest.mark.parametrize("name", EXPECTED)
def test_every_value_of_a_capture(name: str) -> None:
    result = CliRunner().invoke(cli, ["inspect", str(DATA / "captures" / name), "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    expected = dict(EXPECTED[name])
    warnings = expected.pop("warnings")
    told = {word: found[word] for word in found if word in WORDS and found[word] is not None}
    assert told.keys() == expected.keys()
    for word, value in told.items():
        wanted = expected[word]
        assert value == (wanted if isinstance(wanted, str) else pytest.approx(wanted, rel=1e-4)), word
    assert [" ".join(warning.split())[:60] for warning in found["warnings"]] == warnings


def test_the_table_holds_every_capture() -> None:
    """All but a program's help text, which says nothing of a server."""
    kept = {f"{path.parent.name}/{path.name}" for path in (DATA / "captures").glob("*/*")}
    assert {name for name in kept - EXPECTED.keys() if "help_" not in name} == set()


def test_help_text_is_told_from_a_log() -> None:
    path = DATA / "captures/llamacpp-b11434/help_b11434.txt"
    result = CliRunner().invoke(cli, ["inspect", str(path)])
    assert "help text" in str(result.exception)
