"""A flush that is believed, and one that is not."""

import pytest

from kvantage.engines.vllm.cache import judged


@pytest.mark.parametrize(
    ("status", "told", "body", "logged", "believed", "words"),
    [
        (200, {"success": True}, '{"success":true}', 0, True, '200 {"success":true}'),
        (200, {"success": False}, '{"success":false}', 1, False, '200 {"success":false}'),
        (200, {"success": "yes"}, '{"success":"yes"}', 0, False, '200 {"success":"yes"}'),
        (200, None, "", 1, True, "200; log: Successfully reset prefix cache"),
        (200, None, "", 0, False, "200; log: nothing"),
        (500, None, "boom", 1, False, "500 boom"),
    ],
)
def test_what_is_believed(
    status: int, told: object, body: str, logged: int, believed: bool, words: str
) -> None:
    flush = judged(status, told, body, logged)
    assert (flush.believed, flush.words) == (believed, words)
