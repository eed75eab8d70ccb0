"""Measure the models without a server: recall, tasks and acceptance, by the exact greedy rules.

    python lab/offline.py lab/build --target mla.pt --mtp --dflash mla-dflash.pt --out RESULT.json

An answer counts as recalled when every one of its tokens is the target's own argmax given the
tokens before it, which is what greedy decoding would write. Acceptance is counted on the target's
own greedy continuations of held-out code: a step emits the accepted drafts and one more token.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from data import Maker, held_sum
from export import load
from kvantage.workloads.documents import make_document, recall_messages
from kvantage.workloads.probes import json_probe, sum_probe, tool_probe
from model import Cache, Dense, Dflash, Experts, Mla, Target


def served(model: Any) -> Any:
    """A copy as a server runs it: bf16 throughout, the router in float32."""
    made = copy.deepcopy(model).eval()
    biases = [m.gate.e_score_correction_bias.clone() for m in made.modules() if isinstance(m, Experts)]
    made.to(torch.bfloat16)
    experts = [m for m in made.modules() if isinstance(m, Experts)]
    for module, bias in zip(experts, biases, strict=True):
        module.gate.e_score_correction_bias = bias.float()
    return made.requires_grad_(False)


@torch.no_grad()
def generate(model: Target, prompts: Tensor, new: int) -> Tensor:
    """Greedy continuations [N, P + new] of prompts [N, P] of one length."""
    cache = Cache(prompts.shape[1] + new)
    made = [prompts]
    hidden = model.see(prompts, cache).hidden[:, -1:]
    for step in range(new):
        token = model.logits(hidden).argmax(-1)
        made.append(token)
        if step + 1 < new:
            hidden = model.see(token, cache).hidden
    return torch.cat(made, 1)


@torch.no_grad()
def answered(
    model: Target, pairs: list[tuple[list[int], list[int]]], device: str, size: int = 8
) -> list[bool]:
    """For each prompt and answer, whether greedy decoding would write that answer exactly."""
    order = sorted(range(len(pairs)), key=lambda i: len(pairs[i][0]))
    found: dict[int, bool] = {}
    for at in range(0, len(pairs), size):
        picked = order[at : at + size]
        rows = [pairs[i][0] + pairs[i][1] for i in picked]
        longest = max(map(len, rows))
        ids = torch.tensor([r + [0] * (longest - len(r)) for r in rows], device=device)
        hidden = model.see(ids).hidden
        for row, i in enumerate(picked):
            begin, length = len(pairs[i][0]), len(pairs[i][1])
            best = model.logits(hidden[row, begin - 1 : begin + length - 1]).argmax(-1)
            found[i] = best.tolist() == pairs[i][1]
    return [found[i] for i in range(len(pairs))]


def recall(
    model: Target, maker: Maker, tokens: int, documents: int, device: str, seed: str = "held"
) -> dict[str, Any]:
    """Secrets given back from documents of an exact length, each asked together with the others."""
    pairs, secrets = [], 0
    for i in range(documents):
        document = make_document(f"{seed}:{tokens}:{i}", tokens, lambda t: len(maker.encode(t)))
        prompt = maker.encode(maker.render(messages=recall_messages(document), add_generation_prompt=True))
        answer: list[int] = []
        for secret in document.secrets:
            line = maker.encode(secret.sentence.removesuffix("."))  # up to its last digit
            pairs.append((prompt + answer, line))
            answer += maker.encode(f"{secret.sentence}\n")
            secrets += 1
    right = answered(model, pairs, device)
    whole = [all(right[i : i + 4]) for i in range(0, len(right), 4)]
    return {"documents": documents, "tokens": tokens, "secrets": secrets, "right": sum(right),
            "share": sum(right) / secrets, "whole_documents": sum(whole)}  # fmt: skip


def tasks(model: Target, maker: Maker, device: str, number: int = 200) -> dict[str, Any]:
    """Held-out sums, JSON to echo, and tool calls."""
    rng = random.Random("held tasks")
    found = {}
    for kind, make in (("sums", sum_probe), ("json", json_probe), ("tool", tool_probe)):
        pairs = []
        while len(pairs) < number:
            probe = make(rng, "")
            if kind == "sums" and not held_sum(probe.messages[0]["content"]):
                continue
            answer = json.dumps(probe.expected)
            if kind == "tool":
                answer = f"<tool_call>\n{answer}\n</tool_call>"
            prompt = maker.render(
                messages=probe.messages, tools=probe.tools or None, add_generation_prompt=True
            )
            pairs.append((maker.encode(prompt), [*maker.encode(answer), 2]))
        right = answered(model, pairs, device)
        found[kind] = {"asked": number, "right": sum(right)}
    return found


def held_prompts(maker: Maker, kind: str, number: int, length: int) -> Tensor:
    """Prompts of exactly `length` tokens out of held-out files, some of them in chat."""
    rng = random.Random(f"held prompts {kind}")
    maker.rng = rng
    name = f"{kind}_held"
    maker.files[name] = [f["text"] for f in maker.corpus[name]]
    maker.weights[name] = [len(t) for t in maker.files[name]]
    prompts: list[list[int]] = []
    while len(prompts) < number:
        ids = maker.encode(maker._window(name, 8 * length))
        if len(ids) >= length:
            prompts.append(ids[:length])
    return torch.tensor(prompts)


def walk(hits: Tensor, begin: int) -> tuple[int, int, list[int]]:
    """Steps and tokens of speculative decoding over one sequence.

    `hits` [T, k]: whether draft j made after position i is right. Starts after position `begin`.
    """
    steps = emitted = 0
    places = [0] * hits.shape[1]
    at = begin
    accepted = hits.long().cumprod(1).sum(1).tolist()
    while at < hits.shape[0]:
        m = accepted[at]
        for j in range(m):
            places[j] += 1
        steps += 1
        emitted += m + 1
        at += m + 1
    return steps, emitted, places


def acceptance(hits: list[Tensor], begin: int) -> dict[str, Any]:
    """The acceptance length, bonus included, over sequences, and the rate at each place."""
    steps = emitted = 0
    places = [0] * hits[0].shape[1]
    for one in hits:
        a, b, c = walk(one, begin)
        steps, emitted = steps + a, emitted + b
        places = [x + y for x, y in zip(places, c, strict=True)]
    return {"length": emitted / steps, "steps": steps,
            "per_position": [round(p / steps, 4) for p in places]}  # fmt: skip


@torch.no_grad()
def mtp_hits(model: Mla, ids: Tensor, k: int) -> Tensor:
    """[N, T - k - 1, k]: whether the MTP layer's draft j after position i is the token that came."""
    made = []
    for row in ids:
        drafts = model.drafts(row[None], model.see(row[None]).hidden, k)
        guess = torch.stack([model.logits(d[0]).argmax(-1) for d in drafts], -1)
        wanted = torch.stack([row[j + 2 : j + 2 + len(row) - k - 1] for j in range(k)], -1)
        made.append(guess[: len(wanted)] == wanted)
    return torch.stack(made)


@torch.no_grad()
def dflash_hits(model: Target, drafter: Dflash, ids: Tensor, k: int, begin: int) -> Tensor:
    """[N, T - k - 1, k]: the same for a DFlash drafter (rows before `begin` are left False)."""
    made = []
    length = ids.shape[1]
    last = length - k - 1  # number of rows
    for row in ids:
        context = drafter.context(model.see(row[None]).layers)
        anchors = torch.arange(begin + 1, last + 1, device=ids.device)[None]
        hidden = drafter(model, context, anchors, row[anchors], k + 1)
        guess = model.logits(hidden[0, :, 1:]).argmax(-1)
        wanted = torch.stack([row[begin + 2 + j : last + 2 + j] for j in range(k)], -1)
        hits = torch.zeros(last, k, dtype=torch.bool, device=ids.device)
        hits[begin:] = guess == wanted
        made.append(hits)
    return torch.stack(made)


@torch.no_grad()
def draft_hits(drafter: Dense, ids: Tensor, k: int) -> Tensor:
    """[N, T - k - 1, k]: the same for a draft model (which sees the right tokens until it errs)."""
    made = []
    for row in ids:
        guess = drafter.logits(drafter.see(row[None]).hidden)[0].argmax(-1)
        right = guess[:-1] == row[1:]
        rows = len(row) - k - 1
        made.append(torch.stack([right[j + 1 : j + 1 + rows] for j in range(k)], -1))
    return torch.stack(made)


def looping(ids: Tensor, begin: int) -> float:
    """The share of continuations that end in a loop: their last 48 tokens repeat with a period."""
    count = 0
    for row in ids[:, begin:].tolist():
        tail = row[-48:]
        count += any(tail[p:] == tail[:-p] for p in range(1, 25))
    return count / len(ids)


def measure(
    target: Target, maker: Maker, device: str, drafters: dict[str, Any], number: int = 200
) -> dict[str, Any]:
    """Everything this file measures, for one target and its drafters by name."""
    model = served(target).to(device)
    found: dict[str, Any] = {
        "recall_2000": recall(model, maker, 2000, number, device),
        "recall_6000": recall(model, maker, 6000, number, device),
        "tasks": tasks(model, maker, device, number),
    }
    for kind in ("code", "prose"):
        prompts = held_prompts(maker, kind, max(2, number // 2), 192).to(device)
        ids = generate(model, prompts, 200)
        begin = prompts.shape[1] - 1
        result: dict[str, Any] = {"looping": looping(ids, begin)}
        plain = model.logits(model.see(prompts).hidden[:, :-1]).float()
        result["loss"] = torch.nn.functional.cross_entropy(
            plain.flatten(0, 1), prompts[:, 1:].flatten()
        ).item()
        if isinstance(model, Mla):
            result["mtp_3"] = acceptance(list(mtp_hits(model, ids, 3).cpu()), begin)
        for name, drafter in drafters.items():
            one = served(drafter).to(device)
            if isinstance(one, Dflash):
                result[f"{name}_5"] = acceptance(list(dflash_hits(model, one, ids, 5, begin).cpu()), begin)
            else:
                result[f"{name}_3"] = acceptance(list(draft_hits(one, ids, 3).cpu()), begin)
        result["samples"] = [
            maker.tokenizer.decode(row.tolist(), skip_special_tokens=False) for row in ids[:3]
        ]
        found[kind] = result
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--dflash", type=Path)
    parser.add_argument("--draft", type=Path)
    parser.add_argument("--number", type=int, default=200, help="documents and tasks of each kind")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    drafters = {}
    if arguments.dflash and arguments.dflash.exists():
        drafters["dflash"] = load(arguments.dflash)
    if arguments.draft and arguments.draft.exists():
        drafters["draft"] = load(arguments.draft)
    maker = Maker(arguments.folder, 2560)
    found = measure(load(arguments.target), maker, arguments.device, drafters, arguments.number)
    arguments.out.write_text(json.dumps(found, indent=1) + "\n")
    short = {k: {a: b for a, b in v.items() if a != "samples"} for k, v in found.items()}
    print(arguments.target.name, json.dumps(short), flush=True)


if __name__ == "__main__":
    main()
