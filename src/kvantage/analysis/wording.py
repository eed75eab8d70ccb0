"""Figures and places as a sentence says them."""

from __future__ import annotations

NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def speed(tok_s: float) -> str:
    """25.1, 8.42 or 1,203: three digits or more."""
    if tok_s >= 100:
        return f"{tok_s:,.0f}"
    return f"{tok_s:.1f}" if tok_s >= 10 else f"{tok_s:.2f}"


def times(ratio: float) -> str:
    """A ratio as '1.60x'."""
    return f"{ratio:.2f}x"


def percent(value: float) -> str:
    """A percentage, with a decimal only below 10."""
    return f"{value:.0f} %" if abs(value) >= 10 else f"{value:.1f} %".replace(".0 %", " %")


def streams(concurrency: int) -> str:
    """'one stream', 'four streams'."""
    number = NUMBERS[concurrency] if concurrency < len(NUMBERS) else f"{concurrency:,}"
    return f"{number} stream" if concurrency == 1 else f"{number} streams"


def work(phase: str, workload: str) -> str:
    """What was done: 'code', 'code in a closed loop', 'repeats', 'cold documents'."""
    if phase == "sweep":
        return f"{workload} in a closed loop"
    if phase == "short":
        return workload
    return {"repeat": "repeats", "cold": "cold documents"}.get(phase, f"{phase} {workload}")


def named(arm: str) -> str:
    """An arm's name in quotes: one may well be called none."""
    return f"'{arm}'"


def listed(names: list[str] | tuple[str, ...]) -> str:
    """'a', 'a and b', 'a, b and c'."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"
