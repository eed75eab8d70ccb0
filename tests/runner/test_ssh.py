"""Two real sshd on loopback are two machines; the stand-in prints which rank it is."""

from __future__ import annotations

import asyncio
import getpass
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from kvantage.core import ArmFailed
from kvantage.hosts.local import LocalHost
from kvantage.hosts.side import SideLoop
from kvantage.hosts.ssh import SshHost
from kvantage.ledger import read_study
from kvantage.study import Node, Study
from tests.runner.standin import SERVER
from tests.runner.test_runner import Notes, run

asyncssh = pytest.importorskip("asyncssh", reason="asyncssh is not installed (kvantage[ssh])")
SSHD = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")
pytestmark = pytest.mark.skipif(SSHD is None, reason="there is no sshd (openssh-server)")
MARK = uuid.uuid4().hex
PHASES = {"short": {"prompts": {"code": "builtin"}, "warmup": 0, "repeats": 1, "output_tokens": 8}}


@dataclass(frozen=True)
class Sshd:
    """One of the two machines."""

    folder: Path
    port: int

    def node(self, **changes: Any) -> dict[str, Any]:
        given = {"name": "127.0.0.1", "port": self.port, "user": getpass.getuser(), "python": sys.executable}
        keys = {"key": str(self.folder / "key"), "known_hosts": str(self.folder / "known_hosts")}
        return {**given, **keys, **changes}


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Sshd]]:
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    folder = tmp_path_factory.mktemp("ssh")
    running: list[subprocess.Popen[bytes]] = []
    found = []
    for name in ("key", "other"):
        _keygen(folder / name)
    for number in range(2):
        home = folder / f"machine{number}"
        home.mkdir()
        _keygen(home / "host")
        port = LocalHost().free_port()
        shutil.copy(folder / "key.pub", home / "authorized")
        for name in ("key", "other"):
            shutil.copy(folder / name, home / name)
        public = (home / "host.pub").read_text().split()
        (home / "known_hosts").write_text(f"[127.0.0.1]:{port} {public[0]} {public[1]}\n")
        config = f"""
            Port {port}
            ListenAddress 127.0.0.1
            HostKey {home}/host
            AuthorizedKeysFile {home}/authorized
            PidFile {home}/pid
            StrictModes no
            UsePAM no
            PasswordAuthentication no
            PermitRootLogin prohibit-password
        """
        (home / "config").write_text("\n".join(line.strip() for line in config.splitlines()))
        assert SSHD is not None
        running.append(subprocess.Popen([SSHD, "-D", "-f", str(home / "config"), "-E", str(home / "log")]))
        found.append(Sshd(home, port))
    for machine in found:
        _wait(lambda port=machine.port: LocalHost().port_problem(port) is not None)
    yield found
    for sshd in running:
        sshd.terminate()
        sshd.wait()


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _keygen(path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)


def _wait(what: Callable[[], Any], within_s: float = 20.0) -> None:
    until = time.monotonic() + within_s
    while not what():
        assert time.monotonic() < until
        time.sleep(0.05)


def servers() -> list[psutil.Process]:
    """The processes of the servers of these tests, whoever is their parent now."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get("MARK") == MARK:
                found.append(process)
        except psutil.Error:
            continue
    return found


async def test_a_group_on_two_machines_leaves_nothing_behind(
    make_study: Callable[..., Study], machines: list[Sshd], tmp_path: Path
) -> None:
    study = make_study(
        hosts=[machine.node() for machine in machines],
        common={"nodes": 2, "env": {"MARK": MARK}, "flags": {"boot_s": 1.5}},
        arms={"none": {"env": {"SECRET_TOKEN": "${MINE}"}}, "draft": {"speculation": {"ngram": 2}}},
        phases=PHASES,
    )
    os.environ["MINE"] = "hunter2"
    notes = Notes()
    try:
        outcome = await run(study, tmp_path / "out", notes=notes)
    finally:
        del os.environ["MINE"]
    assert outcome.measured == ["none", "draft"], outcome.failed
    assert servers() == []
    for event in notes.of("boot"):
        first = Path(event["log"])
        assert "rank 0 of 2" in first.read_text()
        assert "rank 1 of 2" in first.with_suffix(".node1.log").read_text()
    boot = read_study(tmp_path / "out").boots[0]
    assert boot.provenance["system"]["reached_by"] == "ssh"
    assert len(boot.provenance["system"]["other_machines"]) == 1
    assert boot.provenance["how"][1].startswith("ssh 127.0.0.1: ")
    _both_were_looked_at(tmp_path / "out")
    for file in (tmp_path / "out").rglob("*"):
        assert not file.is_file() or b"hunter2" not in file.read_bytes()


def _both_were_looked_at(folder: Path) -> None:
    """Each machine told its own memory and load over time, in every boot; what it has not is said."""
    data = read_study(folder)
    assert data.telemetry is not None
    names = {"127.0.0.1 (0)", "127.0.0.1 (1)"}
    for boot, hosts in data.watched.items():
        assert {host.host for host in hosts} == names
        assert all(host.devices or host.missing == "no nvidia-smi" for host in hosts)
        mine = data.telemetry.boot == boot
        for name in names:
            rows = mine & (data.telemetry.host == name) & (data.telemetry.device == "")
            assert rows.sum() >= 2
            assert (data.telemetry.memory_available_bytes[rows] > 0).all()
            assert (data.telemetry.load[rows] >= 0).all()
    assert len(data.watched) == 2


async def test_the_death_of_one_machine_is_noticed_and_ends_the_other(
    make_study: Callable[..., Study], machines: list[Sshd], tmp_path: Path
) -> None:
    arms = {"none": {"flags": {"die_after_s": 1.0}}, "draft": {"speculation": {"ngram": 2}}}
    phases = {"short": {"prompts": {"code": "builtin"}, "repeats": 400, "output_tokens": 40}}
    hosts = [machine.node() for machine in machines]
    study = make_study(
        hosts=hosts, common={"nodes": 2, "env": {"MARK": MARK}}, arms=arms, phases=phases, budget="20s"
    )
    notes = Notes()
    study = study.model_copy(update={"arms": {"none": study.arms["none"]}, "budget": None})
    outcome = await run(study, tmp_path / "out", notes=notes)
    assert "ended with status 9" in outcome.failed["none"]
    assert notes.of("failed")[0]["log_lines"] == ("RuntimeError: rank 1 was told to die",)
    assert servers() == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"known_hosts": "stranger"}, "its host key is not the one that is known"),
        ({"key": "other"}, "takes none of our keys"),
        ({"port": 9}, "cannot be reached by ssh"),
        ({"python": "/no/python"}, "has no working `/no/python`"),
    ],
)
async def test_what_is_wrong_with_a_machine(
    changes: dict[str, Any], said: str, machines: list[Sshd], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    machine = machines[0]
    if changes.get("known_hosts") == "stranger":
        (machine.folder / "stranger").write_text((machines[1].folder / "known_hosts").read_text())
    for name in ("known_hosts", "key"):
        if name in changes:
            changes = {**changes, name: str(machine.folder / changes[name])}
    side = SideLoop()
    host = SshHost(Node.model_validate(machine.node(**changes)), side)
    try:
        with pytest.raises(ArmFailed, match=said):
            await host.free_port()
    finally:
        await host.close()
        await side.close()


async def test_a_machine_out_of_reach_fails_its_arm_in_the_report(
    make_study: Callable[..., Study], machines: list[Sshd], tmp_path: Path
) -> None:
    hosts = [machines[0].node(), machines[1].node(key=str(machines[1].folder / "other"))]
    arms = {"none": {}, "draft": {"speculation": {"ngram": 2}}}
    study = make_study(hosts=hosts, common={"nodes": 2, "env": {"MARK": MARK}}, arms=arms, phases=PHASES)
    outcome = await run(study, tmp_path / "out")
    assert "takes none of our keys" in outcome.failed["none"]
    assert [boot.status for boot in read_study(tmp_path / "out").boots] == ["failed", "failed"]
    assert servers() == []


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_server_ends_when_home_is_gone(how: int, machines: list[Sshd], tmp_path: Path) -> None:
    """Killed, kvantage's connection ends; stopped, it is silent (told to the far end as 3 seconds here)."""
    code = (
        "import asyncio, pathlib, sys\n"
        "from kvantage.hosts import ssh\n"
        "from kvantage.hosts.side import SideLoop\n"
        "from kvantage.study import Node\n"
        "ssh.SILENCE_S = 3.0\n"
        "ssh.BEAT_S = 1.0\n"
        "log = pathlib.Path('log')\n"
        "async def main():\n"
        f"    host = ssh.SshHost(Node.model_validate({machines[0].node()!r}), SideLoop())\n"
        f"    await host.start([sys.executable, {str(SERVER)!r}, '0', '{{}}'], {{'MARK': {MARK!r}}}, log)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    kvantage = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path)  # noqa: ASYNC220
    try:
        await asyncio.to_thread(_wait, lambda: servers() and "serves" in _text(tmp_path / "log"))
        kvantage.send_signal(how)
        await asyncio.to_thread(_wait, lambda: not servers())
    finally:
        kvantage.kill()
        kvantage.wait()
