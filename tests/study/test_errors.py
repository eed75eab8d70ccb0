from pathlib import Path

import pytest

from kvantage.core import ExitCode, StudyError
from kvantage.study import Study, load_study
from tests.study.base import BASE, changed, read, refusal

WRONG = Path(__file__).parent / "wrong"


@pytest.mark.parametrize("name", sorted(path.stem for path in WRONG.glob("*.yaml")))
def test_everything_that_is_wrong_is_said_at_once_each_on_its_line(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(WRONG)
    with pytest.raises(StudyError) as caught:
        load_study(f"{name}.yaml")
    said = str(caught.value).replace(str(WRONG), "HERE")
    assert said + "\n" == (WRONG / f"{name}.txt").read_text()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "engine: fast\n",
            "",
            "study.yaml:1: `engine` is missing: the serving engine, the same in every arm",
        ),
        (
            "engine: fast",
            "engin: fast",
            "study.yaml:2: engin: there is no field `engin`; did you mean `engine`?",
        ),
        ("engine: fast", "engine:", "study.yaml:2: engine: needs a group of fields, not nothing"),
        ("engine: fast", "engine: {python: x}", "study.yaml:2: engine: `name` is missing: the engine's name"),
        ("engine: fast", "engine: {name: fast, api_key: abc}", "`api_key` looks like a secret"),
        ("model: org/target", "model: true", "study.yaml:1: model: needs text, not `true`; quote it"),
        ("model: org/target", "model: ''", "study.yaml:1: model: is empty"),
        (
            "control: none\n",
            "",
            "study.yaml:1: `control` is missing: the arm that the others are compared with",
        ),
        (
            "control: none",
            "control: nome",
            "study.yaml:5: control: there is no arm `nome`; did you mean `none`?",
        ),
        (
            "control: none",
            "control: x",
            "study.yaml:5: control: there is no arm `x`; there are `none`, `mtp`",
        ),
        (
            "control: none",
            "control: mtp",
            "study.yaml:5: control: arm `mtp` speculates (mtp)\n"
            "  If that is meant, write `control: {arm: mtp, speculates: true}`.",
        ),
        (
            "  none: {}",
            "  none: {}\n  none: {}",
            "study.yaml:8: arms.none: is given twice (the first is on line 7)",
        ),
        (
            "  none: {}",
            "  none: {}\n  a b: {}",
            "study.yaml:8: arms.a b: cannot name an arm: letters, digits,",
        ),
        ("  none: {}", "  none: 5", "study.yaml:7: arms.none: needs a group of fields, not `5`"),
        ("drafts: 3", "drafts: three", "speculation.drafts: needs a whole number, not `three`"),
        ("drafts: 3", "drafts: 0", "speculation.drafts: needs at least 1, not `0`"),
        ("drafts: 3", "draft: x", "speculation: speculation `mtp` needs `drafts: k`, at least 1"),
        ("method: mtp", "method: dflash", "speculation: speculation `dflash` needs `draft:`"),
        ("method: mtp", "method: none", "speculation `none` takes no drafts, draft or draft_kv_dtype"),
        ("method: mtp", "method: mpt", "not `mpt`; did you mean `mtp`?"),
        ("{method: mtp, drafts: 3}", "mtp", "write `{method: mtp, drafts: k}`"),
        ("{method: mtp, drafts: 3}", "{ngram: {drafts: 2, draft: x}}", "`ngram` has no drafter"),
        (
            "  cold: {",
            "  colt: {",
            "study.yaml:12: phases.colt: there is no phase `colt`; did you mean `cold`?",
        ),
        (
            "  cold: {",
            "  trace: {}\n  cold: {",
            "`trace` (a recorded trace) is not supported by this version",
        ),
        (
            "  cold: {",
            "  sweep: {rounds: 1, tpot_limit: 50}\n  cold: {",
            "study.yaml:12: phases.sweep.rounds: needs at least 2, not `1`\n"
            "study.yaml:12: phases.sweep.tpot_limit: `50` of what? Write 50ms or 50s",
        ),
        (
            "  cold: {",
            "  sweep: {concurrency: [2, 2]}\n  cold: {",
            "phases.sweep.concurrency: 2 stands there twice; more requests are `rounds: 8`",
        ),
        (
            "  cold: {",
            "  sweep: {tpot_limit: 5m}\n  cold: {",
            "phases.sweep.tpot_limit: needs a time, such as 50ms or 2s, not `5m`",
        ),
        (
            "  cold: {",
            "  sweep: {prompts: {cod: builtin}}\n  cold: {",
            "phases.sweep.prompts: there is no builtin set of prompts `cod`; did you mean `code`?",
        ),
        (
            "  cold: {",
            "  ttft: {lengths: [2k, 1k]}\n  cold: {",
            "phases.ttft.lengths: goes up: 1,000 does not come after 2,000",
        ),
        (
            "  cold: {",
            "  ttft: {lengths: [1k, 4093]}\n  cold: {",
            "study.yaml:12: phases.ttft.lengths: 4,093 + 4 tokens do not fit `context_length` of 4,096",
        ),
        (
            "  cold: {",
            "  ttft: {lengths: [99]}\n  cold: {",
            "phases.ttft.lengths: needs documents of at least 100 tokens, not 99",
        ),
        (
            "  cold: {",
            "  ttft: {lengths: 1k}\n  cold: {",
            "phases.ttft.lengths: needs a list, not `1k`",
        ),
        (
            "document_tokens: 2k",
            "waves: 2",
            "phases.cold: `document_tokens` is missing: length of each document",
        ),
        ("document_tokens: 2k", "document_tokens: 2k, concurrency: [1, 1]", "1 stands there twice"),
        (
            "document_tokens: 2k",
            "document_tokens: 2k, concurrency: []",
            "concurrency: is empty: needs at least one",
        ),
        (
            "document_tokens: 2k",
            "document_tokens: 2k, concurrency: [1, x]",
            "concurrency[1]: needs a whole number",
        ),
        (
            "document_tokens: 2k",
            "document_tokens: 4k",
            "4,000 + 512 tokens do not fit `context_length` of 4,096",
        ),
        (
            "output_tokens: 256",
            "output_tokens: 3k",
            "study.yaml:13: phases.repeat.output_tokens: 2,000 + 3,000 tokens",
        ),
        (
            "  cold: {document_tokens: 2k}\n",
            "",
            "phases.repeat: repeats the cold waves, and there is no phase `cold`",
        ),
        ("short: {}", "short: {prompts: {pros: builtin}}", "set of prompts `pros`; did you mean `prose`?"),
        ("short: {}", "short: {prompts: {x: ./no.jsonl}}", "short.prompts.x: there is no file"),
        ("maximise", "maximize", "policy.maximize: there is no field `maximize`; did you mean `maximise`?"),
        ("phase: short", "metric: tok_s, phase: short", "e2e_tok_s, tok_per_joule, not `tok_s`"),
        ("phase: short", "phase: shrt", "cold, repeat, not `shrt`; did you mean `short`?"),
        (", workload: code", "", "study.yaml:15: policy.maximise: `workload` is missing: one of code, prose"),
        ("workload: code", "workload: cod", "workload: there is no workload `cod`; did you mean `code`?"),
        ("workload: code", "workload: code, concurrency: 2", "short prompts are asked one at a time"),
        ("phase: short, workload: code", "phase: cold", "`concurrency` is missing: one of 1, 2, 4"),
        (
            "phase: short, workload: code",
            "phase: cold, concurrency: 8",
            "is not measured; `phases.cold.concurrency`",
        ),
        ("phase: short, workload", "phase: cold, workload", "`cold` has one workload: leave it out"),
        (
            "context_length: 4096",
            "context_length: 256k",
            "study.yaml:4: common.context_length: `256k` may be",
        ),
        (
            "context_length: 4096",
            "kv_dtype: fp8-e4m3",
            "there is no dtype `fp8-e4m3`; did you mean `fp8_e4m3`?",
        ),
        ("context_length: 4096", "memory_fraction: 90%", "needs a number, not `90%`"),
        ("context_length: 4096", "memory_fraction: 90", "needs less than 1, not `90`"),
        ("context_length: 4096", "eager: off", "needs true or false, not `off`"),
        ("context_length: 4096", "pool_bytes: 96", "needs at least 1,048,576 bytes (1 MiB), not `96`"),
        ("context_length: 4096", "{memory_fraction: 0.5, pool_bytes: 1GiB}", "both size the pool: keep one"),
        ("context_length: 4096", "speculation: none", "speculation belongs to an arm: move it under `arms`"),
        ("context_length: 4096", "flags: {a-b: 1, --a_b: 2}", "`--a_b` is given twice, in two spellings"),
        ("context_length: 4096", "flags: {'--a b': 2}", "is not a flag's name: write `name: value`"),
        ("context_length: 4096", "flags: {api-key: x}", "`api-key` looks like a secret"),
        (
            "context_length: 4096",
            "env: {HF_TOKEN: hf_x}",
            "write `HF_TOKEN: '${HF_TOKEN}'` and set it in the",
        ),
        ("context_length: 4096", "env: {A: true}", "common.env.A: needs text, not `true`; quote it"),
    ],
)
def test_one_mistake_one_sentence(old: str, new: str, said: str) -> None:
    assert said in refusal(changed(old, new))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("budget: 90", "study.yaml:16: budget: `90` of what? Write 90s, 90m or 90h"),
        ("boots: 0", "boots: needs at least 1, not `0`"),
        ("order: baab", "order: is one of abba, randomised, fixed, not `baab`"),
        ("until: {margin: 3}", "until.margin: needs less than 1, not `3`"),
        ("until: {max_boots: 1}", "until.max_boots: needs at least 2, not `1`"),
        ("until: {max_boots: 2}\nboots: 3", "until.max_boots: is fewer than the 3 `boots`"),
        ("until: {max_hour: 2}", "until.max_hour: there is no field `max_hour`; did you mean `max_hours`?"),
        ("boots: 3\nattach: {mtp: http://x}", "boots: servers that run already (`attach`) are not"),
        ("attach: {mtpp: {url: http://x}}", "attach.mtpp: there is no arm `mtpp`; did you mean `mtp`?"),
        ("attach: {mtp: {url: ftp://x}}", "needs an address such as http://spark1:30000, not `ftp://x`"),
        ("attach: {mtp: 'http://me:pw@x'}", "attach.mtp: holds a secret or a query"),
        ("attach: {mtp: {url: http://x, key_env: sk-a}}", "needs the name of an environment variable"),
        ("attach: {mtp: http://x}\nhosts: [a]", "`attach` and `hosts` are different ways to a server"),
        ("hosts: [a, b]", "study.yaml:16: hosts: arm `none` is for 1 machine (`nodes`), and there are 2"),
        ("hosts: [a b]", "hosts[0]: needs a host such as spark1 or me@spark1:22, not `a b`"),
        ("serving: as_served", "`as_served` is for servers with their owner"),
        ("boot: {start: './up.sh {flag}', url: http://x}", "`{flag}` stands for nothing; did you mean"),
        ("boot: {stop: ./down.sh}", "belong to `start` or `manual`, which are missing"),
        ("boot: {start: a, manual: true, url: http://x}", "are two ways to start a server"),
        ("boot: {manual: true, url: 'http://x:{port}'}", "with `manual` the port is yours to choose"),
        ("boot: {start: ./up.sh}", "study.yaml:16: boot: `url` is missing: where the server that you start"),
        ("seed: -1", "seed: needs at least 0, not `-1`"),
        ("record: [./no-such-file]", "study.yaml:16: record[0]: there is no file or folder"),
        ("colour: red", "colour: there is no field `colour`"),
    ],
)
def test_one_more_line_that_is_wrong(line: str, said: str) -> None:
    assert said in refusal(BASE + line + "\n")


def test_a_missing_model_folder_is_said_unless_not_looked_for(tmp_path: Path) -> None:
    text = changed("model: org/target", "model: ./nowhere")
    assert refusal(text, tmp_path) == f"study.yaml:1: model: there is no folder {tmp_path}/nowhere"
    assert read(text, tmp_path, paths_must_exist=False).model.path == f"{tmp_path}/nowhere"


def test_a_folder_that_looks_like_a_name_is_doubtful(tmp_path: Path) -> None:
    (tmp_path / "org" / "target").mkdir(parents=True)
    assert "may be a folder or a name: write ./org/target" in refusal(BASE, tmp_path)


def test_an_arm_that_sizes_the_pool_in_the_other_way_must_say_so() -> None:
    text = changed("context_length: 4096", "memory_fraction: 0.5").replace(
        "mtp: {", "mtp: {pool_bytes: 1GiB, "
    )
    said = refusal(text)
    assert "study.yaml:8: arms.mtp.pool_bytes: `memory_fraction` of `common` sizes the pool too" in said
    arm = read(text.replace("pool_bytes: 1GiB, ", "pool_bytes: 1GiB, memory_fraction: , ")).arm_settings(
        "mtp"
    )
    assert (arm.settings.pool_bytes, arm.settings.memory_fraction) == (1 << 30, None)


def test_a_control_that_speculates_on_purpose_is_taken() -> None:
    study = read(changed("control: none", "control: {arm: mtp, speculates: true}"))
    assert study.control_arm == "mtp"


def test_other_rooms_can_point_at_a_line() -> None:
    study = read()
    error = study.error(("arms", "mtp", "speculation"), "cannot be served here", "use `none`")
    assert str(error) == "study.yaml:8: arms.mtp.speculation: cannot be served here\n  use `none`"
    assert error.exit_code == ExitCode.USAGE
    assert Study.from_json(study.to_json()).where("arms") == "study: arms"
