"""The exactness set: twenty prompts of eight kinds that make a model write at length, and items of a task set
that have one right answer.
"""

from __future__ import annotations

import random
from importlib import resources

from kvantage.workloads.documents import Document, check_recall, make_document, recall_messages
from kvantage.workloads.load import Prompt, parse_prompts
from kvantage.workloads.probes import Judgement, Probe, json_probe, sum_probe, tool_probe

LONG_RECALLS = 2
LONG_RECALL_TOKENS = 1500
TASK_KINDS = ("arithmetic", "json", "tool", "recall")
TASK_DOCUMENT_TOKENS = 400


def exactness_prompts() -> list[Prompt]:
    """The set that ships: code, prose, arithmetic, JSON, tools, reasoning, translation and long recall.

    The same text for every model: the two archives of the long recall are measured by a rough count.
    """
    path = resources.files("kvantage.workloads") / "prompts" / "exactness.jsonl"
    prompts = parse_prompts(path.read_text("utf-8"), "exactness.jsonl")
    for number in range(LONG_RECALLS):
        archive = make_document(f"exactness:{number}", LONG_RECALL_TOKENS, rough_tokens, 6)
        prompts.append(Prompt(f"recall-{number + 1}", recall_messages(archive)))
    return prompts


def rough_tokens(text: str) -> int:
    """Tokens of a text as no tokenizer counts them: four characters each, so that a text fits every model."""
    return -(-len(text) // 4)


def tasks(of_each: int, seed: str = "exactness") -> list[Probe]:
    """`of_each` items of every kind of `TASK_KINDS`: sums, JSON to repeat, tool calls, secrets to recall."""
    made: list[Probe] = []
    for kind, maker in (("arithmetic", sum_probe), ("json", json_probe), ("tool", tool_probe)):
        rng = random.Random(f"{seed}:{kind}")
        made += [maker(rng, f"task-{kind}-{number + 1}") for number in range(of_each)]
    return made


def recall_tasks(of_each: int, seed: str = "exactness") -> list[tuple[str, Document]]:
    """`of_each` short archives with one secret each, by name."""
    return [
        (
            f"task-recall-{number + 1}",
            make_document(f"{seed}:task:{number}", TASK_DOCUMENT_TOKENS, rough_tokens, 1),
        )
        for number in range(of_each)
    ]


def judge_recall(document: Document, text: str) -> Judgement:
    """Right when every secret of the archive is given back."""
    found = check_recall(document, text)
    lost = [name for name, right in found.items() if not right]
    return Judgement("fail" if lost else "pass", f"lost {', '.join(lost)}" if lost else "every secret")
