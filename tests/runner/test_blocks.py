"""Blocks of boots: their order, when they end, how a broken one goes on, and what closes a study."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvantage.core import LedgerError
from kvantage.core.columns import StudyData
from kvantage.hosts.local import LocalHost
from kvantage.ledger import Ledger, read_study
from kvantage.phases import Bench, ChainPlan, Load
from kvantage.runner import Clock, Outcome, prepare, run_study
from kvantage.runner.blocks import in_order
from kvantage.study import Study
from tests.runner.test_runner import Notes, cells, nothing_left, run

Make = Callable[..., Study]
SHORT = {"short": {"warmup": 0, "repeats": 1, "output_tokens": 8, "prompts": {"code": "builtin"}}}
LONG = {**SHORT, "cold": {"document_tokens": 300, "concurrency": [1], "output_tokens": 8}}
TWO: dict[str, Any] = {"none": {}, "draft": {"speculation": {"ngram": 2}}}


def boots(notes: Notes) -> list[tuple[str, int]]:
    return [(boot["arm"], boot["block"]) for boot in notes.of("boot")]


@given(st.lists(st.text(), unique=True), st.integers(0, 9), st.integers(0, 2**31))
def test_every_order_starts_every_arm_once(arms: list[str], block: int, seed: int) -> None:
    for order in ("abba", "randomised", "fixed"):
        assert sorted(in_order(arms, block, order, seed)) == sorted(arms)
        assert in_order(arms, block, order, seed) == in_order(arms, block, order, seed)


@given(st.lists(st.integers(), unique=True, min_size=1), st.integers(0, 5), st.integers(0, 2**31))
def test_over_two_blocks_of_abba_every_arm_has_the_same_mean_place(
    arms: list[int], pair: int, seed: int
) -> None:
    first, second = (in_order(arms, 2 * pair + place, "abba", seed) for place in (0, 1))
    assert {first.index(arm) + second.index(arm) for arm in arms} == {len(arms) - 1}


def test_randomised_blocks_differ_and_follow_the_seed() -> None:
    arms = list("abcdef")
    made = {seed: [tuple(in_order(arms, block, "randomised", seed)) for block in range(6)] for seed in (0, 1)}
    assert len(set(made[0])) > 3
    assert made[0] != made[1]


async def test_three_blocks_abba_with_the_same_work_in_every_arm_and_none_twice(
    make_study: Make, tmp_path: Path
) -> None:
    study = make_study(arms=TWO, phases=LONG, boots=3)
    notes = Notes()
    await run(study, tmp_path / "out", notes=notes)
    assert boots(notes) == [("none", 0), ("draft", 0), ("draft", 1), ("none", 1), ("none", 2), ("draft", 2)]
    data = read_study(tmp_path / "out")
    assert {block for _, block, *_ in cells(data)} == {0, 1, 2}
    asked = list(zip(data.requests.arm, data.requests.block, data.requests.prompt_id, strict=True))
    of = {
        (arm, block): {prompt for a, b, prompt in asked if (a, b) == (arm, block)}
        for arm in TWO
        for block in range(3)
    }
    assert all(of["none", block] == of["draft", block] for block in range(3))
    documents = [{prompt for prompt in of["none", block] if "document" in prompt} for block in range(3)]
    assert documents[0]
    assert not documents[0] & documents[1]
    assert not documents[1] & documents[2]
    assert [fields["number"] for fields in notes.of("block")] == [0, 1, 2]
    assert data.telemetry is not None
    looked = {int(boot) for boot in data.telemetry.boot}
    assert looked == set(data.watched) == {window.boot for window in data.windows}
    assert nothing_left()


async def test_short_prompts_are_other_texts_in_every_block(make_study: Make, tmp_path: Path) -> None:
    from kvantage.phases.short import asks_of

    texts: dict[int, list[str]] = {}
    ids: dict[int, list[str]] = {}

    def note(bench: Bench) -> None:
        asks = asks_of(bench, "code")
        texts[bench.boot.block] = [str(ask.messages[0]["content"]) for ask in asks]
        ids[bench.boot.block] = [ask.prompt_id for ask in asks]

    async def listen(bench: Bench) -> None:
        note(bench)

    study = make_study(arms=TWO, phases=SHORT, boots=2)
    prepared = prepare(study, LocalHost())
    prepared = replace(prepared, plans=(replace(prepared.plans[0], run=listen),))
    with Ledger.create(tmp_path / "out") as ledger:
        await run_study(prepared, ledger, Notes())
    assert ids[0] == ids[1]
    assert texts[1] == [f"[b1] {text}" for text in texts[0]]


async def test_more_boots_keep_the_blocks_that_are_there(make_study: Make, tmp_path: Path) -> None:
    await run(make_study(arms=TWO, phases=SHORT), tmp_path / "out")
    notes = Notes()
    await run(make_study(arms=TWO, phases=SHORT, boots=2), tmp_path / "out", resume=True, notes=notes)
    assert boots(notes) == [("draft", 1), ("none", 1)]


async def test_a_study_that_was_killed_in_its_second_block_goes_on_there(
    make_study: Make, tmp_path: Path
) -> None:
    study = make_study(arms=TWO, phases=SHORT, boots=3)
    task = asyncio.create_task(run(study, tmp_path / "out"))
    while True:
        await asyncio.sleep(0.02)
        try:
            if len(cells(read_study(tmp_path / "out"))) == 3:
                break
        except LedgerError:
            continue
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    notes = Notes()
    await run(study, tmp_path / "out", resume=True, notes=notes)
    assert boots(notes)[-2:] == [("none", 2), ("draft", 2)]
    assert ("none", 0) not in boots(notes)
    assert ("draft", 0) not in boots(notes)
    assert len(cells(read_study(tmp_path / "out"))) == 6


@dataclass(frozen=True)
class Look:
    number: int
    decided: bool
    undecided: tuple[str, ...]
    out: tuple[str, ...]
    words: str


def looks(monkeypatch: pytest.MonkeyPatch, decided_at: int, out: tuple[str, ...] = ()) -> list[int]:
    asked: list[int] = []

    def look(data: StudyData, number: int) -> Look:
        assert {window.key.block for window in data.windows} == set(range(number))
        asked.append(number)
        return Look(number, number >= decided_at, ("draft",), out, f"look {number}")

    monkeypatch.setattr("kvantage.runner.run.look", look)
    return asked


async def test_a_study_stops_when_the_look_says_so(
    make_study: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = looks(monkeypatch, decided_at=3)
    study = make_study(arms=TWO, phases=SHORT, boots=2, until={"max_boots": 5})
    notes = Notes()
    await run(study, tmp_path / "out", notes=notes)
    assert asked == [2, 3]
    assert [said["decided"] for said in notes.of("look")] == [False, True]
    assert max(block for _, block in boots(notes)) == 2
    events = [event for event in read_study(tmp_path / "out").events if event["kind"] == "look"]
    assert [(event["number"], event["decided"], event["text"]) for event in events] == [
        (2, False, "look 2"),
        (3, True, "look 3"),
    ]
    again = Notes()
    await run(study, tmp_path / "out", resume=True, notes=again)
    assert boots(again) == []
    events = [event for event in read_study(tmp_path / "out").events if event["kind"] == "look"]
    assert len(events) == 2


async def test_a_study_stops_at_the_most_boots(
    make_study: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = looks(monkeypatch, decided_at=9)
    notes = Notes()
    await run(make_study(arms=TWO, phases=SHORT, until={"max_boots": 2}), tmp_path / "out", notes=notes)
    assert len(boots(notes)) == 4
    assert asked == [1, 2]


async def test_a_block_that_would_end_too_late_is_not_begun(
    make_study: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks(monkeypatch, decided_at=9)
    until = {"max_boots": 4, "max_hours": 1e-4}
    notes = Notes()
    await run(make_study(arms=TWO, phases=SHORT, until=until), tmp_path / "out", notes=notes)
    assert len(boots(notes)) == 2
    said = [event["text"] for event in read_study(tmp_path / "out").events if event["kind"] == "blocks"]
    assert len(said) == 1
    assert said[0].startswith("block 2 of 4 was not begun")


async def test_a_budget_leaves_out_whole_blocks(
    make_study: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Clock, "boot_s", lambda self: 4.0)  # a block is begun in the first two seconds alone
    notes = Notes()
    await run(make_study(arms=TWO, phases=SHORT, boots=50, budget="10s"), tmp_path / "out", notes=notes)
    data = read_study(tmp_path / "out")
    assert not data.skipped
    of = [{block for arm, block, *_ in cells(data) if arm == name} for name in TWO]
    assert of[0] == of[1]
    assert 1 <= len(of[0]) < 50


async def test_an_arm_out_of_the_race_is_spared_its_long_phases(
    make_study: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks(monkeypatch, decided_at=9, out=("draft", "none"))
    until = {"max_boots": 2, "long_phases": "in_race"}
    await run(make_study(arms=TWO, phases=LONG, until=until), tmp_path / "out")
    data = read_study(tmp_path / "out")
    assert {(arm, phase) for arm, block, phase, *_ in cells(data) if block == 1} == {
        ("none", "short"),
        ("none", "cold"),
        ("draft", "short"),
    }
    assert [(skip.arm, skip.block, skip.phase) for skip in data.skipped] == [("draft", 1, "cold")]


async def test_an_arm_that_does_not_start_is_not_tried_in_later_blocks(
    make_study: Make, tmp_path: Path
) -> None:
    arms = {"none": {}, "bad": {"speculation": {"ngram": 2}, "flags": {"die_at_boot": True}}}
    notes = Notes()
    outcome = await run(make_study(arms=arms, phases=SHORT, boots=2), tmp_path / "out", notes=notes)
    assert boots(notes) == [("none", 0), ("bad", 0), ("none", 1)]
    assert outcome.measured == ["none"]
    skipped = read_study(tmp_path / "out").skipped
    assert [(skip.arm, skip.block) for skip in skipped] == [("bad", 1)]
    assert "does not start" in skipped[0].reason


# what closes a study

seen: list[tuple[str, int, int]] = []


async def close(bench: Bench) -> None:
    data = read_study(bench.ledger.folder)
    seen.append((bench.arm, bench.boot.block, len(cells(data))))


async def closed(study: Study, folder: Path, notes: Notes, resume: bool = False, load: int = 10) -> Outcome:
    prepared = prepare(study, LocalHost())
    loads = (Load("short", "code", 1, 1, 10, load),)
    last = ChainPlan("closing:look", ("short",), loads, close, closing=True)
    prepared = replace(prepared, plans=(last, *prepared.plans))
    with Ledger.resume(folder) if resume else Ledger.create(folder) as ledger:
        return await run_study(prepared, ledger, notes)


async def test_one_more_boot_of_the_control_closes_a_study_and_sees_every_arm(
    make_study: Make, tmp_path: Path
) -> None:
    seen.clear()
    study, notes = make_study(arms=TWO, phases=SHORT), Notes()
    await closed(study, tmp_path / "out", notes)
    assert boots(notes) == [("none", 0), ("draft", 0), ("none", 1)]
    assert seen == [("none", 1, 2)]
    provenances = [boot.provenance for boot in read_study(tmp_path / "out").boots]
    assert [bool(each.get("closing")) for each in provenances] == [False, False, True]
    again = Notes()
    await closed(study, tmp_path / "out", again, resume=True)
    assert boots(again) == []


async def test_the_control_s_last_boot_closes_a_study_that_ends_with_it(
    make_study: Make, tmp_path: Path
) -> None:
    seen.clear()
    study, notes = make_study(arms=TWO, phases=SHORT, boots=2), Notes()
    await closed(study, tmp_path / "out", notes)
    assert boots(notes) == [("none", 0), ("draft", 0), ("draft", 1), ("none", 1)]
    assert seen == [("none", 1, 4)]


async def test_an_arm_that_comes_later_closes_the_study_again(make_study: Make, tmp_path: Path) -> None:
    seen.clear()
    await closed(make_study(arms=TWO, phases=SHORT), tmp_path / "out", Notes())
    more = {**TWO, "late": {"speculation": {"ngram": 3}}}
    notes = Notes()
    await closed(make_study(arms=more, phases=SHORT), tmp_path / "out", notes, resume=True)
    assert boots(notes)[-2:] == [("late", 0), ("none", 1)]
    assert len(seen) == 2
    assert seen[1][0] == "none"


async def test_what_closes_a_study_is_left_out_where_no_time_is_left(
    make_study: Make, tmp_path: Path
) -> None:
    seen.clear()
    study, notes = make_study(arms=TWO, phases=SHORT, budget="50s"), Notes()
    await closed(study, tmp_path / "out", notes, load=10**6)
    assert boots(notes) == [("none", 0), ("draft", 0)]
    assert seen == []
    assert len(cells(read_study(tmp_path / "out"))) == 2
    assert [skip["reason"] for skip in notes.of("skip")][-1] == "it does not fit into the study's budget"
