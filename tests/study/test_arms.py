import dataclasses
from pathlib import Path

import pytest

from kvantage.core import Samplers, ServerSettings, UsageError
from kvantage.study import Study, resolve_env
from kvantage.study.settings import SamplerSettings, Settings
from tests.study.base import BASE, changed, read


def test_the_vocabulary_is_that_of_core() -> None:
    words = {field.name for field in dataclasses.fields(ServerSettings)}
    assert set(Settings.model_fields) == words | {"samplers", "flags", "env"}
    assert set(SamplerSettings.model_fields) == {field.name for field in dataclasses.fields(Samplers)}
    assert SamplerSettings().model_dump() == {}
    assert dataclasses.asdict(Samplers()) == {
        name: getattr(SamplerSettings(), name) for name in SamplerSettings.model_fields
    }


def test_an_arm_is_common_with_its_own_on_top() -> None:
    study = read(
        changed(
            "  context_length: 4096\n",
            "  context_length: 4096\n  kv_dtype: bfloat16\n"
            "  flags: {a: 1, b: true}\n  env: {X: 1}\n  samplers: {temperature: 0.5, seed: 7}\n",
        ).replace(
            "mtp: {speculation",
            "mtp: {kv_dtype: , flags: {b: , --c_d: 2}, env: {Y: '${Z}'}, samplers: {seed: 8}, speculation",
        )
    )
    none, mtp = study.every_arm()
    assert none.settings == ServerSettings(context_length=4096, kv_dtype="bf16")
    assert mtp.settings == ServerSettings(context_length=4096)
    assert (none.flags, mtp.flags) == ({"a": 1, "b": True}, {"a": 1, "c-d": 2})
    assert (none.env, mtp.env) == ({"X": "1"}, {"X": "1", "Y": "${Z}"})
    assert (none.samplers, mtp.samplers) == (
        Samplers(temperature=0.5, seed=7),
        Samplers(temperature=0.5, seed=8),
    )
    assert [one.field for one in study.declared_differences("none", "mtp")] == [
        "kv_dtype",
        "speculation.method",
        "speculation.drafts",
        "samplers.seed",
        "flags.b",
        "flags.c-d",
        "env.Y",
    ]
    assert study.declared_differences("mtp", "mtp") == ()


@pytest.mark.parametrize(
    ("typed", "method", "drafts", "draft"),
    [
        ("none", "none", None, None),
        ("{method: none}", "none", None, None),
        ("{method: mtp, drafts: 3}", "mtp", 3, None),
        ("{mtp: 3}", "mtp", 3, None),
        ("{ngram: {drafts: 5, options: {prompt_lookup_max: 4}}}", "ngram", 5, None),
        ("{dflash: {draft: org/drafter, drafts: 5}}", "dflash", 5, "org/drafter"),
        (
            "{method: draft_model, draft: org/small, drafts: 4, draft_revision: 1e5}",
            "draft_model",
            4,
            "org/small",
        ),
    ],
)
def test_speculation_has_one_full_form_and_short_ones(
    typed: str, method: str, drafts: int | None, draft: str | None
) -> None:
    arm = read(changed("mtp: {speculation: {method: mtp, drafts: 3}}", f"it: {{speculation: {typed}}}"))
    speculation = arm.arm_settings("it").speculation
    assert (speculation.method, speculation.drafts, speculation.draft) == (method, drafts, draft)
    assert speculation.draft_revision in (None, "1e5")


def test_arms_are_named_as_people_name_them() -> None:
    study = read(
        changed("  none: {}\n", "  none:\n  on: {flags: {x: 1}}\n  5: {flags: {x: 2}}\n  v1.2_a-b:\n")
    )
    assert study.arm_names == ("none", "on", "5", "v1.2_a-b", "mtp")
    assert study.select_arms(["mtp", "on"]) == ("on", "mtp")
    with pytest.raises(UsageError, match="there is no arm `mpt`; did you mean `mtp`"):
        study.select_arms(["mpt"])


def test_renaming_an_arm_changes_nothing_and_changing_one_flag_spares_the_others() -> None:
    before = read()
    renamed = read(changed("  mtp: {", "  native: {"))
    changed_flag = read(changed("  mtp: {", "  mtp: {flags: {x: 1}, "))
    assert before.arm_settings("mtp").fingerprint() == renamed.arm_settings("native").fingerprint()
    assert before.arm_settings("none").fingerprint() == changed_flag.arm_settings("none").fingerprint()
    assert before.arm_settings("mtp").fingerprint() != changed_flag.arm_settings("mtp").fingerprint()


def test_spellings_of_one_thing_are_one_arm() -> None:
    one = read(changed("context_length: 4096", "context_length: 4Ki\n  flags: {--a_b: 1, -md: x}"))
    other = read(changed("context_length: 4096", "context_length: 4_096\n  flags: {a-b: 1, -md: x}"))
    assert one.arm_settings("mtp") == other.arm_settings("mtp")
    assert one.arm_settings("mtp").flags == {"a-b": 1, "-md": "x"}


def test_paths_are_relative_to_the_file_and_links_are_kept(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "python").symlink_to("/bin/sh")
    study = read(
        changed(
            "model: org/target\nengine: fast", "model: ./model\nengine: {name: fast, python: ./python, x: y}"
        ).replace("  none: {}", "  none: {flags: {draft: ../d, other: d}}"),
        tmp_path,
    )
    arm = study.arm_settings("none")
    assert arm.model == str(tmp_path / "model")
    assert arm.engine_options == {"python": str(tmp_path / "python"), "x": "y"}
    assert arm.flags == {"draft": str(tmp_path.parent / "d"), "other": "d"}


def test_packaged_paths_stay_movable_in_what_is_stored() -> None:
    text = changed("model: org/target", "model: package:workloads")
    study = read(text)
    assert study.to_json()["model"]["path"] == "package:workloads"
    assert Path(study.arm_settings("none").model).is_dir()


def test_secrets_are_taken_from_the_environment_and_never_stored() -> None:
    study = read(changed("  context_length: 4096\n", "  env: {HF_TOKEN: '${MINE}', PATHS: 'a:${B}:c'}\n"))
    env = study.arm_settings("none").env
    assert env == {"HF_TOKEN": "${MINE}", "PATHS": "a:${B}:c"}
    assert resolve_env(env, {"MINE": "s3cret", "B": "b"}) == {"HF_TOKEN": "s3cret", "PATHS": "a:b:c"}
    assert "s3cret" not in str(study.to_json())
    with pytest.raises(UsageError, match="the environment variable MINE is not set"):
        resolve_env(env, {})


def test_counts_of_tokens_are_no_secrets() -> None:
    study = read(
        changed(
            "  context_length: 4096\n",
            "  flags: {speculative-num-draft-tokens: 4, max-total-tokens: '9'}\n"
            "  env: {MAX_TOKENS: many, PAD_TOKEN: 3, TOKENIZERS_PARALLELISM: 'false'}\n",
        )
    )
    assert study.arm_settings("none").flags["speculative-num-draft-tokens"] == 4


def test_a_study_is_stored_whole_and_read_back(tmp_path: Path) -> None:
    study = read(BASE + "budget: 90m\nnotice: a toy\nseed: 3\n", tmp_path)
    stored = study.to_json()
    again = Study.from_json(stored)
    assert again.to_json() == stored
    assert again.every_arm() == study.every_arm()
    assert stored["phases"]["cold"] == {
        "document_tokens": 2000,
        "concurrency": [1, 2, 4],
        "output_tokens": 512,
        "secrets": 4,
        "waves": 1,
    }
    assert stored["budget"] == "1h30m"
    assert again.budget == 5400
    assert "probes" not in Study.from_json(read(changed("  probes: {}\n", "")).to_json()).to_json()["phases"]


def test_a_setting_left_to_the_engine_is_still_so_when_read_back() -> None:
    study = read(changed("  mtp: {", "  mtp: {context_length: , "))
    assert study.arm_settings("mtp").settings.context_length is None
    assert Study.from_json(study.to_json()).every_arm() == study.every_arm()


def test_likely_mistakes_are_said() -> None:
    assert read().warnings() == ()
    text = changed("  none: {}", "  none: {max_running_requests: 2}\n  again: {max_running_requests: 2}")
    text = text.replace("mtp: {", "mtp: {samplers: {temperature: 1}, ").replace(
        "policy:\n  maximise: {phase: short, workload: code}\n", ""
    )
    said = "\n".join(read(text).warnings())
    longer = read(BASE + "  min_sessions: {count: 1, tokens: 8k}\n").warnings()
    assert longer == (
        "`min_sessions` counts sessions of 8,000 tokens, and the longest that can be served holds 4,096: "
        "that is arithmetic on the pool only",
    )
    assert "arm `none` runs 2 requests at once: 4 at once will measure a queue" in said
    assert "arms `none` and `again` ask for the same thing" in said
    assert "arms `none` and `mtp` differ in their samplers" in said
    assert "no arm will be recommended" in said
