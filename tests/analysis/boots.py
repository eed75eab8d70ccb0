"""Studies of several boots with a known truth, for whatever is decided over boots."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kvantage.core import Speculation
from tests.analysis.builder import STUDY, StudyBuilder, drafting, short

MTP = Speculation(method="mtp", drafts=3)
NGRAM = Speculation(method="ngram", drafts=5)


def booted(
    gains: Mapping[str, float],
    boots: int,
    sd_boot: float = 0.0,
    sd_request: float = 0.0,
    requests: int = 3,
    seed: int = 1,
    pools: Mapping[str, Sequence[float]] | None = None,
    workloads: Sequence[str] = ("code",),
    study: Mapping[str, Any] | None = None,
    **more: Any,
) -> StudyBuilder:
    """Arms at `gains` times 20 tok/s, each boot off by `sd_boot` and each request by `sd_request` (of the
    logarithm). `more` are fields of the study; pools are one figure a boot.
    """
    rng = np.random.default_rng(seed)
    builder = StudyBuilder({**STUDY, **(study or {}), **more})
    for place, (name, gain) in enumerate(gains.items()):
        speculation = None if name == "none" else (MTP, NGRAM)[place % 2]
        for block in range(boots):
            pool = (pools or {}).get(name, [9000.0])
            builder.arm(name, speculation, pool=pool[block % len(pool)], block=block)
            shift = rng.normal(0, sd_boot)
            for workload in workloads:
                rates = [20 * gain * math.exp(shift + rng.normal(0, sd_request)) for _ in range(requests)]
                made = short(rates, workload)
                drafted = made if speculation is None else drafting(made, 3, 2.5)
                builder.cell(name, "short", workload, 1, drafted, block=block)
    return builder
