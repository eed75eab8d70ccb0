"""Train a target (with its MTP layer, where it has one) for a set number of minutes.

    python lab/train.py mla lab/build OUT.pt --short SHORT.npz --long LONG.npz --minutes 8

Rows are those of lab/data.py. The first part runs on the short rows, the last on the long ones; the
learning rate follows the clock, so the run always ends in time with a finished schedule.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from export import load, save
from model import Dense, DenseShape, Mla, MlaShape, Target
from rows import Rows


def cross_entropy(logits: Tensor, wanted: Tensor, weights: Tensor) -> Tensor:
    loss = F.cross_entropy(logits.float().flatten(0, 1), wanted.flatten(), reduction="none")
    return (loss * weights.flatten()).sum() / weights.sum().clamp(min=1.0)


def target_loss(model: Target, ids: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """The weighted loss of the target, and that of its MTP layer (zero without one)."""
    hidden = model.see(ids).hidden
    loss = cross_entropy(model.logits(hidden[:, :-1]), ids[:, 1:], weights[:, 1:])
    if not isinstance(model, Mla):
        return loss, torch.zeros((), device=ids.device)
    ahead = model.drafts(ids, hidden, 1)[0][:, :-2]
    return loss, cross_entropy(model.logits(ahead), ids[:, 2:], weights[:, 2:])


class Optimizer:
    """Muon for the matrices inside the layers, AdamW for the rest; one rate for both."""

    def __init__(self, model: nn.Module, rate: float, kind: str, decay: float = 0.05) -> None:
        inner: list[nn.Parameter] = []
        outer: list[nn.Parameter] = []
        for name, weight in model.named_parameters():
            if not weight.requires_grad:
                continue
            matrix = weight.dim() == 2 and not any(
                part in name for part in ("embed_tokens", "lm_head", "mlp.gate.weight")
            )
            (inner if matrix and kind == "muon" else outer).append(weight)
        fused = next(model.parameters()).is_cuda
        self.rate = rate
        self.parts: list[torch.optim.Optimizer] = [
            torch.optim.AdamW(outer, lr=rate, betas=(0.9, 0.95), weight_decay=0.0, fused=fused)
        ]
        if inner:
            self.parts.append(
                torch.optim.Muon(inner, lr=rate, weight_decay=decay, adjust_lr_fn="match_rms_adamw")
            )
        self.all = inner + outer

    def step(self, share: float) -> None:
        """One step at `share` of the run's progress (0 to 1)."""
        warm = min(1.0, share / 0.02)
        factor = warm * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * min(1.0, share))))
        torch.nn.utils.clip_grad_norm_(self.all, 1.0)
        for part in self.parts:
            for group in part.param_groups:
                group["lr"] = self.rate * factor
            part.step()
            part.zero_grad(set_to_none=True)


def wait_for(path: Path, seconds: float = 120.0) -> None:
    """Wait until a file that another process writes is whole (its `.done` stands beside it)."""
    end = time.time() + seconds
    while not path.with_suffix(".done").exists() and time.time() < end:
        time.sleep(1)


def train(model: Target, arguments: argparse.Namespace, note: Callable[[dict[str, Any]], None]) -> None:
    device = arguments.device
    rows, long_phase = Rows(arguments.short, device), False
    began = time.time()
    whole = arguments.minutes * 60
    compute: Callable[..., Any] = target_loss
    if arguments.compile:
        compute = torch.compile(target_loss, dynamic=False)
    optimizer = Optimizer(model, arguments.rate, arguments.optimizer)
    step, size, saved = 0, arguments.batch, began
    model.train()
    while (elapsed := time.time() - began) < whole:
        share = elapsed / whole
        if not long_phase and share > 1 - arguments.long_share and arguments.long:
            wait_for(arguments.long)
            short = rows.ids.shape[1]
            rows, long_phase = Rows(arguments.long, device), True
            size = max(1, size * short // rows.ids.shape[1])
        ids, weights = rows.batch(size)
        try:
            with torch.autocast(device.split(":")[0], torch.bfloat16):
                loss, ahead = compute(model, ids, weights)
            (loss + 0.3 * ahead).backward()
        except Exception as error:
            if compute is target_loss:
                raise
            print(f"without compilation, because: {str(error)[:2000]}", flush=True)
            compute = target_loss
            model.zero_grad(set_to_none=True)
            continue
        optimizer.step(share)
        model.balance()
        step += 1
        if arguments.steps and step >= arguments.steps:
            break
        if step % arguments.log == 0:
            note({"step": step, "s": round(time.time() - began, 1), "loss": round(loss.item(), 4),
                  "ahead": round(ahead.item(), 4), "length": ids.shape[1]})  # fmt: skip
        if time.time() - saved > 120:
            save(model, arguments.out)
            saved = time.time()
    model.eval()
    save(model, arguments.out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("kind", choices=("mla", "dense"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--short", type=Path, required=True)
    parser.add_argument("--long", type=Path)
    parser.add_argument("--long-share", type=float, default=0.25, help="of the time, at the end")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--optimizer", choices=("muon", "adamw"), default="muon")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--resume", type=Path, help="a checkpoint to go on from")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--log", type=int, default=100)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    model: Target = Mla(MlaShape()) if arguments.kind == "mla" else Dense(DenseShape())
    if arguments.resume:
        model = load(arguments.resume)
    model.to(arguments.device)
    log = arguments.out.with_suffix(".log").open("w")

    def note(entry: dict[str, Any]) -> None:
        print(arguments.kind, json.dumps(entry), flush=True)
        log.write(json.dumps(entry) + "\n")
        log.flush()

    train(model, arguments, note)


if __name__ == "__main__":
    main()
