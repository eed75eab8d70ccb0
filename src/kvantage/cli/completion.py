"""`kvantage completion SHELL`: the few lines that make a shell complete our words."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "fish", "zsh")


@click.command(short_help="Print what makes your shell complete kvantage's words.")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print what makes your shell complete kvantage's commands, options and files.

    \b
      eval "$(kvantage completion bash)"        # in this shell; put the line into ~/.bashrc for every one
      eval "$(kvantage completion zsh)"         # the same for ~/.zshrc
      kvantage completion fish > ~/.config/fish/completions/kvantage.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None, "the choice is of click's own shells"
    click.echo(kind(context.find_root().command, {}, "kvantage", "_KVANTAGE_COMPLETE").source())
