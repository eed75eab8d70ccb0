"""A minute on a running server: on the miniature in two engines' words, and on one that tells nothing."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from kvantage import cli
from kvantage.engines.openai.advice import Lacks, advice
from kvantage.hosts.local import LocalHost
from kvantage.runner.seen import Seen, see
from tests.runner.standin import SERVER
from tests.runner.test_attached import serving, simulated


def probed(url: str, capsys: Any, *more: str) -> str:
    assert cli.invoke(["probe", url, *more]) == 0
    return str(capsys.readouterr().out)


@pytest.mark.parametrize(("like", "method"), [("sglang", "mtp"), ("vllm", "ngram")])
def test_a_server_that_drafts(like: str, method: str, capsys: Any) -> None:
    with simulated(like, method) as url:
        told = json.loads(probed(url, capsys, "--json"))
    assert told["engine"] == like
    assert told["speculation"]["drafting"] is True
    assert told["speculation"]["method"] == method
    assert told["speculation"]["drafts"] == {"mtp": 3, "ngram": 4}[method]
    assert told["acceptance_length"]["code"]["source"] == "request"
    assert told["acceptance_length"]["code"]["value"] > 1.5
    assert told["readings"]["effective_max_running"]["value"] == 4
    assert told["readings"]["kv_pool_tokens"]["value"] > 0
    assert told["reports_cached_tokens"] is told["repeat_hits"] is True
    assert [one["kind"] for one in told["probes"]] == ["arithmetic", "json", "tool", "image"]
    assert told["warnings"] == []


def test_a_server_that_does_not(capsys: Any) -> None:
    with simulated("sglang", "none") as url:
        told = probed(f"{url}/v1", capsys)
    assert re.search(r"^  speculation +off$", told, re.MULTILINE)
    assert "acceptance" not in told


def test_made_up_acceptance_is_refused_or_marked(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a server says it of itself: the miniature, with that put into its mouth."""

    async def faked(url: str, key_env: str | None, lines: list[str]) -> Seen:
        seen = await see(url, key_env, lines)
        speculation = {**seen.facts.speculation, "simulated": "SIMULATE_ACC_LEN=3"}
        return replace(seen, facts=replace(seen.facts, speculation=speculation))

    monkeypatch.setattr("kvantage.runner.probe.see", faked)
    with simulated("sglang", "mtp") as url:
        assert cli.invoke(["probe", url]) == 2
        assert "simulated or lossy (SIMULATE_ACC_LEN=3)" in capsys.readouterr().err
        told = probed(url, capsys, "--allow-simulated")
        data = json.loads(probed(url, capsys, "--allow-simulated", "--json"))
    assert "SIMULATED: acceptance is made up (SIMULATE_ACC_LEN=3)" in told
    assert re.search(r"^  acceptance, code +\d.\d\d tokens/step \(simulated\)", told, re.MULTILINE)
    assert data["simulated"] == "SIMULATE_ACC_LEN=3"
    assert data["acceptance_length"]["prose"]["source"] == "simulated"


def test_one_that_is_not_known(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It needs a key, tells no pool and no counter, and refuses images."""
    port = LocalHost().free_port()
    monkeypatch.setenv("MY_KEY", "hunter2-hunter2")
    argv = [str(SERVER), str(port), json.dumps({"key": "hunter2-hunter2"})]
    with serving(argv, f"http://127.0.0.1:{port}") as url:
        told = probed(url, capsys, "--key-env", "MY_KEY")
        assert cli.invoke(["probe", url]) == 2
    assert "an engine that is not recognised" in told
    assert "not told" in told
    assert re.search(r"^  probe, image +not supported \(.*this is not a multimodal model", told, re.MULTILINE)
    assert "no /metrics" in told
    assert "hunter2" not in told
    assert "lists no model" in capsys.readouterr().err


def test_a_log_that_is_not_there(capsys: Any) -> None:
    assert cli.invoke(["probe", "http://127.0.0.1:9", "--logs", "./nowhere.log"]) == 2
    assert "there is no file" in capsys.readouterr().err


def test_advice_is_in_the_engines_own_words() -> None:
    lacks = Lacks(
        metrics=True, settings=True, cached_tokens=True, repeat_hits=False, drafts=True, per_request=True
    )
    for engine, flags in {
        "sglang": ("--enable-metrics", "--enable-cache-report", "--disable-radix-cache"),
        "vllm": ("--enable-prompt-tokens-details", "--enable-prefix-caching", "VLLM_SERVER_DEV_MODE=1"),
        "llamacpp": ("--metrics", "--no-cache-prompt", "--slots"),
    }.items():
        told = "\n".join(advice(engine, lacks, {}))
        assert [flag for flag in flags if flag not in told] == []
    full = Lacks(
        metrics=False, settings=False, cached_tokens=False, repeat_hits=True, drafts=True, per_request=False
    )
    assert advice("vllm", full, {}) == ()
    assert "--decode-log-interval 1" in advice("sglang", full, {"decode_log_interval": 40})[0]
