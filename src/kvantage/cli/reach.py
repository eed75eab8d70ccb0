"""What `kvantage doctor STUDY` looks at beyond this machine: the study's servers, hosts and models."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from kvantage.cli.health import Finding
from kvantage.core import KvantageError, UsageError
from kvantage.hosts.local import LocalHost
from kvantage.runner import prepare
from kvantage.runner.remote import Remote
from kvantage.runner.seen import see
from kvantage.study import Study, load_study

WITHIN_S = 30.0


async def reach(target: str) -> list[Finding]:
    """What can be said of a study file or of a server's address. Starts nothing, changes nothing."""
    if target.startswith(("http://", "https://")):
        return [await _server("server", target.rstrip("/").removesuffix("/v1"), None)]
    return [finding async for finding in _study(Path(target))]


async def _study(path: Path) -> AsyncIterator[Finding]:
    try:
        study = load_study(path)
    except UsageError as error:
        yield Finding("study", "fault", str(error).replace("\n", "; "), "kvantage check says the same")
        return
    arms = len(study.arm_names)
    yield Finding("study", "ok", f"{path}: {arms} arms of {study.model.path} on {study.engine.name}")
    for name, attached in study.attach.items():
        yield await _server(f"arm {name}", attached.url, attached.key_env)
    async for finding in _hosts(study):
        yield finding
    if not study.attach:
        yield await asyncio.to_thread(_arms, study)


def _arms(study: Study) -> Finding:
    """Whether each arm can be started, by what its engine says of its own flags."""
    try:
        prepared = prepare(study, LocalHost(), interactive=True)
    except KvantageError as error:
        lines = [line.strip() for line in str(error).splitlines()]
        return Finding("its arms", "fault", "; ".join(lines), "mend the study, or the engine's environment")
    said = f"{len(prepared.arms)} can be started: kvantage run {study.path} --dry-run shows how"
    return Finding("its arms", "ok", said)


async def _server(what: str, url: str, key_env: str | None) -> Finding:
    try:
        async with asyncio.timeout(WITHIN_S):
            seen = await see(url, key_env)
    except KvantageError as error:
        return Finding(what, "fault", error.message, error.hint)
    except (OSError, TimeoutError) as error:
        return Finding(what, "fault", f"{url} cannot be reached: {error or 'no answer'}", "is it running?")
    told = seen.told
    engine = " ".join(
        word for word in (told.engine or "an engine that is not recognised", told.version) if word
    )
    drafting = {True: "drafts", False: "does not draft", None: "does not tell whether it drafts"}[seen.drafts]
    return Finding(what, "ok", f"{url}: {engine} serves {seen.model}, {drafting}")


async def _hosts(study: Study) -> AsyncIterator[Finding]:
    if not study.hosts:
        return
    remote = Remote(study.hosts)
    try:
        for host in remote.hosts:
            what = f"host {host.node.name}"
            try:
                async with asyncio.timeout(WITHIN_S):
                    facts = await host.facts()
                    await host.free_port()
            except KvantageError as error:
                yield Finding(what, "fault", error.message, error.hint)
            except (OSError, TimeoutError) as error:
                yield Finding(
                    what, "fault", f"it cannot be reached: {error or 'no answer'}", "ssh to it by hand"
                )
            else:
                devices = ", ".join(facts.details.get("devices", ())) or "no NVIDIA device told"
                memory = facts.memory_bytes / 2**30
                yield Finding(what, "ok", f"{facts.cpu}, {memory:.0f} GiB; {devices}; its python runs")
    finally:
        await remote.close()
