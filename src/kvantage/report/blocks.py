"""What a section of report.html is made of. Plain text and data only: the page escapes all of it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from kvantage.report.tables import Table

Value = str | float | int | bool | None

_NAME = re.compile(r"[a-z][a-z0-9_-]*")


class Chart(Protocol):
    """An Altair chart without data: `alt.Chart().mark_...`, a layer, or whatever else has `to_dict`."""

    def to_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Figure:
    """One chart, and all that belongs to it.

    name    of its file in `--charts DIR` and of its anchor: small letters, digits, - and _
    title   what to see, in a sentence: 'dflash leaves 25 % less pool', not 'Pool'
    alt     the chart in words, for who does not see it
    chart   an Altair chart; axis titles carry their units
    rows    its data, which is also what is downloaded; missing is None, never 0
    units   the unit of a column of `rows`, where it has one: {'decode': 'tok/s'}
    note    under the chart: how to read it, and the level of replication of its intervals
    """

    name: str
    title: str
    alt: str
    chart: Chart
    rows: Sequence[Mapping[str, Value]]
    units: Mapping[str, str]
    note: str = ""
    kind: Literal["figure"] = "figure"

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"a figure's name is small letters, digits, - and _, not {self.name!r}")
        if not (self.title and self.alt and self.rows):
            raise ValueError(f"the figure {self.name!r} has a title, a text alternative and data")


@dataclass(frozen=True)
class Panels:
    """Small figures side by side, as many as the width holds."""

    figures: tuple[Figure, ...]
    kind: Literal["panels"] = "panels"


@dataclass(frozen=True)
class Prose:
    """A paragraph."""

    text: str
    kind: Literal["prose"] = "prose"


@dataclass(frozen=True)
class Bullets:
    """A list; of each item the first word or words may stand in bold: ('dflash', 'costs 25 %')."""

    items: tuple[str | tuple[str, str], ...]
    lead: str = ""
    kind: Literal["bullets"] = "bullets"


@dataclass(frozen=True)
class Rows:
    """A table, with its title and notes."""

    table: Table
    kind: Literal["rows"] = "rows"


@dataclass(frozen=True)
class Listing:
    """Text as it stands, such as a command or a log. With `copies` there is a button that copies it."""

    title: str
    text: str
    copies: bool = False
    kind: Literal["listing"] = "listing"


@dataclass(frozen=True)
class Folded:
    """Blocks that are shown when they are asked for."""

    title: str
    blocks: tuple[Block, ...]
    kind: Literal["folded"] = "folded"


Block = Figure | Panels | Prose | Bullets | Rows | Listing | Folded


@dataclass(frozen=True)
class Section:
    """One section of the page. `name` is its anchor, `title` also stands in the list of contents."""

    name: str
    title: str
    blocks: tuple[Block, ...]

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"a section's name is small letters, digits, - and _, not {self.name!r}")


def slug(*parts: str | int) -> str:
    """A name for a figure from names that may hold anything. What is lost in it is told apart by a digest."""
    text = "-".join(map(str, parts))
    plain = "".join(
        char if char.isascii() and (char.isalnum() or char == "_") else "-" for char in text.lower()
    )
    if plain == text:
        return plain
    return f"{plain.strip('-')[:60]}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"


def figures(blocks: Sequence[Block]) -> list[Figure]:
    """Every figure in these blocks, in order, those in panels and in folds too."""
    found: list[Figure] = []
    for block in blocks:
        if isinstance(block, Figure):
            found.append(block)
        elif isinstance(block, Panels):
            found += block.figures
        elif isinstance(block, Folded):
            found += figures(block.blocks)
    return found
