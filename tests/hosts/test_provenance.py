"""What is recorded of a boot."""

import hashlib
import json
from pathlib import Path

import pytest

from kvantage.core import ArmSettings, HostFacts, Launch, Speculation, UsageError
from kvantage.hosts.provenance import provenance

HOST = HostFacts(
    "here", "a processor", 2, 1 << 34, frozenset({"amx_tile"}), {"kernel": "6.1", "nvidia_driver": "580"}
)


def folder(path: Path, config: str) -> Path:
    path.mkdir(parents=True)
    (path / "config.json").write_text(config)
    (path / "model.safetensors").write_bytes(b"x" * 100)
    return path


def test_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVANTAGE_IMAGE_DIGEST", "sha256:abc")
    monkeypatch.setenv("VLLM_Y", "2")
    monkeypatch.setenv("VLLM_X", "other")
    monkeypatch.setenv("HF_HUB_TOKEN", "hf_y")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    monkeypatch.setenv("UNRELATED", "3")
    commit = "0123456789abcdef0123456789abcdef01234567"
    target = folder(tmp_path / "hub" / "snapshots" / commit, '{"a": 1}')
    draft = folder(tmp_path / "draft", "{}")
    patch = tmp_path / "fix.patch"
    patch.write_text("--- a\n+++ b\n")
    arm = ArmSettings("one", "vllm", str(target), speculation=Speculation("dflash", 5, str(draft)))
    launch = Launch(
        ("python", "--api-key", "s3cret", "--model", str(target)),
        {"HF_TOKEN": "hf_x", "VLLM_X": "1", "SGLANG_KEY": "k"},
        versions={"vllm": "0.32.0", "torch": "2.13.0"},
    )
    found = provenance(arm, launch, HOST, record=[patch], keep_in=tmp_path / "kept")
    assert found["command"] == ["python", "--api-key", "***", "--model", str(target)]
    assert found["env"] == {"HF_TOKEN": "***", "VLLM_X": "1", "SGLANG_KEY": "***"}
    assert found["inherited_env"]["VLLM_Y"] == "2"
    assert found["inherited_env"]["CUDA_VISIBLE_DEVICES"] == "1"
    assert found["inherited_env"]["HF_HUB_TOKEN"] == "***"
    assert not {"UNRELATED", "VLLM_X"} & found["inherited_env"].keys()
    assert found["versions"]["vllm"] == "0.32.0"
    assert found["versions"]["kvantage"]
    assert found["model"] == {
        "name": str(target),
        "revision": commit,
        "config_sha256": hashlib.sha256(b'{"a": 1}').hexdigest(),
        "weights_bytes": 100,
    }
    assert found["draft"]["config_sha256"] == hashlib.sha256(b"{}").hexdigest()
    assert found["hardware"]["amx"] is True
    assert found["system"]["nvidia_driver"] == "580"
    assert found["image_digest"] == "sha256:abc"
    (recorded,) = found["record"]
    assert recorded["sha256"] == hashlib.sha256(patch.read_bytes()).hexdigest()
    assert (tmp_path / "kept" / recorded["copy"]).read_text() == patch.read_text()
    assert "s3cret" not in json.dumps(found)


def test_a_hub_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KVANTAGE_IMAGE_DIGEST", raising=False)
    found = provenance(ArmSettings("one", "vllm", "org/model", "abc"), Launch(("x",)), HOST)
    assert found["model"] == {"name": "org/model", "revision": "abc"}
    assert "draft" not in found
    assert "image_digest" not in found
    assert found["record"] == []


def test_two_files_of_one_name_are_both_kept(tmp_path: Path) -> None:
    paths = []
    for number in range(2):
        (tmp_path / str(number)).mkdir()
        paths.append(tmp_path / str(number) / "run.sh")
        paths[-1].write_text(f"echo {number}\n")
    arm = ArmSettings("one", "vllm", "org/model")
    for _ in range(2):  # a second boot records the same again
        found = provenance(arm, Launch(("x",)), HOST, record=paths, keep_in=tmp_path / "kept")
    assert len({row["copy"] for row in found["record"]}) == 2
    assert sorted(path.read_text() for path in (tmp_path / "kept").iterdir()) == ["echo 0\n", "echo 1\n"]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"record: .*gone: No such file"):
        provenance(ArmSettings("one", "vllm", "m"), Launch(("x",)), HOST, record=[tmp_path / "gone"])
