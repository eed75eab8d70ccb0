import subprocess
import sys
from pathlib import Path

import click
import pytest

from kvantage import __version__, cli
from kvantage.cli.lazy import Entry
from kvantage.core import ExitCode
from tests.study.base import BASE

FAKE = """
import errno, sys
import click
from kvantage.core import ArmFailed, LedgerError, UsageError

@click.command()
@click.argument("how")
@click.option("--tokens", type=int)
def command(how, tokens):
    match how:
        case "usage":
            raise UsageError("port 8000 is in use", where="arms.mtp", hint="Choose another.")
        case "arm":
            raise ArmFailed("died at its first request")
        case "ledger":
            raise LedgerError("is not a ledger", where="runs/x")
        case "full":
            raise OSError(errno.ENOSPC, "No space left on device", "runs/x/study.sqlite")
        case "bug":
            raise ZeroDivisionError("division by zero")
        case "socket":
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")
        case "interrupt":
            raise KeyboardInterrupt
        case "return":
            return 5
        case "exit":
            sys.exit(4)
        case "words":
            sys.exit("last words")
    click.echo("done")
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fake_command_for_tests.py").write_text(FAKE)
    monkeypatch.syspath_prepend(tmp_path)
    assert isinstance(cli.cli, cli.LazyGroup)
    entries = {**cli.cli.entries, "fake": Entry("fake_command_for_tests", "Fails as it is told.")}
    monkeypatch.setattr(cli.cli, "entries", entries)


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize(
    ("how", "code", "said"),
    [
        ("usage", 2, "kvantage: arms.mtp: port 8000 is in use\n  Choose another.\n"),
        ("arm", 5, "kvantage: died at its first request\n"),
        ("ledger", 6, "kvantage: runs/x: is not a ledger\n"),
        ("full", 6, "kvantage: the disk is full (runs/x/study.sqlite); what was finished is kept\n"),
        (
            "bug",
            1,
            "kvantage: a fault of kvantage itself: ZeroDivisionError: division by zero\n"
            "  Run it again with --debug for the traceback.\n",
        ),
        (
            "socket",
            1,
            "kvantage: a fault of kvantage itself: RuntimeError: a connection broke: [Errno 32] Broken pipe\n"
            "  Run it again with --debug for the traceback.\n",
        ),
        ("interrupt", 130, "interrupted\n"),
        ("return", 5, ""),
        ("exit", 4, ""),
        ("words", 1, "last words\n"),
        ("well", 0, ""),
    ],
)
def test_how_a_command_ends(how: str, code: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.invoke(["fake", how]) == code
    assert capsys.readouterr().err.lstrip("\n") == said


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize("words", [["--debug", "fake", "bug"], ["fake", "bug", "--debug"]])
def test_debug_adds_the_traceback(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.invoke(words) == ExitCode.BUG
    said = capsys.readouterr().err
    assert "Traceback (most recent call last)" in said
    assert "Run it again" not in said


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fakke"], "There is no command `fakke`. Did you mean `fake`?"),
        (["zzz"], "There is no command `zzz`."),
        (["fake", "well", "--toksen", "3"], "Did you mean --tokens?"),
        (["--versoin"], "Did you mean --version?"),
        (["fake"], "Missing argument 'HOW'"),
        (["fake", "well", "--tokens", "x"], "'x' is not a valid integer"),
    ],
)
def test_a_wrong_command_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.invoke(words) == ExitCode.USAGE
    assert said in capsys.readouterr().err.replace("'--", "--").replace("'?", "?")


def test_a_command_whose_module_is_absent_is_hidden(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert isinstance(cli.cli, cli.LazyGroup)
    entries = {"check": cli.COMMANDS["check"], "later": Entry("kvantage.cli.no_such_module", "Not yet.")}
    monkeypatch.setattr(cli.cli, "entries", entries)
    assert cli.invoke(["--help"]) == 0
    shown = capsys.readouterr().out
    assert "check" in shown
    assert "later" not in shown
    assert cli.invoke(["later"]) == ExitCode.USAGE


def test_what_help_says_of_a_command_is_what_the_command_says() -> None:
    group = cli.cli
    assert isinstance(group, cli.LazyGroup)
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        assert command.help, name


def test_help_and_version_import_nothing_heavy() -> None:
    script = (
        "import sys\nfrom kvantage.cli import invoke as run\n"
        "code = run(sys.argv[1:])\n"
        "heavy = {'pydantic', 'numpy', 'rich', 'yaml', 'asyncio', 'sqlite3'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else code)\n"
    )
    for words in (["--help"], ["--version"]):
        done = subprocess.run(
            [sys.executable, "-c", script, *words], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("Usage: kvantage" if words == ["--help"] else f"kvantage {__version__}")


def test_a_reader_that_leaves_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(BASE)
    reader = subprocess.run(
        f"set -o pipefail; {sys.executable} -m kvantage.cli check study.yaml --json | true",
        shell=True,
        executable="/bin/bash",
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (reader.returncode, reader.stderr) == (0, "")
