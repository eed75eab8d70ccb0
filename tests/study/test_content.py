from __future__ import annotations

from pathlib import Path

from kvantage.core import ArmSettings
from kvantage.study.content import folder_digest


def folder(path: Path, weights: bytes) -> str:
    path.mkdir()
    (path / "config.json").write_text("{}")
    (path / "model.safetensors").write_bytes(weights)
    return str(path)


def test_weights_trained_anew_are_another_model_and_a_moved_folder_is_the_same(tmp_path: Path) -> None:
    first, moved, other = (
        folder(tmp_path / name, data) for name, data in [("a", b"1"), ("b", b"1"), ("c", b"2")]
    )
    assert folder_digest(first) == folder_digest(moved) != folder_digest(other)
    assert folder_digest("org/name") is None
    arms = [
        ArmSettings("x", "vllm", path, contents={"model": folder_digest(path) or ""})
        for path in (first, moved, other)
    ]
    assert arms[0].fingerprint() == arms[1].fingerprint() != arms[2].fingerprint()
