"""Simulated studies of two arms whose true ratio is known, as the effects that inference is given."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kvantage.analysis.boot_noise import AUTOTUNED, PINNED
from kvantage.analysis.effect import BootEffect

QUIET, LOUD = PINNED.sd, AUTOTUNED.sd


@dataclass(frozen=True)
class World:
    """What a study is drawn from. Deviations are of the logarithm of a speed.

    boots     of each arm
    sd_boot   of one arm between its boots
    modes     requests have two modes, 8 % up or 6 % down, one in three up: a median that is not the mean
    drift     the machine slows down by that share from the first boot to the last
    order     `abba`, `randomised`, `fixed`
    void      chance that a boot's cell is void, whatever its speed: the block is then left out
    timeouts  a request slower than 1.8 deviations fails, and a failed request voids its cell
    """

    boots: int
    sd_boot: float
    modes: bool = False
    drift: float = 0.0
    order: str = "abba"
    void: float = 0.0
    timeouts: bool = False
    prompts: int = 4
    repeats: int = 2
    sd_prompt: float = 0.05
    sd_repeat: float = 0.015


def truth_of(world: World, ratio: float) -> float:
    """The true log-ratio over the world's prompts: modes have a mean of their own."""
    return math.log(ratio) + (_MODE_MEAN if world.modes else 0.0)


_MODES = np.log(np.array([0.94, 1.08]))
_UP = 1 / 3
_MODE_MEAN = float((1 - _UP) * _MODES[0] + _UP * _MODES[1])


def draw(world: World, ratio: float, rng: np.random.Generator) -> list[BootEffect]:
    """The effects of a study of a control and one arm `ratio` times as fast, a sound block each."""
    shape = (2, world.boots, world.prompts, world.repeats)
    logs = np.zeros(shape)
    logs += rng.normal(0, world.sd_boot, (2, world.boots))[:, :, None, None]
    logs += rng.normal(0, world.sd_repeat, shape)
    # the arm helps some prompts more than others; over the study's prompts its mean is the truth
    own = rng.normal(0, world.sd_prompt, world.prompts)
    logs[1] += (own - own.mean())[None, :, None] + math.log(ratio)
    if world.modes:
        up = rng.random((world.boots, world.prompts, world.repeats)) < _UP
        logs[1] += np.where(up, _MODES[1], _MODES[0])
    logs -= world.drift * _places(world, rng)[:, :, None, None]
    void = rng.random((2, world.boots)) < world.void
    if world.timeouts:
        level = logs.mean(axis=(1, 2, 3), keepdims=True)
        spread = math.hypot(world.sd_boot, world.sd_repeat)
        void |= (logs - level < -1.8 * spread).any(axis=(2, 3))
    names = np.repeat([f"prompt {place}" for place in range(world.prompts)], world.repeats)
    effects = []
    for block in range(world.boots):
        if void[:, block].any():
            continue
        paired = (logs[1, block] - logs[0, block]).ravel()
        effects.append(
            BootEffect(
                block,
                float(paired.mean()),
                float(logs[1, block].mean()),
                float(logs[0, block].mean()),
                paired,
                names,
                True,
            )
        )
    return effects


def _places(world: World, rng: np.random.Generator) -> np.ndarray:
    """When each arm's boot of each block came, from 0 to 1: a row an arm."""
    places = np.empty((2, world.boots))
    for block in range(world.boots):
        turned = world.order == "abba" and block % 2 == 1
        if world.order == "randomised":
            turned = bool(rng.integers(2))
        first, second = (1, 0) if turned else (0, 1)
        places[first, block], places[second, block] = 2 * block, 2 * block + 1
    return places / max(1, 2 * world.boots - 1)
