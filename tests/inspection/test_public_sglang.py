"""SGLang's lines and metrics of many versions, as public reports show them."""

from __future__ import annotations

import pytest

from kvantage.engines.numbers import GIB
from kvantage.inspection.document import Document
from kvantage.inspection.gather import read_text


def read(text: str) -> Document:
    (document,) = read_text("posted", text)
    assert document.engine == "sglang"
    return document


def values(document: Document) -> dict[str, float]:
    return {name: one.value for name, one in document.readings.items() if one.value is not None}


def test_both_pools_of_one_line() -> None:
    found = values(
        read(
            "Load weight end. elapsed=2415.46 s, type=Gemma4ForConditionalGeneration,\n"
            "avail mem=97.30 GB, mem usage=15.56 GB.\n"
            "SWAKVPool mem usage: 79.94 GB, swa size: 798276, full size: 997846\n"
            "Capture target decode CUDA graph end. elapsed=22.18 s, mem usage=1.91 GB,\n"
            "avail mem=14.18 GB."
        )
    )
    assert found["kv_pool_tokens"] == 997_846
    assert found["sliding_pool_tokens"] == 798_276
    assert found["kv_pool_bytes"] == pytest.approx(79.94 * GIB)
    assert found["weights_bytes"] == pytest.approx(15.56 * GIB)


def test_a_full_pool_that_was_cut_off_is_not_read() -> None:
    found = values(read("SWAKVPool mem usage: 79.94 GB, swa size: 798276, full size: 9978"))
    assert "kv_pool_tokens" not in found


def test_pools_of_compressed_latents() -> None:
    found = values(
        read(
            "[2026-08-10 09:47:28 DP1 TP1 EP1] DSV4 memory calculation: bytes_per_full_token=7705.45, "
            "available_bytes=6.16 GB, c128_state_fixed=0.04 GB, full_token=852992\n"
            "[2026-08-10 09:47:28 DP0 TP0 EP0] DSV4 pool sizes: full=852992, swa=85248, c4=213248, c128=6664"
        )
    )
    assert found["kv_pool_tokens"] == 852_992
    assert found["sliding_pool_tokens"] == 85_248
    assert found["kv_bytes_per_token"] == pytest.approx(7705.45)


def test_pools_of_which_a_post_dropped_the_word_size() -> None:
    found = values(
        read(
            "KV Cache is allocated. #tokens: 171008, K 5.22 GB, V 5.22 GB     <- target\n"
            "KV Cache is allocated. #tokens: 171008, K 0.33 GB, V 0.33 GB     <- EAGLE draft"
        )
    )
    assert found["kv_pool_bytes"] == pytest.approx(10.44 * GIB)
    assert found["draft_kv_pool_bytes"] == pytest.approx(0.66 * GIB)


def test_fields_of_a_decode_report_without_its_name() -> None:
    found = values(
        read("accept len: 4.50, accept rate: 0.23, cuda graph: True, gen throughput (token/s): 604.01")
    )
    assert found["acceptance_length"] == pytest.approx(4.5)


def test_retractions_alone_are_sglang_s() -> None:
    document = read(
        "KV cache pool is full. Retract requests. #retracted_reqs: 3, #new_token_ratio: 0.75 -> 0.84"
    )
    assert any("3 requests were retracted" in warning for warning in document.warnings)


def dump(name: str, *samples: tuple[str, float]) -> str:
    return "".join(f"sglang:{name}{{{labels}}} {value}\n" for labels, value in samples)


def test_replicas_whose_acceptance_differs_have_no_mean() -> None:
    document = read(
        dump("spec_accept_length", ('dp_rank="0"', 2.9), ('dp_rank="3"', 3.67), ('dp_rank="4"', 0.0))
    )
    assert "acceptance_length" not in values(document)
    assert not document.readings["acceptance_length"].known
    assert any("2.9, 3.67" in warning for warning in document.warnings)


def test_a_replica_that_has_not_decoded_says_nothing_against_the_other() -> None:
    document = read(dump("spec_accept_length", ('dp_rank="0"', 2.9), ('dp_rank="1"', 0.0)))
    assert values(document)["acceptance_length"] == pytest.approx(2.9)


def test_workers_behind_a_router_are_summed() -> None:
    workers = [(f'tp_rank="0",worker_addr="grpc://127.0.0.1:800{place}"', float(place)) for place in (2, 3)]
    document = read(dump("num_queue_reqs", *workers) + dump("num_running_reqs", *workers))
    assert values(document)["queue_depth"] == 5


@pytest.mark.parametrize(("total", "cached"), [(120.0, 120), (7.0, 127)])
def test_cached_tokens_are_counted_once(total: float, cached: int) -> None:
    sources = [
        ('cache_source="device"', 100.0),
        ('cache_source="host"', 20.0),
        ('cache_source="total"', total),
    ]
    document = read(dump("cached_tokens_total", *sources) + dump("prompt_tokens_total", ("", 400.0)))
    assert values(document)["cached_tokens"] == cached
