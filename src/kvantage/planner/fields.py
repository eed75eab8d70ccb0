"""A model's config.json read field by field: spellings of one thing, and refusals by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kvantage.core import UsageError

# Where a multimodal or wrapped model keeps its language model, in the order in which they are looked for.
NESTED = (
    "text_config",
    "language_config",
    "llm_config",
    "transformer_layer_config",
    "thinker_config",
    "language_model",
)

SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "num_hidden_layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "hidden_size": ("hidden_size", "n_embd", "d_model", "dim"),
    "num_attention_heads": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "num_key_value_heads": (
        "num_key_value_heads",
        "num_kv_heads",
        "n_head_kv",
        "n_kv_heads",
        "kv_n_heads",
        "multi_query_group_num",
        "num_attention_groups",
        "num_query_groups",
        "num_key_value_heads_per_layer",
    ),
    "head_dim": ("head_dim", "attention_head_dim", "kv_channels", "d_head", "hidden_size_per_head"),
    "kv_lora_rank": ("kv_lora_rank", "attention_kv_lora_dim"),
    "qk_rope_head_dim": ("qk_rope_head_dim", "attention_qk_rope_dim"),
    "max_position_embeddings": (
        "max_position_embeddings",
        "model_max_length",
        "n_positions",
        "max_seq_len",
        "seq_length",
        "max_sequence_length",
    ),
    "dtype": ("dtype", "torch_dtype"),
    "experts": ("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts"),
    "active_experts": (
        "num_experts_per_tok",
        "num_experts_per_token",
        "moe_topk",
        "top_k_experts",
        "moe_top_k",
        "moe_k",
    ),
    "shared_experts": ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts"),
    "moe_intermediate_size": ("moe_intermediate_size", "expert_ffn_hidden_size"),
    "mtp_layers": (
        "num_nextn_predict_layers",
        "mtp_num_hidden_layers",
        "num_mtp_layers",
        "mtp_num_layers",
        "num_mtp_modules",
    ),
}

COUNTED = ("num_hidden_layers", "mtp_layers")
MOST = 10_000
"""More layers than this are a mistake in a file, not a model."""


@dataclass
class Fields:
    """A config's text model, with the fields around it as a fallback for dtype and quantisation.

    `where` is shown in errors; `notes` gathers what was taken from an architecture's own default.
    """

    values: Mapping[str, Any]
    outer: Mapping[str, Any]
    where: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def raw(self, name: str) -> Any:
        """The first spelling of `name` that is not null, else the architecture's default, else None."""
        for place in self._places(name):
            for spelling in SPELLINGS.get(name, (name,)):
                value = place.get(spelling)
                if value is not None:
                    return value
        if name in self.defaults:
            self._note_default(name)
            return self.defaults[name]
        return None

    def has(self, name: str) -> bool:
        """True where the config itself gives a value that is not null."""
        spellings = SPELLINGS.get(name, (name,))
        return any(place.get(spelling) is not None for place in self._places(name) for spelling in spellings)

    def integer(self, name: str, default: int | None = None) -> int | None:
        """A whole number, or `default`. Zero is a value. Raises UsageError on anything else."""
        value = self.raw(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
            raise self.refusal(f"`{name}` is {value!r}: a whole number was expected")
        if value < 0:
            raise self.refusal(f"`{name}` is {value!r}: it cannot be negative")
        if name in COUNTED and value > MOST:
            raise self.refusal(f"`{name}` is {value!r}: no model has so many")
        return int(value)

    def need(self, name: str) -> int:
        """A whole number above zero that must be there."""
        value = self.integer(name)
        if not value:
            raise self.refusal(f"`{name}` is missing from the config, and it is not guessed")
        return value

    def sequence(self, name: str) -> Sequence[Any] | None:
        """A list, or None. Raises UsageError where something else stands there."""
        value = self.raw(name)
        if value is None:
            return None
        if not isinstance(value, list | tuple):
            raise self.refusal(f"`{name}` is {value!r}: a list was expected")
        return value

    def text(self, name: str) -> str | None:
        """A text field, also looked for around the text model (dtype stands there in wrapped configs)."""
        for spelling in SPELLINGS.get(name, (name,)):
            for place in (self.values, self.outer):
                value = place.get(spelling)
                if isinstance(value, str) and value:
                    return value
        return None

    def refusal(self, message: str) -> UsageError:
        """An error that says which config it is about."""
        return UsageError(message, where=self.where)

    def _places(self, name: str) -> tuple[Mapping[str, Any], ...]:
        """A wrapped model's prediction head may be declared around its text model."""
        return (self.values, self.outer) if name == "mtp_layers" else (self.values,)

    def _note_default(self, name: str) -> None:
        note = f"the config leaves out {name}; its architecture's own default is {self.defaults[name]}"
        if note not in self.notes:
            self.notes.append(note)


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The language model's own fields: the nested config where there is one (nested twice in omni models).

    Where only the shell counts layers, its fields stand for those that the nested config leaves out.
    """
    found = config
    for _ in range(3):
        inner = next((found[name] for name in NESTED if isinstance(found.get(name), Mapping)), None)
        if inner is None or not inner:
            return found
        if _counts_layers(found) and not _counts_layers(inner):
            around = {name: value for name, value in found.items() if not isinstance(value, Mapping)}
            return {**around, **inner}
        found = inner
    return found


def _counts_layers(config: Mapping[str, Any]) -> bool:
    return any(config.get(name) is not None for name in SPELLINGS["num_hidden_layers"])
