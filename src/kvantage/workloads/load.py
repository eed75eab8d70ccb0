"""Prompts: those that ship with kvantage, and those of a JSONL file of one's own.

Each line of a file is one of: OpenAI's `{"messages": [...]}`, ShareGPT's `{"conversations":
[{"from": "human", "value": "..."}, ...]}`, or plain `{"prompt": "..."}`; each may have an `id`, and
`expected` with whatever the answer must hold, and OpenAI `tools` that go with it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

Json = dict[str, Any]

SHIPPED = ("code", "prose")
"""Names of the prompt sets that ship with the package."""

_ROLES = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "assistant": "assistant",
    "system": "system",
}


class PromptError(ValueError):
    """A prompt file that can't be read; the message names the file and the line."""


@dataclass(frozen=True)
class Prompt:
    """One request of a workload; `expected` is what its answer must hold, where that is known."""

    id: str
    messages: list[Json]
    expected: Any = None
    tools: list[Json] = field(default_factory=list)


def shipped_prompts(name: str) -> list[Prompt]:
    """The prompts that ship under a name of `SHIPPED`."""
    if name not in SHIPPED:
        raise PromptError(f"no prompts named {name!r} ship with kvantage; there are {SHIPPED}")
    path = resources.files("kvantage.workloads") / "prompts" / f"{name}.jsonl"
    return parse_prompts(path.read_text("utf-8"), f"{name}.jsonl")


def load_prompts(path: str | Path) -> list[Prompt]:
    """The prompts of a JSONL file, in order; raises `PromptError` for anything that isn't one."""
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PromptError(f"{path}: can't be read: {error}") from error
    return parse_prompts(text, str(path))


def parse_prompts(text: str, name: str) -> list[Prompt]:
    """The prompts of JSON lines; `name` is what an error calls the text."""
    prompts: list[Prompt] = []
    seen: set[str] = set()
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        try:
            value = json.loads(line)
        except ValueError as error:
            raise PromptError(f"{where}: not JSON: {error}") from error
        if not isinstance(value, dict):
            raise PromptError(f"{where}: an object is expected, not {type(value).__name__}")
        id = str(value.get("id", f"line-{number}"))
        if id in seen:
            raise PromptError(f"{where}: the id {id!r} was used before")
        seen.add(id)
        prompts.append(Prompt(id, _messages(value, where), value.get("expected"), _tools(value, where)))
    if not prompts:
        raise PromptError(f"{name}: no prompt in the file")
    return prompts


def _messages(value: Json, where: str) -> list[Json]:
    if "messages" in value:
        return _openai(value["messages"], where)
    if "conversations" in value:
        return _sharegpt(value["conversations"], where)
    if "prompt" in value:
        if not isinstance(value["prompt"], str) or not value["prompt"]:
            raise PromptError(f"{where}: `prompt` must be a text that isn't empty")
        return [{"role": "user", "content": value["prompt"]}]
    raise PromptError(f"{where}: none of `messages`, `conversations`, `prompt` is there")


def _tools(value: Json, where: str) -> list[Json]:
    tools = value.get("tools") or []
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise PromptError(f"{where}: `tools` must be a list of objects")
    return tools


def _openai(messages: Any, where: str) -> list[Json]:
    if not isinstance(messages, list) or not messages:
        raise PromptError(f"{where}: `messages` must be a list that isn't empty")
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise PromptError(f"{where}: every message needs a `role`")
        if message.get("content") is None and not message.get("tool_calls"):
            raise PromptError(f"{where}: a message of role {message['role']!r} has no `content`")
    return messages


def _sharegpt(turns: Any, where: str) -> list[Json]:
    """The turns up to the last human one: what comes after is the answer that was given."""
    if not isinstance(turns, list) or not turns:
        raise PromptError(f"{where}: `conversations` must be a list that isn't empty")
    messages: list[Json] = []
    for turn in turns:
        speaker = turn.get("from") if isinstance(turn, dict) else None
        if speaker not in _ROLES or not isinstance(turn.get("value"), str):
            raise PromptError(f"{where}: every turn needs `from` (human or gpt) and `value`")
        messages.append({"role": _ROLES[speaker], "content": turn["value"]})
    while messages and messages[-1]["role"] != "user":
        messages.pop()
    if not messages:
        raise PromptError(f"{where}: no human turn in `conversations`")
    return messages
