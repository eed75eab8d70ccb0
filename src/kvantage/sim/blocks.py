"""A pool of equal blocks, found again by the hash of all that stands before and in them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from itertools import islice

from kvantage.sim.pieces import parts
from kvantage.sim.request import Request
from kvantage.sim.rules import Rules


class BlockCache:
    """Blocks keep their content after they are freed, until the queue gives them to somebody else.

    Freed blocks go in the order of their freeing, the last of a request first; those that hold nothing to be
    found go before all others. Several blocks may hold the same. One block is never used. A hit is whole
    blocks, never the whole prompt, and one block less where the drafter needs it (`drop_block`).
    """

    def __init__(self, capacity: int, rules: Rules) -> None:
        self.block = rules.page
        self.rules = rules
        self.count = max(0, capacity // rules.page - 1)
        self.capacity = self.count * rules.page
        self.evicted = 0
        self._queue: OrderedDict[int, None] = OrderedDict((i, None) for i in range(self.count))
        self._users = [0] * self.count
        self._content: list[Hashable | None] = [None] * self.count
        self._found: dict[Hashable, dict[int, None]] = {}
        self._held: dict[str, list[int]] = {}
        self._keys: dict[str, list[Hashable]] = {}
        self._shared: dict[str, int] = {}

    def match(self, request: Request) -> int:
        return len(self._matched(request)) * self.block

    def admit(self, request: Request, matched: int) -> None:
        blocks = self._matched(request)[: matched // self.block]
        for block in blocks:
            if self._users[block] == 0:
                del self._queue[block]
            self._users[block] += 1
        self._held[request.name] = blocks
        request.slots = len(blocks) * self.block

    def grow(self, request: Request, tokens: int) -> bool:
        held = self._held[request.name]
        more = -(-tokens // self.block) - len(held)
        if more <= 0:
            return True
        if more > len(self._queue):
            return False
        for _ in range(more):
            block, _ = self._queue.popitem(last=False)
            content = self._content[block]
            if content is not None:
                self._forget(content, block)
                self._content[block] = None
                self.evicted += self.block
            self._users[block] = 1
            held.append(block)
        request.slots = len(held) * self.block
        return True

    def commit(self, request: Request, tokens: int) -> None:
        if not self.rules.prefix_caching:
            return
        held, whole = self._held[request.name], tokens // self.block
        first = self._shared.get(request.name, 0)
        if whole <= first:
            return
        keys = self._hashes(request, whole)
        for place in range(first, min(whole, len(held))):
            block, key = held[place], keys[place]
            if self._content[block] is None:
                self._content[block] = key
                self._found.setdefault(key, {})[block] = None
        self._shared[request.name] = whole

    def release(self, request: Request) -> None:
        empty = []
        for block in reversed(self._held.pop(request.name)):
            self._users[block] -= 1
            if self._users[block] == 0:
                self._queue[block] = None
                if self._content[block] is None:
                    empty.append(block)
        for block in reversed(empty):
            self._queue.move_to_end(block, last=False)
        request.slots = 0
        self._keys.pop(request.name, None)
        self._shared.pop(request.name, None)

    def available(self) -> int:
        return len(self._queue) * self.block

    def unlocked(self, request: Request, matched: int) -> int:
        blocks = self._matched(request)[: matched // self.block]
        return sum(self._users[block] == 0 for block in blocks) * self.block

    def used(self) -> int:
        return (self.count - len(self._queue)) * self.block

    def flush(self) -> None:
        for block in self._queue:
            self._content[block] = None
        held = {key: {b: None for b in blocks if self._users[b]} for key, blocks in self._found.items()}
        self._found = {key: blocks for key, blocks in held.items() if blocks}

    def _forget(self, content: Hashable, block: int) -> None:
        blocks = self._found[content]
        del blocks[block]
        if not blocks:
            del self._found[content]

    def _matched(self, request: Request) -> list[int]:
        if not self.rules.prefix_caching:
            return []
        most = request.length - 1
        blocks: list[int] = []
        for key in islice(self._hashes(request, most // self.block), most // self.block):
            holders = self._found.get(key)
            if not holders:
                break
            blocks.append(next(iter(holders)))
        return blocks[:-1] if self.rules.drop_block and blocks else blocks

    def _hashes(self, request: Request, count: int) -> list[Hashable]:
        """At least so many keys, one a block: its tokens and, by nesting in a hash, all before them."""
        keys = self._keys.setdefault(request.name, [])
        if len(keys) < count:
            before: Hashable = keys[-1] if keys else None
            for here in parts(request.sequence(), self.block, len(keys), count):
                before = (hash((before, here)), here)
                keys.append(before)
        return keys
