"""A run's events in a file: written as they come, read as they grow, and never in the way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvantage.cli.board import Told
from kvantage.cli.feed import FEED, Feed, Follower
from kvantage.core import LedgerError


class Seen:
    def __init__(self) -> None:
        self.told: list[Told] = []

    def __enter__(self) -> Seen:
        return self

    def __exit__(self, *_: Any) -> None:
        return None

    def take(self, told: Told) -> None:
        self.told.append(told)


def test_what_is_written_is_what_is_followed(tmp_path: Path) -> None:
    seen = Seen()
    with Feed(seen, tmp_path, "kvantage: x") as feed, Follower(tmp_path) as follower:
        assert [one.kind for one in follower.new()] == ["begin"]
        feed.on("left", seconds=3.5, basis="assumed")
        feed.on("failed", arm="a", block=0, reason="x", log_lines=("one", "two"))
        told = list(follower.new())
        assert [one.kind for one in told] == ["left", "failed"]
        assert told[0].fields == {"seconds": 3.5, "basis": "assumed"}
        assert told[1].fields["log_lines"] == ["one", "two"]
        assert [one.at for one in told] == [one.at for one in seen.told[1:]]
        assert list(follower.new()) == []


def test_half_a_line_waits_and_a_broken_one_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / FEED
    line = json.dumps({"at": 1.0, "kind": "left", "fields": {"seconds": 1, "basis": "b"}})
    path.write_text('{"at": 1, "ki\n[]\n' + line[:10])
    with Follower(tmp_path) as follower:
        assert list(follower.new()) == []
        with path.open("a") as file:
            file.write(line[10:] + "\n")
        assert [one.kind for one in follower.new()] == ["left"]


def test_a_feed_that_begins_anew_is_read_from_its_beginning(tmp_path: Path) -> None:
    with Feed(Seen(), tmp_path, "first") as feed, Follower(tmp_path) as follower:
        feed.on("warning", text="x" * 500)
        assert len(list(follower.new())) == 2
        with Feed(Seen(), tmp_path, "second"):
            told = list(follower.new())
        assert [one.fields["title"] for one in told] == ["second"]


def test_a_run_that_ends_by_an_error_says_so(tmp_path: Path) -> None:
    with pytest.raises(LedgerError), Feed(Seen(), tmp_path, "x"):
        raise LedgerError("the disk is full")
    with Follower(tmp_path) as follower:
        end = list(follower.new())[-1]
    assert (end.kind, end.fields) == ("end", {"code": 6, "error": "the disk is full"})


def test_where_nothing_can_be_written_the_view_goes_on(tmp_path: Path) -> None:
    seen = Seen()
    with Feed(seen, tmp_path / "absent", "x") as feed:
        feed.on("left", seconds=1, basis="b")
    full = Path("/dev/full")
    if full.exists():
        (tmp_path / FEED).symlink_to(full)
        with Feed(seen, tmp_path, "x") as feed:
            feed.on("left", seconds=2, basis="b")
    assert [one.kind for one in seen.told].count("left") == (2 if full.exists() else 1)
