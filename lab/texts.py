"""Write greedy texts of a target, without end: the drafters learn from them while this goes on.

    python lab/texts.py lab/build TARGET.pt FOLDER --rows SHORT.npz --minutes 7

Each file FOLDER/N.npz holds `ids` [texts, length] and `begin`, where the target's own words begin.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path

import numpy as np
import torch

from data import Maker
from export import load
from offline import generate, served
from rows import Rows, mark_answers, windows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--number", type=int, default=1024)
    parser.add_argument("--prompt", type=int, default=256)
    parser.add_argument("--new", type=int, default=384)
    parser.add_argument("--long", type=int, default=2048, help="prompt of every fourth file")
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    model = served(load(arguments.target)).to(arguments.device)
    rows = Rows(arguments.rows, arguments.device)
    mark_answers(rows, Maker(arguments.folder, 2560))
    rng = random.Random(f"{arguments.target.stem}:{time.time()}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    end, number = time.time() + arguments.minutes * 60, 0
    while time.time() < end:
        far = number % 4 == 1
        prompt = arguments.long if far else arguments.prompt
        count = arguments.number // 4 if far else arguments.number
        new = arguments.new // 2 if far else arguments.new
        began = time.time()
        ids = generate(model, windows(rows, count, prompt, far, rng), new)
        path = arguments.out / f"{number}.part.npz"
        np.savez(path, ids=ids.to(torch.int16).cpu().numpy(), begin=prompt)
        path.rename(arguments.out / f"{number}.npz")
        if number < 6:
            print(f"{arguments.target.stem} texts {tuple(ids.shape)} {time.time() - began:.1f} s", flush=True)
        number += 1
    print(f"{arguments.target.stem} texts: {number} files", flush=True)


if __name__ == "__main__":
    main()
