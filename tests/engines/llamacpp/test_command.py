"""Every arm's command, against the flags of the builds' own help."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from kvantage.core import ArmSettings, HostFacts, ServerSettings, Speculation
from kvantage.engines import engine_named
from kvantage.engines.llamacpp import Llamacpp, command
from kvantage.engines.llamacpp.help import Abilities, read_help
from tests.engines.cases import capture

HOST = HostFacts("here", "CPU", 2, 1 << 34)
BUILDS = ("b10434", "b11434")
SETTINGS = ServerSettings(
    max_running_requests=4, context_length=8192, kv_dtype="q8_0", chunked_prefill=1024, prefix_caching=True
)
ARMS = {
    "none": Speculation(),
    "ngram": Speculation("ngram", 8),
    "draft_model": Speculation("draft_model", 4, "draft.gguf", draft_kv_dtype="q8_0"),
    "eagle3": Speculation("eagle3", 3, "draft.gguf"),
    "mtp": Speculation("mtp", 3),
    "dflash": Speculation("dflash", 7, "draft.gguf"),
}


def abilities(build: str) -> Abilities:
    return read_help(capture(f"llamacpp-{build}/help_{build}.txt"))


def arm(speculation: Speculation | None = None, **changes: Any) -> ArmSettings:
    options = {"settings": SETTINGS, **changes}
    return ArmSettings("arm", "llamacpp", "model.gguf", speculation=speculation or Speculation(), **options)


@pytest.mark.parametrize("build", BUILDS)
def test_the_help_is_read(build: str) -> None:
    able = abilities(build)
    assert {"--ctx-size", "-c", "-kvu", "--no-kv-unified", "--fit", "--spec-draft-n-max"} <= able.flags
    assert not {"--draft-max", "--draft", "--spec-ngram-size-n"} & able.flags
    assert ("--spec-synth-len" in able.flags) is (build == "b11434")
    assert {"draft-simple", "draft-dflash", "ngram-map-k"} <= able.types


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("method", ARMS)
def test_every_flag_is_one_of_the_builds_own(
    method: str, build: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    able = abilities(build)
    monkeypatch.setattr(command, "abilities_of", lambda server: able)
    launch = Llamacpp().command(arm(ARMS[method]), HOST, 8080)
    flags = [word for word in launch.argv if word.startswith("--")]
    assert set(flags) <= able.flags
    assert len(flags) == len(set(flags))
    words = dict(zip(launch.argv, launch.argv[1:], strict=False))
    assert words["--ctx-size"] == str(4 * 8192)
    assert words["--parallel"] == "4"
    assert words["--fit"] == "off"
    assert ("--spec-type" in words) is (method != "none")
    if method in ("draft_model", "eagle3", "mtp", "dflash"):
        assert words["--spec-draft-n-max"] == str(ARMS[method].drafts)
    if method == "ngram":
        assert words["--spec-ngram-map-k-size-m"] == "8"


def test_a_shared_pool() -> None:
    settings = ServerSettings(max_running_requests=4, context_length=8192, pool_tokens=16384)
    argv = Llamacpp().command(arm(settings=settings), HOST, 1).argv
    assert "--kv-unified" in argv
    assert argv[argv.index("--ctx-size") + 1] == "16384"
    roomy = dataclasses.replace(settings, pool_tokens=65536)
    assert "--no-kv-unified" in Llamacpp().command(arm(settings=roomy), HOST, 1).argv


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"settings": ServerSettings(memory_fraction=0.5)}, ("memory_fraction", "pool_tokens")),
        ({"settings": ServerSettings(page_size=16)}, ("page_size", "no pages")),
        ({"settings": ServerSettings(kv_dtype="fp8")}, ("kv_dtype", "q8_0")),
        ({"settings": ServerSettings(tensor_parallel_size=2)}, ("tensor_parallel_size", "one device")),
        (
            {"settings": ServerSettings(context_length=9, pool_tokens=8)},
            ("context_length: 9", "`pool_tokens` holds: 8"),
        ),
        ({"flags": {"port": 1}}, ("port", "set by kvantage")),
        ({"flags": {"-c": 1}}, ("-c", "both set")),
        ({"flags": {"spec-synth-len": 3}}, ("spec-synth-len", "makes acceptance up")),
        (
            {"env": {"LLAMA_ARG_SPEC_SYNTH_RATES": "0.5"}},
            ("LLAMA_ARG_SPEC_SYNTH_RATES", "makes acceptance up"),
        ),
        ({"engine_options": {"sever": "x"}}, ("sever", "did you mean `server`?")),
        (
            {"speculation": Speculation("draft_model", 3, "/nowhere.gguf")},
            ("/nowhere.gguf", "without a drafter"),
        ),
        (
            {"speculation": Speculation("ngram", 3, options={"type": "ngram-mapk"})},
            ("ngram-mapk", "ngram-map-k"),
        ),
    ],
)
def test_what_cannot_be_started_is_refused_with_what_would_work(change: dict, words: tuple[str, ...]) -> None:
    problems = Llamacpp().problems(dataclasses.replace(arm(), **change), HOST)
    assert any(all(word in problem for word in words) for problem in problems), problems


def test_a_type_that_the_build_has_not(monkeypatch: pytest.MonkeyPatch) -> None:
    able = Abilities(frozenset({"--spec-type"}), frozenset({"none", "draft-simple"}))
    monkeypatch.setattr(command, "abilities_of", lambda server: able)
    problems = Llamacpp().problems(arm(ARMS["dflash"]), HOST)
    assert any("no `draft-dflash`" in problem and "draft-simple" in problem for problem in problems)


def test_the_only_file_of_a_folder_is_the_model(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").touch()
    wanted = dataclasses.replace(arm(), model=str(tmp_path))
    assert str(tmp_path / "model.gguf") in Llamacpp().command(wanted, HOST, 1).argv
    (tmp_path / "other.gguf").touch()
    assert any("2 GGUF files" in problem for problem in Llamacpp().problems(wanted, HOST))
    hub = dataclasses.replace(arm(), model="owner/name-GGUF:Q8_0")
    assert "--hf-repo" in Llamacpp().command(hub, HOST, 1).argv


def test_it_is_registered() -> None:
    assert engine_named("llamacpp").name == "llamacpp"
