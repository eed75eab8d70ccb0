"""What a look a second at this machine costs: processor time a look, and the client's own lateness beside it.

python benchmarks/telemetry/measure.py [--seconds 30]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kvantage.client import LagProbe
from kvantage.core.telemetry import Sample
from kvantage.hosts.nvml import Nvml
from kvantage.hosts.telemetry import LocalWatch, machine_now

LOOKS = 300
BEGIN, END = "<!-- figures -->\n", "<!-- end -->"


def look_ms() -> dict[str, float]:
    """Processor time of one look, median over many, in milliseconds."""
    nvml = Nvml.open("here")
    kinds = {"machine, with the processor's clock": lambda: machine_now(asks_mhz=True)}
    kinds["machine, without"] = lambda: machine_now(asks_mhz=False)
    if isinstance(nvml, Nvml):
        kinds[f"NVML, {len(nvml.devices)} devices"] = nvml.look  # type: ignore[assignment]
    found = {}
    for name, look in kinds.items():
        times = []
        for _ in range(LOOKS):
            began = time.thread_time()
            look()
            times.append((time.thread_time() - began) * 1e3)
        found[name] = statistics.median(times)
    return found


async def lateness(seconds: float, looking: bool) -> dict[str, float]:
    """The client's delay over so many seconds, in milliseconds, with or without looks once a second."""
    seen: list[Sample] = []

    def take(samples: Sequence[Sample]) -> None:
        seen.extend(samples)

    watch = LocalWatch("here")
    if looking:
        await watch.start(take)
    with LagProbe() as probe, probe.span() as delays:
        await asyncio.sleep(seconds)
        told = {f"p{share * 100:g}": (delays.quantile_ns(share) or 0) / 1e6 for share in (0.5, 0.99, 0.999)}
    await watch.stop()
    return told


def main() -> None:
    """Print all as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--publish", action="store_true", help="write the README's table anew")
    asked = parser.parse_args()
    rounds = []
    for looking in (False, True, True, False):
        rounds.append({"looking": looking, **asyncio.run(lateness(asked.seconds, looking))})
    told = {"python": platform.python_version(), "look_ms": look_ms(), "lateness_ms": rounds}
    print(json.dumps(told, indent=1))
    if asked.publish:
        publish(told)


def publish(told: dict[str, Any]) -> None:
    """Put the figures between the README's markers."""
    readme = Path(__file__).with_name("README.md")
    head, _, rest = readme.read_text(encoding="utf-8").partition(BEGIN)
    _, _, tail = rest.partition(END)
    lines = ["", "| a look at | processor time, ms (median of 300) |", "|---|---:|"]
    lines += [f"| {name} | {value:.3f} |" for name, value in told["look_ms"].items()]
    lines += [
        "",
        "| looked at, once a second | client late at p50, ms | p99 | p99.9 |",
        "|---|---:|---:|---:|",
    ]
    for each in told["lateness_ms"]:
        late = " | ".join(f"{each[share]:.3f}" for share in ("p50", "p99", "p99.9"))
        lines.append(f"| {'yes' if each['looking'] else 'no'} | {late} |")
    readme.write_text(head + BEGIN + "\n".join([*lines, "", ""]) + END + tail, encoding="utf-8")


if __name__ == "__main__":
    main()
