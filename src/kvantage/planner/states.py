"""The recurrent state of a layer, by the fields that its kind of layer declares."""

from __future__ import annotations

from kvantage.planner.families import Family
from kvantage.planner.fields import Fields
from kvantage.planner.layers import State


def recurrent_state(fields: Fields, family: Family) -> State | str:
    """What a recurrent layer keeps of one sequence, or in a sentence what the config does not tell."""
    linear = fields.values.get("linear_attn_config")
    nested = linear if isinstance(linear, dict) else {}
    heads = _either(nested.get("num_heads"), fields.integer("linear_num_heads"))
    head_dim = _either(nested.get("head_dim"), fields.integer("linear_head_dim"))
    kernel = _either(nested.get("short_conv_kernel_size"), fields.integer("linear_conv_kernel_dim"))
    if family.recurrent == "own_kda":
        heads, head_dim = fields.integer("num_attention_heads"), fields.integer("head_dim")
        kernel = fields.integer("short_conv_kernel_size")
        if not kernel:  # Bailing V2.5: lightning attention, which has no convolution
            return _lightning(fields)
    if fields.integer("linear_num_value_heads"):
        return _delta(fields)
    if heads and head_dim and kernel:
        return _kda(heads, head_dim, kernel)
    if family.recurrent == "lightning":
        return _lightning(fields)
    if family.recurrent == "lru":
        return _lru(fields)
    mamba = _mamba(fields, family)
    if mamba is not None:
        return mamba
    return (
        "the config does not give the heads, the head size and the convolution of its recurrent layers, "
        "and their state is not guessed"
    )


def conv_state(fields: Fields) -> State:
    """A short convolution's tail: (conv_dim, else hidden_size) x (conv_L_cache - 1)."""
    width = fields.integer("conv_dim") or fields.need("hidden_size")
    return State("conv", width * (fields.need("conv_L_cache") - 1), 0)


def _kda(heads: int, head_dim: int, kernel: int) -> State:
    """Kimi Delta Attention (arXiv 2510.26692): q, k and v each convolved; one square matrix a head."""
    return State("kda", 3 * heads * head_dim * (kernel - 1), heads * head_dim * head_dim)


def _delta(fields: Fields) -> State:
    """Gated DeltaNet (arXiv 2412.06464): q, k and v convolved together; a key x value matrix a value head."""
    values = fields.need("linear_num_value_heads")
    keys = fields.integer("linear_num_key_heads") or values
    key_dim, value_dim = fields.need("linear_key_head_dim"), fields.need("linear_value_head_dim")
    kernel = fields.need("linear_conv_kernel_dim")
    return State(
        "delta", (2 * keys * key_dim + values * value_dim) * (kernel - 1), values * key_dim * value_dim
    )


def _mamba(fields: Fields, family: Family) -> State | None:
    """Mamba 2 (arXiv 2405.21060) where heads are declared, Mamba 1 (arXiv 2312.00752) where they are not."""
    state = _first(fields, "ssm_state_size", "mamba_d_state", "state_size")
    kernel = _first(fields, "conv_kernel", "mamba_d_conv", "conv_kernel_size", "d_conv")
    if not state or not kernel:
        return None
    heads = _first(fields, "mamba_num_heads", "mamba_n_heads", "n_mamba_heads")
    if heads is None and fields.has("n_groups") and fields.has("head_dim"):
        heads = fields.integer("num_heads")
    hidden = fields.need("hidden_size")
    inner = _first(fields, "mamba_d_ssm", "intermediate_size_ssm")
    if heads:
        size = fields.raw("mamba_head_dim") or fields.raw("mamba_d_head") or fields.raw("mamba_headdim")
        if not isinstance(size, int):
            widened = _first(fields, "mamba_expand", "expand") or 2
            size = (inner or widened * hidden) // heads
        groups = _first(fields, "n_groups", "mamba_n_groups", "mamba_ngroups", "mamba_num_groups") or 1
        shared = 2 * groups * state * (kernel - 1)
        return State("mamba2", heads * size * (kernel - 1), heads * size * state, shared, groups)
    if family.name in ("mamba", "falcon_mamba") and (width := fields.integer("intermediate_size")):
        return State("mamba1", width * (kernel - 1), width * state)  # it wins over `expand` there
    expand = _first(fields, "mamba_expand", "expand")
    if expand is None:
        return None
    return State("mamba1", expand * hidden * (kernel - 1), expand * hidden * state)


def _lightning(fields: Fields) -> State:
    """Lightning attention (arXiv 2405.17381): one square matrix a head, no convolution."""
    heads = fields.need("num_attention_heads")
    head_dim = fields.integer("head_dim") or fields.need("hidden_size") // heads
    return State("lightning", 0, heads * head_dim * head_dim)


def _lru(fields: Fields) -> State:
    """Griffin's gated linear recurrence (arXiv 2402.19427): a number a channel, and a convolution's tail."""
    width = fields.integer("lru_width") or fields.need("hidden_size")
    return State("lru", width * ((fields.integer("conv1d_width") or 4) - 1), width)


def _first(fields: Fields, *names: str) -> int | None:
    return next((value for name in names if (value := fields.integer(name)) is not None), None)


def _either(first: object, second: int | None) -> int | None:
    return first if isinstance(first, int) and not isinstance(first, bool) else second
