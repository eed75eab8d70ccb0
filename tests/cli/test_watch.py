"""`kvantage watch`: the same view from another shell, its end, and what it says when nothing runs."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from kvantage.cli import invoke
from kvantage.core import ExitCode
from kvantage.ledger import at_work, whole_chains
from tests.cli.simulated import study
from tests.cli.terminal import KVANTAGE, Terminal


def start(folder: Path, **sizes: int) -> subprocess.Popen[bytes]:
    words = (*KVANTAGE, "run", str(study(folder, **sizes)), "--out", str(folder / "out"), "--plain")
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=folder)


def until_at_work(folder: Path) -> None:
    end = time.monotonic() + 60
    while not at_work(folder):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_another_shell_sees_the_grid_until_the_run_ends(tmp_path: Path) -> None:
    run = start(tmp_path, output_tokens=600)
    until_at_work(tmp_path / "out")
    with Terminal((*KVANTAGE, "watch", str(tmp_path / "out")), 80, 24, tmp_path) as terminal:
        assert terminal.shows("short code at 1:"), terminal.everything()
        shown = terminal.display()
        assert shown[0].startswith("kvantage: study   0:")
        assert any(re.match(r"none +[▶✓] +[·▶✓]", line) for line in shown), shown
        code = terminal.ends()
    said, _ = run.communicate(timeout=60)
    assert run.returncode == 0, said.decode()
    assert code == 0
    assert "Verdict" in terminal.everything()
    assert not at_work(tmp_path / "out")
    assert len(whole_chains(tmp_path / "out")) == 4


def test_a_watcher_that_leaves_or_is_killed_changes_nothing(tmp_path: Path) -> None:
    run = start(tmp_path, output_tokens=600)
    until_at_work(tmp_path / "out")
    with Terminal((*KVANTAGE, "watch", str(tmp_path / "out")), 80, 24, tmp_path) as terminal:
        assert terminal.shows("kvantage: study   0:"), terminal.everything()
        terminal.press(b"\x03")
        assert terminal.ends() == 130
    said, _ = run.communicate(timeout=90)
    assert run.returncode == 0, said.decode()


def test_a_run_that_is_killed_is_told_from_one_that_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = start(tmp_path, output_tokens=2000)
    out = tmp_path / "out"
    until_at_work(out)
    watch = subprocess.Popen(
        (*KVANTAGE, "watch", str(out)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert watch.stdout is not None
    for line in watch.stdout:
        if "ready in" in line:
            break
    run.send_signal(signal.SIGKILL)
    run.communicate(timeout=20)
    said, _ = watch.communicate(timeout=20)
    assert "ended without a word" in said
    assert watch.returncode == 0
    assert invoke(["watch", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "nothing is at work in" in shown
    assert "was broken off" in shown


def test_nothing_to_watch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["watch", str(tmp_path)]) == ExitCode.STORAGE
    assert "there is no study here" in capsys.readouterr().err
