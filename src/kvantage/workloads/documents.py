"""Synthetic archives of an exact token length, with secrets hidden at known depths.

A document is made from a seed string alone: the same seed, length and tokenizer give the same text,
and two seeds give texts that differ from their first line on, so that no prefix is shared.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable
from dataclasses import dataclass

from kvantage.workloads.pieces import PIECES, TITLES
from kvantage.workloads.prose import World, coined_name, words

Count = Callable[[str], int]

SMALLEST = 100
"""The fewest tokens a document can have."""

_WINDOW = 1200  # characters at the end that are recounted while the length is made exact
_CHUNK = 24_000  # characters counted at once while the document grows
_GAP = re.compile(r"(?<=[a-z]\.)[ \n](?=[A-Z\n])")  # between two sentences or after a paragraph
_THINGS = words(
    "Lantern Harbor Falcon Meadow Copper Willow Granite Raven Beacon Juniper Anchor Thistle Cedar "
    "Comet Garnet Heron Ivory Jasper Kestrel Linden Marble Nettle Orchid Pepper Quarry Russet "
    "Saffron Tundra Umber Velvet Walnut Zephyr"
)


@dataclass(frozen=True)
class Secret:
    """A named six-digit code; `depth` is where it stands, as a share (0 to 1) of the text."""

    name: str
    value: str
    depth: float

    @property
    def sentence(self) -> str:
        """The sentence that gives the secret away."""
        return f"The access code of {self.name} is {self.value}."


@dataclass(frozen=True)
class Document:
    """A synthetic archive: its text, its exact length in tokens, its seed and its secrets."""

    text: str
    tokens: int
    seed: str
    secrets: tuple[Secret, ...]


def make_document(seed: str, tokens: int, count: Count, secrets: int = 4) -> Document:
    """Make the archive of a seed, exactly `tokens` long by `count`.

    `count` is the number of tokens of a text without anything added around it; it is called on the
    whole text only a few times. The secrets are spread evenly from 5 % to 95 % of the text, each
    moved a little by the seed. Raises ValueError when `tokens` is too few for the secrets (25 for
    each, and 100 at least) or when `count` can't be met exactly.
    """
    if tokens < max(SMALLEST, 60 + 30 * secrets):
        raise ValueError(f"{tokens} tokens are too few for a document with {secrets} secrets")
    rng = random.Random(hashlib.sha256(f"document:{seed}".encode()).digest())
    names = _secret_names(rng, secrets)
    values = [f"{rng.randrange(100_000, 1_000_000)}" for _ in range(secrets)]
    depths = _depths(rng, secrets)
    world = World(rng)
    grown = _grow(world, _heading(world), tokens, count)
    sentences = [Secret(n, v, 0.0).sentence for n, v in zip(names, values, strict=True)]
    room = tokens - sum(count(f" {sentence}") for sentence in sentences)
    share = min(1.0, room / count(grown))
    for less in (1.0, 0.98, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1):
        body = grown[: max(1, int(len(grown) * share * less))]
        text = _fit(_hide(body, sentences, depths), tokens, count, rng, sentences)
        if text:
            break
    else:
        raise ValueError(f"no text of exactly {tokens} tokens could be made by this tokenizer")
    placed = tuple(
        Secret(n, v, text.index(s) / len(text)) for n, v, s in zip(names, values, sentences, strict=True)
    )
    return Document(text=text, tokens=tokens, seed=seed, secrets=placed)


def recall_question(document: Document) -> str:
    """The question that follows the document: all its codes, then more of the archive."""
    names = [secret.name for secret in document.secrets]
    if not names:
        return "Continue the archive."
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    noun = "code" if len(names) == 1 else "codes"
    return (
        f"What are the access {noun} of {listed}? Answer with one line for each, in the form"
        ' "The access code of NAME is CODE." Then continue the archive.'
    )


def recall_messages(document: Document) -> list[dict[str, str]]:
    """The document and its question as one user message."""
    content = f"{document.text}\n\n{recall_question(document)}"
    return [{"role": "user", "content": content}]


def check_recall(document: Document, answer: str) -> dict[str, bool]:
    """Which secrets the answer gives back, by name.

    Exact in the digits, tolerant in the form: case, bold marks, and spaces, commas, dots or dashes
    inside the number don't matter. A name's code is the first six-digit number after the name and
    before the next name asked for; where a name never appears it is not recalled.
    """
    plain = re.sub(r"[*_`\"'\\]", "", answer)
    spots: list[tuple[int, int]] = []
    for secret in document.secrets:
        for found in re.finditer(re.escape(secret.name), plain, re.IGNORECASE):
            spots.append((found.start(), found.end()))
    starts = sorted(start for start, _ in spots)
    recalled = {}
    for secret in document.secrets:
        recalled[secret.name] = False
        for found in re.finditer(re.escape(secret.name), plain, re.IGNORECASE):
            later = [start for start in starts if start >= found.end()]
            span = plain[found.end() : later[0] if later else len(plain)]
            number = re.search(r"(?<!\d)\d(?:[ ,.\u00a0\u202f-]?\d){5}(?!\d)", span)
            if number:
                recalled[secret.name] = re.sub(r"\D", "", number.group()) == secret.value
                break
    return recalled


def _secret_names(rng: random.Random, number: int) -> list[str]:
    things = rng.sample(_THINGS, min(number, len(_THINGS)))
    while len(things) < number:
        things.append(coined_name(rng))
    numbers = rng.sample(range(100, 1000), number)
    return [f"{thing}-{tag}" for thing, tag in zip(things, numbers, strict=True)]


def _depths(rng: random.Random, number: int) -> list[float]:
    if number == 0:
        return []
    step = 0.9 / max(1, number)
    return [0.05 + step * (i + 0.5 + rng.uniform(-0.45, 0.45)) for i in range(number)]


def _heading(world: World) -> str:
    rng = world.rng
    return (
        f"{coined_name(rng)} {rng.randrange(1000, 10_000)}: archive of {world.town},"
        f" volume {rng.randrange(1, 90)}\n\n"
    )


def _section(world: World, number: int) -> str:
    pieces = [f"## {number}. {world.fill(world.rng.choice(TITLES))}\n"]
    pieces += [world.rng.choice(PIECES)(world) for _ in range(world.rng.randint(1, 3))]
    return "\n".join(pieces) + "\n"


def _grow(world: World, text: str, tokens: int, count: Count) -> str:
    """Sections after the heading until the text is a little longer than asked for."""
    parts: list[str] = []
    pending, counted, number = [text], 0, 1
    while counted < tokens:
        rate = 2.5 if counted == 0 else max(1.0, sum(map(len, parts)) / counted)
        want = min(_CHUNK, int((tokens - counted) * rate * 0.9) + 400)
        size = sum(map(len, pending))
        while size < want:
            pending.append(_section(world, number))
            size += len(pending[-1])
            number += 1
        block = "".join(pending)
        counted += count(block)
        parts.append(block)
        pending = []
    return "".join(parts)


def _hide(text: str, sentences: list[str], depths: list[float]) -> str:
    """The sentences put in at their depths, each where a sentence of the text ends."""
    end, whole = len(text), len(text)
    for sentence, depth in sorted(zip(sentences, depths, strict=True), key=lambda p: -p[1]):
        want = min(end, int(depth * whole * 0.97))
        found = _GAP.search(text, want, end)
        spot = found.start() if found and found.start() < want + 600 else want
        after = text[spot:].lstrip(" ")
        end = spot
        text = f"{text[:spot]} {sentence}{'' if after.startswith(chr(10)) else ' '}{after}"
    return text


def _fit(text: str, tokens: int, count: Count, rng: random.Random, sentences: list[str]) -> str:
    """The text cut and filled at its end until it counts exactly `tokens`; empty if it can't be."""
    if not all(sentence in text for sentence in sentences):
        return ""
    last = max((text.rindex(s) + len(s) for s in sentences), default=0)
    total = count(text)
    for _ in range(12):
        if total > tokens:
            text = _trim(text, total - tokens, count)
            total = count(text)
        if len(text) < last:
            return ""
        if total < tokens:
            text = _fill_up(text, tokens - total, count, rng)
            total = count(text)
        if total == tokens:
            return text
    return ""


def _trim(text: str, surplus: int, count: Count) -> str:
    """The text without its last words, by at least `surplus` tokens (few characters recounted)."""
    window = max(_WINDOW, 8 * surplus)
    head, tail = text[:-window], text[-window:]
    want = count(tail) - surplus
    low, high = 0, len(tail)
    while low < high:
        middle = (low + high + 1) // 2
        if count(tail[:middle]) <= want:
            low = middle
        else:
            high = middle - 1
    return head + tail[:low].rstrip()


def _fill_up(text: str, missing: int, count: Count, rng: random.Random) -> str:
    """The text with words added at its end, by `missing` tokens as counted on its last stretch."""
    if missing <= 0:
        return text
    tail = text[-_WINDOW:]
    size = count(tail)
    goal, added = size + missing, ""
    for _ in range(8 * missing + 32):
        if size == goal:
            break
        fillers = rng.sample(_FILLERS, len(_FILLERS))
        sizes = [count(tail + added + filler) for filler in fillers[:4]]
        better = [i for i, s in enumerate(sizes) if size < s <= goal]
        same = [i for i, s in enumerate(sizes) if s == size]
        if not better and not same:
            continue
        chosen = (better or same)[0]
        added, size = added + fillers[chosen], sizes[chosen]
    return text + added


_FILLERS = [
    " and", " then", " the", " so", " it", " was", " of", " in", " to", " on", " again", ".", "\n",
    "-", " 1", "!", "?", " x",
]  # fmt: skip
