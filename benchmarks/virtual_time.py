"""How long the four-arm study takes in virtual time, and the memory that it needs.

    HF_HUB_OFFLINE=1 python benchmarks/virtual_time.py

128k x (1, 2, 4), cold and repeated, short code and prose, four arms. The bar is 1 s and 200 MiB.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

from kvantage.planner.plan import make_plan
from kvantage.planner.studies import asked_of, work_of
from kvantage.sim.plan import play
from kvantage.study import load_study

STUDY = Path(__file__).parents[1] / "examples" / "four-arms-simulated.yaml"
TIMES = 5


def main() -> None:
    """Print the median and the range of five plays, and the peak of this process."""
    study = load_study(STUDY)
    plan, work = make_plan(asked_of(study, None)), work_of(study)
    seconds = []
    for _ in range(TIMES):
        began = time.perf_counter()
        played = play(plan, work)
        seconds.append(time.perf_counter() - began)
    peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024
    hours = sum(arm.wall_s for arm in played) / 3600
    print(
        f"{hours:.2f} h of serving in {median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f}, "
        f"{TIMES} times); {peak:.0f} MiB"
    )


if __name__ == "__main__":
    main()
