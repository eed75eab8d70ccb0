"""How many parameters a model holds and how many one token reads, from its config: what a step must load.

Counted by the shapes of the published architectures; norms and biases (under 0.1 %) are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvantage.core import UsageError
from kvantage.planner.drafts import Drafter
from kvantage.planner.dtypes import DTYPES
from kvantage.planner.fields import Fields
from kvantage.planner.geometry import Geometry
from kvantage.planner.layers import Heads, Latent, Layer

QUANTISED: Mapping[str, float] = {
    "mxfp4": 17 / 32,
    "nvfp4": 9 / 16,
    "modelopt_fp4": 9 / 16,
    "fp8": 1.0,
    "fbgemm_fp8": 1.0,
    "awq": 0.56,
    "gptq": 0.56,
    "gptq_marlin": 0.56,
    "bitsandbytes": 0.56,
}
"""Bytes a quantised parameter, group scales included. Which parts stay in 16 bits differs by checkpoint."""


@dataclass(frozen=True)
class Weights:
    """Parameters. `dense` are read in every step whatever the batch; `expert` is one expert of one layer.

    `head` and `embedding` are the output and input vocabularies; the input's is looked up, not read.
    """

    dense: int
    expert: int
    expert_layers: int
    experts: int
    active_experts: int
    head: int
    embedding: int
    bytes_per_parameter: float
    measured_bytes: int | None = None

    @property
    def total(self) -> int:
        """All parameters."""
        return self.dense + self.expert * self.experts * self.expert_layers + self.head + self.embedding

    @property
    def active(self) -> int:
        """Parameters that one token reads."""
        return self.dense + self.head + self.expert * self.active_experts * self.expert_layers

    @property
    def bytes(self) -> int:
        """Bytes of all of them: the checkpoint's own where they are known."""
        return self.measured_bytes or int(self.total * self.bytes_per_parameter)

    @property
    def size(self) -> float:
        """Bytes a parameter, over all of them."""
        return self.bytes / self.total if self.total else self.bytes_per_parameter


def weights_of(geometry: Geometry, measured_bytes: int | None = None) -> Weights:
    """Count a model's parameters. Raises UsageError where the config leaves out a size that is needed."""
    fields = geometry.fields
    hidden, vocabulary = fields.need("hidden_size"), fields.need("vocab_size")
    dense = sum(mixer_parameters(fields, layer) for layer in geometry.layers)
    experts = fields.integer("experts") or 0
    sparse = _expert_layers(geometry, experts)
    active = fields.integer("active_experts") or 0
    if sparse and not 0 < active <= experts:
        raise fields.refusal(f"a token cannot go to {active} of {experts} experts")
    count = len(geometry.layers)
    gated = 2 if geometry.family.name == "nemotron_h" else 3
    expert = 0
    mlps = count - len(sparse)
    if geometry.family.name == "nemotron_h":
        pattern = str(fields.raw("hybrid_override_pattern") or "")
        mlps = pattern.count("-") if pattern else geometry.layer_counts()["neither"]
    inner = fields.integer("intermediate_size") or 0
    if mlps and not inner:
        raise fields.refusal("`intermediate_size` is missing: the weights' bytes are not known")
    dense += mlps * gated * hidden * inner
    if sparse:
        size = fields.integer("moe_intermediate_size") or inner
        expert = gated * hidden * size
        shared = fields.integer("shared_experts") or 0
        wide = fields.integer("shared_expert_intermediate_size") or shared * size
        dense += len(sparse) * (gated * hidden * wide + hidden * experts)
    tied = bool(fields.values.get("tie_word_embeddings"))
    return Weights(
        dense=dense,
        expert=expert,
        expert_layers=len(sparse),
        experts=experts if sparse else 0,
        active_experts=active if sparse else 0,
        head=hidden * vocabulary,
        embedding=0 if tied else hidden * vocabulary,
        bytes_per_parameter=parameter_size(fields, geometry.dtype),
        measured_bytes=measured_bytes or geometry.weights_bytes,
    )


def head_parameters(geometry: Geometry, weights: Weights) -> int:
    """Parameters of the MTP head: one more layer a declared one, all its experts, and the joining projection.

    The vocabulary's matrices are the target's own.
    """
    hidden = geometry.fields.need("hidden_size")
    mixers = sum(mixer_parameters(geometry.fields, layer) for layer in geometry.mtp.layers)
    inner = weights.expert * weights.experts
    if not inner:
        inner = 3 * hidden * (geometry.fields.integer("intermediate_size") or 0)
    return mixers + geometry.mtp.declared * (inner + 2 * hidden * hidden)


def parameter_size(fields: Fields, dtype: str) -> float:
    """Bytes a parameter by the checkpoint's quantisation, or its dtype."""
    for place in (fields.outer, fields.values):
        quant = place.get("quantization_config")
        if isinstance(quant, Mapping):
            method = str(quant.get("quant_method", "")).lower()
            if method in QUANTISED:
                return QUANTISED[method]
            algorithm = str(quant.get("quant_algo", "")).lower()
            if "fp4" in algorithm:
                return QUANTISED["nvfp4"]
            if "fp8" in algorithm or quant.get("format") == "float-quantized":
                return 1.0
    return float(DTYPES[dtype].size)


def drafter_parameters(drafter: Drafter) -> int | None:
    """Parameters that a drafter's pass reads, without vocabularies; None where its config is too short."""
    if drafter.weights_bytes:
        return drafter.weights_bytes // int(DTYPES[drafter.dtype].size)
    if drafter.geometry is not None:
        try:
            weights = weights_of(drafter.geometry)
        except UsageError:
            return None
        return weights.active
    if drafter.fields is None or not drafter.fields.has("hidden_size"):
        return None
    try:
        mixers = sum(mixer_parameters(drafter.fields, layer) for layer in drafter.layers)
        hidden, inner = drafter.fields.need("hidden_size"), drafter.fields.need("intermediate_size")
    except UsageError:
        return None
    return mixers + len(drafter.layers) * 3 * hidden * inner


def mixer_parameters(fields: Fields, layer: Layer) -> int:
    """Parameters of a layer's attention and recurrence."""
    hidden = fields.need("hidden_size")
    total = 0
    match layer.attention:
        case Heads(kv_heads=kv, head_dim=size, v_head_dim=value):
            heads = fields.integer("num_attention_heads") or kv
            total += hidden * (heads * size + kv * (size + value) + heads * value)
        case Latent() as latent:
            total += _latent(fields, latent, hidden)
        case None:
            pass
    if layer.state is None:
        return total
    state = layer.state
    match state.kind:
        case "kda":
            linear = fields.values.get("linear_attn_config")
            nested = linear if isinstance(linear, dict) else {}
            size = int(nested.get("head_dim") or fields.integer("linear_head_dim") or fields.need("head_dim"))
            width = state.ssm // size
            total += 4 * hidden * width + 2 * (hidden * size + size * width) + hidden * (width // size)
        case "delta":
            values = fields.need("linear_num_value_heads")
            width = values * fields.need("linear_value_head_dim")
            keys = (fields.integer("linear_num_key_heads") or values) * fields.need("linear_key_head_dim")
            total += hidden * (2 * keys + 2 * width + 2 * values) + width * hidden
        case "mamba2":
            kernel = fields.integer("conv_kernel") or fields.integer("mamba_d_conv") or 4
            before = max(1, kernel - 1)
            width, shared = state.conv // before, state.conv_shared // before
            total += hidden * (2 * width + shared) + width * hidden
        case "mamba1":
            width = state.conv // 3
            total += 2 * hidden * width + width * hidden
        case "conv":
            total += 4 * hidden * hidden
        case _:
            heads = fields.need("num_attention_heads")
            total += 4 * hidden * heads * (fields.integer("head_dim") or hidden // heads)
    return total


def _latent(fields: Fields, latent: Latent, hidden: int) -> int:
    heads = fields.need("num_attention_heads")
    nope, value = fields.need("qk_nope_head_dim"), fields.need("v_head_dim")
    query = heads * (nope + latent.rope_dim)
    rank = fields.integer("q_lora_rank")
    total = hidden * rank + rank * query if rank else hidden * query
    total += hidden * (latent.rank + latent.rope_dim) + latent.rank * heads * (nope + value)
    total += heads * value * hidden
    if latent.indexer:
        index = fields.integer("index_n_heads") or 1
        total += (rank or hidden) * index * latent.indexer.head_dim + hidden * (
            latent.indexer.head_dim + index
        )
    return total


def _expert_layers(geometry: Geometry, experts: int) -> list[int]:
    """Which layers hold experts."""
    fields = geometry.fields
    count = len(geometry.layers)
    if experts < 2:
        return []
    if geometry.family.name == "nemotron_h":
        pattern = str(fields.raw("hybrid_override_pattern") or "")
        return [i for i, letter in enumerate(pattern) if letter == "E"]
    listed = fields.raw("mlp_layer_types")
    if isinstance(listed, list):
        return [i for i, kind in enumerate(listed[:count]) if str(kind) not in ("dense", "mlp")]
    if (dense := fields.integer("first_k_dense_replace")) is not None:
        every = fields.integer("moe_layer_freq") or 1
        return [i for i in range(count) if i >= dense and i % every == 0]
    if step := fields.integer("decoder_sparse_step"):
        only = fields.raw("mlp_only_layers") or []
        return [i for i in range(count) if i not in only and (i + 1) % step == 0]
    if period := fields.integer("expert_layer_period"):
        return [i for i in range(count) if i % period == (fields.integer("expert_layer_offset") or 0)]
    return list(range(count))
