from __future__ import annotations

from pathlib import Path

import pytest

from kvantage.engines.llamacpp.toys import TOYS, write_toy


@pytest.fixture(scope="session")
def toys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the toy target and its draft model, as GGUF."""
    folder = tmp_path_factory.mktemp("toys")
    for name in TOYS:
        write_toy(name, folder / name)
    return folder
