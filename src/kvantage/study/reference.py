"""Every field of a study file as a page, from its schema: `python -m kvantage.study.reference [FILE]`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kvantage.study.schema import study_schema

Node = Mapping[str, Any]
HEAD = """# Study file: every field

Made from the schema by `python -m kvantage.study.reference`. What the parts are for, and how values are
written, is in [the study file](study-file.md).
"""
WORDS = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}


def page() -> str:
    """The page: the study's own fields, then each group that they lead to, in the order of mention."""
    schema = study_schema()
    groups: Mapping[str, Node] = schema["$defs"]
    lines = [HEAD, "## The study", "", *_group(schema, groups), ""]
    told: list[str] = []
    waiting = list(_named(schema))
    while waiting:
        name = waiting.pop(0)
        if name in told:
            continue
        told.append(name)
        held = _object(groups[name])
        lines += [f"## `{name}`", "", *_said(groups[name]), *_group(held, groups), ""]
        waiting += [one for one in _named(held) if one not in told]
    return "\n".join(lines).rstrip() + "\n"


def _said(group: Node) -> list[str]:
    text = " ".join(str(group.get("description", "")).split())
    return [text, ""] if text else []


def _object(group: Node) -> Node:
    """A group that may be written short has its fields in the form that is an object."""
    forms = [one for one in group.get("anyOf", ()) if one.get("properties")]
    return forms[0] if forms else group


def _named(node: Any) -> Iterator[str]:
    """The groups that a node refers to, in order."""
    if isinstance(node, Mapping):
        if "$ref" in node:
            yield str(node["$ref"]).rsplit("/", 1)[-1]
        for name, value in node.items():
            if name != "$defs":
                yield from _named(value)
    elif isinstance(node, list):
        for one in node:
            yield from _named(one)


def _group(group: Node, groups: Mapping[str, Node]) -> Iterator[str]:
    required = set(group.get("required", ()))
    yield "| field | value | default | meaning |"
    yield "|---|---|---|---|"
    for name, field in group.get("properties", {}).items():
        default = "required" if name in required else _default(field)
        text = " ".join(str(field.get("description", _fallback(field, groups))).split())
        yield f"| `{name}` | {_bar(_kind(field))} | {_bar(default)} | {_bar(text)} |"


def _fallback(field: Node, groups: Mapping[str, Node]) -> str:
    name = next(_named(field), None)
    return str(groups[name].get("description", "")) if name else ""


def _default(field: Node) -> str:
    value = field.get("default")
    return "–" if value in (None, [], {}) else f"`{value if isinstance(value, str) else json.dumps(value)}`"


def _kind(field: Node) -> str:
    """What may be written, in a few words."""
    if "$ref" in field:
        name = str(field["$ref"]).rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in field:
        kinds = dict.fromkeys(_kind(one) for one in field["anyOf"] if one.get("type") != "null")
        return " or ".join(kinds)
    if "enum" in field:
        return ", ".join(f"`{one}`" for one in field["enum"])
    if "const" in field:
        return f"`{field['const']}`"
    if field.get("type") == "array":
        return f"list of {_kind(field.get('items', {}))}"
    if field.get("type") == "object":
        inner = field.get("additionalProperties")
        return f"by name: {_kind(inner)}" if isinstance(inner, Mapping) and inner else "by name"
    examples = [f"`{one}`" for one in field.get("examples", ()) if isinstance(one, str)]
    word = WORDS.get(str(field.get("type")), "text")
    if examples:
        return f"{word} such as {examples[0]}"
    return word + _bounds(field)


def _bounds(field: Node) -> str:
    least, above = field.get("minimum"), field.get("exclusiveMinimum")
    most, below = field.get("maximum"), field.get("exclusiveMaximum")
    parts = []
    parts += [f"from {least:,}"] if least is not None else [f"above {above:,}"] if above is not None else []
    parts += [f"to {most:,}"] if most is not None else [f"below {below:,}"] if below is not None else []
    return f" {' '.join(parts)}" if parts else ""


def _bar(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(page(), encoding="utf-8")
    else:
        sys.stdout.write(page())
