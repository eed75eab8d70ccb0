"""Pieces, the prefix tree and the hashed blocks: what is shared, held, evicted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvantage.sim.blocks import BlockCache
from kvantage.sim.pieces import common, cut, join, text, total
from kvantage.sim.request import Request
from kvantage.sim.rules import Rules
from kvantage.sim.tree import TreeCache

PIECES = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.integers(1, 6)), min_size=1, max_size=6
).map(tuple)


def tokens(pieces: tuple[tuple[str, int, int], ...]) -> list[tuple[str, int]]:
    return [(name, offset + i) for name, offset, length in pieces for i in range(length)]


@given(first=PIECES, second=PIECES, start=st.integers(0, 20), length=st.integers(0, 20))
def test_pieces_are_their_tokens(first: tuple, second: tuple, start: int, length: int) -> None:  # type: ignore[type-arg]
    assert tokens(cut(first, start, start + length)) == tokens(first)[start : start + length]
    assert tokens(join(first, second)) == tokens(first) + tokens(second)
    shared = 0
    for left, right in zip(tokens(first), tokens(second), strict=False):
        if left != right:
            break
        shared += 1
    assert common(first, second) == shared
    assert total(first) == len(tokens(first))


def serve(cache: TreeCache | BlockCache, name: str, prompt: tuple, output: int) -> int | None:  # type: ignore[type-arg]
    """One request from start to end, alone; returns its hit, or None where it did not fit."""
    request = Request(name, prompt, output)
    matched = cache.match(request)
    cache.admit(request, matched)
    if not cache.grow(request, request.prompt_tokens + output):
        cache.release(request)
        return None
    request.produced = output
    cache.commit(request, request.length - 1)
    cache.release(request)
    return matched


@pytest.mark.parametrize("kind", [TreeCache, BlockCache])
@given(
    page=st.sampled_from([1, 4, 16]),
    capacity=st.integers(40, 400),
    work=st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 120), st.integers(1, 20)), max_size=25),
)
def test_a_cache_keeps_its_books(
    kind: type[TreeCache] | type[BlockCache], page: int, capacity: int, work: list[tuple[str, int, int]]
) -> None:
    cache = kind(capacity, Rules(page=page))
    for i, (name, length, output) in enumerate(work):
        before = serve(cache, f"r{i}", text(name, length), output)
        assert cache.available() == cache.capacity  # nobody is running: everything is free or may go
        assert 0 <= cache.used() <= cache.capacity
        if before is not None:
            assert before % page == 0
            assert before < length
            again = serve(cache, f"s{i}", text(name, length), 1)
            if again is not None:
                assert again >= before // page * page or again == (length - 1) // page * page
    cache.flush()
    assert cache.match(Request("x", text("a", 100), 1)) == 0


def test_prefixes_are_shared_and_the_least_recently_used_goes() -> None:
    cache = TreeCache(1000, Rules(page=10))
    assert serve(cache, "1", text("a", 300), 10) == 0
    assert serve(cache, "2", join(text("a", 200), text("b", 200)), 10) == 200
    assert serve(cache, "3", text("a", 300), 10) == 290
    assert serve(cache, "4", text("c", 500), 10) == 0  # evicts b, which was used before a
    assert serve(cache, "5", text("a", 300), 10) == 290
    assert serve(cache, "6", join(text("a", 200), text("b", 200)), 10) == 200


def test_a_block_cache_hits_whole_blocks_and_drops_one_for_a_drafter() -> None:
    plain, drafter = (BlockCache(4096, Rules(page=128, drop_block=drop)) for drop in (False, True))
    for cache, hit in ((plain, 1920), (drafter, 1792)):  # as the real engine on a CPU says of 2,000 tokens
        assert serve(cache, "1", text("a", 2000), 8) == 0
        assert serve(cache, "2", text("a", 2000), 8) == hit
    assert BlockCache(2001 + 64, Rules(page=16)).count == 128


def test_a_hybrid_hits_only_where_a_state_was_kept() -> None:
    cache = TreeCache(4000, Rules(page=10, states=3, states_running=1))
    assert serve(cache, "1", text("a", 300), 25) == 0
    assert serve(cache, "2", text("a", 400), 25) == 0  # the state lies behind the answer, not in the prompt
    request = Request("3", text("b", 300), 5)
    cache.admit(request, 0)
    assert cache.grow(request, 300)
    cache.commit(request, 300)
    cache.release(request)
    assert cache.match(Request("4", text("b", 320), 1)) == 300
    for i in range(4):  # other states push it out, although its tokens are still there
        assert serve(cache, f"o{i}", text(f"o{i}", 50), 10) == 0
    assert cache.match(Request("5", text("b", 320), 1)) == 0
    assert cache.states_evicted > 0


def test_what_is_held_is_not_evicted() -> None:
    cache = TreeCache(1000, Rules(page=10))
    assert serve(cache, "1", text("a", 600), 10) == 0
    held = Request("2", text("a", 600), 10)
    cache.admit(held, cache.match(held))
    other = Request("3", text("b", 500), 10)
    cache.admit(other, 0)
    assert not cache.grow(other, 500)
    cache.release(held)
    assert cache.grow(other, 500)


@pytest.mark.parametrize(
    ("kind", "rules", "tokens", "hit"),
    [
        (TreeCache, Rules(page=1), 2001, 2000),  # SGLang 0.5.17: none, and DFLASH with its own keys
        (TreeCache, Rules(page=64), 2001, 1984),  # the same, sparse attention
        (TreeCache, Rules(page=64, hit_shorter=1), 2001, 1984),  # and with its MTP head
        (BlockCache, Rules(page=16), 2001, 2000),  # vLLM 0.26 with n-gram drafts
        (BlockCache, Rules(page=64, drop_block=True), 2001, 1920),  # with MTP
        (BlockCache, Rules(page=128), 2000, 1920),  # vLLM 0.32 on a CPU
        (BlockCache, Rules(page=128, drop_block=True), 2000, 1792),  # with an EAGLE-like drafter
    ],
)
def test_hits_that_real_servers_printed(
    kind: type[TreeCache] | type[BlockCache], rules: Rules, tokens: int, hit: int
) -> None:
    cache = kind(100_000, rules)
    assert serve(cache, "1", text("a", tokens), 8) == 0
    assert serve(cache, "2", text("a", tokens), 8) == hit
