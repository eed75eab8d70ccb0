"""Numbers as people type them: counts of tokens, bytes, durations.

One reading each. `k` is 1,000 and `Ki` is 1,024; a spelling that is read both ways in practice
(`256k` of context, `2GB` of pool) is refused in a sentence that names both readings.
"""

from __future__ import annotations

import re
from decimal import Decimal

_THOUSANDS = {"": 1, "k": 1000, "M": 1000**2, "Ki": 1024, "Mi": 1024**2}
_BYTES = {"": 1, "B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3, "TiB": 1024**4}
_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}

_NUMBER = re.compile(r"([0-9][0-9_]*(?:\.[0-9]+)?)\s*([A-Za-z]*)", re.ASCII)
_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?[dhms])+", re.ASCII)
_LATENCY = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s)", re.ASCII)
_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)([dhms])", re.ASCII)


def parse_tokens(value: object) -> int:
    """A count of tokens: `128000`, `128_000`, `128k` (128,000), `128Ki` (131,072), `1.5M`.

    Raises ValueError on anything else, `128K` with a capital included.
    """
    number, unit = _split(value, "a number of tokens, such as 128000, 128k (128,000) or 128Ki (131,072)")
    if unit in ("K", "m"):
        raise ValueError(f"`{value}` has no unit of ours: `k` is 1,000, `Ki` is 1,024, `M` is 1,000,000")
    return _whole(number, unit, _THOUSANDS, value, "tokens")


def parse_exact_tokens(value: object) -> int:
    """A count of tokens where powers of two are usual, so that `256k` would be read both ways.

    `262144`, `262_144` or `256Ki`. Raises ValueError on `k` and `M`, naming both readings.
    """
    number, unit = _split(value, "a number of tokens, such as 262144 or 256Ki (262,144)")
    if unit in ("k", "K", "M", "m"):
        decimal = int(number * (1000 if unit in "kK" else 1000**2))
        binary = int(number * (1024 if unit in "kK" else 1024**2))
        raise ValueError(f"`{value}` may be {decimal:,} or {binary:,} here: write {decimal} or {binary}")
    return _whole(number, unit, _THOUSANDS, value, "tokens")


def parse_bytes(value: object) -> int:
    """A number of bytes: `96MiB`, `2GiB`, `1.5GiB`, or plain bytes.

    Raises ValueError on decimal units (`2GB`), since half of the world means 2GiB by them.
    """
    number, unit = _split(value, "a size, such as 96MiB or 2GiB")
    powers = {"KB": 1, "K": 1, "MB": 2, "M": 2, "GB": 3, "G": 3, "TB": 4, "T": 4}
    power = powers.get(unit.upper())
    if power:
        binary = f"{unit[0].upper()}iB"
        raise ValueError(
            f"`{value}` may mean {binary} or powers of 1,000: "
            f"write {number}{binary} or {int(number * 1000**power)}"
        )
    return _whole(number, unit, _BYTES, value, "bytes")


def parse_duration(value: object) -> float:
    """Seconds, from `2h`, `90m`, `45s`, `1h30m` or `1.5h`. Raises ValueError on a number with no unit."""
    text = _text(value)
    if text is not None and re.fullmatch(r"[0-9]+(?:\.[0-9]+)?", text, re.ASCII):
        raise ValueError(f"`{text}` of what? Write {text}s, {text}m or {text}h")
    if text is None or not _DURATION.fullmatch(text):
        raise ValueError(f"needs a duration, such as 2h, 90m, 45s or 1h30m, not {show(value)}")
    parts = _DURATION_PART.findall(text)
    units = [unit for _, unit in parts]
    if units != sorted(set(units), key="dhms".index):
        raise ValueError(f"`{text}`: name each unit once, the largest first, as in 1h30m")
    seconds = float(sum(Decimal(number) * _SECONDS[unit] for number, unit in parts))
    if not 0 < seconds <= 366 * 86400:
        raise ValueError(f"needs a duration above 0 and of at most a year, not `{text}`")
    return seconds


def parse_latency(value: object) -> float:
    """Seconds, from `50ms`, `2s` or `1.5s`. Raises ValueError on a number with no unit."""
    text = _text(value)
    found = _LATENCY.fullmatch(text) if text is not None else None
    if text is not None and re.fullmatch(r"[0-9]+(?:\.[0-9]+)?", text, re.ASCII):
        raise ValueError(f"`{text}` of what? Write {text}ms or {text}s")
    if found is None:
        raise ValueError(f"needs a time, such as 50ms or 2s, not {show(value)}")
    seconds = float(Decimal(found[1]) / (1000 if found[2] == "ms" else 1))
    if not 0 < seconds <= 86400:
        raise ValueError(f"needs a time above 0 and of at most a day, not `{text}`")
    return seconds


def show_latency(seconds: float) -> str:
    """A spelling that `parse_latency` reads back to the same time: 0.05 s is `50ms`."""
    number = Decimal(repr(seconds))
    milliseconds = number * 1000
    if number < 1 and milliseconds == milliseconds.to_integral_value():
        return f"{int(milliseconds)}ms"
    return f"{int(number) if number == number.to_integral_value() else format(number, 'f')}s"


def show_bytes(count: int) -> str:
    """The shortest spelling that `parse_bytes` reads back to the same number: 100663296 is `96MiB`."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if count and count % _BYTES[unit] == 0:
            return f"{count // _BYTES[unit]}{unit}"
    return str(count)


def show_duration(seconds: float) -> str:
    """A spelling that `parse_duration` reads back to the same time: 5400 s is `1h30m`."""
    whole = int(seconds)
    if whole != seconds or whole <= 0:
        return f"{Decimal(repr(seconds)):f}s"
    text = ""
    for unit, size in (("h", 3600), ("m", 60), ("s", 1)):
        count, whole = divmod(whole, size)
        if count:
            text += f"{count}{unit}"
    return text


def show(value: object) -> str:
    """A value of a study file as an error names it: as it was typed, or what kind of thing it is."""
    match value:
        case None:
            return "nothing"
        case bool():
            return f"`{str(value).lower()}`"
        case dict():
            return "a group of fields"
        case list() | tuple():
            return "a list"
    text = " ".join((_text(value) or str(value)).split())
    return f"`{text[:57]}...`" if len(text) > 60 else f"`{text}`"


def _text(value: object) -> str | None:
    """What was typed, for a number or a text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    return str(getattr(value, "text", value)).strip()


def _split(value: object, wanted: str) -> tuple[Decimal, str]:
    text = _text(value)
    match = _NUMBER.fullmatch(text) if text is not None and len(text) <= 40 else None
    if match is None:
        raise ValueError(f"needs {wanted}, not {show(value)}")
    return Decimal(match[1].replace("_", "")), match[2]


def _whole(number: Decimal, unit: str, units: dict[str, int], value: object, noun: str) -> int:
    if unit not in units:
        known = ", ".join(name for name in units if name)
        raise ValueError(f"{show(value)} has no unit of ours; those of {noun} are {known}")
    count = number * units[unit]
    if count != count.to_integral_value():
        raise ValueError(f"{show(value)} is not a whole number of {noun}")
    return int(count)
