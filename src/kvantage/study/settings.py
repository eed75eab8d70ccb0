"""What a server is asked for, in words that belong to no engine: `common`, and each arm's own."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import (
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from kvantage.study.environment import is_secret
from kvantage.study.fields import (
    Bytes,
    Count,
    Dtype,
    ExactTokens,
    Section,
    Text,
    empty_if_nothing,
    folder_of,
    plain,
)

Flags = dict[str, Any]


class SamplerSettings(Section):
    """Sampler fields, pinned in every arm and sent with every request."""

    temperature: float = Field(default=0.0, ge=0, description="0 is greedy.")
    top_p: float = Field(default=1.0, gt=0, le=1, description="Nucleus sampling; 1 is off.")
    top_k: Count | None = Field(default=None, description="Keep the k likeliest tokens; leave out for all.")
    min_p: float = Field(default=0.0, ge=0, le=1, description="0 is off.")
    presence_penalty: float = Field(default=0.0, ge=-2, le=2, description="0 is off.")
    frequency_penalty: float = Field(default=0.0, ge=-2, le=2, description="0 is off.")
    repetition_penalty: float = Field(default=1.0, gt=0, description="1 is off.")
    seed: int = Field(default=0, ge=0, description="The sampler's seed, sent with each request.")

    @model_serializer(mode="wrap")
    def _only_what_was_said(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if name in self.model_fields_set}


def flag_name(typed: str) -> str:
    """One spelling a flag: `--kv_cache_dtype` and `kv-cache-dtype` are the same; `-md` stays `-md`."""
    if typed.startswith("-") and not typed.startswith("--"):
        return typed
    return typed.removeprefix("--").replace("_", "-")


def _named_once(value: object, info: ValidationInfo) -> object:
    if not isinstance(value, dict):
        return value
    flags: Flags = {}
    for typed, given in value.items():
        name = flag_name(str(typed))
        if not name.strip("-") or any(mark in name for mark in " =\t\n"):
            raise ValueError(f"`{typed}` is not a flag's name: write `name: value`")
        if name in flags:
            raise ValueError(f"`{typed}` is given twice, in two spellings")
        if is_secret(name, given):
            raise ValueError(
                f"`{typed}` looks like a secret, and a study is stored and shared: "
                "set it in the environment instead, as `NAME: '${NAME}'` under `env`"
            )
        flags[name] = plain(given, folder_of(info))
    return flags


class Settings(Section):
    """Settings of a server. What is left out is left to the engine, and read back from it."""

    tensor_parallel_size: Count | None = Field(default=None, description="Devices that share each layer.")
    nodes: Count | None = Field(default=None, description="Machines that serve one model together.")
    memory_fraction: float | None = Field(
        default=None, gt=0, lt=1, description="Share of the device's memory that the server may take, 0 to 1."
    )
    pool_bytes: Bytes | None = Field(
        default=None, description="KV pool in bytes, such as 96MiB, instead of `memory_fraction`."
    )
    pool_tokens: ExactTokens | None = Field(
        default=None, description="Ceiling of the KV pool in tokens: the server may grant less."
    )
    kv_dtype: Dtype | None = Field(default=None, description="Type of the target's KV cache.")
    dtype: Dtype | None = Field(default=None, description="Type of the target's weights and activations.")
    context_length: ExactTokens | None = Field(
        default=None, description="The longest request, prompt and answer together, in tokens."
    )
    chunked_prefill: ExactTokens | None = Field(
        default=None, description="Prompt tokens in one prefill step."
    )
    max_running_requests: Count | None = Field(default=None, description="Requests that run at once.")
    page_size: ExactTokens | None = Field(default=None, description="Tokens in one block of the KV pool.")
    prefix_caching: bool | None = Field(
        default=None, description="Whether prompts that begin alike share their KV."
    )
    eager: bool | None = Field(
        default=None, description="true: no compilation and no captured graphs; starts faster."
    )
    samplers: SamplerSettings = Field(
        default_factory=SamplerSettings, description="Sampler fields, pinned in every arm; greedy by default."
    )
    flags: Annotated[Flags, BeforeValidator(_named_once), BeforeValidator(empty_if_nothing)] = Field(
        default_factory=dict,
        description="The engine's own flags, without dashes: `name: value`; `true` for a flag that takes no "
        "value; nothing (`name:`) in an arm takes a common flag away. `./x` is relative to the study file.",
    )
    env: Annotated[dict[str, Text], BeforeValidator(empty_if_nothing)] = Field(
        default_factory=dict,
        description="Environment variables of the server. `${NAME}` is taken from kvantage's own environment "
        "when the server starts, and is recorded as `${NAME}`: secrets are written so.",
    )

    @field_validator("env")
    @classmethod
    def _no_secret_in_the_file(cls, env: dict[str, str]) -> dict[str, str]:
        for name, text in env.items():
            if not name or "=" in name or "\x00" in name:
                raise ValueError(f"`{name}` is not a variable's name")
            if is_secret(name, text):
                raise ValueError(
                    f"`{name}` looks like a secret, and a study is stored and shared: "
                    f"write `{name}: '${{{name}}}'` and set it in the environment"
                )
        return env

    @model_validator(mode="after")
    def _one_pool(self) -> Self:
        if self.memory_fraction is not None and self.pool_bytes is not None:
            raise ValueError("`memory_fraction` and `pool_bytes` both size the pool: keep one")
        return self

    @model_serializer(mode="wrap")
    def _only_what_was_said(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if name in self.model_fields_set}
