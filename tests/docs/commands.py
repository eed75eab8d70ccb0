"""The commands that README and the documentation show: found, and told apart."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHELLS = ("sh", "bash", "shell", "console", "zsh")
SILENT = (
    "yaml",
    "yml",
    "json",
    "jsonl",
    "toml",
    "python",
    "text",
    "md",
    "markdown",
    "csv",
    "diff",
    "html",
    "sql",
)
FENCE = re.compile(
    r"^(?P<mark>`{3,}|~{3,})(?P<language>[\w+-]*)[^\n]*\n(?P<body>.*?)^(?P=mark)`*\s*$", re.M | re.S
)
INLINE = re.compile(r"(?<!`)`(?P<text>[^`\n]+)`(?!`)")
INDENTED = re.compile(r"(?:(?<=\n\n)|\A)(?:(?: {4}|\t)[^\n]*(?:\n|\Z))+")
PROGRAMS = (
    "kvantage", "make", "pip", "python", "python3", "git", "sqlite3", "mkdocs", "pytest", "ruff", "mypy",
    "lint-imports", "nice", "ssh", "flock", "cd", "eval", "echo", "export", "docker", "sudo", "curl",
    "ray", "taskset", "chrt", "for", "apt-get",
)  # fmt: skip
"""What a line of an indented block begins with when it is a command."""


@dataclass(frozen=True)
class Shown:
    """A command in a page. `inline` ones stand in a sentence, and may hold words in capitals for anything."""

    page: str
    line: int
    text: str
    inline: bool = False

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"


def pages() -> list[Path]:
    """Every page that shows commands to people."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    found += sorted((ROOT / "benchmarks").rglob("README.md"))
    return [page for page in found if "results" not in page.relative_to(ROOT).parts]


def shown(page: Path) -> Iterator[Shown]:
    """The commands of a page, in order. Raises ValueError for a block whose language is not known."""
    text = page.read_text(encoding="utf-8")
    name = page.relative_to(ROOT).as_posix()
    bare = text
    for block in FENCE.finditer(text):
        language = block["language"]
        start = text.count("\n", 0, block.start()) + 2
        if language in SHELLS:
            yield from _lines(name, start, block["body"])
        elif language == "text":  # an output: what was typed for it is a command
            typed = [line for line in block["body"].splitlines() if line.startswith(("kvantage ", "$ "))]
            if typed:
                yield from _lines(name, start, block["body"], only_commands=True)
        elif language == "":
            yield from _lines(name, start, block["body"], only_commands=True)
        elif language not in SILENT:
            raise ValueError(
                f"{name}:{start}: a block in `{language}`: neither commands nor known to be none"
            )
        bare = bare.replace(block[0], "\n" * block[0].count("\n"), 1)
    for block in INDENTED.finditer(bare):
        start = bare.count("\n", 0, block.start()) + 1
        body = re.sub(r"^(?: {4}|\t)", "", block[0], flags=re.M)
        yield from _lines(name, start, body, only_commands=True)
    for span in INLINE.finditer(INDENTED.sub(lambda m: "\n" * m[0].count("\n"), bare)):
        words = span["text"].split()
        if len(words) > 1 and words[0] == "kvantage" and words[1][0] not in "=`":
            yield Shown(name, bare.count("\n", 0, span.start()) + 1, span["text"], inline=True)


def _lines(name: str, start: int, body: str, *, only_commands: bool = False) -> Iterator[Shown]:
    """Commands of a block, with lines joined that end in a backslash; of a session, those after `$`."""
    session = any(line.startswith("$ ") for line in body.splitlines())
    held, first = "", start
    for number, line in enumerate(body.splitlines(), start):
        text = line.rstrip()
        if not held:
            first = number
            if session and not text.startswith("$ "):
                continue
            text = text.removeprefix("$ ")
        held = f"{held} {text.strip()}".strip()
        if held.endswith("\\"):
            held = held[:-1].rstrip()
            continue
        if _open_quote(held) and not session:
            continue
        command, held = held, ""
        if not command or command.startswith("#"):
            continue
        if only_commands and not session and not _begins(command):
            continue
        yield Shown(name, first, command)


def _open_quote(text: str) -> bool:
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return text.count("'") % 2 == 1 or text.count('"') % 2 == 1
    return False


def _begins(command: str) -> bool:
    first = command.split(maxsplit=1)[0]
    return Path(first).name in PROGRAMS or ("=" in first and first.split("=")[0].isupper())


def parts(command: str) -> list[list[str]]:
    """The simple commands of a line, as words: comments, redirections and variables before it left out."""
    try:
        words = shlex.split(command, comments=True)
    except ValueError:
        return [[command]]
    found: list[list[str]] = [[]]
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in ("&&", "||", ";", "|", "&"):
            found.append([])
        elif re.fullmatch(r"\d?>{1,2}|<", word):
            skip = True
        elif re.fullmatch(r"\d?>{1,2}\S+", word) or (not found[-1] and re.fullmatch(r"[A-Z_]+=\S*", word)):
            continue
        else:
            found[-1].append(word.rstrip(";") if word.endswith(";") else word)
            if word.endswith(";"):
                found.append([])
    return [one for one in found if one]
