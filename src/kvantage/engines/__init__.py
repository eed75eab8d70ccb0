"""One folder an engine; each implements `kvantage.core.Engine`."""

from __future__ import annotations

from collections.abc import Callable

from kvantage.core import Engine, UsageError
from kvantage.engines.spelling import did_you_mean


def _vllm() -> Engine:
    from kvantage.engines.vllm import Vllm

    return Vllm()


def _sglang() -> Engine:
    from kvantage.engines.sglang import Sglang

    return Sglang()


def _llamacpp() -> Engine:
    from kvantage.engines.llamacpp import Llamacpp

    return Llamacpp()


def _openai() -> Engine:
    from kvantage.engines.openai import OpenAi

    return OpenAi()


def _sim() -> Engine:
    from kvantage.engines.sim import Sim

    return Sim()


_ENGINES: dict[str, Callable[[], Engine]] = {
    "llamacpp": _llamacpp,
    "openai": _openai,
    "sglang": _sglang,
    "sim": _sim,
    "vllm": _vllm,
}


def engine_names() -> tuple[str, ...]:
    """The engines that there are."""
    return tuple(sorted(_ENGINES))


def engine_named(name: str) -> Engine:
    """The engine of that name. Raises UsageError for one that there is not."""
    try:
        return _ENGINES[name]()
    except KeyError:
        raise UsageError(f"there is no engine `{name}`", hint=did_you_mean(name, _ENGINES)) from None


__all__ = ["engine_named", "engine_names"]
