"""A study file as text: YAML read into plain values, each with the line on which it stands.

The reading is that of YAML 1.2: `no`, `off` and `on` are text, and only `true` and `false` are not; `010` is
ten and `1:30` is text. Nothing is constructed but text, numbers, lists and mappings.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kvantage.core import StudyError

Loc = tuple[str | int, ...]
MAX_VALUES = 20_000
MAX_DEPTH = 40


class Whole(int):
    """A whole number that remembers how it was typed, for fields that want text (a revision, a variable)."""

    text: str


class Real(float):
    """A decimal number that remembers how it was typed."""

    text: str


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong in a study file; `loc` is the path of keys to it."""

    loc: Loc
    message: str
    hint: str | None = None


@dataclass(frozen=True)
class Source:
    """What a file holds: `value`, and the line of every key and list item in `lines`."""

    name: str
    value: Any
    lines: Mapping[Loc, int]

    def typed(self, loc: Loc) -> Loc:
        """`loc`, or the nearest thing around it that was typed: `model` for the path of `model: ./x`."""
        while loc and self.lines and loc not in self.lines:
            loc = loc[:-1]
        return loc

    def line(self, loc: Loc) -> int:
        """The line on which `loc` stands."""
        return self.lines.get(self.typed(loc), 1)

    def where(self, loc: Loc) -> str:
        """`file:line: field`, as an error shows it."""
        place = f"{self.name}:{self.line(loc)}" if self.lines else self.name
        field = field_name(self.typed(loc))
        return f"{place}: {field}" if field else place

    def error(self, problems: list[Problem]) -> StudyError:
        """One error for all of them, in the order of the file."""
        ordered = sorted(problems, key=lambda problem: (self.line(problem.loc), field_name(problem.loc)))
        if len(ordered) == 1:
            only = ordered[0]
            return StudyError(only.message, where=self.where(only.loc), hint=only.hint)
        lines = [str(StudyError(p.message, where=self.where(p.loc), hint=p.hint)) for p in ordered]
        return StudyError("\n".join([f"{len(lines)} things are wrong in {self.name}", *lines]))


def field_name(loc: Loc) -> str:
    """`arms.mtp.speculation.drafts`, `phases.cold.concurrency[2]`."""
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def read_source(path: Path) -> Source:
    """Read a study file. Raises StudyError when it is not there, not text, or not YAML that we accept."""
    name = str(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise StudyError("there is no such file", where=name) from None
    except IsADirectoryError:
        raise StudyError("this is a folder; name the study file in it", where=name) from None
    except UnicodeDecodeError as error:
        raise StudyError(f"is not UTF-8 text (byte {error.start})", where=name) from None
    except OSError as error:
        raise StudyError(f"cannot be read: {error.strerror}", where=name) from None
    return parse_source(text, name)


def parse_source(text: str, name: str) -> Source:
    """Read the text of a study file; `name` is what errors call it. Raises StudyError."""
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, text, name) from None
    except yaml.YAMLError as error:
        raise StudyError(f"is not YAML: {error}", where=name) from None
    except RecursionError:
        raise StudyError("is nested too deeply", where=name) from None
    if node is None:
        raise StudyError("the study is empty", where=name)
    reading = _Reading(name)
    value = reading.value(node, ())
    if reading.problems:
        raise Source(name, value, reading.lines).error(reading.problems)
    if not isinstance(value, dict):
        raise StudyError("a study is `field: value` lines; see docs/study-file.md", where=f"{name}:1")
    return Source(name, value, reading.lines)


class _Loader(yaml.SafeLoader):
    """Composes nodes with the plain scalars of YAML 1.2, and constructs nothing."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 (PyYAML's own)


_TAG = "tag:yaml.org,2002:"
_Loader.add_implicit_resolver(
    _TAG + "bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
_Loader.add_implicit_resolver(_TAG + "null", re.compile(r"(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])
_Loader.add_implicit_resolver(
    _TAG + "int", re.compile(r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$"), list("-+0123456789")
)
_Loader.add_implicit_resolver(
    _TAG + "float",
    re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$"),
    list("-+.0123456789"),
)
_KNOWN_TAGS = {_TAG + kind for kind in ("bool", "null", "int", "float", "str", "map", "seq")}


class _Reading:
    """One walk over the nodes of a file, gathering values, lines and problems."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: dict[Loc, int] = {(): 1}
        self.problems: list[Problem] = []
        self.count = 0

    def value(self, node: yaml.Node, loc: Loc) -> Any:
        self.count += 1
        if self.count > MAX_VALUES or len(loc) > MAX_DEPTH:
            raise StudyError("holds far more than a study does (an alias in itself?)", where=self.name)
        if node.tag not in _KNOWN_TAGS:
            tag = node.tag.replace(_TAG, "!!")
            self.problems.append(Problem(loc, f"the tag `{tag}` is not used in a study: leave it out"))
            return None
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, loc)
        if isinstance(node, yaml.SequenceNode):
            return [self.item(child, (*loc, index)) for index, child in enumerate(node.value)]
        return _scalar(node.tag, str(node.value))

    def item(self, node: yaml.Node, loc: Loc) -> Any:
        self.lines[loc] = node.start_mark.line + 1
        return self.value(node, loc)

    def mapping(self, node: yaml.MappingNode, loc: Loc) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, child in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                self.problems.append(
                    Problem(loc, f"line {line}: a field's name is a word, not a list or a group")
                )
                continue
            name = str(key.value)
            here = (*loc, name)
            if name in found:
                first = self.lines[here]
                self.lines[here] = line
                self.problems.append(Problem(here, f"is given twice (the first is on line {first})"))
                continue
            self.lines[here] = line
            if name == "<<":
                self.problems.append(Problem(here, "merge keys are not read; `common` is shared by all arms"))
            found[name] = self.value(child, here)
        return found


def _scalar(tag: str, text: str) -> Any:
    """The value of a plain scalar; one that is not what its tag says stays text."""
    kind = tag.removeprefix(_TAG)
    if kind == "null":
        return None
    if kind == "bool":
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        if kind == "int":
            whole = Whole(int(text, {"0o": 8, "0x": 16}.get(text[:2], 10)))
            whole.text = text
            return whole
        if kind == "float":
            real = Real(text)
            real.text = text
            return real if math.isfinite(real) else text
    except ValueError:
        return text
    return text


def _syntax_error(error: yaml.MarkedYAMLError, text: str, name: str) -> StudyError:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 1
    lines = text.splitlines()
    here = lines[line - 1] if line <= len(lines) else ""
    problem = error.problem or "cannot be read as YAML"
    message, hint = f"this is not YAML: {problem}", None
    if "\t" in here[: len(here) - len(here.lstrip())] or "'\\t'" in problem:
        message, hint = "a tab is used to indent", "Indent with spaces: YAML does not allow tabs there."
    elif "expected a single document" in problem or "single document" in (error.context or ""):
        message, hint = "a second document begins", "One file holds one study: remove the `---`."
    elif "mapping values are not allowed" in problem:
        message = "a `:` stands where none can"
        hint = "Is the line above indented as it should be? Text with `: ` in it needs quotes."
    elif "${" in here and "got '{'" in problem:
        hint = "Between braces, `${NAME}` needs quotes: '${NAME}'."
    elif "could not find expected ':'" in problem or "expected ',' or" in problem:
        message = f"this is not YAML: {problem}"
        hint = "Is a `:`, a `,` or a closing bracket missing on this line or the one above?"
    elif "undefined alias" in problem:
        hint = "Text that begins with `*` needs quotes."
    return StudyError(message, where=f"{name}:{line}", hint=hint)
