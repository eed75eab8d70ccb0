"""What the person wants of a server, said before the data are seen."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kvantage.study.fields import Count, Section, Text, Tokens

Metric = Literal["decode_tok_s", "e2e_tok_s"]


class Maximise(Section):
    """The one figure that ranks the arms."""

    metric: Metric = Field(
        default="decode_tok_s",
        description="`decode_tok_s`: the steady decode rate. `e2e_tok_s`: output tokens by phase wall time.",
    )
    phase: Literal["short", "cold", "repeat"] = Field(description="The phase that it is measured in.")
    workload: Text | None = Field(default=None, description="In `short`: which of its `prompts`.")
    concurrency: Count | None = Field(
        default=None, description="In `cold` and `repeat`: at how many requests at once."
    )


class MinSessions(Section):
    """The least that must fit in the KV pool at once."""

    count: Count = Field(description="How many sessions.")
    tokens: Tokens = Field(description="Tokens of one session, its input and its answer together.")


class Policy(Section):
    """How the arms are judged: the arm that maximises one figure, among those that meet the constraints."""

    maximise: Maximise = Field(description="The one figure that ranks the arms.")
    min_sessions: MinSessions | None = Field(
        default=None, description="Arms whose pool holds fewer are ruled out."
    )
