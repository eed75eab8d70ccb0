"""The published four-arm study, replayed: what follows from its pools, its control and its short code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kvantage.cli import invoke as run
from kvantage.planner.plan import Plan, make_plan
from kvantage.planner.studies import asked_of, work_of
from kvantage.planner.work import Work
from kvantage.sim.plan import Played, candidates, luck, play
from kvantage.study import load_study, study_from_text

ROOT = Path(__file__).parents[2]
STUDY = ROOT / "examples" / "four-arms-simulated.yaml"
PUBLISHED = json.loads((ROOT / "tests" / "data" / "published.json").read_text(encoding="utf-8"))["four_arms"]


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def planned() -> tuple[Plan, Work]:
    study = load_study(STUDY)
    return make_plan(asked_of(study, None)), work_of(study)


@pytest.fixture(name="played")
def _played(_no_network: None) -> dict[str, Played]:
    plan, work = planned()
    return {arm.name: arm for arm in play(plan, work)}


def test_sessions_are_those_published(played: dict[str, Played]) -> None:
    for name, arm in PUBLISHED["arms"].items():
        pool = played[name].pool_tokens
        assert pool == arm["kv_pool_tokens"]
        for label, tokens in PUBLISHED["session_tokens"].items():
            assert round(pool / tokens, 1) == arm["sessions"][label]


def test_prose_and_cached_repeats_follow_within_10_percent(played: dict[str, Played]) -> None:
    for name, arm in PUBLISHED["arms"].items():
        for phase, streams, workload, figure, within in (
            ("short", 1, "code", "short_code_tok_s", 0.02),
            ("short", 1, "prose", "short_prose_tok_s", 0.10),
            ("repeat", 1, "documents", "repeat_c1_tok_s", 0.10),
            ("repeat", 2, "documents", "repeat_c2_tok_s", 0.10),
        ):
            cell = played[name].cell(phase, streams, workload)
            assert cell is not None
            assert cell.e2e_tok_s.source == "simulated"
            assert cell.e2e_tok_s.value == pytest.approx(arm[figure], rel=within), (name, figure)


def test_the_trade_follows(played: dict[str, Played]) -> None:
    mtp, dflash = (played[name].cell("repeat", 2) for name in ("mtp", "dflash-bf16"))
    assert mtp is not None
    assert dflash is not None
    assert mtp.e2e_tok_s.value is not None
    assert dflash.e2e_tok_s.value is not None
    want = PUBLISHED["trade_mtp_vs_dflash_bf16"]
    assert mtp.e2e_tok_s.value / dflash.e2e_tok_s.value - 1 == pytest.approx(
        want["repeat_c2_speed"], abs=0.05
    )
    pools = (played["mtp"].pool_tokens or 0) / (played["dflash-bf16"].pool_tokens or 1) - 1
    assert round(pools, 2) == want["pool"]


def test_waves_of_one_and_two_are_clean_as_published(played: dict[str, Played]) -> None:
    for arm in played.values():
        for cell in arm.cells:
            if cell.phase == "repeat" and cell.concurrency <= 2:
                assert (cell.misses, cell.queued, cell.retractions) == (0, 0, 0)
                assert cell.cached_tokens == cell.expected_tokens


def test_candidates_for_the_misses_at_four() -> None:
    plan, work = planned()
    found = {(one.arm, one.change): one for one in candidates(plan, work)}
    slots = found["dflash-bf16", "a whole page of slots a draft"]
    assert slots.misses + slots.retractions > 0
    assert found["dflash-bf16", "documents 0.5 % longer"].misses > 0
    assert found["dflash-bf16", "the whole answer reserved at admission"].queued > 0
    for change in ("a whole page of slots a draft", "documents 0.5 % longer"):
        assert found["none", change].misses == found["dflash-fp8", change].misses == 0
    assert all(one.misses == 0 for (_, change), one in found.items() if change == "nothing changed")


def test_the_luck_of_acceptance_alone_can_put_back_a_request_of_the_full_pool() -> None:
    plan, work = planned()
    found = luck(plan, work)
    assert found["dflash-bf16"] > 0
    assert found["none"] == found["mtp"] == found["dflash-fp8"] == 0


def test_the_study_takes_at_most_200_mib() -> None:
    script = (
        "from pathlib import Path\n"
        "from tests.sim.test_four_arms import planned, play\n"
        "play(*planned())\n"
        # not ru_maxrss: a child inherits its parent's peak through exec
        "print(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert int(done.stdout) / 1024 < 200


@pytest.mark.timeout(600)
def test_the_command_says_what_is_given_and_what_is_simulated(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", str(STUDY), "--simulate"]) == 0
    text = capsys.readouterr().out
    assert "nothing of this was measured" in text
    assert "(given)" in text
    assert "Candidates, not findings" in text
    waves = [line.split() for line in text.splitlines() if line.strip().startswith(("cold at", "repeat at"))]
    assert len(waves) == 4 * 6
    assert ["repeat", "at", "4", "dflash-bf16"] in [words[:4] for words in waves]
    assert run(["plan", str(STUDY), "--simulate", "--json"]) == 0
    page = json.loads(capsys.readouterr().out)["simulated"]
    assert page["source"] == "simulated"
    assert page["arms"]["mtp"]["kv_pool_tokens"] == {"value": 982464, "unit": "tokens", "source": "config"}
    assert {trade["arm"] for trade in page["trades"]} == {"mtp", "dflash-bf16", "dflash-fp8"}
    assert run(["plan", str(ROOT / "tests/data/configs/qwen3-8b"), "--simulate"]) == 2


@pytest.mark.timeout(600)  # seconds, but for a machine that is busy with other work
def test_any_study_can_be_simulated_on_its_predicted_pool(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run(["plan", str(ROOT / "examples" / "vllm-one-gpu.yaml"), "--hardware", "h100", "--simulate"]) == 0
    )
    assert "Simulated in virtual time" in capsys.readouterr().out
    assert run(["plan", str(ROOT / "examples" / "vllm-one-gpu.yaml"), "--simulate"]) == 0
    assert "is not simulated" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("like: sglang\n  colour: red", "colour"),
        ("pools: {nobody: 5}", "nobody"),
        ("pools: {none: -5}", "above 0"),
        ("pools: 7", "each arm"),
        ("acceptance: {none: {code: 0.5}}", "at least 1"),
        ("acceptance: [1]", "each arm"),
        ("prefill_tok_s: fast", "above 0"),
    ],
)
def test_options_that_are_wrong(line: str, words: str, tmp_path: Path) -> None:
    text = STUDY.read_text(encoding="utf-8")
    start, rest = text.split("  like: sglang\n")
    rest = rest[rest.index("common:") :]
    study = study_from_text(f"{start}  {line}\n{rest}", folder=tmp_path, paths_must_exist=False)
    with pytest.raises(Exception, match=words):
        asked_of(study, None)
