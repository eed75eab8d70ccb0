"""Facts of a server that somebody else started, by the readers of the engine behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kvantage.core import ArmSettings, Facts
from kvantage.engines.llamacpp import facts as llamacpp
from kvantage.engines.llamacpp.scan import scan
from kvantage.engines.openai.attached import Attached
from kvantage.engines.sglang import facts as sglang
from kvantage.engines.sglang.boot import read_boot
from kvantage.engines.sglang.lines import logical_lines
from kvantage.engines.vllm import facts as vllm
from kvantage.engines.vllm.boot import boot_log
from kvantage.engines.vllm.metrics import cache_config


def facts(arm: ArmSettings, seen: Attached, lines: Sequence[str] = ()) -> Facts:
    """What it tells, and what the `lines` of its log do; the rest is missing, with the reason.

    What the arm is, is what the server says.
    """
    found = _by_engine(arm, seen, lines)
    if found is None:
        return Facts(
            engine="openai",
            engine_version=None,
            warnings=("the engine behind this address is not recognised: it tells no pool and no counters",),
        )
    wanted = arm.speculation
    warnings = list(found.warnings)
    if wanted.on and not found.speculation and seen.engine == "vllm" and not seen.info:
        warnings.append("this vLLM does not tell whether it speculates (VLLM_SERVER_DEV_MODE=1 makes it so)")
    if not wanted.on and found.speculation:
        warnings.append(
            f"the server speculates ({found.speculation.get('method')}), though the arm does not say so"
        )
    return replace(found, engine_version=found.engine_version or seen.version, warnings=tuple(warnings))


def _by_engine(arm: ArmSettings, seen: Attached, lines: Sequence[str]) -> Facts | None:
    if seen.engine == "sglang":
        return sglang.facts(
            sglang.Told(arm=arm, info=seen.info, metrics=seen.metrics, boot=read_boot(logical_lines(lines)))
        )
    if seen.engine == "llamacpp":
        return llamacpp.facts(llamacpp.Told(arm=arm, props=seen.props, slots=seen.slots, log=scan(lines)))
    if seen.engine == "vllm":
        cache = cache_config(seen.metrics)
        log = boot_log(lines)
        return vllm.facts(
            vllm.Told(arm=arm, log=log, cache=cache, info=seen.info or None, version=seen.version)
        )
    return None
