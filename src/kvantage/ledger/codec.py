"""Core's dataclasses to JSON text and back."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from pydantic import TypeAdapter

T = TypeVar("T")


_ADAPTERS: dict[Any, TypeAdapter[Any]] = {}


def _adapter(kind: Any) -> TypeAdapter[Any]:
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


def dump(value: object) -> str:
    """A dataclass as JSON text."""
    return _adapter(type(value)).dump_json(value).decode()


def load(kind: type[T], text: str) -> T:
    """JSON text as that dataclass; raises ValueError when it does not fit."""
    value: T = _adapter(kind).validate_json(text)
    return value


def plain(value: Any) -> str:
    """Plain data as compact JSON text."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)
