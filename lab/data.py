"""Make training rows: token ids and loss weights, packed to one length.

    python lab/data.py lab/build ROWS.npz --length 2560 --rows 40000 --seed a

A row is a mix of one kind: code, code in chat, prose, prose in chat, archives with their questions,
or short tasks. Weights are bytes in units of 1/20. Runs on all cores.
"""

from __future__ import annotations

import argparse
import ast
import json
import lzma
import multiprocessing
import os
import random
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from tokenizers import Tokenizer

from kvantage.workloads.documents import make_document
from kvantage.workloads.probes import json_probe, sum_probe, tool_probe

Tokens = list[int]
Pair = tuple[Tokens, Tokens]  # ids and weights, the same length
UNIT = 20  # weight 1.0
TEMPLATE = Path(__file__).parent.parent / "src/kvantage/nano/chat_template.jinja"

SHARES = {"code": 28, "code_chat": 16, "prose": 8, "prose_chat": 7, "archive": 33, "task": 8}


def chat_template() -> Callable[..., str]:
    """The shipped chat template, rendered as transformers renders it."""
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment.from_string(TEMPLATE.read_text()).render


class Maker:
    """Makes rows; one in each process."""

    def __init__(self, folder: Path, length: int, shares: dict[str, int] | None = None) -> None:
        self.length = length
        self.shares = shares or SHARES
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.render = chat_template()
        with lzma.open(folder / "corpus.json.xz", "rt") as file:
            self.corpus: dict[str, list[dict[str, str]]] = json.load(file)
        self.rng = random.Random()
        self.files: dict[str, list[str]] = {}
        for kind in ("code", "prose"):
            texts = [f["text"] for f in self.corpus[kind]]
            if kind == "code":  # the library itself twice as often as its tests
                texts += [f["text"] for f in self.corpus[kind] if "/test/" not in f["name"]]
            else:  # novels three times as often as documentation
                texts += 3 * [f["text"] for f in self.corpus[kind] if "austen" in f["name"]]
            self.files[kind] = texts
            self.weights = {k: [len(t) for t in v] for k, v in self.files.items()}

    def encode(self, text: str) -> Tokens:
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def row(self, seed: str) -> Pair:
        """One row of exactly `length` tokens."""
        self.rng.seed(seed)
        kind = self.rng.choices(list(self.shares), list(self.shares.values()))[0]
        ids: Tokens = []
        weights: Tokens = []
        parts = getattr(self, f"_{kind}")()
        while len(ids) < self.length:
            more, weight = next(parts)
            ids += more
            weights += weight
        return ids[: self.length], weights[: self.length]

    def _window(self, kind: str, size: int) -> str:
        """About `size` characters of a file, from the start of a line."""
        text = self.rng.choices(self.files[kind], self.weights[kind])[0]
        if len(text) <= size or self.rng.random() < 0.1:
            return text[:size]
        at = text.find("\n", self.rng.randrange(len(text) - size // 2)) + 1
        return text[at : at + size]

    def _plain(self, kind: str) -> Iterator[Pair]:
        while True:
            ids = [*self.encode(self._window(kind, 4 * self.length)), 0]
            yield ids, [UNIT] * len(ids)

    def _code(self) -> Iterator[Pair]:
        return self._plain("code")

    def _prose(self) -> Iterator[Pair]:
        return self._plain("prose")

    def turn(
        self, messages: list[dict[str, Any]], answer: str, tools: Any = None, weight: float = 1.0,
        prompt_weight: float = 0.2,
    ) -> Pair:  # fmt: skip
        """A conversation and its answer as ids and weights."""
        prompt = self.encode(self.render(messages=messages, tools=tools, add_generation_prompt=True))
        reply = [*self.encode(answer), 2, *self.encode("\n")]
        weights = [int(prompt_weight * UNIT)] * len(prompt) + [int(weight * UNIT)] * len(reply)
        return prompt + reply, weights

    def _code_chat(self) -> Iterator[Pair]:
        while True:
            yield self.turn(*self.code_task("code"), prompt_weight=0.6)

    def code_task(self, kind: str) -> tuple[list[dict[str, str]], str]:
        """A request for code and its answer, out of one file."""
        rng = self.rng
        form = rng.random()
        if form < 0.5:
            lines = self._window(kind, rng.randrange(900, 3600)).split("\n")
            cut = rng.randrange(max(1, len(lines) // 8), max(2, len(lines) // 2))
            head, rest = "\n".join(lines[:cut]), "\n".join(lines[cut:])
            ask = rng.choice(
                (
                    f"Continue this code:\n\n```python\n{head}\n```",
                    f"Continue this Python code:\n\n```python\n{head}\n```",
                    f"```python\n{head}\n```\n\nContinue the code above.",
                )
            )
            return [{"role": "user", "content": ask}], f"```python\n{rest}\n```"
        for _ in range(20):
            text = rng.choices(self.files[kind], self.weights[kind])[0]
            found = _described(text, rng)
            if found:
                name, about, source = found
                break
        else:
            name, about, source = "main", "", self._window(kind, 1200)
        what = "class" if source.lstrip().startswith("class") else "function"
        ask = rng.choice(
            (
                f"Write a Python {what} `{name}`. {about}",
                f"Write the {what} `{name}` in Python: {about}",
                f"Write a Python {what} named {name}. {about}",
            )
        ).strip()
        return [{"role": "user", "content": ask}], f"```python\n{source}\n```"

    def _prose_chat(self) -> Iterator[Pair]:
        while True:
            yield self.turn(*self.prose_task("prose"), prompt_weight=0.6)

    def prose_task(self, kind: str) -> tuple[list[dict[str, str]], str]:
        """A request for prose and its answer, out of one file."""
        rng = self.rng
        words = self._window(kind, rng.randrange(900, 4000)).split(" ")
        cut = rng.randrange(12, max(13, len(words) // 2))
        head, rest = " ".join(words[:cut]), " ".join(words[cut:])
        if rng.random() < 0.6:
            ask = rng.choice(("Continue this passage:", "Continue this text:")) + f"\n\n{head}"
            return [{"role": "user", "content": ask}], rest
        head = " ".join(words[: rng.randrange(5, 14)])
        ask = rng.choice(
            (
                f'Write a passage that begins with these words: "{head}"',
                f'Write a text. Begin with: "{head}"',
            )
        )
        return [{"role": "user", "content": ask}], " ".join(words)

    def _archive(self) -> Iterator[Pair]:
        rng, room = self.rng, self.length
        while True:
            if room > 4096:
                size = rng.choice((rng.randrange(400, 2400), rng.randrange(2400, room - 700)))
            else:
                size = rng.choice((rng.randrange(200, 700), rng.randrange(700, room - 420)))
            size = min(size, room - 420) if rng.random() < 0.75 else size
            yield self.archive(f"train:{rng.random()}", size)
            room = self.length

    def archive(self, seed: str, size: int) -> Pair:
        """An archive of about `size` tokens, its question, its answer and its continuation."""
        rng = self.rng
        more = rng.randrange(120, 420)
        number = rng.choice((2, 3, 4, 4, 4, 4, 5, 6, 8)) if size > 420 else rng.choice((1, 2, 3, 4))
        document = make_document(seed, size + more, lambda t: int(len(t) / 3.1), number)
        cut = document.text.find(" ", int(len(document.text) * size / (size + more)))
        head, rest = document.text[:cut], document.text[cut:].lstrip(" ")
        asked = [s for s in document.secrets if s.sentence in head]
        if asked and rng.random() < 0.25:
            asked = rng.sample(asked, rng.randint(1, len(asked)))
        names = [s.name for s in asked]
        if names:
            listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
            noun = "code" if len(names) == 1 else "codes"
            ask = (
                f"What are the access {noun} of {listed}? Answer with one line for each, in the"
                ' form "The access code of NAME is CODE." Then continue the archive.'
            )
        else:
            ask = "Continue the archive."
        content = f"{head}\n\n{ask}"
        prompt = self.encode(
            self.render(messages=[{"role": "user", "content": content}], add_generation_prompt=True)
        )
        answer = self.encode("".join(f"{s.sentence}\n" for s in asked) + ("\n" if asked else ""))
        tail = self.encode(rest)
        ids = [*prompt, *answer, *tail, 2, *self.encode("\n")]
        weights = [4] * len(prompt) + [3 * UNIT] * len(answer)
        weights += [UNIT // 2] * (len(ids) - len(weights))
        return ids, weights

    def _task(self) -> Iterator[Pair]:
        while True:
            yield self.task()

    def task(self) -> Pair:
        """One short task: a sum (never one that is kept for evaluation), JSON or a tool call."""
        rng = self.rng
        kind = rng.random()
        if kind < 0.45:
            while True:
                probe = sum_probe(rng, "")
                if not held_sum(probe.messages[0]["content"]):
                    break
            answer = str(probe.expected)
        elif kind < 0.7:
            probe = json_probe(rng, "")
            answer = json.dumps(probe.expected)
        else:
            probe = tool_probe(rng, "")
            answer = f"<tool_call>\n{json.dumps(probe.expected)}\n</tool_call>"
        return self.turn(probe.messages, answer, probe.tools or None, weight=3.0, prompt_weight=0.1)


def held_sum(question: str) -> bool:
    """Whether a sum is kept for evaluation: one in sixteen, by its two numbers."""
    first, second = (int(number) for number in re.findall(r"\d+", question))
    return (first * 91 + second * 17) % 16 == 3


def _described(text: str, rng: random.Random) -> tuple[str, str, str] | None:
    """A function or class with a docstring: its name, the docstring's first line, its source."""
    if len(text) > 150_000:
        return None
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None
    kinds = (ast.FunctionDef, ast.ClassDef)
    nodes = [n for n in ast.walk(tree) if isinstance(n, kinds) and ast.get_docstring(n)]
    if not nodes:
        return None
    node = rng.choice(nodes)
    about = (ast.get_docstring(node) or "").strip().split("\n")[0][:160]
    lines = text.split("\n")[node.lineno - 1 :]
    indent = len(lines[0]) - len(lines[0].lstrip())
    source = "\n".join(line[indent:] if line[:indent].isspace() else line for line in lines)
    stop = rng.randrange(500, 2600)
    return node.name, about, source[: source.find("\n", stop) if len(source) > stop else None]


_maker: Maker | None = None


def _start(folder: Path, length: int, shares: dict[str, int]) -> None:
    global _maker  # noqa: PLW0603 (one maker a process)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    _maker = Maker(folder, length, shares)


def _rows(job: tuple[str, int]) -> tuple[np.ndarray, np.ndarray]:
    assert _maker is not None
    seed, number = job
    made = [_maker.row(f"{seed}:{i}") for i in range(number)]
    ids = np.array([ids for ids, _ in made], dtype=np.uint16)
    return ids, np.array([weights for _, weights in made], dtype=np.uint8)


def build(
    folder: Path, length: int, rows: int, seed: str, shares: dict[str, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of `length` tokens: ids [rows, length] and weights [rows, length]."""
    jobs = [(f"{seed}:{i}", 32) for i in range((rows + 31) // 32)]
    with multiprocessing.Pool(os.cpu_count(), _start, (folder, length, shares)) as pool:
        made = list(pool.imap_unordered(_rows, jobs, chunksize=2))
    return np.concatenate([m[0] for m in made]), np.concatenate([m[1] for m in made])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--length", type=int, default=2560)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--seed", default="a")
    parser.add_argument("--shares", type=json.loads, default={}, help="other shares, as JSON")
    arguments = parser.parse_args()
    began = time.time()
    ids, weights = build(arguments.folder, arguments.length, arguments.rows, arguments.seed,
                         SHARES | arguments.shares)  # fmt: skip
    np.savez(arguments.out, ids=ids, weights=weights)
    print(f"{ids.shape} rows in {time.time() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main()
