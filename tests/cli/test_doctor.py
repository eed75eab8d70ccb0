"""`kvantage doctor`: what it finds, on this machine and beyond it, and when something must be mended."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from kvantage.cli import doctor, health
from kvantage.cli import invoke as run
from kvantage.cli.health import Finding, needs, older
from kvantage.core import ExitCode
from kvantage.engines.installed import Installed, installed
from kvantage.hosts.local import LocalHost
from tests.cli.simulated import MODEL, study
from tests.study.base import BASE


def test_this_machine_is_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["doctor", "--json", "--out", str(tmp_path / "runs")])
    found = {one["what"]: one for one in json.loads(capsys.readouterr().out)}
    assert code == 0, found
    assert set(found) >= {
        "kvantage",
        "its packages",
        "vllm",
        "sglang",
        "llamacpp",
        "machine",
        "disk",
        "client",
    }
    assert all(one["state"] in doctor.SIGNS for one in found.values())
    assert all(one["todo"] for one in found.values() if one["state"] not in ("ok", "note"))
    assert not (tmp_path / "runs").exists()
    assert run(["doctor"]) == 0
    assert "nothing to mend" in capsys.readouterr().out


def test_what_is_needed_is_read_from_the_package_itself() -> None:
    named = {name: (least, extra) for name, least, extra in needs()}
    assert named["click"] == ("8.1", None)
    assert named["polars"][1] == "frames"
    assert named["asyncssh"][1] == "ssh"
    assert "pytest" not in named


@pytest.mark.parametrize(
    ("version", "least", "expected"),
    [("8.0.9", "8.1", True), ("8.1", "8.1", False), ("8.1.0", "8.1", False), ("10.0rc1", "9.9", False),
     ("2.0+cpu", "2.1", True), ("1.9", "1.10", True)],
)  # fmt: skip
def test_older(version: str, least: str, expected: bool) -> None:
    assert older(version, least) is expected


@given(
    some.lists(some.integers(0, 30), min_size=1, max_size=4),
    some.lists(some.integers(0, 30), min_size=1, max_size=4),
)
def test_older_orders_as_numbers_do(a: list[int], b: list[int]) -> None:
    left, right = ".".join(map(str, a)), ".".join(map(str, b))
    assert not (older(left, right) and older(right, left))
    if older(left, right):
        assert [*a, 0, 0, 0, 0][:4] < [*b, 0, 0, 0, 0][:4]


def test_a_package_that_is_too_old_or_gone_must_be_mended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    versions = {"click": "7.0", "rich": None, "asyncssh": None}
    real = health.version_of
    monkeypatch.setattr(health, "version_of", lambda name: versions.get(name, real(name)))
    assert run(["doctor"]) == ExitCode.USAGE
    shown = capsys.readouterr().out
    assert "✗ click" in shown
    assert "pip install --upgrade 'click>=8.1'" in shown
    assert "✗ rich" in shown
    assert "· kvantage[ssh]" in shown
    assert "2 to mend" in shown


def test_engines_are_found_where_a_study_would_find_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    here = {one.engine: one for one in installed()}
    assert set(here) == {"vllm", "sglang", "llamacpp"}
    assert all(one.version or one.todo for one in here.values())
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("VLLM_PYTHON", str(broken))
    gone = next(one for one in installed() if one.engine == "vllm")
    assert isinstance(gone, Installed)
    assert gone.version is None
    assert gone.doubt


def test_a_full_disk_is_a_fault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    usage = type("Usage", (), {"free": 10})
    monkeypatch.setattr("kvantage.cli.health.shutil.disk_usage", lambda _: usage)
    found = {one.what: one for one in health.health(tmp_path / "runs")}
    assert found["disk"].state == "fault"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A simulated server that speaks as vLLM does."""
    port = LocalHost().free_port()
    options = {"like": "vllm", "hardware": "h100"}
    arm = {"name": "none", "engine": "sim", "model": str(MODEL), "engine_options": options}
    words = [sys.executable, "-m", "kvantage.sim", "--arm", json.dumps(arm), "--port", str(port)]
    running = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert running.stdout is not None
    for line in running.stdout:
        if "Application startup complete" in line or "http://" in line:
            break
    yield f"http://127.0.0.1:{port}"
    running.terminate()
    running.communicate(timeout=20)


def test_a_server_is_asked_who_it_is(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", server]) == 0
    assert f"✓ server              {server}: vllm" in capsys.readouterr().out
    assert run(["doctor", "http://127.0.0.1:9"]) == ExitCode.USAGE
    assert "nothing serves there" in capsys.readouterr().out


def test_a_study_with_its_servers(server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "attached.yaml"
    path.write_text(f"{BASE}attach: {{none: '{server}', mtp: 'http://127.0.0.1:9'}}\n")
    assert run(["doctor", str(path)]) == ExitCode.USAGE
    shown = capsys.readouterr().out
    assert "✓ arm none" in shown
    assert "✗ arm mtp" in shown


def test_a_study_that_can_be_started_and_one_that_cannot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = study(tmp_path)
    assert run(["doctor", str(good)]) == 0
    assert "2 can be started" in capsys.readouterr().out
    text = good.read_text()
    good.write_text(text.replace("like: vllm", "like: wllm"))
    assert run(["doctor", str(good)]) == ExitCode.USAGE
    assert "`like` is sglang or vllm" in capsys.readouterr().out
    good.write_text(text.replace("control", "kontrol"))
    assert run(["doctor", str(good)]) == ExitCode.USAGE
    assert "did you mean `control`?" in capsys.readouterr().out


def test_a_machine_that_cannot_be_reached(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("asyncssh")
    path = study(tmp_path, more="hosts: ['nobody@127.0.0.1:9']\n")
    assert run(["doctor", str(path)]) == ExitCode.USAGE
    assert "✗ host 127.0.0.1" in capsys.readouterr().out


def test_lines_have_no_colour_where_none_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [Finding("a", "fault", "is gone", "get it")]
    assert "\x1b[31m" in next(doctor.lines(found))
    monkeypatch.setenv("NO_COLOR", "1")
    assert list(doctor.lines(found)) == ["✗ a  is gone", "       get it", "", "1 to mend"]
