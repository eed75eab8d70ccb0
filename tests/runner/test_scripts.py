"""Servers that come of the person's own commands, or of the person."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvantage.core import UsageError
from kvantage.hosts.local import LocalHost
from kvantage.ledger import Ledger, read_study
from kvantage.runner import prepare, run_study
from kvantage.study import Study
from tests.runner.standin import SERVER
from tests.runner.test_runner import Notes, nothing_left, run

Make = Callable[..., Study]
PHASES = {"short": {"prompts": {"code": "builtin"}, "warmup": 0, "repeats": 1, "output_tokens": 8}}
ARMS = {"none": {}, "draft": {"speculation": {"ngram": 2}}}


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    """The folder of the study, with an up.sh that leaves its server in the background, and a down.sh."""
    up = f'set -e\ndate +%s%N >server.log\n{sys.executable} {SERVER} "$@" >>server.log 2>&1 &\n'
    up += 'echo $! >server.pid\necho up "$KIND"\n'
    (tmp_path / "up.sh").write_text(up)
    (tmp_path / "down.sh").write_text("kill $(cat server.pid)\necho down $1\n")
    return tmp_path


def boot(**more: Any) -> dict[str, Any]:
    url = f"http://127.0.0.1:{LocalHost().free_port()}"
    start = {"start": "sh up.sh {flags}", "stop": "sh down.sh {arm}", "url": url, "ready_within": "20s"}
    return {**start, "logs": ["./server.log"], **more}


async def test_own_scripts_start_and_stop_each_arm(make_study: Make, scripts: Path) -> None:
    (scripts / "patches").mkdir()
    (scripts / "patches" / "a.diff").write_text("-1\n+2\n")
    (scripts / "server.log").write_text("of another day\n")
    study = make_study(
        boot=boot(record="./patches"), arms=ARMS, phases=PHASES, common={"env": {"KIND": "gpu"}}
    )
    notes = Notes()
    outcome = await run(study, scripts / "out", notes=notes)
    assert outcome.measured == ["none", "draft"], outcome.failed
    assert nothing_left()
    for event in notes.of("boot"):
        log = Path(event["log"]).read_text()
        assert "up gpu" in log
        assert "stand-in serves" in log
        assert f"down {event['arm']}" in log
        assert "another day" not in log
    boots = read_study(scripts / "out").boots
    assert [record["path"] for record in boots[0].provenance["record"]] == [str(scripts / "patches/a.diff")]
    assert boots[1].provenance["how"][1] == "and in the end: sh down.sh draft"


async def test_a_script_whose_server_is_in_the_foreground_needs_no_stop(
    make_study: Make, scripts: Path
) -> None:
    start = f"exec {sys.executable} {SERVER} {{flags}}"
    given = {"start": start, "url": "http://127.0.0.1:{port}", "ready_within": "20s"}
    outcome = await run(make_study(boot=given, arms=ARMS, phases=PHASES), scripts / "out")
    assert outcome.measured == ["none", "draft"], outcome.failed
    assert nothing_left()


async def test_a_script_that_fails_is_told_in_its_own_words(make_study: Make, scripts: Path) -> None:
    (scripts / "up.sh").write_text("echo 'DockerError: no such image'\nexit 3\n")
    notes = Notes()
    outcome = await run(make_study(boot=boot(), arms=ARMS, phases=PHASES), scripts / "out", notes=notes)
    assert outcome.measured == []
    assert notes.of("failed")[0]["log_lines"] == ("DockerError: no such image",)
    assert nothing_left()


async def test_a_server_that_keeps_its_old_name_is_not_taken_for_the_new_arm(
    make_study: Make, scripts: Path
) -> None:
    port = LocalHost().free_port()
    old = subprocess.Popen([sys.executable, SERVER, str(port), json.dumps({"name": "old"})])  # noqa: ASYNC220
    try:
        given = boot(start="true", stop="true", url=f"http://127.0.0.1:{port}", ready_within="1s")
        outcome = await run(make_study(boot=given, arms=ARMS, phases=PHASES), scripts / "out")
    finally:
        old.kill()
        old.wait()
    assert "serves old, not none after 1 s" in outcome.failed["none"]


async def test_manual_asks_for_each_configuration_and_waits(make_study: Make, scripts: Path) -> None:
    """The person is played by an observer that starts what it is asked for."""
    port = LocalHost().free_port()
    given = {"manual": True, "url": f"http://127.0.0.1:{port}", "ready_within": "20s"}
    study = make_study(boot=given, arms=ARMS, phases=PHASES)
    with pytest.raises(UsageError, match="nobody is there to be asked"):
        prepare(study, LocalHost(), interactive=False)
    running: list[subprocess.Popen[bytes]] = []

    class Person(Notes):
        def on(self, kind: str, **fields: Any) -> None:
            super().on(kind, **fields)
            if kind == "ask":
                flags = fields["text"].partition("\n  ")[2]
                end()
                running.append(subprocess.Popen(f"exec {sys.executable} {SERVER} {flags}", shell=True))

    def end() -> None:
        for server in running:
            server.kill()
            server.wait()

    person = Person()
    try:
        with Ledger.create(scripts / "out") as ledger:
            outcome = await run_study(prepare(study, LocalHost(), interactive=True), ledger, person)
    finally:
        end()
    assert outcome.measured == ["none", "draft"], outcome.failed
    assert [f"as arm {arm}, with" in ask["text"] for arm, ask in zip(ARMS, person.of("ask"), strict=True)]


async def test_nothing_that_a_script_left_outlives_kvantage(tmp_path: Path) -> None:
    """kvantage is killed: its guard still ends the server that the script put into the background."""
    code = (
        "import asyncio, pathlib\n"
        "from kvantage.hosts.local import LocalHost\n"
        "from kvantage.hosts.scripts import Commands, start_by_command\n"
        "async def main():\n"
        "    commands = Commands('sleep 300 & echo $! >pid', 'true', (), pathlib.Path('.'))\n"
        "    await start_by_command(commands, {}, pathlib.Path('log'), LocalHost())\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    kvantage = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path)  # noqa: ASYNC220
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    server = int((tmp_path / "pid").read_text())
    await asyncio.sleep(0.3)
    assert Path(f"/proc/{server}").exists()
    kvantage.kill()
    kvantage.wait()
    for _ in range(200):
        if not Path(f"/proc/{server}").exists():
            return
        await asyncio.sleep(0.02)
    os.kill(server, 9)
    raise AssertionError("the server was left running")


async def test_logs_by_command_are_tried_until_they_come(make_study: Make, scripts: Path) -> None:
    follow = "test -e server.pid && tail -n +1 -F server.log"
    notes = Notes()
    arms = {"none": {"flags": {"boot_s": 3}}}
    study = make_study(boot=boot(logs=[follow]), arms=arms, phases=PHASES)
    outcome = await run(study, scripts / "out", notes=notes)
    assert not outcome.failed
    assert "stand-in serves" in Path(notes.of("boot")[0]["log"]).read_text()
