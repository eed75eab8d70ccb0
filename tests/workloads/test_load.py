"""Prompt files: every form that is read, and errors that name their file and line."""

import json
from pathlib import Path

import pytest

from kvantage.workloads.load import SHIPPED, PromptError, load_prompts, shipped_prompts


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_prompts_are_varied(name: str) -> None:
    prompts = shipped_prompts(name)
    assert len(prompts) >= 12
    assert len({p.id for p in prompts}) == len(prompts)
    assert len({json.dumps(p.messages) for p in prompts}) == len(prompts)


def test_the_three_forms(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    lines = [
        {"messages": [{"role": "user", "content": "a"}], "id": "own", "expected": 3},
        {
            "conversations": [
                {"from": "system", "value": "s"},
                {"from": "human", "value": "b"},
                {"from": "gpt", "value": "answer"},
            ]
        },
        {"prompt": "c"},
    ]
    path.write_text("\n\n".join(json.dumps(line) for line in lines))
    first, second, third = load_prompts(path)
    assert (first.id, first.expected) == ("own", 3)
    assert [m["role"] for m in second.messages] == ["system", "user"]
    assert third.messages == [{"role": "user", "content": "c"}]
    assert third.expected is None


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "not JSON"),
        ("[1]", "an object is expected"),
        ("{}", "none of"),
        ('{"prompt": ""}', "isn't empty"),
        ('{"messages": []}', "isn't empty"),
        ('{"messages": [{"content": "x"}]}', "`role`"),
        ('{"messages": [{"role": "user"}]}', "no `content`"),
        ('{"conversations": [{"from": "who", "value": "x"}]}', "`from`"),
        ('{"conversations": [{"from": "gpt", "value": "x"}]}', "no human turn"),
        ('{"id": "line-1", "prompt": "x"}', "was used before"),
    ],
)
def test_errors_name_the_file_and_the_line(tmp_path: Path, line: str, why: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"prompt": "fine"}\n' + line + "\n")
    with pytest.raises(PromptError, match=r"bad\.jsonl, line 2") as caught:
        load_prompts(path)
    assert why in str(caught.value)


def test_no_file_and_no_prompt(tmp_path: Path) -> None:
    with pytest.raises(PromptError, match="can't be read"):
        load_prompts(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(PromptError, match="no prompt"):
        load_prompts(tmp_path / "empty.jsonl")
    with pytest.raises(PromptError, match="no prompts named"):
        shipped_prompts("poems")
