"""llama.cpp's responses, timings, metrics, properties and slots."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvantage.client.sse import read_events
from kvantage.core import ArmSettings, ServerSettings, Speculation
from kvantage.engines.llamacpp.cache import erased_tokens, expected_cached
from kvantage.engines.llamacpp.facts import Told, facts
from kvantage.engines.llamacpp.metrics import look, snapshot
from kvantage.engines.llamacpp.scan import scan
from kvantage.engines.llamacpp.timings import timings_of
from kvantage.engines.llamacpp.usage import read_usage
from tests.engines.cases import capture, case

B = "llamacpp-b10434"


def answer(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capture(f"{B}/{name}.json"))
    return found


def test_timings_of_a_last_chunk() -> None:
    given, expected = case("llamacpp-timings-chunk")
    timings = timings_of(given)
    assert timings.tok_s == pytest.approx(expected["tok_s"], abs=1e-3)
    assert timings.acceptance_rate == pytest.approx(expected["accept_rate"], abs=1e-4)
    assert timings.least_steps == expected["target_steps_lower_bound"]
    assert timings.length_estimate == pytest.approx(expected["accept_len_estimate"], abs=1e-4)
    assert timings.prompt_was_cached is expected["prompt_cached"]


def test_more_accepted_than_sent() -> None:
    given, expected = case("timings-accepted-exceeds-predicted")
    timings = timings_of({"timings": given})
    assert timings.delivered_length == expected["accept_len_delivered"]
    assert timings.drafter_length == expected["accept_len_drafter"]
    assert given["predicted_n"] - given["draft_n_accepted"] == expected["target_forwards_by_llamacpp_habit"]
    assert timings.least_steps is None
    assert timings.length_estimate is None


@pytest.mark.parametrize(
    ("name", "prompt", "output", "cached", "accepted", "drafted"),
    [
        ("none_chat", 199, 64, 0, None, None),
        ("none_long_warm", 3239, 8, 3238, None, None),
        ("draft-self_chat", 199, 64, 0, 50, 50),
        ("draft-self_long_cold", 3239, 8, 1, 5, 5),
        ("draft-self_long_warm", 3239, 8, 3238, 5, 5),
        ("draft-self_completion", 178, 16, 1, 12, 12),
    ],
)
def test_usage(name: str, prompt: int, output: int, cached: int, accepted: int, drafted: int) -> None:
    usage = read_usage(answer(name))
    assert (usage.prompt_tokens, usage.output_tokens, usage.cached_tokens) == (prompt, output, cached)
    assert (usage.accepted_tokens, usage.drafted_tokens, usage.spec_steps) == (accepted, drafted, None)


def test_usage_of_a_stream() -> None:
    lines = [line.partition(" ")[2] for line in capture(f"{B}/draft-self_chat_stream.txt").split("\n")]
    events = read_events("\n\n".join(lines).encode()).events
    final: dict[str, Any] = {}
    for event in events:
        if event.data.startswith(b"{"):
            final |= json.loads(event.data)
    usage = read_usage(final)
    assert (usage.output_tokens, usage.cached_tokens, usage.drafted_tokens) == (64, 194, 50)


def test_counts_that_contradict_each_other_are_refused() -> None:
    usage = read_usage({"timings": {"draft_n": 3, "draft_n_accepted": 4, "predicted_n": 9}})
    assert (usage.accepted_tokens, usage.drafted_tokens, usage.output_tokens) == (None, None, 9)


def test_counters() -> None:
    found = snapshot(capture(f"{B}/draft-self_metrics.txt"), 1)
    assert found.counters["drafts"] == 41
    assert found.counters["drafted_tokens"] == found.counters["accepted_tokens"] == 153
    assert found.accepted_per_position == (41, 39, 37, 36)
    assert found.counters["prefix_hits"] == 3628
    assert found.counters["prompt_tokens"] == 3625 + 3628
    assert found.gauges == {"running": 0, "waiting": 0}
    plain = snapshot(capture(f"{B}/none_metrics.txt"), 1)
    assert plain.counters["drafts"] == 0
    assert plain.accepted_per_position is None
    assert look(capture(f"{B}/none_metrics.txt").encode()) == {
        "running": 0,
        "waiting": 0,
        "generation_tokens": 200,
    }


def told(name: str, log: str, arm: ArmSettings | None = None) -> Told:
    return Told(
        arm=arm,
        props=json.loads(capture(f"{B}/{name}_props.txt")),
        slots=json.loads(capture(f"{B}/{name}_slots.txt")),
        log=scan(capture(f"{B}/{log}").split("\n")),
    )


def test_facts() -> None:
    found = facts(told("draft-self", "srv_draft-self.log"))
    assert found.engine_version == "b1-7e4c0a9"
    assert found.reading("kv_pool_tokens").value == 8192
    assert found.reading("draft_kv_pool_bytes").value == 39 * 2**20
    assert found.reading("effective_max_running").value == 1
    assert found.speculation == {"method": "draft-simple", "num_speculative_tokens": 4}
    assert facts(told("none", "srv_none.log")).speculation == {}
    bare = facts(Told(props=json.loads(capture(f"{B}/none_props.txt"))))
    assert bare.reading("kv_pool_tokens").value == 8192
    assert "only in its log" in (bare.reading("kv_pool_bytes").missing or "")


def test_a_pool_of_several_slots_is_not_guessed() -> None:
    """Every slot may have the whole context where all share one buffer: only the log tells."""
    props = {"total_slots": 4, "default_generation_settings": {"n_ctx": 11776}}
    pool = facts(Told(props=props)).reading("kv_pool_tokens")
    assert pool.value is None
    assert "11,776 tokens where its slots share one buffer, 47,104 where they do not" in (pool.missing or "")


def test_speculation_is_on_only_where_the_slots_say_so() -> None:
    arm = ArmSettings(
        "d",
        "llamacpp",
        "m.gguf",
        settings=ServerSettings(max_running_requests=8, context_length=9000),
        speculation=Speculation("draft_model", 3, "d.gguf"),
    )
    found = facts(told("none", "deg_md-only.log", arm))
    assert "speculation `draft_model` was asked for and is off" in found.warnings
    assert "rows at concurrency 8 measured a queue: the server ran 1" in found.warnings
    assert any("not the 9000" in text for text in found.warnings)


def test_a_flush_is_believed_by_its_count() -> None:
    assert erased_tokens(200, {"id_slot": 0, "n_erased": 262}) == 262
    assert erased_tokens(200, {}) is None
    assert erased_tokens(501, {"error": {"message": "does not support slots action"}}) is None


def test_expected_hits_hold_what_was_seen() -> None:
    found = facts(told("none", "srv_none.log"))
    low, high = expected_cached(3239, found)
    assert low <= 3238 <= high
    assert low <= 194 <= high
