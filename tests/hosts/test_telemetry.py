"""Looks at devices and machines: nvidia-smi's real words, NVML behind its own library, and neither."""

from __future__ import annotations

import asyncio
import importlib
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvantage.core.telemetry import MACHINE, REASONS, Sample, WatchedDevice, WatchedHost
from kvantage.hosts import remote_watch
from kvantage.hosts.nvml import Nvml
from kvantage.hosts.telemetry import Lines, LocalWatch, machine_now, read_csv, read_machine

FIELDS = remote_watch.FIELDS.format(reasons=remote_watch.SPELLINGS[0]).split(",")
H200 = "0, NVIDIA H200, 1980, 412.53, 51, 0x0000000000000000, 131072"
GB10 = "0, NVIDIA GB10, 2418, 38.41, 67, 0x0000000000000004, [N/A]"


def test_a_data_centre_gpu_tells_all() -> None:
    index, name, known, missing = read_csv(FIELDS, H200) or ("", "", {}, {})
    assert (index, name, missing) == ("0", "NVIDIA H200", {})
    assert known == {
        "sm_mhz": 1980.0,
        "power_w": 412.53,
        "temperature_c": 51.0,
        "reasons": 0,
        "memory_used_bytes": 131072 * 2**20,
    }


def test_a_gb10_tells_no_memory_of_its_own_and_says_so() -> None:
    _, _, known, missing = read_csv(FIELDS, GB10) or ("", "", {}, {})
    assert missing == {"memory_used_bytes": "nvidia-smi: N/A"}
    assert known["reasons"] == 4
    assert REASONS[4] == "power cap"
    assert "memory_used_bytes" not in known


@pytest.mark.parametrize(
    "line",
    [
        "",
        "No devices were found",
        "0, NVIDIA H200, 1980, 412.53",
        "Unable to determine the device handle for GPU0: 0000:01:00.0: Unknown Error, a, b, c, d, e, f",
        'Field "clocks_event_reasons.active" is not a valid field to query.',
    ],
)
def test_what_is_no_device_is_none(line: str) -> None:
    assert read_csv(FIELDS, line) is None


@given(st.lists(st.text(alphabet=st.characters(exclude_characters=",\n")), min_size=7, max_size=7))
def test_any_line_is_read_or_refused_and_never_made_up(cells: list[str]) -> None:
    read = read_csv(FIELDS, ",".join(cells))
    if read is not None:
        index, _, known, missing = read
        assert index.isdigit()
        assert not set(known) & set(missing)
        assert set(known) | set(missing) == {
            "sm_mhz",
            "power_w",
            "temperature_c",
            "reasons",
            "memory_used_bytes",
        }


@given(st.text())
def test_any_line_from_another_machine_is_taken_or_passed_over(line: str) -> None:
    heard: list[Sample] = []
    lines = Lines("a", heard.extend)
    for prefix in ("", "none ", "fields ", "gpu ", "machine "):
        lines.read(prefix + line)
    lines.host()


def test_lines_from_another_machine_become_samples() -> None:
    heard: list[Sample] = []
    lines = Lines("spark1", heard.extend, clock=lambda: 7)
    for line in (f"fields {','.join(FIELDS)}", f"gpu {GB10}", "machine 3.25 61000000 -", f"gpu {GB10}"):
        assert not lines.are_told or line.startswith("gpu")
        lines.read(line)
    told = lines.host()
    assert told.devices == (WatchedDevice("0", "NVIDIA GB10", {"memory_used_bytes": "nvidia-smi: N/A"}),)
    assert told.missing is None
    assert told.unseen == {}
    device, machine, again = heard
    assert (device.host, device.device, device.sm_mhz, device.power_w) == ("spark1", "0", 2418.0, 38.41)
    assert device.memory_used_bytes is None
    assert machine == Sample(7, "spark1", MACHINE, load=3.25, memory_available_bytes=61000000 * 1024)
    assert again.device == "0"
    assert WatchedHost.from_json(told.to_json()) == told


def test_a_machine_without_devices_says_why() -> None:
    lines = Lines("a", lambda samples: None)
    lines.read("none no nvidia-smi")
    lines.read("machine 0.10 1000 2600")
    assert lines.are_told
    assert lines.host() == WatchedHost("a", (), "no nvidia-smi", {})
    assert read_machine("- - -") == {"load": None, "memory_available_bytes": None, "cpu_mhz": None}
    assert read_machine("1 2") is None


class NotSupported(Exception):  # noqa: N818
    def __str__(self) -> str:
        return "Not Supported"


def library(**changes: Any) -> ModuleType:
    """The bindings as far as they are used, of one device."""

    def refuse(*_: Any) -> Any:
        raise NotSupported

    made = ModuleType("pynvml")
    given: dict[str, Any] = {
        "NVMLError": NotSupported,
        "NVML_CLOCK_SM": 1,
        "NVML_TEMPERATURE_GPU": 0,
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetName": lambda handle: "NVIDIA GB10",
        "nvmlDeviceGetClockInfo": lambda handle, kind: 2418,
        "nvmlDeviceGetPowerUsage": lambda handle: 38410,
        "nvmlDeviceGetTemperature": lambda handle, kind: 67,
        "nvmlDeviceGetCurrentClocksEventReasons": lambda handle: 4,
        "nvmlDeviceGetMemoryInfo": refuse,
        **changes,
    }
    for name, value in given.items():
        setattr(made, name, value)
    return made


def test_nvml_is_read_in_our_units_and_an_unsupported_field_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", library())
    nvml = Nvml.open("here")
    assert isinstance(nvml, Nvml)
    assert nvml.devices == (WatchedDevice("0", "NVIDIA GB10", {"memory_used_bytes": "NVML: Not Supported"}),)
    (sample,) = nvml.look()
    assert (sample.sm_mhz, sample.power_w, sample.temperature_c, sample.reasons) == (2418.0, 38.41, 67.0, 4)
    assert sample.memory_used_bytes is None
    nvml.close()


def test_without_devices_nvml_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", library(nvmlDeviceGetCount=lambda: 0))
    assert Nvml.open("here") == "NVML lists no device"


def test_the_bindings_that_we_install_have_the_names_that_we_use() -> None:
    real = importlib.import_module("pynvml")
    assert not [name for name in vars(library()) if name[0] in "Nn" and not hasattr(real, name)]


async def test_this_machine_is_looked_at_with_or_without_devices() -> None:
    heard: list[Sample] = []
    watch = LocalWatch("here", period_s=0.05)
    told = await watch.start(heard.extend)
    await asyncio.sleep(0.4)
    await watch.stop()
    machine = [sample for sample in heard if sample.device == MACHINE]
    assert len(machine) >= 4
    assert all(sample.memory_available_bytes and sample.load is not None for sample in machine)
    assert told.devices or told.missing
    assert all(a.at_ns < b.at_ns for a, b in pairwise(machine))
    number = len(heard)
    await asyncio.sleep(0.1)
    assert len(heard) == number


def test_the_far_end_speaks_as_we_read_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The script itself, with a stand-in for nvidia-smi that speaks an older driver's field names."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text(
        "#!/bin/sh\n"
        'case "$*" in *event_reasons*) echo "Field \\"x\\" is not a valid field to query."; exit 2;; esac\n'
        f"while :; do echo '{H200}'; sleep 0.1; done\n"
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    lines = _said(tmp_path, wanted=6)
    heard: list[Sample] = []
    read = Lines("far", heard.extend)
    for line in lines:
        read.read(line)
    assert read.host().devices == (WatchedDevice("0", "NVIDIA H200", {}),)
    assert {sample.device for sample in heard} == {"0", MACHINE}
    assert any(sample.memory_available_bytes for sample in heard)


def test_the_far_end_without_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    read = Lines("far", lambda samples: None)
    for line in _said(tmp_path, wanted=2):
        read.read(line)
    assert read.host().missing == "no nvidia-smi"


def _said(folder: Path, wanted: int) -> Sequence[str]:
    source = Path(remote_watch.__file__).read_text()
    command = [sys.executable, "-I", "-S", "-c", source]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as far:
        assert far.stdout is not None
        assert far.stdin is not None
        lines = [far.stdout.readline() for _ in range(wanted)]
        far.stdin.close()
        assert far.wait(timeout=10) == 0
    return lines


def test_the_clock_of_a_processor_is_asked_only_where_wanted() -> None:
    assert machine_now(asks_mhz=False)["cpu_mhz"] is None
