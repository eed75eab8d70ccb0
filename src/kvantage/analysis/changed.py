"""What two runs differ in beside their figures: the work that was asked, the versions, machines, settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kvantage.analysis.differences import UNTOLD, flat, settings_told
from kvantage.core.columns import BootRow, StudyData

NOT_WORK = ("concurrency", "lengths", "ttft_limit", "tpot_limit")
"""What has cells of its own, or only judges them: a difference in it refuses nothing."""
AMOUNT = ("repeats", "warmup", "rounds", "documents", "prompts")
"""How much was asked, and not what: figures compare all the same, over the prompts that both asked."""
RECORDED = ("versions", "hardware", "system", "model", "draft", "env", "inherited_env", "image_digest")
"""Of a boot's provenance; commands and addresses differ in every run."""
PASSING = ("port", "log", "url", "pid")


@dataclass(frozen=True, slots=True)
class Changed:
    """One thing that differs. `where` is a phase or the arms concerned; the rest is as the runs told it."""

    where: str
    what: str
    before: str
    after: str

    @property
    def refuses(self) -> bool:
        """True where the work itself differs, so that the phase's figures are of two things."""
        return self.where != "study" and self.what.partition(".")[0] not in AMOUNT


def asked_otherwise(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Changed, ...]:
    """What the two studies asked otherwise in the phases that both ran, and in their seeds."""
    seeds = [str(study.get("seed", 0)) for study in (before, after)]
    found = [Changed("study", "seed", *seeds)] if seeds[0] != seeds[1] else []
    mine, theirs = (study.get("phases") or {} for study in (before, after))
    for phase in mine:
        if not isinstance(mine[phase], Mapping) or not isinstance(theirs.get(phase), Mapping):
            continue
        left, right = (flat(phases[phase]) for phases in (mine, theirs))
        for name in dict.fromkeys((*left, *right)):
            if name.partition(".")[0] in NOT_WORK or left.get(name) == right.get(name):
                continue
            found.append(Changed(phase, name, left.get(name, UNTOLD), right.get(name, UNTOLD)))
    return tuple(found)


def configured_otherwise(before: StudyData, after: StudyData, arms: Sequence[str]) -> tuple[Changed, ...]:
    """What differs in versions, machines, files, declared and resolved settings, each once for the arms that
    it concerns.
    """
    held: dict[tuple[str, str, str], list[str]] = {}
    for arm in arms:
        left, right = (_told(data, arm) for data in (before, after))
        for name in dict.fromkeys((*left, *right)):
            if left.get(name) != right.get(name):
                key = (name, left.get(name, UNTOLD), right.get(name, UNTOLD))
                held.setdefault(key, []).append(arm)
    found: dict[tuple[str, str, str], Changed] = {}
    for key, where in sorted(held.items()):
        concerned = "every arm" if len(where) == len(arms) else ", ".join(where)
        # one change is often told under several names: the first stands for all
        found.setdefault((concerned, *key[1:]), Changed(concerned, *key))
    return tuple(found.values())


def _told(data: StudyData, arm: str) -> dict[str, str]:
    """All that a run recorded of an arm's first boot, and what the arm declares, as text by dotted name."""
    boot = next((each for each in data.boots if each.arm == arm and each.facts is not None), None)
    settings = next((each for each in data.arms if each.name == arm), None)
    told: dict[str, str] = {}
    if settings is not None:
        plain = {name: value for name, value in asdict(settings).items() if name not in ("name", "env")}
        told |= flat(plain, "declared.")
    if boot is not None:
        told |= _of_boot(boot)
    return {name: text for name, text in told.items() if name.rpartition(".")[2] not in PASSING}


def _of_boot(boot: BootRow) -> dict[str, str]:
    recorded = {name: boot.provenance[name] for name in RECORDED if name in boot.provenance}
    told = flat(recorded)
    if boot.facts is not None:
        told["engine"] = f"{boot.facts.engine} {boot.facts.engine_version or ''}".strip()
        told |= flat(settings_told(boot.facts), "resolved.")
    return told
