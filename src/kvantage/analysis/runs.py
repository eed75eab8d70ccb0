"""The same arms in two runs: what changed beyond boot noise, and what differs in how they were run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from kvantage.analysis import wording
from kvantage.analysis.boot_noise import AUTOTUNED, POOL_SHARE, sd_of_range
from kvantage.analysis.changed import Changed, asked_otherwise, configured_otherwise
from kvantage.analysis.compare import Place, by_place
from kvantage.analysis.exactness import EXACTNESS_CLASSES, ExactnessClass
from kvantage.analysis.exactness.study import read_exactness
from kvantage.analysis.measure import MeasuredCell, drafts
from kvantage.analysis.objective import UNITS
from kvantage.analysis.stats import CONFIDENCE, holm
from kvantage.analysis.studied import Studied, measure_arms
from kvantage.analysis.unpaired import TwoRuns, compare_boots
from kvantage.core.columns import Floats, RequestColumns, StudyData
from kvantage.core.reading import Reading

MARGIN = 0.03
"""A relative worsening past which a change is a regression, where the person does not say."""

LESS_IS_BETTER = ("ttft_s",)
POOL_SD = sd_of_range(1 - POOL_SHARE / 2, 1 + POOL_SHARE / 2)
POOL_SAID = "pools within 3 %"

Kind = Literal["regressed", "worse", "improved", "no change seen", "refused"]


@dataclass(frozen=True)
class Change:
    """One figure of one arm, the later run over the earlier.

    metric   a ratio's metric, or `kv_pool_tokens`
    ratio    after / before with its interval; missing with the reason where it is refused
    gain     how much better, as a share: -0.05 is 5 % worse, whichever way the metric goes
    holm     p that nothing changed, adjusted over all figures of the two runs
    kind     `regressed`: worse for certain, and by more than the margin; `worse`: for certain, within the
             margin; `improved`: better for certain; `no change seen` else
    level    on what the interval rests
    """

    arm: str
    metric: str
    phase: str
    workload: str
    concurrency: int
    before: Reading
    after: Reading
    ratio: Reading
    gain: Reading
    holm: float | None
    kind: Kind
    level: str

    @property
    def place(self) -> str:
        """Where it was measured, in words."""
        if not self.phase:
            return "KV pool"
        what = wording.work(self.phase, self.workload)
        return f"{what} at {wording.streams(self.concurrency)}"


@dataclass(frozen=True)
class ClassChange:
    """An arm's class of exactness in both runs; `void` where its phase did not run in one of them."""

    arm: str
    before: ExactnessClass
    after: ExactnessClass

    @property
    def kind(self) -> Kind:
        """`regressed` to a worse class, `improved` to a better one; a void one compares with nothing."""
        if "void" in (self.before, self.after):
            return "refused"
        places = [EXACTNESS_CLASSES.index(each) for each in (self.before, self.after)]
        return (
            "regressed"
            if places[1] > places[0]
            else "improved"
            if places[1] < places[0]
            else "no change seen"
        )


@dataclass(frozen=True)
class RunComparison:
    """Two runs. `only_before` and `only_after` are arms that one of them lacks; `asked` and `configured` say
    what differs in the work and in the machines and settings.
    """

    before: str
    after: str
    margin: float
    changes: tuple[Change, ...]
    asked: tuple[Changed, ...]
    configured: tuple[Changed, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    classes: tuple[ClassChange, ...] = ()

    @property
    def regressed(self) -> bool:
        """True where a figure got worse past the margin, or answers fell into a worse class."""
        return bool(self.regressions) or any(each.kind == "regressed" for each in self.classes)

    @property
    def single(self) -> tuple[Change, ...]:
        """What has one sound boot in each run, so that boot noise had to be assumed."""
        return tuple(each for each in self.changes if each.level.startswith("one boot"))

    @property
    def regressions(self) -> tuple[Change, ...]:
        """What regressed."""
        return tuple(each for each in self.changes if each.kind == "regressed")


def compare_runs(
    before: StudyData,
    after: StudyData,
    names: tuple[str, str] = ("before", "after"),
    margin: float = MARGIN,
    confidence: float = CONFIDENCE,
) -> RunComparison:
    """Every speed, first token and pool of every arm that both runs have."""
    first, second = measure_arms(before), measure_arms(after)
    shared = [arm for arm in first.measured if arm in second.measured]
    work = asked_otherwise(before.study, after.study)
    found: list[tuple[Change, TwoRuns | None]] = []
    for arm in shared:
        found += _cells(arm, before, after, first, second, {each.where for each in work if each.refuses})
        found += _pools(arm, first, second)
    known = [two for _, two in found if two is not None]
    adjusted = iter(holm([two.p for two in known]))
    changes = tuple(
        change if two is None else _judge(change, two, next(adjusted), margin, confidence)
        for change, two in found
    )
    return RunComparison(
        *names,
        margin,
        changes,
        work,
        configured_otherwise(before, after, shared),
        tuple(arm for arm in first.measured if arm not in second.measured),
        tuple(arm for arm in second.measured if arm not in first.measured),
        _classes(before, after, first, second),
    )


def _classes(before: StudyData, after: StudyData, first: Studied, second: Studied) -> tuple[ClassChange, ...]:
    """The class of every arm that both runs judged."""
    judged = []
    for data, studied in ((before, first), (after, second)):
        drafting = {
            arm.name: any(drafts(arm, facts) for facts in (*studied.booted[arm.name], None))
            for arm in data.arms
        }
        judged.append(read_exactness(data, drafting))
    if judged[0] is None or judged[1] is None:
        return ()
    return tuple(
        ClassChange(one.arm, one.cls, other.cls)
        for one in judged[0].arms
        if (other := judged[1].of(one.arm)) is not None
    )


def _judge(change: Change, two: TwoRuns, adjusted: float, margin: float, confidence: float) -> Change:
    low, high = two.interval(confidence)
    ratio = Reading.of(math.exp(two.log), "ratio", "computed", low=low, high=high, note=two.level)
    better = -two.log if change.metric in LESS_IS_BETTER else two.log
    gain = math.exp(better) - 1
    told = (low > 1 or high < 1) and adjusted <= 1 - confidence
    kind: Kind = "no change seen"
    if told:
        kind = "improved" if gain > 0 else "regressed" if -gain > margin else "worse"
    return replace(
        change,
        ratio=ratio,
        gain=Reading.of(gain, "ratio", "computed"),
        holm=adjusted,
        kind=kind,
        level=two.level,
    )


def _cells(
    arm: str,
    before: StudyData,
    after: StudyData,
    first: Studied,
    second: Studied,
    otherwise: set[str],
) -> list[tuple[Change, TwoRuns | None]]:
    mine, theirs = by_place(first.measured[arm]), by_place(second.measured[arm])
    found: list[tuple[Change, TwoRuns | None]] = []
    for place in mine:
        if place not in theirs or place[0] == "probes":
            continue
        told = [
            each.findings.tokens_per_joule.known for side in (mine, theirs) for each in side[place].values()
        ]
        for metric in (*_metrics(place), *(("tok_per_joule",) if any(told) else ())):
            unit = UNITS.get(metric, "tok/s")
            made = _two(metric, place, before, after, mine[place], theirs[place], otherwise)
            if isinstance(made, str):
                gone = Reading.absent(f"refused: {made}")
                found.append((_change(arm, metric, place, gone, gone, gone), None))
                continue
            two, left, right = made
            found.append(
                (
                    _change(
                        arm,
                        metric,
                        place,
                        Reading.of(left, unit, "client", note="geometric mean over boots"),
                        Reading.of(right, unit, "client", note="geometric mean over boots"),
                        Reading.absent("not judged yet"),
                    ),
                    two,
                )
            )
    return found


def _metrics(place: Place) -> tuple[str, ...]:
    """One speed a place: of a user where there is one, of all where there are several; and the first token
    where it says something of its own.
    """
    phase, _, concurrency = place
    if phase == "ttft":
        return ("ttft_s",)
    speed = "decode_tok_s" if concurrency == 1 else "steady_tok_s"
    return (speed, "ttft_s") if phase in ("cold", "repeat") else (speed,)


def _two(
    metric: str,
    place: Place,
    before: StudyData,
    after: StudyData,
    mine: Mapping[int, MeasuredCell],
    theirs: Mapping[int, MeasuredCell],
    otherwise: set[str],
) -> tuple[TwoRuns, float, float] | str:
    """The comparison with both figures, or why there is none."""
    needed = {place[0], "cold"} if place[0] == "repeat" else {place[0]}
    if needed & otherwise:
        return "the two runs asked otherwise in this phase"
    left = [each for each in mine.values() if each.findings.sound]
    right = [each for each in theirs.values() if each.findings.sound]
    if not left or not right:
        void = mine if not left else theirs
        gates = [
            reason.partition(":")[0]
            for each in void.values()
            for reason in (each.findings.status.reasons or ("it measured a queue",))
        ]
        which = "earlier" if not left else "later"
        return f"void in the {which} run ({', '.join(dict.fromkeys(gates))})"
    common = _common_prompts(before.requests, left) & _common_prompts(after.requests, right)
    if not common and place[0] in ("short", "sweep"):
        return "the two runs asked other prompts"
    earlier = _logs(metric, before.requests, left, common)
    later = _logs(metric, after.requests, right, common)
    if not earlier or not later:
        return "one of the runs did not measure it"
    inside = _inside(metric, before.requests, after.requests, left, right)
    two = compare_boots(earlier, later, AUTOTUNED.sd, AUTOTUNED.words, inside)
    return two, math.exp(float(np.mean(earlier))), math.exp(float(np.mean(later)))


def _common_prompts(requests: RequestColumns, cells: Sequence[MeasuredCell]) -> set[str]:
    """The prompts that every one of the cells was asked; documents are new in each boot, and are not."""
    asked_in = [set(requests.prompt_id[each.timing.rows[each.kept]].tolist()) for each in cells]
    return set.intersection(*asked_in) if asked_in else set()


def _logs(
    metric: str, requests: RequestColumns, cells: Sequence[MeasuredCell], common: set[str]
) -> list[float]:
    """The logarithm of each boot's figure; of one user's metrics over the prompts that all boots share."""
    found = []
    for each in cells:
        if metric in ("steady_tok_s", "tok_per_joule"):
            value = each.findings.figure(metric).value
            if value is not None and value > 0:
                found.append(math.log(value))
            continue
        values = _values(metric, each)
        use = each.kept & np.isfinite(values) & (values > 0)
        if common:
            use &= np.isin(requests.prompt_id[each.timing.rows], list(common))
        if use.any():
            found.append(float(np.log(values[use]).mean()))
    return found


def _values(metric: str, each: MeasuredCell) -> Floats:
    return each.timing.ttft if metric == "ttft_s" else each.timing.rate


def _inside(
    metric: str,
    before: RequestColumns,
    after: RequestColumns,
    left: Sequence[MeasuredCell],
    right: Sequence[MeasuredCell],
) -> Floats | None:
    """The paired requests' log-ratios of the first boots, for runs of one boot each."""
    if len(left) > 1 or len(right) > 1:
        return None
    sides = []
    for requests, each in ((before, left[0]), (after, right[0])):
        values, rows = _values(metric, each), each.timing.rows
        told = {}
        for place in np.flatnonzero(each.kept & np.isfinite(values) & (values > 0)).tolist():
            row = rows[place]
            key = (str(requests.prompt_id[row]), int(requests.repeat[row]), int(requests.stream[row]))
            told[key] = math.log(values[place])
        sides.append(told)
    earlier, later = sides
    return np.array([later[key] - earlier[key] for key in earlier if key in later])


def _pools(arm: str, first: Studied, second: Studied) -> list[tuple[Change, TwoRuns | None]]:
    sides = [
        [
            value
            for facts in studied.booted[arm]
            if (value := facts.reading("kv_pool_tokens").value) is not None and value > 0
        ]
        for studied in (first, second)
    ]
    if not sides[0] or not sides[1]:
        return []
    two = compare_boots(
        [math.log(value) for value in sides[0]], [math.log(value) for value in sides[1]], POOL_SD, POOL_SAID
    )
    before, after = (
        Reading.of(
            math.exp(float(np.log(values).mean())), "tokens", "computed", note="geometric mean over boots"
        )
        for values in sides
    )
    change = _change(arm, "kv_pool_tokens", ("", "", 0), before, after, Reading.absent("not judged yet"))
    return [(change, two)]


def _change(arm: str, metric: str, place: Place, before: Reading, after: Reading, ratio: Reading) -> Change:
    return Change(arm, metric, *place, before, after, ratio, ratio, None, "refused", "")
