"""What is asked of each arm, and how much of it. A phase that is left out is not run."""

from __future__ import annotations

from itertools import pairwise
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

from kvantage.study.fields import Count, Latency, Section, Text, Tokens, folder_of, must_exist
from kvantage.study.paths import absolute, locate
from kvantage.study.words import no_such

PhaseName = Literal["ttft", "probes", "short", "sweep", "cold", "repeat", "exactness"]
PHASES: tuple[PhaseName, ...] = ("ttft", "probes", "short", "sweep", "cold", "repeat", "exactness")
"""In the order of work: the ladder is first, so that it sees the first request after boot."""
BUILTIN = "builtin"
SHORTEST = 100
"""The fewest tokens that a document can have."""
BUILTIN_PROMPTS = ("code", "prose")
DOCUMENTS = "documents"
"""The name of the workload of `cold` and `repeat`."""
FIRST = "first"
"""The workload of `ttft` that is the first request after boot; every other is a length in tokens."""


class Ttft(Section):
    """A ladder of prompt lengths: the first token of a document never seen, then of the same from the cache,
    twice; and the first request after boot apart.
    """

    lengths: Annotated[
        tuple[Tokens, ...],
        BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value),
    ] = Field(
        default=(1000, 4000, 16000),
        min_length=1,
        description="Lengths of the documents in tokens, such as [1k, 4k, 16k]: a rung for each, in this "
        "order. The rates by length need two rungs, the check for a cache three, or two and a cache.",
    )
    documents: Count = Field(
        default=3, description="Distinct documents of each length: with one, noise cannot be told."
    )
    output_tokens: Tokens = Field(default=4, description="Output tokens of every request, exactly.")

    @field_validator("lengths")
    @classmethod
    def _ascending(cls, lengths: tuple[int, ...]) -> tuple[int, ...]:
        if lengths[0] < SHORTEST:
            raise ValueError(f"needs documents of at least {SHORTEST} tokens, not {lengths[0]}")
        for before, after in pairwise(lengths):
            if after <= before:
                raise ValueError(f"goes up: {after:,} does not come after {before:,}")
        return lengths


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


def _known_sets(prompts: dict[str, str]) -> dict[str, str]:
    for name, text in prompts.items():
        if text == BUILTIN and name not in BUILTIN_PROMPTS:
            raise ValueError(no_such("builtin set of prompts", name, BUILTIN_PROMPTS))
    return prompts


PromptSets = Annotated[
    dict[str, PromptSet],
    BeforeValidator(_prompts_by_name),
    AfterValidator(_known_sets),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1},
                {"type": "string"},
            ]
        }
    ),
]


class Short(Section):
    """Short prompts, one at a time: warm-ups, then measured repeats of a fixed output length."""

    prompts: PromptSets = Field(
        default_factory=lambda: dict.fromkeys(BUILTIN_PROMPTS, BUILTIN),
        min_length=1,
        description="Workloads by name, each `builtin` (code, prose) or a JSONL file of one's own: OpenAI "
        "`messages`, ShareGPT `conversations`, or plain `prompt`, one a line.",
    )
    warmup: int = Field(default=1, ge=0, description="Requests before the measured ones, for each workload.")
    repeats: Count = Field(default=3, description="Measured requests, for each workload.")
    output_tokens: Tokens = Field(default=512, description="Output tokens of every request, exactly.")


def _list_of_one(value: object) -> object:
    return [value] if isinstance(value, int) and not isinstance(value, bool) else value


Concurrencies = Annotated[
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
]


class Sweep(Section):
    """Short prompts in a closed loop: so many in flight at every moment, from one to more than the server
    runs at once. Where the server no longer runs them all, the figures are those of a queue.
    """

    prompts: PromptSets = Field(
        default_factory=lambda: dict.fromkeys(BUILTIN_PROMPTS, BUILTIN),
        min_length=1,
        description="Workloads by name, as in `short`; no prompt is sent twice.",
    )
    concurrency: Concurrencies = Field(
        default=(1, 2, 4, 8),
        min_length=1,
        description="How many requests in flight: a closed loop for each, in this order.",
    )
    rounds: Annotated[int, Field(ge=2)] = Field(
        default=4,
        description="Requests for each place in the loop, one after another. The ramp at both ends is cut, "
        "so that more rounds give a longer steady window.",
    )
    output_tokens: Tokens = Field(default=256, description="Output tokens of every request, exactly.")
    ttft_limit: Latency | None = Field(
        default=None, description="For goodput: the longest that a first token may take, such as 2s."
    )
    tpot_limit: Latency | None = Field(
        default=None,
        description="For goodput: the longest mean time for each token after the first, such as 50ms.",
    )

    @field_validator("concurrency")
    @classmethod
    def _each_once(cls, concurrency: tuple[int, ...]) -> tuple[int, ...]:
        for value in concurrency:
            if concurrency.count(value) > 1:
                raise ValueError(f"{value} stands there twice; more requests are `rounds: 8`")
        return concurrency


class Cold(Section):
    """Waves of distinct long documents, never seen before, several at once."""

    document_tokens: Tokens = Field(description="Length of each document, such as 2000 or 128k (128,000).")
    concurrency: Concurrencies = Field(
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


class Exactness(Section):
    """Does speculation change the answers, by more than the server changes its own? The same prompts again
    and again, alone and under load, compared token by token; the control scores what every arm said.
    """

    prompts: PromptSet = Field(
        default=BUILTIN,
        description="`builtin` (twenty prompts of eight kinds) or a JSONL file of one's own, as in `short`.",
    )
    output_tokens: Annotated[Tokens, Field(ge=64, le=2000)] = Field(
        default=512, description="The longest answer, 64 to 2,000 tokens; an answer may end earlier."
    )
    repeats: Annotated[int, Field(ge=2)] = Field(
        default=2,
        description="How often each prompt is asked, whole; once more it is streamed. The control needs two "
        "to be compared with itself.",
    )
    concurrency: Count | None = Field(
        default=None,
        description="Beside one at a time, at how many at once. Left out: the study's highest.",
    )
    samples: int = Field(
        default=200,
        ge=0,
        description="Short answers at `temperature`, from each of `prefixes` prompts: is the distribution of "
        "the next tokens the same? 0 leaves it out.",
    )
    prefixes: Count = Field(default=4, description="Prompts that are sampled from, spread over the set.")
    temperature: Annotated[float, Field(gt=0, le=2)] = Field(default=1.0, description="Of the samples.")
    tasks: int = Field(
        default=10,
        ge=0,
        description="Items of each kind that have one right answer: sums, JSON, tool calls, recall. 0 leaves "
        "them out.",
    )
    quantile: Annotated[float, Field(gt=0.5, lt=1)] = Field(
        default=0.999,
        description="The noise floor is this quantile of the gaps of the control's own tokens, fixed before.",
    )
    margin: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.05,
        description="Two arms are as often right when the difference is surely below this, such as 0.05.",
    )


def _told(section: type[Section]) -> str:
    return " ".join(str(section.__doc__).split())


class Phases(Section):
    """The phases of the study. One that is left out is not run; `probes: {}` runs it with its defaults."""

    ttft: Ttft | None = Field(default=None, description=_told(Ttft))
    probes: Probes | None = Field(default=None, description=_told(Probes))
    short: Short | None = Field(default=None, description=_told(Short))
    sweep: Sweep | None = Field(default=None, description=_told(Sweep))
    cold: Cold | None = Field(default=None, description=_told(Cold))
    repeat: Repeat | None = Field(default=None, description=_told(Repeat))
    exactness: Exactness | None = Field(default=None, description=_told(Exactness))

    @model_validator(mode="before")
    @classmethod
    def _named_is_run(cls, value: object) -> object:
        if isinstance(value, dict):
            return {name: {} if one is None and name in PHASES else one for name, one in value.items()}
        return value

    @model_serializer(mode="wrap")
    def _only_those_run(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if value is not None}
