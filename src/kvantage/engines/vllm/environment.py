"""The environment that vLLM is started in."""

from __future__ import annotations

import os
import platform

from kvantage.core import ArmSettings
from kvantage.engines.vllm.build import Build
from kvantage.engines.vllm.checkpoint import is_path

LOG_STATS_S = 2
"""Seconds between the server's own log lines of throughput and acceptance: a short phase has some too."""


def environment(arm: ArmSettings, build: Build) -> dict[str, str]:
    """What is added to the environment; the arm's own `env` wins.

    VLLM_SERVER_DEV_MODE opens /reset_prefix_cache and /server_info; an inherited API key would close the
    server to its own readiness check. The hub is asked for nothing where
    every model is a folder.
    """
    env = {
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_SERVER_DEV_MODE": "1",
        "VLLM_LOG_STATS_INTERVAL": str(LOG_STATS_S),
        "VLLM_API_KEY": "",
        "PYTHONUNBUFFERED": "1",
    }
    models = [arm.model, *([arm.speculation.draft] if arm.speculation.draft else [])]
    if all(is_path(name) for name in models):
        env["HF_HUB_OFFLINE"] = "1"
    if build.cpu and build.openmp and platform.machine() in ("x86_64", "AMD64"):
        there = os.environ.get("LD_PRELOAD", "")
        if "libiomp" not in there:
            env["LD_PRELOAD"] = f"{build.openmp}:{there}" if there else str(build.openmp)
    return env | dict(arm.env)
