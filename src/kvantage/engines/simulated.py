"""Acceptance that is made up: refused, unless a study asks for it, and then every figure is marked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvantage.core import ArmSettings
from kvantage.core.arm import ALLOW_SIMULATED as OPTION

__all__ = ["INSTEAD", "OPTION", "allowed", "mark", "refusal"]

INSTEAD = f"--allow-simulated, or `{OPTION}: true` in the study's `engine`, marks every figure instead"


def allowed(arm: ArmSettings | None) -> bool:
    """Whether the study asks for figures of which acceptance is no measurement."""
    return arm is not None and arm.engine_options.get(OPTION) is True


def mark(arm: ArmSettings | None, speculation: Mapping[str, Any]) -> dict[str, str]:
    """For `Facts.resolved`: the words of the mark, where simulation was asked for and takes place."""
    words = speculation.get("simulated")
    return {"simulated": f"simulated or lossy acceptance: {words}"} if words and allowed(arm) else {}


def refusal(arm: ArmSettings, speculation: Mapping[str, Any]) -> str | None:
    """Why a server that resolved made-up acceptance is not measured; None where it may be."""
    words = speculation.get("simulated")
    if not words or allowed(arm):
        return None
    told = "" if words is True else f" ({words})"
    return f"its acceptance is simulated or lossy{told}: no figure of it would be measured ({INSTEAD})"
