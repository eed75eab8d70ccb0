"""What a dry run says of blocks, of the time, and of what the study could tell apart."""

from __future__ import annotations

import re
from collections.abc import Callable

from kvantage.cli.dry import dry_run
from kvantage.hosts.local import LocalHost
from kvantage.runner import prepare
from kvantage.study import Study
from tests.runner.test_blocks import SHORT

Make = Callable[..., Study]


def said(study: Study) -> str:
    return dry_run(prepare(study, LocalHost()))


def test_one_boot_says_what_it_cannot_tell(make_study: Make) -> None:
    text = said(make_study(phases=SHORT))
    assert "3 arms x 1 boot, one server at a time" in text
    assert "blocks of boots" not in text
    assert "`boots: 3` tells more" in text


def test_blocks_their_order_and_the_smallest_difference(make_study: Make) -> None:
    text = said(make_study(phases=SHORT, boots=3))
    assert "  1  none -> draft -> late\n  2  late -> draft -> none\n  3  none -> draft -> late" in text
    assert "what 3 boots an arm could tell apart (in four of five such studies, at 95 %)" in text
    more = said(make_study(phases=SHORT, boots=6))
    least = [float(re.findall(r"^ +([0-9.]+)%  ", each, re.MULTILINE)[0]) for each in (text, more)]
    assert least[1] < least[0]


def test_blocks_that_do_not_fit_are_named(make_study: Make) -> None:
    text = said(make_study(phases=SHORT, boots=4, budget="8m"))
    assert "of 4 blocks fit" in text
    assert "(not begun: out of time)" in text


def test_a_target_says_when_it_looks_and_the_least_time(make_study: Make) -> None:
    text = said(make_study(phases=SHORT, boots=2, until={"max_boots": 4, "margin": 0.05}))
    assert "3 arms x 2 to 4 boots" in text
    assert "from block 2 on a look after each: it ends when differences of 5.0% are decided at 95%" in text
    assert " at least) (assumed" in text
