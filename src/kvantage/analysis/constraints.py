"""Whether an arm keeps to what the policy asks of it, by how much, and how well that is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kvantage.analysis import wording
from kvantage.analysis.asked import Policy, Term
from kvantage.analysis.boot_noise import POOL_SHARE
from kvantage.analysis.capacity import Pool, count_sessions
from kvantage.analysis.exactness import EXACTNESS_CLASSES
from kvantage.analysis.measure import MeasuredCell
from kvantage.analysis.stats import t_interval
from kvantage.core.reading import Reading

ADMISSION = "computed, not admitted yet"

State = Literal["kept", "broken", "not certain", "not known"]


@dataclass(frozen=True)
class Kept:
    """One constraint and one arm.

    wanted, found   what is asked and what there is, in one unit; of exactness they are missing, and
                    `wanted_class` and `found_class` tell
    margin          how far the arm is on the right side (negative: on the wrong one), in that unit
    state           `kept` or `broken` for certain; `not certain` where the interval of what was found spans
                    what is asked; `not known` where it was not measured, which bars the arm too
    words           the constraint and how it stands, for a list
    """

    name: Literal["min_sessions", "min_user_speed", "max_ttft", "worst_exactness"]
    wanted: Reading
    found: Reading
    margin: Reading
    state: State
    words: str
    wanted_class: str | None = None
    found_class: str | None = None

    @property
    def bars(self) -> bool:
        """True where an arm cannot win with it."""
        return self.state in ("broken", "not known")


@dataclass(frozen=True)
class Constraint:
    """The least number of resident sessions, and how far the arm is from it.

    `held` are whole sessions, each in whole blocks; `quotient` is pool / session. `margin` is in whole
    sessions beyond the least; `admission` says how well that is known.
    """

    wanted: Reading
    session_tokens: Reading
    held: Reading
    quotient: Reading
    margin: Reading
    spare_tokens: Reading
    admission: str = ADMISSION


@dataclass(frozen=True)
class Evidence:
    """What the constraints look at, of one arm. `exactness` is its class, None where it was not measured."""

    pool: Pool
    cells: Sequence[MeasuredCell] = ()
    exactness: str | None = None
    control: bool = False
    boots: int = 1


def keep(policy: Policy, evidence: Evidence) -> tuple[Kept, ...]:
    """Every constraint of the policy against one arm, in the order of the policy."""
    found = []
    if policy.sessions is not None and policy.session_tokens is not None:
        found.append(_sessions(policy.sessions, policy.session_tokens, evidence))
    if policy.floor is not None:
        found.append(_floor(policy.floor.tok_s, policy.floor.place, evidence))
    if policy.first_token is not None:
        found.append(_first_token(policy.first_token.seconds, policy.first_token.place, evidence))
    if policy.exactness is not None:
        found.append(_exactness(policy.exactness, evidence))
    return tuple(found)


def whole_sessions(pool: Pool, session: int, share: float = 1.0) -> int:
    """Whole sessions of that length that a share of the pool holds."""
    assert pool.tokens.value is not None
    least = pool.tokens.value if pool.tokens.low is None else pool.tokens.low
    return count_sessions(least * share, session, int(pool.block_tokens.value or 1))[1]


def constraint_of(pool: Pool, sessions: int | None, session_tokens: int | None) -> Constraint | None:
    """The sessions constraint in full, of a pool that is known."""
    if sessions is None or session_tokens is None or pool.tokens.value is None:
        return None
    block = int(pool.block_tokens.value or 1)
    least = pool.tokens.value if pool.tokens.low is None else pool.tokens.low
    quotient, whole, _ = count_sessions(least, session_tokens, block)
    taken = -(-session_tokens // block) * block
    return Constraint(
        Reading.of(sessions, "sessions", "config"),
        Reading.of(session_tokens, "tokens", "config"),
        Reading.of(whole, "sessions", "computed", note=ADMISSION),
        Reading.of(quotient, "sessions", "computed", note="pool / session"),
        Reading.of(whole - sessions, "sessions", "computed", note=ADMISSION),
        Reading.of(least - sessions * taken, "tokens", "computed"),
    )


def _sessions(count: int, tokens: int, evidence: Evidence) -> Kept:
    wanted = Reading.of(count, "sessions", "config")
    what = f"at least {count} sessions of {tokens:,} tokens"
    pool = evidence.pool.tokens
    if pool.value is None:
        gone = Reading.absent(f"its pool is not known, so its sessions cannot be counted ({pool.missing})")
        return Kept("min_sessions", wanted, gone, gone, "not known", gone.missing or "")
    whole = whole_sessions(evidence.pool, tokens)
    found = Reading.of(whole, "sessions", "computed", note=ADMISSION)
    margin = Reading.of(whole - count, "sessions", "computed", note=ADMISSION)
    smallest = pool.value if pool.low is None else pool.low
    if whole < count:
        words = f"holds {whole} of the {count} sessions of {tokens:,} tokens (pool {smallest:,.0f} tokens)"
        return Kept("min_sessions", wanted, found, margin, "broken", words)
    words = f"{what}: {whole} whole ({ADMISSION})"
    if evidence.boots < 2 and whole_sessions(evidence.pool, tokens, 1 - POOL_SHARE) < count:
        words += (
            f"; of one boot, and pools were seen to move {wording.percent(POOL_SHARE * 100)} between boots"
        )
        return Kept("min_sessions", wanted, found, margin, "not certain", words)
    if evidence.boots > 1:
        words += f"; by the smallest pool of {evidence.boots} boots"
    return Kept("min_sessions", wanted, found, margin, "kept", words)


def _floor(floor: float, place: Term, evidence: Evidence) -> Kept:
    what = f"at least {wording.speed(floor)} tok/s a user on {_where(place)}"
    wanted = Reading.of(floor, "tok/s", "config")
    found = _over_boots(place, evidence.cells, "decode_tok_s", "tok/s")
    if found.value is None:
        return _unknown("min_user_speed", wanted, what, found)
    margin = Reading.of(
        found.value - floor,
        "tok/s",
        "computed",
        low=None if found.low is None else found.low - floor,
        high=None if found.high is None else found.high - floor,
        note=found.note,
    )
    state = _state(margin)
    words = f"{what}: {wording.speed(found.value)}{_spans(found)}{_doubt(state)}"
    return Kept("min_user_speed", wanted, found, margin, state, words)


def _first_token(seconds: float, place: Term, evidence: Evidence) -> Kept:
    what = f"TTFT at most {seconds:g} s on {_where(place)}"
    wanted = Reading.of(seconds, "s", "config")
    found = _over_boots(place, evidence.cells, "ttft_s", "s")
    if found.value is None:
        return _unknown("max_ttft", wanted, what, found)
    margin = Reading.of(
        seconds - found.value,
        "s",
        "computed",
        low=None if found.high is None else seconds - found.high,
        high=None if found.low is None else seconds - found.low,
        note=found.note,
    )
    state = _state(margin)
    words = f"{what}: {found.value:.3g} s{_spans(found)}{_doubt(state)}"
    return Kept("max_ttft", wanted, found, margin, state, words)


def _exactness(allowed: str, evidence: Evidence) -> Kept:
    told = Reading.absent("a class, not a number")
    what = f"exactness at worst '{allowed}'"
    if evidence.control:
        words = f"{what}: it is the control, which the others are compared with"
        return Kept("worst_exactness", told, told, told, "kept", words, allowed, None)
    found = evidence.exactness
    if found is None or found == "void":
        why = "was not measured" if found is None else "is void"
        words = f"{what}: its exactness {why}"
        return Kept("worst_exactness", told, told, told, "not known", words, allowed, found)
    steps = EXACTNESS_CLASSES.index(allowed) - EXACTNESS_CLASSES.index(found)
    margin = Reading.of(steps, "classes", "computed")
    words = f"{what}: '{found}'"
    return Kept(
        "worst_exactness", told, told, margin, "kept" if steps >= 0 else "broken", words, allowed, found
    )


def _over_boots(place: Term, cells: Sequence[MeasuredCell], metric: str, unit: str) -> Reading:
    """The figure of a place over an arm's boots, with a t interval on the logarithms: over boots where there
    are two, else over the requests of the one.
    """
    chosen = [each for each in cells if place.takes(each.cell.key)]
    if not chosen:
        return Reading.absent("was not measured")
    known = [
        (each, value)
        for each in chosen
        if each.findings.sound and (value := each.findings.figure(metric).value) is not None and value > 0
    ]
    if not known:
        reasons = [reason for each in chosen for reason in each.findings.status.reasons]
        return Reading.absent(f"is void ({'; '.join(dict.fromkeys(reasons)) or 'it measured a queue'})")
    middle = float(np.mean([math.log(value) for _, value in known]))
    if len(known) > 1:
        values = np.log([value for _, value in known])
        note = f"95 % t interval over {len(known)} boots"
    else:
        each = known[0][0]
        times = each.timing.ttft if metric == "ttft_s" else each.timing.rate
        values = times[each.kept]
        values = np.log(values[np.isfinite(values) & (values > 0)])
        note = f"95 % t interval within one boot over {values.size} requests"
    if values.size < 2:
        return Reading.of(math.exp(middle), unit, "client", note="one request: no interval")
    half = t_interval(values).half or 0.0
    return Reading.of(
        math.exp(middle),
        unit,
        "client",
        low=math.exp(middle - half),
        high=math.exp(middle + half),
        note=note,
    )


def _state(margin: Reading) -> State:
    assert margin.value is not None
    if margin.low is None or margin.high is None:
        return "not certain" if margin.value >= 0 else "broken"
    if margin.low >= 0:
        return "kept"
    return "broken" if margin.high < 0 else "not certain"


def _unknown(name: Literal["min_user_speed", "max_ttft"], wanted: Reading, what: str, found: Reading) -> Kept:
    return Kept(name, wanted, found, found, "not known", f"{what}: its cell {found.missing}")


def _where(place: Term) -> str:
    what = wording.work(place.phase, place.workload or "prompts")
    return f"{what} at {wording.streams(place.concurrency)}"


def _spans(reading: Reading) -> str:
    if reading.low is None or reading.high is None:
        return f" ({reading.note})" if reading.note else ""
    return f" ({reading.low:.3g} to {reading.high:.3g}; {reading.note})"


def _doubt(state: State) -> str:
    return ", not for certain" if state == "not certain" else ""
