"""The JSON Schema of a study file, from its models: `python -m kvantage.study.schema [FILE]`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from kvantage.study.study import Study


class _ForEditors(GenerateJsonSchema):
    """Without the titles that repeat each field's name, and with `nothing` where nothing may stand."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        made = super().model_schema(schema)
        made.pop("title", None)
        return made


def study_schema() -> dict[str, Any]:
    """What a study file may hold, as JSON Schema 2020-12: short forms too; no checks between fields."""
    made = Study.model_json_schema(schema_generator=_ForEditors, mode="validation")
    arms = made["properties"]["arms"]
    arms["additionalProperties"] = {"anyOf": [arms["additionalProperties"], {"type": "null"}]}
    made["properties"]["common"] = {"anyOf": [made["properties"]["common"], {"type": "null"}]}
    for phase in made["$defs"]["Phases"]["properties"].values():
        phase.pop("default", None)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "kvantage study",
        **made,
    }


def text() -> str:
    """The schema as it stands in schema/study.schema.json."""
    return json.dumps(study_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text(), encoding="utf-8")
    else:
        sys.stdout.write(text())
