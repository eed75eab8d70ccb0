"""One running server with everything that a phase needs to measure it: `Bench.cell` does a cell."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from kvantage.client import (
    ChatRequest,
    Client,
    Crew,
    Exchange,
    Senders,
    Watch,
    read_exchange,
    record,
    run_closed,
    run_wave,
    watching,
)
from kvantage.core import (
    ArmFailed,
    CellKey,
    Engine,
    Facts,
    LogReadings,
    Observer,
    RequestKey,
    RequestRecord,
    Server,
    Snapshot,
)
from kvantage.ledger import Boot, Chain, Ledger
from kvantage.phases.mark import behind
from kvantage.study import Study
from kvantage.workloads.documents import Count

GAUGE_PERIOD_S = 1.0
LOOK_S = 0.5
ALIVE_S = 3.0

Check = Callable[[RequestRecord], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Ask:
    """One request of a cell, not yet sent.

    `exact` makes the answer exactly `output_tokens` long, so that every arm does the same work; else it
    is a limit. Asks of one `repeat` leave together, one repeat after the other. A prompt that was sent
    before is asked `again`: its expected hit follows from its own length. `check` looks at the answer and
    returns what the report should know of it. A `whole` answer is not streamed, and tells its token ids
    where the engine can. `temperature` and `seed` take the place of the arm's own.
    """

    prompt_id: str
    messages: Sequence[Mapping[str, Any]]
    output_tokens: int
    exact: bool = True
    repeat: int = 0
    stream: int = 0
    warmup: bool = False
    tools: Sequence[Mapping[str, Any]] = ()
    expected_cached: tuple[int, int] | None = None
    again: bool = False
    check: Check | None = None
    whole: bool = False
    temperature: float | None = None
    seed: int | None = None


@dataclass
class Bench:
    """Phases get one of these a boot. `chain` is set by the runner before each chain.

    `senders` may have other processes send a cell's requests; `client` does whatever else is asked, and
    all of it where they are None.
    """

    study: Study
    boot: Boot
    server: Server
    engine: Engine
    facts: Facts
    client: Client
    ledger: Ledger
    counter: Count
    observer: Observer
    chain: Chain | None = None
    senders: Senders | None = None
    _crew: Crew | None = None
    _gauges: dict[str, float] = field(default_factory=dict)

    @property
    def arm(self) -> str:
        """The arm's name."""
        return self.boot.arm.name

    async def cell(
        self,
        phase: str,
        workload: str,
        concurrency: int,
        asks: Sequence[Ask],
        *,
        closed: bool = False,
        notes: Sequence[str] = (),
    ) -> list[RequestRecord]:
        """Send the asks, repeat by repeat, and commit each record and what surrounded them.

        In a `closed` loop the next ask leaves when a place comes free, so that `concurrency` of them are
        in flight until the last has left. `notes` are kept with the cell.

        Returns the records in the order of the asks. Raises ArmFailed when the server died; what was
        measured until then is in the ledger.
        """
        assert self.chain is not None, "the runner opens a chain before a phase measures"
        key = CellKey(self.arm, self.boot.block, phase, workload, concurrency)
        self.observer.on(
            "cell",
            arm=self.arm,
            block=key.block,
            phase=phase,
            workload=workload,
            concurrency=concurrency,
            requests=len(asks),
        )
        self._crew = None if self.senders is None else await self.senders.crew(concurrency)
        before = await self._snapshot()
        log_before = self._log_size()
        started_ns, watch = time.monotonic_ns(), Watch()
        records: list[RequestRecord] = []
        try:
            with watching(self.client, self._crew) as watch:
                async with self._watching():
                    if closed:
                        records += await self._loop(key, asks)
                    else:
                        for _, wave in groupby(asks, key=lambda ask: (not ask.warmup, ask.repeat)):
                            records += await self._wave(key, list(wave))
        finally:
            span = (started_ns, time.monotonic_ns())
            after = await self._snapshot()
            self._keep_window(key, before, after, log_before, span, records, watch, notes)
        ended = self.server.process is not None and self.server.process.exit_code() is not None
        if ended or any(each.status == "failed" for each in records):
            await self._raise_if_dead()
        return records

    async def _wave(self, key: CellKey, wave: Sequence[Ask]) -> list[RequestRecord]:
        requests = [self.request(ask) for ask in wave]
        crew = self._crew
        exchanges = await (crew.run_wave(requests) if crew else run_wave(self.client, requests))
        return await self._commit(key, wave, self._seen(exchanges))

    async def _loop(self, key: CellKey, asks: Sequence[Ask]) -> list[RequestRecord]:
        requests = [self.request(ask) for ask in asks]
        crew, most = self._crew, key.concurrency
        sent = crew.run_closed(requests, most) if crew else run_closed(self.client, requests, most)
        return await self._commit(key, asks, self._seen(await sent))

    def _seen(self, exchanges: Sequence[Exchange]) -> Sequence[Exchange]:
        if self.senders is not None:
            self.senders.saw(exchanges)
        if self._crew is not None:
            self.client.progress.finished += len(exchanges)
        return exchanges

    async def _commit(
        self, key: CellKey, asks: Sequence[Ask], exchanges: Sequence[Exchange]
    ) -> list[RequestRecord]:
        assert self.chain is not None
        with self.client.lag.at_rest():
            records = [self._record(key, *pair) for pair in zip(asks, exchanges, strict=True)]
            commits = [self.ledger.add_request(self.chain, each) for each in records]
            for commit in commits:
                await asyncio.wrap_future(commit)
        for each in records:
            self.observer.on(
                "request",
                arm=self.arm,
                phase=key.phase,
                workload=key.workload,
                concurrency=key.concurrency,
                prompt_id=each.key.prompt_id,
                warmup=each.key.warmup,
                ok=each.status == "ok",
                error=each.error,
                prompt_tokens=each.prompt_tokens,
                output_tokens=each.output_tokens,
                cached_tokens=each.cached_tokens,
                accepted_tokens=each.accepted_tokens,
                spec_steps=each.spec_steps,
                seconds=(each.end_ns - each.sent_ns) / 1e9,
            )
        return records

    def request(self, ask: Ask) -> ChatRequest:
        """The HTTP request of an ask: every sampler pinned, the engine's own fields added."""
        samplers = self.server.arm.samplers
        body: dict[str, Any] = {
            "model": self.server.served_name,
            "messages": list(self._messages(ask)),
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": ask.output_tokens,
            "temperature": samplers.temperature if ask.temperature is None else ask.temperature,
            "top_p": samplers.top_p,
            "top_k": -1 if samplers.top_k is None else samplers.top_k,
            "min_p": samplers.min_p,
            "presence_penalty": samplers.presence_penalty,
            "frequency_penalty": samplers.frequency_penalty,
            "repetition_penalty": samplers.repetition_penalty,
            "seed": samplers.seed if ask.seed is None else ask.seed,
        }
        if ask.tools:
            body["tools"] = list(ask.tools)
        extras = self.engine.request_extras(
            self.server, output_tokens=ask.output_tokens if ask.exact else None
        )
        if ask.whole:
            extras |= {"stream": False, "stream_options": None, **self.engine.whole_extras(self.server)}
        body = {name: value for name, value in {**body, **extras}.items() if value is not None}
        url, headers = f"{self.server.url}/v1/chat/completions", self.server.headers
        return ChatRequest(url, body, headers, deadline_s=self._deadline_s(ask))

    def _messages(self, ask: Ask) -> Sequence[Mapping[str, Any]]:
        """The ask's messages. A server that may remember an earlier session gets them behind a mark.

        The mark is the study's own, the same in every arm and in a repeat, and new at another attempt.
        """
        if not self.server.remembers:
            return ask.messages
        chain = self.chain
        parts = (chain.work, chain.attempt) if chain else ("boot", self.boot.id)
        return behind(ask.messages, self.ledger.mark(*parts))

    def _deadline_s(self, ask: Ask) -> float:
        # far beyond any server that is worth measuring: 100 tokens a second of prompt, half a token of output
        characters = sum(len(str(message.get("content", ""))) for message in ask.messages)
        return 120 + characters / 100 + 2.0 * ask.output_tokens

    def _record(self, key: CellKey, ask: Ask, exchange: Exchange) -> RequestRecord:
        assert self.chain is not None
        reading = read_exchange(exchange)
        usage, expected = self.engine.read_usage(reading.final, self.facts), ask.expected_cached
        if ask.again and usage.prompt_tokens is not None:
            expected = self.engine.expected_cached(usage.prompt_tokens, self.facts)
        made = record(
            RequestKey(
                arm=key.arm,
                fingerprint=self.boot.fingerprint,
                block=key.block,
                phase=key.phase,
                workload=key.workload,
                concurrency=key.concurrency,
                chain=self.chain.name,
                attempt=self.chain.attempt,
                repeat=ask.repeat,
                stream=ask.stream,
                prompt_id=ask.prompt_id,
                warmup=ask.warmup,
            ),
            exchange,
            usage,
            reading=reading,
            expected_cached=expected,
        )
        if ask.whole and made.status == "ok" and made.token_ids is None:
            made = replace(made, token_ids=self.engine.read_ids(exchange.json()))
        if ask.check is not None and made.status == "ok":
            made = replace(made, checks=dict(ask.check(made)))
        return made

    async def _snapshot(self) -> Snapshot | None:
        try:
            return await self.engine.counters(self.server)
        except OSError:
            return None

    def _log_size(self) -> int:
        """Bytes of the log that are whole lines by now: the last one may still be written."""
        return self.server.process.log_size() if self.server.process else 0

    def _keep_window(
        self,
        key: CellKey,
        before: Snapshot | None,
        after: Snapshot | None,
        log_before: int,
        span: tuple[int, int],
        records: Sequence[RequestRecord],
        watch: Watch,
        notes: Sequence[str],
    ) -> None:
        assert self.chain is not None
        log: LogReadings | None = None
        if self.server.process is not None:
            log = self.engine.read_log(self.server.process.log_lines(log_before))
        known = [each.prompt_tokens for each in records if each.prompt_tokens is not None]
        self.ledger.add_window(
            self.chain,
            key,
            *span,
            delta=self.engine.delta(before, after) if before and after else None,
            log=log,
            running_max=self._gauges.get("running"),
            waiting_max=self._gauges.get("waiting"),
            pool_usage_max=self._gauges.get("pool_usage"),
            own_prompt_tokens=sum(known) if len(known) == len(records) else None,
            lag_p99_ns=watch.lag_p99_ns,
            own_cpu_s=watch.cpu_s,
            notes=(*notes, *watch.notes),
        )

    @contextlib.asynccontextmanager
    async def _watching(self) -> Any:
        """Sample the server's gauges and tell the observer how fast it goes, while a cell runs."""
        self._gauges = {}
        task = asyncio.create_task(self._watch_gauges())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _watch_gauges(self) -> None:
        last: tuple[float, float] | None = None
        drafted: tuple[float, float] | None = None
        while True:
            await asyncio.sleep(GAUGE_PERIOD_S)
            try:
                seen = dict(await self.engine.gauges(self.server))
            except OSError:
                continue
            now, generated = time.monotonic(), seen.pop("generation_tokens", None)
            drafts, accepted = seen.pop("drafts", None), seen.pop("accepted_tokens", None)
            length = None
            if drafts is not None and accepted is not None:
                if drafted is not None and drafts > drafted[0]:
                    length = 1 + (accepted - drafted[1]) / (drafts - drafted[0])
                drafted = drafts, accepted
            for name, value in seen.items():
                self._gauges[name] = max(value, self._gauges.get(name, value))
            speed = None
            if generated is not None:
                if last is not None and generated >= last[1]:
                    speed = (generated - last[1]) / (now - last[0])
                last = (now, generated)
            in_flight = (self._crew or self.client.progress).in_flight
            self.observer.on("live", tok_s=speed, acceptance_length=length, in_flight=in_flight, **seen)

    async def _raise_if_dead(self) -> None:
        """Raise ArmFailed unless the server still answers after `ALIVE_S`: a front may outlive its engine."""
        process = self.server.process
        if process is None:
            return
        answered = 0
        for _ in range(30):
            if process.exit_code() is not None:
                break
            answered = answered + 1 if await self._snapshot() is not None else 0
            if answered * LOOK_S >= ALIVE_S:
                return
            await asyncio.sleep(LOOK_S)
        raise self.death()

    def death(self) -> ArmFailed:
        """That the server is gone, in its log's own words."""
        process = self.server.process
        code = process.exit_code() if process is not None else None
        ended = f"ended with status {code}" if code is not None else "no longer answers"
        return ArmFailed(
            f"the server {ended} while it was being measured",
            where=f"arm {self.arm}, boot {self.boot.block}",
            hint=f"its log: {process.log_path}" if process is not None else None,
            log_lines=self.engine.explain_death(process.log_lines()) if process is not None else (),
        )


def batched(asks: Sequence[Ask], size: int) -> Iterator[list[Ask]]:
    """The asks as waves of `size`, each wave numbered as its `repeat`."""
    for start in range(0, len(asks), size):
        wave = asks[start : start + size]
        yield [replace(ask, repeat=start // size, stream=place) for place, ask in enumerate(wave)]
