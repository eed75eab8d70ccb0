"""What can be asked of the golden server: times, faults and the shape of its stream, all with defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from kvantage.core import UsageError

UsagePlace = Literal["after", "finish", "every", "null", "none"]
ReasoningName = Literal["reasoning", "reasoning_content", "both"]
Comments = Literal["none", "bare", "ping"]
Newline = Literal["lf", "crlf", "cr"]
ErrorForm = Literal["object", "string", "text", "status"]
Text = Literal["plain", "unicode"]


@dataclass(frozen=True, slots=True)
class Options:
    """One request's truth. Given for the server (flags) and for a request (`golden: {...}` in its body, or
    the query), the request's own winning.

    Times
        ttft_ms             arrival (or a free place) to the first chunk
        step_ms             from one chunk to the next
        jitter_ms           each chunk later by a uniform draw from 0 to this
        stagger             spread the streams' chunks over the step, so that they do not leave in one burst
    Tokens
        tokens              how many, where the body has no max_tokens
        tokens_per_chunk    how many a chunk carries
        reasoning_share     this share of the tokens, the first ones, is reasoning
        text                `unicode` adds emoji, U+2028 and U+0085
        prompt_tokens       what usage says; the words of the messages when not given
        cached_tokens       what usage says; left out when not given
        accepted, drafted, steps   adds the counts of speculation to the last chunks
    Shape
        usage               after: a chunk of its own with empty choices · finish: with the finish chunk ·
                            every: a running count in each · null: null in each, then after · none
        reasoning_name      the field that reasoning comes in
        role_first          a first chunk with the role alone
        empty_choices_first a first chunk with no choices at all
        early               all that precedes the first token leaves on arrival, and not with it
        comments            comment lines before the first chunk and between chunks
        newline, space      line ends, and whether a space follows `data:`
        multiline           a JSON object on two `data:` lines
        torn                each chunk in two writes, split inside a character where there is one
        token_ids           token ids beside each chunk
        tool_call           ends with a tool call in three deltas
        timings             a chunk of timings after the finish
        done                `[DONE]` at the end
    Faults
        cut_after           close the connection after so many chunks
        hang_after          say nothing more after so many chunks, and keep the connection open
        error_after         an error inside the 200 after so many chunks
        error_form          object or string under `error`, a bare text, or an HTTP status 500 at once
        cut_rate, error_rate  the share of requests that are cut, or end in an error, at a drawn place
        seed                of every draw, together with the request's number
    """

    ttft_ms: float = 50.0
    step_ms: float = 20.0
    jitter_ms: float = 0.0
    stagger: bool = False
    tokens: int = 64
    tokens_per_chunk: int = 1
    reasoning_share: float = 0.0
    text: Text = "plain"
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    accepted: int | None = None
    drafted: int | None = None
    steps: int | None = None
    usage: UsagePlace = "after"
    reasoning_name: ReasoningName = "reasoning_content"
    role_first: bool = True
    empty_choices_first: bool = False
    early: bool = False
    comments: Comments = "none"
    newline: Newline = "lf"
    space: bool = True
    multiline: bool = False
    torn: bool = False
    token_ids: bool = False
    tool_call: bool = False
    timings: bool = False
    done: bool = True
    cut_after: int | None = None
    hang_after: int | None = None
    error_after: int | None = None
    error_form: ErrorForm = "object"
    cut_rate: float = 0.0
    error_rate: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("ttft_ms", "step_ms", "jitter_ms"):
            if not 0 <= getattr(self, name) < 1e7:
                raise UsageError(f"{name} is at least 0, not {getattr(self, name)}")
        for name in ("reasoning_share", "cut_rate", "error_rate"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"{name} is a share between 0 and 1, not {getattr(self, name)}")
        for name in ("tokens", "tokens_per_chunk"):
            if not 1 <= getattr(self, name) <= 10_000_000:
                raise UsageError(f"{name} is at least 1, not {getattr(self, name)}")

    def with_changes(self, changes: Mapping[str, Any]) -> Options:
        """The same with some options changed; texts (from a query) are read as the option's type.

        Raises UsageError for a name that is no option and for a value that does not fit it.
        """
        if not changes:
            return self
        known: dict[str, Any] = {}
        for name, value in changes.items():
            if name not in HINTS:
                raise UsageError(
                    f"the golden server has no option {name!r}", hint=f"it has {', '.join(sorted(HINTS))}"
                )
            known[name] = _fit(name, value)
        return replace(self, **known)


HINTS: dict[str, Any] = get_type_hints(Options)
NAMES: tuple[str, ...] = tuple(each.name for each in fields(Options))


def _fit(name: str, value: Any) -> Any:
    hint = HINTS[name]
    kinds = get_args(hint) or (hint,)
    if get_origin(hint) is Literal:
        if value in kinds:
            return value
        raise UsageError(f"{name} is one of {', '.join(kinds)}, not {value!r}")
    if type(None) in kinds and value in (None, "", "none", "null"):
        return None
    kind = kinds[0]
    if isinstance(value, str):
        value = _read(kind, value)
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        words = {bool: "true or false", int: "a whole number", float: "a number"}
        raise UsageError(f"{name} is {words[kind]}, not {value!r}")
    return value


def _read(kind: type, text: str) -> Any:
    if kind is bool:
        return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}.get(
            text.lower(), text
        )
    try:
        return kind(text)
    except ValueError:
        return text
