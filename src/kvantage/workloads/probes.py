"""The correctness probes: small questions with one right answer, and judges that are exact.

A probe is data: messages and tools as an OpenAI-like server takes them, and what must come back.
Its judge sees the parsed message of the server. An answer that is empty because the budget ran out
(finish reason `length`, as when thinking ate it) is void: it says nothing about correctness.
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass, field
from typing import Any, Literal

from kvantage.workloads.picture import COLOURS, SHAPES, data_uri, draw
from kvantage.workloads.prose import coined_name, words

Kind = Literal["arithmetic", "json", "tool", "image"]
Json = dict[str, Any]

KINDS: tuple[Kind, ...] = ("arithmetic", "json", "tool", "image")


@dataclass(frozen=True)
class Judgement:
    """What a judge said: `pass`, `fail` or `void`, and why in a few words."""

    status: Literal["pass", "fail", "void"]
    why: str

    @property
    def passed(self) -> bool:
        """Whether the answer was right."""
        return self.status == "pass"


@dataclass(frozen=True)
class Probe:
    """One question with its exact judge; `expected` is what the judge compares with."""

    kind: Kind
    id: str
    messages: list[Json]
    expected: Any
    tools: list[Json] = field(default_factory=list)

    def judge(
        self,
        content: str | None,
        tool_calls: list[Json] | None = None,
        finish_reason: str | None = None,
    ) -> Judgement:
        """Judge a message: its text, its parsed `tool_calls` and the finish reason."""
        text = (content or "").strip()
        if not text and not tool_calls:
            if finish_reason == "length":
                return Judgement("void", "empty answer: the token budget ran out first")
            return Judgement("fail", "empty answer")
        if self.kind == "arithmetic":
            return _judge_number(text, self.expected)
        if self.kind == "json":
            return _judge_json(text, self.expected)
        if self.kind == "tool":
            return _judge_call(tool_calls or [], self.expected)
        return _judge_words(text, self.expected)


def probes(kinds: tuple[Kind, ...] = KINDS, seed: str = "probes") -> list[Probe]:
    """The fixed set: for each kind a few probes, always the same for the same seed."""
    made: list[Probe] = []
    for kind in kinds:
        rng = random.Random(f"{seed}:{kind}")
        for number in range(_SIZES[kind]):
            made.append(_MAKERS[kind](rng, f"{kind}-{number + 1}"))
    return made


def sum_probe(rng: random.Random, id: str) -> Probe:
    """The sum of two numbers of two digits."""
    first, second = rng.randrange(10, 100), rng.randrange(10, 100)
    question = f"What is {first} + {second}? Answer with the number only."
    return Probe("arithmetic", id, [_user(question)], first + second)


def json_probe(rng: random.Random, id: str) -> Probe:
    """A small JSON object to be given back exactly."""
    wanted = _random_object(rng)
    question = f"Repeat this JSON object exactly, and write nothing else:\n{json.dumps(wanted)}"
    return Probe("json", id, [_user(question)], wanted)


def tool_probe(rng: random.Random, id: str) -> Probe:
    """A question that is answered by calling one of two or three tools with exact arguments."""
    offered = rng.sample(_TOOLS, rng.randint(2, 3))
    tool, ask = rng.choice(offered)
    values = _arguments(rng, tool)
    question = ask.format(**values) + " Use a tool."
    return Probe(
        "tool",
        id,
        [_user(question)],
        {"name": tool["function"]["name"], "arguments": values},
        [offer for offer, _ in offered],
    )


def image_probe(rng: random.Random, id: str) -> Probe:
    """A shape drawn here; its colour and its name are asked for."""
    shape, colour = rng.choice(SHAPES), rng.choice(sorted(COLOURS))
    parts = [
        {"type": "image_url", "image_url": {"url": data_uri(draw(shape, colour))}},
        {
            "type": "text",
            "text": "Which shape is in the picture, and what colour is it?"
            " Answer in two words: the colour, then the shape.",
        },
    ]
    return Probe("image", id, [{"role": "user", "content": parts}], [colour, shape])


def _user(text: str) -> Json:
    return {"role": "user", "content": text}


def _judge_number(text: str, wanted: int) -> Judgement:
    numbers = re.findall(r"-?\d+", re.sub(r"(?<=\d),(?=\d{3})", "", text))
    if not numbers:
        return Judgement("fail", f"no number in the answer; {wanted} expected")
    if int(numbers[-1]) == wanted:
        return Judgement("pass", f"{wanted}")
    return Judgement("fail", f"{numbers[-1]} instead of {wanted}")


def _judge_json(text: str, wanted: Json) -> Judgement:
    bare = re.sub(r"^```(?:json)?\s*|\s*```$", "", text).strip()
    try:
        got = json.loads(bare)
    except ValueError as error:
        return Judgement("fail", f"not JSON: {error}")
    if json.dumps(got) == json.dumps(wanted):
        return Judgement("pass", "the same object")
    return Judgement("fail", f"another object: {json.dumps(got)[:120]}")


def _judge_call(calls: list[Json], wanted: Json) -> Judgement:
    if len(calls) != 1:
        return Judgement("fail", f"{len(calls)} tool calls instead of one")
    function = calls[0].get("function", {})
    name, arguments = function.get("name"), function.get("arguments")
    if name != wanted["name"]:
        return Judgement("fail", f"called {name} instead of {wanted['name']}")
    try:
        got = json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError as error:
        return Judgement("fail", f"arguments are not JSON: {error}")
    if got == wanted["arguments"]:
        return Judgement("pass", f"{name} with the right arguments")
    return Judgement("fail", f"wrong arguments: {json.dumps(got)[:120]}")


def _judge_words(text: str, wanted: list[str]) -> Judgement:
    words = re.findall(r"[a-z]+", text.lower())
    named = [w for w in words if w in COLOURS or w in SHAPES]
    if set(named) == set(wanted):
        return Judgement("pass", " ".join(wanted))
    return Judgement("fail", f"{' '.join(named) or 'neither'} instead of {' '.join(wanted)}")


_KEYS = words("name city count price open tags size code day shelf state level owner total year kind unit")
_VALUES = words("amber birch coral delta ember fjord grove hazel inlet jade karst lotus maple north")


def _random_object(rng: random.Random) -> Json:
    made: Json = {}
    for key in rng.sample(_KEYS, rng.randint(3, 5)):
        made[key] = _random_value(rng)
    return made


def _random_value(rng: random.Random) -> Any:
    kind = rng.randrange(6)
    if kind == 0:
        return rng.randrange(1000)
    if kind == 1:
        return rng.random() < 0.5
    if kind == 2:
        return rng.sample(_VALUES, rng.randint(1, 3))
    if kind == 3:
        return coined_name(rng)
    if kind == 4:
        return {rng.choice(_KEYS): rng.randrange(100)}
    return rng.choice(_VALUES)


def _tool(name: str, about: str, fields: dict[str, str], ask: str) -> tuple[Json, str]:
    properties = {key: {"type": kind} for key, kind in fields.items()}
    parameters = {"type": "object", "properties": properties, "required": list(fields)}
    function = {"name": name, "description": about, "parameters": parameters}
    return {"type": "function", "function": function}, ask


_TOOLS = (
    _tool(
        "get_weather",
        "The weather of a city on a day.",
        {"city": "string", "day": "string"},
        "What is the weather in {city} on {day}?",
    ),
    _tool(
        "add_event",
        "Put an event into the calendar.",
        {"title": "string", "day": "string", "hour": "integer"},
        'Put "{title}" into my calendar on {day} at {hour} o\'clock.',
    ),
    _tool(
        "find_person",
        "Look a person up by name.",
        {"name": "string"},
        "Who is {name}?",
    ),
    _tool(
        "order_goods",
        "Order a number of units of some goods.",
        {"goods": "string", "number": "integer"},
        "Order {number} units of {goods}.",
    ),
    _tool(
        "set_lamp",
        "Set the brightness of a lamp, in percent.",
        {"room": "string", "percent": "integer"},
        "Set the lamp in the {room} to {percent} percent.",
    ),
)

_WORDS: dict[str, tuple[str, ...]] = {
    "day": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    "title": ("dentist", "market", "choir practice", "harbour tour", "chess club", "tea with Ada"),
    "goods": ("coal", "flour", "copper wire", "lamp oil", "paper", "rope", "salt", "tea"),
    "room": ("kitchen", "hall", "library", "workshop", "attic", "cellar"),
}


def _arguments(rng: random.Random, tool: Json) -> Json:
    values: Json = {}
    for key, schema in tool["function"]["parameters"]["properties"].items():
        if key in _WORDS:
            values[key] = rng.choice(_WORDS[key])
        elif key == "hour":
            values[key] = rng.randrange(7, 22)
        elif schema["type"] == "integer":
            values[key] = rng.randrange(1, 100)
        else:
            values[key] = coined_name(rng)
    return values


_SIZES: dict[Kind, int] = {"arithmetic": 8, "json": 4, "tool": 4, "image": 2}
_MAKERS = {
    "arithmetic": sum_probe,
    "json": json_probe,
    "tool": tool_probe,
    "image": image_probe,
}
