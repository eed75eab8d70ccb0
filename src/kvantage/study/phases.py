"""What is asked of each arm, and how much of it. A phase that is left out is not run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_serializer,
    model_validator,
)

from kvantage.study.fields import Count, Section, Text, Tokens, folder_of, must_exist
from kvantage.study.paths import absolute, locate
from kvantage.study.words import no_such

PhaseName = Literal["probes", "short", "cold", "repeat"]
PHASES: tuple[PhaseName, ...] = ("probes", "short", "cold", "repeat")
BUILTIN = "builtin"
BUILTIN_PROMPTS = ("code", "prose")
DOCUMENTS = "documents"
"""The name of the workload of `cold` and `repeat`."""


class Probes(Section):
    """Questions with one right answer: arithmetic, exact JSON, a tool call, a drawn image."""

    output_tokens: Tokens = Field(
        default=512, description="The longest answer, in tokens; a probe may stop earlier."
    )


def _prompts_by_name(value: object) -> object:
    """`builtin` and `./mine.jsonl` are short for the shipped sets and for one set named after its file."""
    if value == BUILTIN:
        return dict.fromkeys(BUILTIN_PROMPTS, BUILTIN)
    if isinstance(value, str):
        return {Path(value).stem or "prompts": value}
    return value


def _prompt_file(text: str, info: ValidationInfo) -> str:
    if text == BUILTIN:
        return text
    path = absolute(text, folder_of(info))
    if must_exist(info) and not Path(locate(path)).is_file():
        raise ValueError(f"there is no file {locate(path)}; `builtin` is the set that ships with kvantage")
    return path


PromptSet = Annotated[Text, AfterValidator(_prompt_file), WithJsonSchema({"type": "string"})]


class Short(Section):
    """Short prompts, one at a time: warm-ups, then measured repeats of a fixed output length."""

    prompts: Annotated[
        dict[str, PromptSet],
        BeforeValidator(_prompts_by_name),
        WithJsonSchema(
            {
                "anyOf": [
                    {"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1},
                    {"type": "string"},
                ]
            }
        ),
    ] = Field(
        default_factory=lambda: dict.fromkeys(BUILTIN_PROMPTS, BUILTIN),
        min_length=1,
        description="Workloads by name, each `builtin` (code, prose) or a JSONL file of one's own: OpenAI "
        "`messages`, ShareGPT `conversations`, or plain `prompt`, one a line.",
    )
    warmup: int = Field(default=1, ge=0, description="Requests before the measured ones, for each workload.")
    repeats: Count = Field(default=3, description="Measured requests, for each workload.")
    output_tokens: Tokens = Field(default=512, description="Output tokens of every request, exactly.")

    @field_validator("prompts")
    @classmethod
    def _known_sets(cls, prompts: dict[str, str]) -> dict[str, str]:
        for name, text in prompts.items():
            if text == BUILTIN and name not in BUILTIN_PROMPTS:
                raise ValueError(no_such("builtin set of prompts", name, BUILTIN_PROMPTS))
        return prompts


def _list_of_one(value: object) -> object:
    return [value] if isinstance(value, int) and not isinstance(value, bool) else value


class Cold(Section):
    """Waves of distinct long documents, never seen before, several at once."""

    document_tokens: Tokens = Field(description="Length of each document, such as 2000 or 128k (128,000).")
    concurrency: Annotated[
        tuple[Count, ...],
        BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value),
        BeforeValidator(_list_of_one),
        WithJsonSchema(
            {
                "anyOf": [
                    {"type": "array", "items": {"type": "integer", "minimum": 1}, "minItems": 1},
                    {"type": "integer", "minimum": 1},
                ]
            }
        ),
    ] = Field(
        default=(1, 2, 4),
        min_length=1,
        description="How many requests at once: a wave for each, in this order.",
    )
    output_tokens: Tokens = Field(default=512, description="Output tokens of every request, exactly.")
    secrets: Count = Field(
        default=4, description="Secrets in each document, asked for at its end and checked."
    )
    waves: Count = Field(default=1, description="Waves at each concurrency, of documents of their own.")

    @field_validator("concurrency")
    @classmethod
    def _each_once(cls, concurrency: tuple[int, ...]) -> tuple[int, ...]:
        for value in concurrency:
            if concurrency.count(value) > 1:
                raise ValueError(f"{value} stands there twice; more waves are `waves: 2`")
        return concurrency


class Repeat(Section):
    """The cold waves again, the cache now warm: each follows its own cold wave."""

    output_tokens: Tokens = Field(default=2048, description="Output tokens of every request, exactly.")


class Phases(Section):
    """The phases of the study. One that is left out is not run; `probes: {}` runs it with its defaults."""

    probes: Probes | None = Field(default=None, description=str(Probes.__doc__))
    short: Short | None = Field(default=None, description=str(Short.__doc__))
    cold: Cold | None = Field(default=None, description=str(Cold.__doc__))
    repeat: Repeat | None = Field(default=None, description=str(Repeat.__doc__))

    @model_validator(mode="before")
    @classmethod
    def _named_is_run(cls, value: object) -> object:
        if isinstance(value, dict):
            return {name: {} if one is None and name in PHASES else one for name, one in value.items()}
        return value

    @model_serializer(mode="wrap")
    def _only_those_run(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if value is not None}
