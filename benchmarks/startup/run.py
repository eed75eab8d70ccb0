"""How long `kvantage --help` and its like take: the median of many starts, and what of it is Python itself.

python benchmarks/startup/run.py            prints a table
python benchmarks/startup/run.py --write    puts it into README.md beside this file
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

TIMES = 20
PAGE = Path(__file__).with_name("README.md")
BEGIN, END = "<!-- begin of table -->", "<!-- end of table -->"
KVANTAGE = [sys.executable, "-c", "from kvantage.cli import main; main()"]
CASES = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import click": [sys.executable, "-c", "import click"],
    "import kvantage": [sys.executable, "-c", "import kvantage"],
    "kvantage --help": [*KVANTAGE, "--help"],
    "kvantage --version": [*KVANTAGE, "--version"],
    "kvantage run --help": [*KVANTAGE, "run", "--help"],
    "kvantage watch --help": [*KVANTAGE, "watch", "--help"],
}


def main() -> None:
    """Time each case, in turns, so that a slow moment of the machine is shared."""
    times: dict[str, list[float]] = {name: [] for name in CASES}
    for _ in range(TIMES):
        for name, words in CASES.items():
            began = time.perf_counter()
            subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
            times[name].append(time.perf_counter() - began)
    load = os.getloadavg()[0]
    python, cores = platform.python_version(), os.cpu_count()
    lines = [
        f"Python {python}, {cores} cores, load average {load:.1f}, {TIMES} starts each:",
        "",
        "| start | median ms | fastest ms | slowest ms |",
        "|---|---:|---:|---:|",
    ]
    for name, held in times.items():
        ms = [1000 * one for one in held]
        lines.append(f"| `{name}` | {statistics.median(ms):.0f} | {min(ms):.0f} | {max(ms):.0f} |")
    table = "\n".join(lines)
    print(table)
    if "--write" in sys.argv[1:]:
        page = PAGE.read_text(encoding="utf-8")
        head, _, rest = page.partition(BEGIN)
        PAGE.write_text(f"{head}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
