"""The stream against the whole answer: a fault of the transport or the detokenizer is not the drafter's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvantage.core import Answer

DEFECT = "transport/detokenizer defect, not a model divergence"
ADVICE = "compare token ids, or texts that were not streamed"


@dataclass(frozen=True, slots=True)
class StreamCheck:
    """Streamed answers of one arm against its whole ones.

    `faulty` names prompts whose stream told other text than a whole answer with the same tokens; `unlike`
    those whose streamed text is that of no whole answer, where no token ids tell whether the model or the
    stream did it. `compared` streams had an answer to be compared with.
    """

    arm: str
    concurrency: int
    streams: int
    compared: int
    faulty: tuple[str, ...]
    unlike: tuple[str, ...]
    example: tuple[str, str] | None

    @property
    def words(self) -> str:
        """What it came to, in a sentence."""
        if self.faulty:
            named = ", ".join(self.faulty[:3])
            return f"{DEFECT}: {len(self.faulty)} of {self.compared} streams lost or changed text ({named})"
        if self.unlike:
            return (
                f"{len(self.unlike)} of {self.compared} streams say what no whole answer says, and no token "
                "ids tell whether the model or the stream did it"
            )
        if not self.compared:
            return "no stream could be compared"
        return f"{self.compared} streams say what the whole answers say"


def check_streams(
    arm: str, concurrency: int, streamed: Sequence[Answer], whole: Sequence[Answer]
) -> StreamCheck:
    """Compare each stream with the arm's whole answers to its prompt."""
    faulty, unlike = [], []
    example: tuple[str, str] | None = None
    compared = 0
    streams = [each for each in streamed if each.ok]
    for stream in streams:
        beside = [each for each in whole if each.ok and each.prompt_id == stream.prompt_id]
        if not beside:
            continue
        if stream.token_ids is not None and any(each.token_ids is not None for each in beside):
            same = [each for each in beside if each.token_ids == stream.token_ids]
            if not same:
                continue  # other tokens: the model's doing, which is judged elsewhere
            compared += 1
            if all(each.text != stream.text for each in same):
                faulty.append(stream.prompt_id)
                example = example or _around(stream.text, same[0].text)
        else:
            compared += 1
            if all(each.text != stream.text for each in beside):
                unlike.append(stream.prompt_id)
                example = example or _around(stream.text, beside[0].text)
    return StreamCheck(arm, concurrency, len(streams), compared, tuple(faulty), tuple(unlike), example)


def _around(stream: str, whole: str, width: int = 30) -> tuple[str, str]:
    """Both texts around the first character that differs."""
    place = next(
        (i for i, (a, b) in enumerate(zip(stream, whole, strict=False)) if a != b),
        min(len(stream), len(whole)),
    )
    start = max(0, place - width)
    return stream[start : place + width], whole[start : place + width]
