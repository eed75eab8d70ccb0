"""Tables of a study: as their dictionary says, null where nothing was reported, the same in every file."""

from __future__ import annotations

import builtins
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from kvantage.analysis import analyse
from kvantage.core import Speculation, UsageError
from kvantage.frames import FORMATS, TABLES, dictionary_markdown, export, frame, names
from tests.analysis.builder import Request, StudyBuilder, drafting, short, two_arms

KINDS = {
    "text": pl.String,
    "integer": pl.Int64,
    "number": pl.Float64,
    "truth": pl.Boolean,
    "texts": pl.List(pl.String),
    "integers": pl.List(pl.Int64),
}


def study() -> StudyBuilder:
    """Two sound arms; one that failed; a void cell; a request that told nothing."""
    builder = two_arms()
    builder.arm(
        "dflash",
        Speculation(method="dflash", draft="./d", drafts=5),
        status="failed",
        reason="it died",
        log_lines=("a", 'b "quoted", with a comma'),
    )
    builder.cell("none", "sweep", "code", 3, [Request(cached=None, retractions=2, output=None, told=False)])
    builder.cell("mtp", "sweep", "code", 3, drafting(short([9.0]), 3, 2.0))
    return builder


@pytest.mark.parametrize("name", names())
def test_every_table_is_as_its_dictionary_says(name: str) -> None:
    data = study().data()
    made = frame(name, data, analyse(data))
    page = next(one for one in TABLES if one.name == name)
    assert dict(made.schema) == {column.name: KINDS[column.kind] for column in page.columns}
    if name != "settings":  # the builder's servers resolve nothing
        assert made.height > 0


def test_an_empty_study_has_every_column() -> None:
    data = StudyBuilder().arm("none").data()
    findings = analyse(data)
    for page in TABLES:
        assert frame(page.name, data, findings).columns == [column.name for column in page.columns]


def test_missing_is_null_and_zero_is_zero() -> None:
    data = study().data()
    requests = frame("requests", data, analyse(data))
    silent = requests.filter(pl.col("phase") == "sweep", pl.col("arm") == "none")
    assert silent["cached_tokens"].to_list() == [None]
    assert silent["output_tokens"].to_list() == [None]
    assert silent["retractions"].to_list() == [2]
    assert silent["error"].to_list() == [None]
    code = requests.filter(pl.col("phase") == "short", pl.col("arm") == "none")
    assert set(code["cached_tokens"].to_list()) == {0}
    assert set(code["accepted_tokens"].to_list()) == {None}


def test_chunks_are_those_of_their_requests() -> None:
    data = study().data()
    findings = analyse(data)
    requests, chunks = frame("requests", data, findings), frame("chunks", data, findings)
    assert chunks.height == len(data.requests.chunk_ns)
    for row in (0, requests.height // 2, requests.height - 1):
        mine = chunks.filter(pl.col("request") == row)
        low, high = data.requests.chunk_offsets[row], data.requests.chunk_offsets[row + 1]
        assert mine["time_ns"].to_list() == data.requests.chunk_ns[low:high].tolist()
        assert mine["chunk"].to_list() == list(range(high - low))


def test_cells_and_gates_say_what_the_findings_say() -> None:
    data = study().data()
    findings = analyse(data)
    cells, gates = frame("cells", data, findings), frame("gates", data, findings)
    of_code = (pl.col("arm") == "mtp") & (pl.col("phase") == "short") & (pl.col("workload") == "code")
    found = findings.arm("mtp").cell("short", "code", 1)[0]
    row = cells.filter(of_code).row(0, named=True)
    assert row["decode_tok_s"] == found.speed.decode.value
    assert row["acceptance_length"] == found.acceptance.length.value
    assert row["acceptance_source"] == found.acceptance.length.source
    void = cells.filter(pl.col("status") == "void")
    assert void.height > 0
    assert void["decode_tok_s"].null_count() == void.height
    assert gates.height == sum(len(reasons) for reasons in cells["reasons"].to_list())


def _read_json(path: Path) -> pl.DataFrame:
    """By Python's own reader: polars' forgets the order of the columns."""
    return pl.DataFrame(json.loads(path.read_text()), infer_schema_length=None)


@pytest.mark.parametrize("form", FORMATS)
def test_files_hold_the_same_and_the_dictionary_lies_beside_them(form: Any, tmp_path: Path) -> None:
    data = study().data()
    findings = analyse(data)
    rows = export(data, findings, tmp_path / "out", form)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(
        [*(f"{name}.{form}" for name in names()), "dictionary.md", "dictionary.json"]
    )
    page = json.loads((tmp_path / "out" / "dictionary.json").read_text())
    assert {one["name"]: one["rows"] for one in page["tables"]} == rows
    read = {"parquet": pl.read_parquet, "csv": pl.read_csv, "json": _read_json}[form]
    for name in ("requests", "boots", "cells"):
        made = frame(name, data, findings)
        back = read(tmp_path / "out" / f"{name}.{form}")
        assert back.columns == made.columns
        assert back.height == made.height
        for column in ("decode_tok_s", "cached_tokens", "reason", "arm", "block"):
            if column in made.columns:
                assert back[column].to_list() == made[column].to_list(), column
    boots = read(tmp_path / "out" / f"boots.{form}")
    lines = boots.filter(pl.col("arm") == "dflash")["log_lines"].to_list()[0]
    assert (json.loads(lines) if form == "csv" else list(lines)) == ["a", 'b "quoted", with a comma']


def test_without_polars_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = builtins.__import__

    def without(name: str, *more: Any, **named: Any) -> Any:
        if name == "polars":
            raise ImportError(name)
        return real(name, *more, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    data = study().data()
    with pytest.raises(UsageError, match=r"pip install 'kvantage\[frames\]'"):
        export(data, analyse(data), tmp_path / "out", "csv")
    assert not (tmp_path / "out").exists()


def test_the_dictionary_page_names_every_column() -> None:
    page = dictionary_markdown()
    for table in TABLES:
        assert f"## `{table.name}`" in page
        for column in table.columns:
            assert column.meaning
            assert f"| `{column.name}` | {column.kind} |" in page
