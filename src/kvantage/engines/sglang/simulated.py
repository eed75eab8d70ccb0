"""Acceptance that is made up or lossy, found before a start and in what a server resolved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_VARIABLES = ("SGLANG_SIMULATE_ACC_LEN", "SIMULATE_ACC_LEN", "SGLANG_DSPARK_SIMULATE_FOLD")
_THRESHOLDS = ("speculative_accept_threshold_single", "speculative_accept_threshold_acc")


def simulated_by_environment(env: Mapping[str, Any]) -> str | None:
    """`NAME=value` of the variable that fakes acceptance, or None. SGLang's own default, -1, is off."""
    for name in _VARIABLES:
        value = str(env.get(name, "")).strip()
        if value and value.lower() not in ("-1", "-1.0", "0", "false"):
            return f"{name}={value}"
    return None


def lossy_by_settings(resolved: Mapping[str, Any]) -> str | None:
    """`name=value` of an acceptance threshold below 1, or None: the output is then not the target's own."""
    for name in _THRESHOLDS:
        value = resolved.get(name, resolved.get(name.replace("_", "-")))
        try:
            threshold = float(value) if value is not None and not isinstance(value, bool) else 1.0
        except (TypeError, ValueError):
            continue
        if threshold < 1:
            return f"{name}={threshold:g}"
    return None
