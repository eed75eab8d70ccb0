"""Whether a server's prefix cache works, and whether a flush of it can be believed: three requests tell."""

from __future__ import annotations

from dataclasses import dataclass

from kvantage.client import read_exchange
from kvantage.phases import Ask, Bench
from kvantage.workloads.documents import SMALLEST, make_document, recall_messages

BLOCKS = 3


@dataclass(frozen=True, slots=True)
class CacheProof:
    """`caches`: a repeat was served from the cache. `flushes`: after a flush it no longer was.

    None is 'could not be told', and `words` say why.
    """

    caches: bool | None
    flushes: bool | None
    words: str


async def prove_cache(bench: Bench) -> CacheProof:
    """Send one prompt, send it again, flush, send it a third time, and look at the server's own counts."""
    block = bench.facts.reading("kv_block_tokens").value or 16
    tokens = max(2 * SMALLEST, round(BLOCKS * block) + 2 * SMALLEST)
    document = make_document(f"cache-proof:{bench.study.seed}", tokens, bench.counter, secrets=1)
    ask = Ask("cache-proof", recall_messages(document), 1)

    async def cached() -> int | None:
        reading = read_exchange(await bench.client.stream(bench.request(ask)))
        return bench.engine.read_usage(reading.final, bench.facts).cached_tokens

    first, second = await cached(), await cached()
    if first is None or second is None:
        return CacheProof(None, None, "the server does not report cached tokens")
    if second <= first:
        return CacheProof(False, None, f"a repeated prompt was not served from the cache ({second} tokens)")
    said = await bench.engine.flush_cache(bench.server)
    if not said.believed:
        return CacheProof(
            True, None, f"the cache works ({second} tokens of a repeat); no flush: {said.words}"
        )
    third = await cached()
    if third is None or third > first:
        return CacheProof(True, False, f"the server claims a flush, but {third} tokens were still cached")
    return CacheProof(True, True, f"a repeat hit {second} tokens, and {third} after a flush")
