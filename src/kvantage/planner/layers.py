"""What one layer keeps: keys and values of every token, a window of them, a latent, or a recurrent state."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from kvantage.planner.dtypes import KvDtype

INDEXER_BLOCK = 128
"""An indexer's keys are stored as FP8 with one 4-byte scale each 128 elements."""


@dataclass(frozen=True)
class Heads:
    """Keys and values by head (MHA, GQA, MQA). `window` is how many tokens are kept; None keeps all."""

    kv_heads: int
    head_dim: int
    v_head_dim: int
    window: int | None = None

    def elements(self, tp: int = 1) -> int:
        """Elements a token on one rank: heads are divided over ranks, or repeated where ranks outnumber them.

        max(1, kv_heads // tp) * (head_dim + v_head_dim): the engines' own arithmetic.
        """
        return max(1, self.kv_heads // tp) * (self.head_dim + self.v_head_dim)

    def token_bytes(self, dtype: KvDtype, tp: int = 1) -> int:
        """Bytes a token on one rank."""
        return dtype.bytes(self.elements(tp))


@dataclass(frozen=True)
class Indexer:
    """The keys by which sparse attention chooses tokens: FP8 with scales, whatever the KV dtype is.

    `pool` tokens share one key. A layer that is told `shared` reuses another layer's choice and keeps none.
    """

    head_dim: int
    pool: int = 1

    def token_bytes(self) -> int:
        """ceil((dim + 4 * dim / 128) / pool): 132 bytes at 128, 33 where four tokens are pooled."""
        return ceil((self.head_dim + self.head_dim // INDEXER_BLOCK * 4) / self.pool)


@dataclass(frozen=True)
class Latent:
    """One compressed latent a token (MLA), keys and values together: no factor of two, no split over ranks.

    `rope_dim` may be 0 (no rotary part). `sparse` layers (DSA) store FP8 with a 4-byte scale each 128
    elements and the rotary part in 16 bits; other layers store plain FP8.
    """

    rank: int
    rope_dim: int
    sparse: bool = False
    indexer: Indexer | None = None

    def latent_bytes(self, dtype: KvDtype, *, scaled: bool = True) -> int:
        """Bytes of the latent a token: at 512 + 64: 1,152 in BF16, 656 in FP8, 576 raw, 352 in NVFP4."""
        if self.sparse and scaled and dtype.family == "fp8":
            return self.rank + self.rank // 128 * 4 + 2 * self.rope_dim
        if self.sparse and scaled and dtype.family == "fp4":
            return dtype.bytes(self.rank) + self.rope_dim
        return dtype.bytes(self.rank + self.rope_dim)

    def token_bytes(self, dtype: KvDtype, *, scaled: bool = True) -> int:
        """Latent and, where the layer has one, indexer."""
        return self.latent_bytes(dtype, scaled=scaled) + (self.indexer.token_bytes() if self.indexer else 0)


@dataclass(frozen=True)
class State:
    """A recurrent layer's state of one sequence: it does not grow with length.

    Elements of the convolution's tail (kept in the model's 16-bit dtype) and of the state proper, whose
    dtype is a setting (32-bit unless the config or the engine says otherwise). `groups` of the convolution
    input (Mamba 2's B and C) are repeated where ranks outnumber them.
    """

    kind: str
    conv: int
    ssm: int
    conv_shared: int = 0
    groups: int = 1

    def numbers(self, tp: int = 1) -> tuple[int, int]:
        """(convolution, state) elements on one rank."""
        shared = self.conv_shared
        if shared and tp > 1:
            per_group = shared // self.groups
            shared = per_group * max(1, self.groups // tp)
        return self.conv // tp + shared, self.ssm // tp

    def bytes(self, *, conv_size: int = 2, ssm_size: int = 4, tp: int = 1) -> int:
        """Bytes of one sequence on one rank."""
        conv, ssm = self.numbers(tp)
        return conv * conv_size + ssm * ssm_size


@dataclass(frozen=True)
class Layer:
    """One layer of the stack: attention, a recurrent state, both (parallel hybrids), or neither (an MLP).

    `recurrent` is True also where the size of the state is not known.
    """

    attention: Heads | Latent | None = None
    state: State | None = None
    recurrent: bool = False

    @property
    def window(self) -> int | None:
        """How many tokens a windowed layer keeps; None for a layer that keeps all of them or none."""
        return self.attention.window if isinstance(self.attention, Heads) else None

    def token_bytes(self, dtype: KvDtype, tp: int = 1, *, scaled: bool = True) -> int:
        """Bytes that one more token costs this layer, before any window is full."""
        match self.attention:
            case None:
                return 0
            case Latent() as latent:
                return latent.token_bytes(dtype, scaled=scaled)
            case Heads() as heads:
                return heads.token_bytes(dtype, tp)
