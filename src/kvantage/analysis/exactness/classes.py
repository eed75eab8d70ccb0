"""The classes of exactness, best first: what a verdict says in one word, and a policy may ask for."""

from __future__ import annotations

from typing import Literal, get_args

ExactnessClass = Literal[
    "bit-identical",
    "consistent with the off-vs-off floor",
    "near-tie flips only",
    "differs",
    "void",
]
EXACTNESS_CLASSES: tuple[ExactnessClass, ...] = get_args(ExactnessClass)
"""In order: each is worse than the one before it. `void` is no answer at all, and meets no constraint."""


def worse(one: ExactnessClass, other: ExactnessClass) -> ExactnessClass:
    """The worse of two classes."""
    return max(one, other, key=EXACTNESS_CLASSES.index)


def at_worst(found: ExactnessClass, allowed: ExactnessClass) -> bool:
    """True when `found` is no worse than `allowed`; a void comparison never is."""
    return found != "void" and EXACTNESS_CLASSES.index(found) <= EXACTNESS_CLASSES.index(allowed)
