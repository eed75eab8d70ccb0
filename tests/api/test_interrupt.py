"""Interrupting a run that was started from Python: the server ends, and what was finished is kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from kvantage.ledger import at_work, read_study
from tests.cli.simulated import study

SCRIPT = """
import os, signal, sys, kvantage

class Interrupts:
    told = False

    def on(self, kind, **fields):
        if kind == "request" and not self.told:
            self.told = True
            os.kill(os.getpid(), signal.SIGINT)

try:
    kvantage.run_study(sys.argv[1], sys.argv[2], observer=Interrupts())
except KeyboardInterrupt:
    sys.exit(42)
"""


def test_an_interrupted_call_leaves_no_server_and_keeps_what_was_finished(tmp_path: Path) -> None:
    path, out = study(tmp_path, output_tokens=300), tmp_path / "out"
    words = [sys.executable, "-c", SCRIPT, str(path), str(out)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=90)
    assert done.returncode == 42, done.stderr
    assert not at_work(out)
    data = read_study(out)
    assert [boot.status for boot in data.boots] == ["interrupted"]
    assert len(data.requests) >= 1
    left = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert not [line for line in left.splitlines() if "kvantage.sim" in line and str(tmp_path) in line]
