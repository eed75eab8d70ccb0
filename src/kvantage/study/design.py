"""How often each arm's server is started, in which order, and when that is enough."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, WithJsonSchema

from kvantage.study.fields import Section

Order = Literal["abba", "randomised", "fixed"]

Share = Annotated[float, Field(gt=0, lt=1)]


class Until(Section):
    """Start the servers again until the arms are told apart."""

    margin: Share = Field(
        default=0.03, description="Differences below this share are not worth telling: 0.03 is 3 %."
    )
    confidence: Annotated[float, Field(ge=0.5, lt=1)] = Field(
        default=0.95, description="How sure the decisions are together, over all looks."
    )
    max_boots: Annotated[int, Field(ge=2), WithJsonSchema({"type": "integer", "minimum": 2})] = Field(
        default=6, description="The most starts of each arm's server."
    )
    max_hours: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="No block of boots is begun that would end after so many hours."
    )
    long_phases: Literal["all", "in_race"] = Field(
        default="all",
        description="`in_race`: an arm that can no longer win is given `sweep`, `cold` and `repeat` no more.",
    )
