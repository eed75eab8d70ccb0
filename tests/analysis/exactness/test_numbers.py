"""The arithmetic of exactness against figures that are known, and its properties."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from kvantage.analysis.exactness.divergence import Pair, first_divergence
from kvantage.analysis.exactness.drafted import drafting_of
from kvantage.analysis.exactness.rescoring import describe_gaps, more_p, noise_floor, power_at
from kvantage.analysis.exactness.sampling import compare_prefixes, detectable_effect, holm
from kvantage.analysis.exactness.streams import DEFECT, check_streams
from kvantage.analysis.exactness.survival import compare_survival, square, survival_curve, survival_power
from kvantage.analysis.exactness.tasks import compare_tasks, mcnemar_p, paired_interval
from kvantage.core import Answer, Scores, Spoken, answer_digest
from tests.analysis.exactness.toy import PROMPTS, Toy
from tests.analysis.test_cases_arithmetic import case

ids = st.lists(st.integers(0, 3), max_size=12)


@given(ids, ids)
def test_the_first_divergence_is_where_the_common_beginning_ends(first: list[int], second: list[int]) -> None:
    place = first_divergence(first, second)
    if place is None:
        assert first == second
    else:
        assert first[:place] == second[:place]
        assert first[place : place + 1] != second[place : place + 1]
    assert place == first_divergence(second, first)


def answer(text: str = "x", tokens: tuple[int, ...] | None = (1,), **more: object) -> Answer:
    made = Answer("arm", 0, 0, "greedy", 1, "p", 0, True, content=text, token_ids=tokens)
    return replace(made, **more)  # type: ignore[arg-type]


def test_survival_is_kaplan_and_meiers() -> None:
    """Five pairs: apart after 2 and 4 tokens, the same to their ends of 3, 5 and 5."""
    pairs = [
        Pair(str(number), 1, "on-off", answer(), answer(), position, length)
        for number, (position, length) in enumerate([(1, 9), (None, 3), (3, 9), (None, 5), (None, 5)])
    ]
    curve = survival_curve(pairs, "on-off", 1)
    assert curve is not None
    at = dict(zip(curve.places, curve.share, strict=True))
    assert at[2] == pytest.approx(4 / 5)
    assert at[4] == pytest.approx(4 / 5 * 2 / 3)
    assert all(
        low <= share <= high for low, share, high in zip(curve.low, curve.share, curve.high, strict=True)
    )


def test_pairs_that_never_part_are_a_flat_curve() -> None:
    curve = survival_curve([Pair("p", 1, "off-off", answer(), answer(), None, 7)], "off-off", 1)
    assert curve is not None
    assert (curve.places, curve.share) == ((0, 7), (1.0, 1.0))
    assert survival_curve([], "off-off", 1) is None


def squares(off: Toy, on: Toy) -> list:
    return [
        square(
            [each for each in off.answers if each.prompt_id == prompt],
            [each for each in on.answers if each.prompt_id == prompt],
            "tokens",
        )
        for prompt in PROMPTS
    ]


def test_the_permutation_test_holds_its_level_and_finds_a_change() -> None:
    null = [
        compare_survival(
            squares(Toy().ask("none", 3, seed=n), Toy().ask("arm", 2, seed=n)), permutations=199
        ).p
        for n in range(40)
    ]
    assert sum(p < 0.05 for p in null) <= stats.binom.ppf(0.999, 40, 0.05)
    changed = squares(Toy().ask("none", 3), Toy().ask("arm", 2, wrong=0.01))
    assert compare_survival(changed).p < 0.01
    same = squares(Toy(ties=0).ask("none", 3), Toy(ties=0).ask("arm", 2))
    assert compare_survival(same).p == 1.0


def test_power_rises_with_the_rate() -> None:
    power = survival_power(squares(Toy().ask("none", 3), Toy().ask("arm", 2)), (0.0001, 0.003, 0.05))
    assert power[0.0001] < 0.3 < power[0.05]
    assert power[0.05] > 0.95


def test_the_floor_is_a_quantile_with_its_interval() -> None:
    gaps = np.concatenate([np.zeros(9_980), np.linspace(0.01, 0.2, 20)])
    floor = noise_floor(gaps, 0.999)
    assert floor is not None
    assert floor.low <= floor.gap <= (floor.high or 1)
    assert floor.gap == pytest.approx(0.11, abs=0.011)
    few = noise_floor(np.array([0.0] * 99 + [0.1]), 0.999)
    assert few is not None
    assert few.high is None
    assert few.limit == 0.1
    assert noise_floor(np.empty(0), 0.999) is None


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_floors_interval_covers_the_true_quantile(seed: int) -> None:
    """Checked together with its neighbours: over many seeds 19 of 20 cover; one alone may miss."""
    rng = np.random.default_rng(seed)
    hits = 0
    for _ in range(40):
        floor = noise_floor(rng.exponential(size=6000), 0.999)
        assert floor is not None
        assert floor.high is not None
        hits += floor.low <= -np.log(0.001) <= floor.high
    assert hits >= stats.binom.ppf(1e-6, 40, 0.95)


def test_fishers_test_one_sided_and_the_power_of_counting() -> None:
    assert more_p(0, 100, 0, 100) == 1.0
    assert more_p(8, 1000, 0, 1000) == pytest.approx(stats.fisher_exact([[8, 992], [0, 1000]], "greater")[1])
    toy = Toy(ties=0, length=500).ask("arm", 1)
    floor = noise_floor(np.zeros(10_000), 0.999)
    assert floor is not None
    gaps = describe_gaps("arm", toy.answers, toy.scores, np.zeros(10_000), floor)
    assert gaps is not None
    assert (gaps.tokens, gaps.over, gaps.structural) == (10_000, 0, 0)
    power = power_at(gaps, (0.0001, 0.001, 0.003))
    assert [one.structural for one in power] == pytest.approx([1 - math.exp(-n) for n in (1, 10, 30)])
    assert power[0].counted < power[1].counted < power[2].counted
    assert power[2].counted > 0.99


def test_mcnemar_and_tango() -> None:
    assert mcnemar_p(0, 0) == 1.0
    assert mcnemar_p(1, 9) == pytest.approx(2 * stats.binom.cdf(1, 10, 0.5))
    low, high = paired_interval(0, 0, 40)
    z = float(stats.norm.ppf(0.95))
    assert high == pytest.approx(z * z / (40 + z * z), abs=1e-6)
    assert low == pytest.approx(-high, abs=1e-9)
    low, high = paired_interval(9, 3, 44, confidence=0.95)  # symmetric under exchange of the arms
    assert (-high, -low) == pytest.approx(paired_interval(3, 9, 44, confidence=0.95))
    assert low < 6 / 44 < high


@settings(deadline=None)
@given(st.integers(1, 200), st.data())
def test_tangos_interval_holds_the_difference_and_lies_in_range(items: int, data: st.DataObject) -> None:
    gained = data.draw(st.integers(0, items))
    lost = data.draw(st.integers(0, items - gained))
    low, high = paired_interval(gained, lost, items)
    assert -1 <= low <= (gained - lost) / items <= high <= 1


def task(name: str, right: bool, ok: bool = True) -> Answer:
    return answer(
        prompt_id=name,
        kind="tasks",
        ok=ok,
        error="" if ok else "timed out",
        checks={"status": "pass" if right else "fail"},
    )


def test_a_time_out_is_a_wrong_answer_and_equal_totals_hide_nothing() -> None:
    off = [task(str(n), True) for n in range(199)] + [task("199", False)]
    on = [task("0", True, ok=False), *(task(str(n), True) for n in range(1, 200))]
    found = compare_tasks("arm", on, off, 0.05)
    assert found is not None
    assert (found.right, found.control_right) == (199, 199)
    assert (found.gained, found.lost) == (("199",), ("0",))
    assert found.equivalent
    assert compare_tasks("arm", [], off, 0.05) is None


def test_188_of_200_twice_supports_5_points_and_not_3_unpaired_but_pairs_tell_more() -> None:
    given_, wanted = case("lossless-tost-gsm8k")
    right, total = map(int, given_["gsm8k"]["a"].split("/"))
    wrong = total - right
    off = [task(str(n), n >= wrong) for n in range(total)]
    apart = [task(str(n), n < right) for n in range(total)]
    assert wanted["equivalent_at_5pp"]
    same = compare_tasks("arm", off, off, 0.03)
    assert same is not None
    assert same.equivalent  # no discordant pair: the paired interval is narrower than the unpaired one
    most = compare_tasks("arm", apart, off, 0.03)
    assert most is not None
    assert len(most.gained) == len(most.lost) == wrong
    assert not most.equivalent  # the same totals, all of them discordant


def samples(rng: np.random.Generator, shift: float, number: int = 200, prompt: str = "p") -> list[Answer]:
    base = np.array([0.4, 0.3, 0.2, 0.05, 0.05])
    moved = base * (1 - shift) + shift * np.eye(5)[2]
    made = []
    for each in range(number):
        tokens = (int(rng.choice(5, p=base)), *map(int, rng.choice(5, size=3, p=moved)))
        made.append(answer(tokens=tokens, prompt_id=prompt, repeat=each, kind="sampling"))
    return made


def test_a_wrong_acceptance_rule_shows_in_the_counts_and_an_honest_one_does_not() -> None:
    rng = np.random.default_rng(7)
    found = compare_prefixes(samples(rng, 0.3), samples(rng, 0.0), 499)
    assert found[0].p_holm <= 0.01
    assert found[0].place >= 1
    assert found[0].token == 2
    assert found[0].distance > found[0].expected
    quiet = [compare_prefixes(samples(rng, 0.0), samples(rng, 0.0), 199)[0].p for _ in range(40)]
    assert sum(p <= 0.05 for p in quiet) <= stats.binom.ppf(0.999, 40, 0.05)


def test_holm_is_step_down() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []
    assert detectable_effect(400, 4) < detectable_effect(100, 4)


def test_a_stream_that_drops_words_is_the_detokenizers_fault() -> None:
    """MTP streamed drops words at quote boundaries; not streamed, and without speculation, it is clean."""
    given_, wanted = case("sse-stream-text-corruption")
    assert "clean" in given_["observed"]["MTP non-stream"]
    whole = [answer('he said "go on" and went', (1, 2, 3))]
    broken = check_streams("mtp", 1, [answer("he said  and went", (1, 2, 3), kind="stream")], whole)
    assert broken.faulty == ("p",)
    assert broken.words.startswith(wanted["verdict"])
    assert wanted["verdict"] == DEFECT
    assert broken.example is not None
    clean = check_streams("none", 1, [answer('he said "go on" and went', (1, 2, 3), kind="stream")], whole)
    assert clean.faulty == clean.unlike == ()
    other = check_streams("mtp", 1, [answer("another", (1, 9), kind="stream")], whole)
    assert other.compared == 0
    untold = check_streams("mtp", 1, [answer("another", None, kind="stream")], whole)
    assert untold.unlike == ("p",)


def test_a_digest_names_prompt_and_tokens() -> None:
    assert answer_digest("p", (1, 2)) == answer_digest("p", (1, 2))
    assert len({answer_digest("p", (1, 2)), answer_digest("q", (1, 2)), answer_digest("p", (12,))}) == 3
    assert Scores((-0.5, -1.0), (-0.5, -0.25), (1, 2)).gaps == (0.0, 0.75)
    with pytest.raises(ValueError, match="one chosen and one best"):
        Scores((-0.5,), (), ())


def test_a_log_window_shows_drafting_where_counters_tell_steps_alone() -> None:
    """SGLang 0.5.17 counts verify steps, and tells acceptance in its log only."""
    spoken = Spoken(drafts=1107.0, length=2.3)
    found = drafting_of((), spoken, speculates=True)
    assert found.fault is None
    assert found.source == "log window"
    assert found.length == pytest.approx(2.3)
    dead = drafting_of((), Spoken(drafts=1107.0, length=1.003), speculates=True)
    assert "dead drafter" in (dead.fault or "")
    assert "nothing that the server reports" in (
        drafting_of((), Spoken(drafts=1107.0), speculates=True).fault or ""
    )
