"""Why an arm cannot be started, known before anything is."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from kvantage.core import ArmSettings, HostFacts, UsageError
from kvantage.engines.llamacpp.command import command, gguf_in, server_of
from kvantage.engines.simulated import INSTEAD, allowed

SYNTHETIC = ("spec-synth-len", "spec-synth-rates")


def problems(arm: ArmSettings, host: HostFacts) -> list[str]:
    """Each with what would work; empty when nothing is known to be in the way."""
    found = []
    try:
        server = server_of(arm)
        command(arm, host, port=1024)
    except UsageError as error:
        return [f"{error.message}{f' ({error.hint})' if error.hint else ''}"]
    if shutil.which(server[0]) is None:
        found.append(
            f"there is no {server[0]} here (install kvantage[llamacpp], or name it:"
            " engine_options: {server: PATH})"
        )
    draft = arm.speculation.draft
    if draft is not None and not Path(gguf_in(draft, "speculation.draft")).is_file():
        found.append(f"speculation.draft: there is no file {draft}; llama.cpp would serve without a drafter")
    return found + synthetic_problems(arm)


def synthetic_problems(arm: ArmSettings) -> list[str]:
    """Acceptance that would be made up; none where the study asks for it."""
    found: list[str] = []
    if allowed(arm):
        return found
    for name in arm.flags:
        if name.lstrip("-").replace("_", "-") in SYNTHETIC:
            found.append(
                f"flags: `{name}` makes acceptance up: no figure of this arm would be measured; leave it out"
                f" ({INSTEAD})"
            )
    for name in SYNTHETIC:
        variable = f"LLAMA_ARG_{name.upper().replace('-', '_')}"
        if {**os.environ, **arm.env}.get(variable):
            found.append(f"{variable} makes acceptance up: unset it ({INSTEAD})")
    return found
