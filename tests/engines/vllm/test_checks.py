"""What is refused before anything is started, with what would work."""

from pathlib import Path
from typing import Any

import pytest

from kvantage.core import HostFacts, ServerSettings, Speculation
from kvantage.engines.vllm import build as building
from kvantage.engines.vllm.build import Build
from kvantage.engines.vllm.checks import problems
from tests.engines.vllm.data import AMX_HOST, CONFIGS, CPU_BUILD, CUDA_BUILD, HOST, arm

on_cuda = pytest.mark.parametrize("build", [CUDA_BUILD], indirect=True)
MLA = str(CONFIGS / "captured-deepseek-cpu")
MLA_DRAFT = str(CONFIGS / "captured-deepseek-cpu-dflash")
PLAIN = str(CONFIGS / "captured-tiny-cpu")
DRAFT = str(CONFIGS / "captured-tiny-cpu-dflash")


@pytest.mark.usefixtures("build")
def test_nothing_is_wrong() -> None:
    assert problems(arm(), HOST) == []
    assert problems(arm(model=PLAIN, speculation=Speculation("dflash", 3, DRAFT)), HOST) == []
    assert problems(arm(model=MLA, speculation=Speculation("mtp", 3)), HOST) == []
    assert problems(arm(model=MLA, speculation=Speculation("dflash", 3, MLA_DRAFT)), AMX_HOST) == []


@pytest.mark.usefixtures("build")
@pytest.mark.parametrize(
    ("host", "more", "words"),
    [
        (
            HOST,
            {"model": MLA, "speculation": Speculation("dflash", 3, MLA_DRAFT)},
            "dies on a processor without AMX ('No common block size'); use a model without MLA, or `mtp`",
        ),
        (
            AMX_HOST,
            {"model": MLA, "settings": ServerSettings(dtype="float32")},
            "float32 with latent attention (MLA) does not boot on a processor with AMX; use bfloat16",
        ),
        (
            HOST,
            {"model": MLA, "settings": ServerSettings(kv_dtype="fp8_e5m2")},
            "an FP8 KV cache does not work with latent attention (MLA) on a processor; use bfloat16",
        ),
        (
            HOST,
            {"speculation": Speculation("draft_model", 3, "org/draft", draft_kv_dtype="fp8_e5m2")},
            "draft_kv_dtype fp8_e5m2 beside a target KV cache of the model dtype",
        ),
        (
            HOST,
            {
                "settings": ServerSettings(kv_dtype="bfloat16"),
                "speculation": Speculation("dflash", 3, "org/draft", draft_kv_dtype="fp8_e4m3"),
            },
            "give both the same (`kv_dtype: fp8_e4m3`)",
        ),
        (
            HOST,
            {"speculation": Speculation("ngram", 3, options={"rejection_sample_method": "synthetic"})},
            "rejection_sample_method=synthetic makes acceptance up",
        ),
        (HOST, {"settings": ServerSettings(pool_bytes=1 << 40)}, "more than this machine's memory"),
        (
            HOST,
            {"settings": ServerSettings(page_size=16)},
            "page_size 16: vLLM's attention on a processor takes",
        ),
        (HOST, {"model": PLAIN, "speculation": Speculation("mtp", 1)}, "declares no MTP head"),
        (
            HOST,
            {"model": PLAIN, "speculation": Speculation("dflash", 3, PLAIN)},
            "declares Qwen3ForCausalLM, not a DFlash drafter",
        ),
        (
            HOST,
            {"model": PLAIN, "speculation": Speculation("dflash", 99, DRAFT)},
            "`drafts: 99` is more than the drafter's block",
        ),
        (
            HOST,
            {
                "model": str(CONFIGS / "llama-3.1-8b"),
                "speculation": Speculation("draft_model", 3, str(CONFIGS / "qwen3-8b")),
            },
            "it must share the model's tokenizer",
        ),
        (HOST, {"flags": {"port": 80}}, "flags: `port` is set by kvantage (leave it out)"),
    ],
)
def test_refused(host: HostFacts, more: dict[str, Any], words: str) -> None:
    found = problems(arm(**more), host)
    assert len(found) == 1
    assert words in found[0]


@pytest.mark.usefixtures("build")
@on_cuda
def test_an_accelerator_may_do_what_a_processor_cannot() -> None:
    assert problems(arm(model=MLA, speculation=Speculation("dflash", 3, MLA_DRAFT)), HOST) == []
    chosen = {"attention_backend": "TRITON_ATTN"}
    fp8 = Speculation("dflash", 3, "org/draft", draft_kv_dtype="fp8_e4m3", options=chosen)
    assert problems(arm(speculation=fp8), HOST) == []
    both = ServerSettings(kv_dtype="fp8_e4m3")
    fp8 = Speculation("dflash", 3, "org/draft", draft_kv_dtype="fp8_e4m3")
    assert problems(arm(settings=both, speculation=fp8), HOST) == []
    assert problems(arm(speculation=fp8, flags={"kv-cache-dtype": "fp8"}), HOST) == []


@pytest.mark.usefixtures("build")
def test_missing_folders(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "target" / "config.json").write_text("{}")
    found = problems(
        arm(model=str(tmp_path / "tarket"), speculation=Speculation("eagle3", 3, str(tmp_path / "empty"))),
        HOST,
    )
    assert found == [
        f"model: there is no folder {tmp_path}/tarket; did you mean {tmp_path}/target?",
        f"speculation.draft: {tmp_path}/empty holds no config.json, so it is not a model in Hugging"
        f" Face's form",
    ]


def test_no_vllm_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VLLM_PYTHON", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    (found,) = problems(arm(), HOST)
    assert "vLLM is not installed beside kvantage" in found
    assert "make engine" in found


def test_no_such_interpreter(tmp_path: Path) -> None:
    missing = tmp_path / "python"
    (found,) = problems(arm(engine_options={"python": str(missing)}), HOST)
    assert f"engine option `python`: there is no {missing}" in found
    missing.write_text("#!/bin/sh\nexit 3\n")
    missing.chmod(0o755)
    (found,) = problems(arm(engine_options={"python": str(missing)}), HOST)
    assert "is not a working Python" in found


def test_a_build_is_looked_up_once_and_never_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text(
        f"#!/bin/sh\necho x >> {tmp_path}/asked\n"
        'echo \'{"python": "3.12.1", "prefix": "/e", "packages": {"vllm": "0.33.1+cpu", "torch":'
        ' "2.13.0+cpu"}}\'\n'
    )
    python.chmod(0o755)
    monkeypatch.setenv("VLLM_PYTHON", str(python))
    first, second = building.build_of(arm()), building.build_of(arm())
    assert first is second
    assert (tmp_path / "asked").read_text() == "x\n"
    assert first.version == "0.33.1+cpu"
    assert first.cpu
    assert first.release == (0, 33)


@pytest.mark.parametrize(
    ("build", "cpu", "has_metrics"),
    [
        (CPU_BUILD, True, True),
        (CUDA_BUILD, False, False),
        (Build("p", "/e", "0.33.0", "vllm", {"torch": "2.13.0+cu130"}), False, True),
        (Build("p", "/e", "dev", "vllm"), False, True),
    ],
)
def test_what_a_build_is(build: Build, cpu: bool, has_metrics: bool) -> None:
    assert build.cpu is cpu
    assert build.at_least(0, 32) is has_metrics
