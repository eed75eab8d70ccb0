"""Documents: exact length, determinism, distinct prefixes, secrets where they are said to be."""

import time
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvantage.workloads.documents import (
    check_recall,
    make_document,
    recall_messages,
    recall_question,
)
from kvantage.workloads.tokens import TokenCounter


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.text(max_size=20), tokens=st.integers(180, 3000), secrets=st.integers(0, 4))
def test_length_is_exact_and_the_text_is_the_seeds(
    count: Callable[[str], int], seed: str, tokens: int, secrets: int
) -> None:
    document = make_document(seed, tokens, count, secrets)
    assert count(document.text) == tokens == document.tokens
    assert len(document.secrets) == secrets
    assert document == make_document(seed, tokens, count, secrets)


def test_a_long_document_is_made_fast(counter: TokenCounter) -> None:
    began = time.monotonic()
    document = make_document("long", 128_000, counter.count)
    assert time.monotonic() - began < 10  # about 0.6 s on one quiet core
    assert counter.count(document.text) == 128_000


def test_the_smallest_and_the_too_small(counter: TokenCounter) -> None:
    assert counter.count(make_document("small", 100, counter.count, 1).text) == 100
    with pytest.raises(ValueError, match="too few"):
        make_document("small", 99, counter.count, 0)
    with pytest.raises(ValueError, match="too few"):
        make_document("small", 120, counter.count, 4)


def test_documents_share_no_prefix(counter: TokenCounter) -> None:
    documents = [make_document(f"s{i}", 200, counter.count) for i in range(200)]
    openings = {tuple(counter.encode(document.text)[:16]) for document in documents}
    assert len(openings) == 200


def test_secrets_stand_where_they_are_said_to_stand(counter: TokenCounter) -> None:
    document = make_document("depth", 4000, counter.count, 6)
    depths = [secret.depth for secret in document.secrets]
    assert all(a < b for a, b in pairwise(depths))
    assert depths[0] > 0.02
    assert depths[-1] < 0.98
    for secret in document.secrets:
        at = document.text.index(f"The access code of {secret.name} is {secret.value}.")
        assert at / len(document.text) == pytest.approx(secret.depth)
        assert document.text.count(secret.value) == 1


def test_the_question_names_every_secret(counter: TokenCounter) -> None:
    document = make_document("ask", 600, counter.count, 3)
    question = recall_question(document)
    assert all(secret.name in question for secret in document.secrets)
    message = recall_messages(document)[0]
    assert message["role"] == "user"
    assert message["content"].startswith(document.text)
    assert message["content"].endswith(question)


def test_recall_is_exact_in_digits_and_tolerant_in_form(counter: TokenCounter) -> None:
    document = make_document("recall", 600, counter.count, 3)
    first, second, third = document.secrets
    plain = "\n".join(secret.sentence for secret in document.secrets)
    assert all(check_recall(document, plain).values())
    digits = f"{first.value[:3]} {first.value[3:]}"
    spaced = f"**{first.name}**: `{digits}`, {second.name.lower()} = {second.value}"
    assert check_recall(document, spaced) == {first.name: True, second.name: True, third.name: False}
    wrong = str(int(first.value) ^ 1)
    assert not check_recall(document, f"{first.name} is {wrong}")[first.name]
    swapped = f"{first.name}: {second.value}\n{second.name}: {first.value}"
    assert not any(check_recall(document, swapped).values())
    assert not any(check_recall(document, "").values())
    assert not check_recall(document, f"{first.name} is {first.value}7")[first.name]
    echoed = f"You ask for {first.name} and {second.name}.\n{plain}"
    assert all(check_recall(document, echoed).values())
