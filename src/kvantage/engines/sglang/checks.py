"""Why an arm cannot be started, known before anything is."""

from __future__ import annotations

import os

from kvantage.core import ArmSettings, HostFacts, UsageError
from kvantage.engines.sglang.command import command, draft_kv_problem
from kvantage.engines.sglang.model import config_of, draft_block
from kvantage.engines.sglang.simulated import lossy_by_settings, simulated_by_environment
from kvantage.engines.simulated import INSTEAD, allowed


def problems(arm: ArmSettings, host: HostFacts) -> list[str]:
    """Each with what would work; empty when nothing is known to be in the way."""
    found = []
    try:
        command(arm, host, port=1024)
    except UsageError as error:
        found.append(f"{error.message}{f' ({error.hint})' if error.hint else ''}")
    if (problem := draft_kv_problem(arm)) is not None:
        found.append(problem)
    found += simulation_problems(arm)
    found += draft_problems(arm)
    return found


def simulation_problems(arm: ArmSettings) -> list[str]:
    """Acceptance that would be made up, or lossy; none where the study asks for it."""
    found: list[str] = []
    if allowed(arm):
        return found
    if (faked := simulated_by_environment({**os.environ, **arm.env})) is not None:
        found.append(
            f"{faked} fakes acceptance: no figure of this arm would be measured; unset it ({INSTEAD})"
        )
    if (lossy := lossy_by_settings({**arm.flags, **_as_flags(arm)})) is not None:
        found.append(f"{lossy} accepts drafts that the target would not emit: leave it at 1 ({INSTEAD})")
    return found


def _as_flags(arm: ArmSettings) -> dict[str, object]:
    return {
        f"speculative-{name.replace('_', '-').removeprefix('speculative-')}": value
        for name, value in arm.speculation.options.items()
    }


def draft_problems(arm: ArmSettings) -> list[str]:
    """A drafter that cannot draft as much, or is not there."""
    speculation, found = arm.speculation, []
    if speculation.method == "dflash":
        block = draft_block(speculation.draft)
        if block is not None and (speculation.drafts or 0) >= block:
            found.append(
                f"speculation `dflash`: `drafts: {speculation.drafts}` is more than the drafter's block of"
                f" {block} gives; at most {block - 1}"
            )
    if speculation.method == "mtp" and speculation.draft is None:
        config = config_of(arm.model)
        inner = config.get("text_config")
        text = {**config, **inner} if isinstance(inner, dict) else config
        if config and not any(text.get(name) for name in _HEADS):
            found.append(
                "speculation `mtp`: the model's config.json declares no prediction head of its own;"
                " use a drafter"
            )
    return found


_HEADS = (
    "num_nextn_predict_layers",
    "mtp_num_hidden_layers",
    "num_mtp_modules",
    "mtp_num_layers",
    "n_predict",
)
