"""What a study may tell the simulated engine; the planner and the engine itself read the same words."""

from __future__ import annotations

from kvantage.core.arm import ALLOW_SIMULATED

OPTIONS = frozenset(
    {
        ALLOW_SIMULATED,
        "like",
        "hardware",
        "available_gib",
        "pools",
        "measured",
        "acceptance",
        "prefill_tok_s",
        "draft_window",
        "draft_windowed_layers",
        "speed",
    }
)
"""Names of its options."""
