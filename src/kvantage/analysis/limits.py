"""What a study does not show, and how it was measured, in plain words."""

from __future__ import annotations

from collections.abc import Sequence

from kvantage.analysis import asked, wording
from kvantage.analysis.capacity import Length
from kvantage.analysis.drift import Drift
from kvantage.analysis.findings import ArmFindings
from kvantage.analysis.inference import ENOUGH_BOOTS
from kvantage.analysis.ladder import Ladder
from kvantage.analysis.studied import most_boots
from kvantage.core.columns import StudyData

ONE_BOOT = (
    "Each arm was started once. Intervals are taken within the boot and do not hold the differences between "
    "boots of the same arm, which have been seen to reach 20 % in speed and 3 % in pool."
)
PROMPTS = (
    "Intervals over boots hold what other boots of these arms would show on these prompts, and not what "
    "other prompts would."
)


def limits_of(
    arms: Sequence[ArmFindings],
    lengths: Sequence[Length],
    drift: Sequence[Drift],
    data: StudyData,
    ladders: Sequence[Ladder] = (),
) -> tuple[str, ...]:
    """The limits of this study, most important first."""
    limits = []
    boots = most_boots({arm.name: [cell.key for cell in arm.cells] for arm in arms})
    if boots == 1:
        limits.append(ONE_BOOT)
    elif boots > 1:
        limits.append(PROMPTS)
    missing = [f"'{arm.name}' ({arm.reason})" for arm in arms if arm.status in ("failed", "not measured")]
    if missing:
        limits.append(f"Not measured: {'; '.join(missing)}.")
    limits += [each.words for each in drift]
    void = sum(not cell.ok for arm in arms for cell in arm.cells)
    if void:
        total = sum(len(arm.cells) for arm in arms)
        limits.append(f"{void} of {total} cells are void and are averaged nowhere.")
    limits += [
        f"Uncached first tokens of '{each.arm}' are in doubt: {each.check_words}."
        for each in ladders
        if each.check == "flagged"
    ]
    if any(each.first is not None for each in ladders):
        limits.append(
            "The first request after boot came after the small one that proves a server ready: what that one "
            "compiled is not in it."
        )
    if lengths:
        limits.append(
            "Sessions are arithmetic on the pool (a session is its input and its answer), "
            "not admissions that were tried."
        )
        limits.append(
            "Documents are synthetic archives. Agents' histories and your own documents may accept drafts "
            "differently: acceptance depends on the prompts."
        )
    stamps = sorted({cell.measured_at[:10] for arm in arms for cell in arm.cells if cell.measured_at})
    if len(stamps) > 1:
        limits.append(
            f"Measured on different days ({stamps[0]} to {stamps[-1]}): drift between them is not in the "
            "intervals."
        )
    if data.simulated:
        limits.append(
            "Figures are simulated: they say what a model of the server does, not what a server did."
        )
    return tuple(limits)


def method_of(data: StudyData) -> tuple[str, ...]:
    """How it was measured, a sentence each."""
    said = [
        "Steady decode rate: tokens after the first chunk / (last - first chunk), median over requests; "
        "warm-ups and first-of-a-shape requests left out.",
        "Aggregate: tokens a second of all streams together while every slot was decoding, the ramp cut.",
        "End-to-end rate: output tokens / wall time with a request in flight, prefill included.",
        "TTFT: from the request's last byte sent to the first content or reasoning.",
        "Acceptance length counts the bonus token; per decode step, steps without a draft are counted.",
        "Ratios: geometric mean of paired requests (same prompt in both arms), baseline named; a void cell "
        "on either side refuses the ratio.",
    ]
    said += _intervals(data)
    short = asked.phase_settings(data.study, "short")
    if short:
        said.append(
            f"Short prompts: {short.get('warmup', 0)} warm-up and {short.get('repeats')} measured requests "
            f"of {short.get('output_tokens')} output tokens for each set, one at a time."
        )
    ladder = asked.phase_settings(data.study, "ttft")
    if ladder:
        lengths = wording.listed([f"{int(length):,}" for length in ladder.get("lengths") or ()])
        said.append(
            f"Ladder of first tokens: {ladder.get('documents')} documents of {lengths} tokens, each sent "
            f"three times in a row for {ladder.get('output_tokens')} output tokens; the first request after "
            "boot apart."
        )
    sweep = asked.phase_settings(data.study, "sweep")
    if sweep:
        said.append(
            f"Sweep: closed loops at {', '.join(map(str, sweep.get('concurrency') or ()))} in flight, "
            f"{sweep.get('rounds')} requests of {sweep.get('output_tokens')} output tokens for each place; "
            "counted from the moment at which every place had its first token to that at which one stays "
            "empty. A row that the server did not run all at once is a queue, and is in no ratio."
        )
    document, answer = asked.document_tokens(data.study), asked.output_tokens(data.study, "cold")
    if document and answer:
        repeat = asked.output_tokens(data.study, "repeat")
        again = f"; then the same again from the cache, {repeat:,} output tokens each" if repeat else ""
        said.append(
            f"Cold waves of distinct documents of {document:,} tokens at "
            f"{', '.join(map(str, asked.concurrencies(data.study)))} at once, {answer:,} "
            f"output tokens each{again}."
        )
    said.append("Cached tokens are the server's count, checked for every request against what was expected.")
    said += [sentence for sentence in (_calibration(data), _own_processor(data)) if sentence]
    return tuple(said)


def _intervals(data: StudyData) -> list[str]:
    """How the intervals of this study were taken: the rule, fixed beforehand."""
    blocks = most_boots(
        {arm.name: (w.key for w in data.windows if w.key.arm == arm.name) for arm in data.arms}
    )
    said = []
    if blocks > 1:
        said.append(
            f"Intervals: Student's t over the boots' log-ratios, paired by block, with fewer than "
            f"{ENOUGH_BOOTS} boots; from {ENOUGH_BOOTS} on the hierarchical bootstrap (boots, prompts, "
            "repeats)."
        )
        if len(data.arms) > 2:
            said.append(
                "Several arms are told apart from one baseline by Holm's p-values; intervals are not "
                "widened for it."
            )
    looks = asked.spending(data.study)
    if looks is not None:
        said.append(
            f"The study was looked at after {looks.first} to {looks.last} boots of each arm and could stop "
            f"at each; a look has {looks.alpha(looks.first):.4f} of the {1 - looks.confidence:.2f} error, so "
            "that its intervals are wider and hold at whichever look it stopped."
        )
    return said


def _calibration(data: StudyData) -> str | None:
    """The client's own error on this machine, as `kvantage calibrate` measured it last."""
    taken = [event for event in data.events if event.get("kind") == "calibration"]
    if not taken:
        return None
    last = taken[-1]
    if "missing" in last:
        return f"The client's own error is not known: {last['missing']}."
    rows = {row["streams"]: row for row in last["rows"]}
    top = last.get("highest_exact")
    if not rows or top is None:
        return f"The client's own error (calibrated {last['taken_at']}): {last['advice']}."
    row = rows[top["streams"]]
    parts = [
        f"{name} {row[field]['median']:.2f} ms median, {row[field]['p99']:.2f} ms p99"
        for name, field in (("TTFT", "ttft_error_ms"), ("ITL", "itl_error_ms"))
    ]
    quick = ", the ten-second form" if last.get("quick") else ""
    return (
        f"The client's own error at {row['streams']:,} streams: {'; '.join(parts)} "
        f"(`kvantage calibrate`, {last['taken_at']}{quick})."
    )


def _own_processor(data: StudyData) -> str | None:
    """What kvantage itself took of the machine while it measured, at the highest concurrency."""
    spans = [
        (window.key.concurrency, window.own_cpu_s, (window.ended_ns - window.started_ns) * 1e-9)
        for window in data.windows
        if window.complete and window.own_cpu_s is not None
    ]
    if not spans:
        return None
    most = max(concurrency for concurrency, _, _ in spans)
    cpu_s = sum(cpu for concurrency, cpu, _ in spans if concurrency == most)
    wall_s = sum(wall for concurrency, _, wall in spans if concurrency == most)
    return f"kvantage itself took {cpu_s / wall_s:.1%} of one core meanwhile (at {most} at once)."
