"""Answers with their ids, and scores, through the ledger and back."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path

from kvantage.core import CellKey, CounterDelta, Scores, answer_digest
from kvantage.ledger import FILE, Ledger, read_study
from tests.ledger.test_ledger import MTP, NONE, record, start

SCORES = Scores(
    (-0.5, -1.25), (-0.5, -0.25), (1, 9), (((1, -0.5),), ((9, -0.25), (2, -1.25))), {1: "a", 9: "ß"}
)


def asked(folder: Path) -> Ledger:
    ledger = Ledger.create(folder)
    phases = {"exactness@1": "fp", "closing:exactness@1": "fp"}
    ledger.begin({"phases": {"exactness": {}}}, "none", [NONE, MTP], phases, "0")
    return ledger


def test_answers_scores_and_drafts_come_back(tmp_path: Path) -> None:
    with asked(tmp_path) as ledger:
        for arm in (NONE, MTP):
            boot, _ = start(ledger, arm)
            chain = ledger.open_chain(boot, "exactness@1", "fp")
            made = record(chain)
            key = replace(made.key, phase="exactness", workload="greedy", concurrency=1, prompt_id="p")
            call = {"id": "call_1", "function": {"name": "f", "arguments": "{}"}}
            answer = replace(
                made, key=key, token_ids=(1, 2), reasoning="so", tool_calls=(call,), spec_steps=3
            )
            ledger.add_request(chain, answer).result()
            delta = CounterDelta(1.0, {"drafts": 3, "drafted_tokens": 9, "accepted_tokens": 4})
            ledger.add_window(chain, CellKey(arm.name, 0, "exactness", "greedy", 1), 0, 1, delta=delta)
            ledger.chain_complete(chain)
            broken = ledger.open_chain(boot, "exactness:tasks@1", "other")
            ledger.add_request(broken, answer).result()  # of a chain that is not in force
        ledger.add_scores(chain, "p", answer_digest("p", (1, 2)), SCORES)
    held = read_study(tmp_path).exactness
    assert [each.arm for each in held.answers] == ["none", "mtp"]
    one = held.answers[1]
    assert (one.kind, one.token_ids, one.steps) == ("greedy", (1, 2), 3)
    assert one.text.startswith("so\n")
    assert "call_1" not in one.text
    assert json.loads(one.tool_calls) == [{"name": "f", "arguments": "{}"}]
    assert held.answers[0].boot != one.boot
    assert held.scores == {one.digest: SCORES}
    assert held.spoken["mtp", 1].accepted == 4
    assert held.spoken["mtp", 1].drafts == 3


def test_a_ledger_from_before_there_were_scores_is_read_and_gone_on_with(tmp_path: Path) -> None:
    with asked(tmp_path) as ledger:
        start(ledger)
    db = sqlite3.connect(tmp_path / FILE)
    db.execute("DROP TABLE scores")
    db.commit()
    db.close()
    assert read_study(tmp_path).exactness.scores == {}
    with Ledger.resume(tmp_path) as ledger:
        boot, _ = start(ledger)
        chain = ledger.open_chain(boot, "closing:exactness@1", "fp")
        ledger.add_scores(chain, "p", "digest", SCORES)
        ledger.chain_complete(chain)
    assert read_study(tmp_path).exactness.scores == {"digest": SCORES}
