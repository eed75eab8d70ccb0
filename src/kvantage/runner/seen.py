"""What a running server says that it is, read before anything is measured: an arm is what is served."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from kvantage.core import ArmSettings, Facts, Method, Server, Snapshot, Speculation, UsageError
from kvantage.engines import engine_named
from kvantage.engines.http import ask
from kvantage.engines.openai.attached import Attached, look_at
from kvantage.engines.openai.facts import facts
from kvantage.engines.simulated import refusal
from kvantage.hosts.follow import KEPT_BYTES, is_file
from kvantage.runner.way import study_folder
from kvantage.study import Arm, Attach, Drafter, Study
from kvantage.study.study import ATTACHED

METHODS: tuple[Method, ...] = get_args(Method)
NEEDS_DRAFT: tuple[Method, ...] = ("draft_model", "eagle3", "dflash")

_VOLATILE = re.compile(
    r"(port|seed|pid|time|stamp|throughput|usage|status|accept_l|launch|_id|_tokens|capacity|num_gpu_blocks)",
    re.IGNORECASE,
)
"""Resolved settings that may differ between two looks at one server, or two starts of it."""


@dataclass(frozen=True)
class Seen:
    """One look at a server. `drafts` is None where it does not tell whether it speculates."""

    url: str
    told: Attached
    facts: Facts
    counters: Snapshot
    drafts: bool | None
    method: Method | None
    width: int | None
    drafter: str | None

    @property
    def model(self) -> str:
        """The first model that it lists."""
        return self.told.models[0] if self.told.models else ""

    def digest(self) -> str:
        """A hash of what it says that it is; the same at each look, and for another start of the same."""
        resolved = {
            name: value
            for name, value in self.facts.resolved.items()
            if not _VOLATILE.search(name) and isinstance(value, str | bool | int | float | None)
        }
        what = [self.told.engine, self.told.version, self.told.models, dict(self.facts.speculation), resolved]
        text = json.dumps(what, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


async def see(url: str, key_env: str | None = None, lines: Sequence[str] = ()) -> Seen:
    """Ask it politely: a few GETs; its log's `lines` tell more. Raises UsageError where nothing serves."""
    key = os.environ.get(key_env) if key_env else None
    if key_env and not key:
        raise UsageError(f"the environment variable {key_env}, which should hold the key, is not set")
    told = await look_at(url, key)
    if not told.models:
        raise UsageError(
            f"{url} lists no model: nothing serves there, or it refuses the key",
            hint="is the address right? A key is read from the variable that `key_env` (--key-env) names",
        )
    options = {"url": url} | ({"key_env": key_env} if key_env else {})
    arm = ArmSettings("seen", ATTACHED, told.models[0], engine_options=options)
    found = facts(arm, told, lines)
    if found.speculation:  # what it says is what is asked of it: no warning that it differs
        method, draft = method_of(found.speculation, _target(told)) or "ngram", "not told"
        needs = draft if method in NEEDS_DRAFT else None
        found = facts(replace(arm, speculation=Speculation(method, 1, needs)), told, lines)
    engine, server = engine_named(ATTACHED), Server(arm, url, told.models[0])
    counters = await engine.counters(server) if told.metrics else Snapshot(0)
    drafts = _drafts(told, found, counters)
    if drafts is None and told.engine is not None and told.metrics:
        await _provoke(server, key)
        counters = await engine.counters(server)
        drafts = bool(counters.counters.get("drafts"))
    speculation = found.speculation
    width = speculation.get("num_speculative_tokens") or len(counters.accepted_per_position or ()) or None
    return Seen(
        url=url,
        told=told,
        facts=found,
        counters=counters,
        drafts=drafts,
        method=method_of(speculation, _target(told)),
        width=int(width) if width else None,
        drafter=_text(speculation.get("draft_model_path") or speculation.get("model")),
    )


async def _provoke(server: Server, key: str | None) -> None:
    """One small request that any drafter drafts for; what comes of it is told by the counters."""
    body = {
        "model": server.served_name,
        "messages": [{"role": "user", "content": f"Repeat this line: {'one two three four ' * 8}"}],
        "max_tokens": 32,
        "temperature": 0.0,
    }
    with suppress(OSError):
        await ask(f"{server.url}/v1/chat/completions", body=body, timeout_s=60, key=key)


def _target(told: Attached) -> str:
    return str(told.info.get("model_path") or "")


def _drafts(told: Attached, found: Facts, counters: Snapshot) -> bool | None:
    """Whether it speculates. A counter of drafts that is not there yet says nothing."""
    if found.speculation or counters.counters.get("drafts"):
        return True
    if told.info or told.slots:
        return False
    return None


def method_of(speculation: Mapping[str, Any], target: str = "") -> Method | None:
    """An engine's own word for how it drafts, as one of ours; None for one that is not told or not known.

    EAGLE with the model itself (`target`) as its drafter is the model's own prediction head.
    """
    word = str(speculation.get("method") or "").lower()
    own = speculation.get("draft_model_path") in (None, "", target)
    words: tuple[tuple[str, Method], ...] = (
        ("ngram", "ngram"),
        ("dflash", "dflash"),
        ("mtp", "mtp"),
        ("nextn", "mtp"),
        ("eagle3", "eagle3"),
        ("standalone", "draft_model"),
        ("draft-simple", "draft_model"),
        ("draft_model", "draft_model"),
        ("eagle", "mtp" if own else "eagle3"),
    )
    return next((method for part, method in words if part in word), None)


def _text(value: object) -> str | None:
    return str(value) if value else None


async def recognised(study: Study, names: Collection[str] | None = None) -> Study:
    """The study with each attached arm (of `names`) as its server says that it is.

    Raises UsageError where a server is not what its arm declares, or does not tell how it drafts.
    """
    arms, attach = dict(study.arms), dict(study.attach)
    engine = study.engine
    for name, attached in study.attach.items():
        if names is not None and name not in names:
            continue
        seen = await see(attached.url, attached.key_env, lines_of(attached.logs, study_folder(study)))
        if engine.name == ATTACHED and seen.told.engine:
            engine = engine.model_copy(update={"name": seen.told.engine})
        elif seen.told.engine not in (None, engine.name):
            raise UsageError(
                f"{attached.url} is {seen.told.engine}, and the study's engine is {engine.name}",
                where=study.where("attach", name),
                hint="write `engine: openai` where it is all the same, or name the right address",
            )
        if why := refusal(study.arm_settings(name), seen.facts.speculation):
            raise UsageError(f"{attached.url}: {why}", where=study.where("attach", name))
        arms[name] = _as_seen(study, name, seen)
        attach[name] = Attach(**{**dict(attached), "served": seen.digest()})
    return study.model_copy(update={"arms": arms, "attach": attach, "engine": engine})


def lines_of(logs: Sequence[str], folder: Path) -> list[str]:
    """What the files among a server's logs hold by now. Commands are run when it is measured, not before."""
    lines: list[str] = []
    for source in filter(is_file, logs):
        with suppress(OSError), (folder / Path(source).expanduser()).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - KEPT_BYTES))
            lines += file.read().decode("utf-8", "replace").split("\n")
    return lines


def _as_seen(study: Study, name: str, seen: Seen) -> Arm:
    arm = study.arms[name]
    declared = arm.speculation
    where = study.where("arms", name)
    if declared.method != "none":
        if seen.drafts is False:
            message = f"arm `{name}` declares {declared.method}, and {seen.url} does not draft"
            raise UsageError(message, where=where)
        return arm
    if not seen.drafts:
        return arm
    if "speculation" in arm.model_fields_set:
        raise UsageError(
            f"arm `{name}` does not speculate, and {seen.url} does",
            where=where,
            hint="leave `speculation` out: the arm is what the server says",
        )
    method = seen.method or next((one for one in METHODS if one == name and one != "none"), None)
    if method is None:
        raise UsageError(
            f"{seen.url} drafts, and does not tell how",
            where=where,
            hint=f"declare it (`{name}: {{speculation: {{method: ..., drafts: k}}}}`), or call the arm `mtp`",
        )
    drafter = (seen.drafter or "not told") if method in NEEDS_DRAFT else None
    return arm.model_copy(
        update={"speculation": Drafter(method=method, drafts=seen.width or 1, draft=drafter)}
    )
