"""Runs on another machine, at the far end of ssh: a line a second of its devices and of itself.

Sent as text (`python3 -I -S -c SOURCE`), with the standard library alone; it ends when its stdin does. Lines:

    none REASON        there is no nvidia-smi, or it does not work
    fields A,B,C       what the columns of the next lines are
    gpu CSV            one device, as nvidia-smi prints it
    machine LOAD AVAILABLE_KIB MHZ     `-` where the system does not tell
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

FIELDS = "index,name,clocks.sm,power.draw,temperature.gpu,{reasons},memory.used"
SPELLINGS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")

lock = threading.Lock()


def say(line: str) -> None:
    """One whole line home."""
    with lock:
        print(line, flush=True)


def text_of(path: str) -> str:
    """A system file, empty where there is none."""
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def fastest_mhz() -> str:
    """The clock of the fastest core, in MHz; `-` where the system does not tell."""
    cores = Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_cur_freq")
    told = [float(text) / 1000 for text in map(text_of, map(str, cores)) if text.strip().isdigit()]
    if not told:
        lines = [line for line in text_of("/proc/cpuinfo").splitlines() if line.startswith("cpu MHz")]
        values = [line.partition(":")[2].strip() for line in lines]
        told = [float(value) for value in values if value.replace(".", "", 1).isdigit()]
    return f"{max(told):.0f}" if told else "-"


def machine(asks_mhz: bool) -> str:
    """The machine's own line."""
    load = text_of("/proc/loadavg").split(" ", 1)[0] or "-"
    lines = text_of("/proc/meminfo").splitlines()
    free = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), "-")
    return f"machine {load} {free} {fastest_mhz() if asks_mhz else '-'}"


def devices() -> tuple[subprocess.Popen[str] | None, str]:
    """nvidia-smi at work, its first line read, and that line; or None and why."""
    why = "no nvidia-smi"
    for spelling in SPELLINGS:
        fields = FIELDS.format(reasons=spelling)
        command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits", "-lms", "1000"]
        try:
            child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        except OSError:
            return None, why
        assert child.stdout is not None
        first = child.stdout.readline().strip()
        if first[:1].isdigit():
            say(f"fields {fields}")
            return child, first
        child.terminate()
        child.wait()
        why = f"nvidia-smi: {first or 'said nothing'}"
    return None, why


def main() -> None:
    """Say a line a second until home is gone."""
    child, told = devices()
    if child is None:
        say(f"none {told}")
    else:
        say(f"gpu {told}")
        threading.Thread(target=hand_on, args=(child,), daemon=True).start()
    threading.Thread(target=once_a_second, args=(child is None,), daemon=True).start()
    sys.stdin.read()
    if child is not None:
        child.terminate()
    os._exit(0)  # the threads may be in the middle of a line, and hold what an orderly exit waits for


def hand_on(child: subprocess.Popen[str]) -> None:
    """Each line of nvidia-smi."""
    assert child.stdout is not None
    for line in child.stdout:
        say(f"gpu {line.strip()}")


def once_a_second(asks_mhz: bool) -> None:
    """The machine's line, on the second of a clock that does not drift."""
    due = time.monotonic()
    while True:
        say(machine(asks_mhz))
        due += 1.0
        time.sleep(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    main()
