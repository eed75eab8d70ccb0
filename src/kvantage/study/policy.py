"""What the person wants of a server, said before the data are seen."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, field_validator, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from kvantage.study.fields import Count, Latency, Section, Text, Tokens

Metric = Literal["decode_tok_s", "steady_tok_s", "e2e_tok_s", "tok_per_joule"]
PolicyPhase = Literal["short", "sweep", "cold", "repeat"]
Exactness = Literal["bit-identical", "consistent with the off-vs-off floor", "near-tie flips only", "differs"]

TURNS = ("turns_per_hour", "turns_an_hour", "turns")


def _short_form(field: str) -> BeforeValidator:
    """`10` for `{field: 10}`."""

    def widen(value: object) -> object:
        return value if value is None or isinstance(value, dict) else {field: value}

    return BeforeValidator(widen)


class Maximise(Section):
    """The one figure that ranks the arms."""

    metric: Metric = Field(
        default="decode_tok_s",
        description="`decode_tok_s`: the steady decode rate of one user. `steady_tok_s`: the aggregate of "
        "all users while every slot decodes. `e2e_tok_s`: output tokens by phase wall time. `tok_per_joule`: "
        "output tokens by the energy that the devices took, where they tell it.",
    )
    phase: PolicyPhase = Field(description="The phase that it is measured in.")
    workload: Text | None = Field(
        default=None, description="In `short` and `sweep`: which of its `prompts`; several by `weights`."
    )
    concurrency: Count | None = Field(
        default=None, description="In `sweep`, `cold` and `repeat`: at how many requests at once."
    )

    @field_validator("metric", mode="before")
    @classmethod
    def _no_turns_yet(cls, metric: object) -> object:
        if metric in TURNS:
            raise ValueError(
                "finished turns an hour need growing sessions, which this version of kvantage does not run"
            )
        return metric

    @model_validator(mode="after")
    def _several_users(self) -> Maximise:
        if self.metric == "steady_tok_s" and (self.phase == "short" or self.concurrency == 1):
            raise ValueError(
                "`steady_tok_s` is the aggregate of several users: take it at a `concurrency` above 1 of "
                "`sweep`, `cold` or `repeat`, or maximise `decode_tok_s`"
            )
        return self


class MinSessions(Section):
    """The least that must fit in the KV pool at once."""

    count: Count = Field(description="How many sessions.")
    tokens: Tokens = Field(description="Tokens of one session, its input and its answer together.")


def _schema_with_short(field: str, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
    """The schema of a section that may be written as one of its fields alone."""
    full = handler.resolve_ref_schema(handler(core))
    return {"description": full.get("description", ""), "anyOf": [full["properties"][field], {**full}]}


class MinUserSpeed(Section):
    """The least that one user must get, however many there are. Short: `min_user_speed: 10`."""

    tok_s: Annotated[float, Field(gt=0)] = Field(description="The least decode rate of one user, in tok/s.")
    phase: PolicyPhase | None = Field(default=None, description="Where; left out: where `maximise` is.")
    workload: Text | None = Field(default=None, description="In `short` and `sweep`: of which prompts.")
    concurrency: Count | None = Field(default=None, description="At how many requests at once.")

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return _schema_with_short("tok_s", core, handler)


class MaxTtft(Section):
    """The longest that a first token may take, by the median. Short: `max_ttft: 2s`."""

    time: Latency = Field(description="The longest median time to the first token, such as 2s or 300ms.")
    phase: PolicyPhase | None = Field(
        default=None,
        description="Where: `cold` is without the cache, `repeat` with it. Left out: where `maximise` is.",
    )
    workload: Text | None = Field(default=None, description="In `short` and `sweep`: of which prompts.")
    concurrency: Count | None = Field(default=None, description="At how many requests at once.")

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return _schema_with_short("time", core, handler)


class Policy(Section):
    """How the arms are judged: the arm that maximises one figure, among those that meet the constraints."""

    maximise: Maximise = Field(description="The one figure that ranks the arms.")
    weights: dict[Text, Annotated[float, Field(gt=0)]] | None = Field(
        default=None,
        description="Several workloads of `short` or `sweep` in place of one, by weight: the figure is their "
        "weighted geometric mean.",
    )
    min_sessions: MinSessions | None = Field(
        default=None, description="Arms whose pool holds fewer are ruled out."
    )
    min_user_speed: Annotated[MinUserSpeed | None, _short_form("tok_s")] = Field(
        default=None, description="Arms that give one user less are ruled out: `10`, or with a place."
    )
    max_ttft: Annotated[MaxTtft | None, _short_form("time")] = Field(
        default=None, description="Arms whose first token takes longer are ruled out: `2s`, or with a place."
    )
    worst_exactness: Exactness | None = Field(
        default=None,
        description="Arms whose answers are of a worse class are ruled out; the phase `exactness` finds it.",
    )

    @field_validator("weights")
    @classmethod
    def _some(cls, weights: dict[str, Any] | None) -> dict[str, Any] | None:
        if weights is not None and not weights:
            raise ValueError("is empty: name workloads with their weights, or leave it out")
        return weights
