"""kvantage: what a speculative drafter costs and what it buys, measured on your own LLM server.

    import kvantage

    run = kvantage.open_run("runs/quickstart")     # findings, and tables as polars frames
    run = kvantage.run_study("study.yaml")         # measure, as `kvantage run` does
    kvantage.plan("study.yaml", hardware="h100")   # predict, before anything is started

Nothing heavy is imported until one of them is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvantage.version import __version__

if TYPE_CHECKING:
    from kvantage.api import Planned, Run, open_run, plan, run_study

__all__ = ["Planned", "Run", "__version__", "open_run", "plan", "run_study"]

_LATER = ("Planned", "Run", "open_run", "plan", "run_study")


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from kvantage import api

    value = getattr(api, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
