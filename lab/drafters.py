"""Train the drafters of a target on the target's own greedy text, for a set number of minutes.

    python lab/drafters.py mtp    lab/build TARGET.pt OUT.pt --rows SHORT.npz --texts FOLDER --minutes 3
    python lab/drafters.py dflash ...
    python lab/drafters.py draft  ...

The target stays as it is (`mtp` changes its MTP layer alone). The texts are those that lab/texts.py
writes at the same time; a share of the batches are pieces of the training rows themselves, and all
of them until the first texts are there.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from export import load, save
from model import Dense, DenseShape, Dflash, DflashShape, Mla, Target
from offline import served
from rows import Rows
from train import Optimizer

FADE = 0.8  # weight of each further place of a block or step
PLAIN = 0.15  # share of the batches that are pieces of rows
FAR = 0.2  # share of the batches that are long texts
POOL = 24  # files of short texts that are kept


class Texts:
    """The greedy texts of a folder as they come in, the newest kept, and pieces of rows."""

    def __init__(self, folder: Path, rows: Rows, begin: int, length: int) -> None:
        self.folder, self.rows, self.begin, self.length = folder, rows, begin, length
        self.rng = random.Random(1)
        self.pools: dict[int, list[Tensor]] = {}
        self.seen: set[str] = set()
        self.looked = 0.0

    def look(self) -> None:
        """Take up the files that are new."""
        if time.time() - self.looked < 2:
            return
        self.looked = time.time()
        for path in sorted(self.folder.glob("*.npz")):
            if path.name in self.seen or ".part" in path.name:
                continue
            self.seen.add(path.name)
            kept = np.load(path)
            ids = torch.from_numpy(kept["ids"]).to(self.rows.ids.device)
            pool = self.pools.setdefault(int(kept["begin"]), [])
            pool.append(ids)
            del pool[:-POOL]

    def batches(self, size: int, far: bool) -> Iterator[tuple[Tensor, int]]:
        """Batches of texts, and where the target's own words begin in them."""
        while True:
            self.look()
            pool = self.pools.get(self.begin, [])
            others = [b for b in self.pools if b != self.begin]
            if far and others and self.rng.random() < FAR:
                begin, number = others[0], max(1, size // 4)
                pool = self.pools[begin]
            elif not pool or self.rng.random() < PLAIN:
                yield self.rows.pieces(size, self.length), self.begin
                continue
            else:
                begin, number = self.begin, size
            ids = self.rng.choice(pool)
            yield ids[torch.randint(len(ids), (number,), device=ids.device)].long(), begin


def mtp_loss(model: Mla, target: Target, ids: Tensor, begin: int) -> Tensor:
    """The loss of three draft steps of the MTP layer, each further one weighing less."""
    with torch.no_grad():
        hidden = target.see(ids).hidden
    loss = torch.zeros((), device=ids.device)
    steps = 3
    for step, draft in enumerate(model.drafts(ids, hidden, steps)):
        logits = model.logits(draft[:, begin - 1 : ids.shape[1] - steps - 1]).float()
        wanted = ids[:, begin + step + 1 : begin + step + 1 + logits.shape[1]]
        loss = loss + FADE**step * F.cross_entropy(logits.flatten(0, 1), wanted.flatten())
    return loss


def dflash_loss(drafter: Dflash, target: Target, ids: Tensor, begin: int) -> Tensor:
    """The loss of blocks at random anchors among the target's own words."""
    block, number = drafter.shape.block, 128
    with torch.no_grad():
        layers = target.see(ids).layers
    context = drafter.context(layers)
    anchors = torch.randint(begin, ids.shape[1] - block, (ids.shape[0], number), device=ids.device)
    tokens = ids.gather(1, anchors)
    hidden = drafter(target, context, anchors, tokens, block)[:, :, 1:]
    ahead = torch.arange(1, block, device=ids.device)
    wanted = ids.gather(1, (anchors[..., None] + ahead).flatten(1))
    loss = F.cross_entropy(
        target.logits(hidden).float().flatten(0, 2), wanted.flatten(), reduction="none"
    ).view(ids.shape[0], number, block - 1)
    weights = FADE ** (ahead - 1).float()
    return (loss * weights).mean() / weights.mean()


def draft_loss(drafter: Dense, target: Target, ids: Tensor, begin: int) -> Tensor:
    """Distillation: the target's distribution everywhere, and its choice in its own words."""
    with torch.no_grad():
        wanted = target.logits(target.see(ids).hidden).float().softmax(-1)
    logits = drafter.logits(drafter.see(ids).hidden).float()
    loss = -(wanted * logits.log_softmax(-1)).sum(-1)
    sharp = F.cross_entropy(logits[:, begin - 1 : -1].flatten(0, 1), ids[:, begin:].flatten())
    return 0.5 * loss.mean() + sharp


LOSSES: dict[str, Callable[..., Tensor]] = {
    "mtp": mtp_loss,
    "dflash": dflash_loss,
    "draft": draft_loss,
}


def train(kind: str, arguments: argparse.Namespace, note: Callable[[dict[str, Any]], None]) -> None:
    device = arguments.device
    began, whole = time.time(), arguments.minutes * 60
    trained: Any = load(arguments.target).to(device)
    target: Any = served(trained).to(device)
    student: nn.Module = trained
    if kind == "mtp":
        student.requires_grad_(False)
        trained.mtp.requires_grad_(True)
    elif arguments.resume:
        student = load(arguments.resume)
    elif kind == "dflash":
        student = Dflash(DflashShape(taps=(1, 3) if isinstance(target, Mla) else (1, 3, 5)))
    else:
        student = Dense(DenseShape(hidden=128, layers=2, heads=2, groups=1, inner=384))
    student.to(device).train()
    rows = Rows(arguments.rows, device)
    texts = Texts(arguments.texts, rows, arguments.prompt, arguments.prompt + arguments.new)
    batches = texts.batches(arguments.batch, far=kind != "mtp")
    optimizer = Optimizer(student, arguments.rate, "muon")
    plain = LOSSES[kind]
    compute: Callable[..., Tensor] = plain
    if arguments.compile:
        compute = torch.compile(plain, dynamic=False)
    step = 0
    while (elapsed := time.time() - began) < whole:
        ids, begin = next(batches)
        try:
            with torch.autocast(device.split(":")[0], torch.bfloat16):
                loss = compute(student, target, ids, begin)
            loss.backward()
        except Exception as error:
            if compute is plain:
                raise
            print(f"{kind} without compilation, because: {str(error)[:1500]}", flush=True)
            compute = plain
            student.zero_grad(set_to_none=True)
            continue
        optimizer.step(elapsed / whole)
        step += 1
        if arguments.steps and step >= arguments.steps:
            break
        if step % arguments.log == 0:
            note({"step": step, "s": round(time.time() - began, 1), "loss": round(loss.item(), 4),
                  "begin": begin})  # fmt: skip
    student.requires_grad_(True)
    student.eval()
    save(student, arguments.out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("kind", choices=tuple(LOSSES))
    parser.add_argument("folder", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--batch", type=int, default=96)
    parser.add_argument("--prompt", type=int, default=256)
    parser.add_argument("--new", type=int, default=384)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--resume", type=Path, help="a drafter to go on from")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--log", type=int, default=200)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    log = arguments.out.with_suffix(f".{arguments.kind}.log").open("w")

    def note(entry: dict[str, Any]) -> None:
        print(arguments.target.stem, arguments.kind, json.dumps(entry), flush=True)
        log.write(json.dumps(entry) + "\n")
        log.flush()

    train(arguments.kind, arguments, note)


if __name__ == "__main__":
    main()
