"""Training rows on the device, and pieces of them that end where an answer begins."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from data import UNIT, Maker


class Rows:
    """Rows of ids and weights on the device, drawn in a new order each time they run out."""

    def __init__(self, path: Path, device: str, seed: int = 0) -> None:
        kept = np.load(path)
        self.ids = torch.from_numpy(kept["ids"].astype(np.int16)).to(device)
        self.weights = torch.from_numpy(kept["weights"]).to(device)
        self.random = np.random.default_rng(seed)
        self.order: list[int] = []
        self.answers: dict[int, list[int]] = {}

    def batch(self, size: int) -> tuple[Tensor, Tensor]:
        """The next `size` rows: ids and weights (1.0 is the usual weight)."""
        while len(self.order) < size:
            self.order += self.random.permutation(len(self.ids)).tolist()
        picked = torch.tensor(self.order[:size], device=self.ids.device)
        del self.order[:size]
        return self.ids[picked].long(), self.weights[picked].float() / UNIT

    def pieces(self, number: int, length: int) -> Tensor:
        """Random pieces [number, length] of random rows."""
        device = self.ids.device
        row = torch.randint(len(self.ids), (number, 1), device=device)
        at = torch.randint(self.ids.shape[1] - length, (number, 1), device=device)
        return self.ids[row, at + torch.arange(length, device=device)].long()


def mark_answers(rows: Rows, maker: Maker) -> None:
    """Find where answers begin in every row (just after the assistant's header)."""
    header = maker.encode("<|im_start|>assistant\n")
    ids, size = rows.ids, len(header)
    same = torch.ones_like(ids[:, : ids.shape[1] - size + 1], dtype=torch.bool)
    for offset, token in enumerate(header):
        same &= ids[:, offset : ids.shape[1] - size + 1 + offset] == token
    for row, place in same.nonzero().tolist():
        rows.answers.setdefault(row, []).append(place + size)


def windows(rows: Rows, number: int, length: int, headers: bool, rng: random.Random) -> Tensor:
    """Pieces of rows: [number, length], half of them (or all) ending where an answer begins."""
    picked = []
    while len(picked) < number:
        row = rng.randrange(len(rows.ids))
        end = rng.randrange(length, rows.ids.shape[1])
        if headers or rng.random() < 0.5:
            places = [p for p in rows.answers.get(row, []) if p >= length]
            if places:
                end = min(rng.choice(places) + rng.choice((0, 0, 0, 4, 24)), rows.ids.shape[1])
            elif headers or rng.random() < 0.7:
                continue
        picked.append(rows.ids[row, end - length : end].long())
    return torch.stack(picked)
