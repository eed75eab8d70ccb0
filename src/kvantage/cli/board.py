"""What is known of a run at a moment: built from its events, one by one, and drawn by others."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Mark = Literal["waiting", "running", "done", "failed", "skipped"]

NOTES = 6
_OF_AN_ARM = re.compile(r"arm (?P<arm>[^\s:]+): (?P<text>.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Told:
    """One event of a run: `kind` and `fields` are those of `core.Observer`, `at` is the wall clock (s)."""

    kind: str
    fields: dict[str, Any] = field(default_factory=dict)
    at: float = field(default_factory=time.time)


@dataclass
class Boot:
    """One start of an arm's server: how it stands, and how each of its chains stands."""

    mark: Mark = "waiting"
    chains: dict[str, Mark] = field(default_factory=dict)


@dataclass
class Cell:
    """The cell that is being measured. Token counts are sums over the requests that have ended."""

    arm: str
    block: int
    phase: str
    workload: str
    concurrency: int
    requests: int
    ended: int = 0
    prompt_id: str | None = None
    hit: int = 0
    asked: int = 0
    told_hits: bool = False
    accepted: int = 0
    steps: int = 0


class Board:
    """Arms by phases, and what is going on: `take` an event, then read the fields.

    `boots[arm][block]` are in the order of the plan. `speed` is tokens a second of all users, `length` the
    acceptance length (bonus included), each None where it is not told. `left` is (asked at, seconds, basis).
    """

    def __init__(self, began: float | None = None) -> None:
        self.began = time.time() if began is None else began
        self.boots: dict[str, dict[int, Boot]] = {}
        self.most = 0
        self.kept: list[str] = []
        self.place: tuple[str, int] | None = None
        self.chain: str | None = None
        self.cell: Cell | None = None
        self.now = "starting"
        self.speed: float | None = None
        self.length: float | None = None
        self.gauges: dict[str, float] = {}
        self.pool: float | None = None
        self.left: tuple[float, float, str] | None = None
        self._notes: dict[str, list[str]] = {}
        self.failures: list[tuple[str, Sequence[str]]] = []
        self.ended: int | None = None

    # what it is asked

    @property
    def phases(self) -> list[str]:
        """The columns: chains alike stand together (`waves@1` and `waves@4` are `waves`)."""
        found: dict[str, None] = {}
        for boots in self.boots.values():
            for boot in boots.values():
                found.update(dict.fromkeys(map(phase_of, boot.chains)))
        return list(found)

    @property
    def blocks(self) -> int:
        """How many times each arm is booted at most, as far as is known."""
        return max([self.most, *(max(boots, default=0) + 1 for boots in self.boots.values())])

    @property
    def block(self) -> int:
        """The block that is being worked on."""
        return self.place[1] if self.place else 0

    def boot_shown(self, arm: str) -> Boot:
        """Of an arm's boots the one to show: that of the block at work, else its last one before it."""
        boots = self.boots[arm]
        known = [block for block in sorted(boots) if block <= self.block]
        return boots[known[-1]] if known else boots[min(boots)]

    def seconds_left(self, now: float) -> float | None:
        """Seconds that are still to come, None where nothing was estimated."""
        if self.left is None:
            return None
        at, seconds, _ = self.left
        return max(0.0, seconds - (now - at))

    @property
    def notes(self) -> list[str]:
        """The latest that were told, the newest last; what was told of several arms stands once."""
        return [
            f"arm{'s' if len(arms) > 1 else ''} {', '.join(arms)}: {text}" if arms else text
            for text, arms in list(self._notes.items())[-NOTES:]
        ]

    # what it is told

    def hold(self, chains: Iterable[tuple[str, int, str]]) -> None:
        """Chains that were measured before, as (arm, block, chain): they are done."""
        for arm, block, chain in chains:
            held = self.boots.setdefault(arm, {}).setdefault(block, Boot())
            held.chains.setdefault(chain, "done")
            if all(mark == "done" for mark in held.chains.values()):
                held.mark = "done"

    def take(self, told: Told) -> None:
        """Take note of one event; a kind that is not known is passed over."""
        note = getattr(self, f"_on_{told.kind}", None)
        if note is not None:
            note(told.at, **told.fields)

    def _on_plan(self, at: float, arms: Sequence[Any], estimate_s: float, basis: str, **fields: Any) -> None:
        for arm, block, chains in arms:
            boot = self.boots.setdefault(arm, {}).setdefault(block, Boot())
            boot.mark = "waiting"
            boot.chains.update(dict.fromkeys(chains, "waiting"))
        self.kept = list(fields.get("kept", ()))
        self.left = (at, estimate_s, basis)

    def _on_block(self, _: float, boots: Sequence[Any], **fields: Any) -> None:
        self.most = max(self.most, int(fields.get("most", 0)))
        for arm, block, chains in boots:
            held = self.boots.setdefault(arm, {}).setdefault(block, Boot())
            held.mark = "waiting"
            held.chains.update(dict.fromkeys(chains, "waiting"))

    def _on_boot(self, _: float, arm: str, block: int, **__: Any) -> None:
        self.place, self.chain, self.cell = (arm, block), None, None
        self._forget()
        self.pool = None
        self._boot().mark = "running"
        self.now = f"{arm}: starting its server"

    def _on_ready(self, _: float, arm: str, seconds: float, **fields: Any) -> None:
        self.pool = fields.get("pool_tokens")
        pool = f", pool {self.pool:,.0f} tokens" if self.pool is not None else ""
        self.now = f"{arm}: ready in {seconds:.0f} s{pool}"

    def _on_chain(self, _: float, chain: str, **__: Any) -> None:
        self._finish("done")
        self.chain, self.cell = chain, None
        self._boot().chains[chain] = "running"

    def _on_cell(self, _: float, arm: str, block: int, **fields: Any) -> None:
        self.cell = Cell(
            arm,
            block,
            str(fields["phase"]),
            str(fields["workload"]),
            int(fields["concurrency"]),
            int(fields["requests"]),
        )
        self._forget()
        self._say_cell()

    def _on_request(self, _: float, **fields: Any) -> None:
        if self.cell is None:
            return
        cell = self.cell
        cell.ended += 1
        cell.prompt_id = str(fields.get("prompt_id", ""))
        if fields.get("cached_tokens") is not None:
            cell.told_hits = True
            cell.hit += fields["cached_tokens"]
            cell.asked += fields.get("prompt_tokens") or 0
        if fields.get("spec_steps") and fields.get("accepted_tokens") is not None:
            cell.steps += fields["spec_steps"]
            cell.accepted += fields["accepted_tokens"]
            self.length = 1 + cell.accepted / cell.steps
        if not fields["ok"]:
            self._note(f"{fields['prompt_id']} failed: {fields['error']}")
        self._say_cell()

    def _on_live(self, _: float, tok_s: float | None, **gauges: Any) -> None:
        self.speed = tok_s
        length = gauges.pop("acceptance_length", None)
        if length is not None:
            self.length = length
        self.gauges = {name: float(value) for name, value in gauges.items() if value is not None}
        self._say_cell()

    def _on_left(self, at: float, seconds: float, basis: str, **_: Any) -> None:
        self.left = (at, seconds, basis)

    def _on_skip(self, _: float, arm: str, block: int, phase: str, **fields: Any) -> None:
        chains = self.boots.get(arm, {}).get(block, Boot()).chains
        if fields.get("chain") in chains:
            chains[fields["chain"]] = "skipped"
        workload = fields["workload"]
        self._note(f"{arm}: {phase} {workload} skipped: {fields['reason']}")

    def _on_failed(self, _: float, arm: str, reason: str, log_lines: Sequence[str], **fields: Any) -> None:
        self._finish("failed")
        self._boot(arm, fields.get("block", self.block)).mark = "failed"
        self.failures.append((f"{arm} failed: {reason}", tuple(log_lines)[:8]))
        self._note(f"{arm} failed: {reason}")
        self.now = f"{arm} failed"

    def _on_stopped(self, _: float, arm: str, block: int, **__: Any) -> None:
        self._finish("done")
        boot = self._boot(arm, block)
        if boot.mark == "running":
            boot.mark = "done"
        self.chain = self.cell = None
        self._forget()
        self.now = f"{arm}: its server was stopped"

    def _on_look(self, _: float, words: str = "", **__: Any) -> None:
        if words:
            self._note(words)

    def _on_warning(self, _: float, text: str, **__: Any) -> None:
        self._note(text)

    def _on_stopping(self, _: float, text: str, **__: Any) -> None:
        self.now = text

    def _on_end(self, _: float, code: int, **__: Any) -> None:
        self.ended = code

    # small steps

    def _note(self, note: str) -> None:
        told = _OF_AN_ARM.match(note)
        text = told["text"] if told else note
        arms = self._notes.pop(text, [])  # told again: it is the newest now
        if told and told["arm"] not in arms:
            arms.append(told["arm"])
        self._notes[text] = arms

    def _boot(self, arm: str | None = None, block: int | None = None) -> Boot:
        here = self.place or ("?", 0)
        name = here[0] if arm is None else arm
        number = here[1] if block is None else block
        return self.boots.setdefault(name, {}).setdefault(number, Boot())

    def _finish(self, mark: Mark) -> None:
        if self.place is not None and self.chain is not None:
            chains = self._boot().chains
            if chains.get(self.chain) == "running":
                chains[self.chain] = mark

    def _forget(self) -> None:
        self.speed = self.length = None
        self.gauges = {}

    def _say_cell(self) -> None:
        if self.cell is None:
            return
        cell = self.cell
        flying = self.gauges.get("in_flight")
        current = f", {flying:.0f} in flight" if flying else ""
        last = f", last {cell.prompt_id}" if cell.prompt_id else ""
        self.now = (
            f"{cell.arm}: {cell.phase} {cell.workload} at {cell.concurrency}:"
            f" {cell.ended} of {cell.requests} requests{current}{last}"
        )


def phase_of(chain: str) -> str:
    """The column of a chain: `waves@4` is `waves`, `short:code` is `short`."""
    return re.split("[@:]", chain, maxsplit=1)[0]
