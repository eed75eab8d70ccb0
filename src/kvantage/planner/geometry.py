"""What a model keeps of each token and of each sequence, from its config.json alone.

Bytes are those of one rank (`tp` ranks share the heads). Formulas: the engines' published pool arithmetic,
as docs/planner.md lists it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvantage.core import UsageError
from kvantage.planner.attention import build_layers
from kvantage.planner.checkpoint import Checkpoint, read_checkpoint
from kvantage.planner.dtypes import DTYPES, KvDtype, kv_dtype
from kvantage.planner.families import Family, find_family, shell_defaults
from kvantage.planner.fields import Fields, text_config
from kvantage.planner.hints import MODEL_DTYPE, KvHint, kv_hint
from kvantage.planner.layers import Latent, Layer
from kvantage.planner.mtp import Mtp, read_mtp
from kvantage.planner.pattern import layer_kinds

RAW = "_raw"
"""Ends the name of an FP8 entry whose sparse-attention latent is stored without scales."""


@dataclass(frozen=True)
class Geometry:
    """The cache of one model. `notes` says what was taken from an architecture's default, and what is open.

    `state_problem` says why `state_bytes` is None for a model that has recurrent layers.
    """

    name: str
    family: Family
    architecture: str
    layers: tuple[Layer, ...]
    dtype: str
    hint: KvHint
    mtp: Mtp
    fields: Fields
    max_length: int | None = None
    ssm_size: int = 4
    weights_bytes: int | None = None
    state_problem: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def own_kv_dtype(self) -> str:
        """The KV dtype that the checkpoint asks for, or its own dtype where it asks for none."""
        return self.dtype if self.hint.name in (None, MODEL_DTYPE) else str(self.hint.name)

    @property
    def conv_size(self) -> int:
        """Bytes of an element of the convolutions' tails: the model's own dtype."""
        return int(DTYPES[self.dtype].size)

    @property
    def attention_layers(self) -> tuple[Layer, ...]:
        """Layers that cache tokens."""
        return tuple(layer for layer in self.layers if layer.attention)

    @property
    def state_layers(self) -> tuple[Layer, ...]:
        """Layers that keep a recurrent state."""
        return tuple(layer for layer in self.layers if layer.state)

    @property
    def sparse(self) -> bool:
        """True where FP8 KV is stored with scales (sparse attention over a latent)."""
        return any(isinstance(layer.attention, Latent) and layer.attention.sparse for layer in self.layers)

    def kv_bytes_per_token(self, dtype: KvDtype, tp: int = 1, *, scaled: bool = True) -> int:
        """Bytes that each further token of a long sequence costs: windowed layers are full by then."""
        return sum(
            layer.token_bytes(dtype, tp, scaled=scaled) for layer in self.layers if layer.window is None
        )

    def window_bytes_per_token(self, dtype: KvDtype, tp: int = 1) -> int:
        """Bytes a token in the windowed layers, before their windows are full."""
        return sum(layer.token_bytes(dtype, tp) for layer in self.layers if layer.window is not None)

    def kv_bytes_per_sequence(self, dtype: KvDtype, tp: int = 1) -> int:
        """Fixed bytes a sequence: the full windows of windowed layers. 0 where every layer keeps all."""
        return sum(layer.token_bytes(dtype, tp) * (layer.window or 0) for layer in self.layers)

    def indexer_bytes_per_token(self) -> int:
        """The part of `kv_bytes_per_token` that sparse attention's indexers take."""
        return sum(
            layer.attention.indexer.token_bytes()
            for layer in self.layers
            if isinstance(layer.attention, Latent) and layer.attention.indexer
        )

    def state_bytes(self, tp: int = 1, ssm_size: int | None = None) -> int | None:
        """Recurrent state of one sequence; 0 without recurrent layers, None where it is not known."""
        if self.state_problem:
            return None
        size = self.ssm_size if ssm_size is None else ssm_size
        return sum(
            layer.state.bytes(conv_size=self.conv_size, ssm_size=size, tp=tp)
            for layer in self.layers
            if layer.state
        )

    def kv_bytes_at(self, length: int, dtype: KvDtype, tp: int = 1, *, scaled: bool = True) -> int:
        """Bytes that a sequence of `length` tokens holds, its windows no fuller than it is long."""
        return sum(
            layer.token_bytes(dtype, tp, scaled=scaled) * min(length, layer.window or length)
            for layer in self.layers
        )

    def entries(self) -> list[tuple[str, KvDtype, bool]]:
        """(name, dtype, scaled) of each KV dtype worth a line, the model's own first."""
        names = [
            self.own_kv_dtype,
            *(n for n in ("bf16", "fp8_e4m3", "int8", "nvfp4") if n != self.own_kv_dtype),
        ]
        found = []
        for name in names:
            dtype = kv_dtype(name)
            found.append((name, dtype, True))
            if self.sparse and dtype.family == "fp8":
                found.append((name + RAW, dtype, False))
        return found

    def layer_counts(self) -> dict[str, int]:
        """How many layers of each kind."""
        counts = {"full": 0, "windowed": 0, "recurrent": 0, "neither": 0}
        for layer in self.layers:
            if layer.attention:
                counts["windowed" if layer.window else "full"] += 1
            if layer.recurrent:
                counts["recurrent"] += 1
            if not layer.attention and not layer.recurrent:
                counts["neither"] += 1
        return counts


def read_geometry(model: str, revision: str | None = None) -> Geometry:
    """The geometry of a model: a folder, a config.json or a hub name. Raises UsageError by name."""
    return geometry_of(read_checkpoint(model, revision))


def geometry_of(checkpoint: Checkpoint) -> Geometry:
    """The geometry of a checkpoint that was read. Raises UsageError, by name, on what is not known."""
    config, where = checkpoint.config, checkpoint.name
    family = find_family(config, where)
    inner = text_config(config)
    if config.get("is_encoder_decoder") or inner.get("is_encoder_decoder"):
        raise UsageError(
            f"{_architecture(config)} is an encoder-decoder, which the planner does not know", where=where
        )
    if inner.get("use_cla"):
        raise UsageError(
            f"{_architecture(config)} shares keys between layers (use_cla): not known", where=where
        )
    defaults = dict(family.defaults)
    if inner is not config:
        defaults = {**shell_defaults(family), **defaults}
    if family.name == "zamba2":
        defaults["doubled_heads"] = True
    fields = Fields(inner, config, where, defaults)
    kinds = layer_kinds(fields, family)
    layers, problem = build_layers(fields, family, kinds)
    mtp = read_mtp(fields, family, layers, checkpoint.tensors, checkpoint.files)
    hint = kv_hint(config, inner)
    if checkpoint.note:
        fields.notes.insert(0, checkpoint.note)
    if hint.problem:
        fields.notes.append(f"{hint.problem}: the model's own dtype is assumed for its KV")
    dtype = model_dtype(fields)
    return Geometry(
        name=checkpoint.name,
        family=family,
        architecture=_architecture(config),
        layers=tuple(layers),
        dtype=dtype,
        hint=hint,
        mtp=mtp,
        fields=fields,
        max_length=fields.integer("max_position_embeddings"),
        ssm_size=_ssm_size(fields),
        weights_bytes=checkpoint.weights_bytes,
        state_problem=problem,
        notes=tuple(fields.notes),
    )


def model_dtype(fields: Fields) -> str:
    """The dtype of the weights' 16 or 32-bit parts; BF16, with a note, where the config does not say."""
    named = fields.text("dtype")
    if named is None:
        fields.notes.append("the config names no dtype: BF16 is taken")
        return "bf16"
    try:
        dtype = kv_dtype(named)
    except UsageError:
        raise fields.refusal(f"the dtype `{named}` is not known") from None
    return dtype.name if dtype.family == "float" else "bf16"


def _ssm_size(fields: Fields) -> int:
    """Bytes of an element of the recurrent state: as declared, else 32 bits."""
    for name in ("mamba_ssm_dtype", "mamba_ssm_cache_dtype", "ssm_dtype"):
        named = fields.raw(name)
        if isinstance(named, str) and named != "auto":
            return int(kv_dtype(named).size)
    return 4


def _architecture(config: Mapping[str, Any]) -> str:
    inner = text_config(config)
    named = config.get("architectures") or inner.get("architectures")
    if isinstance(named, list) and named:
        return str(named[0])
    return str(config.get("model_type") or inner.get("model_type") or "unnamed")


def describe(geometry: Geometry, tp: int = 1) -> list[dict[str, Any]]:
    """The KV entries as plain data, the model's own dtype first. Bytes are those of one rank."""
    state = geometry.state_bytes(tp)
    found = []
    for name, dtype, scaled in geometry.entries():
        total = geometry.kv_bytes_per_token(dtype, tp, scaled=scaled)
        indexer = geometry.indexer_bytes_per_token()
        found.append(
            {
                "kv_dtype": name,
                "kv_bytes_per_token": total,
                "kv_bytes_per_sequence": geometry.kv_bytes_per_sequence(dtype, tp),
                "state_bytes": state,
                "parts": {
                    "attention_bytes_per_token": total - indexer,
                    "indexer_bytes_per_token": indexer,
                    "windowed_bytes_per_token": geometry.window_bytes_per_token(dtype, tp),
                },
            }
        )
    return found
