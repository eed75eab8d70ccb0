from pathlib import Path

import pytest

from kvantage.core import UsageError
from kvantage.study import Study
from tests.study.base import BASE, changed, read


def test_a_phase_that_is_named_runs_with_its_defaults() -> None:
    study = read(changed("  probes: {}\n  short: {}\n", "  short:\n"))
    assert study.phase_names == ("short", "cold", "repeat")
    assert study.phases.short is not None
    assert study.phases.short.prompts == {"code": "builtin", "prose": "builtin"}
    assert (study.phases.short.warmup, study.phases.short.repeats, study.phases.short.output_tokens) == (
        1,
        3,
        512,
    )


def test_prompts_of_ones_own_take_one_line(tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text('{"prompt": "hello"}\n')
    for typed, names in [
        ("./mine.jsonl", ("mine",)),
        ("{code: builtin, tickets: ./mine.jsonl}", ("code", "tickets")),
        ("builtin", ("code", "prose")),
    ]:
        text = changed("short: {}", f"short: {{prompts: {typed}}}").replace(
            "workload: code", f"workload: {names[0]}"
        )
        study = read(text, tmp_path)
        assert study.phases.short is not None
        assert tuple(study.phases.short.prompts) == names
    assert study.phases.short.prompts["prose"] == "builtin"


def test_phases_are_selected_in_the_order_of_work() -> None:
    study = read()
    assert study.select_phases(["repeat", "cold", "short"]) == ("short", "cold", "repeat")
    assert study.highest_concurrency == 4
    assert study.longest_output == 512
    with pytest.raises(UsageError, match="there is no phase `colt`; did you mean `cold`"):
        study.select_phases(["colt"])
    with pytest.raises(UsageError, match="take `cold` with it"):
        study.select_phases(["repeat"])


def test_a_ladder_and_a_sweep_come_in_their_places() -> None:
    study = read(changed("  probes: {}\n", "  sweep: {}\n  ttft: {lengths: [1k, 2k]}\n"))
    assert study.phase_names == ("ttft", "short", "sweep", "cold", "repeat")
    assert study.phases.ttft is not None
    assert study.phases.sweep is not None
    assert (study.phases.ttft.lengths, study.phases.ttft.documents) == ((1000, 2000), 3)
    assert study.phases.sweep.concurrency == (1, 2, 4, 8)
    assert study.highest_concurrency == 4
    assert Study.from_json(study.to_json()).phases == study.phases


@pytest.mark.parametrize(("typed", "seconds"), [("2s", 2.0), ("50ms", 0.05), ("1.5s", 1.5), ("2500ms", 2.5)])
def test_limits_are_times_with_a_unit(typed: str, seconds: float) -> None:
    study = read(changed("  probes: {}\n", f"  sweep: {{ttft_limit: {typed}}}\n"))
    assert study.phases.sweep is not None
    assert study.phases.sweep.ttft_limit == seconds
    assert Study.from_json(study.to_json()).phases.sweep == study.phases.sweep


@pytest.mark.parametrize(
    ("more", "moved"),
    [
        ("  ttft: {lengths: [1k, 2k, 3k]}\n  sweep: {}\n", set()),
        ("  ttft: {lengths: [1k, 2k]}\n  sweep: {concurrency: [1, 16], ttft_limit: 2s}\n", set()),
        ("  ttft: {lengths: [1k, 2k], documents: 2}\n  sweep: {}\n", {"ttft"}),
        ("  ttft: {lengths: [1k, 2k]}\n  sweep: {rounds: 5}\n", {"sweep"}),
        ("  ttft: {lengths: [1k, 2k]}\n  sweep: {prompts: {code: builtin}}\n", {"sweep"}),
    ],
)
def test_a_length_a_concurrency_or_a_limit_makes_no_new_work(more: str, moved: set[str]) -> None:
    first = "  ttft: {lengths: [1k, 2k]}\n  sweep: {}\n"
    before = fingerprints(read(changed("  probes: {}\n", first)))
    after = fingerprints(read(changed("  probes: {}\n", more)))
    assert {name for name in before if before[name] != after[name]} == moved


def fingerprints(study: Study) -> dict[str, str]:
    return {name: study.phase_fingerprint(name) for name in study.phase_names}


@pytest.mark.parametrize(
    ("old", "new", "moved"),
    [
        ("model: org/target", "model: org/other", set()),
        ("  mtp: {", "  new: {flags: {x: 1}}\n  mtp: {", set()),
        ("phase: short, workload: code", "phase: short, workload: prose", set()),
        ("document_tokens: 2k", "document_tokens: 2000", set()),
        ("document_tokens: 2k", "document_tokens: 2k, concurrency: [1, 2, 4, 8]", set()),
        ("document_tokens: 2k", "document_tokens: 3k", {"cold", "repeat"}),
        ("output_tokens: 256", "output_tokens: 257", {"repeat"}),
        ("short: {}", "short: {repeats: 4}", {"short"}),
        ("short: {}", "short: {prompts: {code: builtin}}", {"short"}),
        ("control: none", "control: none\nseed: 1", {"probes", "short", "cold", "repeat"}),
    ],
)
def test_a_phase_is_new_work_exactly_when_its_work_changed(old: str, new: str, moved: set[str]) -> None:
    before, after = fingerprints(read()), fingerprints(read(changed(old, new)))
    assert {name for name in before if before[name] != after[name]} == moved


def test_prompts_count_by_content_and_one_workload_alone(tmp_path: Path) -> None:
    mine = tmp_path / "mine.jsonl"
    mine.write_text('{"prompt": "a"}\n')
    (tmp_path / "copy.jsonl").write_text('{"prompt": "a"}\n')
    text = changed("short: {}", "short: {prompts: {code: builtin, own: ./mine.jsonl}}")
    study = read(text, tmp_path)
    code, own, both = (study.phase_fingerprint("short", name) for name in ("code", "own", None))
    assert len({code, own, both}) == 3
    assert read(text.replace("./mine", "./copy"), tmp_path).phase_fingerprint("short", "own") == own
    mine.write_text('{"prompt": "b"}\n')
    assert study.phase_fingerprint("short", "own") != own
    assert study.phase_fingerprint("short", "code") == code
    assert read().phase_fingerprint("short", "code") == code
    with pytest.raises(UsageError, match="there is no workload `prose`"):
        study.phase_fingerprint("short", "prose")


def test_the_whole_of_the_work_has_a_fingerprint_too() -> None:
    more = read(changed("document_tokens: 2k", "document_tokens: 2k, concurrency: 1"))
    assert more.fingerprint() != read().fingerprint() == read(BASE + "budget: 1h\n").fingerprint()
