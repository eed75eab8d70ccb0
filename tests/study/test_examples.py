import json
from pathlib import Path

import pytest

from kvantage.core import ServerSettings, UsageError
from kvantage.study import MinSessions, load_study, packaged_study
from tests.study.base import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
MODELINE = "# yaml-language-server: $schema=../schema/study.schema.json"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_load_without_a_doubt_and_name_their_schema(path: Path) -> None:
    assert load_study(path, paths_must_exist=False).warnings() == ()
    assert path.read_text().splitlines()[0] == MODELINE


def test_the_write_up_is_a_study_of_under_40_lines_with_its_numbers() -> None:
    path = ROOT / "examples" / "two-gb10-glm-5.3-flash.yaml"
    assert len(path.read_text().splitlines()) < 40
    study = load_study(path)
    assert set(study.arm_names) == {"dflash-bf16", "dflash-fp8", "mtp", "none"}
    for arm in study.every_arm():
        assert (arm.engine, arm.revision) == ("sglang", "53e77dbb")
        assert arm.settings == ServerSettings(
            tensor_parallel_size=2,
            nodes=2,
            memory_fraction=0.9,
            pool_tokens=2_097_152,
            kv_dtype="fp8_e4m3",
            context_length=262_144,
            chunked_prefill=4096,
            max_running_requests=4,
        )
    drafters = {arm.name: arm.speculation for arm in study.every_arm()}
    assert [(name, one.method, one.drafts, one.draft_kv_dtype) for name, one in sorted(drafters.items())] == [
        ("dflash-bf16", "dflash", 5, "bf16"),
        ("dflash-fp8", "dflash", 5, "fp8_e4m3"),
        ("mtp", "mtp", 3, "fp8_e4m3"),
        ("none", "none", None, None),
    ]
    assert study.to_json()["phases"] == {
        "probes": {"output_tokens": 512},
        "short": {
            "prompts": {"code": "builtin", "prose": "builtin"},
            "warmup": 1,
            "repeats": 3,
            "output_tokens": 512,
        },
        "cold": {
            "document_tokens": 128_000,
            "concurrency": [1, 2, 4],
            "output_tokens": 512,
            "secrets": 4,
            "waves": 1,
        },
        "repeat": {"output_tokens": 2048},
    }
    assert study.policy is not None
    assert study.policy.min_sessions == MinSessions(count=4, tokens=130_045)


@pytest.mark.parametrize("name", ["quickstart", "quickstart-amx"])
def test_the_quickstart_is_four_arms_on_a_toy_and_says_so(name: str) -> None:
    study = load_study(packaged_study(name), paths_must_exist=False)
    assert study.control_arm == "none"
    assert len(study.arm_names) == 4
    assert study.notice is not None
    assert "toy model" in study.notice
    assert study.warnings() == ()
    methods = {arm.speculation.method for arm in study.every_arm()}
    assert methods == {"none", "ngram", "dflash", "mtp" if name == "quickstart-amx" else "draft_model"}
    assert study.budget is not None
    assert study.budget <= 720
    assert json.dumps(study.to_json())


def test_the_two_quickstarts_give_the_same_work() -> None:
    one, other = (
        load_study(packaged_study(name), paths_must_exist=False) for name in ("quickstart", "quickstart-amx")
    )
    assert one.phase_names == other.phase_names


def test_a_packaged_study_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="did you mean `quickstart`"):
        packaged_study("quikstart")
