"""Acceptance that is made up: refused, unless a study asks for it, and then every figure is marked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvantage.core import ArmSettings

OPTION = "allow_simulated"
"""The engine option that allows it."""

INSTEAD = f"`{OPTION}: true` in the study's `engine` marks every figure instead"


def allowed(arm: ArmSettings | None) -> bool:
    """Whether the study asks for figures of which acceptance is no measurement."""
    return arm is not None and arm.engine_options.get(OPTION) is True


def mark(arm: ArmSettings | None, speculation: Mapping[str, Any]) -> dict[str, str]:
    """For `Facts.resolved`: the words of the mark, where simulation was asked for and takes place."""
    words = speculation.get("simulated")
    return {"simulated": f"simulated or lossy acceptance: {words}"} if words and allowed(arm) else {}
