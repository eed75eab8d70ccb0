"""Every command that README and the documentation show is run, or, where that takes a server or hours, read
by the command line as when it is called: a flag that there is not fails here.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from kvantage.cli import cli
from kvantage.cli import invoke as run
from tests.cli.simulated import study
from tests.docs.commands import PROGRAMS, ROOT, Shown, pages, parts, shown
from tests.ledgers import write_run

COMMANDS = [one for page in pages() for one in shown(page)]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
PLACEHOLDER = re.compile(r"\b[A-Z]{2,}\b|\.\.\.|\[--|<[a-z]")

NOT_RUN = (
    (r"^kvantage (probe|measure|exactness) ", "needs a server that runs"),
    (r"https?://", "needs a server that runs"),
    (r"^kvantage quickstart(?!.*--dry-run)", "minutes of a real engine; `make quickstart` is run by the CI"),
    (r"^kvantage calibrate", "measures this machine for ten seconds to minutes"),
    (r"^kvantage golden", "serves until it is stopped"),
    (
        r"^kvantage run (?!.*--dry-run)",
        "needs the engine that its study names; the simulated one is run above",
    ),
    (
        r"^kvantage (watch|report|export|plan|compare|inspect|check|run|doctor) ",
        "names a file of the reader's own",
    ),
    (r"--load ray|--load-workers", "needs a cluster or a study of the reader's own"),
)
"""What is only read, and why. A `kvantage` command that matches none is run, and must end well."""


def kvantage_words() -> Iterator[tuple[Shown, list[str]]]:
    """Each call of kvantage in a page, also behind `.venv/bin/` and in `$(...)`."""
    for one in COMMANDS:
        for inner in re.findall(r"\$\(([^)]*)\)", one.text):
            yield from ((one, words) for words in parts(inner) if words[0] == "kvantage")
        for words in parts(re.sub(r"\$\([^)]*\)", "", one.text)):
            if Path(words[0]).name == "kvantage":
                yield one, ["kvantage", *words[1:]]


CALLS = list(kvantage_words())


def read(words: list[str]) -> None:
    """Let the command line read the words as it does before it calls a command. Raises click's errors."""
    group = click.Context(cli, info_name="kvantage")
    name, *rest = words
    if name.startswith("-"):
        cli.make_context("kvantage", words, resilient_parsing=name in ("--help", "-h", "--version", "-V"))
        return
    command = cli.get_command(group, name)
    if command is None:
        raise click.UsageError(f"there is no command `{name}`")
    with contextlib.suppress(click.exceptions.Exit), contextlib.redirect_stdout(io.StringIO()):  # --help
        command.make_context(name, rest, parent=group)


def filled(text: str) -> list[str]:
    """Words of a call in a sentence: what is optional, and `...`, is taken; a choice is its first word."""
    plain = re.sub(r"[\[\]]", "", text.split(" > ", maxsplit=1)[0]).replace("...", "")
    return [word.split("|")[0] for word in plain.split()[1:]]


@pytest.mark.parametrize(("one", "words"), CALLS, ids=[f"{one.page}:{one.line}" for one, _ in CALLS])
def test_the_command_line_reads_every_call_that_is_shown(one: Shown, words: list[str]) -> None:
    asked = filled(one.text) if one.inline else words[1:]
    if one.inline and not asked:  # `kvantage ...`
        return
    if one.inline and len(asked) == 1 and not asked[0].startswith("-"):
        assert cli.get_command(click.Context(cli), asked[0]), one
        return
    if one.inline and PLACEHOLDER.search(one.text) and asked[0].isupper():
        return  # `kvantage COMMAND --help`
    try:
        read(asked)
    except (click.MissingParameter, click.BadOptionUsage):
        if not one.inline:  # in a sentence an option may be named without its value
            raise
    except click.UsageError as error:
        raise AssertionError(f"{one}: {error.format_message()}") from None


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder like a reader's: the examples, a study, what `run` made of it, a few files to inspect."""
    folder = tmp_path_factory.mktemp("desk")
    shutil.copytree(ROOT / "examples", folder / "examples")
    shutil.copytree(ROOT / "tests" / "data" / "configs" / "qwen3-8b", folder / "Qwen3-8B")
    captures = ROOT / "tests" / "data" / "captures" / "vllm-0.32-cpu"
    shutil.copy(captures / "a_plain.log", folder / "server.log")
    shutil.copy(captures / "a_plain.metrics1.txt", folder / "metrics.txt")
    shutil.copy(captures / "b_ngram.cold.json", folder / "response.json")
    made = study(folder, output_tokens=24)
    before = Path.cwd()
    os.chdir(folder)
    try:
        assert run(["run", made.name, "--out", "runs/study"]) == 0
        shutil.copytree("runs/study", "runs/quickstart")
        for seed, name in enumerate(("before", "after")):
            write_run(folder / name, {"none": 1.0, "mtp": 1.5}, seed=seed)
        yield folder
    finally:
        os.chdir(before)


def why_not(text: str, folder: Path) -> str | None:
    """Why a call is only read; None where it is to be run."""
    for pattern, reason in NOT_RUN:
        if re.search(pattern, text):
            names = re.findall(
                r"(?<![-\w=])[\w./-]+\.(?:yaml|json|txt|log)\b|(?<![^\s:])(?:\./|runs/)[\w./-]+", text
            )
            own = reason.startswith("names a file") and all((folder / name).exists() for name in names)
            if own and not PLACEHOLDER.search(text):
                continue
            return reason
    return None


RUNNABLE = [(one, words) for one, words in CALLS if not one.inline]


@pytest.mark.parametrize(("one", "words"), RUNNABLE, ids=[f"{one.page}:{one.line}" for one, _ in RUNNABLE])
def test_what_can_be_run_here_ends_well(
    one: Shown, words: list[str], desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = " ".join(words)
    if "init" in words[1:2]:
        (desk / next((word for word in words[2:] if word.endswith(".yaml")), "study.yaml")).unlink(
            missing_ok=True
        )
        if "--yes" not in words:
            pytest.skip("asks a person; it is answered in tests/cli/test_init.py")
    reason = why_not(text, desk)
    if reason is not None:
        pytest.skip(reason)
    if "--dry-run" in words and not _engine_is_here(words, desk):
        pytest.skip("the engine of that study is not installed here")
    if words[1:2] == ["doctor"] and len(words) > 2 and "hosts:" in _text(words[2], desk):
        pytest.skip("its machines are the reader's own")
    code = run(words[1:])
    said = capsys.readouterr()
    assert code == 0, f"{one}: exit code {code}\n{said.out[-2000:]}{said.err}"
    if "init" in words[1:2] and "study.yaml" in words:
        study(desk, output_tokens=24)


def _text(name: str, folder: Path) -> str:
    path = folder / name
    return path.read_text() if path.is_file() else ""


def _engine_is_here(words: list[str], folder: Path) -> bool:
    """Without its engine a study cannot be dry-run: its flags are asked of it."""
    names = " ".join(_text(word, folder) for word in words if word.endswith(".yaml"))
    if "engine: llamacpp" in names:
        return False  # its model is a file of the reader's own
    return importlib.util.find_spec("vllm") is not None or "vllm" not in names


def test_a_flag_that_there_is_not_is_found() -> None:
    for words in (
        ["run", "study.yaml", "--dry-rnu"],
        ["rum", "study.yaml"],
        ["report"],
        ["watch", "a", "--x"],
    ):
        with pytest.raises(click.UsageError):
            read(words)


OTHERS = [
    (one, words)
    for one in COMMANDS
    if not one.inline
    for words in parts(re.sub(r"\$\([^)]*\)", "X", one.text))
    if Path(words[0]).name != "kvantage"
]


@pytest.mark.parametrize(("one", "words"), OTHERS, ids=[f"{one.page}:{one.line}" for one, _ in OTHERS])
def test_every_other_command_is_known_and_leads_somewhere(one: Shown, words: list[str], desk: Path) -> None:
    program = Path(words[0]).name
    match program:
        case "make":
            assert {word for word in words[1:] if "=" not in word} <= TARGETS, one
        case "pip":
            extras = set(re.findall(r"\[([\w,]+)\]", " ".join(words)))
            known = PROJECT["project"]["optional-dependencies"]
            assert all(extra in known for group in extras for extra in group.split(",")), one
        case "python" | "python3":
            _python(one, words)
        case "pytest":
            markers = {text.split(":")[0] for text in PROJECT["tool"]["pytest"]["ini_options"]["markers"]}
            for place, word in enumerate(words):
                if word == "-m":
                    assert set(re.findall(r"\w+", words[place + 1])) - {"not", "and", "or"} <= markers, one
                elif "/" in word and place:
                    assert (ROOT / word.split("::")[0]).exists(), one
        case "sqlite3":
            with contextlib.closing(sqlite3.connect(desk / words[1])) as ledger:
                ledger.execute(words[2]).fetchall()
        case _ if program in PROGRAMS:
            pass  # the system's own
        case _:
            path = ROOT / words[0]
            assert path.exists() or shutil.which(program), f"{one}: what is `{words[0]}`?"


def _python(one: Shown, words: list[str]) -> None:
    """A module that can be found, or a script that is there and compiles."""
    arguments = [word for word in words[1:] if word not in ("-q", "-u")]
    if arguments and arguments[0] == "-m":
        module = arguments[1]
        assert importlib.util.find_spec(module) is not None, one
        if module == "pip":
            return
        if module.startswith("kvantage.") and "--help" in arguments:
            done = subprocess.run([sys.executable, *words[1:]], capture_output=True, check=False)
            assert done.returncode == 0, one
    elif arguments and arguments[0] != "-c":
        script = ROOT / arguments[0]
        assert script.is_file(), one
        compile(script.read_text(), str(script), "exec")
    elif arguments:
        compile(arguments[1], "<shown>", "exec")


PYTHON = [
    (page.relative_to(ROOT).as_posix(), block)
    for page in pages()
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)
]


def test_python_that_is_shown_runs(desk: Path) -> None:
    by_page: dict[str, list[str]] = {}
    for page, block in PYTHON:
        compile(block, page, "exec")
        by_page.setdefault(page, []).append(block)
    names: dict[str, object] = {}
    for block in by_page["docs/python.md"]:
        exec(compile(block, "docs/python.md", "exec"), names)
    assert {"run", "planned"} <= set(names)


def test_every_block_is_told_apart() -> None:
    assert len(COMMANDS) > 60
    for page in pages():
        list(shown(page))
