"""The log's own windows of throughput and acceptance, of every version."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from kvantage.engines.numbers import number as decimal
from kvantage.engines.vllm.lines import Line, read_lines

_ENGINE = re.compile(
    r"(?:Engine (?P<engine>\d+): .*?)?Avg generation throughput: (?P<speed>[\d.]+) tokens/s,"
    r" Running: (?P<running>\d+) reqs?,(?: Swapped: \d+ reqs?,)?"
    r" (?:Waiting|Pending): (?P<waiting>\d+) reqs?"
)
_PREEMPTED = re.compile(r", Preemptions: (\d+),")
_USAGE = re.compile(r"KV cache usage: ([\d.]+)%")
_NUMBERS = {
    "acceptance_length": re.compile(r"Mean acceptance length: ([\d.]+)"),
    "accepted_tok_s": re.compile(r"Accepted throughput: ([\d.]+)"),
    "drafted_tok_s": re.compile(r"Drafted throughput: ([\d.]+)"),
    "accepted_tokens": re.compile(r"Accepted: (\d+) tokens"),
    "drafted_tokens": re.compile(r"Drafted: (\d+) tokens"),
    "percent": re.compile(r"Avg Draft acceptance rate: ([\d.]+)%"),
    "depth": re.compile(r"Current speculative depth: (\d+)"),
}
_POSITIONS = re.compile(
    r"Per-position acceptance rate: ((?:[\d.]+(?:, (?=[\d.]))?)+)(?: across all (\d+) positions)?"
)
_FIELDS = 8
_NEXT_FIELD = re.compile(
    r"\s*(?:Mean acceptance length|Current speculative depth|Accepted|Drafted|Per-position acceptance rate"
    r"|(?:Avg )?Draft acceptance rate)\b"
)
_V0 = re.compile(
    r"Speculative metrics: Draft acceptance rate: (?P<rate>[\d.]+), System efficiency: [\d.]+,"
    r" Number of speculative tokens: (?P<k>\d+), Number of accepted tokens: (?P<accepted>\d+),"
    r" Number of draft tokens(?: tokens)?: (?P<drafted>\d+),"
    r" Number of emitted tokens(?: tokens)?: (?P<emitted>\d+)(?=\.|,|$)"
)


def windows(raw: Iterable[str]) -> tuple[Mapping[str, float], ...]:
    """Oldest first. Fields are left out where the line does not tell them.

    acceptance_length       tokens a drafting step, bonus included (V1: 1 + accepted/drafts, from the
                            line's counts where they fit its printed value; V0: emitted/(drafted/k),
                            since V0's `accepted` is not prefix-based)
    accepted_tok_s, drafted_tok_s   as printed
    accepted_tokens, drafted_tokens, drafts, emitted_tokens, draft_acceptance_rate (0 to 1)
    position_0, ...         unconditional rates: accepted at that position / drafts
    cumulative              1 where the line counts since the start (V0's): see `counted`
    preemptions             in this window, where any
    running, waiting, generation_tok_s, pool_usage (0 to 1), engine
    window_s                how long the window was, from counts / rates
    """
    found: list[dict[str, float]] = []
    lines = list(read_lines(raw))
    for number, line in enumerate(lines):
        if told := _ENGINE.search(line.text):
            found.append(engine_window(told, line))
        elif "SpecDecoding metrics:" in line.text:
            window = acceptance(joined(lines, number))
            if found and "drafted_tokens" not in found[-1] and "running" in found[-1]:
                found[-1].update(window)
            elif window:
                found.append(window)
        elif told := _V0.search(line.text):
            found.append(v0_window(told))
    return tuple(found)


def counted(told: Iterable[Mapping[str, float]]) -> list[Mapping[str, float]]:
    """The windows that drafted, of which each draft is counted once.

    V0's lines count since the start: of those only the last before a restart is taken.
    """
    kept: list[Mapping[str, float]] = []
    for window in told:
        if not window.get("drafted_tokens"):
            continue
        since_start = "cumulative" in window and bool(kept) and "cumulative" in kept[-1]
        if since_start and window["drafted_tokens"] >= kept[-1]["drafted_tokens"]:
            kept.pop()
        kept.append(window)
    return kept


def engine_window(told: re.Match[str], line: Line) -> dict[str, float]:
    """The line of one engine's throughput and queue."""
    window = {"running": float(told["running"]), "waiting": float(told["waiting"])}
    if told["engine"] is not None:
        window["engine"] = float(told["engine"])
    if (speed := decimal(told["speed"])) is not None:
        window["generation_tok_s"] = speed
    if preempted := _PREEMPTED.search(line.text):
        window["preemptions"] = float(preempted[1])
    if (usage := _USAGE.search(line.text)) and (percent := decimal(usage[1])) is not None:
        window["pool_usage"] = percent / 100
    return window


def joined(lines: list[Line], number: int) -> str:
    """A line that was broken, after a comma or before one of its fields, with what follows it."""
    text = lines[number].text.rstrip()
    for line in lines[number + 1 : number + 1 + _FIELDS]:
        if line.level or not (text.endswith(",") or _NEXT_FIELD.match(line.text)):
            break
        text = f"{text} {line.text.strip()}"
    return text


def acceptance(text: str) -> dict[str, float]:
    """V1's line. Nothing is told where its counts contradict each other (more accepted than drafted)."""
    told = {name: value for name, pattern in _NUMBERS.items() if (value := first(pattern, text)) is not None}
    accepted, drafted = told.get("accepted_tokens"), told.get("drafted_tokens")
    if accepted is not None and drafted is not None and accepted > drafted:
        return {}
    if told.get("acceptance_length", 1.0) < 1:
        return {}
    kept = ("acceptance_length", "accepted_tokens", "drafted_tokens", "accepted_tok_s", "drafted_tok_s")
    window: dict[str, float] = {name: told[name] for name in kept if name in told}
    rates, depth = positions(text)
    depth = depth or int(told.get("depth", 0))
    window |= {f"position_{place}": rate for place, rate in enumerate(rates)}
    if accepted is not None and drafted:
        window["draft_acceptance_rate"] = accepted / drafted
        if depth and fits(1 + accepted * depth / drafted, told.get("acceptance_length")):
            window["drafts"] = drafted / depth
            window["acceptance_length"] = 1 + accepted * depth / drafted
            window["emitted_tokens"] = accepted + drafted / depth
    elif told.get("percent", 101) <= 100:
        window["draft_acceptance_rate"] = told["percent"] / 100
    if drafted and told.get("drafted_tok_s"):
        window["window_s"] = drafted / told["drafted_tok_s"]
    return window


def fits(computed: float, printed: float | None) -> bool:
    """Whether counts give the printed length; n-gram's vary in length: drafted/k is not their number."""
    return printed is None or abs(computed - printed) <= 0.0051


def positions(text: str) -> tuple[list[float], int]:
    """Per-position rates and how many positions there are; a line may sum up equal rates in words."""
    found = _POSITIONS.search(text)
    if not found:
        return [], 0
    rates = [rate for word in found[1].split(", ") if (rate := decimal(word)) is not None and rate <= 1]
    if found[2]:
        rates = rates[:1] * min(int(found[2]), 64)
    return rates, len(rates)


def v0_window(told: re.Match[str]) -> dict[str, float]:
    """V0's line: steps are drafted/k, and the length is emitted/steps."""
    drafted, depth, emitted = float(told["drafted"]), int(told["k"]), float(told["emitted"])
    window = {"drafted_tokens": drafted, "emitted_tokens": emitted, "cumulative": 1.0}
    if (rate := decimal(told["rate"])) is not None and rate <= 1:
        window["draft_acceptance_rate"] = rate
    if depth and drafted:
        window["drafts"] = drafted / depth
        window["acceptance_length"] = emitted * depth / drafted
    return window


def first(pattern: re.Pattern[str], text: str) -> float | None:
    """The number that `pattern` finds."""
    found = pattern.search(text)
    return decimal(found[1]) if found else None
