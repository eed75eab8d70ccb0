"""The scheduler, in virtual time: arrivals, admission, prefill in chunks, decode steps, shortages."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Mapping

from kvantage.sim.blocks import BlockCache
from kvantage.sim.clock import Clock
from kvantage.sim.drafting import Drafting
from kvantage.sim.request import Request
from kvantage.sim.rules import Rules
from kvantage.sim.step import Step
from kvantage.sim.tree import Cache, TreeCache


class Engine:
    """One server. `submit` requests, then `run`; every time is `now`, in seconds of virtual time.

    `drafting` gives the drafts accepted in a step by workload ("" is any other); without it every step
    yields one token. `watch` is told each step.
    """

    def __init__(
        self,
        capacity: int,
        rules: Rules,
        clock: Clock,
        drafting: Mapping[str, Drafting] | None = None,
        watch: Callable[[Step], None] | None = None,
    ) -> None:
        self.rules = rules
        self.clock = clock
        self.cache: Cache = BlockCache(capacity, rules) if rules.mixed else TreeCache(capacity, rules)
        self.now = 0.0
        self.steps = 0
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.finished: list[Request] = []
        self.refused: list[Request] = []
        self.accepted_at = [0] * rules.drafts
        self.retracted = 0
        self._drafting = dict(drafting or {})
        self._watch = watch
        self._arrivals: list[tuple[float, int, Request]] = []
        self._count = 0

    def submit(self, request: Request, at: float | None = None) -> Request:
        """Let a request arrive, now or at a given time; one before `now` came while the last step ran.

        One that can never fit is refused at once.
        """
        request.arrival = self.now if at is None else at
        if request.prompt_tokens + self.rules.reserved > self.cache.capacity:
            request.end = request.arrival
            self.refused.append(request)
            return request
        self._count += 1
        heapq.heappush(self._arrivals, (request.arrival, self._count, request))
        return request

    def watch(self, each: Callable[[Step], None]) -> None:
        """Tell every further step to `each`."""
        self._watch = each

    @property
    def busy(self) -> bool:
        """True while a request waits, runs or is still to come."""
        return bool(self.waiting or self.running or self._arrivals)

    def abort(self, request: Request) -> None:
        """Forget a request whose client went away, wherever it is."""
        if request in self.running:
            self.cache.release(request)
            self.running.remove(request)
        elif request in self.waiting:
            self.waiting.remove(request)
        else:
            self._arrivals = [entry for entry in self._arrivals if entry[2] is not request]
            heapq.heapify(self._arrivals)
        request.end = self.now

    def run(self, until: float | None = None) -> None:
        """Work until nothing is left, or until that time."""
        while until is None or self.now < until:
            if not self.step():
                return

    def step(self) -> bool:
        """One step; False where there is nothing to do."""
        self._arrive()
        if not self.waiting and not self.running:
            if not self._arrivals:
                return False
            self.now = max(self.now, self._arrivals[0][0])
            self._arrive()
        if self.rules.mixed:
            return self._mixed()
        return self._prefill_first() or self._decode() or self._stuck()

    def _arrive(self) -> None:
        while self._arrivals and self._arrivals[0][0] <= self.now:
            self.waiting.append(heapq.heappop(self._arrivals)[2])

    # Prefill before decode

    def _prefill_first(self) -> bool:
        """A step of prompt tokens: the request whose prefill goes on, then those that can be admitted."""
        budget, new, cached = self.rules.chunk, 0, 0
        work: list[tuple[Request, int]] = []
        for request in self.running:
            if request.prefilling and budget > 0:
                taken = self._take(request, budget)
                if taken:
                    work.append((request, taken))
                    budget, new = budget - taken, new + taken
        while self.waiting and budget > 0 and len(self.running) < self._most():
            request = self.waiting[0]
            matched = self.cache.match(request)
            if not self._room(request, matched):
                break
            self.waiting.popleft()
            cached += self._admit(request, matched)
            taken = self._take(request, budget)
            if not taken:
                self._put_back(request)
                break
            work.append((request, taken))
            budget, new = budget - taken, new + taken
        if not work:
            return False
        started = self.now
        self.now += self.clock.prefill(new)
        emitted = sum(self._computed(request, taken) for request, taken in work)
        self._tell("prefill", started, new, cached, emitted, 0, 0)
        return True

    def _take(self, request: Request, budget: int) -> int:
        """Prompt tokens of the request in this step: as many as the budget allows and slots are found for."""
        wanted = min(budget, self._target(request) - request.computed)
        return wanted if wanted > 0 and self.cache.grow(request, request.computed + wanted) else 0

    def _target(self, request: Request) -> int:
        """Tokens that must be computed before the next one can be made."""
        return request.length

    def _room(self, request: Request, matched: int) -> bool:
        """Whether an admission leaves room for what is running: the engine's own guess of what that needs."""
        rules = self.rules
        promised = sum(other.remaining * rules.reserve for other in self.running)
        promised += sum(self._target(other) - other.computed for other in self.running if other.prefilling)
        wanted = request.length - matched + min(request.remaining, rules.reserve_new)
        if rules.page > 1:
            wanted += rules.page
        if not self.running:
            wanted = request.length - matched
        free = self.cache.available() - self.cache.unlocked(request, matched)
        return wanted + promised <= free

    def _computed(self, request: Request, taken: int) -> int:
        """A prefill step ended: share what was computed; the last one yields a token."""
        request.computed += taken
        done = request.computed >= self._target(request)
        if done or self.rules.state_each_chunk or self.rules.states is None:
            self.cache.commit(request, request.computed)
        if not done:
            return 0
        self._emit(request, 1)
        return 1

    # Decode

    def _decode(self) -> bool:
        batch = [request for request in self.running if not request.prefilling]
        if not batch:
            return False
        reserved = self.rules.reserved
        for request in list(batch):
            while request in batch and not self.cache.grow(request, request.length + reserved - 1):
                victim = self._victim(batch)
                batch.remove(victim)
                if len(self.running) == 1:
                    self._give_up(victim)
                else:
                    self._put_back(victim)
        if not batch:
            return True
        started = self.now
        self.now += self.clock.decode(len(batch), sum(request.length for request in batch))
        emitted = accepted = 0
        for request in batch:
            got, taken = self._draft(request)
            emitted, accepted = emitted + got, accepted + taken
        self._tell("decode", started, 0, 0, emitted, accepted, len(batch) * self.rules.drafts)
        return True

    def _draft(self, request: Request) -> tuple[int, int]:
        """One decode step of one request: (tokens emitted, drafts accepted)."""
        accepted = 0
        if self.rules.drafts:
            drafting = self._drafting.get(request.workload) or self._drafting.get("")
            accepted = drafting.next() if drafting else 0
            request.drafted += self.rules.drafts
            request.accepted_counts[accepted] = request.accepted_counts.get(accepted, 0) + 1
            for place in range(accepted):
                self.accepted_at[place] += 1
        request.steps += 1
        request.accepted += accepted
        emitted = min(1 + accepted, request.remaining)
        self._emit(request, emitted)
        if request.remaining > 0:
            request.computed = request.length - 1
        return emitted, accepted

    def _emit(self, request: Request, tokens: int) -> None:
        request.produced += tokens
        request.chunks.append((self.now, tokens))
        if request.first is None:
            request.first = self.now
        if request.remaining <= 0:
            self._finish(request)

    def _finish(self, request: Request) -> None:
        request.end = self.now
        request.computed = request.length - 1
        self.cache.grow(request, request.length - 1)
        self.cache.commit(request, request.length - 1)
        self.cache.release(request)
        self.running.remove(request)
        self.finished.append(request)

    # Both at once

    def _mixed(self) -> bool:
        """One budget of tokens a step: running requests first, then admissions while blocks are found.

        What a step will compute may be found by others from its scheduling on, by those of the same step too.
        """
        rules = self.rules
        budget, new, cached, decoding = rules.chunk, 0, 0, 0
        work: list[tuple[Request, int]] = []
        shortage = False
        for request in list(self.running):
            if request not in self.running or budget <= 0:
                continue
            prefilling = request.prefilling
            wanted = request.length - request.computed if prefilling else 1 + rules.drafts
            wanted = min(wanted, budget)
            need = request.computed + wanted + rules.extra_slots
            if not prefilling:
                need = request.length + rules.reserved - 1
            while not self.cache.grow(request, need):
                shortage = True
                victim = self._victim(self.running)
                work = [pair for pair in work if pair[0] is not victim]
                if len(self.running) == 1:
                    self._give_up(victim)
                else:
                    self._put_back(victim)
                if victim is request:
                    break
            if request not in self.running:
                continue
            self.cache.commit(request, min(request.computed + wanted, request.length))
            work.append((request, wanted if prefilling else 0))
            budget -= wanted
            new += wanted if prefilling else 0
            decoding += 0 if prefilling else 1
        while self.waiting and budget > 0 and not shortage and len(self.running) < self._most():
            request = self.waiting[0]
            matched = self.cache.match(request)
            wanted = min(budget, request.length - matched)
            if not self._fits(request, matched, wanted):
                break
            self.waiting.popleft()
            cached += self._admit(request, matched)
            self.cache.grow(request, matched + wanted + rules.extra_slots)
            self.cache.commit(request, matched + wanted)
            work.append((request, wanted))
            budget, new = budget - wanted, new + wanted
        if not work:
            return shortage or self._stuck()
        started = self.now
        lengths = sum(request.length for request, taken in work if not taken)
        seconds = self.clock.decode(decoding, lengths) if decoding else 0.0
        if new:
            seconds = max(seconds, self.clock.prefill(new + decoding))
        self.now += seconds
        emitted = accepted = 0
        for request, taken in work:
            if taken:
                emitted += self._computed(request, taken)
            else:
                got, right = self._draft(request)
                emitted, accepted = emitted + got, accepted + right
        self._tell("mixed", started, new, cached, emitted, accepted, decoding * rules.drafts)
        return True

    def _fits(self, request: Request, matched: int, wanted: int) -> bool:
        """Whether slots are free for all of a request as it is, though this step computes a part of it."""
        page = self.rules.page
        needed = max(request.length, matched + wanted + self.rules.extra_slots)
        loose = self.cache.unlocked(request, matched)
        return -(-needed // page) * page - matched + loose <= self.cache.available()

    # Shared

    def _most(self) -> int:
        """Requests that run at once: the cap, or what the state slots allow."""
        states = self.rules.states
        return (
            self.rules.running
            if states is None
            else min(self.rules.running, states // self.rules.states_running)
        )

    def _admit(self, request: Request, matched: int) -> int:
        self.cache.admit(request, matched)
        request.matched = request.computed = matched
        request.cached_tokens += matched
        if request.first_cached is None:
            request.first_cached = matched
        if request.scheduled is None:
            request.scheduled = self.now
        self.running.append(request)
        return matched

    def _victim(self, batch: list[Request]) -> Request:
        """Who gives way: the last to come, or the one with the least output (then the longest prompt)."""
        if self.rules.newest_first:
            return batch[-1]
        return min(batch, key=lambda request: (request.produced, -request.prompt_tokens))

    def _put_back(self, request: Request, *, counted: bool = True) -> None:
        self.cache.release(request)
        self.running.remove(request)
        request.computed = 0
        if counted:
            request.retractions += 1
            self.retracted += 1
        else:
            request.cached_tokens -= request.matched
            if request.retractions == 0 and not request.produced:
                request.first_cached = request.scheduled = None
        self.waiting.appendleft(request)

    def _stuck(self) -> bool:
        """No step was possible: the last to come gives way; one that is alone never fits, and is refused."""
        if len(self.running) > 1:
            self._put_back(self.running[-1])
        elif self.running:
            self._give_up(self.running[0])
        elif self.waiting:
            request = self.waiting.popleft()
            request.end = self.now
            self.refused.append(request)
        else:
            return bool(self._arrivals)
        return True

    def _give_up(self, request: Request) -> None:
        """A request that is alone and does not fit: refused, with what it has produced."""
        self.cache.release(request)
        self.running.remove(request)
        request.end = self.now
        self.refused.append(request)

    def _tell(
        self, kind: str, started: float, new: int, cached: int, emitted: int, accepted: int, drafted: int
    ) -> None:
        self.steps += 1
        if self._watch:
            self._watch(
                Step(
                    kind,
                    started,
                    self.now - started,
                    new,
                    cached,
                    len(self.running),
                    len(self.waiting),
                    emitted,
                    accepted,
                    drafted,
                )
            )
