"""`kvantage measure URL`: one arm of a study, on a server that runs now."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from kvantage.cli.measure import measure
from kvantage.hosts.local import LocalHost
from kvantage.ledger import FILE, read_study
from kvantage.runner import Selection, prepare
from kvantage.runner.seen import Seen, recognised, see
from kvantage.study import Study, load_study
from kvantage.study.study import ATTACHED

DOCUMENT_TOKENS = 8000
LEAST_DOCUMENT_TOKENS = 1000
OUTPUT_TOKENS = 256
AT_ONCE = (1, 2)


@click.command(short_help="Measure one arm on a server that runs already.")
@click.argument("url")
@click.option("--as", "name", required=True, metavar="ARM", help="The arm that this server is.")
@click.option(
    "--into", required=True, type=click.Path(path_type=Path), help="Where the arms' results come together."
)
@click.option("--study", type=click.Path(path_type=Path), help="The study; else a small one, said first.")
@click.option("--key-env", metavar="NAME", help="The environment variable that holds the server's key.")
@click.option(
    "--logs", multiple=True, metavar="FILE|COMMAND", help="Its log: a file, or a command that follows."
)
@click.option("--allow-simulated", is_flag=True, help="Measure made-up acceptance, and mark all of it.")
@click.option("--plain", is_flag=True, help="Plain lines instead of a live view.")
def command(
    url: str,
    name: str,
    into: Path,
    study: Path | None,
    key_env: str | None,
    logs: tuple[str, ...],
    allow_simulated: bool,
    plain: bool,
) -> int:
    """Measure one arm on a server that runs already: one arm an evening, one report of all.

    The server is never flushed, restarted or reconfigured, and gets no more requests at once than the study
    says. What the arm is, is what the server says of itself; cells with somebody else's requests in them
    are void. Call it again for the next arm, with the same --into.

    \b
      kvantage measure http://spark1:30000 --as none --into runs/spark
      kvantage measure http://spark1:30000 --as mtp --into runs/spark
    """
    before = read_study(into).study if (into / FILE).exists() else None
    attached = {"url": url, "logs": list(logs)} | ({"key_env": key_env} if key_env else {})
    if study is None:
        seen = asyncio.run(see(url.rstrip("/").removesuffix("/v1"), key_env))
        asked = with_arm(dict(before) if before else small_study(seen), name, attached)
    else:
        asked = with_arm(load_study(study).to_json(), name, attached)
        asked = with_earlier(asked, before or {}, name)
    made = Study.from_json(asked)
    made = asyncio.run(recognised(made.allowing_simulated() if allow_simulated else made, [name]))
    if study is None:
        made = Study.from_json({**made.to_json(), "control": control_of(made)})
    prepared = prepare(made, LocalHost(), Selection((name,), alone=True))
    return measure(prepared, into, resume=before is not None, plain=plain)


def small_study(seen: Seen) -> dict[str, Any]:
    """A study without arms that suits the server: documents of at most half its context, two at once."""
    context = seen.facts.reading("context_length").value or 2 * LEAST_DOCUMENT_TOKENS
    running = seen.facts.reading("effective_max_running").value or max(AT_ONCE)
    document = int(min(DOCUMENT_TOKENS, max(LEAST_DOCUMENT_TOKENS, context // 2 - OUTPUT_TOKENS)))
    return {
        "model": seen.model,
        "engine": seen.told.engine or ATTACHED,
        "phases": {
            "probes": {"output_tokens": OUTPUT_TOKENS},
            "short": {"output_tokens": OUTPUT_TOKENS},
            "cold": {
                "document_tokens": document,
                "concurrency": [one for one in AT_ONCE if one <= max(1, running)],
                "output_tokens": OUTPUT_TOKENS,
            },
            "repeat": {"output_tokens": OUTPUT_TOKENS},
        },
    }


def with_arm(study: Mapping[str, Any], name: str, attached: Mapping[str, Any]) -> dict[str, Any]:
    """The study with that arm attached; an arm that it does not have yet is what the server says."""
    arms = {**study.get("arms", {})}
    arms[name] = {**arms.get(name, {})}
    if name in study.get("attach", {}):  # an earlier look at it: this one says anew what it is
        arms[name].pop("speculation", None)
    attach = {**study.get("attach", {}), name: dict(attached)}
    return {**study, "arms": arms, "attach": attach, "control": study.get("control") or _control(name)}


def with_earlier(study: Mapping[str, Any], before: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The study with the arms that were attached on other evenings as they were then."""
    arms, attach = {**study["arms"]}, {**study["attach"]}
    for other, where in before.get("attach", {}).items():
        if other != name and other in arms:
            attach[other] = where
            arms[other] = {**arms[other], "speculation": before["arms"][other].get("speculation", "none")}
    return {**study, "arms": arms, "attach": attach}


def control_of(study: Study) -> dict[str, Any]:
    """The arm to compare with: one that does not speculate, else the first until there is one."""
    plain = [name for name, arm in study.arms.items() if arm.speculation.method == "none"]
    return {"arm": plain[0]} if plain else _control(next(iter(study.arms)))


def _control(name: str) -> dict[str, Any]:
    return {"arm": name, "speculates": True}
