"""A prefix tree over a paged pool: prefixes are locked while used, the least recently used leaf goes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from kvantage.sim.pieces import Pieces, common, cut, total
from kvantage.sim.request import Request
from kvantage.sim.rules import Rules


class Cache(Protocol):
    """The pool of one engine, with its prefix cache."""

    capacity: int

    def match(self, request: Request) -> int:
        """Tokens of the request that are resident and may be used."""
        ...

    def admit(self, request: Request, matched: int) -> None:
        """Hold the matched prefix for the request."""
        ...

    def grow(self, request: Request, tokens: int) -> bool:
        """Give the request slots for that many tokens, evicting what is not used; False if it cannot."""
        ...

    def commit(self, request: Request, tokens: int) -> None:
        """The first `tokens` of the request are computed and may be shared."""
        ...

    def release(self, request: Request) -> None:
        """The request needs its slots no more."""
        ...

    def available(self) -> int:
        """Tokens that are free, or could be by eviction."""
        ...

    def unlocked(self, request: Request, matched: int) -> int:
        """Tokens of a matched prefix that no request holds yet: once held, they can no longer be evicted."""
        ...

    def used(self) -> int:
        """Tokens resident."""
        ...

    def flush(self) -> None:
        """Forget everything that no request holds."""
        ...


class Node:
    """A run of whole pages. `locks` counts requests that hold it or anything below it."""

    __slots__ = ("children", "locks", "parent", "pieces", "size", "state", "used")

    def __init__(self, parent: Node | None, pieces: Pieces, tick: int) -> None:
        self.parent = parent
        self.pieces = pieces
        self.size = total(pieces)
        self.children: dict[Pieces, Node] = {}
        self.locks = 0
        self.used = tick
        self.state = False


class TreeCache:
    """Prefix tree, paged slots and, for hybrids, recurrent-state slots: a hit ends where a state was kept."""

    def __init__(self, capacity: int, rules: Rules) -> None:
        self.page = rules.page
        self.capacity = capacity // rules.page * rules.page
        self.rules = rules
        self.root = Node(None, (), 0)
        self.resident = 0
        self.private = 0
        self.locked = 0
        self.states = 0
        self.running = 0
        self.tick = 0
        self.evicted = 0
        self.states_evicted = 0
        self._held: dict[str, Node] = {}

    # What an engine asks

    def match(self, request: Request) -> int:
        if not self.rules.prefix_caching:
            return 0
        sequence = request.sequence()
        most = request.length - 1 - self.rules.hit_shorter
        return self._walk(cut(sequence, 0, max(0, most)))[1]

    def admit(self, request: Request, matched: int) -> None:
        self.tick += 1
        node, _ = self._walk(cut(request.sequence(), 0, matched)) if matched else (self.root, 0)
        self._lock(node)
        self._held[request.name] = node
        request.slots = matched
        self.running += 1
        self._trim_states()

    def grow(self, request: Request, tokens: int) -> bool:
        wanted = -(-tokens // self.page) * self.page
        more = wanted - request.slots
        if more <= 0:
            return True
        if self.free() < more and not self._evict(more - self.free()):
            return False
        request.slots = wanted
        self.private += more
        return True

    def commit(self, request: Request, tokens: int) -> None:
        if not self.rules.prefix_caching:
            return
        self.tick += 1
        whole = tokens // self.page * self.page
        node = self._held[request.name]
        held = self._depth(node)
        if whole <= held:
            return
        new = self._insert(cut(request.sequence(), 0, whole))
        # What the request computed and the tree now holds is the tree's; what was there already is freed.
        self.private -= whole - held
        self._lock(new)
        self._unlock(node)
        self._held[request.name] = new
        if self.rules.states is not None:
            self._keep_state(new)

    def release(self, request: Request) -> None:
        node = self._held.pop(request.name)
        self.private -= request.slots - self._depth(node)
        request.slots = 0
        self._unlock(node)
        self.running -= 1

    def available(self) -> int:
        return self.free() + self.resident - self.locked

    def unlocked(self, request: Request, matched: int) -> int:
        node, _ = self._walk(cut(request.sequence(), 0, matched)) if matched else (self.root, 0)
        loose = 0
        while node.parent is not None:
            loose += 0 if node.locks else node.size
            node = node.parent
        return loose

    def used(self) -> int:
        return self.resident + self.private

    def free(self) -> int:
        """Tokens that nothing holds."""
        return self.capacity - self.resident - self.private

    def flush(self) -> None:
        self._evict(self.resident - self.locked)

    # The tree

    def _walk(self, pieces: Pieces) -> tuple[Node, int]:
        """The deepest usable node on the way of `pieces`, and its depth; a partial match splits its node."""
        node, depth, length = self.root, 0, total(pieces)
        best, best_depth = self.root, 0
        while depth + self.page <= length:
            child = node.children.get(cut(pieces, depth, depth + self.page))
            if child is None:
                break
            rest = cut(pieces, depth, depth + child.size)
            shared = common(child.pieces, rest) // self.page * self.page
            if shared < child.size:
                if self.rules.states is not None:
                    break  # a hybrid's hit cannot end inside a run: there is no state
                child = self._split(child, shared)
            child.used = self.tick
            node, depth = child, depth + child.size
            if self.rules.states is None or child.state:
                best, best_depth = node, depth
        return best, best_depth

    def _insert(self, pieces: Pieces) -> Node:
        """The node that ends at `pieces`, made where it is not there."""
        node, depth, length = self.root, 0, total(pieces)
        while depth < length:
            child = node.children.get(cut(pieces, depth, depth + self.page))
            if child is None:
                new = Node(node, cut(pieces, depth, length), self.tick)
                node.children[cut(pieces, depth, depth + self.page)] = new
                self.resident += new.size
                return new
            shared = common(child.pieces, cut(pieces, depth, length)) // self.page * self.page
            if shared < child.size:
                child = self._split(child, shared)
            child.used = self.tick
            node, depth = child, depth + child.size
        return node

    def _split(self, node: Node, at: int) -> Node:
        """Cut a node in two after `at` tokens; returns the upper part."""
        assert node.parent is not None
        upper = Node(node.parent, cut(node.pieces, 0, at), node.used)
        upper.locks = node.locks
        node.parent.children[cut(node.pieces, 0, self.page)] = upper
        node.parent = upper
        node.pieces = cut(node.pieces, at, node.size)
        node.size -= at
        upper.children[cut(node.pieces, 0, self.page)] = node
        return upper

    def _depth(self, node: Node) -> int:
        depth = 0
        while node.parent is not None:
            depth += node.size
            node = node.parent
        return depth

    def _lock(self, node: Node) -> None:
        here: Node | None = node
        while here is not None and here.parent is not None:
            if here.locks == 0:
                self.locked += here.size
            here.locks += 1
            here = here.parent

    def _unlock(self, node: Node) -> None:
        here: Node | None = node
        while here is not None and here.parent is not None:
            here.locks -= 1
            if here.locks == 0:
                self.locked -= here.size
            here.used = self.tick
            here = here.parent

    def _nodes(self) -> Iterator[Node]:
        stack = list(self.root.children.values())
        while stack:
            node = stack.pop()
            yield node
            stack.extend(node.children.values())

    def _evict(self, tokens: int) -> bool:
        """Free at least that many tokens: whole leaves that nobody holds, the least recently used first."""
        if self.resident - self.locked < tokens:
            return False
        while tokens > 0:
            leaf = min(
                (node for node in self._nodes() if not node.children and not node.locks),
                key=lambda node: node.used,
                default=None,
            )
            if leaf is None:
                return False
            tokens -= self._drop(leaf)
        return True

    def _drop(self, leaf: Node) -> int:
        assert leaf.parent is not None
        del leaf.parent.children[cut(leaf.pieces, 0, self.page)]
        if leaf.state:
            self.states -= 1
        self.resident -= leaf.size
        self.evicted += leaf.size
        return leaf.size

    # Recurrent states

    def _keep_state(self, node: Node) -> None:
        if not node.state:
            node.state = True
            self.states += 1
        node.used = self.tick
        self._trim_states()

    def _trim_states(self) -> None:
        """Cached states give way where running requests need the slots, the least recently used first."""
        if self.rules.states is None:
            return
        room = self.rules.states - self.running * self.rules.states_running
        while self.states > max(0, room):
            held = set(map(id, self._held.values()))
            oldest = min(
                (node for node in self._nodes() if node.state and id(node) not in held),
                key=lambda node: node.used,
                default=None,
            )
            if oldest is None:
                return
            self.states_evicted += 1
            if not oldest.children and not oldest.locks:
                self._drop(oldest)
            else:
                oldest.state = False
                self.states -= 1
