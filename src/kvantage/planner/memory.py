"""What a server can keep resident: an arm's demands, the memory left for them, and the pool they make.

The engines' own arithmetic is in `pools/`, one file each; here is what they share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kvantage.core import Reading, ServerSettings, Speculation, UsageError
from kvantage.planner.drafts import Drafter
from kvantage.planner.dtypes import KvDtype, kv_dtype
from kvantage.planner.geometry import RAW, Geometry

GIB = 2**30


@dataclass(frozen=True)
class Demand:
    """What one arm asks of the memory of one rank.

    `drafter` is the separate one of `draft_model`, `eagle3` and `dflash`; `mtp` uses the target's own head.
    `processor` is True where no accelerator serves it.
    """

    target: Geometry
    settings: ServerSettings = field(default_factory=ServerSettings)
    speculation: Speculation = field(default_factory=Speculation)
    drafter: Drafter | None = None
    flags: Mapping[str, Any] = field(default_factory=dict)
    processor: bool = False

    @property
    def tp(self) -> int:
        """Ranks that share each layer."""
        return self.settings.tensor_parallel_size or 1

    @property
    def kv_name(self) -> str:
        """The target's KV dtype: as asked for, else the checkpoint's own; where that is the dtype that it is
        served in, the one that is asked for (`dtype: float32` doubles the cache of a BF16 checkpoint).
        """
        asked, own, served = self.settings.kv_dtype, self.target.own_kv_dtype, self.settings.dtype
        if asked not in (None, "auto"):
            return str(asked)
        follows = served not in (None, "auto") and kv_dtype(own.removesuffix(RAW)).family == "float"
        return kv_dtype(str(served)).name if follows else own

    @property
    def scaled(self) -> bool:
        """False where FP8 of sparse attention is asked for without scales."""
        return not self.kv_name.endswith(RAW)

    @property
    def kv(self) -> KvDtype:
        """The dtype of the target's KV."""
        return kv_dtype(self.kv_name.removesuffix(RAW))

    @property
    def draft_kv(self) -> KvDtype:
        """The drafter's KV dtype: as asked for, else that of the target's KV."""
        asked = self.speculation.draft_kv_dtype
        if asked and asked != "auto":
            return kv_dtype(asked)
        return self.kv

    @property
    def drafts(self) -> int:
        """k, or 0 where nothing drafts."""
        return self.speculation.drafts or 0

    def target_bytes(self) -> int:
        """Bytes that each further token of the target costs one rank."""
        return self.target.kv_bytes_per_token(self.kv, self.tp, scaled=self.scaled)

    def window_bytes(self) -> int:
        """Bytes a token of the target's windowed layers on one rank."""
        return self.target.window_bytes_per_token(self.kv, self.tp)

    def draft_bytes(self) -> int:
        """Bytes that drafting adds to each token by the drafter's own geometry.

        Raises UsageError where a drafter is needed and was not given, or no head is declared.
        """
        match self.speculation.method:
            case "none" | "ngram":
                return 0
            case "mtp":
                mtp = self.target.mtp
                if not mtp.declared:
                    raise UsageError(
                        f"{self.target.architecture} declares no MTP head to draft with",
                        where=self.target.name,
                    )
                return mtp.kv_bytes_per_token(self.draft_kv, self.tp, scaled=self.scaled)
            case _:
                return self.need_drafter().kv_bytes_per_token(self.draft_kv, self.tp)

    def need_drafter(self) -> Drafter:
        """The separate drafter. Raises UsageError where none was read."""
        if self.drafter is None:
            raise UsageError(f"the drafter of `{self.speculation.method}` is not known; give its folder")
        return self.drafter

    def state_bytes(self, ssm_size: int | None = None) -> int:
        """Recurrent state of one sequence on one rank. Raises UsageError where the config does not tell."""
        state = self.target.state_bytes(self.tp, ssm_size)
        if state is None:
            raise UsageError(str(self.target.state_problem), where=self.target.name)
        return state

    def flag(self, *names: str) -> Any:
        """An engine flag by any of its names; None where it is not given."""
        return next((self.flags[name] for name in names if name in self.flags), None)


@dataclass(frozen=True)
class Rank:
    """One rank's device, in bytes: `total` as the driver reports it, `free` before anything is loaded."""

    total: int
    free: int
    weights: int
    draft_weights: int = 0
    free_low: int | None = None
    free_high: int | None = None


@dataclass(frozen=True)
class Left:
    """Bytes left for caches on the smallest rank, with the ends of what is not known exactly."""

    bytes: int
    low: int
    high: int
    known: bool
    note: str = ""

    @classmethod
    def exactly(cls, size: int, note: str = "as given") -> Left:
        """A measured or pinned amount."""
        return cls(size, size, size, True, note)


@dataclass(frozen=True)
class Pool:
    """A predicted pool of one rank. `tokens` is what the engine would print.

    `ideal_tokens` divides the same memory by what the layers need, with no page floors and no slots that an
    engine reserves: the upper bound. `capped_by` names what bound the number of requests or tokens.
    """

    tokens: int
    block_tokens: int
    token_bytes: int
    draft_bytes: int
    ideal_tokens: int
    state_slots: int = 0
    state_slot_bytes: int = 0
    intermediate_bytes: int = 0
    max_running: int | None = None
    per_request_blocks: int | None = None
    blocks: int | None = None
    windows: int = 0
    capped_by: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def kv_bytes(self) -> int:
        """Bytes of the target's pool."""
        return self.tokens * self.token_bytes

    @property
    def draft_pool_bytes(self) -> int:
        """Bytes of the drafter's pool."""
        return self.tokens * self.draft_bytes

    @property
    def state_bytes(self) -> int:
        """Bytes of all recurrent-state slots, intermediate buffers of speculation included."""
        return self.state_slots * self.state_slot_bytes + self.intermediate_bytes

    def sessions(self, tokens: int) -> float:
        """How many sessions of that many tokens (input and answer together) the pool holds."""
        return self.tokens / tokens


@dataclass(frozen=True)
class PoolPrediction:
    """The pool in the middle of what is known of the memory, and at both ends."""

    at: Pool
    low: Pool
    high: Pool
    left: Left

    def tokens(self) -> Reading:
        """The pool in tokens, as a predicted reading."""
        ends = sorted((self.low.tokens, self.high.tokens, self.at.tokens))
        return Reading.of(
            self.at.tokens,
            "tokens",
            "predicted",
            low=float(ends[0]),
            high=float(ends[-1]),
            note=self.left.note or None,
        )

    def bytes(self) -> Reading:
        """The target's pool in bytes, as a predicted reading."""
        return Reading.of(
            self.at.kv_bytes,
            "bytes",
            "predicted",
            low=float(self.low.kv_bytes),
            high=float(self.high.kv_bytes),
        )


def smallest(ranks: Sequence[Rank]) -> Rank:
    """The rank that binds: every pool is as large as the smallest rank's."""
    if not ranks:
        raise UsageError("no rank is given")
    return min(ranks, key=lambda rank: rank.free - rank.weights - rank.draft_weights)


def draft_logit_bytes(slots: int, drafts: int, vocabulary: int, element: int = 4) -> int:
    """A drafter's buffer of probabilities: slots * k * vocabulary * bytes.

    Seen to the byte as the difference of two boots (6 slots, k = 7, 154,880 words: 26,019,840 bytes).
    """
    return slots * drafts * vocabulary * element
