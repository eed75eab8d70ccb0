"""What the planner tells of a study before its first boot, written down before anything is measured."""

from __future__ import annotations

import asyncio

from kvantage.core import ArmFailed, HostFacts
from kvantage.ledger import Ledger
from kvantage.planner.detect import key_of
from kvantage.planner.foretell import foretell
from kvantage.planner.history import read_history
from kvantage.runner.prepared import Prepared

WITHIN_S = 30.0
"""A prediction takes well below a second, unless a config has to come over a network."""


async def write_predictions(prepared: Prepared, ledger: Ledger) -> None:
    """Keep a prediction of every arm. Where an arm has one already, that one counts."""
    hosts: dict[str, HostFacts] = {}
    for arm in prepared.arms:
        try:
            host = await prepared.way.facts(arm)
        except ArmFailed:  # out of reach: its boot will say so
            continue
        if host.cores:  # none where the machine under a server was not seen
            hosts[arm.settings.name] = host
    study = prepared.study
    first = next(iter(hosts.values()), None)
    machine = key_of(first) if first else None
    known = await asyncio.to_thread(read_history, machine) if machine else None
    try:
        async with asyncio.timeout(WITHIN_S):
            told = await asyncio.to_thread(foretell, study, hosts, known)
    except TimeoutError:
        told = {
            arm.name: {"missing": f"the model's config was not there within {WITHIN_S:g} s"}
            for arm in study.every_arm()
        }
    before = known.errors(study.engine.name) if known else {}
    for arm in prepared.arms:
        settings = arm.settings
        ledger.event(
            "prediction",
            arm=settings.name,
            fingerprint=settings.fingerprint(),
            machine=machine,
            prediction=told.get(settings.name, {"missing": "it is not among the study's arms"}),
            before=before,
        )
