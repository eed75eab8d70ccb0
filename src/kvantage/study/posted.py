"""Somebody's published figures, with what is known of how they were measured: `posted.yaml`.

What a write-up does not say is left out, and counts as not said; nothing is guessed.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator

from kvantage.study.fields import Count, Section, Text
from kvantage.study.source import Source, parse_source, read_source
from kvantage.study.words import problems

Rate = Literal["phase_wall", "steady", "server_gauge"]
PostedPhase = Literal["short", "sweep", "cold", "repeat", "ttft"]
PostedMetric = Literal["tok_s", "ttft_s", "kv_pool_tokens", "kv_pool_bytes", "acceptance_length", "sessions"]


def _listed(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def _plain(value: object) -> object:
    """Values of a configuration as they are typed, numbers too."""
    typed = getattr(value, "text", None)
    if typed is not None:
        return str(typed)
    return str(value) if isinstance(value, int | float) else value


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("needs a finite number")
    return value


Number = Annotated[float, AfterValidator(_finite)]
Setting = Annotated[Text, BeforeValidator(_plain)]


class Figure(Section):
    """One published number of one arm."""

    metric: PostedMetric = Field(description="`tok_s` is a rate, by the protocol's or its own `rate`.")
    value: Annotated[Number, Field(ge=0)] = Field(description="The number as published.")
    low: Annotated[Number, Field(ge=0)] | None = Field(default=None, description="Lowest value, if told.")
    high: Annotated[Number, Field(ge=0)] | None = Field(default=None, description="Highest value, if told.")
    phase: PostedPhase | None = Field(default=None, description="The phase of kvantage that it is like.")
    workload: Text | None = Field(default=None, description="`code`, `prose`, `documents` ...")
    concurrency: Count | None = Field(default=None, description="Requests at once.")
    prompt_tokens: Count | None = Field(default=None, description="Length of the prompts.")
    output_tokens: Count | None = Field(default=None, description="Length of the answers.")
    rate: Rate | None = Field(default=None, description="How this rate was taken, if not as the others.")
    aggregate: bool | None = Field(default=None, description="Of all users together, or of one.")
    cached: bool | None = Field(default=None, description="With the prompt in the cache.")
    bonus: bool | None = Field(default=None, description="Of an acceptance length: the bonus token counted.")
    arithmetic: bool = Field(default=False, description="Computed by its author from another, not measured.")
    note: Text | None = Field(default=None, description="What else is said of it.")

    @model_validator(mode="after")
    def _placed(self) -> Self:
        if self.metric in ("tok_s", "ttft_s") and (self.phase is None or self.concurrency is None):
            raise ValueError("a speed needs a `phase` and a `concurrency`")
        if (self.low is not None and self.low > self.value) or (
            self.high is not None and self.high < self.value
        ):
            raise ValueError("`value` lies between `low` and `high`")
        return self


class PostedArm(Section):
    """One configuration of the write-up."""

    method: Text = Field(description="Way of speculating: `none`, `mtp`, `dflash`, `eagle3`, `ngram` ...")
    drafts: Count | None = Field(default=None, description="Drafts a step as published.")
    drafts_mean: Literal["proposed", "verified"] | None = Field(
        default=None, description="Whether `drafts` are those proposed (k) or the tokens verified (k + 1)."
    )
    draft: Text | None = Field(default=None, description="The drafter's name.")
    draft_kv_dtype: Text | None = Field(default=None, description="Type of the drafter's KV.")
    configuration: dict[Text, Setting] = Field(
        default_factory=dict, description="What this arm sets otherwise."
    )
    figures: Annotated[tuple[Figure, ...], BeforeValidator(_listed)] = Field(
        description="What was published of it."
    )


class Protocol(Section):
    """How it was measured, as far as it is told."""

    rate: Rate | None = Field(
        default=None,
        description="`phase_wall`: output tokens by the phase's wall time. `steady`: after the first token. "
        "`server_gauge`: the server's own momentary figure.",
    )
    streamed: bool | None = Field(default=None, description="Whether answers were streamed.")
    counted: Literal["tokens", "chunks"] | None = Field(default=None, description="What was counted.")
    boots: Count | None = Field(default=None, description="Starts of each arm's server.")
    repeats: Count | None = Field(default=None, description="Measured requests of each prompt.")
    warmup: Annotated[int, Field(ge=0)] | None = Field(default=None, description="Requests not counted.")
    summary: Literal["mean", "median", "best"] | None = Field(
        default=None, description="What of the repeats was published."
    )
    temperature: Annotated[Number, Field(ge=0)] | None = Field(default=None, description="Of the sampler.")
    hits_checked: bool | None = Field(
        default=None, description="Whether cache hits were read from the server for every request."
    )
    queueing_checked: bool | None = Field(
        default=None, description="Whether it was seen that nothing queued."
    )


class Posted(Section):
    """A write-up."""

    title: Text = Field(description="What it is called.")
    source: Text = Field(description="Where it was published.")
    published: Text | None = Field(default=None, description="When.")
    model: Text = Field(description="The target model.")
    revision: Text | None = Field(default=None, description="Its revision.")
    engine: Text = Field(description="The serving engine.")
    engine_version: Text | None = Field(default=None, description="Its version.")
    hardware: Text = Field(description="The machines.")
    control: Text | None = Field(default=None, description="The arm that the others are compared with.")
    protocol: Protocol = Field(default_factory=Protocol, description="How it was measured.")
    configuration: dict[Text, Setting] = Field(
        default_factory=dict,
        description="Settings of every arm, in the words of a study file where it has them.",
    )
    arms: dict[Text, PostedArm] = Field(min_length=1, description="The arms, by the write-up's names.")
    notes: Annotated[tuple[Text, ...], BeforeValidator(_listed)] = Field(
        default=(), description="What a reader should know of it."
    )

    @model_validator(mode="after")
    def _control_is_there(self) -> Self:
        if self.control is not None and self.control not in self.arms:
            raise ValueError(f"`control`: there is no arm `{self.control}`")
        return self


def load_posted(path: str | Path) -> Posted:
    """Read a `posted.yaml`. Raises StudyError with `file:line: field` for each thing that is wrong."""
    return _validated(read_source(Path(path)))


def posted_from_text(text: str, name: str = "posted") -> Posted:
    """The same from text. Raises StudyError."""
    return _validated(parse_source(text, name))


def _validated(source: Source) -> Posted:
    try:
        return Posted.model_validate(source.value)
    except ValidationError as error:
        raise source.error(problems(error, Posted)) from None
