from __future__ import annotations

import pytest

from kvantage.workloads.refusal import unsupported


@pytest.mark.parametrize(
    ("kind", "status", "said", "verdict"),
    [
        ("image", 400, "toy is not a multimodal model", True),
        ("image", 500, "image input is not supported - hint: you may need to provide the mmproj", True),
        ("image", 500, "out of memory", False),
        ("image", 200, "image", False),
        ("image", None, "the connection was reset: image", False),
        ("tool", 400, '"auto" tool choice requires --enable-auto-tool-choice', True),
        ("tool", 500, "tools param requires --jinja flag", True),
        ("json", 500, "image input is not supported", False),
        ("json", 422, "", True),
    ],
)
def test_what_a_server_cannot_do_is_told_from_what_fails(
    kind: str, status: int | None, said: str, verdict: bool
) -> None:
    assert unsupported(kind, status, said) is verdict
