"""A toy server whose truth is known: every answer follows one rule, with the gaps of its tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from kvantage.core import Answer, ExactnessData, Scores, Spoken

PROMPTS = tuple(f"prompt-{number}" for number in range(20))
VOCABULARY = 1000


@dataclass
class Toy:
    """A model whose next token follows from the prompt and the tokens so far.

    At a share `ties` of the places two tokens are nearly as likely: there each answer takes the second with
    `flip`, at one of the `gaps`. `wrong` is the rate at which an arm takes a token that lies `wrong_gap`
    below.
    """

    ties: float = 0.004
    flip: float = 0.3
    gaps: tuple[float, ...] = (0.0, 0.0, 0.0625, 0.0625, 0.125)
    length: int = 200
    scores: dict[str, Scores] = field(default_factory=dict)
    answers: list[Answer] = field(default_factory=list)

    def ask(
        self,
        arm: str,
        repeats: int,
        *,
        prompts: Sequence[str] = PROMPTS,
        seed: int = 0,
        boot: int = 0,
        kind: str = "greedy",
        wrong: float = 0.0,
        wrong_gap: float = 2.0,
        still: bool = False,
        drafts: bool = True,
        concurrency: int = 1,
    ) -> Toy:
        """Answers of an arm; `still` never takes the second of two near ties."""
        for repeat in range(repeats):
            for prompt in prompts:
                named = f"{arm}:{seed}:{boot}:{repeat}:{prompt}".encode()
                rng = np.random.default_rng(int.from_bytes(hashlib.sha256(named).digest()[:8], "big"))
                tokens: list[int] = []
                gaps: list[float] = []
                state = hashlib.blake2b(prompt.encode(), digest_size=8).digest()
                for _ in range(self.length):
                    number = int.from_bytes(state, "little")
                    token, gap = number % VOCABULARY, 0.0
                    if (
                        (number >> 20) % 10_000 < self.ties * 10_000
                        and not still
                        and rng.random() < self.flip
                    ):
                        token, gap = (token + 1) % VOCABULARY, self.gaps[(number >> 40) % len(self.gaps)]
                    if wrong and rng.random() < wrong:
                        token, gap = (token + 7) % VOCABULARY, wrong_gap
                    tokens.append(token)
                    gaps.append(gap)
                    state = hashlib.blake2b(state + token.to_bytes(4, "little"), digest_size=8).digest()
                self.add(arm, prompt, repeat, tokens, gaps, boot, kind, drafts, concurrency)
        return self

    def add(
        self,
        arm: str,
        prompt: str,
        repeat: int,
        tokens: Iterable[int],
        gaps: Iterable[float],
        boot: int = 0,
        kind: str = "greedy",
        drafts: bool = True,
        concurrency: int = 1,
    ) -> None:
        """One answer with its scores."""
        ids = tuple(tokens)
        speaks = arm != "none"
        answer = Answer(
            arm=arm,
            block=0,
            boot=boot,
            kind=kind,  # type: ignore[arg-type]
            concurrency=concurrency,
            prompt_id=prompt,
            repeat=repeat,
            ok=True,
            finish_reason="length",
            content=" ".join(map(str, ids)),
            token_ids=ids,
            accepted=(60 if drafts else 0) if speaks else None,
            drafted=300 if speaks else None,
            steps=100 if speaks else None,
        )
        self.answers.append(answer)
        known = tuple(gaps)
        assert answer.digest
        self.scores[answer.digest] = Scores(
            tuple(-0.7 - gap for gap in known),
            tuple(-0.7 for _ in known),
            ids,
            tuple(((token, -0.7 - gap), (token + 1, -0.7)) for token, gap in zip(ids, known, strict=True)),
            {token: f" {token}" for token in ids},
        )

    def data(self, **changes: object) -> ExactnessData:
        """What the ledger would hold."""
        made = {"answers": tuple(self.answers), "scores": self.scores, **changes}
        return ExactnessData(**made)  # type: ignore[arg-type]


SPOKEN = Spoken(drafts=100, drafted=300, accepted=60)
