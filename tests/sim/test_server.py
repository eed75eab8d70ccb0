"""The simulated engine behind HTTP, read by the very code that reads the real ones."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvantage.core import (
    ArmSettings,
    Engine,
    HostFacts,
    Server,
    ServerSettings,
    Speculation,
    Usage,
    UsageError,
)
from kvantage.engines.http import ask
from kvantage.engines.sglang import Sglang
from kvantage.engines.sim import Sim
from kvantage.engines.vllm import Vllm
from kvantage.golden import GoldenServer, Options
from kvantage.sim.pieces import common, total
from kvantage.sim.serve import arm_from_json, encoder, simulated
from kvantage.sim.source import SimSource, prompt_ids, prompt_text
from kvantage.sim.texts import Texts

MODEL = str(Path(__file__).parents[1] / "data" / "configs" / "qwen3-8b")
HOST = HostFacts("here", "cpu", 2, 2**33)
SPEED = 20


class Process:
    """Stands for a process in whose log the server writes."""

    pid = 0
    log_path = Path("none")

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines

    def exit_code(self) -> int | None:
        return None

    def log_lines(self, start: int = 0) -> list[str]:
        return self.lines

    async def stop(self, grace_s: float = 20.0) -> int:
        return 0


def arm_like(like: str, speculation: Speculation | None = None, **options: Any) -> ArmSettings:
    return ArmSettings(
        name="arm",
        engine="sim",
        model=MODEL,
        settings=ServerSettings(max_running_requests=2, context_length=32768, chunked_prefill=2048),
        speculation=speculation or Speculation(),
        engine_options={"like": like, "hardware": "h100", **options},
    )


@asynccontextmanager
async def serving(arm: ArmSettings) -> AsyncIterator[tuple[Server, list[str]]]:
    engine, front, context = simulated(arm, SPEED)
    lines = front.boot_lines()
    source = SimSource(engine, front, encoder(arm.model), context, speed=SPEED, say=lines.append)
    async with GoldenServer(source, options=Options(token_ids=True)) as server:
        yield Server(arm, server.url, arm.name, None, Process(lines)), lines


async def chat(server: Server, engine: Engine, text: str, tokens: int = 60) -> tuple[Usage, list[Any]]:
    body = {
        "model": server.served_name,
        "messages": [{"role": "user", "content": text}],
        "stream": True,
        **engine.request_extras(server, output_tokens=tokens),
    }
    answer = await ask(f"{server.url}/v1/chat/completions", body=body, timeout_s=30)
    assert answer.ok, answer.body
    events = [json.loads(line[6:]) for line in answer.body.splitlines() if line.startswith("data: {")]
    return engine.read_usage(next(event for event in reversed(events) if event.get("usage"))), events


@pytest.mark.parametrize(("like", "engine"), [("vllm", Vllm()), ("sglang", Sglang())])
async def test_the_real_engines_readers_read_it(like: str, engine: Engine) -> None:
    async with serving(arm_like(like, Speculation("ngram", 3), acceptance={"arm": 2.5})) as (server, lines):
        await engine.ready(server, 10)
        facts = await engine.facts(server)
        assert facts.engine == like
        assert facts.prefix_caching is True
        assert facts.speculation
        assert facts.reading("context_length").value == 32768
        assert facts.reading("effective_max_running").value == 2
        pool = facts.reading("kv_pool_tokens").value
        assert pool is not None
        assert pool > 100_000
        before = await engine.counters(server)
        cold, events = await chat(server, engine, "a word " * 1500)
        warm, _ = await chat(server, engine, "a word " * 1500)
        moved = engine.delta(before, await engine.counters(server))
        assert cold.output_tokens == 60
        # the smoke request shares the few tokens of the chat's own form, which pages of one token keep
        assert cold.cached_tokens == (3 if like == "sglang" else 0)
        assert cold.prompt_tokens is not None
        low, high = engine.expected_cached(cold.prompt_tokens, facts)
        assert warm.cached_tokens is not None
        assert low <= warm.cached_tokens <= high
        assert (
            sum(len(event["choices"][0].get("token_ids", ())) for event in events if event["choices"]) == 60
        )
        assert cold.accepted_tokens is not None
        assert cold.spec_steps is not None
        assert cold.drafted_tokens == 3 * cold.spec_steps
        assert moved.counters["requests_finished"] == 2
        assert moved.counters["prefix_hits"] == warm.cached_tokens + cold.cached_tokens
        assert moved.counters["generation_tokens"] == 120
        assert (await engine.flush_cache(server)).believed
        again, _ = await chat(server, engine, "a word " * 1500)
        assert again.cached_tokens == 0
        assert (await engine.gauges(server))["running"] == 0
        assert any("simulates this engine" in line for line in lines)


async def test_an_engine_like_drafter_drops_a_block_of_every_hit() -> None:
    draft = str(Path(MODEL).parent / "qwen3-8b-dflash")
    async with serving(arm_like("vllm", Speculation("dflash", 5, draft))) as (server, _):
        engine = Vllm()
        facts = await engine.facts(server)
        assert facts.reading("dropped_blocks").value == 1
        cold, _ = await chat(server, engine, "a word " * 500, 8)
        warm, _ = await chat(server, engine, "a word " * 500, 8)
        assert cold.prompt_tokens is not None
        assert warm.cached_tokens == (cold.prompt_tokens - 1) // 16 * 16 - 16


async def test_requests_run_together_and_the_cap_holds() -> None:
    import asyncio

    async with serving(arm_like("sglang")) as (server, lines):
        engine = Sglang()
        # long enough that the last is there while the first runs, on a busy machine too
        await asyncio.gather(*(chat(server, engine, f"text {i} " * 200, 2000) for i in range(4)))
        read = engine.read_log(lines)
        assert read.readings["running_max"].value == 2
        queued = [int(line.split("#queue-req: ")[1].split(",")[0]) for line in lines if "#queue-req" in line]
        assert max(queued) >= 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 40000}, "maximum context length"),
        ({"messages": None}, "neither"),
        ({"messages": ["hello"]}, "a message is"),
    ],
)
async def test_a_bad_request_is_a_400_in_words(change: dict[str, Any], words: str) -> None:
    async with serving(arm_like("vllm")) as (server, _):
        body = {"model": "arm", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4, **change}
        answer = await ask(f"{server.url}/v1/chat/completions", body=body)
        assert answer.status == 400
        assert words in answer.body


async def test_tokens_are_counted_where_there_is_no_tokenizer() -> None:
    async with serving(arm_like("vllm")) as (server, _):
        answer = await ask(f"{server.url}/tokenize", body={"prompt": "one two, three"})
        assert answer.json()["count"] == 4
        assert (await ask(f"{server.url}/tokenize", body={})).status == 400
        assert (await ask(f"{server.url}/version")).json()["version"] == "0.33.0"
        assert (await ask(f"{server.url}/nothing")).status == 404


async def test_a_client_that_leaves_frees_its_slots() -> None:
    import asyncio

    engine, front, context = simulated(arm_like("sglang"))
    source = SimSource(engine, front, encoder(MODEL), context, speed=1)
    async with GoldenServer(source) as server:
        host, port = server.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        body = json.dumps(
            {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 5000, "stream": True}
        )
        writer.write(
            f"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        await reader.readuntil(b"content")
        writer.close()
        await writer.wait_closed()
        for _ in range(50):
            await asyncio.sleep(0.02)
            if not engine.busy:
                break
        assert not engine.busy
        assert engine.cache.available() == engine.cache.capacity


@pytest.mark.parametrize(("like", "engine"), [("vllm", Vllm()), ("sglang", Sglang())])
async def test_an_answer_is_found_again_inside_a_longer_prompt(like: str, engine: Engine) -> None:
    async with serving(arm_like(like)) as (server, _):
        first = {"role": "user", "content": "a word " * 400}
        text = {"max_tokens": 300, "stream": False, "model": server.served_name}
        answer = await ask(f"{server.url}/v1/chat/completions", body={**text, "messages": [first]})
        said = answer.json()["choices"][0]["message"]["content"]
        assert len(said.split()) == 300
        again = [first, {"role": "assistant", "content": said}, {"role": "user", "content": "and now?"}]
        answer = await ask(f"{server.url}/v1/chat/completions", body={**text, "messages": again})
        usage = answer.json()["usage"]
        prompt = 400 * 2 + len(["<", "user", ">", "<", "assistant", ">"])
        resident = prompt + 300 - 1  # the last token that was said was never computed
        page = 16 if like == "vllm" else 1
        assert usage["prompt_tokens_details"]["cached_tokens"] == resident // page * page
        other = [first, {"role": "assistant", "content": "quite another answer"}, again[-1]]
        answer = await ask(f"{server.url}/v1/chat/completions", body={**text, "messages": other})
        assert answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"] == prompt // page * page


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=30), min_size=1, max_size=12))
def test_names_of_texts_share_what_the_ids_share(sequences: list[list[int]]) -> None:
    texts = Texts(10_000)
    named = [texts.name(ids) for ids in sequences]
    for ids, pieces in zip(sequences, named, strict=True):
        assert total(pieces) == len(ids)
        for others, other in zip(sequences, named, strict=True):
            shared = next((i for i, (a, b) in enumerate(zip(ids, others, strict=False)) if a != b), None)
            assert common(pieces, other) == (min(len(ids), len(others)) if shared is None else shared)


def test_old_texts_are_forgotten() -> None:
    texts = Texts(100)
    first = texts.name(range(60))
    texts.name(range(1000, 1060))
    assert texts.name(range(60)) != first


def test_prompts_as_text_and_as_ids() -> None:
    def encode(text: str) -> list[int]:
        return [len(text)]

    assert prompt_ids({"prompt": [1, 2, 3]}, encode) == [1, 2, 3]
    assert prompt_ids({"prompt": "four"}, encode) == [4]
    mixed = {"messages": [{"role": "user", "content": [{"type": "text", "text": "see"}, {"type": "image"}]}]}
    assert prompt_text(mixed) == "<user>see\n<assistant>"


def test_arms_are_read_back_from_their_json() -> None:
    arm = arm_like("vllm", Speculation("ngram", 3))
    assert arm_from_json(json.dumps(asdict(arm))) == arm
    for wrong in ("{", "[]", '{"name": 1, "colour": 2}'):
        with pytest.raises(UsageError, match="no arm"):
            arm_from_json(wrong)
    with pytest.raises(UsageError, match="not simulated"):
        simulated(arm_like("llamacpp"))


def test_the_engine_names_what_is_wrong_with_an_arm() -> None:
    engine = Sim()
    assert engine.problems(arm_like("vllm"), HOST) == []
    assert "`like`" in engine.problems(arm_like("tensorrt"), HOST)[0]
    assert "no option `colour`" in engine.problems(arm_like("vllm", colour=1), HOST)[0]
    assert "speed" in engine.problems(arm_like("vllm", speed=0), HOST)[0]
    with pytest.raises(UsageError):
        engine.command(arm_like("tensorrt"), HOST, 1)


@pytest.fixture(name="started")
def _started() -> Iterator[subprocess.Popen[str]]:
    launch = Sim().command(arm_like("sglang", speed=50), HOST, 0)
    assert launch.argv[:3] == (sys.executable, "-m", "kvantage.sim")
    argv = [*launch.argv, "--while-stdin"]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        yield process
        process.kill()


async def test_it_starts_as_a_process_and_marks_its_facts(started: subprocess.Popen[str]) -> None:
    assert started.stdout is not None
    assert started.stdin is not None
    lines: list[str] = []
    while not lines or not lines[-1].startswith("serving at "):
        lines.append(started.stdout.readline().rstrip())
    url = lines[-1].removeprefix("serving at ")
    server = Server(arm_like("sglang", speed=50), url, "arm", None, Process(lines))
    engine = Sim()
    await engine.ready(server, 10)
    facts = await engine.facts(server)
    assert facts.engine == "sim"
    assert facts.resolved["simulated"]
    assert any("50 times as fast" in text for text in facts.warnings)
    usage, _ = await chat(server, engine, "a word " * 300, 10)
    assert usage.output_tokens == 10
    assert engine.expected_cached(600, facts) == (599, 600)
    assert engine.read_log(lines).readings
    started.stdin.close()
    assert started.wait(10) == 0


def test_a_server_that_cannot_be_planned_says_why() -> None:
    arm = arm_like("vllm")
    text = json.dumps({**asdict(arm), "model": "./nowhere"})
    done = subprocess.run(
        [sys.executable, "-m", "kvantage.sim", "--arm", text], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert Sim().explain_death(done.stderr.splitlines())[0].startswith("kvantage sim: there is no model")


@pytest.mark.parametrize(("like", "engine"), [("vllm", Vllm()), ("sglang", Sglang())])
async def test_a_wait_is_told_in_the_seconds_that_a_client_waits(like: str, engine: Engine) -> None:
    """Twice as many as run at once: all waits together are no longer than the answers took."""
    async with serving(arm_like(like)) as (server, _):
        await engine.ready(server, 10)
        before = await engine.counters(server)
        started = time.monotonic()
        await asyncio.gather(*(chat(server, engine, f"word {number} " * 900, 200) for number in range(4)))
        took = time.monotonic() - started
        after = await engine.counters(server)
        waited = after.counters["queue_s"] - before.counters["queue_s"]
        assert 0 < waited < 4 * took
