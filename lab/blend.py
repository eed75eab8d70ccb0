"""Blend two checkpoints of one model: the weights a share of the way from the first to the second.

    python lab/blend.py RAW.pt UNLOOPED.pt 0.5 OUT.pt

Unlikelihood training takes the loops away and some of the fluency with them; half way between the
two, most loops are gone and the loss on held-out text is (nearly) the better one.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from export import load, save


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("share", type=float)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    model, other = load(arguments.first), load(arguments.second).state_dict()
    mixed = {k: v + arguments.share * (other[k] - v) for k, v in model.state_dict().items()}
    model.load_state_dict(mixed)
    save(model, arguments.out)


if __name__ == "__main__":
    main()
