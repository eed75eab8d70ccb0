"""The kinds of value that a study's fields hold, each with its check and its JSON Schema."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationInfo,
    WithJsonSchema,
)

from kvantage.study.paths import absolute, locate, looks_like_path
from kvantage.study.units import (
    parse_bytes,
    parse_duration,
    parse_exact_tokens,
    parse_latency,
    parse_tokens,
    show,
    show_duration,
    show_latency,
)


class Section(BaseModel):
    """A group of fields: nothing unknown in it, nothing guessed, nothing changed afterwards."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


def as_text(value: object) -> object:
    """Numbers where text is wanted are taken as typed: a revision `53e77` stays `53e77`."""
    typed = getattr(value, "text", None)
    if typed is not None:
        return str(typed)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value


def _filled(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    if "\x00" in text:
        raise ValueError("holds a NUL character")
    return text


_STRING = WithJsonSchema({"type": "string"})
Text = Annotated[
    str, BeforeValidator(as_text), AfterValidator(_filled), WithJsonSchema({"type": ["string", "number"]})
]


def empty_if_nothing(value: object) -> object:
    """A field with nothing after its colon is an empty group."""
    return {} if value is None else value


def plain(value: Any, folder: Path | None = None) -> Any:
    """A value that is passed on: plain numbers, and `./x` made absolute from `folder`."""
    match value:
        case dict():
            return {name: plain(one, folder) for name, one in value.items()}
        case list() | tuple():
            return [plain(one, folder) for one in value]
        case str():
            return absolute(value, folder) if value.startswith(("./", "../", "~/")) else value
        case bool() | None:
            return value
        case int():
            return int(value)
        case float():
            return float(value)
    return value


def folder_of(info: ValidationInfo) -> Path | None:
    """The study file's folder, or None where a study is read back and its paths are absolute already."""
    return info.context.get("folder") if isinstance(info.context, dict) else None


def must_exist(info: ValidationInfo) -> bool:
    """Whether files that a study names are looked for."""
    return bool(isinstance(info.context, dict) and info.context.get("paths_must_exist"))


def _model_path(text: str, info: ValidationInfo) -> str:
    folder = folder_of(info)
    if not looks_like_path(text):
        if folder is not None and (folder / text).is_dir():
            raise ValueError(f"may be a folder or a name: write ./{text} for the folder beside the study")
        return text
    path = absolute(text, folder)
    elsewhere = isinstance(info.context, dict) and info.context.get("served_elsewhere")
    if must_exist(info) and not elsewhere and not Path(locate(path)).exists():
        raise ValueError(f"there is no folder {locate(path)}")
    return path


def _file_path(text: str, info: ValidationInfo) -> str:
    path = absolute(text, folder_of(info))
    if must_exist(info) and not Path(locate(path)).exists():
        raise ValueError(f"there is no file or folder {locate(path)}")
    return path


ModelPath = Annotated[Text, AfterValidator(_model_path), _STRING]
FilePath = Annotated[Text, AfterValidator(_file_path), _STRING]


def _counted(parse: Callable[[object], int], least: int, noun: str) -> Callable[[object], int]:
    def check(value: object) -> int:
        count = parse(value)
        if count < least:
            raise ValueError(f"needs at least {least:,} {noun}, not {show(value)}")
        return count

    return check


def _sized(pattern: str, least: int, examples: list[Any]) -> WithJsonSchema:
    whole = {"type": "integer", "minimum": least}
    return WithJsonSchema({"anyOf": [whole, {"type": "string", "pattern": pattern}], "examples": examples})


Tokens = Annotated[
    int,
    BeforeValidator(_counted(parse_tokens, 1, "token")),
    _sized(r"^[0-9][0-9_]*(\.[0-9]+)?\s*(k|M|Ki|Mi)?$", 1, [2000, "128k", "128Ki"]),
]
ExactTokens = Annotated[
    int,
    BeforeValidator(_counted(parse_exact_tokens, 1, "token")),
    _sized(r"^[0-9][0-9_]*(\.[0-9]+)?\s*(Ki|Mi)?$", 1, [262144, "256Ki"]),
]
Bytes = Annotated[
    int,
    BeforeValidator(_counted(parse_bytes, 1024**2, "bytes (1 MiB)")),
    _sized(r"^[0-9][0-9_]*(\.[0-9]+)?\s*(B|KiB|MiB|GiB|TiB)?$", 1024**2, ["96MiB", "2GiB"]),
]
Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    PlainSerializer(show_duration, return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^([0-9]+(\.[0-9]+)?[dhms])+$", "examples": ["2h", "90m"]}),
]

Latency = Annotated[
    float,
    BeforeValidator(parse_latency),
    PlainSerializer(show_latency, return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?(ms|s)$", "examples": ["50ms", "2s"]}),
]

_DTYPE_ALIASES = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "float": "fp32",
}
DTYPES = (
    "auto",
    "bf16",
    "fp16",
    "fp32",
    "fp8",
    "fp8_e4m3",
    "fp8_e5m2",
    "mxfp8",
    "nvfp4",
    "int8",
    "q8_0",
    "q5_1",
    "q5_0",
    "q4_1",
    "q4_0",
)


def _dtype(text: str) -> str:
    from kvantage.study.words import did_you_mean

    name = _DTYPE_ALIASES.get(text, text)
    if name not in DTYPES:
        raise ValueError(
            f"there is no dtype `{text}`{did_you_mean(text, DTYPES)} (an engine's own goes under `flags`)"
        )
    return name


Dtype = Annotated[
    str,
    BeforeValidator(as_text),
    AfterValidator(_dtype),
    WithJsonSchema({"type": "string", "enum": [*DTYPES, *_DTYPE_ALIASES]}),
]

Count = Annotated[int, Field(ge=1)]
