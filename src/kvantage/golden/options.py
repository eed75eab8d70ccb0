"""What can be asked of the golden server: times, faults and the shape of its stream, all with defaults."""

# ruff: noqa: RUF009  (`_say` is `dataclasses.field` with words)

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

from kvantage.core import UsageError

UsagePlace = Literal["after", "finish", "every", "null", "none"]
ReasoningName = Literal["reasoning", "reasoning_content", "both"]
Comments = Literal["none", "bare", "ping"]
Newline = Literal["lf", "crlf", "cr"]
ErrorForm = Literal["object", "string", "text", "status"]
Text = Literal["plain", "unicode"]


def _say(default: Any, words: str) -> Any:
    """A field with its default and its line of `--help`."""
    return field(default=default, metadata={"help": words})


@dataclass(frozen=True, slots=True)
class Options:
    """One request's truth: times, tokens, the shape of its stream, faults. All have defaults.

    Given for the server (flags) and for a request (`golden: {...}` in its body, or the query), the request's
    own winning. `python -m kvantage.golden --help` lists them. Raises UsageError for what cannot be.
    """

    # times
    ttft_ms: float = _say(50.0, "From arrival (or a free place) to the first chunk.")
    step_ms: float = _say(20.0, "From one chunk to the next.")
    jitter_ms: float = _say(0.0, "Each chunk is later by a uniform draw from 0 to this.")
    stagger: bool = _say(False, "Spread the streams' chunks over the step, against bursts.")

    # tokens
    tokens: int = _say(64, "How many, where the request has no max_tokens.")
    tokens_per_chunk: int = _say(1, "How many a chunk carries.")
    reasoning_share: float = _say(0.0, "This share of the tokens, the first ones, is reasoning.")
    text: Text = _say("plain", "`unicode` adds emoji, U+2028 and U+0085.")
    prompt_tokens: int | None = _say(None, "What usage says; the words of the prompt when not given.")
    cached_tokens: int | None = _say(None, "What usage says; left out when not given.")
    steps: int | None = _say(None, "Verification steps: adds counts of speculation to the last chunks.")
    accepted: int | None = _say(None, "Accepted drafts, beside the steps.")
    drafted: int | None = _say(None, "Proposed drafts, beside the steps.")

    # shape
    usage: UsagePlace = _say(
        "after",
        "In a chunk of its own with empty choices; with the finish chunk; a running count in every chunk; "
        "null in every chunk and then after; or nowhere.",
    )
    reasoning_name: ReasoningName = _say("reasoning_content", "The field that reasoning comes in.")
    role_first: bool = _say(True, "A first chunk with the role alone.")
    empty_choices_first: bool = _say(False, "A first chunk with no choices at all.")
    early: bool = _say(False, "What precedes the first token leaves on arrival, and not with it.")
    comments: Comments = _say("none", "Comment lines before the first chunk and between chunks.")
    newline: Newline = _say("lf", "How lines end.")
    space: bool = _say(True, "A space after `data:`.")
    multiline: bool = _say(False, "Each JSON object on two `data:` lines.")
    torn: bool = _say(False, "Each chunk in two writes, torn inside a character where there is one.")
    token_ids: bool = _say(False, "Token ids beside each chunk.")
    tool_call: bool = _say(False, "A tool call in three deltas at the end.")
    timings: bool = _say(False, "A chunk of timings after the finish.")
    done: bool = _say(True, "`[DONE]` at the end.")

    # faults
    cut_after: int | None = _say(None, "Close the connection after so many chunks.")
    hang_after: int | None = _say(None, "Say nothing more after so many chunks; keep the connection open.")
    error_after: int | None = _say(None, "An error inside the 200 after so many chunks.")
    error_form: ErrorForm = _say(
        "object", "An object or a string under `error`; a bare text; or an HTTP status 500 at once."
    )
    cut_rate: float = _say(0.0, "The share of requests that are cut, at a drawn place.")
    error_rate: float = _say(0.0, "The share of requests that end in an error, at a drawn place.")
    seed: int = _say(0, "Of every draw, together with the request's number.")

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

    @property
    def draws(self) -> bool:
        """Whether anything is left to chance."""
        return bool(self.jitter_ms or self.cut_rate or self.error_rate)

    def with_changes(self, changes: Mapping[str, Any]) -> Options:
        """The same with some options changed; texts (from a query) are read as the option's type.

        Raises UsageError for a name that is no option and for a value that does not fit it.
        """
        if not changes:
            return self
        try:
            return _changed(self, tuple(changes.items()), tuple(map(type, changes.values())))
        except TypeError:  # a value that cannot be looked up, as a list cannot: it fits no option either
            return self._with(changes)

    def _with(self, changes: Mapping[str, Any]) -> Options:
        known: dict[str, Any] = {}
        for name, value in changes.items():
            if name not in HINTS:
                raise UsageError(
                    f"the golden server has no option {name!r}", hint=f"it has {', '.join(sorted(HINTS))}"
                )
            known[name] = _fit(name, value)
        return replace(self, **known)


HINTS: dict[str, Any] = get_type_hints(Options)
HELP: dict[str, str] = {each.name: each.metadata["help"] for each in fields(Options)}


@lru_cache(maxsize=256)
def _changed(options: Options, changes: tuple[tuple[str, Any], ...], _: tuple[type, ...]) -> Options:
    """Requests of one load ask for the same; `1`, `1.0` and `True` are told apart by their types."""
    return options._with(dict(changes))


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
