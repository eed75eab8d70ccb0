"""What is told of a study before its first boot, on which hardware, and what earlier runs add to it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvantage.core import HostFacts
from kvantage.planner.detect import key_of, recognise
from kvantage.planner.foretell import foretell
from kvantage.planner.history import Known, Past, note, read_history
from kvantage.study import Study, load_study

CPU = HostFacts("here", "AMD EPYC", 2, 16 * 2**30)
KEPT = Path(__file__).parents[1] / "data" / "speeds" / "quickstart-cpu.yaml"


def gpu(name: str, memory: str = "143771 MiB") -> HostFacts:
    return replace(CPU, details={"devices": [{"name": name, "memory": memory}]})


def hosts(study: Study, host: HostFacts) -> dict[str, HostFacts]:
    return {arm.name: host for arm in study.every_arm()}


@pytest.mark.parametrize(
    ("name", "file", "nodes"),
    [
        ("NVIDIA H200", "h200", 1),
        ("NVIDIA H100 80GB HBM3", "h100", 1),
        ("NVIDIA B200", "b200", 1),
        ("NVIDIA GB10", "gb10", 1),
        ("NVIDIA GB10", "two-gb10", 2),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "rtx-6000", 1),
    ],
)
def test_devices_are_recognised_with_their_own_memory(name: str, file: str, nodes: int) -> None:
    found = recognise(gpu(name), nodes)
    assert found.machine is not None
    assert found.machine.name == file
    assert found.machine.figures["memory_gib"].value == pytest.approx(140.4, abs=0.1)
    assert f"`{file}`" in found.words


def test_what_no_file_describes_is_named() -> None:
    unknown = recognise(gpu("NVIDIA L4"))
    assert unknown.machine is None
    assert "NVIDIA L4" in unknown.words
    assert recognise(gpu("NVIDIA H200"), 2).machine is None
    odd = recognise(gpu("NVIDIA H200", "[N/A]"))
    assert odd.machine is not None


def test_a_processor_is_planned_by_the_generic_file_and_says_so() -> None:
    found = recognise(CPU)
    assert found.machine is not None
    assert found.machine.processor
    assert found.machine.figures["memory_gib"].value == 16
    assert "generic" in found.words
    assert key_of(CPU) == "AMD EPYC x 2"
    assert key_of(gpu("NVIDIA H200")) == "AMD EPYC x 2 + NVIDIA H200"


def test_every_arm_is_foretold() -> None:
    study = load_study(KEPT)
    told = foretell(study, hosts(study, CPU))
    assert list(told) == ["none", "ngram", "draft_model", "dflash"]
    pools = [told[name]["pool"]["value"] for name in told]
    assert pools == [11904, 11904, 10240, 8960]
    assert told["dflash"]["bytes_a_token"]["value"] == 4096
    cells = {(cell["phase"], cell["workload"], cell["concurrency"]) for cell in told["none"]["cells"]}
    assert ("short", "code", 1) in cells
    assert ("repeat", "documents", 4) in cells
    assert ("cold", "documents", 2) not in cells
    for arm in told.values():
        for cell in arm["cells"]:
            assert 0 < cell["tok_s"]["low"] <= cell["tok_s"]["value"] <= cell["tok_s"]["high"]
    assert told["dflash"]["acceptance"]["note"] == "a prior for dflash"


def test_where_nothing_can_be_told_the_reason_is(tmp_path: Path) -> None:
    text = KEPT.read_text()
    study = load_study(KEPT)
    unseen = foretell(study, {})
    assert unseen["none"]["pool"]["value"] == 11936  # pinned in bytes: but a device has smaller blocks
    assert unseen["none"]["cells"][0]["tok_s"] == {"missing": "the machine under this server is not known"}
    folder = tmp_path / "odd"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "mamba9", "architectures": ["Mamba9ForCausalLM"]}')
    path = tmp_path / "study.yaml"
    path.write_text(text.replace("package:nano/qwen3\n", f"{folder}\n"))
    odd = foretell(load_study(path), hosts(study, CPU))
    assert "mamba9" in odd["none"]["missing"].lower()


def past(**changes: object) -> Past:
    row = {
        "run": "a",
        "at": "2026-11-30",
        "machine": "AMD EPYC x 2",
        "engine": "vllm",
        "model": "package:nano/qwen3",  # as reports name it
        "arm": "none",
        "kind": "speed",
        "quantity": "short code at 1",
        "predicted": 100.0,
        "measured": 280.0,
        "length": 190,
    }
    return Past(**{**row, **changes})  # type: ignore[arg-type]


def test_a_plain_speed_of_an_earlier_run_narrows_the_range() -> None:
    study = load_study(KEPT)
    wide = foretell(study, hosts(study, CPU))["none"]
    fitted = foretell(study, hosts(study, CPU), Known((past(),)))["none"]
    before, after = wide["cells"][0]["tok_s"], fitted["cells"][0]["tok_s"]
    assert after["value"] == pytest.approx(280, rel=0.02)
    assert after["high"] / after["low"] < before["high"] / before["low"] / 3
    assert fitted["calibrated_by"] == "the plain speed of 2026-11-30 here"
    other = foretell(study, hosts(study, CPU), Known((past(model="another"),)))["none"]
    assert other["calibrated_by"] is None


def test_a_drafter_of_an_earlier_run_sets_its_cost() -> None:
    study = load_study(KEPT)
    draft = study.every_arm()[3].speculation
    own = past(arm="dflash", method="dflash", draft=draft.draft, drafts=5, acceptance=2.0, measured=240.0)
    told = foretell(study, hosts(study, CPU), Known((past(), own)))["dflash"]
    assert told["cells"][0]["tok_s"]["value"] == pytest.approx(240, rel=0.05)
    assert "this drafter's own" in told["calibrated_by"]


def test_history_is_kept_by_run_and_machine(tmp_path: Path) -> None:
    file = tmp_path / "kvantage" / "predictions.jsonl"
    note([past(), past(kind="pool", quantity="KV pool", predicted=99.0, measured=100.0)], file)
    note([past(machine="another", run="b")], file)
    note([past(measured=200.0)], file)  # the same run again, gone on with
    known = read_history("AMD EPYC x 2", file)
    assert [row.measured for row in known.rows] == [200.0]
    note([past(run="c", predicted=None)], file)
    known = read_history("AMD EPYC x 2", file)
    assert known.errors("vllm") == {"speed": {"predictions": 1, "median": 0.5, "largest": 0.5}}
    assert known.errors("sglang") == {}
    file.write_text(file.read_text() + "not json\n{}\n" + '{"run": 1}\n')
    assert len(read_history("AMD EPYC x 2", file).rows) == 2
    assert read_history("AMD EPYC x 2", tmp_path / "none").rows == ()


@settings(deadline=None)
@given(text=st.text())
def test_a_broken_history_is_no_history(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.getbasetemp() / "broken.jsonl"
    file.write_text(text, encoding="utf-8")
    assert read_history("AMD EPYC x 2", file).rows == ()


def test_two_speeds_tell_a_cost_only_in_the_same_cell() -> None:
    study = load_study(KEPT)
    draft = study.every_arm()[3].speculation
    long = past(quantity="repeat at 1", measured=250.0, length=2128)
    own = past(method="dflash", draft=draft.draft, drafts=5, acceptance=4.4, measured=500.0)
    known = Known((long, own))
    assert (
        foretell(study, hosts(study, CPU), known)["dflash"]["calibrated_by"]
        == "the plain speed of 2026-11-30 here"
    )
    same = Known((long, past(**{**vars(own), "quantity": "repeat at 1"})))
    told = foretell(study, hosts(study, CPU), same)["dflash"]
    repeat = next(cell for cell in told["cells"] if cell["phase"] == "repeat" and cell["concurrency"] == 1)
    assert repeat["tok_s"]["value"] == pytest.approx(500, rel=0.05)
    both = Known((past(measured=280.0), long))
    assert both.speed("vllm", "package:nano/qwen3", "none").quantity == "short code at 1"  # type: ignore[union-attr]
