"""llama-server's log: the cases, the captures, and speculation that is silently off."""

from __future__ import annotations

import pytest

from kvantage.core import LogReadings
from kvantage.engines.llamacpp.log import read_log
from kvantage.engines.llamacpp.scan import scan
from tests.engines.cases import DATA, capture, case

MIB = 2**20

DRAFTED = {
    "llamacpp-b10434/srv_draft-self.log": (153, 153, 41),
    "llamacpp-b10434/deg_kvq8.log": (17, 17, 6),
    "llamacpp-b11434/b11434_draft-self.log": (37, 37, 10),
    "llamacpp-b11434/b11434_ngram-map-k.log": (38, 40, 6),
}
OFF = {
    "llamacpp-b10434/deg_draft-simple-no-md.log": "draft-simple requires a draft context",
    "llamacpp-b10434/deg_eagle3-bad.log": "draft model is not eagle3",
    "llamacpp-b10434/deg_md-only.log": "no --spec-type",
    "llamacpp-b10434/bad_draftnomd.txt": "draft-simple requires a draft context",
    "llamacpp-b10434/bad_eagle3.txt": "draft model is not eagle3",
}
SYNTHETIC = [f"llamacpp-b11434/b11434_synth-{name}.log" for name in ("draft", "ngram", "rates")]
NONE = ["llamacpp-b10434/srv_none.log", "llamacpp-b11434/b11434_none.log"]
FAILED = {
    "bad_badkv.txt": "Unsupported cache type: foo",
    "bad_badspec.txt": "unknown speculative type: foo",
    "bad_dflash.txt": "DFlash model has no target_layer_ids",
    "bad_mtp.txt": "failed to create MTP context",
    "bad_nomodel.txt": "failed to open GGUF file",
    "bad_removed.txt": "the argument has been removed",
    "bad_unknown.txt": "invalid argument: --nope",
}


def read(path: str) -> LogReadings:
    return read_log(capture(path).split("\n"))


def warned(log: LogReadings, *words: str) -> bool:
    return any(all(word in warning for word in words) for warning in log.warnings)


def test_the_older_rate_and_both_kinds_of_statistics() -> None:
    given, expected = case("llamacpp-old-rate")
    log = read_log(given)
    assert log.readings["accepted_tokens"].value == expected["accepted"]
    assert log.readings["drafted_tokens"].value == expected["generated"]
    assert log.readings["draft_acceptance_rate"].value == pytest.approx(expected["rate"], abs=1e-5)
    # The statistics count other requests than this one, so no step count follows from them.
    assert "acceptance_length" not in log.readings
    statistics = scan(given).statistics
    for right in expected["stats"]:
        told = statistics[right["impl"]]
        calls = right["calls"] if isinstance(right["calls"], list) else [right["calls"]]
        assert list(told.calls) == calls
        for name in ("gen_drafts", "acc_drafts", "gen_tokens", "acc_tokens"):
            assert name not in right or getattr(told, name) == right[name]


@pytest.mark.parametrize("path", DRAFTED)
def test_acceptance(path: str) -> None:
    accepted, drafted, steps = DRAFTED[path]
    told = {name: reading.value for name, reading in read(path).readings.items()}
    assert (told["accepted_tokens"], told["drafted_tokens"], told["spec_steps"]) == (accepted, drafted, steps)
    assert told["acceptance_length"] == pytest.approx(1 + accepted / steps)
    assert told["draft_acceptance_rate"] == pytest.approx(accepted / drafted)
    survival = [told[name] for name in told if name.startswith("acceptance_at_")]
    assert 1 + sum(value or 0 for value in survival) == pytest.approx(1 + accepted / steps, abs=0.01)


@pytest.mark.parametrize(
    "path", [*DRAFTED, *NONE, *SYNTHETIC, *(path for path in OFF if path.endswith(".log"))]
)
def test_pools_and_slots(path: str) -> None:
    told = {name: reading.value for name, reading in read(path).readings.items()}
    quantised = "kvq8" in path
    full, sliding = (12.75, 7.97) if quantised else (24.0, 15.0)
    assert told["kv_pool_tokens"] == 8192
    assert told["sliding_pool_tokens"] == 1024
    assert told["kv_pool_bytes"] == pytest.approx((full + sliding) * MIB)
    assert told["kv_bytes_per_token"] == pytest.approx(full * MIB / 8192)
    own_cache = "draft-self" in path or "synth-draft" in path or "synth-rates" in path
    own_cache = own_cache or any(mark in path for mark in ("kvq8", "md-only", "eagle3-bad"))
    assert ("draft_kv_pool_bytes" in told) is own_cache
    assert (told["effective_max_running"], told["context_length"]) == (1, 8192)
    assert told["boot_s"] < 10


@pytest.mark.parametrize("path", OFF)
def test_speculation_that_is_silently_off_is_said(path: str) -> None:
    assert warned(read(path), "speculation is off", OFF[path])
    assert scan(capture(path).split("\n")).speculating is False


@pytest.mark.parametrize("path", SYNTHETIC)
def test_synthetic_acceptance_is_said(path: str) -> None:
    assert warned(read(path), "simulated acceptance", "outputs are not valid")


@pytest.mark.parametrize("path", NONE)
def test_no_speculation_is_no_warning(path: str) -> None:
    log = read(path)
    assert log.warnings == ()
    assert log.errors == ()
    assert log.windows == ()
    assert "acceptance_length" not in log.readings


def test_speed_as_printed_and_prefix_hits_as_counted() -> None:
    told = read("llamacpp-b10434/srv_none.log").readings
    # 29.88, 30.63, 19.10, 12.68, 18.35 and 26.91 tok/s, each for its own time.
    assert told["decode_tok_s"].value == pytest.approx(24.15, abs=0.01)
    assert told["completion_tokens"].value == 200
    assert told["cached_tokens"].value == 3628
    assert told["prompt_tokens"].value == 7253
    assert [window["generation_tok_s"] for window in read("llamacpp-b10434/srv_draft-self.log").windows][
        :2
    ] == [
        15.69,
        12.62,
    ]


@pytest.mark.parametrize("name", FAILED)
def test_a_start_that_fails_says_why(name: str) -> None:
    assert FAILED[name] in " ".join(read(f"llamacpp-b10434/{name}").errors)


def test_a_perfect_drafter_is_looked_at_twice() -> None:
    assert warned(read("llamacpp-b10434/srv_draft-self.log"), "every one of 153 drafts was accepted")


def test_older_and_other_shapes() -> None:
    lines = [
        "llama_context: n_ctx         = 4096",
        "llama_new_context_with_model: KV self size  =  512.00 MiB, K (f16):  256.00 MiB, V (f16): 1.00 MiB",
        "slot print_timing: id  0 | task 0 |",
        "prompt eval time =     116.27 ms /    32 tokens (    3.63 ms per token,   275.22 tokens per second)",
        "       eval time =    2000.00 ms /    64 tokens (   31.25 ms per token,    32.00 tokens per second)",
        "draft acceptance = 0.64479 (  167 accepted /   259 generated), mean acceptance length = 3.57",
    ]
    told = {name: reading.value for name, reading in read_log(lines).readings.items()}
    assert told["kv_pool_tokens"] == 4096
    assert told["kv_pool_bytes"] == 512 * MIB
    assert told["decode_tok_s"] == 32.0
    assert told["acceptance_length"] == pytest.approx(3.57)
    unified = "llama_kv_cache_unified: size =   64.00 MiB (  2048 cells,   4 layers,  4/4 seqs), K (f16): 1.0"
    assert read_log([unified]).readings["kv_pool_tokens"].value == 8192
    state = (
        "llama_memory_recurrent: size =   72.00 MiB (     1 cells,  32 layers,  1 seqs), R (f32): 1.00 MiB"
    )
    assert read_log([state]).readings["state_cache_bytes"].value == 72 * MIB
    jsonl = '{"level": "info", "msg": "draft acceptance = 0.50000 (    1 accepted /     2 generated)"}'
    assert read_log([jsonl]).readings["drafted_tokens"].value == 2


def test_every_log_of_the_captures_is_read() -> None:
    files = sorted(path for folder in DATA.glob("captures/llamacpp-*") for path in folder.glob("*.log"))
    assert len(files) == 12
    for path in files:
        assert read_log(path.read_text().split("\n")).readings["kv_pool_tokens"].value == 8192


def test_the_example_programs_spelling() -> None:
    lines = [
        "decoded  105 tokens in 2.0 seconds",
        "n_draft   = 8",
        "n_predict = 105",
        "n_drafted = 128",
        "n_accept  = 88",
    ]
    told = {
        name: reading.value for name, reading in read_log([*lines, "accept    = 68.750%"]).readings.items()
    }
    assert (told["accepted_tokens"], told["drafted_tokens"]) == (88, 128)
    assert told["draft_acceptance_rate"] == pytest.approx(0.6875)


def test_two_starts_in_one_log_are_the_last_one() -> None:
    text = capture("llamacpp-b10434/srv_draft-self.log")
    once, twice = (read_log((text * n).split("\n")).readings for n in (1, 2))
    assert once["kv_pool_bytes"] == twice["kv_pool_bytes"]
    assert once["accepted_tokens"] == twice["accepted_tokens"]


def test_lengths_and_positions_on_one_line() -> None:
    line = (
        "0.06.896.015 I slot print_timing: id  1 | task 0 | draft acceptance = 0.64479 (  167 accepted / "
        "  259 generated), mean acceptance length =  2.92, "
        "acceptance rate per position = (0.805, 0.632, 0.483)"
    )
    told = {name: reading.value for name, reading in read_log([line]).readings.items()}
    assert told["acceptance_length"] == pytest.approx(2.92)
    assert [told[f"acceptance_at_{place}"] for place in range(3)] == pytest.approx([0.805, 0.632, 0.483])
    assert told["draft_tokens_per_step"] == pytest.approx(259 / 87, abs=0.01)


def test_single_rounds_with_and_without_their_drafts() -> None:
    line = "slot update_slots: id  3 | task 0 | accepted {} draft tokens, new n_tokens = 741"
    told = read_log([line.format(counts) for counts in ("1/16", "16/16", "3/ 4")]).readings
    assert (told["accepted_tokens"].value, told["drafted_tokens"].value) == (20, 36)
    assert told["acceptance_length"].value == pytest.approx(1 + 20 / 3)
    wrong = read_log([line.format(counts) for counts in ("11/0", "4/0")]).readings
    assert wrong["acceptance_length"].value == pytest.approx(1 + 15 / 2)
    assert "draft_acceptance_rate" not in wrong


def test_pools_of_older_builds() -> None:
    lines = [
        "llama_kv_cache_init: kv_size = 32768, offload = 1, type_k = 'q8_0', type_v = 'q8_0', n_layer = 64",
        "llama_new_context_with_model: KV self size  = 4352.00 MiB, K (q8_0): 2176.00 MiB, "
        "V (q8_0): 2176.00 MiB",
        "srv    load_model: loading draft model 'small.gguf'",
        "llama_kv_cache_unified: kv_size = 4096, type_k = 'f16', type_v = 'f16', n_layer = 32, padding = 256",
        "llama_kv_cache_unified: KV self size  = 2048.00 MiB, K (f16): 1024.00 MiB, V (f16): 1024.00 MiB",
    ]
    told = read_log(lines).readings
    assert (told["kv_pool_tokens"].value, told["kv_pool_bytes"].value) == (32768, 4352 * MIB)
    assert told["draft_kv_pool_bytes"].value == 2048 * MIB
