"""Options that take names of a study's arms or phases, with commas; a shell completes them from the study."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def names(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    """`a,b` as names."""
    if value is None:
        return None
    return tuple(name.strip() for name in value.split(",") if name.strip())


Completer = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]


def completes(kind: Literal["arms", "phases"]) -> Completer:
    """Completes the last of the names, by those of the study file that stands before; of none, nothing."""

    def complete(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        before, comma, last = incomplete.rpartition(",")
        taken = before.split(",")
        return [
            CompletionItem(f"{before}{comma}{name}")
            for name in _known(_study(context), kind)
            if name.startswith(last) and name not in taken
        ]

    return complete


def _study(context: click.Context) -> object:
    """The study file as far as the line has been read: click gives up at the option without its value."""
    return context.params.get("study") or next(iter(context.args), None)


def _known(study: object, kind: Literal["arms", "phases"]) -> Sequence[str]:
    from kvantage.core import KvantageError
    from kvantage.study import load_study

    if isinstance(study, str | Path):
        with contextlib.suppress(KvantageError, OSError):
            asked = load_study(study, paths_must_exist=False)
            return asked.arm_names if kind == "arms" else asked.phase_names
    return ()
