"""No parser raises, and none makes a number up, whatever it is given."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kvantage.engines.vllm.boot import boot_log
from kvantage.engines.vllm.counters import delta
from kvantage.engines.vllm.death import explain_death
from kvantage.engines.vllm.facts import Told, facts
from kvantage.engines.vllm.log import read_log
from kvantage.engines.vllm.metrics import (
    CACHE_CONFIG,
    COUNTERS,
    GAUGES,
    PER_POSITION,
    cache_config,
    look,
    snapshot,
)
from kvantage.engines.vllm.usage import read_usage
from kvantage.engines.vllm.windows import windows
from tests.engines.vllm.data import LOGS, arm, cases, lines

NUMBER = st.one_of(
    st.integers(-(10**9), 10**20).map(str),
    st.floats().map(str),
    st.sampled_from(["", ".", "1.2.3", ",", "1,2", "NaN", "inf"]),
)
REAL = [
    line
    for name in ("vllm-0.26-h200/glm-mtp.log", "vllm-0.32-cpu/b_ngram.log", "vllm-0.32-cpu/f_synth.log")
    for line in lines(name)
]
WINDOW_FORMS = [
    "SpecDecoding metrics: Mean acceptance length: {}, Accepted throughput: {} tokens/s, Drafted"
    " throughput: {} tokens/s,"
    " Accepted: {} tokens, Drafted: {} tokens, Per-position acceptance rate: {}, {}, Avg Draft"
    " acceptance rate: {}%",
    "Engine 000: Avg prompt throughput: {} tokens/s, Avg generation throughput: {} tokens/s,"
    " Running: {} reqs,"
    " Waiting: {} reqs, GPU KV cache usage: {}%, Prefix cache hit rate: {}%",
    "Speculative metrics: Draft acceptance rate: {}, System efficiency: {}, Number of speculative tokens: {},"
    " Number of accepted tokens: {}, Number of draft tokens: {}, Number of emitted tokens: {}.",
    "GPU KV cache size: {} tokens, Maximum concurrency for {} tokens per request: {}x",
    "Available KV cache memory: {} GiB",
    "Overriding num_gpu_blocks={} with num_gpu_blocks_override={}",
    "# cuda blocks: {}, # CPU blocks: {}",
    "Using max model len {}",
]


@st.composite
def formed(draw: st.DrawFn) -> str:
    form = draw(st.sampled_from(WINDOW_FORMS))
    return form.format(*(draw(NUMBER) for _ in range(form.count("{}"))))


@st.composite
def bent(draw: st.DrawFn) -> str:
    line = draw(st.sampled_from(REAL))
    at = draw(st.integers(0, len(line)))
    return line[:at] + draw(st.text(max_size=6)) + line[at + draw(st.integers(0, 6)) :]


LINES = st.lists(st.one_of(st.text(max_size=80), formed(), bent()), max_size=8)
FIELDS = (
    *("usage", "metrics", "speculative_decoding", "prompt_tokens", "completion_tokens", "num_spec_steps"),
    *("num_draft_tokens", "num_accepted_draft_tokens", "acceptance_histogram", "num_spec_tokens"),
    *("prompt_tokens_details", "cached_tokens", "queue_time_ms", "vllm_config", "cache_config", "block_size"),
    *("num_gpu_blocks", "speculative_config", "method", "rejection_sample_method", "scheduler_config"),
    *("max_num_seqs", "kv_cache_memory_bytes", "max_model_len", "model_config"),
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from(FIELDS),
            inner,
            max_size=6,
        ),
    ),
    max_leaves=20,
)


@settings(deadline=None)
@given(LINES)
def test_log_readers(raw: list[str]) -> None:
    for window in windows(raw):
        assert all(math.isfinite(value) and value >= 0 for value in window.values())
        assert window.get("draft_acceptance_rate", 0) <= 1
        assert window.get("acceptance_length", 1) >= 1 or "accepted_tokens" not in window
    readings = read_log(raw)
    assert all(reading.known for reading in readings.readings.values())
    assert len(explain_death(raw)) <= 5
    boot_log(raw)


@settings(deadline=None)
@given(
    LINES,
    JSON,
    st.lists(
        st.dictionaries(st.sampled_from(["block_size", "num_gpu_blocks", "cache_dtype"]), NUMBER), max_size=3
    ),
)
def test_facts_never_raise(raw: list[str], info: Any, cache: list[dict[str, str]]) -> None:
    found = facts(Told(arm("ngram"), boot_log(raw), cache, info))
    assert all(reading.known for reading in found.readings.values())


@settings(deadline=None)
@given(JSON)
def test_usage_obeys_its_identities(final: Any) -> None:
    usage = read_usage(final if isinstance(final, dict) else {"usage": final, "metrics": final})
    counts = (
        usage.prompt_tokens,
        usage.output_tokens,
        usage.cached_tokens,
        usage.spec_steps,
        usage.drafted_tokens,
    )
    assert all(count is None or count >= 0 for count in counts)
    if usage.spec_steps is not None:
        assert usage.accepted_tokens is not None
        assert usage.drafted_tokens is not None
        assert usage.accepted_tokens <= usage.drafted_tokens
        if usage.acceptance_histogram is not None:
            assert sum(usage.acceptance_histogram) == usage.spec_steps


@given(st.integers(0, 50), st.integers(1, 8), st.data())
def test_true_counts_are_read_as_they_are(steps: int, k: int, data: st.DataObject) -> None:
    accepted = data.draw(st.lists(st.integers(0, k), min_size=steps, max_size=steps))
    histogram = [accepted.count(i) for i in range(k + 1)]
    told = {
        "num_spec_steps": steps,
        "num_accepted_draft_tokens": sum(accepted),
        "num_draft_tokens": steps * k,
        "num_spec_tokens": k,
        "acceptance_histogram": histogram,
    }
    cut = data.draw(st.integers(0, min(k, steps + sum(accepted))))
    usage = read_usage(
        {
            "usage": {"completion_tokens": 1 + steps + sum(accepted) - cut},
            "metrics": {"speculative_decoding": told},
        }
    )
    assert (usage.spec_steps, usage.accepted_tokens, usage.acceptance_histogram) == (
        steps,
        sum(accepted),
        tuple(histogram),
    )


METRIC = st.builds(
    "{}{}{} {}".format,
    st.sampled_from([*COUNTERS, *GAUGES, PER_POSITION, CACHE_CONFIG, "x"]),
    st.sampled_from(
        [
            "",
            '{engine="0"}',
            '{position="1"}',
            '{position="-1"}',
            '{position="99999999"}',
            "{",
            '{a="}',
            '{a="\\"',
        ]
    ),
    st.sampled_from(["", " "]),
    NUMBER,
)


@settings(deadline=None)
@given(st.lists(st.one_of(METRIC, st.text(max_size=40)), max_size=10), st.lists(METRIC, max_size=10))
def test_metrics(first: list[str], second: list[str]) -> None:
    before, after = snapshot("\n".join(first), 0), snapshot("\n".join(second), 5)
    for value in (*before.counters.values(), *before.gauges.values(), *(before.accepted_per_position or ())):
        assert math.isfinite(value)
        assert value >= 0
    assert len(before.accepted_per_position or ()) <= 1024
    moved = delta(before, after)
    assert all(value >= 0 for value in moved.counters.values())
    assert moved.counters.keys() <= before.counters.keys() & after.counters.keys()
    cache_config("\n".join(first))
    assert all(value >= 0 for value in look("\n".join(first).encode()).values())


def test_there_are_captures_and_cases() -> None:
    assert len(LOGS) == 17
    assert len(cases()) >= 70
