"""A group of commands that imports a command's module only when that command is called."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import select
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a command lives, what the list of commands says of it, and under which heading."""

    module: str
    help: str
    section: str = "Tools"


class ReaderLeft(Exception):  # noqa: N818
    """Whoever read our output has closed it, as `| head` does."""


class LazyGroup(click.Group):
    """Commands by name, each a module with an attribute `command`. One whose module is absent is hidden."""

    def __init__(self, *, entries: dict[str, Entry], **attributes: object) -> None:
        super().__init__(**attributes)  # type: ignore[arg-type]
        self.entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name, entry in self.entries.items() if importlib.util.find_spec(entry.module)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command = importlib.import_module(self.entries[cmd_name].module).command
        if not isinstance(command, click.Command):
            raise TypeError(f"{self.entries[cmd_name].module}.command is not a click command")
        _name_variables(command, cmd_name)
        return command

    def invoke(self, ctx: click.Context) -> object:
        try:
            outcome = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError as error:
            # click takes any broken pipe for a reader that left, and leaves in silence with 1.
            if _stdout_is_closed():
                raise ReaderLeft from error
            raise RuntimeError(f"a connection broke: {error}") from error
        return outcome

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        known = self.list_commands(ctx)
        if name not in known and not name.startswith("-"):
            near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
            ending = f" Did you mean `{near[0]}`?" if near else ""
            ctx.fail(f"There is no command `{name}`.{ending}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names and their help without importing a command: a shell waits for this at every Tab."""
        from click.shell_completion import CompletionItem

        return [
            CompletionItem(name, help=self.entries[name].help)
            for name in self.list_commands(ctx)
            if name.startswith(incomplete)
        ] or [
            CompletionItem(option)
            for parameter in self.get_params(ctx)
            for option in parameter.opts
            if incomplete.startswith("-") and option.startswith(incomplete)
        ]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            entry = self.entries[name]
            sections.setdefault(entry.section, []).append((name, entry.help))
        widest = max((len(name) for rows in sections.values() for name, _ in rows), default=0)
        for section, rows in sections.items():
            with formatter.section(section):
                formatter.write_dl([(name.ljust(widest), help_) for name, help_ in rows])


def _name_variables(command: click.Command, name: str) -> None:
    """Let each option be given by a variable named as the option is: KVANTAGE_RUN_DRY_RUN for `--dry-run`.

    Click's own `auto_envvar_prefix` would use the name of the parameter in Python.
    """
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.envvar is None:
            option = max(parameter.opts, key=len).lstrip("-")
            parameter.envvar = f"KVANTAGE_{name}_{option}".upper().replace("-", "_")


def _stdout_is_closed() -> bool:
    """Whether the pipe that stdout is has lost its reader."""
    watch = select.poll()
    try:
        watch.register(sys.stdout.fileno(), select.POLLOUT)
    except (OSError, ValueError):
        return False
    return any(event & select.POLLERR for _, event in watch.poll(0))
