import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from kvantage.study import load_study, packaged_study
from kvantage.study.schema import text
from kvantage.study.source import parse_source, read_source
from tests.study.base import BASE, ROOT, changed, read

SCHEMA = ROOT / "schema" / "study.schema.json"
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
PACKAGED = [packaged_study("quickstart"), packaged_study("quickstart-amx")]


@pytest.fixture(scope="module")
def schema() -> Draft202012Validator:
    made: dict[str, Any] = json.loads(SCHEMA.read_text())
    Draft202012Validator.check_schema(made)
    return Draft202012Validator(made)


def test_the_schema_is_in_step_with_the_models() -> None:
    assert SCHEMA.read_text() == text(), "run: python -m kvantage.study.schema schema/study.schema.json"


def test_every_field_is_described(schema: Draft202012Validator) -> None:
    whole = schema.schema
    assert isinstance(whole, dict)
    groups = {"study": whole, **whole["$defs"]}
    for name, group in groups.items():
        for field, about in group.get("properties", {}).items():
            inner = about.get("anyOf", [about])[0]
            target = whole["$defs"].get(inner.get("$ref", "").rpartition("/")[2], {})
            said = [about.get("description"), inner.get("description"), target.get("description")]
            assert any(said), f"{name}.{field}"


@pytest.mark.parametrize("path", [*EXAMPLES, *PACKAGED], ids=lambda path: path.stem)
def test_shipped_studies_agree_with_the_schema(path: Path, schema: Draft202012Validator) -> None:
    schema.validate(read_source(path).value)
    schema.validate(load_study(path, paths_must_exist=False).to_json())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("model: org/target", "model: {path: org/target, revision: 5e3}"),
        ("engine: fast", "engine: {name: fast, python: ./x, deep: {a: [1]}}"),
        ("common:\n  context_length: 4096", "common:"),
        ("  none: {}", "  none:"),
        ("  none: {}", "  none: {speculation: none, env: {A: 1, B: b}, flags: {x: , y: true}}"),
        ("{method: mtp, drafts: 3}", "{mtp: 3}"),
        ("{method: mtp, drafts: 3}", "{dflash: {draft: org/x, drafts: 3, draft_kv_dtype: bf16}}"),
        ("  probes: {}", "  probes:"),
        ("document_tokens: 2k", "document_tokens: 2_000, concurrency: 2"),
        ("context_length: 4096", "context_length: 4Ki\n  pool_bytes: 96MiB\n  page_size: 16"),
        (
            "control: none",
            "control: {arm: none}\nrecord: []\nbudget: 1h30m\nboots: 1\nboot: {ready_within: 9m}",
        ),
    ],
)
def test_short_forms_are_in_the_schema(old: str, new: str, schema: Draft202012Validator) -> None:
    typed = changed(old, new)
    read(typed)
    schema.validate(parse_source(typed, "study.yaml").value)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("engine: fast", "engin: fast"),
        ("control: none\n", ""),
        ("{method: mtp, drafts: 3}", "mtp"),
        ("drafts: 3", "draft: 3, draughts: 2"),
        ("  cold: {", "  colt: {"),
        ("context_length: 4096", "context_length: 256k"),
        ("context_length: 4096", "pool_bytes: 2GB"),
        ("context_length: 4096", "kv_dtype: fp8-e4m3"),
        ("context_length: 4096", "memory_fraction: 90"),
        ("maximise", "maximize"),
    ],
)
def test_an_editor_sees_the_same_mistakes(old: str, new: str, schema: Draft202012Validator) -> None:
    assert not schema.is_valid(parse_source(changed(old, new), "study.yaml").value)
    assert schema.is_valid(parse_source(BASE, "study.yaml").value)
