"""The live view where it must leave its screen: when the person is to do something, and at the end."""

from __future__ import annotations

import io
import time

from rich.console import Console

from kvantage.cli.board import Told
from kvantage.cli.live import LiveView

OTHER, BACK = "\x1b[?1049h", "\x1b[?1049l"


def view() -> tuple[LiveView, io.StringIO]:
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=80, height=24, color_system=None)
    return LiveView("kvantage: study", console, held=lambda: [("older", 0, "short:code")]), written


def test_what_the_person_is_to_do_stands_where_it_can_be_copied() -> None:
    shown, written = view()
    with shown:
        shown.take(Told("plan", {"arms": [["none", 0, ["short:code"]]], "estimate_s": 9, "basis": "assumed"}))
        shown.take(Told("boot", {"arm": "none", "block": 0, "log": "x"}))
        before = len(written.getvalue())
        shown.take(Told("ask", {"text": "restart the server with\n  --tp 2"}))
        asked = written.getvalue()[before:]
        assert asked.index(BACK) < asked.index("please restart the server with\n  --tp 2")
        before = len(written.getvalue())
        time.sleep(0.6)
        assert written.getvalue()[before:] == "", "it must not draw over what is to be copied"
        shown.take(Told("ready", {"arm": "none", "block": 0, "seconds": 3.0, "version": "1"}))
        assert OTHER in written.getvalue()[before:]
        assert "older" in shown.board.boots
    assert written.getvalue().count(OTHER) == written.getvalue().count(BACK) == 2


def test_what_failed_and_ctrl_c_outlast_the_view() -> None:
    shown, written = view()
    with shown:
        shown.take(Told("plan", {"arms": [["none", 0, ["short:code"]]], "estimate_s": 9, "basis": "assumed"}))
        shown.take(Told("boot", {"arm": "none", "block": 0, "log": "x"}))
        lines = ["Error: \x1b[31mno kernel", "second"]
        shown.take(Told("failed", {"arm": "none", "block": 0, "reason": "it died", "log_lines": lines}))
        shown.take(Told("stopping", {"text": "stopping: the server is being ended"}))
    after = written.getvalue().rpartition(BACK)[2]
    assert "none failed: it died" in after
    assert "    Error: \ufffd[31mno kernel\n    second" in after
    assert "stopping: the server is being ended" in after
