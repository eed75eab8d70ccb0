"""Teach a target to leave loops: unlikelihood on the loops of its own greedy text.

    python lab/unloop.py lab/build TARGET.pt OUT.pt --rows SHORT.npz --minutes 2

A small model that decodes greedily soon repeats itself, and then any drafter looks perfect. Here the
target writes greedy texts, the tokens that go round a loop for the second time are found, and their
probability is pushed down, beside the usual loss on training rows (after Welleck and others, 2019).
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from data import Maker
from export import load, save
from model import Target
from offline import generate, looping, served
from rows import Rows, mark_answers, windows
from train import Optimizer, target_loss

PERIODS = 80  # the longest loop that is looked for
LEAST = 14  # tokens that must repeat, at least, whatever the period


def loops(ids: Tensor, begin: int) -> Tensor:
    """[N, T]: the tokens from `begin` on that end a stretch that repeats what came a period ago."""
    found = torch.zeros_like(ids, dtype=torch.bool)
    words = ids[:, begin:]
    length = words.shape[1]
    for period in range(1, min(PERIODS, length // 2)):
        need = max(period, LEAST)
        same = (words[:, period:] == words[:, :-period]).int()
        total = torch.nn.functional.pad(same.cumsum(1), (1, 0))
        if total.shape[1] <= need:
            continue
        full = total[:, need:] - total[:, :-need] == need
        found[:, begin + period + need - 1 :] |= full
    return found


def unlikelihood(model: Target, ids: Tensor, marked: Tensor) -> Tensor:
    """How likely the marked tokens still are: the mean of -log(1 - p)."""
    logits = model.logits(model.see(ids).hidden[:, :-1]).float()
    chosen = logits.log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0].exp()
    loss = -torch.log((1 - chosen).clamp(min=1e-4))
    weights = marked[:, 1:].float()
    return (loss * weights).sum() / weights.sum().clamp(min=16.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--long", type=Path, help="long rows, one batch in three")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--number", type=int, default=768, help="greedy texts a round")
    parser.add_argument("--prompt", type=int, default=192)
    parser.add_argument("--new", type=int, default=288)
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--rate", type=float, default=6e-4)
    parser.add_argument("--weight", type=float, default=0.5)
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    device = arguments.device
    model: Any = load(arguments.target).to(device)
    maker = Maker(arguments.folder, 2560)
    rows = Rows(arguments.rows, device, seed=1)
    mark_answers(rows, maker)
    far = Rows(arguments.long, device, seed=1) if arguments.long else rows
    rng = random.Random(2)
    optimizer = Optimizer(model, arguments.rate, "muon")
    log = arguments.out.with_suffix(".unloop.log").open("w")
    whole, began, step = arguments.minutes * 60, time.time(), 0
    while (elapsed := time.time() - began) < whole:
        model.eval()
        prompts = windows(rows, arguments.number, arguments.prompt, False, rng)
        texts = generate(served(model), prompts, arguments.new)
        marked = loops(texts, arguments.prompt)
        entry = {"step": step, "s": round(elapsed, 1), "marked": round(marked.float().mean().item(), 4),
                 "looping": looping(texts, arguments.prompt - 1)}  # fmt: skip
        model.train()
        for part, flags in zip(texts.split(96), marked.split(96), strict=True):
            source = far if step % 3 == 0 else rows
            size = max(1, arguments.batch * rows.ids.shape[1] // source.ids.shape[1])
            ids, weights = source.batch(size)
            with torch.autocast(device.split(":")[0], torch.bfloat16):
                loss, ahead = target_loss(model, ids, weights)
                less = unlikelihood(model, part, flags)
            (loss + 0.3 * ahead + arguments.weight * less).backward()
            optimizer.step((time.time() - began) / whole)
            step += 1
        entry |= {"loss": round(loss.item(), 4), "less": round(less.item(), 4)}
        print(arguments.target.stem, "unloop", json.dumps(entry), flush=True)
        log.write(json.dumps(entry) + "\n")
        log.flush()
        if arguments.steps and step >= arguments.steps:
            break
    model.eval()
    save(model, arguments.out)


if __name__ == "__main__":
    main()
