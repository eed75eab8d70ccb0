"""Answers of a real server, more than a study asks for, and their scores: what the two proofs are made of."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kvantage.client import ChatRequest, Client, read_exchange, run_closed
from kvantage.core import Answer, ArmSettings, Scores, Server, ServerSettings, Speculation
from kvantage.engines import engine_named
from kvantage.hosts import LocalHost
from kvantage.workloads.load import Prompt

ROOT = Path(__file__).parents[2]
NANO = ROOT / "src" / "kvantage" / "nano"
SETTINGS = ServerSettings(
    context_length=4096, max_running_requests=4, pool_bytes=90 << 20, dtype="bf16", eager=True
)
ENGINE = engine_named("vllm")
READY_S = 240


def arm(name: str, env: dict[str, str] | None = None) -> ArmSettings:
    """The Qwen3-shaped nano model: `none`, or any other name with its draft model and that environment."""
    speculation = (
        Speculation() if name == "none" else Speculation("draft_model", 3, str(NANO / "qwen3-draft"))
    )
    options = {"tool_call_parser": "hermes"}
    return ArmSettings(
        name,
        "vllm",
        str(NANO / "qwen3"),
        settings=SETTINGS,
        speculation=speculation,
        env=env or {},
        engine_options=options,
    )


@asynccontextmanager
async def serving(settings: ArmSettings, folder: Path) -> AsyncIterator[Server]:
    """A server of that arm that has answered, stopped in the end."""
    host = LocalHost()
    port = host.free_port()
    launch = ENGINE.command(settings, host.facts(), port)
    process = await host.start(launch.argv, launch.env, folder / f"{settings.name}.log")
    server = Server(settings, f"http://127.0.0.1:{port}", settings.name, launch, process)
    try:
        await ENGINE.ready(server, READY_S)
        yield server
    finally:
        await process.stop()


async def ask(
    server: Server,
    prompts: Sequence[Prompt],
    *,
    repeats: int,
    at_once: int,
    output_tokens: int,
    boot: int,
    temperature: float = 0.0,
) -> list[Answer]:
    """Every prompt so many times, whole, `at_once` in flight at every moment."""
    asked = [(repeat, prompt) for repeat in range(repeats) for prompt in prompts]
    requests = []
    for repeat, prompt in asked:
        body: dict[str, Any] = {
            "model": server.served_name,
            "messages": prompt.messages,
            "max_tokens": output_tokens,
            "temperature": temperature,
            "seed": repeat,
            "top_p": 1.0,
            "top_k": -1,
            **({"tools": prompt.tools} if prompt.tools else {}),
            **ENGINE.whole_extras(server),
        }
        url = f"{server.url}/v1/chat/completions"
        requests.append(ChatRequest(url, body, deadline_s=600))
    made = []
    async with Client() as client:
        exchanges = await run_closed(client, requests, at_once)
    for (repeat, prompt), exchange in zip(asked, exchanges, strict=True):
        reading = read_exchange(exchange)
        usage = ENGINE.read_usage(reading.final)
        made.append(
            Answer(
                arm=server.arm.name,
                block=0,
                boot=boot,
                kind="sampling" if temperature else "greedy",
                concurrency=at_once,
                prompt_id=prompt.id,
                repeat=repeat,
                ok=reading.status == "ok",
                error=reading.error or "",
                finish_reason=reading.finish_reason or "",
                content=reading.content,
                reasoning=reading.reasoning,
                token_ids=reading.token_ids,
                accepted=usage.accepted_tokens,
                drafted=usage.drafted_tokens,
                steps=usage.spec_steps,
            )
        )
    return made


async def score(
    server: Server, prompts: Sequence[Prompt], answers: Iterable[Answer], held: dict[str, Scores]
) -> dict[str, Scores]:
    """The scores of answers that have none yet, each distinct one once."""
    asked = {prompt.id: prompt for prompt in prompts}
    for answer in answers:
        if answer.digest and answer.token_ids and answer.digest not in held:
            prompt = asked[answer.prompt_id]
            held[answer.digest] = await ENGINE.score(server, prompt.messages, prompt.tools, answer.token_ids)
    return held


def keep(path: Path, answers: Sequence[Answer]) -> None:
    """One JSON line an answer."""
    path.write_text("".join(json.dumps(asdict(each)) + "\n" for each in answers))


def kept(path: Path) -> list[Answer]:
    """What `keep` wrote."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [Answer(**{**row, "token_ids": tuple(row["token_ids"] or ())}) for row in rows]


def keep_scores(path: Path, scores: dict[str, Scores]) -> None:
    """One JSON line a distinct answer."""
    lines = (json.dumps({"digest": digest, **asdict(each)}) + "\n" for digest, each in scores.items())
    path.write_text("".join(lines))


def kept_scores(path: Path) -> dict[str, Scores]:
    """What `keep_scores` wrote; empty where there is none yet."""
    if not path.exists():
        return {}
    found = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        found[row["digest"]] = Scores(
            tuple(row["chosen"]),
            tuple(row["best"]),
            tuple(row["best_id"]),
            tuple(tuple((token, value) for token, value in each) for each in row["rivals"]),
            {int(token): text for token, text in row["texts"].items()},
        )
    return found


def wrong_env(rate: str, seed: int, log: Path) -> dict[str, str]:
    """An environment in which the engine accepts wrong drafts at a rate, or at the one that a file says: see
    tests/real/wrong_drafts.
    """
    return {
        "PYTHONPATH": str(ROOT / "tests" / "real" / "wrong_drafts"),
        "KVANTAGE_WRONG_TOKENS": rate,
        "KVANTAGE_WRONG_SEED": str(seed),
        "KVANTAGE_WRONG_LOG": str(log),
    }
