"""An arm as the study file declares it: what it changes of `common`, and how it drafts."""

from __future__ import annotations

from typing import Any, Self, get_args

from pydantic import Field, GetJsonSchemaHandler, ValidationInfo, field_validator, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from kvantage.core import Method, Speculation
from kvantage.study.fields import Count, Dtype, ModelPath, Section, Text, folder_of, plain
from kvantage.study.settings import Settings

METHODS: tuple[Method, ...] = get_args(Method)


class Drafter(Section):
    """How an arm drafts: `{method: mtp, drafts: 3}`. Short: `none`, or `{mtp: 3}`."""

    method: Method = Field(description="How drafts are made.")
    drafts: Count | None = Field(
        default=None, description="k: draft tokens proposed in one step, the bonus token not counted."
    )
    draft: ModelPath | None = Field(
        default=None, description="The drafter: a folder (./path, relative to the study file) or a name."
    )
    draft_revision: Text | None = Field(
        default=None, description="The drafter's revision, where `draft` is a name."
    )
    draft_kv_dtype: Dtype | None = Field(default=None, description="Type of the drafter's own KV cache.")
    options: dict[str, Any] = Field(
        default_factory=dict, description="Further options of this method, passed on to the engine."
    )

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, value: object) -> object:
        if isinstance(value, str):
            if value in METHODS and value != "none":
                raise ValueError(f"write `{{method: {value}, drafts: k}}`: k draft tokens in one step")
            return {"method": value}
        if isinstance(value, dict) and "method" not in value and len(value) == 1:
            [(method, rest)] = value.items()
            if method in METHODS:
                return (
                    {"method": method, **rest}
                    if isinstance(rest, dict)
                    else {"method": method, "drafts": rest}
                )
        return value

    @field_validator("options", mode="before")
    @classmethod
    def _plain_options(cls, value: object, info: ValidationInfo) -> object:
        return plain(value, folder_of(info))

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        self.to_core()
        if self.method == "ngram" and (self.draft or self.draft_kv_dtype):
            raise ValueError("speculation `ngram` has no drafter: it takes no draft or draft_kv_dtype")
        if self.draft_revision and not self.draft:
            raise ValueError("`draft_revision` is the revision of `draft`, which is missing")
        return self

    def to_core(self) -> Speculation:
        """In the words that engines read. Raises ValueError when the method lacks what it needs."""
        return Speculation(
            method=self.method,
            drafts=self.drafts,
            draft=self.draft,
            draft_revision=self.draft_revision,
            draft_kv_dtype=self.draft_kv_dtype,
            options=self.options,
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        full = handler.resolve_ref_schema(handler(core))
        fields = {**full["properties"]}
        del fields["method"]
        drafts = {"type": "integer", "minimum": 1, "description": "k, draft tokens of one step"}
        inner = {"type": "object", "properties": fields, "additionalProperties": False}
        short = {
            "type": "object",
            "description": "Short form: the method's name, and its drafts or its fields.",
            "properties": {name: {"anyOf": [drafts, inner]} for name in METHODS if name != "none"},
            "additionalProperties": False,
            "minProperties": 1,
            "maxProperties": 1,
        }
        return {
            "description": full.get("description", ""),
            "anyOf": [{"const": "none", "description": "No speculation."}, {**full}, short],
        }


class Arm(Settings):
    """One serving configuration. It differs from `common` in what stands here, and in nothing else."""

    speculation: Drafter = Field(
        default_factory=lambda: Drafter(method="none"),
        description="How this arm drafts; left out, it does not (unless `flags` say so).",
    )
