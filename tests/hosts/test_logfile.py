from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvantage.hosts import logfile
from kvantage.hosts.logfile import lines_from, whole_bytes


@given(st.binary(max_size=300), st.binary(max_size=300))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200, deadline=None)
def test_what_comes_after_a_mark_is_read_once_and_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bytes, after: bytes
) -> None:
    monkeypatch.setattr(logfile, "STRIDE", 7)
    path = tmp_path / "log"
    path.write_bytes(before)
    mark = whole_bytes(path)
    assert mark == before.rfind(b"\n") + 1
    path.write_bytes(before + after)
    held = before[:mark].decode("utf-8", "replace").split("\n")[:-1]
    assert held + lines_from(path, mark) == (before + after).decode("utf-8", "replace").split("\n")


def test_a_log_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert whole_bytes(tmp_path / "none") == 0
    assert lines_from(tmp_path / "none") == []
