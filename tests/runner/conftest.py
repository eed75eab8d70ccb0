from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tokenizers import Tokenizer, models, pre_tokenizers

from kvantage.study import Study, load_study
from tests.runner.standin import StandIn


@pytest.fixture(autouse=True)
def standin(monkeypatch: pytest.MonkeyPatch) -> None:
    from kvantage.engines import engine_named

    def named(name: str) -> Any:
        return StandIn() if name == "standin" else engine_named(name)

    monkeypatch.setattr("kvantage.runner.prepared.engine_named", named)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A folder with a tokenizer that counts words and marks, and nothing else."""
    folder = tmp_path / "model"
    folder.mkdir()
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture
def make_study(tmp_path: Path, model: Path) -> Callable[..., Study]:
    """A small study on the stand-in; keyword arguments replace top-level fields."""

    def make(**changes: Any) -> Study:
        plain = {
            "model": str(model),
            "engine": "standin",
            "control": "none",
            "arms": {
                "none": {},
                "draft": {"speculation": {"method": "ngram", "drafts": 2}},
                "late": {"speculation": {"method": "ngram", "drafts": 3}},
            },
            "phases": {
                "probes": {"output_tokens": 8},
                "short": {"warmup": 1, "repeats": 2, "output_tokens": 24},
                "cold": {"document_tokens": 300, "concurrency": [1, 2], "output_tokens": 12},
                "repeat": {"output_tokens": 20},
            },
            **changes,
        }
        path = tmp_path / "study.yaml"
        path.write_text(yaml.safe_dump(plain, sort_keys=False))
        return load_study(path)

    return make
