"""What this machine is: processor, memory, kernel, accelerators."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import psutil

from kvantage.core import HostFacts


def machine_facts() -> HostFacts:
    """Read it from the system. What is not told is left out."""
    cpu, flags = processor(read("/proc/cpuinfo"))
    return HostFacts(
        name=platform.node() or "localhost",
        cpu=cpu or platform.processor() or platform.machine(),
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=memory_bytes(),
        cpu_flags=flags,
        details=details(),
    )


def read(path: str) -> str:
    """The text of a system file, empty where there is none."""
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def processor(cpuinfo: str) -> tuple[str, frozenset[str]]:
    """Model name and feature flags of the first processor in /proc/cpuinfo (x86 'flags', Arm 'Features')."""
    name = re.search(r"^(?:model name|Processor)\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    return (name[1].strip() if name else "", frozenset(flags[1].split() if flags else ()))


def memory_bytes() -> int:
    """Memory that processes here may use: the machine's, or the control group's limit where that is less."""
    total = int(psutil.virtual_memory().total)
    limits = [
        read(p).strip() for p in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
    ]
    return min([total, *(int(limit) for limit in limits if limit.isdigit())])


def details() -> dict[str, Any]:
    """Free-form provenance: architecture, kernel, system, container, accelerators and their driver."""
    release = re.search(r'^PRETTY_NAME="?([^"\n]+)', read("/etc/os-release"), re.MULTILINE)
    found: dict[str, Any] = {
        "architecture": platform.machine(),
        "kernel": platform.release(),
        "system": release[1] if release else platform.system(),
        "logical_cpus": psutil.cpu_count(),
        "container": Path("/.dockerenv").exists() or Path("/run/.containerenv").exists(),
    }
    devices, driver = nvidia()
    if devices:
        found |= {"devices": devices, "nvidia_driver": driver}
    return found


def nvidia() -> tuple[list[dict[str, str]], str | None]:
    """NVIDIA devices and driver as `nvidia-smi` tells them; nothing where it is not there or fails."""
    if shutil.which("nvidia-smi") is None:
        return [], None
    asked = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        told = subprocess.run(asked, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return [], None
    rows = [[cell.strip() for cell in line.split(",")] for line in told.splitlines() if line.count(",") == 2]
    return [{"name": name, "memory": memory} for name, memory, _ in rows], rows[0][2] if rows else None
