"""From answers and scores to a verdict an arm: the whole analysis of exactness, pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kvantage.analysis.exactness.classes import ExactnessClass, worse
from kvantage.analysis.exactness.classify import Difference, differences
from kvantage.analysis.exactness.divergence import (
    Pair,
    PairCount,
    Unit,
    count_pairs,
    pairs_between,
    pairs_within,
    unit_of,
    usable,
)
from kvantage.analysis.exactness.drafted import Drafting, drafting_of
from kvantage.analysis.exactness.rescoring import (
    Floor,
    Gaps,
    Power,
    all_zero,
    describe_gaps,
    distinct_gaps,
    noise_floor,
    power_at,
)
from kvantage.analysis.exactness.sampling import PrefixTest, compare_prefixes
from kvantage.analysis.exactness.streams import StreamCheck, check_streams
from kvantage.analysis.exactness.survival import (
    Compared,
    Curve,
    compare_survival,
    square,
    survival_curve,
    survival_power,
)
from kvantage.analysis.exactness.tasks import TaskResult, compare_tasks
from kvantage.analysis.exactness.words import Words, sampled, say, void
from kvantage.core import Answer, ExactnessData

RATES = (1 / 30, 1 / 100, 1 / 300, 1 / 1000, 1 / 3000, 1 / 10000)
"""Wrong tokens for each token at which the power is told."""
WORST = 10
ZERO = "the scores are logprobs of exactly 0.0 throughout: placeholders, on which no check can fail"


@dataclass(frozen=True)
class AtConcurrency:
    """One arm against the control at one concurrency. `left_out` are prompts one of whose answers is none."""

    concurrency: int
    cls: ExactnessClass
    words: str
    detail: str
    prompts: int
    places: int
    pairs: tuple[PairCount, ...]
    compared: Compared | None
    curves: tuple[Curve, ...]
    survival_power: Mapping[float, float]
    gaps: Gaps | None
    power: tuple[Power, ...]
    differences: tuple[Difference, ...]
    left_out: tuple[str, ...]
    drafting: Drafting
    stream: StreamCheck | None


@dataclass(frozen=True)
class ArmExactness:
    """One arm's verdict: the worst of its concurrencies and of its samples, in the words of the protocol."""

    arm: str
    cls: ExactnessClass
    words: str
    detail: str
    at: tuple[AtConcurrency, ...]
    sampling: tuple[PrefixTest, ...]
    tasks: TaskResult | None

    @property
    def worst(self) -> tuple[Difference, ...]:
        """The ten divergences with the largest gaps, at whatever concurrency."""
        found = [one for at in self.at for one in at.differences]
        found.sort(key=lambda one: -(one.gap if one.gap is not None else -1.0))
        return tuple(found[:WORST])


@dataclass(frozen=True)
class Exactness:
    """What the phase found. `floor` is None where the control scored nothing: `no_floor` says why.

    `control_pairs` and `control_curves` are the control against itself; `notes` what a reader must know.
    """

    control: str
    unit: Unit
    floor: Floor | None
    no_floor: str | None
    control_gaps: tuple[float, ...]
    control_pairs: tuple[PairCount, ...]
    control_curves: tuple[Curve, ...]
    control_streams: tuple[StreamCheck, ...]
    arms: tuple[ArmExactness, ...]
    arm_gaps: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def of(self, arm: str) -> ArmExactness | None:
        """An arm's verdict, None for the control and for one that was not judged."""
        return next((each for each in self.arms if each.arm == arm), None)


@dataclass(frozen=True)
class Asked:
    """What the judge has to know beside the answers.

    `speculates` says of each arm whether it declares (or is seen) to draft; `simulated` why its answers or
    acceptance are no model's.
    """

    control: str
    arms: tuple[str, ...]
    speculates: Mapping[str, bool]
    quantile: float = 0.999
    margin: float = 0.05
    simulated: str | None = None


def judge(data: ExactnessData, asked: Asked) -> Exactness | None:
    """Judge every arm of a study. None where nobody was asked anything."""
    if not data.answers:
        return None
    greedy = [each for each in data.answers if each.kind in ("greedy", "across")]
    unit = unit_of(each for each in greedy if each.ok)
    off = [each for each in greedy if each.arm == asked.control]
    own = distinct_gaps(off, data.scores)
    floor, no_floor = _floor(data, own, asked.quantile)
    pairs, curves, streams = _control(data, off, asked.control, unit)
    arms = tuple(
        _Judging(data, asked, name, off, unit, own, floor, no_floor).go()
        for name in asked.arms
        if name != asked.control
    )
    gaps = {
        name: _nonzero(distinct_gaps([a for a in greedy if a.arm == name], data.scores))
        for name in asked.arms
    }
    return Exactness(
        asked.control,
        unit,
        floor,
        no_floor,
        _nonzero(own),
        pairs,
        curves,
        streams,
        arms,
        gaps,
        _notes(unit, off, floor),
    )


def _nonzero(gaps: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(np.sort(gaps[gaps > 0]).tolist())


def _floor(data: ExactnessData, own: NDArray[np.float64], quantile: float) -> tuple[Floor | None, str | None]:
    if all_zero(data.scores.values()):
        return None, ZERO
    floor = noise_floor(own, quantile)
    if floor is None:
        return None, data.no_scores or "the control's answers were not scored"
    return floor, None


def _control(
    data: ExactnessData, off: Sequence[Answer], name: str, unit: Unit
) -> tuple[tuple[PairCount, ...], tuple[Curve, ...], tuple[StreamCheck, ...]]:
    pairs: list[Pair] = []
    streams = []
    for answers in _by_prompt(off).values():
        pairs += pairs_within([each for each in answers if usable(each)], "off-off", unit)
    concurrencies = sorted({each.concurrency for each in off})
    curves = [
        survival_curve([p for p in pairs if p.kind == kind and p.concurrency == c], kind, c)
        for c in concurrencies
        for kind in ("off-off", "off-off across boots")
    ]
    for concurrency in concurrencies:
        streamed = [
            a for a in data.answers if (a.arm, a.kind, a.concurrency) == (name, "stream", concurrency)
        ]
        if streamed:
            beside = [each for each in off if each.concurrency == concurrency]
            streams.append(check_streams(name, concurrency, streamed, beside))
    return count_pairs(pairs), tuple(each for each in curves if each), tuple(streams)


def _by_prompt(answers: Sequence[Answer]) -> dict[tuple[str, int], list[Answer]]:
    found: dict[tuple[str, int], list[Answer]] = {}
    for each in answers:
        found.setdefault((each.prompt_id, each.concurrency), []).append(each)
    return found


def _notes(unit: Unit, off: Sequence[Answer], floor: Floor | None) -> tuple[str, ...]:
    notes = []
    if unit == "characters":
        notes.append("token ids were not told for every answer: texts are compared, character by character")
    if len({each.boot for each in off}) < 2:
        notes.append("the control was booted once: how much it differs between boots is not known")
    if floor is not None and floor.high is None:
        notes.append(
            f"{floor.tokens:,} tokens of the control are too few to bound its {floor.quantile:.1%} quantile "
            "from above: its largest gap stands in"
        )
    return tuple(notes)


@dataclass(frozen=True)
class _Judging:
    data: ExactnessData
    asked: Asked
    arm: str
    off: Sequence[Answer]
    unit: Unit
    own: NDArray[np.float64]
    floor: Floor | None
    no_floor: str | None

    def go(self) -> ArmExactness:
        mine = [each for each in self.data.answers if each.arm == self.arm]
        on = [each for each in mine if each.kind == "greedy"]
        concurrencies = sorted({each.concurrency for each in on})
        at = tuple(self._at(on, concurrency) for concurrency in concurrencies)
        sampling, tasks = self._sampling(mine), self._tasks(mine)
        if not at:
            told = void("no answer of the arm is in the study")
            return ArmExactness(self.arm, told.cls, told.words, told.detail, at, sampling, tasks)
        told = self._worst(at, sampling, on)
        return ArmExactness(self.arm, told.cls, told.words, told.detail, at, sampling, tasks)

    def _worst(
        self, at: Sequence[AtConcurrency], sampling: Sequence[PrefixTest], on: Sequence[Answer]
    ) -> Words:
        worst = at[0]
        for each in at[1:]:
            if worse(worst.cls, each.cls) != worst.cls:
                worst = each
        differs = sampled(sampling)
        if differs is not None and worst.cls != "void":
            if worst.cls != "differs":
                return Words(differs.cls, differs.words, f"{differs.detail}; greedy: {worst.words}")
            return Words(worst.cls, worst.words, f"{worst.detail}; {differs.detail}")
        if worst.cls == "bit-identical":
            left_out = {name for each in at for name in each.left_out}
            kept = [each for each in on if each.prompt_id not in left_out]
            places, prompts = _distinct_places(kept, self.unit), len({each.prompt_id for each in kept})
            return Words(
                worst.cls, f"bit-identical on {prompts} prompts, {places:,} {self.unit}", worst.detail
            )
        where = f"at {worst.concurrency} at once: " if len(at) > 1 else ""
        return Words(worst.cls, worst.words, f"{where}{worst.detail}")

    def _at(self, on: Sequence[Answer], concurrency: int) -> AtConcurrency:
        mine = [each for each in on if each.concurrency == concurrency]
        theirs = [each for each in self.off if each.concurrency == concurrency]
        both, left_out = _answered(mine, theirs)
        pairs_on, pairs_mixed, pairs_off, squares = [], [], [], []
        for prompt in both:
            a = [each for each in mine if each.prompt_id == prompt]
            b = [each for each in theirs if each.prompt_id == prompt]
            pairs_on += pairs_within(a, "on-on", self.unit)
            pairs_off += pairs_within(b, "off-off", self.unit)
            pairs_mixed += pairs_between(a, b, self.unit)
            squares.append(square(b, a, self.unit))
        kept = [each for each in mine if each.prompt_id in set(both)] or mine
        drafting = drafting_of(
            kept,
            self.data.spoken.get((self.arm, concurrency)),
            speculates=self.asked.speculates.get(self.arm, False),
        )
        compared = compare_survival(squares, pairs_off, pairs_mixed) if pairs_off and pairs_mixed else None
        gaps = None
        if self.floor is not None:
            gaps = describe_gaps(self.arm, kept, self.data.scores, self.own, self.floor)
        found = differences(self.arm, pairs_mixed, self.data.scores, self.floor)
        reason = self._void(mine, theirs, both, pairs_off, pairs_mixed, drafting)
        told = (
            void(reason)
            if reason
            else say(
                pairs_mixed, pairs_off, compared, found, gaps, self.floor, self.no_floor, self.unit, left_out
            )
        )
        curves = [
            survival_curve(pairs, kind, concurrency)
            for pairs, kind in ((pairs_on, "on-on"), (pairs_mixed, "on-off"))
        ]
        return AtConcurrency(
            concurrency,
            told.cls,
            told.words,
            told.detail,
            len(both),
            _distinct_places(kept, self.unit),
            count_pairs([*pairs_on, *pairs_mixed]),
            compared,
            tuple(each for each in curves if each),
            survival_power(squares, RATES) if compared is not None else {},
            gaps,
            power_at(gaps, RATES) if gaps is not None else (),
            found,
            tuple(left_out),
            drafting,
            self._stream(mine, concurrency),
        )

    def _void(
        self,
        mine: Sequence[Answer],
        theirs: Sequence[Answer],
        both: Sequence[str],
        pairs_off: Sequence[Pair],
        pairs_mixed: Sequence[Pair],
        drafting: Drafting,
    ) -> str | None:
        """Why nothing can be said at all."""
        if self.asked.simulated:
            return self.asked.simulated
        if not theirs:
            return "no control: the control did not answer"
        if sum(each.drafted or 0 for each in theirs):
            return "no control: the control drafts"
        if not both:
            failed = [each for each in (*mine, *theirs) if not each.ok]
            if failed:
                return f"no prompt was answered by both arms ({failed[0].error or 'no reason told'})"
            return "empty text: no prompt has an answer with text in both arms"
        if drafting.fault:
            return drafting.fault
        if not pairs_off:
            return "no control: the control answered each prompt once, and cannot be compared with itself"
        if not pairs_mixed:
            return "nothing to compare"
        return ZERO if self.no_floor == ZERO else None

    def _stream(self, mine: Sequence[Answer], concurrency: int) -> StreamCheck | None:
        streamed = [
            each
            for each in self.data.answers
            if (each.arm, each.kind, each.concurrency) == (self.arm, "stream", concurrency)
        ]
        return check_streams(self.arm, concurrency, streamed, mine) if streamed else None

    def _sampling(self, mine: Sequence[Answer]) -> tuple[PrefixTest, ...]:
        theirs = [a for a in self.data.answers if a.arm == self.asked.control and a.kind == "sampling"]
        return compare_prefixes([each for each in mine if each.kind == "sampling"], theirs)

    def _tasks(self, mine: Sequence[Answer]) -> TaskResult | None:
        theirs = [a for a in self.data.answers if a.arm == self.asked.control and a.kind == "tasks"]
        return compare_tasks(self.arm, [a for a in mine if a.kind == "tasks"], theirs, self.asked.margin)


def _answered(mine: Sequence[Answer], theirs: Sequence[Answer]) -> tuple[list[str], list[str]]:
    """Prompts whose every answer in both arms can be compared, and those of which one cannot."""
    names = list(dict.fromkeys(each.prompt_id for each in theirs))
    both: list[str] = []
    left_out: list[str] = []
    for name in names:
        a = [each for each in mine if each.prompt_id == name]
        b = [each for each in theirs if each.prompt_id == name]
        (both if a and b and all(map(usable, (*a, *b))) else left_out).append(name)
    return both, left_out


def _distinct_places(answers: Sequence[Answer], unit: Unit) -> int:
    """Places of the distinct answers: repeats that say the same count once."""
    seen = {(each.prompt_id, each.token_ids if unit == "tokens" else each.text) for each in answers}
    return sum(len(words or ()) for _, words in seen)
