"""A tokenizer for the tests: the nano models' own where it is there, else one of single bytes."""

from collections.abc import Callable
from importlib import resources

import pytest

from kvantage.workloads.tokens import TokenCounter


@pytest.fixture(scope="session")
def counter() -> TokenCounter:
    folder = resources.files("kvantage.nano") / "qwen3"
    with resources.as_file(folder) as path:
        return TokenCounter(path)


@pytest.fixture(scope="session", params=["nano", "words", "quarters"])
def count(request: pytest.FixtureRequest, counter: TokenCounter) -> Callable[[str], int]:
    """Three tokenizers that differ much: BPE, words, and four characters each."""
    counts: dict[str, Callable[[str], int]] = {
        "nano": counter.count,
        "words": lambda text: len(text.split()),
        "quarters": lambda text: len(text) // 4,
    }
    return counts[request.param]
