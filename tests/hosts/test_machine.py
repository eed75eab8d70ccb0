"""What a machine is."""

from pathlib import Path

import pytest

from kvantage.hosts import LocalHost, machine

X86 = (
    "processor\t: 0\nmodel name\t: A Processor @ 2.0GHz\nflags\t\t: fpu avx512f amx_tile\n\nprocessor\t: 1\n"
)
ARM = "processor\t: 0\nFeatures\t: fp asimd bf16\n"


def test_this_machine() -> None:
    host = LocalHost()
    facts = host.facts()
    assert facts is host.facts()
    assert facts.cores >= 1
    assert facts.memory_bytes > 1 << 28
    assert facts.cpu
    assert facts.details["kernel"]
    assert facts.amx == ("amx_tile" in facts.cpu_flags)


def test_processors() -> None:
    assert machine.processor(X86) == ("A Processor @ 2.0GHz", frozenset({"fpu", "avx512f", "amx_tile"}))
    assert machine.processor(ARM) == ("", frozenset({"fp", "asimd", "bf16"}))
    assert machine.processor("") == ("", frozenset())


def test_nvidia(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.nvidia() == ([], None)
    tool = tmp_path / "nvidia-smi"
    tool.write_text(
        "#!/bin/sh\necho 'NVIDIA H200, 143771 MiB, 580.95.05'\necho 'NVIDIA H200, 143771 MiB, 580.95.05'\n"
    )
    tool.chmod(0o755)
    devices, driver = machine.nvidia()
    assert devices == [{"name": "NVIDIA H200", "memory": "143771 MiB"}] * 2
    assert driver == "580.95.05"
    tool.write_text("#!/bin/sh\necho 'Failed to initialize NVML'\nexit 9\n")
    assert machine.nvidia() == ([], None)
