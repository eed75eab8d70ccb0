"""The ladder of first tokens and the sweep, on the stand-in: what is sent, in which order, what is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvantage.analysis import analyse
from kvantage.core.columns import StudyData
from kvantage.ledger import read_study
from kvantage.phases import ChainPlan, chains_of
from kvantage.runner import Clock
from kvantage.study import Study
from tests.runner.test_runner import Notes, run

Make = Callable[..., Study]

PHASES: dict[str, Any] = {
    "ttft": {"lengths": [150, 400], "documents": 2, "output_tokens": 3},
    "short": {"warmup": 1, "repeats": 2, "output_tokens": 12},
    "sweep": {
        "prompts": {"code": "builtin"},
        "concurrency": [1, 3],
        "rounds": 3,
        "output_tokens": 24,
        "ttft_limit": "5s",
        "tpot_limit": "1s",
    },
}
ARMS = {"none": {}, "draft": {"speculation": {"ngram": 2}}}


def rows(data: StudyData, arm: str, phase: str) -> list[tuple[Any, ...]]:
    r = data.requests
    return [
        (str(r.workload[i]), int(r.concurrency[i]), int(r.repeat[i]), int(r.stream[i]), str(r.prompt_id[i]))
        for i in range(len(r))
        if (r.arm[i], r.phase[i]) == (arm, phase)
    ]


def only_late(reasons: Iterable[str]) -> bool:
    """On a loaded machine the client may be late; nothing else may be wrong."""
    return all(reason.startswith("client_on_time") for reason in reasons)


async def test_the_ladder_comes_first_and_each_document_three_times_in_a_row(
    make_study: Make, tmp_path: Path
) -> None:
    notes = Notes()
    await run(make_study(arms=ARMS, phases=PHASES), tmp_path / "out", notes=notes)
    chains = [heard["chain"] for heard in notes.of("chain") if heard["arm"] == "none"]
    assert chains == [
        "ttft:first@150", "ttft@150", "ttft@400", "short:code", "short:prose", "sweep:code@1", "sweep:code@3",
    ]  # fmt: skip
    data = read_study(tmp_path / "out")
    asked = rows(data, "none", "ttft")
    assert [(workload, repeat, stream) for workload, _, repeat, stream, _ in asked] == [
        ("first", 0, 0),
        *(("150", repeat, stream) for stream in (0, 1) for repeat in (0, 1, 2)),
        *(("400", repeat, stream) for stream in (0, 1) for repeat in (0, 1, 2)),
    ]
    assert len({prompt for *_, prompt in asked}) == 5
    assert asked == rows(data, "draft", "ttft")


async def test_the_first_request_after_boot_is_the_first(make_study: Make, tmp_path: Path) -> None:
    await run(make_study(arms=ARMS, phases=PHASES), tmp_path / "out")
    data = read_study(tmp_path / "out")
    first = next(w for w in data.windows if w.key.phase == "ttft" and w.key.workload == "first")
    assert first.notes == ()
    assert analyse(data).ladders[0].first is not None
    assert analyse(data).ladders[0].first.was_first


async def test_one_that_was_not_the_first_after_boot_says_so(
    make_study: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def backwards(study: Study) -> list[ChainPlan]:
        return chains_of(study)[::-1]

    monkeypatch.setattr("kvantage.runner.prepared.chains_of", backwards)
    await run(make_study(arms=ARMS, phases=PHASES), tmp_path / "out", arms=("none",))
    first = analyse(read_study(tmp_path / "out")).ladders[0].first
    assert first is not None
    assert not first.was_first
    assert "not the first after boot: " in first.words


async def test_hits_are_checked_at_both_repeats(make_study: Make, tmp_path: Path) -> None:
    await run(make_study(arms=ARMS, phases=PHASES), tmp_path / "out", arms=("none",))
    data = read_study(tmp_path / "out")
    requests, ladder = data.requests, analyse(data).ladders[0]
    again = (requests.phase == "ttft") & (requests.repeat > 0)
    assert (requests.cached_tokens[again] >= requests.expected_low[again]).all()
    assert np.isfinite(requests.expected_low[again]).all()
    assert ladder.reuse_sound
    for rung in ladder.rungs:
        assert only_late(rung.reasons)
        assert all(turn.ttft.known for turn in rung.turns) or rung.reasons


async def test_no_prompt_is_sent_twice_in_a_boot_but_the_ladders(make_study: Make, tmp_path: Path) -> None:
    await run(make_study(arms=ARMS, phases=PHASES), tmp_path / "out")
    data = read_study(tmp_path / "out")
    loops = rows(data, "none", "sweep")
    assert [workload for workload, *_ in loops] == ["code"] * 12
    assert sorted({concurrency for _, concurrency, *_ in loops}) == [1, 3]
    prompts = [prompt for *_, prompt in [*loops, *rows(data, "none", "short")]]
    assert len(set(prompts)) == len(prompts)
    assert sorted(loops) == sorted(rows(data, "draft", "sweep"))
    cold = data.requests.phase == "sweep"
    assert (data.requests.cached_tokens[cold] == 0).all()


async def test_a_closed_loop_keeps_its_places_filled(make_study: Make, tmp_path: Path) -> None:
    await run(make_study(arms=ARMS, phases=PHASES), tmp_path / "out")
    data = read_study(tmp_path / "out")
    r = data.requests
    mine = np.flatnonzero((r.arm == "none") & (r.phase == "sweep") & (r.concurrency == 3))
    sent, ended = r.sent_ns[mine], r.end_ns[mine]
    for moment in np.sort(sent)[3:]:  # each takes the place of one that has just ended
        assert 1 <= ((sent <= moment) & (ended > moment)).sum() <= 3
        assert moment - ended[ended <= moment].max() < 0.25e9
    found = {(each.arm, each.workload): each for each in analyse(data).sweeps}
    plain, draft = found["none", "code"], found["draft", "code"]
    for row in (*plain.rows, *draft.rows):
        assert row.kind == "steady" or only_late((row.why or "").split("; "))
        assert row.kind == "void" or (row.aggregate.known and row.per_user.known and row.kept.value == 1.0)
    for row in draft.rows:
        assert row.ratio.value is None or row.ratio.value > 1.2
    assert draft.queued == ()


async def test_adding_a_length_and_a_concurrency_keeps_the_others(make_study: Make, tmp_path: Path) -> None:
    await run(make_study(arms=ARMS, phases=PHASES), tmp_path / "out")
    more = {
        **PHASES,
        "ttft": {**PHASES["ttft"], "lengths": [150, 400, 600]},
        "sweep": {**PHASES["sweep"], "concurrency": [1, 2, 3], "tpot_limit": "2s"},
    }
    notes = Notes()
    await run(make_study(arms=ARMS, phases=more), tmp_path / "out", resume=True, notes=notes)
    assert [h["chain"] for h in notes.of("chain") if h["arm"] == "none"] == ["ttft@600", "sweep:code@2"]
    found = analyse(read_study(tmp_path / "out"))
    assert [rung.length for rung in found.ladders[0].rungs] == [150, 400, 600]
    assert [row.concurrency for row in found.sweeps[0].rows] == [1, 2, 3]


def test_a_compilation_after_boot_says_nothing_of_what_others_take(make_study: Make) -> None:
    plans = chains_of(make_study(phases=PHASES))
    clock = Clock()
    wanted = clock.chain_s(plans[-1])
    clock.note_chain(plans[0], 600.0)
    assert clock.chain_s(plans[-1]) == wanted
    assert clock.chain_s(plans[0]) == 600.0
    clock.note_chain(plans[1], 2 * clock.assumed.seconds(plans[1].loads[0]))
    assert clock.chain_s(plans[-1]) != wanted


def test_a_ladder_never_asks_beyond_its_own_documents(make_study: Make) -> None:
    """Lengths, concurrencies and rounds are what the plans' loads say, for the estimate."""
    plans = {plan.name: plan for plan in chains_of(make_study(phases=PHASES))}
    assert plans["ttft:first@150"].requests == 1
    assert plans["ttft@150"].requests == 6
    assert plans["sweep:code@3"].requests == 9
