from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from kvantage.core import LedgerError, UsageError
from kvantage.core.columns import StudyData
from kvantage.hosts.local import LocalHost
from kvantage.hosts.process import MARK
from kvantage.ledger import Ledger, read_study
from kvantage.runner import Clock, Outcome, Selection, prepare, run_study
from kvantage.study import Study

Make = Callable[..., Study]


class Notes:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, dict[str, Any]]] = []

    def on(self, kind: str, **fields: Any) -> None:
        self.heard.append((kind, fields))

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [fields for heard, fields in self.heard if heard == kind]


async def run(
    study: Study, folder: Path, *, resume: bool = False, notes: Notes | None = None, **select: Any
) -> Outcome:
    host = LocalHost()
    prepared = prepare(study, host, Selection(**select))
    opened = Ledger.resume(folder) if resume else Ledger.create(folder)
    with opened as ledger:
        return await run_study(prepared, ledger, notes or Notes())


def cells(data: StudyData) -> set[tuple[Any, ...]]:
    return {
        (w.key.arm, w.key.block, w.key.phase, w.key.workload, w.key.concurrency)
        for w in data.windows
        if w.complete
    }


def nothing_left() -> bool:
    """No process of any boot is alive; others, such as multiprocessing's tracker, are not looked at."""
    for child in psutil.Process().children(recursive=True):
        try:
            if child.status() != psutil.STATUS_ZOMBIE and MARK in child.environ():
                return False
        except psutil.Error:
            continue
    return True


async def test_every_arm_does_the_same_work(make_study: Make, tmp_path: Path) -> None:
    outcome = await run(make_study(), tmp_path / "out")
    assert outcome.measured == ["none", "draft", "late"]
    data = read_study(tmp_path / "out")
    work = {
        arm: sorted(
            (r.phase[i], r.workload[i], r.concurrency[i], r.repeat[i], r.stream[i], r.prompt_id[i])
            for r in [data.requests]
            for i in range(len(r))
            if r.arm[i] == arm
        )
        for arm in ("none", "draft", "late")
    }
    assert work["none"] == work["draft"] == work["late"]
    assert {phase for _, _, phase, _, _ in cells(data)} == {"probes", "short", "cold", "repeat"}
    assert nothing_left()
    assert data.skipped[0].reason.startswith("the model has no eyes")


async def test_documents_are_never_the_same_twice_and_repeats_are(make_study: Make, tmp_path: Path) -> None:
    await run(make_study(), tmp_path / "out", arms=("none",))
    requests = read_study(tmp_path / "out").requests
    cold = [p for p, phase in zip(requests.prompt_id, requests.phase, strict=True) if phase == "cold"]
    again = [p for p, phase in zip(requests.prompt_id, requests.phase, strict=True) if phase == "repeat"]
    assert len(set(cold)) == len(cold) == 3
    assert cold == again
    hits = requests.cached_tokens[requests.phase == "repeat"]
    assert (hits >= requests.expected_low[requests.phase == "repeat"]).all()
    assert (
        requests.cached_tokens[requests.phase == "cold"] <= requests.expected_high[requests.phase == "cold"]
    ).all()


async def test_an_arm_that_dies_in_mid_wave_is_told_in_its_logs_words_and_the_others_go_on(
    make_study: Make, tmp_path: Path
) -> None:
    arms = {
        "none": {},
        "dies": {"speculation": {"ngram": 2}, "flags": {"die_at": 12}},
        "late": {"speculation": {"ngram": 3}},
    }
    outcome = await run(make_study(arms=arms), tmp_path / "out")
    assert list(outcome.failed) == ["dies"]
    assert outcome.measured == ["none", "late"]
    data = read_study(tmp_path / "out")
    failed = next(boot for boot in data.boots if boot.arm == "dies")
    assert failed.status == "failed"
    assert failed.log_lines == ("RuntimeError: the stand-in was told to die",)
    broken = [w for w in data.windows if w.key.arm == "dies" and not w.complete]
    assert {w.chain for w in broken} == {"probes@1"}
    assert nothing_left()


async def test_an_arm_that_does_not_boot_is_told_and_the_others_go_on(
    make_study: Make, tmp_path: Path
) -> None:
    arms = {"none": {}, "bad": {"speculation": {"ngram": 2}, "flags": {"die_at_boot": True}}}
    notes = Notes()
    outcome = await run(make_study(arms=arms), tmp_path / "out", notes=notes)
    assert outcome.measured == ["none"]
    assert notes.of("failed")[0]["log_lines"] == ("ValueError: the stand-in cannot load this model",)


async def test_an_arm_that_cannot_be_is_refused_before_anything_starts(
    make_study: Make, tmp_path: Path
) -> None:
    arms = {"none": {}, "bad": {"flags": {"impossible": True}}}
    with pytest.raises(UsageError, match="told to be impossible"):
        await run(make_study(arms=arms), tmp_path / "out")
    assert not (tmp_path / "out").exists()


async def test_an_error_inside_a_200_is_a_failed_request_of_a_whole_study(
    make_study: Make, tmp_path: Path
) -> None:
    arms = {"none": {"flags": {"error_at": 20}}, "draft": {"speculation": {"ngram": 2}}}
    outcome = await run(make_study(arms=arms), tmp_path / "out")
    assert not outcome.failed
    requests = read_study(tmp_path / "out").requests
    bad = ~requests.ok
    assert bad.sum() == 1
    assert "the engine met a fault" in str(requests.error[bad][0])


async def test_a_run_that_was_broken_off_goes_on_and_ends_with_the_same_cells(
    make_study: Make, tmp_path: Path
) -> None:
    study = make_study()
    await run(study, tmp_path / "whole")
    task = asyncio.create_task(run(study, tmp_path / "cut"))
    while not (tmp_path / "cut" / "ledger.sqlite").exists():  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    while True:
        await asyncio.sleep(0.02)
        assert not task.done(), task.exception()
        try:
            data = read_study(tmp_path / "cut")
        except LedgerError:
            continue
        if any(arm == "late" and phase == "short" for arm, _, phase, _, _ in cells(data)):
            break
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert nothing_left()
    assert cells(read_study(tmp_path / "cut")) < cells(read_study(tmp_path / "whole"))
    notes = Notes()
    await run(study, tmp_path / "cut", resume=True, notes=notes)
    assert cells(read_study(tmp_path / "cut")) == cells(read_study(tmp_path / "whole"))
    assert [boot["arm"] for boot in notes.of("boot")] == ["late"]


async def test_a_changed_arm_is_measured_again_alone_after_a_look_at_the_control(
    make_study: Make, tmp_path: Path
) -> None:
    await run(make_study(), tmp_path / "out")
    arms = {"none": {}, "draft": {"speculation": {"ngram": 2}}, "late": {"speculation": {"ngram": 5}}}
    notes = Notes()
    outcome = await run(make_study(arms=arms), tmp_path / "out", resume=True, notes=notes)
    assert [boot["arm"] for boot in notes.of("boot")] == ["none", "late"]
    assert outcome.kept == ["none", "draft"]
    data = read_study(tmp_path / "out")
    rechecked = [w for w in data.windows if w.key.phase == "recheck"]
    assert [(w.key.arm, w.complete) for w in rechecked] == [("none", True)]


async def test_what_does_not_fit_the_budget_is_left_out_of_every_arm(
    make_study: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = Clock.chain_s
    monkeypatch.setattr(
        Clock, "chain_s", lambda self, plan: 3600.0 if "64" in plan.name else known(self, plan)
    )
    phases = {
        "short": {"warmup": 0, "repeats": 1, "output_tokens": 8},
        "cold": {"document_tokens": 300, "concurrency": [1, 64], "output_tokens": 400},
    }
    notes = Notes()
    await run(make_study(phases=phases, budget="10m"), tmp_path / "out", notes=notes)
    assert {skip["workload"] for skip in notes.of("skip")} == {"documents@64"}
    assert {skip["arm"] for skip in notes.of("skip")} == {"none", "draft", "late"}
    data = read_study(tmp_path / "out")
    assert {s.reason for s in data.skipped} == {"it does not fit into the study's budget"}


async def test_two_arms_that_are_the_same_are_refused(make_study: Make, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="same configuration"):
        await run(make_study(arms={"none": {}, "twin": {}}), tmp_path / "out")


async def test_the_ledger_never_holds_a_secret(
    make_study: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SECRET_TOKEN", "hunter2-hunter2")
    arms = {"none": {"env": {"HF_TOKEN": "${MY_SECRET_TOKEN}"}}}
    await run(make_study(arms=arms), tmp_path / "out")
    for file in (tmp_path / "out").rglob("*"):
        if file.is_file():
            assert b"hunter2" not in file.read_bytes()
