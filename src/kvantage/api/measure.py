"""Run a study from Python, also inside a notebook, where an event loop is at work already."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kvantage.api.run import Run
from kvantage.cli.foresight import keep_errors
from kvantage.core import ArmFailed, Observer, Silent
from kvantage.hosts.local import LocalHost
from kvantage.ledger import Ledger
from kvantage.report import write_reports
from kvantage.runner import Outcome, Prepared, Selection, Stopping, prepare
from kvantage.runner import run_study as run_prepared
from kvantage.runner.seen import recognised
from kvantage.session import ahead, calibrated, open_ledger, senders
from kvantage.study import Study, load_study


def run_study(
    study: Study | str | Path | Mapping[str, Any],
    out: str | Path | None = None,
    *,
    resume: bool = False,
    arms: Sequence[str] | None = None,
    phases: Sequence[str] | None = None,
    observer: Observer | None = None,
) -> Run:
    """Measure a study, write its reports, and return it opened: what `kvantage run` does.

    `study` is a file, a Study, or the same as a mapping; results go to `out` (default: runs/NAME). With
    `resume` what `out` holds is gone on with. `arms` and `phases` choose a part; the control is always in
    it. `observer` hears of everything as it happens (`core.Observer`), else nothing is said. Interrupting
    ends the servers and keeps what was finished.

    Raises StudyError or UsageError before anything is started, LedgerError for the folder, ArmFailed where
    no arm could be measured; one that failed among others is in the findings.
    """
    asked = _study(study)
    folder = Path(out) if out is not None else Path("runs") / asked.name
    told = observer or Silent()
    found: list[Outcome | BaseException] = []
    done = threading.Event()
    task: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Outcome]]] = []

    def work() -> None:
        try:
            found.append(_measure(asked, folder, resume, Selection(_names(arms), _names(phases)), told, task))
        except BaseException as error:  # handed on to whoever called
            found.append(error)
        finally:
            done.set()

    # a thread of its own, so that it works where the caller's thread has an event loop
    threading.Thread(target=work, name="kvantage-run").start()
    try:
        done.wait()  # not join(): Python takes a thread whose join was interrupted for ended
    except KeyboardInterrupt:
        for loop, running in task:
            loop.call_soon_threadsafe(running.cancel)
        done.wait()
        raise
    outcome = found[0]
    if isinstance(outcome, BaseException):
        raise outcome
    run = Run(folder)
    write_reports(run.findings, folder)
    keep_errors(run.findings, folder)
    if outcome.failed and not outcome.measured and not outcome.kept:
        reasons = "; ".join(f"{arm}: {why}" for arm, why in outcome.failed.items())
        raise ArmFailed(f"no arm could be measured: {reasons}", where=str(folder))
    return run


def _measure(
    study: Study,
    folder: Path,
    resume: bool,
    selection: Selection,
    observer: Observer,
    task: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Outcome]]],
) -> Outcome:
    if study.attach:
        chosen = study.attach if selection.arms is None else {*selection.arms, study.control_arm}
        study = asyncio.run(recognised(study, chosen))
    prepared = prepare(study, LocalHost(), selection, interactive=False)
    ledger = open_ledger(folder, resume)

    def say(text: str) -> None:
        observer.on("warning", text=text)

    with ledger, ahead(), calibrated(ledger, say):
        return asyncio.run(_go(prepared, ledger, observer, task))


async def _go(
    prepared: Prepared,
    ledger: Ledger,
    observer: Observer,
    task: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Outcome]]],
) -> Outcome:
    async with senders() as who:
        stopping = Stopping(asyncio.Event())
        running = asyncio.create_task(run_prepared(prepared, ledger, observer, stopping, who))
        task.append((asyncio.get_running_loop(), running))
        return await running


def _study(study: Study | str | Path | Mapping[str, Any]) -> Study:
    if isinstance(study, Study):
        return study
    return Study.from_json(study) if isinstance(study, Mapping) else load_study(study)


def _names(names: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)
