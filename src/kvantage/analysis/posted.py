"""A run beside a write-up, or two write-ups: what differs in definition, protocol and configuration, and the
figures that can be compared all the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kvantage.analysis.sheet import NOT_SAID, RATES, Entry, Sheet, SheetArm
from kvantage.core.reading import Reading

CLOSE = 0.1
"""Lengths within this share of each other are taken as the same work."""

SHORT = 2.0
"""Answers to short prompts may differ in length by this factor: prefill is little of their time."""

_DEVICE = re.compile(r"[a-z]+[0-9]+[a-z0-9]*")
SAME_STACK = ("model", "hardware", "engine", "nodes", "tensor_parallel_size")
MEMORY = ("memory_fraction", "kv_dtype", "pool_tokens", "pool_bytes", "max_running_requests")
"""Settings that size a pool: where they differ, two pools say nothing of the drafters."""


@dataclass(frozen=True, slots=True)
class Unlike:
    """Something that the two say otherwise, or that one of them does not say."""

    name: str
    first: str
    second: str

    @property
    def untold(self) -> bool:
        """True where one of them does not say it."""
        return NOT_SAID in (self.first, self.second)


@dataclass(frozen=True)
class Beside:
    """One figure of both. `ratio` is the second over the first, missing with the reason where it is refused.

    what      `tok/s on code, one at a time`
    kind      `figure`: the numbers themselves; `over control`: each divided by its own control's
    """

    arm: str
    other_arm: str
    what: str
    kind: str
    first: Reading
    second: Reading
    ratio: Reading
    caveats: tuple[str, ...] = ()


@dataclass(frozen=True)
class SheetComparison:
    """Two sheets. `unmatched` are arms of one that the other has no like of; `notes` the write-ups' own."""

    first: str
    second: str
    definitions: tuple[Unlike, ...]
    protocol: tuple[Unlike, ...]
    configuration: tuple[Unlike, ...]
    arms: tuple[tuple[str, str], ...]
    unmatched: tuple[str, ...]
    figures: tuple[Beside, ...]
    notes: tuple[str, ...]


def compare_sheets(first: Sheet, second: Sheet) -> SheetComparison:
    """Compare what can be compared; say why the rest cannot."""
    pairs, unmatched = _pair_arms(first, second)
    configuration = _unlike(first.configuration, second.configuration)
    told = [each.name for each in configuration if not each.untold]
    stack = [each.name for each in configuration if each.name in SAME_STACK and not _alike(each)]
    stack = [name for name in stack if name in told or name in ("model", "hardware", "engine")]
    memory = [name for name in told if name in MEMORY]
    figures: list[Beside] = []
    for mine, theirs in pairs:
        figures += _figures(mine, theirs, stack, memory)
        figures += _over_control(first, second, mine, theirs, stack, memory)
    return SheetComparison(
        first.name,
        second.name,
        _definitions(first, second),
        _unlike(first.protocol, second.protocol),
        (*configuration, *_arm_settings(pairs)),
        tuple((mine.name, theirs.name) for mine, theirs in pairs),
        unmatched,
        tuple(figures),
        tuple(f"{sheet.name}: {note}" for sheet in (first, second) for note in sheet.notes),
    )


def _pair_arms(first: Sheet, second: Sheet) -> tuple[list[tuple[SheetArm, SheetArm]], tuple[str, ...]]:
    """Arms of one name that speculate alike, then of those left every two that speculate the same way."""
    named = [(a, b) for a in first.arms for b in second.arms if a.name == b.name and a.method == b.method]
    taken = {id(arm) for pair in named for arm in pair}
    rest = [
        (a, b)
        for a in first.arms
        for b in second.arms
        if id(a) not in taken and id(b) not in taken and a.method == b.method
    ]
    order = {arm.name: place for place, arm in enumerate(first.arms)}
    pairs = sorted([*named, *rest], key=lambda pair: order[pair[0].name])
    held = {id(arm) for pair in pairs for arm in pair}
    unmatched = tuple(
        f"{arm.name} ({sheet.name})" for sheet in (first, second) for arm in sheet.arms if id(arm) not in held
    )
    return pairs, unmatched


def _definitions(first: Sheet, second: Sheet) -> tuple[Unlike, ...]:
    """The definitions of rates and acceptance lengths that one of them has and the other has not."""
    told = []
    names = {"tok_s": "tok/s", "acceptance_length": "acceptance length"}
    for metric, name in names.items():
        kinds = [
            sorted(
                {entry.definition for arm in sheet.arms for entry in arm.entries if entry.metric == metric}
            )
            for sheet in (first, second)
        ]
        if kinds[0] and kinds[1] and kinds[0] != kinds[1]:
            told.append(Unlike(name, *("; ".join(_in_words(each) for each in side) for side in kinds)))
    return tuple(told)


def _in_words(definition: str) -> str:
    return RATES.get(definition, definition)


def _unlike(first: object, second: object) -> tuple[Unlike, ...]:
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    return tuple(
        Unlike(name, str(first.get(name, NOT_SAID)), str(second.get(name, NOT_SAID)))
        for name in dict.fromkeys((*first, *second))
        if first.get(name, NOT_SAID) != second.get(name, NOT_SAID)
        and not _same_number(first.get(name), second.get(name))
    )


def _same_number(a: object, b: object) -> bool:
    try:
        return float(str(a)) == float(str(b))
    except ValueError:
        return False


def _arm_settings(pairs: Sequence[tuple[SheetArm, SheetArm]]) -> tuple[Unlike, ...]:
    return tuple(
        Unlike(f"{mine.name}: {each.name}", each.first, each.second)
        for mine, theirs in pairs
        for each in _unlike(dict(mine.settings), dict(theirs.settings))
    )


def _alike(each: Unlike) -> bool:
    """The same thing in longer or shorter words: `org/Name` and `Name`; of machines, the same device: `two
    GB10 nodes` and `1 x NVIDIA GB10, cpu Cortex-X925`. How many nodes there are is told by other settings.
    """
    words = [_words(text) for text in (each.first, each.second)]
    if each.name == "hardware":
        return bool(_devices(words[0]) & _devices(words[1]))
    return bool(words[0]) and bool(words[1]) and (words[0] <= words[1] or words[1] <= words[0])


def _devices(words: set[str]) -> set[str]:
    """Words of letters and digits, as devices are called: `gb10`, `h200`, `rtx4090`."""
    return {word for word in words if len(word) > 2 and _DEVICE.fullmatch(word)}


def _words(text: str) -> set[str]:
    plain = "".join(
        letter if letter.isalnum() or letter == "." else " " for letter in text.rpartition("/")[2]
    )
    return set(plain.lower().split())


def _figures(mine: SheetArm, theirs: SheetArm, stack: Sequence[str], memory: Sequence[str]) -> list[Beside]:
    """Every figure of the first that the second has a like of, the same place and metric."""
    found = []
    for entry in mine.entries:
        for other in _likes(entry, mine, theirs):
            refusal = _refusal(entry, other, stack, memory)
            ratio = _over(other.reading, entry.reading) if refusal is None else Reading.absent(refusal)
            found.append(
                Beside(
                    mine.name,
                    theirs.name,
                    _what(entry),
                    "figure",
                    entry.reading,
                    other.reading,
                    ratio,
                    _caveats(entry, other, memory),
                )
            )
    return found


def _likes(entry: Entry, mine: SheetArm, arm: SheetArm) -> list[Entry]:
    """The entries to set beside one: of its place and metric; of its own definition where there is one."""
    same = [
        other
        for other in arm.entries
        if (other.metric, other.phase, other.concurrency) == (entry.metric, entry.phase, entry.concurrency)
        and (other.workload == entry.workload or None in (other.workload, entry.workload))
        and (other.cached == entry.cached or None in (other.cached, entry.cached))
        and (other.metric not in ("ttft_s", "sessions") or _close(other.prompt_tokens, entry.prompt_tokens))
    ]
    own = [other for other in same if other.definition == entry.definition]
    if own:
        return own[:1]
    # a run has each speed by two definitions: a figure of the other side meets its own, and only that
    met = {each.definition for each in _siblings(entry, mine)}
    return [other for other in same if other.definition not in met][:1]


def _siblings(entry: Entry, arm: SheetArm) -> list[Entry]:
    """The entries of one place and metric, by whichever definition."""
    return [
        other
        for other in arm.entries
        if (other.metric, other.phase, other.workload, other.concurrency)
        == (entry.metric, entry.phase, entry.workload, entry.concurrency)
    ]


def _refusal(entry: Entry, other: Entry, stack: Sequence[str], memory: Sequence[str]) -> str | None:
    """Why two figures of one place cannot be compared; None where they can."""
    if NOT_SAID in (entry.definition, other.definition):
        return f"how it was taken is {NOT_SAID} by one of them"
    if entry.definition != other.definition:
        return f"other definitions: {_in_words(entry.definition)}, and {_in_words(other.definition)}"
    moved = [name for name in stack if entry.metric != "acceptance_length" or name == "model"]
    if moved:
        return f"another {' and '.join(moved)}"
    if entry.metric.startswith("kv_pool") or entry.metric == "sessions":
        return f"sized by other settings: {', '.join(memory)}" if memory else None
    for name, mine, theirs, factor in (
        ("prompts", entry.prompt_tokens, other.prompt_tokens, None if entry.phase == "short" else 1 + CLOSE),
        ("answers", entry.output_tokens, other.output_tokens, SHORT if entry.phase == "short" else 1 + CLOSE),
    ):
        if mine and theirs and factor is not None and max(mine, theirs) > factor * min(mine, theirs):
            return f"other {name}: {mine:,} and {theirs:,} tokens"
    return None


def _caveats(entry: Entry, other: Entry, memory: Sequence[str]) -> tuple[str, ...]:
    """What differs and does not keep two figures from being compared."""
    told = []
    if entry.output_tokens and other.output_tokens and entry.output_tokens != other.output_tokens:
        told.append(f"answers of {entry.output_tokens:,} and {other.output_tokens:,} tokens")
    if entry.metric == "tok_s" and entry.phase in ("short", "sweep"):
        told.append("not the same prompts, as far as is told")
    if memory and not entry.metric.startswith("kv_pool"):
        told.append(f"other {', '.join(memory)}")
    told += [note for note in (entry.note, other.note) if note]
    return tuple(told)


def _over_control(
    first: Sheet,
    second: Sheet,
    mine: SheetArm,
    theirs: SheetArm,
    stack: Sequence[str],
    memory: Sequence[str],
) -> list[Beside]:
    """Speeds and pools of an arm over its own control's: these may be set beside each other on other
    machines, where model and definition are the same.
    """
    controls = [sheet.arm(sheet.control or "") for sheet in (first, second)]
    if controls[0] is None or controls[1] is None or mine is controls[0] or theirs is controls[1]:
        return []
    found = []
    for entry in mine.entries:
        if entry.metric not in ("tok_s", "kv_pool_tokens"):
            continue
        base = next(iter(_same_place(entry, controls[0])), None)
        for other in _likes(entry, mine, theirs):
            under = next(iter(_same_place(other, controls[1])), None)
            if base is None or under is None:
                continue
            refusal = _refusal(entry, other, [name for name in stack if name == "model"], ())
            ratio = _over(other.reading, under.reading)
            own = _over(entry.reading, base.reading)
            beside = _over(ratio, own) if refusal is None else Reading.absent(refusal)
            caveats = _caveats(entry, other, [*stack, *memory])
            found.append(
                Beside(mine.name, theirs.name, _what(entry), "over control", own, ratio, beside, caveats)
            )
    return found


def _same_place(entry: Entry, arm: SheetArm) -> list[Entry]:
    return [other for other in _siblings(entry, arm) if other.definition == entry.definition]


def _over(above: Reading, below: Reading) -> Reading:
    if above.value is None or not below.value:
        return Reading.absent("not known")
    return Reading.of(above.value / below.value, "ratio", "computed", note="no interval: single figures")


def _close(a: int | None, b: int | None) -> bool:
    return a is None or b is None or abs(a - b) <= CLOSE * max(a, b)


def _what(entry: Entry) -> str:
    names = {
        "tok_s": "tok/s",
        "ttft_s": "TTFT",
        "kv_pool_tokens": "KV pool, tokens",
        "kv_pool_bytes": "KV pool, bytes",
        "acceptance_length": "acceptance length",
        "sessions": "sessions",
    }
    text = names[entry.metric]
    if entry.phase:
        text += f", {entry.phase}"
    if entry.workload and entry.workload != "documents":
        text += f" {entry.workload}"
    if entry.concurrency is not None:
        text += f", {entry.concurrency} at once"
    if entry.aggregate:
        text += ", all together"
    if entry.metric in ("ttft_s", "sessions") and entry.prompt_tokens is not None:
        text += f", {entry.prompt_tokens:,} tokens"
    if entry.cached is not None and entry.metric == "ttft_s":
        text += ", cached" if entry.cached else ", uncached"
    if entry.metric == "tok_s" and entry.definition in RATES and entry.definition:
        text += {"phase_wall": ", by wall time", "steady": ", steady", "server_gauge": ", gauge"}.get(
            entry.definition, ""
        )
    return text
