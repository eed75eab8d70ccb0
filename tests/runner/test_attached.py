"""Servers that run already: what they are, what is left alone, and somebody else's requests in the middle."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml

import kvantage
from kvantage import cli
from kvantage.analysis import analyse
from kvantage.core import ArmSettings, ServerSettings, Speculation, StudyError, UsageError
from kvantage.hosts.local import LocalHost
from kvantage.ledger import Ledger, read_study
from kvantage.runner import Selection, prepare, run_study
from kvantage.runner.attached import confounded, swapped
from kvantage.runner.seen import method_of, recognised, see
from kvantage.study import Study, load_study
from tests.runner.standin import SERVER
from tests.runner.test_runner import Notes

NANO = Path(kvantage.__file__).parent / "nano"
SPECULATION = {"none": Speculation(), "mtp": Speculation("mtp", 3), "ngram": Speculation("ngram", 4)}
SHORT = {"prompts": {"code": "builtin"}, "warmup": 0, "repeats": 2, "output_tokens": 24}
PHASES = {"short": SHORT, "cold": {"document_tokens": 300, "concurrency": [1], "output_tokens": 24}}


@contextmanager
def serving(argv: list[str], url: str) -> Iterator[str]:
    """A server that somebody else started."""
    server = subprocess.Popen([sys.executable, *argv], stdout=subprocess.DEVNULL)
    try:
        for _ in range(400):
            try:
                urllib.request.urlopen(f"{url}/v1/models", timeout=1).close()
                break
            except urllib.error.HTTPError:
                break
            except OSError:
                assert server.poll() is None
                time.sleep(0.05)
        yield url
    finally:
        server.kill()
        server.wait()


@contextmanager
def simulated(like: str, method: str) -> Iterator[str]:
    """The miniature, which answers at every address that the engine has."""
    port = LocalHost().free_port()
    arm = ArmSettings(
        name="toy",
        engine="sim",
        model=str(NANO / ("mla" if method == "mtp" else "qwen3")),
        settings=ServerSettings(context_length=4096, max_running_requests=4),
        speculation=SPECULATION[method],
        engine_options={
            "like": like,
            "hardware": "cpu",
            "available_gib": 0.1,
            "acceptance": {"toy": {"code": 2.5}},
        },
    )
    argv = ["-m", "kvantage.sim", "--arm", json.dumps(asdict(arm)), "--port", str(port), "--speed", "20"]
    with serving(argv, f"http://127.0.0.1:{port}") as url:
        yield url


@pytest.fixture(scope="module")
def plain() -> Iterator[str]:
    with simulated("sglang", "none") as url:
        yield url


@pytest.fixture(scope="module")
def drafting() -> Iterator[str]:
    with simulated("sglang", "mtp") as url:
        yield url


def study_at(folder: Path, attach: dict[str, Any], **changes: Any) -> Study:
    arms = dict.fromkeys(attach)
    given = {"model": str(NANO / "qwen3"), "engine": "openai", "control": next(iter(attach)), "arms": arms}
    path = folder / "study.yaml"
    attach = {name: where for name, where in attach.items() if where}
    path.write_text(yaml.safe_dump({**given, "attach": attach, "phases": PHASES, **changes}, sort_keys=False))
    return load_study(path)


async def measured(study: Study, folder: Path, names: tuple[str, ...] | None = None) -> Notes:
    notes = Notes()
    prepared = prepare(study, LocalHost(), Selection(names, alone=names is not None))
    with Ledger.create(folder) as ledger:
        outcome = await run_study(prepared, ledger, notes)
    assert not outcome.failed, outcome.failed
    return notes


async def test_an_arm_is_what_its_server_says(plain: str, drafting: str, tmp_path: Path) -> None:
    study = await recognised(study_at(tmp_path, {"none": plain, "fast": drafting}))
    assert study.engine.name == "sglang"
    assert study.arm_settings("none").speculation == Speculation()
    assert study.arm_settings("fast").speculation == Speculation("mtp", 3)
    assert study.arm_settings("fast").engine_options["behind"] == "sglang"
    assert study.attach["none"].served != study.attach["fast"].served
    again = await recognised(study)
    assert again.to_json() == study.to_json()
    assert Study.from_json(study.to_json()).every_arm() == study.every_arm()


async def test_a_server_that_is_not_what_its_arm_declares_is_refused(
    plain: str, drafting: str, tmp_path: Path
) -> None:
    arms = {"none": None, "mtp": {"speculation": {"mtp": 3}}}
    with pytest.raises(UsageError, match=r"declares mtp, and .* does not draft"):
        await recognised(study_at(tmp_path, {"none": plain, "mtp": plain}, arms=arms))
    arms = {"none": {"speculation": "none"}}
    with pytest.raises(UsageError, match=r"does not speculate, and .* does"):
        await recognised(study_at(tmp_path, {"none": drafting}, arms=arms))
    with pytest.raises(UsageError, match="is sglang, and the study's engine is vllm"):
        await recognised(study_at(tmp_path, {"none": plain}, engine="vllm"))
    with pytest.raises(UsageError, match="lists no model"):
        await see(f"http://127.0.0.1:{LocalHost().free_port()}")


@pytest.mark.parametrize("foreign", [False, True])
async def test_somebody_elses_requests_void_a_cell_and_nothing_else_does(
    foreign: bool, plain: str, tmp_path: Path
) -> None:
    """The other user asks once a cell of two requests is under way; the miniature counts what it serves."""
    seed = {"seed": 7 + foreign}
    study = await recognised(study_at(tmp_path, {"none": plain}, **seed))
    task = asyncio.create_task(measured(study, tmp_path / "out"))
    while foreign and not task.done():
        await asyncio.to_thread(ask, plain, "somebody else's question")
    notes = await task
    assert any(text.startswith("as served:") for text in (note["text"] for note in notes.of("warning")))
    cells = {cell.key.phase: cell for cell in analyse(read_study(tmp_path / "out")).arms[0].cells}
    voided = [any("foreign_traffic" in reason for reason in cell.status.reasons) for cell in cells.values()]
    assert voided == [foreign] * 2


def ask(url: str, text: str) -> None:
    body = {"model": "toy", "messages": [{"role": "user", "content": text}], "max_tokens": 4}
    request = urllib.request.Request(
        f"{url}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    urllib.request.urlopen(request, timeout=20).close()


async def test_what_a_server_remembers_of_an_earlier_evening_is_not_taken_for_cold(
    plain: str, tmp_path: Path
) -> None:
    """The very same study, twice, on a server that was not restarted: cold is cold, warm is warm."""
    phases = {**PHASES, "repeat": {"output_tokens": 24}}
    study = await recognised(study_at(tmp_path, {"none": plain}, seed=11, phases=phases))
    for evening in ("first", "second"):
        await measured(study, tmp_path / evening)
        data = read_study(tmp_path / evening)
        cells = {cell.key.phase: cell for cell in analyse(data).arms[0].cells}
        reasons = [reason for cell in cells.values() for reason in cell.status.reasons]
        assert not [reason for reason in reasons if "cache" in reason]
        requests = data.requests
        cold, repeat = (requests.cached_tokens[requests.phase == name] for name in ("cold", "repeat"))
        assert cold.max() < 64 < repeat.min()


def test_one_arm_an_evening(
    plain: str, drafting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr("kvantage.cli.measure._calibrated", lambda *_: nullcontext(), raising=False)
    into = tmp_path / "both"
    study_at(tmp_path, {"none": "", "mtp": ""}, phases={"short": SHORT})
    given = ["--study", str(tmp_path / "study.yaml"), "--into", str(into), "--plain"]
    assert cli.invoke(["measure", drafting, "--as", "mtp", *given]) == 0
    assert cli.invoke(["measure", f"{plain}/v1/", "--as", "none", *given]) == 0
    data = read_study(into)
    assert {arm.name: arm.speculation.method for arm in data.arms} == {"none": "none", "mtp": "mtp"}
    assert {window.key.arm for window in data.windows if window.complete} == {"none", "mtp"}
    capsys.readouterr()
    assert cli.invoke(["measure", plain, "--as", "none", *given]) == 0
    assert "measured before and kept: none" in capsys.readouterr().out


def test_a_study_is_made_for_a_server_that_comes_without_one(drafting: str) -> None:
    from kvantage.cli.attach import control_of, small_study, with_arm

    asked = with_arm(small_study(asyncio.run(see(drafting))), "mtp", {"url": drafting})
    study = asyncio.run(recognised(Study.from_json(asked)))
    assert control_of(study) == {"arm": "mtp", "speculates": True}
    assert study.phases.cold is not None
    assert study.phases.cold.document_tokens == 4096 // 2 - 256


async def test_a_key_is_sent_and_kept_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown server behind a key, which counts nothing and cannot tokenize, is measured all the same."""
    port = LocalHost().free_port()
    monkeypatch.setenv("MY_KEY", "hunter2-hunter2")
    attach = {"none": {"url": f"http://127.0.0.1:{port}", "key_env": "MY_KEY"}}
    settings = json.dumps({"key": "hunter2-hunter2"})
    with serving([str(SERVER), str(port), settings], f"http://127.0.0.1:{port}"):
        study = await recognised(study_at(tmp_path, attach, model="some/name"))
        await measured(study, tmp_path / "out")
        requests = read_study(tmp_path / "out").requests
        assert requests.ok.all()
        for file in (tmp_path / "out").rglob("*"):
            assert not file.is_file() or b"hunter2" not in file.read_bytes()
        monkeypatch.delenv("MY_KEY")
        with pytest.raises(UsageError, match="MY_KEY"):
            await recognised(study)
        with pytest.raises(UsageError, match="MY_KEY"):
            prepare(study, LocalHost())


def test_two_hosts_are_said() -> None:
    assert confounded({"none": "http://a:1", "mtp": "http://a:2"}) == ()
    assert confounded({"none": "http://localhost:1", "mtp": "http://127.0.0.1:2"}) == ()
    [told] = confounded({"none": "http://a:1", "mtp": "http://b:1"})
    assert told.startswith("confounded: the arms run on different hosts (none on a; mtp on b)")
    assert "`kvantage measure http://b:1 --as none --into FOLDER-swapped`" in told
    assert "`kvantage measure http://a:1 --as mtp --into FOLDER-swapped`" in told


@pytest.mark.parametrize("hosts", ["ab", "aab", "abc", "aabb", "abab"])
def test_a_swap_uses_each_address_once_and_moves_each_arm(hosts: str) -> None:
    urls = {f"arm{place}": f"http://{host}:{place}" for place, host in enumerate(hosts)}
    made = swapped(urls)
    assert sorted(made.values()) == sorted(urls.values())
    stayed = [arm for arm, url in made.items() if url[7] == urls[arm][7]]
    assert len(stayed) == max(0, 2 * hosts.count("a") - len(hosts))


def test_by_whose_settings_servers_serve(make_study: Callable[..., Study]) -> None:
    """Pins of ours are never called somebody else's settings, nor the other way round."""
    with pytest.raises(StudyError, match=r"as_served.* kvantage pins those that it starts"):
        make_study(serving="as_served")
    handed = make_study(boot={"start": "./up.sh {flags}", "url": "http://127.0.0.1:{port}"})
    assert handed.served == "controlled"
    assert prepare(handed, LocalHost()).notes[0].startswith("controlled: kvantage starts")
    own = {"start": "./up.sh {arm} {port}", "url": "http://127.0.0.1:{port}"}
    for serving, note in (
        (None, "as served:"),
        ("as_served", "as served:"),
        ("controlled", "controlled, as the"),
    ):
        study = make_study(boot=own, **({"serving": serving} if serving else {}))
        assert study.served == (serving or "as_served")
        assert prepare(study, LocalHost()).notes[0].startswith(note)


def test_an_arm_without_a_server_says_how_to_measure_it(make_study: Callable[..., Study]) -> None:
    study = make_study(attach={"draft": "http://127.0.0.1:9"})
    with pytest.raises(UsageError, match="kvantage measure URL --as none"):
        prepare(study, LocalHost())


@pytest.mark.parametrize(
    ("told", "method"),
    [
        ({"method": "EAGLE"}, "mtp"),
        ({"method": "EAGLE", "draft_model_path": "m"}, "mtp"),
        ({"method": "EAGLE", "draft_model_path": "x"}, "eagle3"),
        ({"method": "deepseek_mtp"}, "mtp"),
        ({"method": "ngram-map-k"}, "ngram"),
        ({"method": "draft-simple"}, "draft_model"),
        ({"method": "on"}, None),
        ({}, None),
    ],
)
def test_engines_words_for_drafting(told: dict[str, str], method: str | None) -> None:
    assert method_of(told, "m") == method
