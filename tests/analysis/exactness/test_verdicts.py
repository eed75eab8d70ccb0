"""What the judge says of servers whose truth is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvantage.analysis.exactness import EXACTNESS_CLASSES, at_worst, worse
from kvantage.analysis.exactness.judge import ArmExactness, Asked, Exactness, judge
from kvantage.core import ExactnessData, Scores
from tests.analysis.exactness.toy import PROMPTS, Toy

ASKED = Asked("none", ("none", "arm"), {"none": False, "arm": True})


def judged(data: ExactnessData, asked: Asked = ASKED) -> tuple[Exactness, ArmExactness]:
    found = judge(data, asked)
    assert found is not None
    arm = found.of("arm")
    assert arm is not None
    return found, arm


def test_the_same_answers_everywhere_are_bit_identical_and_say_on_how_much() -> None:
    toy = Toy(ties=0).ask("none", 2).ask("none", 1, boot=1, kind="across").ask("arm", 2)
    found, arm = judged(toy.data())
    assert arm.words == "bit-identical on 20 prompts, 4,000 tokens"
    assert {each.kind: (each.pairs, each.identical) for each in found.control_pairs} == {
        "off-off": (20, 20),
        "off-off across boots": (40, 40),
    }
    assert found.floor is not None
    assert found.floor.gap == 0
    assert found.floor.limit == 1e-4


def test_an_arm_as_noisy_as_the_control_is_consistent_with_its_floor() -> None:
    toy = Toy().ask("none", 3).ask("arm", 2)
    found, arm = judged(toy.data())
    assert arm.cls == "consistent with the off-vs-off floor"
    assert arm.words.startswith("consistent with the off-vs-off floor (n = 20 prompts, epsilon = ")
    assert found.floor is not None
    assert found.floor.limit <= 0.125


def test_a_still_control_and_an_arm_that_flips_at_near_ties_is_near_tie_flips_only() -> None:
    toy = Toy(gaps=(0.0, 0.0625)).ask("none", 2).ask("arm", 2, seed=1)
    still = Toy(gaps=(0.0, 0.0625)).ask("none", 3, still=True)
    toy.answers = [each for each in toy.answers if each.arm == "arm"] + still.answers
    # the control's floor: some of its own tokens were scored one ULP below the best
    for digest, scores in still.scores.items():
        gaps = [0.0625 if place % 60 == 0 else 0.0 for place in range(len(scores.chosen))]
        toy.scores[digest] = replace(
            scores, best=tuple(c + g for c, g in zip(scores.chosen, gaps, strict=True))
        )
    _, arm = judged(toy.data())
    assert (arm.cls, arm.words) == ("near-tie flips only", "near-tie flips only")
    assert "exact ties" in arm.detail
    assert {one.cls for one in arm.worst} <= {"exact tie", "near tie"}


def test_wrong_tokens_are_structural_and_named_by_prompt_and_token() -> None:
    toy = Toy(length=500).ask("none", 2).ask("arm", 2, wrong=0.001)
    _, arm = judged(toy.data())
    assert arm.cls == "differs"
    worst = arm.worst[0]
    assert worst.cls == "structural"
    assert worst.gap == 2.0
    assert worst.ulps == 16.0
    assert arm.words == f"differs: structural at prompt {worst.prompt_id}, token {worst.position}"
    assert worst.arm_says.token != worst.control_says.token
    own = next(each for each in toy.answers if each.prompt_id == worst.prompt_id and each.arm == "none")
    assert own.token_ids is not None
    assert worst.before.endswith(f" {own.token_ids[worst.position - 1]}")
    assert worst.control_says.token == own.token_ids[worst.position]


@pytest.mark.parametrize(
    ("data", "asked", "words"),
    [
        (Toy().ask("arm", 2).data(), ASKED, "void: no control: the control did not answer"),
        (
            Toy().ask("none", 1).ask("arm", 2).data(),
            ASKED,
            "void: no control: the control answered each prompt once, and cannot be compared with itself",
        ),
        (
            Toy(ties=0).ask("none", 2).ask("arm", 2, drafts=False).data(),
            ASKED,
            "void: dead drafter (acceptance length 1.00 <= 1.01 with drafts > 0): the comparison could not "
            "have failed",
        ),
        (
            Toy(ties=0).ask("none", 2).ask("arm", 2).data(),
            replace(ASKED, simulated="simulated: acceptance that is made up"),
            "void: simulated: acceptance that is made up",
        ),
    ],
)
def test_what_could_not_have_failed_is_void(data: ExactnessData, asked: Asked, words: str) -> None:
    assert judged(data, asked)[1].words == words


def changed(data: ExactnessData, **changes: object) -> ExactnessData:
    made = tuple(replace(each, **changes) if each.arm == "arm" else each for each in data.answers)  # type: ignore[arg-type]
    return replace(data, answers=made)


def test_drafts_that_did_not_move_are_void() -> None:
    data = Toy(ties=0).ask("none", 2).ask("arm", 2).data()
    still = changed(data, drafted=0.0, accepted=0.0, steps=0.0)
    assert (
        judged(still)[1].words == "void: speculation is on, and no draft was counted: the drafts did not move"
    )
    untold = changed(data, drafted=None, accepted=None, steps=None)
    assert "nothing that the server reports shows that it drafts" in judged(untold)[1].words


def test_empty_text_is_void_and_one_empty_answer_leaves_its_prompt_out() -> None:
    data = Toy(ties=0).ask("none", 2).ask("arm", 2).data()
    empty = changed(data, content="", token_ids=())
    assert judged(empty)[1].words.startswith("void: empty text")
    one = tuple(
        replace(each, content="", token_ids=()) if (each.arm, each.prompt_id) == ("arm", PROMPTS[0]) else each
        for each in data.answers
    )
    _, arm = judged(replace(data, answers=one))
    assert arm.words == "bit-identical on 19 prompts, 3,800 tokens"
    assert arm.at[0].left_out == (PROMPTS[0],)


def test_reasoning_alone_is_an_answer() -> None:
    """Of five prompts three were once void because only `content` was kept."""
    data = changed(Toy(ties=0).ask("none", 2).ask("arm", 2).data(), content="", reasoning="so ...")
    assert judged(data)[1].cls == "bit-identical"


def test_logprobs_of_exactly_nought_are_placeholders() -> None:
    toy = Toy(ties=0.02).ask("none", 2).ask("arm", 2)
    zero = {
        digest: Scores((0.0,) * len(each.chosen), (0.0,) * len(each.best), each.best_id)
        for digest, each in toy.scores.items()
    }
    _, arm = judged(toy.data(scores=zero))
    assert arm.words.startswith("void: the scores are logprobs of exactly 0.0")


def test_without_scores_only_the_control_can_excuse_a_difference() -> None:
    toy = Toy().ask("none", 3).ask("arm", 2)
    _, arm = judged(toy.data(scores={}, no_scores="the server tells no logprobs of a prompt"))
    assert arm.cls == "consistent with the off-vs-off floor"
    assert "epsilon = not measured: the server tells no logprobs" in arm.words
    loud = Toy(length=500).ask("none", 2, still=True).ask("arm", 2, wrong=0.01)
    _, arm = judged(loud.data(scores={}, no_scores="untold"))
    assert arm.words.startswith("void: the answers part sooner than the control's own")


def test_a_divergence_without_a_score_is_not_called_a_near_tie() -> None:
    toy = Toy(gaps=(0.0,)).ask("none", 3, still=True).ask("arm", 2)
    assert judged(toy.data())[1].cls == "near-tie flips only"
    own = {each.digest for each in toy.answers if each.arm == "none"}
    unscored = {digest: each for digest, each in toy.scores.items() if digest in own}
    one = next(iter(digest for digest in toy.scores if digest not in own))
    _, arm = judged(toy.data(scores={**unscored, one: toy.scores[one]}))
    assert arm.cls == "void"
    assert "divergences have no score" in arm.words


def test_texts_are_compared_where_no_ids_are_told() -> None:
    data = Toy(ties=0).ask("none", 2).ask("arm", 2).data()
    found, arm = judged(changed(data, token_ids=None))
    assert found.unit == "characters"
    assert arm.words.startswith("bit-identical on 20 prompts, ")
    assert arm.words.endswith(" characters")
    assert "character by character" in found.notes[0]


def test_the_order_of_classes() -> None:
    assert EXACTNESS_CLASSES[0] == "bit-identical"
    assert EXACTNESS_CLASSES[-1] == "void"
    assert worse("near-tie flips only", "differs") == "differs"
    assert at_worst("bit-identical", "near-tie flips only")
    assert not at_worst("differs", "near-tie flips only")
    assert not at_worst("void", "differs")


def test_a_control_that_drafts_is_none() -> None:
    data = Toy(ties=0).ask("none", 2).ask("arm", 2).data()
    drafting = tuple(replace(each, drafted=12.0) for each in data.answers)
    assert judged(replace(data, answers=drafting))[1].words == "void: no control: the control drafts"


def test_an_arm_that_drafts_undeclared_is_taken_for_what_it_does() -> None:
    data = Toy(ties=0).ask("none", 2).ask("arm", 2).data()
    undeclared = replace(ASKED, speculates={})
    assert judged(data, undeclared)[1].cls == "bit-identical"
    dead = changed(data, accepted=0.0)
    assert judged(dead, undeclared)[1].words.startswith("void: dead drafter")
    quiet = changed(data, drafted=None, accepted=None, steps=None)
    assert judged(quiet, undeclared)[1].cls == "bit-identical"  # no speculation: another configuration


def test_nobody_asked_is_no_finding() -> None:
    assert judge(ExactnessData(), ASKED) is None
