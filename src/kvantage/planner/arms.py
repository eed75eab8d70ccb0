"""Arms as a command line names them: `none`, `mtp:3:fp8`, `dflash:DRAFT:5:fp8`, `ngram:5`."""

from __future__ import annotations

import re
from typing import get_args

from kvantage.core import Method, Speculation, UsageError
from kvantage.planner.checkpoint import read_checkpoint
from kvantage.planner.drafts import Drafter, drafter_of
from kvantage.planner.dtypes import kv_dtype

METHODS: tuple[Method, ...] = get_args(Method)
DRAFTS = {"mtp": 3, "ngram": 5, "eagle3": 3, "draft_model": 4}
"""Drafts a step where an arm does not say; a block drafter uses its whole block."""
FORM = "METHOD[:DRAFT][:K][:KV-DTYPE], such as none, mtp:3, dflash:./drafter:5:fp8"


def parse_arms(text: str) -> list[tuple[str, Speculation, Drafter | None]]:
    """(name, speculation, drafter) of each arm of a list with commas. Raises UsageError."""
    found: list[tuple[str, Speculation, Drafter | None]] = []
    for part in (piece.strip() for piece in text.split(",")):
        if not part:
            raise UsageError(f"an arm is empty in `{text}`; an arm is {FORM}")
        speculation, drafter = parse_arm(part)
        name = arm_name(speculation)
        if any(name == other for other, _, _ in found):
            name = f"{name}-{sum(other.startswith(name) for other, _, _ in found) + 1}"
        found.append((name, speculation, drafter))
    return found


def parse_arm(text: str) -> tuple[Speculation, Drafter | None]:
    """One arm; its drafter is read, since its block may say how many drafts a step makes."""
    method, *rest = text.split(":")
    method = method.strip().replace("-", "_").lower()
    aliases: dict[str, Method] = {"eagle": "eagle3", "nextn": "mtp", "draft": "draft_model", "off": "none"}
    chosen = aliases.get(method) or next((known for known in METHODS if known == method), None)
    if chosen is None:
        raise UsageError(f"`{method}` is not a way of drafting; known are {', '.join(METHODS)}: {FORM}")
    dtype = rest.pop() if rest and _is_dtype(rest[-1]) else None
    drafts = int(rest.pop()) if rest and rest[-1].isdigit() else None
    draft = ":".join(rest) or None
    if chosen == "none":
        if dtype or drafts or draft:
            raise UsageError(
                f"`{text}`: an arm without speculation takes no drafter, drafts or draft KV dtype"
            )
        return Speculation(), None
    if chosen in ("mtp", "ngram") and draft:
        raise UsageError(f"`{text}`: {chosen} has no separate drafter: {FORM}")
    if chosen not in ("mtp", "ngram") and not draft:
        raise UsageError(f"`{text}`: {chosen} needs a drafter: {FORM}")
    drafter = drafter_of(read_checkpoint(draft)) if draft else None
    if drafts is None:
        drafts = (drafter.max_drafts if drafter else None) or DRAFTS.get(chosen)
    name = kv_dtype(dtype).name if dtype else None
    try:
        return Speculation(chosen, drafts, draft, draft_kv_dtype=name), drafter
    except ValueError as error:
        raise UsageError(f"`{text}`: {error}") from None


def arm_name(speculation: Speculation) -> str:
    """`none`, `mtp-3`, `dflash-5-fp8`."""
    parts: list[str] = [speculation.method]
    if speculation.drafts:
        parts.append(str(speculation.drafts))
    if speculation.draft_kv_dtype:
        parts.append(re.sub(r"_e\dm\d$", "", speculation.draft_kv_dtype))
    return "-".join(parts)


def _is_dtype(text: str) -> bool:
    try:
        kv_dtype(text)
    except UsageError:
        return False
    return True
