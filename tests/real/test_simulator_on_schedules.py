"""The simulator against the real vLLM: 50 random schedules, the same pool, the same requests.

Step times come from six other schedules, which are not judged; the 50 are simulated as they were sent.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import kvantage
from kvantage.client import ChatRequest, Client, read_exchange
from kvantage.core import ArmSettings, Facts, Server, ServerSettings, Speculation
from kvantage.engines.vllm import Vllm
from kvantage.hosts.local import LocalHost
from kvantage.runner.launched import Launched

from ..schedules import Judged, Seen, Setup, Turn, fitted, ids, judge, schedules, simulate, to_json

PACKAGE = Path(kvantage.__file__).parent
NANO = PACKAGE / "nano"
VOCABULARY = 2048
CHUNK = 512
RUNNING = 4
CONTEXT = 2688
POOL_BYTES = {"none": 10 * 2**20, "dflash": 14 * 2**20}
"""Little more than the longest request, so that documents are pushed out and requests put back."""
KEEP = os.environ.get("KEEP_SCHEDULES")
"""A folder: what the server did is written there, to be kept as tests/data/schedules/."""

there = bool(os.environ.get("VLLM_PYTHON")) or importlib.util.find_spec("vllm") is not None
pytestmark = [
    pytest.mark.skipif(not there, reason="vLLM is not installed (`make engine`)"),
    pytest.mark.proof,
    pytest.mark.timeout(900),
]

ARMS = {
    "none": Speculation(),
    "dflash": Speculation("dflash", 5, str(NANO / "qwen3-dflash")),
}


class Quiet:
    """An observer that says nothing."""

    def on(self, event: str, **fields: Any) -> None:
        return None


class Asker:
    """Sends turns to a server as token ids, and keeps its counts and times."""

    def __init__(self, client: Client, engine: Vllm, server: Server) -> None:
        self.client, self.engine, self.server = client, engine, server
        self.steps = self.accepted = 0

    async def ask(self, prompt: Sequence[int], output: int, began: float) -> tuple[Seen, list[int], int]:
        body = {
            "model": self.server.served_name,
            "prompt": list(prompt),
            "max_tokens": output,
            "min_tokens": output,
            "ignore_eos": True,
            "temperature": 0.0,
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_token_ids": True,
        }
        exchange = await self.client.stream(ChatRequest(f"{self.server.url}/v1/completions", body))
        assert exchange.ok, exchange.error or exchange.body[:300]
        reading = read_exchange(exchange)
        usage = self.engine.read_usage(reading.final)
        assert usage.cached_tokens is not None
        assert usage.output_tokens == output
        self.steps += usage.spec_steps or 0
        self.accepted += usage.accepted_tokens or 0
        answer = list(reading.token_ids or ())
        assert len(answer) == output
        first = int(reading.chunks.times_ns[0])
        seen = Seen(
            usage.cached_tokens,
            exchange.sent_ns / 1e9 - began,
            first / 1e9 - began,
            exchange.end_ns / 1e9 - began,
        )
        return seen, answer, usage.spec_steps or output - 1

    async def play(self, turns: Sequence[Turn]) -> list[Seen]:
        """A whole schedule, on an empty cache."""
        assert (await self.engine.flush_cache(self.server)).believed
        began = time.monotonic()
        done = [asyncio.Event() for _ in turns]
        answers: dict[int, list[int]] = {}
        seen: dict[int, Seen] = {}

        async def go(number: int, turn: Turn) -> None:
            if turn.after is not None:
                await done[turn.after].wait()
                await asyncio.sleep(turn.wait_s)
            else:
                await asyncio.sleep(max(0.0, began + turn.wait_s - time.monotonic()))
            prompt = ids(turn.prompt, answers, VOCABULARY)
            seen[number], answers[number], _ = await self.ask(prompt, turn.output, began)
            done[number].set()

        await asyncio.gather(*(go(number, turn) for number, turn in enumerate(turns)))
        return [seen[number] for number in range(len(turns))]

    async def clock(self) -> dict[str, float]:
        """Step times, each measured alone: a decode step, one more sequence in it, a prompt token."""
        assert (await self.engine.flush_cache(self.server)).believed
        draw = iter(range(10_000, 20_000))

        async def alone(length: int, output: int) -> tuple[float, float]:
            prompt = ids(((f"clock{next(draw)}", 0, length),), {}, VOCABULARY)
            seen, _, steps = await self.ask(prompt, output, 0.0)
            return seen.first_s - seen.sent_s, (seen.end_s - seen.first_s) / steps

        await alone(400, 16)

        async def middle(length: int, output: int, place: int) -> float:
            return sorted([(await alone(length, output))[place] for _ in range(3)])[1]

        near, far = await middle(200, 48, 1), await middle(2400, 48, 1)
        short, long = await middle(200, 2, 0), await middle(2400, 2, 0)
        four = await asyncio.gather(*(alone(200, 48) for _ in range(4)))
        context = max(0.0, (far - near) / 2200)
        return {
            "step": near - 200 * context,
            "each": max(0.0, (sorted(one[1] for one in four)[1] - near) / 3 - 200 * context),
            "held": context,
            "token": (long - short) / 2200,
        }


async def record(name: str, folder: Path) -> tuple[Setup, list[tuple[list[Turn], list[Seen]]]]:
    """Boot one arm and play every schedule on it."""
    host, engine = LocalHost(), Vllm()
    way = Launched(host)
    arm = ArmSettings(
        name=name,
        engine="vllm",
        model=str(NANO / "qwen3"),
        speculation=ARMS[name],
        settings=ServerSettings(
            dtype="bf16",
            context_length=CONTEXT,
            max_running_requests=RUNNING,
            chunked_prefill=CHUNK,
            pool_bytes=POOL_BYTES[name],
            eager=True,
        ),
    )
    prepared = way.prepare(engine, arm)
    server = await way.start(prepared, folder / f"{name}.log", Quiet(), 300)
    assert server.process is not None
    try:
        await engine.ready(server, 300)
        facts: Facts = await engine.facts(server)
        async with Client() as client:
            asker = Asker(client, engine, server)
            clock = await asker.clock()
            tuning = [(turns, await asker.play(turns)) for turns in schedules(6, seed=1)]
            asker.steps = asker.accepted = 0
            kept = [(turns, await asker.play(turns)) for turns in schedules(50)]
    finally:
        await server.process.stop(20.0)
    speculation = ARMS[name]
    setup = Setup(
        arm=name,
        pool=int(facts.reading("kv_pool_tokens").value or 0),
        page=int(facts.reading("kv_block_tokens").value or 0),
        running=RUNNING,
        chunk=CHUNK,
        drafts=speculation.drafts or 0,
        drop_block=name == "dflash",
        lookahead=(speculation.drafts or 0) + 1 if name == "dflash" else 0,
        acceptance=1 + asker.accepted / asker.steps if asker.steps else 1.0,
        clock=clock,
    )
    return fitted(setup, tuning), kept


@pytest.mark.parametrize("name", list(ARMS))
def test_the_same_requests_hit_and_miss(name: str, tmp_path: Path) -> None:
    setup, kept = asyncio.run(record(name, tmp_path))
    if KEEP:
        file = Path(KEEP) / f"vllm-cpu-{name}.json"
        file.write_text(json.dumps(to_json(setup, kept), separators=(",", ":")) + "\n")
    found = sum((judge(turns, real, simulate(turns, setup, real), setup) for turns, real in kept), Judged())
    print(f"{name}: {found}")
    assert found.requests > 200
    assert found.real_misses > 20, "the pool was never short: this proves nothing"
    assert found.alike / found.requests >= 0.95
