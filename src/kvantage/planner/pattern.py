"""What kind of layer stands where: every spelling that public configs use, read into one list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from kvantage.planner.families import UNNAMED, Family
from kvantage.planner.fields import Fields

Kind = Literal["full", "sliding", "chunked", "recurrent", "conv", "both", "none"]

_NAMES: dict[str, Kind] = {
    **dict.fromkeys(
        (
            "full_attention",
            "attention",
            "attn",
            "full",
            "global",
            "global_attention",
            "indexed_attention",
            "mla",
        ),
        "full",
    ),
    **dict.fromkeys(
        ("sliding_attention", "sliding", "local", "local_attention", "swa", "sliding_window_attention"),
        "sliding",
    ),
    "chunked_attention": "chunked",
    **dict.fromkeys(
        ("linear_attention", "linear", "mamba", "mamba2", "recurrent", "kda", "gdn", "ssm"), "recurrent"
    ),
    **dict.fromkeys(("conv", "short_conv"), "conv"),
    "hybrid": "both",
    **dict.fromkeys(("mlp", "moe", "none", "dense", "sparse_moe"), "none"),
}
_WINDOWS = ("sliding_window", "interleaved_sliding_window")
_LETTERS: dict[str, Kind] = {"M": "recurrent", "*": "full", "-": "none", "E": "none"}


def layer_kinds(fields: Fields, family: Family) -> list[Kind]:
    """One kind a layer. Raises UsageError where a pattern is there but cannot be read."""
    for read in (_listed, _lettered, _flagged, _indexed, _spaced):
        kinds = read(fields, family)
        if kinds is not None:
            return kinds
    count = layer_count(fields, family)
    if family.parallel:
        return ["both"] * count
    if family.every:
        return ["full" if (i + 1) % family.every == 0 else "recurrent" for i in range(count)]
    if family.recurrent == "lightning":
        return ["full" if (i + 1) % 2 else "recurrent" for i in range(count)]
    if family.recurrent != "none":
        if family.name in ("mamba", "mamba2", "falcon_mamba", "granitemoehybrid"):
            return ["recurrent"] * count
        raise fields.refusal(
            f"nothing in the config says which of the {count} layers of {family.name} are attention"
        )
    return _windowed(fields, family, count)


def layer_count(fields: Fields, family: Family) -> int:
    """How many attention or recurrent blocks are stacked (LongCat counts two attentions a layer)."""
    pattern = fields.raw("hybrid_override_pattern")
    if not fields.has("num_hidden_layers") and isinstance(pattern, str):
        return len(pattern)
    listed = fields.raw("layers_block_type") or fields.raw("layer_types")
    if not fields.has("num_hidden_layers") and isinstance(listed, list):
        return len(listed)
    count = fields.need("num_hidden_layers")
    return count * 2 if family.doubled and fields.values.get("num_layers") == count else count


def _named(fields: Fields, value: Any) -> Kind:
    kind = _NAMES.get(str(value).lower())
    if kind is None:
        raise fields.refusal(
            f"the layer type `{value}` is not known to the planner, and its cache is not guessed"
        )
    return kind


def _listed(fields: Fields, family: Family) -> list[Kind] | None:
    """`layer_types`, `layers_block_type`, `block_types` (repeated), `attn_type_list` (0 linear, 1 full)."""
    listed = fields.sequence("layer_types") or fields.sequence("layers_block_type")
    if listed:
        count = layer_count(fields, family)
        extra = fields.integer("mtp_layers") or 0
        if len(listed) == count + extra:
            listed = listed[:count]
        if len(listed) != count:
            raise fields.refusal(f"{len(listed)} layer types for {count} layers")
        kinds = [_named(fields, value) for value in listed]
        if fields.raw("use_sliding_window") is False and "sliding" in kinds:
            fields.notes.append("use_sliding_window is false: layers listed as sliding keep every token")
            kinds = ["full" if kind == "sliding" else kind for kind in kinds]
        return kinds
    if (repeated := fields.sequence("block_types")) and family.recurrent == "lru":
        count = layer_count(fields, family)
        kinds = [_named(fields, repeated[i % len(repeated)]) for i in range(count)]
        return ["sliding" if kind == "full" else kind for kind in kinds]
    if (numbers := fields.sequence("attn_type_list")) is not None:
        return [
            "full" if number else "recurrent" for number in _sized(fields, family, numbers, "attn_type_list")
        ]
    return None


def _lettered(fields: Fields, family: Family) -> list[Kind] | None:
    """`hybrid_override_pattern`: M a Mamba layer, * attention, - an MLP, E experts."""
    pattern = fields.raw("hybrid_override_pattern")
    if not isinstance(pattern, str) or not pattern:
        return None
    letters = [letter for letter in pattern if letter not in " |/"]
    unknown = sorted(set(letters) - set(_LETTERS))
    if unknown:
        raise fields.refusal(f"hybrid_override_pattern has a letter that is not known: `{unknown[0]}`")
    count = fields.integer("num_hidden_layers")
    if count and count != len(letters):
        raise fields.refusal(
            f"hybrid_override_pattern names {len(letters)} layers, num_hidden_layers says {count}"
        )
    return [_LETTERS[letter] for letter in letters]


def _flagged(fields: Fields, family: Family) -> list[Kind] | None:
    """`hybrid_layer_pattern` (1 is windowed), `no_rope_layers` (0 keeps all, where chunks are set)."""
    if (flags := fields.sequence("hybrid_layer_pattern")) is not None:
        return [
            "sliding" if flag else "full" for flag in _sized(fields, family, flags, "hybrid_layer_pattern")
        ]
    if (windows := window_list(fields)) is not None:
        return ["sliding" if _positive(window) else "full" for window in _cycled(fields, family, windows)]
    if family.name == "llama4" or (family is UNNAMED and fields.has("no_rope_layers")):
        count = layer_count(fields, family)
        if not fields.integer("attention_chunk_size"):
            return ["full"] * count
        rope = fields.sequence("no_rope_layers")
        interval = fields.integer("no_rope_layer_interval", 4) or 4
        turned = rope if rope else [(i + 1) % interval for i in range(count)]
        return ["chunked" if flag else "full" for flag in _sized(fields, family, turned, "no_rope_layers")]
    return None


def _indexed(fields: Fields, family: Family) -> list[Kind] | None:
    """Lists of layer numbers: `linear_attn_config` (from 1), `mla_layers`, `attn_layer_indices`."""
    count = layer_count(fields, family)
    linear = fields.values.get("linear_attn_config")
    if isinstance(linear, dict):
        full, rest = linear.get("full_attn_layers"), linear.get("kda_layers")
        if isinstance(full, list) or isinstance(rest, list):
            return _from_one(fields, full, rest, count)
    for name, rest in (
        ("mla_layers", "recurrent"),
        ("full_attn_idxs", "conv"),
        ("attn_layer_indices", "recurrent"),
        ("full_attention_layers", "recurrent"),
    ):
        if (full_at := fields.sequence(name)) is None:
            continue
        _check_numbers(fields, full_at, name, range(count))
        other: Kind = "conv" if rest == "conv" else "recurrent"
        return ["full" if i in full_at else other for i in range(count)]
    if (both := fields.sequence("hybrid_layer_ids")) is not None:
        return ["both" if i in both else "recurrent" for i in range(count)]
    return None


def _from_one(fields: Fields, full: Any, rest: Any, count: int) -> list[Kind]:
    """`full_attn_layers` and `kda_layers`: layers are counted from 1 there, unless a 0 is among them."""
    name = "linear_attn_config"
    given = [list(numbers) for numbers in (full, rest) if isinstance(numbers, list)]
    base = 0 if any(0 in numbers for numbers in given) else 1
    for numbers in given:
        _check_numbers(fields, numbers, name, range(base, count + base))
    if isinstance(full, list) and isinstance(rest, list):
        if set(full) & set(rest) or len(set(full)) + len(set(rest)) != count:
            raise fields.refusal(
                f"{name} lists {len(full)} full and {len(rest)} linear layers; the model has {count}"
            )
        return ["full" if i + base in full else "recurrent" for i in range(count)]
    if isinstance(full, list):
        return ["full" if i + base in full else "recurrent" for i in range(count)]
    return ["recurrent" if i + base in rest else "full" for i in range(count)]


def _spaced(fields: Fields, family: Family) -> list[Kind] | None:
    """A period: `attn_layer_period` and `_offset`, `full_attention_interval`, `layer_group_size`."""
    if family.windows != "none":
        return None
    if period := fields.integer("attn_layer_period"):
        offset = fields.integer("attn_layer_offset", 0)
        return ["full" if i % period == offset else "recurrent" for i in range(layer_count(fields, family))]
    for name in ("full_attention_interval", "layer_group_size"):
        if every := fields.integer(name):
            count = layer_count(fields, family)
            whole = count
            if name == "layer_group_size" and fields.has("short_conv_kernel_size"):
                whole = count // every * every  # Bailing V3: a last group that is not whole is full attention
            return ["recurrent" if (i + 1) % every and i < whole else "full" for i in range(count)]
    return None


def _windowed(fields: Fields, family: Family, count: int) -> list[Kind]:
    """No list: windows by the architecture's rule, where there is a window and it is not switched off."""
    window = window_size(fields)
    flag = fields.raw("use_sliding_window")
    used = flag is True if family.flagged else flag is not False
    if not window or not used:
        return ["full"] * count
    if family is UNNAMED and flag is True and fields.has("max_window_layers"):
        first = fields.need("max_window_layers")
        return ["sliding" if i >= first else "full" for i in range(count)]
    pattern = next(
        (
            fields.values[name]
            for name in ("sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers")
            if fields.values.get(name) is not None
        ),
        None,
    )
    if isinstance(pattern, str) and pattern:
        return ["sliding" if pattern[i % len(pattern)] == "L" else "full" for i in range(count)]
    if isinstance(pattern, int) and pattern > 0 and (family.windows == "period" or family is UNNAMED):
        return ["sliding" if (i + 1) % pattern else "full" for i in range(count)]
    match family.windows:
        case "all":
            return ["sliding"] * count
        case "tail":
            first = fields.integer("max_window_layers", count) or 0
            return ["sliding" if i >= first else "full" for i in range(count)]
        case "period":
            last = count - 1 if family.name == "gemma4" else count  # its class makes the last layer full
            return ["sliding" if (i + 1) % family.period and i != last else "full" for i in range(count)]
    if flag is True or family.windows == "listed" or family.name.startswith("a config"):
        raise fields.refusal(
            f"sliding_window is {window}, and nothing says which of the {count} layers use it: not guessed"
        )
    return ["full"] * count


def window_size(fields: Fields, layer: int = 0) -> int | None:
    """The window in tokens of a windowed layer, by any of its names; None where there is none."""
    if (listed := window_list(fields)) is not None:
        value = listed[layer % len(listed)]
        return int(value) if _positive(value) else None
    for name in (*_WINDOWS, "sliding_window_size", "attention_window_size", "window_size"):
        value = fields.raw(name)
        if _positive(value):
            return int(value)
    return None


def window_list(fields: Fields) -> list[Any] | None:
    """Windows given layer by layer (null, 0 or -1: the layer keeps every token), or None."""
    for name in ("sliding_windows", *_WINDOWS):
        value = fields.values.get(name)
        if isinstance(value, list) and value:
            if any(isinstance(one, bool) or not isinstance(one, int | None) for one in value):
                raise fields.refusal(f"`{name}` lists {value!r}: whole numbers or null were expected")
            return value
    return None


def _cycled(fields: Fields, family: Family, listed: list[Any]) -> list[Any]:
    """A list a layer, or one that repeats."""
    count = layer_count(fields, family)
    if len(listed) > count + (fields.integer("mtp_layers") or 0):
        raise fields.refusal(f"{len(listed)} windows are listed for {count} layers")
    return [listed[i % len(listed)] for i in range(count)]


def _positive(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _sized(fields: Fields, family: Family, listed: Sequence[Any], name: str) -> Sequence[Any]:
    count = layer_count(fields, family)
    if len(listed) < count or len(listed) > count + (fields.integer("mtp_layers") or 0):
        raise fields.refusal(f"`{name}` has {len(listed)} entries for {count} layers")
    return listed[:count]


def _check_numbers(fields: Fields, numbers: Sequence[Any], name: str, allowed: range) -> None:
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int) or number not in allowed:
            raise fields.refusal(f"`{name}` names layer {number!r}; the model has {len(allowed)}")
