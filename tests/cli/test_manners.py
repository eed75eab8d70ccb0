"""What people expect of a command line: help that teaches, completion, variables, second guesses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from kvantage import cli
from kvantage.cli import invoke as run
from tests.study.base import BASE


def commands() -> list[tuple[str, click.Command]]:
    group = cli.cli
    assert isinstance(group, cli.LazyGroup)
    context = click.Context(group)
    found = [(name, group.get_command(context, name)) for name in group.list_commands(context)]
    return [(name, command) for name, command in found if command is not None]


@pytest.mark.parametrize(("name", "command"), commands(), ids=lambda one: one if isinstance(one, str) else "")
def test_every_help_has_an_example_and_says_what_each_option_is(name: str, command: click.Command) -> None:
    context = click.Context(command, info_name=f"kvantage {name}", max_content_width=100)
    shown = command.get_help(context)
    assert f"kvantage {name}" in shown.split("Options:")[0].split("\n", 1)[1]
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{name} {parameter.opts}"


def test_an_option_can_be_given_by_a_variable_named_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(BASE)
    monkeypatch.setenv("KVANTAGE_CHECK_JSON", "1")
    assert run(["check", str(path)]) == 0
    assert capsys.readouterr().out.startswith("{")
    monkeypatch.setenv("KVANTAGE_DEBUG", "1")
    assert run(["check", str(tmp_path / "absent.yaml")]) == 2
    assert "Traceback" in capsys.readouterr().err


def complete(words: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", "from kvantage.cli import main; main()"],
        env={
            **os.environ,
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split(" ")) - 1),
            "_KVANTAGE_COMPLETE": "bash_complete",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.split()


def test_a_shell_completes_commands_and_options() -> None:
    assert "plain,report" in complete("kvantage re")
    assert "plain,--dry-run" in complete("kvantage run --")
    assert complete("kvantage completion z") == ["plain,zsh"]
    assert "plain,--debug" in complete("kvantage --")


def test_a_shell_completes_the_arms_and_phases_of_the_study(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(BASE)
    assert complete(f"kvantage run {path} --arms n") == ["plain,none"]
    assert complete(f"kvantage run {path} --arms none,") == ["plain,none,mtp"]
    assert "plain,short" in complete(f"kvantage run {path} --phases ")
    assert complete("kvantage run absent.yaml --arms n") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_each_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    assert "_KVANTAGE_COMPLETE" in capsys.readouterr().out


def test_bash_takes_the_script() -> None:
    script = 'eval "$(kvantage completion bash)"; complete -p kvantage'
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", script], env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    assert "_kvantage_completion" in done.stdout, done.stderr


@pytest.mark.parametrize("name", ["run", "quickstart", "watch", "report", "export", "completion"])
def test_help_of_the_usual_commands_waits_for_nothing_heavy(name: str) -> None:
    script = (
        "import sys\nfrom kvantage.cli import invoke as run\ncode = run(sys.argv[1:])\n"
        "heavy = {'pydantic', 'numpy', 'scipy', 'rich', 'altair', 'polars'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else code)\n"
    )
    words = [sys.executable, "-c", script, name, "--help"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
