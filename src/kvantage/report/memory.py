"""Where each arm's memory is, as JSON; report.html draws it."""

from __future__ import annotations

from typing import Any

from kvantage.analysis.memory import Memory
from kvantage.report.figures import number


def memory_json(memory: Memory) -> dict[str, Any]:
    """One arm's memory for report.json."""
    return {
        "arm": memory.arm,
        "parts": {part.name.replace(" ", "_").lower(): number(part.bytes) for part in memory.parts},
    }
