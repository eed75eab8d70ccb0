"""A run as a person sees it: in terminals of several sizes, resized, interrupted, and in a pipe."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.cli.simulated import study
from tests.cli.terminal import BACK, KVANTAGE, OTHER, Terminal

COLOUR = re.compile(rb"\x1b\[[0-9;]*?(?:3[0-7]|9[0-7]|38;[0-9;]+)[;m]")


def run(folder: Path, *more: str) -> tuple[str, ...]:
    return (*KVANTAGE, "run", str(study(folder)), "--out", str(folder / "out"), *more)


def test_a_run_fills_a_grid_and_ends_in_its_tables(tmp_path: Path) -> None:
    with Terminal(run(tmp_path), 80, 24, tmp_path) as terminal:
        assert terminal.shows("starting its server"), terminal.everything()
        assert terminal.shows("short code at 1:"), terminal.everything()
        shown = terminal.display()
        assert shown[0].startswith("kvantage: study   0:")
        assert "left" in shown[0]
        head = next(line for line in shown if line.startswith("arm"))
        assert head.split() == ["arm", "short", "waves"]
        assert any(re.fullmatch(r"none +[▶✓] +[·▶✓]", line) for line in shown), shown
        assert any("pool" in line and "of 20,000 tokens" in line for line in shown)
        assert terminal.shows("note: ", 5)
        assert terminal.shows(" AL 2."), terminal.everything()
        assert terminal.ends() == 0, terminal.everything()
        after = terminal.everything()
    assert COLOUR.search(terminal.written)
    assert BACK in terminal.written
    assert "kvantage: study   0:" not in after, "the live view stays behind"
    assert "Verdict" in after
    assert str(tmp_path / "out" / "report.md") in after.replace("\n", "")
    assert max(map(len, after.splitlines())) <= 80


def test_a_large_terminal_that_is_resized_and_has_no_colours(tmp_path: Path) -> None:
    with Terminal(run(tmp_path), 200, 50, tmp_path, {"NO_COLOR": "1"}) as terminal:
        assert terminal.shows("starting its server")
        for columns, rows in ((60, 16), (120, 40), (80, 24), (200, 50)):
            terminal.resize(columns, rows)
            terminal.until(lambda: False, 0.8)
            shown = terminal.display()
            for start in ("kvantage: study", "arm ", "none ", "ngram "):
                assert sum(line.startswith(start) for line in shown) == 1, shown
        assert terminal.ends() == 0
    assert OTHER in terminal.written
    assert not COLOUR.search(terminal.written)


def test_ctrl_c_ends_the_server_and_keeps_what_was_finished(tmp_path: Path) -> None:
    with Terminal(run(tmp_path), 80, 24, tmp_path) as terminal:
        assert terminal.shows("short code at 1:"), terminal.everything()
        terminal.press(b"\x03")
        assert terminal.ends() == 130
        after = terminal.everything()
    assert "stopped: no server is left running" in after
    assert "--resume" in after
    assert BACK in terminal.written
    left = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert not [line for line in left.splitlines() if "kvantage.sim" in line and str(tmp_path) in line]


def test_in_a_pipe_there_are_lines(tmp_path: Path) -> None:
    done = subprocess.run(run(tmp_path), capture_output=True, text=True, check=False, timeout=90)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert re.search(r"^\[0:\d\d\] to do: none#0, ngram#0; about ", done.stdout, re.M)
    assert re.search(r"^\[0:\d\d\] ngram#0: short code at 1: 3 requests, .* AL \d\.\d\d", done.stdout, re.M)
    assert "\nVerdict\n" in done.stdout


@pytest.mark.parametrize(("more", "env"), [(("--plain",), {}), ((), {"TERM": "dumb"})])
def test_lines_where_asked_for_and_where_nothing_can_be_drawn(
    tmp_path: Path, more: tuple[str, ...], env: dict[str, str]
) -> None:
    with Terminal(run(tmp_path, *more), 80, 24, tmp_path, env) as terminal:
        assert terminal.shows("] none#0: starting its server"), terminal.everything()
        terminal.press(b"\x03")
        assert terminal.ends() == 130
    assert OTHER not in terminal.written
