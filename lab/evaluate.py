"""Measure a nano model through a running vLLM server: recall, tasks, and acceptance.

    python lab/evaluate.py http://127.0.0.1:8000 --folder lab/build --parts recall:2000,tasks,code \
        --number 200 --out lab/results/NAME.json

Greedy decoding throughout. Documents, sums and code are held out: nothing here was trained on. The
acceptance length (bonus included) is 1 + accepted / drafts of the server's own counters, over the
part alone; so nothing else may use the server meanwhile. With `--per-request-spec-decode-metrics
summary` on the server it is also given for the answers that don't end in a loop.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from data import held_sum
from kvantage.workloads.documents import check_recall, make_document, recall_messages
from kvantage.workloads.load import shipped_prompts
from kvantage.workloads.probes import json_probe, sum_probe, tool_probe
from kvantage.workloads.tokens import TokenCounter

Json = dict[str, Any]
WORDS = 200  # tokens of each continuation


class Server:
    """An OpenAI-compatible vLLM server."""

    def __init__(self, url: str, wide: int) -> None:
        self.url, self.wide = url.rstrip("/"), wide
        self.model = self._get("/v1/models")["data"][0]["id"]
        self.version = self._get("/version")["version"]

    def _get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=60) as reply:
            return json.load(reply)

    def post(self, path: str, body: Json) -> Json:
        data = json.dumps({"model": self.model, "temperature": 0.0, **body}).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as reply:
            found: Json = json.load(reply)
            return found

    def ask_all(self, path: str, bodies: list[Json]) -> list[Json]:
        with ThreadPoolExecutor(self.wide) as pool:
            return list(pool.map(lambda body: self.post(path, body), bodies))

    def counters(self) -> dict[str, float]:
        """Drafts, drafted and accepted tokens so far; empty without speculation."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=60) as reply:
            text = reply.read().decode()
        found: dict[str, float] = {}
        for name, labels, value in re.findall(
            r"^vllm:spec_decode_num_(\w+)_total\{(.*)\} (\S+)$", text, re.MULTILINE
        ):
            place = re.search(r'position="(\d+)"', labels)
            found[f"{name}:{place.group(1)}" if place else name] = float(value)
        return found


def recall(server: Server, counter: TokenCounter, tokens: int, number: int, first: int) -> Json:
    seeds = [f"held:{tokens}:{i}" for i in range(first, first + number)]
    documents = [make_document(seed, tokens, counter.count) for seed in seeds]
    bodies = [{"messages": recall_messages(d), "max_tokens": 108} for d in documents]
    right = secrets = whole = 0
    for document, reply in zip(documents, server.ask_all("/v1/chat/completions", bodies), strict=True):
        found = check_recall(document, reply["choices"][0]["message"]["content"] or "")
        right, secrets = right + sum(found.values()), secrets + len(found)
        whole += all(found.values())
    return {"documents": number, "tokens": tokens, "secrets": secrets, "right": right,
            "share": right / secrets, "whole_documents": whole}  # fmt: skip


def tasks(server: Server, number: int) -> Json:
    rng = random.Random("held tasks")
    found: Json = {}
    for kind, make in (("sums", sum_probe), ("json", json_probe), ("tool", tool_probe)):
        asked = []
        while len(asked) < number:
            probe = make(rng, "")
            if kind != "sums" or held_sum(probe.messages[0]["content"]):
                asked.append(probe)
        bodies = [
            {"messages": p.messages, "max_tokens": 120, **({"tools": p.tools} if p.tools else {})}
            for p in asked
        ]
        right = 0
        for probe, reply in zip(asked, server.ask_all("/v1/chat/completions", bodies), strict=True):
            choice = reply["choices"][0]
            message = choice["message"]
            calls = message.get("tool_calls") or []
            right += probe.judge(message.get("content"), calls, choice["finish_reason"]).passed
        found[kind] = {"asked": number, "right": right}
    return found


def loops(ids: list[int]) -> bool:
    """Whether the last 48 tokens repeat with some period of at most 24."""
    tail = ids[-48:]
    return any(tail[p:] == tail[:-p] for p in range(1, 25))


def continuations(server: Server, path: str, bodies: list[Json]) -> Json:
    """Acceptance over continuations of a fixed length."""
    bodies = [{**b, "max_tokens": WORDS, "ignore_eos": True, "return_token_ids": True} for b in bodies]
    before = server.counters()
    replies = server.ask_all(path, bodies)
    time.sleep(1.0)
    after = server.counters()
    looped = [loops(r["choices"][0]["token_ids"]) for r in replies]
    found: Json = {"prompts": len(bodies), "tokens_each": WORDS, "looping": sum(looped) / len(looped)}
    moved = {k: v - before.get(k, 0.0) for k, v in after.items()}
    if moved.get("drafts"):
        found["acceptance_length"] = 1 + moved["accepted_tokens"] / moved["drafts"]
        found["accepted_share"] = moved["accepted_tokens"] / moved["draft_tokens"]
        found["per_position"] = [round(moved[k] / moved["drafts"], 4) for k in sorted(moved) if ":" in k]
    quiet = [_spec(r) for r, around in zip(replies, looped, strict=True) if not around]
    if quiet and all(quiet):
        drafts = sum(s["num_spec_steps"] for s in quiet if s)
        accepted = sum(s["num_accepted_draft_tokens"] for s in quiet if s)
        found["acceptance_length_without_loops"] = 1 + accepted / drafts
    return found


def _spec(reply: Json) -> Json | None:
    """The speculation figures of one reply, wherever this version keeps them."""
    stack: list[Any] = [reply.get("metrics"), reply.get("usage"), *reply["choices"]]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            if "num_spec_steps" in value:
                return value
            stack += value.values()
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("url")
    parser.add_argument("--folder", type=Path, default=Path("lab/build"), help="corpus and tokenizer")
    parser.add_argument("--parts", default="recall:2000,recall:6000,tasks,code,prose,short")
    parser.add_argument("--number", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="the first document of a recall part")
    parser.add_argument("--wide", type=int, default=4, help="requests at once")
    parser.add_argument("--note", default="", help="what is being measured")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    server = Server(arguments.url, arguments.wide)
    counter = TokenCounter(arguments.folder)
    found: Json = {}
    if arguments.out.exists():
        found = json.loads(arguments.out.read_text())
    found |= {"note": arguments.note, "vllm": server.version, "wide": arguments.wide}
    for part in arguments.parts.split(","):
        began = time.time()
        name, _, size = part.partition(":")
        run: dict[str, Callable[[], Json]] = {
            "recall": lambda size=size: recall(server, counter, int(size), arguments.number, arguments.first),
            "tasks": lambda: tasks(server, arguments.number),
            "code": lambda: continuations(server, "/v1/completions", held_out(arguments, "code")),
            "prose": lambda: continuations(server, "/v1/completions", held_out(arguments, "prose")),
            "short": lambda: {
                kind: continuations(
                    server,
                    "/v1/chat/completions",
                    [{"messages": p.messages} for p in shipped_prompts(kind)],
                )
                for kind in ("code", "prose")
            },
        }
        key = f"{part}, from {arguments.first}" if arguments.first else part
        found[key] = {**run[name](), "seconds": round(time.time() - began, 1)}
        print(key, json.dumps(found[key]), flush=True)
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(found, indent=1) + "\n")


def held_out(arguments: argparse.Namespace, kind: str) -> list[Json]:
    """Prompts of 192 tokens out of held-out files."""
    from data import Maker
    from offline import held_prompts

    number = max(2, arguments.number // 2)
    prompts = held_prompts(Maker(arguments.folder, 2560), kind, number, 192)
    return [{"prompt": row.tolist()} for row in prompts]


if __name__ == "__main__":
    main()
