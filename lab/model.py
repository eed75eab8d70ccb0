"""The nano models in PyTorch, for training: exact in what they compute, plain in how.

Parameter names are those of the checkpoints, so that a state dict is (nearly) the file: only the
experts are split apart on export. `Target` is the common base: `Mla` (DeepSeek-V3's architecture
with its native MTP layer) and `Dense` (Qwen3's). `Dflash` is the block drafter of either.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 (PyTorch's own habit)
from torch import Tensor, nn

EPS = 1e-6


@dataclass(frozen=True)
class MlaShape:
    """Sizes of the DeepSeek-V3-like target."""

    vocabulary: int = 2048
    hidden: int = 256
    layers: int = 4
    heads: int = 8
    nope: int = 32
    rope: int = 64
    value: int = 32
    lora: int = 512
    dense: int = 384
    experts: int = 8
    active: int = 2
    expert: int = 64
    theta: float = 10000.0


@dataclass(frozen=True)
class DenseShape:
    """Sizes of a Qwen3-like model."""

    vocabulary: int = 2048
    hidden: int = 256
    layers: int = 6
    heads: int = 4
    groups: int = 2  # key/value heads
    head: int = 64
    inner: int = 544
    theta: float = 10000.0


@dataclass(frozen=True)
class DflashShape:
    """Sizes of a DFlash drafter; `taps` are the target layers whose outputs it reads."""

    hidden: int = 256
    layers: int = 2
    heads: int = 4
    groups: int = 2
    head: int = 64
    inner: int = 384
    taps: tuple[int, ...] = (1, 3)
    theta: float = 10000.0
    block: int = 6
    mask: int = 3


class Norm(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + EPS)
        return (y * self.weight.float()).to(x.dtype)


def linear(into: int, out: int) -> nn.Linear:
    return nn.Linear(into, out, bias=False)


def angles(positions: Tensor, size: int, theta: float) -> tuple[Tensor, Tensor]:
    """Cosines and sines [..., size/2] of the positions, in float32."""
    steps = torch.arange(0, size, 2, device=positions.device, dtype=torch.float32) / size
    turn = positions.float()[..., None] / theta**steps
    return turn.cos(), turn.sin()


def rotate_pairs(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotation of neighbouring pairs, as DeepSeek does it; x is [B, H, T, D]."""
    a, b = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    out = torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
    return out.to(x.dtype)


def rotate_halves(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotation of the first half with the second, as Qwen does it; x is [B, H, T, D]."""
    a, b = x.float().chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)


@dataclass
class Cache:
    """Keys and values of the layers of one model, filled up to `length`; room for `room`."""

    room: int
    length: int = 0
    keys: dict[int, Tensor] | None = None
    values: dict[int, Tensor] | None = None

    def extend(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Store k and v [B, H, T, D] at `length` and return all of them so far."""
        if self.keys is None or self.values is None:
            self.keys, self.values = {}, {}
        if layer not in self.keys:
            self.keys[layer] = k.new_zeros(*k.shape[:2], self.room, k.shape[3])
            self.values[layer] = v.new_zeros(*v.shape[:2], self.room, v.shape[3])
        end = self.length + k.shape[2]
        self.keys[layer][:, :, self.length : end] = k
        self.values[layer][:, :, self.length : end] = v
        return self.keys[layer][:, :, :end], self.values[layer][:, :, :end]


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """Attention with grouped heads; values narrower than keys are padded for the fast kernels."""
    if q.shape[2] == 1 and mask is None and not causal:  # one new token: nothing is copied
        grouped = q.reshape(q.shape[0], k.shape[1], -1, q.shape[3])
        scores = (grouped @ k.transpose(-1, -2)).float() / math.sqrt(q.shape[3])
        out = scores.softmax(-1).to(v.dtype) @ v
        return out.reshape(q.shape[0], q.shape[1], 1, -1)
    if k.shape[1] != q.shape[1]:
        k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
        v = v.repeat_interleave(q.shape[1] // v.shape[1], 1)
    width = v.shape[-1]
    if width != q.shape[-1]:
        v = F.pad(v, (0, q.shape[-1] - width))
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
    return out[..., :width]


class MlaAttention(nn.Module):
    def __init__(self, shape: MlaShape) -> None:
        super().__init__()
        s = self.shape = shape
        self.q_proj = linear(s.hidden, s.heads * (s.nope + s.rope))
        self.kv_a_proj_with_mqa = linear(s.hidden, s.lora + s.rope)
        self.kv_a_layernorm = Norm(s.lora)
        self.kv_b_proj = linear(s.lora, s.heads * (s.nope + s.value))
        self.o_proj = linear(s.heads * s.value, s.hidden)

    def project(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        s, (batch, length, _) = self.shape, x.shape
        q = self.q_proj(x).view(batch, length, s.heads, -1).transpose(1, 2)
        latent, k_rope = self.kv_a_proj_with_mqa(x).split((s.lora, s.rope), -1)
        kv = self.kv_b_proj(self.kv_a_layernorm(latent))
        k, v = kv.view(batch, length, s.heads, -1).transpose(1, 2).split((s.nope, s.value), -1)
        q_plain, q_rope = q.split((s.nope, s.rope), -1)
        k_rope = rotate_pairs(k_rope[:, None], cos, sin).expand(-1, s.heads, -1, -1)
        q = torch.cat((q_plain, rotate_pairs(q_rope, cos, sin)), -1)
        return q, torch.cat((k, k_rope), -1), v

    def join(self, out: Tensor) -> Tensor:
        return self.o_proj(out.transpose(1, 2).flatten(2))


class DenseAttention(nn.Module):
    def __init__(self, shape: DenseShape | DflashShape) -> None:
        super().__init__()
        s = self.shape = shape
        self.q_proj = linear(s.hidden, s.heads * s.head)
        self.k_proj = linear(s.hidden, s.groups * s.head)
        self.v_proj = linear(s.hidden, s.groups * s.head)
        self.o_proj = linear(s.heads * s.head, s.hidden)
        self.q_norm, self.k_norm = Norm(s.head), Norm(s.head)

    def queries(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        q = self.q_proj(x).unflatten(-1, (self.shape.heads, -1)).transpose(1, 2)
        return rotate_halves(self.q_norm(q), cos, sin)

    def keys(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        k = self.k_proj(x).unflatten(-1, (self.shape.groups, -1)).transpose(1, 2)
        v = self.v_proj(x).unflatten(-1, (self.shape.groups, -1)).transpose(1, 2)
        return rotate_halves(self.k_norm(k), cos, sin), v

    def project(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.queries(x, cos, sin), *self.keys(x, cos, sin)

    def join(self, out: Tensor) -> Tensor:
        return self.o_proj(out.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self, hidden: int, inner: int) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = linear(hidden, inner), linear(hidden, inner)
        self.down_proj = linear(inner, hidden)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Gate(nn.Module):
    """The router's weights, and the bias that balances the load without a loss."""

    def __init__(self, hidden: int, experts: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(experts, hidden) * 0.02)
        self.register_buffer("e_score_correction_bias", torch.zeros(experts))


class Experts(nn.Module):
    """Every expert computed for every token and weighed: at this size cheaper than dispatch."""

    def __init__(self, shape: MlaShape) -> None:
        super().__init__()
        s = self.shape = shape
        self.gate = Gate(s.hidden, s.experts)
        self.experts_in = nn.Parameter(torch.empty(2 * s.experts * s.expert, s.hidden))
        self.experts_out = nn.Parameter(torch.empty(s.hidden, s.experts * s.expert))
        self.shared_experts = Mlp(s.hidden, s.expert)
        self.load: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        s = self.shape
        with torch.autocast(x.device.type, enabled=False):
            scores = F.linear(x.float(), self.gate.weight.float()).sigmoid()
        chosen = (scores + self.gate.e_score_correction_bias).topk(s.active, -1).indices
        mask = torch.zeros_like(scores).scatter(-1, chosen, 1.0)
        weights = scores * mask
        weights = weights / (weights.sum(-1, keepdim=True) + 1e-20)
        if self.training:
            self.load = mask.detach().flatten(0, -2).mean(0)
        gate, up = F.linear(x, self.experts_in).chunk(2, -1)
        inner = (F.silu(gate) * up).unflatten(-1, (s.experts, s.expert))
        inner = (inner * weights[..., None].to(inner.dtype)).flatten(-2)
        return F.linear(inner, self.experts_out) + self.shared_experts(x)

    @torch.no_grad()
    def balance(self, rate: float = 0.002) -> None:
        """Move the selection bias toward an even load."""
        if self.load is not None:
            self.gate.e_score_correction_bias -= rate * (self.load - self.load.mean()).sign()


class Layer(nn.Module):
    def __init__(self, attention: nn.Module, mlp: nn.Module, hidden: int) -> None:
        super().__init__()
        self.self_attn, self.mlp = attention, mlp
        self.input_layernorm, self.post_attention_layernorm = Norm(hidden), Norm(hidden)

    def forward(
        self, x: Tensor, cos: Tensor, sin: Tensor, cache: Cache | None = None, index: int = 0
    ) -> Tensor:
        q, k, v = self.self_attn.project(self.input_layernorm(x), cos, sin)
        causal = True
        if cache is not None:
            causal = cache.length == 0
            k, v = cache.extend(index, k, v)
        x = x + self.self_attn.join(attend(q, k, v, None, causal and q.shape[2] > 1))
        return x + self.mlp(self.post_attention_layernorm(x))


class Body(nn.Module):
    def __init__(self, vocabulary: int, hidden: int, layers: list[Layer]) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(vocabulary, hidden)
        self.layers = nn.ModuleList(layers)
        self.norm = Norm(hidden)


@dataclass
class Seen:
    """What a target computed: the output of every layer, and the normed last one."""

    layers: list[Tensor]
    hidden: Tensor


class Target(nn.Module):
    """A decoder that can be trained, run with a cache, and tapped by a drafter."""

    model: Body
    rotary: int
    theta: float
    tied: bool
    dtype = torch.bfloat16

    def embed(self, ids: Tensor) -> Tensor:
        return self.model.embed_tokens(ids).to(self.dtype)

    def see(self, ids: Tensor, cache: Cache | None = None) -> Seen:
        start = cache.length if cache else 0
        positions = torch.arange(start, start + ids.shape[1], device=ids.device)
        cos, sin = angles(positions, self.rotary, self.theta)
        x, outputs = self.embed(ids), []
        for index, layer in enumerate(self.model.layers):
            x = layer(x, cos, sin, cache, index)
            outputs.append(x)
        if cache is not None:
            cache.length += ids.shape[1]
        return Seen(outputs, self.model.norm(x))

    def logits(self, hidden: Tensor) -> Tensor:
        head = self.model.embed_tokens.weight if self.tied else self.lm_head.weight
        return F.linear(hidden, head.to(hidden.dtype))

    def balance(self) -> None:
        for module in self.modules():
            if isinstance(module, Experts):
                module.balance()


class Mtp(nn.Module):
    """The native multi-token head: embedding of the next token and hidden state of this one."""

    def __init__(self, shape: MlaShape) -> None:
        super().__init__()
        self.enorm, self.hnorm = Norm(shape.hidden), Norm(shape.hidden)
        self.eh_proj = linear(2 * shape.hidden, shape.hidden)
        self.layer = Layer(MlaAttention(shape), Experts(shape), shape.hidden)
        self.norm = Norm(shape.hidden)

    def enter(self, embedded: Tensor, hidden: Tensor) -> Tensor:
        return self.eh_proj(torch.cat((self.enorm(embedded), self.hnorm(hidden)), -1))


class Mla(Target):
    """DeepSeek-V3's architecture: latent attention, routed experts, one MTP layer."""

    def __init__(self, shape: MlaShape) -> None:
        super().__init__()
        s = self.shape = shape
        self.rotary, self.theta, self.tied = s.rope, s.theta, False
        layers = [
            Layer(MlaAttention(s), Mlp(s.hidden, s.dense) if i == 0 else Experts(s), s.hidden)
            for i in range(s.layers)
        ]
        self.model = Body(s.vocabulary, s.hidden, layers)
        self.lm_head = linear(s.hidden, s.vocabulary)
        self.mtp = Mtp(s)
        start(self)

    def drafts(self, ids: Tensor, hidden: Tensor, steps: int) -> list[Tensor]:
        """Hidden states of the MTP layer at each of `steps` steps, as serving computes them.

        Row i of step s stands at position i + s, has seen the target's state of i and the tokens
        up to i + s + 1, and predicts the token at i + s + 2. The first T - steps rows are real.
        """
        length = ids.shape[1]
        positions = torch.arange(length, device=ids.device)
        own = torch.eye(length, dtype=torch.bool, device=ids.device)
        mask = own.new_ones(length, length).tril()
        keys: list[Tensor] = []
        values: list[Tensor] = []
        made = []
        layer = self.mtp.layer
        for step in range(steps):
            embedded = self.embed(F.pad(ids[:, step + 1 :], (0, step + 1)))
            if step == 0:
                embedded = embedded * (positions > 0)[:, None].to(embedded.dtype)
            x = self.mtp.enter(embedded, hidden)
            cos, sin = angles(positions + step, self.rotary, self.theta)
            q, k, v = layer.self_attn.project(layer.input_layernorm(x), cos, sin)
            keys.append(k)
            values.append(v)
            if step == 0:
                out = attend(q, k, v, None, True)
            else:
                mask = torch.cat((mask, own), 1)
                out = attend(q, torch.cat(keys, 2), torch.cat(values, 2), mask, False)
            x = x + layer.self_attn.join(out)
            x = x + layer.mlp(layer.post_attention_layernorm(x))
            hidden = self.mtp.norm(x)
            made.append(hidden)
        return made


class Dense(Target):
    """Qwen3's architecture with tied embeddings."""

    def __init__(self, shape: DenseShape) -> None:
        super().__init__()
        s = self.shape = shape
        self.rotary, self.theta, self.tied = s.head, s.theta, True
        layers = [Layer(DenseAttention(s), Mlp(s.hidden, s.inner), s.hidden) for _ in range(s.layers)]
        self.model = Body(s.vocabulary, s.hidden, layers)
        start(self)


class Dflash(nn.Module):
    """A block drafter: one pass over an anchor token and masks, beside the target's states."""

    def __init__(self, shape: DflashShape) -> None:
        super().__init__()
        s = self.shape = shape
        self.fc = linear(len(s.taps) * s.hidden, s.hidden)
        self.hidden_norm, self.norm = Norm(s.hidden), Norm(s.hidden)
        self.layers = nn.ModuleList(
            Layer(DenseAttention(s), Mlp(s.hidden, s.inner), s.hidden) for _ in range(s.layers)
        )
        start(self)

    def context(self, layers: list[Tensor]) -> Tensor:
        """The features of the target's tokens, from the outputs of its layers."""
        return self.hidden_norm(self.fc(torch.cat([layers[tap] for tap in self.shape.taps], -1)))

    def forward(self, target: Target, context: Tensor, anchors: Tensor, tokens: Tensor, block: int) -> Tensor:
        """Hidden states [B, A, block, hidden] of blocks that start at `anchors` [B, A].

        `tokens` [B, A] are the anchors' tokens; a block sees the context before its anchor, and all
        of itself. Slot j > 0 predicts the token at anchor + j.
        """
        (batch, number), length, s = anchors.shape, context.shape[1], self.shape
        ids = tokens.new_full((batch, number, block), s.mask)
        ids[:, :, 0] = tokens
        x = target.embed(ids.flatten(1))
        positions = (anchors[..., None] + torch.arange(block, device=anchors.device)).flatten(1)
        cos, sin = (a[:, None] for a in angles(positions, s.head, s.theta))
        places = torch.arange(length, device=anchors.device)
        far_cos, far_sin = angles(places, s.head, s.theta)
        before = places < anchors.repeat_interleave(block, 1)[..., None]
        groups = torch.arange(number, device=anchors.device).repeat_interleave(block)
        same = (groups[:, None] == groups).expand(batch, -1, -1)
        mask = torch.cat((before, same), -1)[:, None]
        for layer in self.layers:
            q, k, v = layer.self_attn.project(layer.input_layernorm(x), cos, sin)
            far_k, far_v = layer.self_attn.keys(context, far_cos, far_sin)
            k, v = torch.cat((far_k, k), 2), torch.cat((far_v, v), 2)
            x = x + layer.self_attn.join(attend(q, k, v, mask, False))
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        return self.norm(x).view(batch, number, block, -1)


def start(module: nn.Module) -> None:
    """Initial weights: normal, with outputs into the residual stream scaled down."""
    for name, weight in module.named_parameters():
        if weight.dim() < 2:
            continue
        if "embed_tokens" in name:
            nn.init.normal_(weight, std=0.02)
            continue
        deviation = 0.5 / math.sqrt(weight.shape[1])
        if name.endswith(("o_proj.weight", "down_proj.weight", "experts_out")):
            deviation *= 0.5
        nn.init.normal_(weight, std=deviation)


def shape_of(model: nn.Module) -> dict[str, Any]:
    """The sizes of a model, for its config and its checkpoint."""
    return asdict(model.shape)  # type: ignore[call-overload, no-any-return]
