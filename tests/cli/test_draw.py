"""The drawing of a board: it fits any terminal, says what is left out, and shows no escape sequence."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some
from rich.cells import cell_len

from kvantage.cli.board import Board, Told
from kvantage.cli.draw import draw

CHAINS = ["probes@1", "probes@4", "short:code", "short:prose", "waves@1", "waves@2", "waves@4"]


def board(arms: list[str], blocks: int = 1, at: float = 1000.0) -> Board:
    made = Board(at)
    boots = [[arm, block, CHAINS] for block in range(blocks) for arm in arms]
    made.take(Told("plan", {"arms": boots, "kept": [], "estimate_s": 600, "basis": "assumed"}, at))
    return made


def text(made: Board, width: int = 80, height: int = 24, now: float = 1060.0) -> list[str]:
    lines = draw(made, "kvantage: study", width, height, now)
    return ["".join(piece for piece, _ in line).rstrip() for line in lines]


def test_a_board_from_the_plan_to_a_cell() -> None:
    made = board(["none", "ngram"])
    for kind, fields in [
        ("boot", {"arm": "none", "block": 0, "log": "x"}),
        ("ready", {"arm": "none", "block": 0, "seconds": 12.0, "pool_tokens": 11904.0, "version": "1"}),
        ("chain", {"arm": "none", "block": 0, "chain": "probes@1"}),
        ("chain", {"arm": "none", "block": 0, "chain": "short:code"}),
        ("cell", {"arm": "none", "block": 0, "phase": "short", "workload": "code", "concurrency": 1,
                  "requests": 4}),
        ("live", {"tok_s": 41.25, "acceptance_length": 2.5, "in_flight": 1, "running": 1.0, "waiting": 0.0,
                  "pool_usage": 0.25}),
        ("request", {"prompt_id": "code-1", "ok": True, "error": None, "prompt_tokens": 100,
                     "cached_tokens": 64}),
        ("left", {"seconds": 90.0, "basis": "from what this study measured so far"}),
    ]:  # fmt: skip
        made.take(Told(kind, fields, 1060.0))
    assert text(made) == [
        "kvantage: study   1:00 so far   about 1:30 left",
        "time left: from what this study measured so far",
        "",
        "arm    probes  short  waves",
        "none   ✓·      ▶·     ···",
        "ngram  ··      ··     ···",
        "",
        "none: short code at 1: 1 of 4 requests, 1 in flight, last code-1",
        "41.2 tok/s   AL 2.50   cache 64 of 100 prompt tokens   running 1   waiting 0",
        "pool 25% of 11,904 tokens",
    ]


def test_what_is_not_told_is_a_dash_and_not_zero() -> None:
    made = board(["none"])
    made.take(Told("boot", {"arm": "none", "block": 0, "log": "x"}))
    made.take(Told("cell", {"arm": "none", "block": 0, "phase": "short", "workload": "code",
                            "concurrency": 1, "requests": 1}))  # fmt: skip
    made.take(Told("request", {"prompt_id": "a", "ok": True, "error": None, "prompt_tokens": 9,
                               "cached_tokens": None}))  # fmt: skip
    assert "- tok/s   AL -   cache -   running -   waiting -   pool -" in text(made)


def test_several_boots_say_which_block_is_at_work() -> None:
    made = board(["none", "mtp"], blocks=3)
    made.take(Told("boot", {"arm": "none", "block": 0, "log": "x"}))
    made.take(Told("stopped", {"arm": "none", "block": 0}))
    made.take(Told("boot", {"arm": "mtp", "block": 1, "log": "x"}))
    shown = text(made)
    assert "block 2 of 3" in shown[0]
    assert shown[3].split() == ["arm", "boots", "probes", "short", "waves"]
    assert shown[4].split()[:2] == ["none", "✓··"]
    assert shown[5].split()[:2] == ["mtp", "·▶·"]


def test_a_block_that_is_added_later_is_known() -> None:
    made = board(["none", "mtp"])
    made.take(Told("block", {"number": 1, "most": 4, "boots": [["mtp", 1, CHAINS], ["none", 1, CHAINS]]}))
    assert made.blocks == 4
    assert made.boots["mtp"][1].chains["waves@1"] == "waiting"


def test_what_is_told_of_several_arms_stands_once() -> None:
    made = board(["none", "mtp"])
    for arm in ("none", "mtp", "mtp"):
        made.take(Told("warning", {"text": f"arm {arm}: it is old"}))
        made.take(Told("warning", {"text": f"{arm} was slow"}))
    assert made.notes == ["none was slow", "arms none, mtp: it is old", "mtp was slow"]


def test_many_arms_are_folded_around_the_one_at_work() -> None:
    made = board([f"arm-{number}" for number in range(40)])
    made.take(Told("boot", {"arm": "arm-20", "block": 0, "log": "x"}))
    shown = text(made)
    assert any(line.startswith("arm-20 ") for line in shown)
    assert any("more above" in line for line in shown)
    assert any("more below" in line for line in shown)
    assert len(shown) <= 24


def test_a_failed_arm_a_skipped_chain_and_one_that_was_kept() -> None:
    made = board(["none", "mtp"])
    made.hold([("older", 0, "short:code")])
    made.take(Told("boot", {"arm": "mtp", "block": 0, "log": "x"}))
    made.take(Told("skip", {"arm": "mtp", "block": 0, "chain": "waves@4", "phase": "cold",
                            "workload": "documents@4", "reason": "no time"}))  # fmt: skip
    made.take(Told("chain", {"arm": "mtp", "block": 0, "chain": "short:code"}))
    made.take(Told("failed", {"arm": "mtp", "block": 0, "reason": "it died", "log_lines": ["Error: x"]}))
    shown = text(made)
    assert next(line for line in shown if line.startswith("mtp")).split() == ["mtp", "··", "✗·", "··–"]
    assert next(line for line in shown if line.startswith("older")).split() == ["older", "✓"]
    assert made.failures == [("mtp failed: it died", ("Error: x",))]


NAMES = some.text(some.characters(exclude_categories=("Cs",)), min_size=1, max_size=60)


@given(
    arms=some.lists(NAMES, min_size=1, max_size=30, unique=True),
    blocks=some.integers(1, 12),
    notes=some.lists(some.text(max_size=300), max_size=8),
    width=some.integers(20, 220),
    height=some.integers(6, 60),
)
def test_it_fits_whatever_it_is_told(
    arms: list[str], blocks: int, notes: list[str], width: int, height: int
) -> None:
    made = board(arms, blocks)
    made.take(Told("boot", {"arm": arms[-1], "block": blocks - 1, "log": "x"}))
    for note in notes:
        made.take(Told("warning", {"text": note}))
    lines = draw(made, "kvantage: study", width, height, 2000.0)
    assert len(lines) <= height
    for line in lines:
        shown = "".join(piece for piece, _ in line)
        assert cell_len(shown) <= width
        assert "\x1b" not in shown
        assert "\n" not in shown
