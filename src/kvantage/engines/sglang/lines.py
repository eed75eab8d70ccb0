"""SGLang's own log lines: one decode or prefill report each, in any version's order and spelling."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from kvantage.engines.numbers import number, whole

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_BATCH = re.compile(r"\b(Decode|Prefill) batch(?: \[\d+\])?[.,:]?\s+(?=[#\w])")
_BARE = re.compile(r"^(?:\[[^\]]*\] ?)?(?:\.\.\.,? ?)?(?=#running-req: |accept len: )")
"""A decode report of which a post kept the fields only."""
_HEAD = re.compile(
    r"\[(?=[\dA-Zg])(?P<stamp>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?)?\s*"
    r"(?P<rank>(?:(?:[A-Z]+\d+|gpu=\d+)\s*)*)\]"
)
_STARTS = (
    "KV Cache is allocated",
    "Mamba Cache is allocated",
    "Memory pool end",
    "SWAKVPool",
    "DSV4 ",
    "se sliding window memory pool",
    "Using KV cache dtype",
    "Capture ",
    "Init ",
    "Engine startup",
    "The server is fired up",
    "Load weight",
    "max_total_num_tokens=",
    "max_total_tokens=",
    "max_running_requests is capped",
    "server_args=",
    "Decode batch",
    "Prefill batch",
    "INFO:",
    "WARNING:",
    "Traceback (",
)
_WRAPS = (
    "is allocated",
    "max_total_num_tokens=",
    "is larger than the profiled",
    "max_total_tokens=",
    "is capped to",
    "Decode batch",
    "Prefill batch",
    "Load weight end",
)
_WRAPPED_LINES = 6
_ARGUMENT_LINES = 600


@dataclass(frozen=True, slots=True)
class LogLine:
    """One logical line: its time and rank as printed ('TP0 EP0', or ''), and what it says."""

    text: str
    stamp: str | None = None
    rank: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """One 'Decode batch' or 'Prefill batch' line. What it does not say, or says cut off, is None.

    `usage` is the fullest of the pools that the line names, 0 to 1; `tokens` are those of the full pool.
    `accept_length` counts the bonus token; `accept_rate` is as printed (see `acceptance.infer_width`).
    """

    kind: Literal["decode", "prefill"]
    stamp: str | None = None
    rank: str = ""
    running: int | None = None
    queue: int | None = None
    tokens: int | None = None
    token_usage: float | None = None
    swa_tokens: int | None = None
    swa_usage: float | None = None
    mamba_slots: int | None = None
    mamba_usage: float | None = None
    accept_length: float | None = None
    accept_rate: float | None = None
    cuda_graph: bool | None = None
    throughput: float | None = None
    new_requests: int | None = None
    new_tokens: int | None = None
    cached_tokens: int | None = None
    pending: int | None = None
    retracted: int | None = None
    hit_rate: float | None = None

    @property
    def usage(self) -> float | None:
        """The fullest pool's share in use."""
        shares = [
            share for share in (self.token_usage, self.swa_usage, self.mamba_usage) if share is not None
        ]
        return max(shares, default=None)


_COUNTS = {
    "running-req": "running",
    "queue-req": "queue",
    "token": "tokens",
    "full token": "tokens",
    "swa token": "swa_tokens",
    "mamba num": "mamba_slots",
    "new-seq": "new_requests",
    "new-token": "new_tokens",
    "cached-token": "cached_tokens",
    "pending-token": "pending",
    "retracted-req": "retracted",
}
_AMOUNTS = {
    "token usage": "token_usage",
    "full token usage": "token_usage",
    "swa token usage": "swa_usage",
    "mamba usage": "mamba_usage",
    "accept len": "accept_length",
    "accept rate": "accept_rate",
    "gen throughput (token/s)": "throughput",
    "input throughput (token/s)": "throughput",
}
_SHARES = frozenset({"token_usage", "swa_usage", "mamba_usage", "accept_rate"})
_LAST_FIELDS = frozenset({"queue-req", "largest-len", "pending-token"})
_TWO_DIGITS = re.compile(r"\d+\.\d\d", re.ASCII)


def plain(line: str) -> str:
    """A line without colours and without its end."""
    return _COLOUR.sub("", line).rstrip("\r\n")


def logical_lines(lines: Iterable[str]) -> Iterator[LogLine]:
    """Lines as SGLang wrote them: those that a terminal or a post has wrapped are joined again.

    Only lines that are known to be long are joined, so that one line's numbers never end in another's.
    """
    open_text: list[str] = []
    for physical in _split(lines):
        if open_text and _continues(open_text, physical):
            open_text.append(physical.strip())
            continue
        if open_text:
            yield _placed(" ".join(open_text))
        open_text = [physical]
    if open_text:
        yield _placed(" ".join(open_text))


def _split(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        for part in line.split("\n"):
            if text := plain(part):
                yield text


def _continues(so_far: list[str], line: str) -> bool:
    if _HEAD.search(line, 0, 120) or any(start in line for start in _STARTS):
        return False
    first = so_far[0]
    if "server_args=" in first:
        return len(so_far) < _ARGUMENT_LINES and _is_open("".join(so_far))
    if len(so_far) > _WRAPPED_LINES or not any(mark in first for mark in _WRAPS):
        return False
    if "batch" in first and ("Decode batch" in first or "Prefill batch" in first):
        return so_far[-1].rstrip().endswith((",", ":"))
    return True


def _is_open(text: str) -> bool:
    return text.count("(") + text.count("{") > text.count(")") + text.count("}")


def _placed(text: str) -> LogLine:
    head = _HEAD.search(text, 0, 200)
    if head is None:
        return LogLine(text)
    return LogLine(text, head["stamp"], " ".join(head["rank"].split()))


def read_report(line: LogLine) -> Report | None:
    """The decode or prefill report in a line, or None where it is another line."""
    found = _BATCH.search(line.text)
    kind: Literal["decode", "prefill"] = "prefill" if found and found[1] == "Prefill" else "decode"
    found = found or _BARE.match(line.text)
    if found is None:
        return None
    return Report(kind, line.stamp, line.rank, **_fields(line.text[found.end() :]))


def _fields(text: str) -> dict[str, Any]:
    """Fields by their names, wherever they stand. The last one is read only where it cannot be cut off."""
    found: dict[str, Any] = {}
    text = text.rstrip()
    parts = re.split(r",\s+", text.removesuffix(","))
    closed = text.endswith(",")
    for place, part in enumerate(parts):
        name, colon, value = part.partition(":")
        if not colon:
            continue
        key, value = name.strip().removeprefix("#").strip(), value.strip()
        whole_field = closed or place < len(parts) - 1
        if key in _COUNTS:
            if whole_field or key in _LAST_FIELDS:
                found.setdefault(_COUNTS[key], whole(value))
        elif key in _AMOUNTS:
            if whole_field or _TWO_DIGITS.fullmatch(value):
                amount = number(value)
                in_range = (
                    amount is not None and amount >= 0 and (_AMOUNTS[key] not in _SHARES or amount <= 1.5)
                )
                found.setdefault(_AMOUNTS[key], amount if in_range else None)
        elif key in ("cuda graph", "cpu graph", "npu graph") and value in ("True", "False"):
            found.setdefault("cuda_graph", value == "True")
        elif key == "cache hit rate" and value.endswith("%"):
            percent = number(value[:-1])
            found.setdefault("hit_rate", None if percent is None else percent / 100)
    return found
