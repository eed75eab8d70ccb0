"""What a study is about: the model, the engine that serves it, and the control."""

from __future__ import annotations

from typing import Any

from pydantic import Field, GetJsonSchemaHandler, ValidationInfo, model_serializer, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from kvantage.study.environment import is_secret
from kvantage.study.fields import ModelPath, Section, Text, as_text, folder_of, plain


class Model(Section):
    """The target model. Short: `model: ./path` or `model: org/name`."""

    path: ModelPath = Field(description="A folder (./path, relative to the study file) or a name.")
    revision: Text | None = Field(default=None, description="The revision, where `path` is a name.")

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        return value if isinstance(value, dict) else {"path": as_text(value)} if value is not None else value

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        full = handler.resolve_ref_schema(handler(core))
        text = {"type": "string", "description": "A folder (./path) or a name."}
        return {"description": full.get("description", ""), "anyOf": [text, {**full}]}


class EngineChoice(Section):
    """The serving engine, and options of it that are no flags. Short: `engine: vllm`."""

    name: Text = Field(description="The engine's name.")
    options: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, value: object, info: ValidationInfo) -> object:
        if not isinstance(value, dict):
            return {"name": value} if value is not None else value
        options = {name: plain(one, folder_of(info)) for name, one in value.items() if name != "name"}
        for name, one in options.items():
            if is_secret(name, one):
                raise ValueError(f"`{name}` looks like a secret, and a study is stored and shared: use `env`")
        return {**({"name": value["name"]} if "name" in value else {}), "options": options}

    @model_serializer
    def _flat_again(self) -> dict[str, Any]:
        return {"name": self.name, **self.options}

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        name = {"type": "string", "description": "The engine's name."}
        options = {
            "type": "object",
            "description": "The name, and options that the engine knows, such as `python`.",
            "properties": {"name": name},
            "required": ["name"],
            "additionalProperties": True,
        }
        return {"description": str(cls.__doc__), "anyOf": [name, options]}


class Control(Section):
    """The arm that the others are compared with. Short: `control: none`."""

    arm: Text = Field(description="An arm's name.")
    speculates: bool = Field(
        default=False, description="true: it is meant that the control itself speculates."
    )

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        return value if isinstance(value, dict) or value is None else {"arm": value}

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        full = handler.resolve_ref_schema(handler(core))
        text = {"type": "string", "description": "An arm's name."}
        return {"description": full.get("description", ""), "anyOf": [text, {**full}]}
