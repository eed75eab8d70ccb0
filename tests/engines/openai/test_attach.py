"""Attaching to servers that somebody else started: who they are, what they tell, and what is left alone."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from kvantage.core import ArmFailed, ArmSettings, HostFacts, Server, Speculation, UsageError
from kvantage.engines import engine_named
from kvantage.engines.openai import OpenAi
from kvantage.engines.openai.attached import look_at, told
from kvantage.engines.openai.facts import facts
from tests.engines.cases import capture, case
from tests.engines.sglang.test_facts import INFO, METRICS

ENGINE = OpenAi()
HOST = HostFacts("here", "CPU", 2, 1 << 34)
REPLY = {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 8}}

SERVERS: dict[str, dict[str, Any]] = {
    "sglang": {
        "/v1/models": {"object": "list", "data": [{"id": "m", "owned_by": "sglang"}]},
        "/server_info": INFO,
        "/metrics": METRICS + "\n",
    },
    "llamacpp": {
        "/v1/models": {"object": "list", "data": [{"id": "m", "owned_by": "llamacpp"}]},
        "/props": json.loads(capture("llamacpp-b10434/draft-self_props.txt")),
        "/slots": json.loads(capture("llamacpp-b10434/draft-self_slots.txt")),
        "/metrics": capture("llamacpp-b10434/draft-self_metrics.txt"),
    },
    "vllm": {
        "/v1/models": {"object": "list", "data": [{"id": "tiny", "owned_by": "vllm"}]},
        "/version": {"version": "0.32.0"},
        "/metrics": capture("vllm-0.32-cpu/b_ngram.metrics1.txt"),
    },
    "unknown": {"/v1/models": {"object": "list", "data": [{"id": "m", "owned_by": "organization"}]}},
}


class _Stand:
    """A server that answers from a table, and remembers what it was asked."""

    def __init__(self, table: Mapping[str, Any], key: str | None = None) -> None:
        self.asked: list[str] = []
        stand = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                stand.asked.append(f"{self.command} {self.path}")
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if key is not None and self.headers.get("Authorization") != f"Bearer {key}":
                    status, body = 401, b"{}"
                elif self.path == "/v1/chat/completions":
                    status, body = 200, json.dumps(REPLY).encode()
                elif self.path in table:
                    value = table[self.path]
                    status, body = 200, (value if isinstance(value, str) else json.dumps(value)).encode()
                else:
                    status, body = 404, b"{}"
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = answer  # noqa: N815

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(params=SERVERS)
def stand(request: pytest.FixtureRequest) -> Iterator[tuple[str, _Stand]]:
    made = _Stand(SERVERS[request.param])
    yield request.param, made
    made.close()


def attached(url: str, **options: Any) -> Server:
    arm = ArmSettings("arm", "openai", "m", engine_options={"url": url, **options})
    return Server(arm, url, "m")


async def test_the_engine_behind_an_address_is_recognised(stand: tuple[str, _Stand]) -> None:
    name, server = stand
    seen = await look_at(server.url)
    assert (seen.engine or "unknown") == name
    assert seen.models
    versions = {"sglang": "0.5.23", "llamacpp": "b1-7e4c0a9", "vllm": "0.32.0"}
    assert seen.version == versions.get(name)


async def test_facts_and_counters_are_the_engines_own(stand: tuple[str, _Stand]) -> None:
    name, server = stand
    facts = await ENGINE.facts(attached(server.url))
    counters = (await ENGINE.counters(attached(server.url))).counters
    if name == "unknown":
        assert facts.engine == "openai"
        assert not facts.reading("kv_pool_tokens").known
        assert any("not recognised" in warning for warning in facts.warnings)
        assert counters == {}
        return
    assert facts.engine == name
    pools = {"sglang": 8269504, "llamacpp": 8192, "vllm": 524288}
    assert facts.reading("kv_pool_tokens").value == pools[name]
    assert counters["drafts"] == {"sglang": 20, "llamacpp": 41, "vllm": 1760}[name]
    assert (await ENGINE.gauges(attached(server.url)))["running"] >= 0


async def test_it_is_proven_and_left_alone(stand: tuple[str, _Stand]) -> None:
    _, server = stand
    await ENGINE.ready(attached(server.url), 5)
    assert not (await ENGINE.flush_cache(attached(server.url))).believed
    assert [line for line in server.asked if line.startswith("POST")] == ["POST /v1/chat/completions"]


async def test_a_key_comes_from_the_environment_and_is_kept_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    server = _Stand(SERVERS["sglang"], key="s3cret")
    try:
        monkeypatch.setenv("MY_KEY", "s3cret")
        there = attached(server.url, key_env="MY_KEY")
        await ENGINE.ready(there, 5)
        facts = await ENGINE.facts(there)
        assert facts.engine == "sglang"
        assert "s3cret" not in repr(facts) + repr(there)
        assert (await ENGINE.gauges(there))["running"] >= 0
        assert ENGINE.request_headers(there) == {"Authorization": "Bearer s3cret"}
        monkeypatch.setenv("MY_KEY", "wrong")
        with pytest.raises(ArmFailed, match="refuses the key"):
            await ENGINE.ready(there, 5)
        monkeypatch.delenv("MY_KEY")
        with pytest.raises(UsageError, match="MY_KEY"):
            await ENGINE.facts(there)
    finally:
        server.close()


async def test_nothing_listens_there() -> None:
    with pytest.raises(ArmFailed, match="does not serve within 0 s"):
        await ENGINE.ready(attached("http://127.0.0.1:9"), 0)


def test_what_is_wrong_is_said_before_anything_is_asked() -> None:
    def problems(**options: Any) -> str:
        return " ".join(ENGINE.problems(ArmSettings("a", "openai", "m", engine_options=options), HOST))

    assert problems(url="http://h:1") == ""
    assert "needs its address" in problems()
    assert "did you mean `url`?" in problems(ulr="http://h:1")
    assert "NO_SUCH_KEY" in problems(url="http://h:1", key_env="NO_SUCH_KEY")
    assert "did you mean `sglang`?" in problems(url="http://h:1", behind="sglan")
    with pytest.raises(UsageError, match="starts no server"):
        ENGINE.command(ArmSettings("a", "openai", "m"), HOST, 1)


def test_a_server_that_speculates_unasked_is_said() -> None:
    from kvantage.engines.openai.facts import facts

    seen = told(None, None, INFO, None, None, "")
    found = facts(ArmSettings("none", "openai", "m"), seen)
    assert any("the server speculates (EAGLE)" in warning for warning in found.warnings)
    asked = facts(ArmSettings("mtp", "openai", "m", speculation=Speculation("mtp", 3)), seen)
    assert not any("though the arm" in warning for warning in asked.warnings)


def test_usage_and_logs_by_what_stands_in_them() -> None:
    given, _ = case("sglext-spec-details")
    assert ENGINE.read_usage(given).spec_steps == 43
    given, _ = case("vllm-per-request-spec-metrics")
    assert ENGINE.read_usage(given).spec_steps == 43
    assert ENGINE.read_usage({"timings": {"draft_n": 4, "draft_n_accepted": 3}}).drafted_tokens == 4
    assert ENGINE.read_usage(REPLY).output_tokens == 8
    assert ENGINE.read_log(case("sglang-decode-gdn")[0].split("\n")).windows
    assert ENGINE.read_log(["nothing known"]).readings == {}


def test_extras_are_plain_unless_the_engine_is_named() -> None:
    plain = ENGINE.request_extras(attached("http://h:1"), output_tokens=5)
    assert plain == {"stream_options": {"include_usage": True}, "max_tokens": 5}
    named = ENGINE.request_extras(attached("http://h:1", behind="sglang"), output_tokens=5)
    assert named["ignore_eos"] is True
    assert engine_named("openai").name == "openai"


@pytest.mark.parametrize(
    ("engine", "log", "words"),
    [
        ("llamacpp", "llamacpp-b10434/srv_draft-self.log", ("kv_pool_bytes", "draft_kv_pool_bytes")),
        ("vllm", "vllm-0.32-cpu/b_ngram.log", ("kv_pool_bytes", "boot_s")),
        ("sglang", "sglang-0.5.17-h200/s-dflash-bf16.log", ("draft_kv_pool_bytes", "weights_bytes")),
    ],
)
def test_a_log_tells_what_addresses_do_not(engine: str, log: str, words: tuple[str, ...]) -> None:
    table = {path.strip("/").rpartition("/")[2]: one for path, one in SERVERS[engine].items()}
    names = ("models", "version", "server_info", "props", "slots")
    seen = told(*(table.get(name) for name in names), table["metrics"])
    arm = ArmSettings("m", "openai", "m")
    without = facts(arm, seen)
    assert not all(without.reading(word).known for word in words)
    found = facts(arm, seen, capture(log).split("\n"))
    assert [word for word in words if not found.reading(word).known] == []
    assert found.speculation
    assert found.reading("kv_pool_tokens").known
