"""The engine contract against a server that answers a script."""

import json
from pathlib import Path

import pytest

from kvantage.core import ArmFailed, UsageError
from kvantage.engines import engine_named, startup
from kvantage.engines.vllm import cache
from tests.engines.vllm.data import CAPTURES, text
from tests.engines.vllm.standin import Process, serving

GOOD = {"usage": {"completion_tokens": 8}}
MODELS = {"data": [{"id": "one"}]}
HEALTHY = {"/health": [(200, "")], "/v1/models": [(200, MODELS)]}
SYNTH = CAPTURES / "vllm-0.32-cpu" / "f_synth.log"

vllm = engine_named("vllm")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup, "BETWEEN_POLLS_S", 0.01)
    monkeypatch.setattr(startup, "DYING_S", 0.05)
    monkeypatch.setattr(cache, "BETWEEN_TRIES_S", 0.01)


def test_an_unknown_engine() -> None:
    with pytest.raises(UsageError, match=r"there is no engine `vlm`\n  did you mean `vllm`\?"):
        engine_named("vlm")


async def test_ready_is_proven_by_a_request() -> None:
    answers = {**HEALTHY, "/health": [(503, ""), (503, ""), (200, "")], "/v1/chat/completions": [(200, GOOD)]}
    with serving(answers) as (server, standin):
        await vllm.ready(server, 5)
    (smoke,) = [body for method, _, body in standin.asked if method == "POST"]
    assert smoke["model"] == "one"
    assert smoke["max_tokens"] == 8


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((200, {"usage": {"completion_tokens": 0}}), "answers its first request with no token"),
        ((200, "{}"), "answers its first request with no token"),
        (
            (500, {"error": {"message": "EngineCore encountered an issue."}}),
            "with 500: EngineCore encountered",
        ),
        ((400, {"message": "no chat template"}), "with 400: no chat template"),
        ((502, "bad gateway"), "with 502: bad gateway"),
    ],
)
async def test_healthy_and_broken(answer: tuple[int, object], words: str) -> None:
    with (
        serving({**HEALTHY, "/v1/chat/completions": [answer]}, Process(SYNTH, None)) as (server, _),
        pytest.raises(ArmFailed) as failure,
    ):
        await vllm.ready(server, 5)
    assert words in failure.value.message
    assert (
        failure.value.log_lines[0] == "AssertionError: Synthetic acceptance not supported with CPU sampling"
    )
    assert str(SYNTH) in str(failure.value)


async def test_death_while_starting() -> None:
    with (
        serving({"/health": [(503, "")]}, Process(SYNTH, -9)) as (server, _),
        pytest.raises(ArmFailed) as failure,
    ):
        await vllm.ready(server, 5)
    assert failure.value.message == "the server died while starting"
    assert "it was killed (signal 9): often the system, for lack of memory" in str(failure.value)
    assert failure.value.where == "arm one"


async def test_not_ready_in_time(tmp_path: Path) -> None:
    with (
        serving({"/health": [(503, "")]}, Process(tmp_path / "none.log")) as (server, _),
        pytest.raises(ArmFailed, match="not ready within 0 s"),
    ):
        await vllm.ready(server, 0)


async def test_another_server_on_the_port(tmp_path: Path) -> None:
    other = {**HEALTHY, "/v1/models": [(200, {"data": [{"id": "other"}]})]}
    with (
        serving(other, Process(tmp_path / "none.log")) as (server, _),
        pytest.raises(ArmFailed, match="it serves other, not one"),
    ):
        await vllm.ready(server, 5)
    log = tmp_path / "dead.log"
    log.write_text("(APIServer pid=9) OSError: [Errno 98] Address already in use\n")
    with (
        serving(HEALTHY, Process(log, 1)) as (server, _),
        pytest.raises(ArmFailed, match="its port is in use") as failure,
    ):
        await vllm.ready(server, 5)
    assert failure.value.log_lines == ("OSError: [Errno 98] Address already in use",)


async def test_facts_from_all_that_is_served() -> None:
    answers = {
        "/metrics": [(200, text("vllm-0.32-cpu/c_noisy_f32.metrics1.txt"))],
        "/server_info": [(200, text("vllm-0.32-cpu/c_noisy_f32.server_info.json"))],
        "/version": [(200, {"version": "0.32.0"})],
    }
    process = Process(CAPTURES / "vllm-0.32-cpu" / "c_noisy_f32.log")
    with serving(answers, process) as (server, standin):
        found = await vllm.facts(server)
        assert ("GET", "/server_info?config_format=json", None) in standin.asked
        looked = await vllm.gauges(server)
        counted = await vllm.counters(server)
    assert found.engine_version == "0.32.0"
    assert found.reading("kv_pool_tokens").value == 131072
    assert found.reading("effective_max_running").value == 4
    assert found.speculation["method"] == "draft_model"
    assert looked["generation_tokens"] == counted.counters["generation_tokens"] == 6260


async def test_facts_of_a_server_that_tells_nothing() -> None:
    with serving({}) as (server, _):
        found = await vllm.facts(server)
    assert found.engine_version is None
    assert found.reading("kv_pool_tokens").missing == "vllm did not report kv_pool_tokens"
    assert found.prefix_caching is None


async def test_no_answer_is_an_oserror() -> None:
    with serving({"/metrics": [(500, "x")]}) as (server, _):
        with pytest.raises(OSError, match="500"):
            await vllm.counters(server)
        with pytest.raises(OSError, match="500"):
            await vllm.gauges(server)
    with pytest.raises(OSError):  # noqa: PT011
        await vllm.counters(server)
    with pytest.raises(OSError):  # noqa: PT011
        await vllm.gauges(server)


async def test_flush_is_tried_again_while_blocks_are_held() -> None:
    held = [(200, {"success": False}), (200, {"success": False}), (200, {"success": True})]
    with serving({"/reset_prefix_cache": held}) as (server, standin):
        flush = await vllm.flush_cache(server)
    assert flush.believed
    assert len(standin.asked) == 3
    with serving({"/reset_prefix_cache": [(200, {"success": False})]}) as (server, _):
        flush = await vllm.flush_cache(server)
    assert not flush.believed
    assert flush.words == '200 {"success": false}'


async def test_flush_without_the_endpoint() -> None:
    with serving({}) as (server, _):
        flush = await vllm.flush_cache(server)
    assert not flush.believed
    assert "VLLM_SERVER_DEV_MODE=1" in flush.words


async def test_flush_of_a_version_that_only_logs(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("Successfully reset prefix cache\n")  # an earlier one
    with serving({"/reset_prefix_cache": [(200, "")]}, Process(log)) as (server, _):
        assert not (await vllm.flush_cache(server)).believed


def test_request_extras() -> None:
    with serving({}) as (server, _):
        assert vllm.request_extras(server, output_tokens=None) == {
            "stream_options": {"include_usage": True},
            "return_token_ids": True,
        }
        extras = vllm.request_extras(server, output_tokens=128)
    assert (extras["max_tokens"], extras["ignore_eos"]) == (128, True)
    assert json.dumps(extras)
