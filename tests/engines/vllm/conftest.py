"""A vLLM that need not be installed."""

import pytest

from kvantage.engines.vllm import checks, command
from kvantage.engines.vllm.build import Build
from tests.engines.vllm.data import CPU_BUILD


@pytest.fixture
def build(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Build:
    """The build that arms are started with: the CPU's, unless the test is given another."""
    chosen: Build = getattr(request, "param", CPU_BUILD)
    monkeypatch.setattr(command, "build_of", lambda _arm: chosen)
    monkeypatch.setattr(checks, "build_of", lambda _arm: chosen)
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    return chosen
