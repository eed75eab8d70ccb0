"""The pieces an archive is made of: letters, ledgers, minutes, tables, code, diaries and notes.

Each piece is a function from a `World` to a block of text that ends with one newline.
"""

from __future__ import annotations

from collections.abc import Callable

from kvantage.workloads.prose import World

Piece = Callable[[World], str]


def story(world: World) -> str:
    """Two or three paragraphs of prose."""
    paragraphs = [world.sentences(3, 6) for _ in range(world.rng.randint(1, 3))]
    return "\n\n".join(paragraphs) + "\n"


def diary(world: World) -> str:
    """Dated entries of a few sentences each."""
    day = world.rng.randrange(1, 20)
    month, year = world.word("month"), world.rng.randrange(1810, 1990)
    lines = []
    for _ in range(world.rng.randint(2, 5)):
        lines.append(f"{day} {month} {year}. {world.sentences(1, 3)}")
        day += world.rng.randint(1, 3)
    return "\n".join(lines) + "\n"


def ledger(world: World) -> str:
    """Numbered lines of goods, quantities and prices, with their true total."""
    number, total = world.rng.randrange(100, 900), 0
    lines = [f"Ledger of the {world.word('place')}, kept by {world.word('person')}:"]
    for _ in range(world.rng.randint(4, 9)):
        count, price = world.rng.randrange(1, 40), world.rng.randrange(2, 60)
        total += count * price
        lines.append(
            f"  {number}  {count} {world.word('unit')} of {world.word('mass')} at {price} = {count * price}"
        )
        number += 1
    lines.append(f"  total {total}")
    return "\n".join(lines) + "\n"


def letter(world: World) -> str:
    """A letter with an address, a body and a signature."""
    return (
        f"To {world.word('person')}, at the {world.word('place')}, {world.town}\n\n"
        f"Dear {world.word('role')},\n\n{world.sentences(2, 5)}\n\n{world.sentences(1, 3)}\n\n"
        f"Yours, {world.word('person')}\n"
    )


def minutes(world: World) -> str:
    """Minutes of a meeting: who was there, what was said, what was decided."""
    lines = [
        f"Minutes of the meeting on {world.word('topic')}, {world.word('day')}.",
        f"Present: {', '.join(world.rng.sample(world.people, 3))}.",
    ]
    for item in range(1, world.rng.randint(3, 6)):
        lines.append(f"{item}. {world.sentence()}")
    lines.append(f"Decided: {world.sentence()}")
    return "\n".join(lines) + "\n"


def weather_table(world: World) -> str:
    """A table of days with temperature, wind and sky."""
    lines = ["| day | degrees | wind | sky |", "|---|---|---|---|"]
    for _ in range(world.rng.randint(3, 7)):
        lines.append(
            f"| {world.word('day')} | {world.rng.randrange(-9, 31)} | {world.word('wind')} "
            f"| {world.word('weather')} |"
        )
    return "\n".join(lines) + "\n"


def inventory(world: World) -> str:
    """A list of things and where they are."""
    lines = [f"Inventory, {world.word('month')}:"]
    for _ in range(world.rng.randint(4, 8)):
        lines.append(
            f"- {world.rng.randrange(1, 60)} {world.word('unit')}, {world.word('adj')}"
            f" {world.word('noun')}, {world.word('place')}"
        )
    return "\n".join(lines) + "\n"


def code(world: World) -> str:
    """A short function or class as a clerk with a computer would have written it."""
    noun, other = world.word("noun"), world.word("mass")
    step, limit = world.rng.randrange(2, 30), world.rng.randrange(20, 500)
    form = world.rng.randrange(3)
    if form == 0:
        body = (
            f"def count_{noun}s(items, limit={limit}):\n"
            f"    total = 0\n"
            f"    for item in items:\n"
            f'        if item.name == "{other}":\n'
            f"            total += {step}\n"
            f"        elif total > limit:\n"
            f"            break\n"
            f"    return total\n"
        )
    elif form == 1:
        body = (
            f"class {noun.capitalize()}:\n"
            f"    def __init__(self, {other}, size={limit}):\n"
            f"        self.{other} = {other}\n"
            f"        self.size = size\n\n"
            f"    def add(self, amount):\n"
            f"        self.size = self.size + amount * {step}\n"
            f"        return self.size\n"
        )
    else:
        body = (
            f"{noun}s = {{}}\n"
            f"for row in read_rows('{other}.csv'):\n"
            f"    key = row['{noun}']\n"
            f"    {noun}s[key] = {noun}s.get(key, 0) + {step}\n"
            f"print(len({noun}s), 'of', {limit})\n"
        )
    return f"```python\n{body}```\n"


def dialogue(world: World) -> str:
    """Two people who talk in turns."""
    first, second = world.rng.sample(world.people, 2)
    lines = []
    for _ in range(world.rng.randint(2, 4)):
        lines.append(f"{first}: {world.sentence()}")
        lines.append(f"{second}: {world.sentence()}")
    return "\n".join(lines) + "\n"


def record(world: World) -> str:
    """A catalogue card as key and value lines."""
    return (
        f"title: {world.fill('{adj} {noun} and {adj} {noun}')}\n"
        f"keeper: {world.word('person')}\n"
        f"shelf: {world.rng.choice('ABCDEFGH')}{world.rng.randrange(1, 80)}\n"
        f"year: {world.rng.randrange(1700, 1990)}\n"
        f"state: {world.word('adj')}\n"
        f"remarks: {world.sentence()}\n"
    )


PIECES: tuple[Piece, ...] = (
    story, story, story, diary, diary, ledger, letter, letter, minutes, weather_table, inventory,
    code, dialogue, record,
)  # fmt: skip

TITLES = (
    "Papers of the {place}", "On {topic}", "Notes by {person}", "Letters from {town}",
    "The {adj} {noun}", "Accounts for {month}", "What {person} saw", "Concerning {topic}",
    "The {role} of {town}", "Matters of the {place}",
)  # fmt: skip
