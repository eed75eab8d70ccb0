"""Exactness, shown: each arm's verdict in words, the matrix, gaps and the floor, the worst divergences."""

from __future__ import annotations

from kvantage.analysis.exactness.classify import Chosen
from kvantage.analysis.exactness.divergence import PairCount
from kvantage.analysis.exactness.judge import Exactness
from kvantage.report.figures import DASH
from kvantage.report.tables import Table


def verdict_table(found: Exactness | None) -> Table:
    """An arm a row: the class, the words, and what they rest on."""
    columns = ("Arm", "at once", "verdict", "what it rests on")
    rows: list[tuple[str, ...]] = []
    for arm in found.arms if found else ():
        if not arm.at:
            rows.append((arm.arm, DASH, arm.words, arm.detail))
        for at in arm.at:
            rows.append((arm.arm, str(at.concurrency), at.words, at.detail))
        if arm.cls != "void" and any(each.p_holm < 0.01 for each in arm.sampling):
            rows.append((arm.arm, "sampled", arm.words, arm.detail))
    notes = (_floor_note(found), *found.notes) if found else ()
    return Table("Exactness: are the answers the control's?", columns, tuple(rows), (1,), notes)


def matrix_table(found: Exactness | None) -> Table:
    """Every kind of pair: how many are identical to their end, and where the first of them parts."""
    columns = ("Arm", "pair", "at once", "pairs", "identical", "prompts that part", "earliest", "compared")
    rows: list[tuple[str, ...]] = []
    if found:
        rows += [_pair_row(found.control, each) for each in found.control_pairs]
        rows += [_pair_row(arm.arm, each) for arm in found.arms for at in arm.at for each in at.pairs]
    unit = found.unit if found else "tokens"
    notes = (f"Earliest and compared in {unit}; 'on' is the arm, 'off' the control.",)
    return Table("Exactness: the matrix", columns, tuple(rows), (2, 3, 4, 5, 6, 7), notes if rows else ())


def _pair_row(arm: str, each: PairCount) -> tuple[str, ...]:
    return (
        arm,
        each.kind,
        str(each.concurrency),
        str(each.pairs),
        str(each.identical),
        f"{each.prompts_apart} of {each.prompts}",
        DASH if each.earliest is None else f"{each.earliest:,}",
        f"{each.compared:,}",
    )


def gaps_table(found: Exactness | None) -> Table:
    """The gaps of each arm's tokens against the floor that the control's own set."""
    columns = (
        "Arm",
        "at once",
        "tokens",
        "gap 0",
        "99 %",
        "99.9 %",
        "largest",
        "structural",
        "over the floor",
        "expected",
        "p",
        "caught at 1 in 1,000",
    )
    rows = []
    for arm in found.arms if found else ():
        for at in arm.at:
            if at.gaps is None:
                continue
            gaps = at.gaps
            power = next((one for one in at.power if abs(one.rate - 1e-3) < 1e-9), None)
            rows.append(
                (
                    arm.arm,
                    str(at.concurrency),
                    f"{gaps.tokens:,}",
                    f"{gaps.zero / gaps.tokens:.2%}",
                    nats(gaps.quantiles[0.99]),
                    nats(gaps.quantiles[0.999]),
                    nats(gaps.largest),
                    str(gaps.structural),
                    str(gaps.over),
                    f"{gaps.expected:.1f}",
                    f"{gaps.p:.2g}",
                    DASH if power is None else f"{power.structural:.0%} / {power.counted:.0%}",
                )
            )
    notes = (
        "Gaps in nats, of each distinct token once: the likeliest token's logprob less the answer's, by the "
        "control. Structural: over the edge of a near tie, twice the control's largest; one is enough. "
        "Expected: over the floor, by the control's own rate. Last: how often a drafter with one wrong token "
        "in a thousand would have been called different, if each is structural / if each is just over the "
        "floor.",
    )
    return Table("Exactness: gaps", columns, tuple(rows), tuple(range(1, 12)), notes if rows else ())


def worst_table(found: Exactness | None) -> Table:
    """The ten divergences with the largest gaps of each arm, the two sides next to each other."""
    columns = (
        "Arm",
        "prompt",
        "token",
        "class",
        "gap",
        "bf16 ULPs",
        "after",
        "arm says",
        "control says",
        "rivals",
    )
    rows = []
    for arm in found.arms if found else ():
        for one in arm.worst:
            rows.append(
                (
                    arm.arm,
                    f"{one.prompt_id} @{one.concurrency}",
                    str(one.position),
                    one.cls or "not scored",
                    DASH if one.gap is None else nats(one.gap),
                    DASH if one.ulps is None else f"{one.ulps:.1f}",
                    quoted(one.before[-24:]),
                    _side(one.arm_says, one.arm_after),
                    _side(one.control_says, one.control_after),
                    "; ".join(f"{quoted(text)} {logprob:.3f}" for text, logprob in one.rivals[:3]),
                )
            )
    notes = (
        "Gaps and rivals' logprobs in nats, by the control; ULPs of a bfloat16 logit from 16 to 32, since "
        "logits are not served. Only the first divergence of a pair is informative.",
    )
    return Table("Exactness: the worst divergences", columns, tuple(rows), (2, 4, 5), notes if rows else ())


def sampling_table(found: Exactness | None) -> Table:
    """Next tokens at a temperature, the arm's against the control's, a prompt a row."""
    columns = (
        "Arm",
        "prompt",
        "samples",
        "p (Holm)",
        "distance",
        "by chance",
        "worst at token",
        "effect w",
        "found with 80 %",
    )
    rows = [
        (
            arm.arm,
            each.prompt_id,
            f"{each.samples[0]} and {each.samples[1]}",
            f"{each.p_holm:.3g}",
            f"{each.distance:.2f}",
            f"{each.expected:.2f}",
            str(each.place),
            f"{each.effect:.2f}",
            f"w {each.detectable:.2f}",
        )
        for arm in (found.arms if found else ())
        for each in arm.sampling
    ]
    notes = (
        "Distance: the largest total variation of the token counts over the places of the sampled answers.",
    )
    return Table("Exactness: sampled", columns, tuple(rows), tuple(range(3, 9)), notes if rows else ())


def tasks_table(found: Exactness | None) -> Table:
    """Right answers on the same items."""
    columns = (
        "Arm",
        "items",
        "right",
        "control",
        "gained",
        "lost",
        "McNemar p",
        "difference",
        "90 % interval",
        "equivalent",
    )
    rows = []
    for arm in found.arms if found else ():
        task = arm.tasks
        if task is None:
            continue
        within = f"within {100 * task.margin:g} points"
        rows.append(
            (
                arm.arm,
                str(task.items),
                str(task.right),
                str(task.control_right),
                str(len(task.gained)),
                str(len(task.lost)),
                f"{task.mcnemar_p:.3g}",
                f"{100 * task.difference:+.1f}",
                f"{100 * task.low:+.1f} to {100 * task.high:+.1f}",
                within if task.equivalent else f"not shown {within}",
            )
        )
    notes = (
        "In points; a request that failed or timed out is a wrong answer. The interval is Tango's, paired.",
    )
    return Table(
        "Exactness: items with one right answer",
        columns,
        tuple(rows),
        tuple(range(1, 9)),
        notes if rows else (),
    )


def stream_lines(found: Exactness | None) -> list[tuple[str, str]]:
    """(arm, sentence) on the streamed answers against the whole ones."""
    if found is None:
        return []
    checks = [*found.control_streams, *(at.stream for arm in found.arms for at in arm.at if at.stream)]
    return [(each.arm, f"at {each.concurrency} at once, {each.words}") for each in checks]


def survival_lines(found: Exactness | None) -> list[tuple[str, str]]:
    """(arm, sentence): how soon pairs part, and how often a real change would have been found by that."""
    lines = []
    for arm in found.arms if found else ():
        for at in arm.at:
            told = at.compared
            if told is None:
                continue
            log_rank = "" if told.log_rank_p is None else f", log-rank p = {told.log_rank_p:.3g}"
            power = ", ".join(
                f"{power:.0%} at 1 in {1 / rate:,.0f}"
                for rate, power in at.survival_power.items()
                if rate >= 1e-3 - 1e-12
            )
            lines.append(
                (
                    arm.arm,
                    f"at {at.concurrency} at once, {told.rate_on_off:.2f} on-off and {told.rate_off_off:.2f} "
                    f"off-off divergences for 1,000 {found.unit if found else 'tokens'} (permutation p = "
                    f"{told.p:.3g}{log_rank}); wrong tokens would have been noticed by that alone in {power}",
                )
            )
    return lines


def nats(gap: float) -> str:
    """A gap in nats, 0 as it is."""
    return "0" if gap == 0 else f"{gap:.3g}"


def quoted(text: str) -> str:
    """A piece of text in one line, its ends visible."""
    return repr(text)


def _side(said: Chosen, after: str) -> str:
    if said.ended:
        return "(ends)"
    return quoted((after or said.text or f"[{said.token}]")[:24])


def _floor_note(found: Exactness) -> str:
    floor = found.floor
    if floor is None:
        return f"No floor: {found.no_floor}."
    high = "not bounded" if floor.high is None else nats(floor.high)
    return (
        f"The floor: the {100 * floor.quantile:g} % quantile of the gaps of {floor.tokens:,} tokens of the "
        f"control's own, {nats(floor.gap)} nats (95 % interval {nats(floor.low)} to {high}); epsilon "
        f"{nats(floor.limit)} nats."
    )
