"""`kvantage probe URL`: a minute on a running server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from kvantage.core import Reading, UsageError
from kvantage.runner.probe import Probed, probe_server

WORDS = {
    "kv_pool_tokens": "KV pool",
    "kv_pool_bytes": "KV pool, bytes",
    "draft_kv_pool_bytes": "drafter's KV pool",
    "state_cache_bytes": "state cache",
    "kv_block_tokens": "block",
    "context_length": "longest request",
    "effective_max_running": "requests at once",
    "requested_max_running": "requests at once, asked",
}


@click.command(short_help="Say what a running server is, and what to change to measure it.")
@click.argument("url")
@click.option("--key-env", metavar="NAME", help="The environment variable that holds the server's key.")
@click.option("--logs", multiple=True, metavar="FILE", help="Its log, where it lies here: it tells more.")
@click.option("--allow-simulated", is_flag=True, help="Probe made-up acceptance, and mark all of it.")
@click.option("--json", "as_json", is_flag=True, help="As JSON: see docs/servers.md.")
def command(
    url: str, key_env: str | None, logs: tuple[str, ...], allow_simulated: bool, as_json: bool
) -> None:
    """Ask a running server for a minute, one request at a time, and change nothing of it.

    What it is; whether speculation is on and really drafts, and what of it is accepted on code and prose;
    its pool and how many requests it runs at once; whether it reports cached tokens and serves a repeat
    from its cache; a few questions with one right answer; and what to change in its flags.

    \b
      kvantage probe http://spark1:30000
    """
    address = url.rstrip("/").removesuffix("/v1")
    files = [str(Path(log).expanduser().absolute()) for log in logs]
    for path in filter(lambda file: not Path(file).is_file(), files):
        raise UsageError(f"there is no file {path}", hint="--logs takes the file that the server writes to")
    probed = asyncio.run(probe_server(address, key_env, logs=files, allow_simulated=allow_simulated))
    click.echo(json.dumps(to_json(probed), indent=2) if as_json else "\n".join(to_text(probed)))


def to_json(probed: Probed) -> dict[str, Any]:
    """Everything, as it is documented."""
    told = probed.seen.told
    return {
        "schema_version": "1.0",
        "url": probed.seen.url,
        "engine": told.engine,
        "engine_version": probed.seen.facts.engine_version or told.version,
        "recognised_by": told.evidence or None,
        "models": list(told.models),
        "simulated": probed.simulated,
        "speculation": {
            "drafting": probed.drafting,
            "words": probed.drafting_words,
            "method": probed.seen.method,
            "drafts": probed.seen.width,
            "as_served": dict(probed.seen.facts.speculation),
        },
        "acceptance_length": {name: one.to_json() for name, one in probed.acceptance.items()},
        "readings": {name: one.to_json() for name, one in probed.readings.items()},
        "reports_cached_tokens": probed.reports_cached,
        "repeat_cached_tokens": probed.repeat.to_json(),
        "repeat_hits": probed.repeat_hits,
        "probes": [
            {
                "kind": one.kind,
                "supported": one.supported,
                "passed": one.passed,
                "asked": one.asked,
                "why": one.why,
            }
            for one in probed.probes
        ],
        "warnings": list(probed.warnings),
        "advice": list(probed.advice),
        "seconds": round(probed.seconds, 1),
    }


def to_text(probed: Probed) -> Iterator[str]:
    """A line each."""
    told = probed.seen.told
    version = probed.seen.facts.engine_version or told.version
    engine = " ".join(word for word in (told.engine or "an engine that is not recognised", version) if word)
    yield f"{probed.seen.url}: {engine}{f' (by {told.evidence})' if told.evidence else ''}"
    if probed.simulated:
        yield f"SIMULATED: acceptance is made up ({probed.simulated}): nothing that follows from it is real"
    rows = [("model", ", ".join(told.models)), ("speculation", probed.drafting_words)]
    if probed.drafting is not False:
        rows += [(f"acceptance, {name}", _said(one, 2)) for name, one in probed.acceptance.items()]
    rows += [
        (WORDS[name], _said(one))
        for name, one in probed.readings.items()
        if one.known or name in ("kv_pool_tokens", "effective_max_running")
    ]
    rows += [("reports cached tokens", "yes" if probed.reports_cached else "no")]
    hits = {True: "from the cache: ", False: "computed again: ", None: ""}[probed.repeat_hits]
    rows += [("a repeated prompt", hits + _said(probed.repeat))]
    for one in probed.probes:
        why = f" ({one.why[:120]})" if one.why else ""
        right = f"{one.passed} of {one.asked} right" if one.supported else "not supported"
        rows.append((f"probe, {one.kind}", f"{right}{why}"))
    width = max(len(name) for name, _ in rows)
    for name, text in rows:
        yield f"  {name:<{width}}  {text}"
    yield from (f"! {warning}" for warning in probed.warnings)
    if probed.advice:
        yield "to measure it, change its flags:"
        yield from (f"  {line}" for line in probed.advice)
    yield f"({probed.seconds:.0f} s, one request at a time; nothing was changed)"


def _said(reading: Reading, digits: int = 0) -> str:
    if reading.value is None:
        return f"- ({reading.missing})"
    if reading.unit == "bytes" and reading.value >= 1 << 20:
        number = f"{reading.value / (1 << 20):,.1f} MiB"
    else:
        number = f"{reading.value:,.{digits}f} {reading.unit}".rstrip()
    note = f"; {reading.note}" if reading.note else ""
    return f"{number} ({reading.source}{note})"
