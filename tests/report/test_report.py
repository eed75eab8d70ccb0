"""Reports: valid, complete, in the right order, and harmless whatever the server said."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from rich.console import Console

from kvantage.analysis import analyse
from kvantage.core import Speculation
from kvantage.core.columns import SkippedPhase
from kvantage.report import (
    report,
    report_json,
    report_markdown,
    report_schema,
    show_terminal,
    write_json,
    write_markdown,
)
from kvantage.report.escape import fenced, markdown, plain
from tests.analysis.builder import STUDY, Request, StudyBuilder, drafting, short, two_arms
from tests.analysis.test_ladder import rung
from tests.analysis.test_sweep import loop

ROOT = Path(__file__).parents[2]
NOTICE = "The instrument on a toy model. Not advice for a model of your own."
EVIL = "</script><img src=x onerror=alert(1)> | `rm` [x](javascript:1) ![i](http://e) @all \x1b[31m\nnext"


def toy(**more: Any) -> StudyBuilder:
    return two_arms({**STUDY, "notice": NOTICE, **more})


def full() -> StudyBuilder:
    """Two sound arms, one that failed, something skipped, and something void."""
    builder = toy()
    builder.arm(
        "dflash",
        Speculation(method="dflash", draft="./d", drafts=5),
        status="failed",
        reason="the server ended with status 1 while it booted",
        log_lines=("RuntimeError: no kernel ```", EVIL),
    )
    builder.skipped.append(SkippedPhase("mtp", 0, "probes", "image", "the model has no eyes"))
    return builder


def valid(data: Any) -> dict[str, Any]:
    found = json.loads(report_json(analyse(data)))
    jsonschema.validate(found, report_schema(), cls=jsonschema.Draft202012Validator)
    assert isinstance(found, dict)
    return found


def test_the_schema_is_a_schema_and_ships_as_it_is_published() -> None:
    jsonschema.Draft202012Validator.check_schema(report_schema())
    published = json.loads((ROOT / "schema" / "report.schema.json").read_text(encoding="utf-8"))
    assert published == report_schema()


@pytest.mark.parametrize("builder", [full(), toy(), StudyBuilder({}), StudyBuilder().arm("none")])
def test_reports_are_valid(builder: StudyBuilder) -> None:
    valid(builder.data())


def _strict(schema: Any) -> Any:
    """The schema with every object closed, so that an undescribed field is found."""
    if isinstance(schema, list):
        return [_strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: _strict(value) for name, value in schema.items()}
    if "properties" in closed and "required" in closed and "additionalProperties" not in closed:
        closed["additionalProperties"] = False
    return closed


def test_every_field_is_described() -> None:
    found = valid(full().data())
    jsonschema.validate(found, _strict(report_schema()), cls=jsonschema.Draft202012Validator)


def test_arms_by_name_with_what_others_build_on() -> None:
    found = valid(full().data())
    assert list(found["arms"]) == ["none", "mtp", "dflash"]
    arm = found["arms"]["mtp"]
    assert arm["kv_pool"]["tokens"] == {"value": 8500, "unit": "tokens", "source": "log window"}
    assert arm["kv_pool"]["bytes"]["value"] == 8500 * 1024
    assert arm["boots"][0]["provenance"]["command"] == ["toy", "serve"]
    assert arm["sessions"]["1x"]["sessions"]["value"] == 4.1
    cell = next(each for each in arm["cells"] if each["phase"] == "short" and each["workload"] == "code")
    assert cell["status"] == "ok"
    assert cell["decode_tok_s"]["value"] == pytest.approx(30.0)
    for name in ("e2e_tok_s", "ttft_s", "acceptance_length", "cached_tokens", "expected_cached_tokens"):
        assert "value" in cell[name]
    assert found["trades"]["mtp"]["sentence"].startswith("costs 5.6 % of the pool")
    assert found["verdict"]["arm"] == "mtp"
    assert found["arms"]["dflash"]["status"] == "failed"
    assert found["arms"]["dflash"]["kv_pool"]["tokens"] == {"missing": "no boot came up"}
    assert found["schema_version"].startswith("1.")


def test_a_void_cell_has_reasons_a_finding_and_no_speed() -> None:
    found = valid(full().data())
    void = [cell for cell in found["arms"]["mtp"]["cells"] if cell["status"] == "void"]
    assert [(cell["phase"], cell["concurrency"]) for cell in void] == [("repeat", 4)]
    assert void[0]["reasons"][0].startswith("cache_warm: 4 of 4")
    assert void[0]["finding"].startswith("evicted: 4 of 4")
    for name in ("decode_tok_s", "steady_tok_s", "e2e_tok_s", "ttft_s"):
        assert void[0][name]["missing"].startswith("void: cache_warm")
    assert void[0]["cached_tokens"]["value"] == 0


def _numbers(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _numbers(each, (*path, name))
    elif isinstance(value, list):
        for each in value:
            yield from _numbers(each, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value


def test_every_number_has_a_unit_and_a_source() -> None:
    keys = {"block", "concurrency", "repeat", "stream", "after_concurrency", "by_concurrency"}
    for path, _ in _numbers(valid(full().data())):
        if {"declared", "provenance", "as_served"} & set(path) or path[-1] in keys:
            continue
        assert path[-1] in ("value", "low", "high"), path


def test_missing_is_never_zero() -> None:
    builder = StudyBuilder({**STUDY, "policy": None}).arm("none", pool=None)
    builder.cell("none", "short", "code", 1, short([20.0, 20.0], cached=None, prompt=None))
    found = valid(builder.data())
    cell = found["arms"]["none"]["cells"][0]
    assert cell["cached_tokens"] == {"missing": "the server did not report cached tokens for 2 of 2 requests"}
    assert found["arms"]["none"]["kv_pool"]["tokens"] == {"missing": "toy did not report kv_pool_tokens"}
    text = report_markdown(analyse(builder.data()))
    pool = next(line for line in text.split("## Results")[1].splitlines() if line.startswith("| none | "))
    assert "– \\[1\\]" in pool
    assert " 0 |" not in pool
    assert "\\[1\\] toy did not report kv\\_pool\\_tokens" in text


def test_the_notice_is_the_first_line() -> None:
    text = report_markdown(analyse(full().data()))
    assert text.splitlines()[0] == f"**{NOTICE}**"
    out = io.StringIO()
    show_terminal(analyse(full().data()), Console(file=out, width=200))
    assert out.getvalue().splitlines()[0] == NOTICE


def test_without_a_notice_the_title_is_first_and_the_verdict_follows() -> None:
    lines = report_markdown(analyse(two_arms().data())).splitlines()
    assert lines[0] == "# toy: 2 arms on toy"
    assert lines[2].startswith("**Serve with 'mtp': 30.0 tok/s")


def test_the_write_up_holds_its_sections() -> None:
    text = report_markdown(analyse(full().data()))
    headings = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    assert headings == [
        "What each arm costs and buys, against none",
        "The arms",
        "Results",
        "What the pool holds",
        "Where the pool went",
        "Time to first token",
        "Acceptance",
        "What was void, and why",
        "dflash: failed",
        "Probes",
        "Secrets recalled",
        "How the verdict was reached",
        "How the arms stand",
        "Every ratio to none",
        "What the noise is made of",
        "Where a drafter stops paying",
        "Every cell",
        "Not run",
        "How it was measured",
        "The commands",
        "Measured when",
        "Limits",
    ]
    assert (
        "| mtp | 8,500 | -5.6 % | 30.0 (1.50x) | 18.0 (0.90x) | 24.0 (1.50x) | 48.0 (1.50x) | void |" in text
    )
    assert "4.1 (4 whole, 180 left)" in text
    assert "pool arithmetic, not served" in text
    assert "the model has no eyes" in text
    assert "Each arm was started once" in text


def test_tables_are_rectangular() -> None:
    lines = report_markdown(analyse(full().data())).splitlines()
    width = None
    for line in lines:
        bars = line.replace("\\|", "").count("|")
        if not line.startswith("|"):
            width = None
            continue
        width = width or bars
        assert bars == width, line


def test_sections_without_rows_are_absent() -> None:
    builder = StudyBuilder({**STUDY, "phases": {"short": STUDY["phases"]["short"]}}).arm("none")
    builder.cell("none", "short", "code", 1, short([20.0, 20.0]))
    text = report_markdown(analyse(builder.data()))
    for heading in ("Probes", "Secrets recalled", "Time to first token", "Acceptance", "Not run"):
        assert f"## {heading}" not in text
    assert "Nothing: every cell passed its gates." in text


def test_server_text_does_nothing() -> None:
    builder = full()
    requests = short([20.0, 20.0], "evil")
    requests[1] = replace(requests[1], ok=False, error=EVIL)
    builder.cell("none", "short", EVIL, 1, requests)
    findings = analyse(builder.data())
    text = report_markdown(findings)
    outside, inside = [], False
    for line in text.splitlines():
        if line.startswith("```"):
            inside = not inside
        elif not inside:
            outside.append(line)
    prose = "\n".join(outside)
    assert "<img" not in prose
    assert "</script>" not in prose
    assert "\x1b" not in text
    assert "[x](javascript" not in prose
    assert "![i]" not in prose
    out = io.StringIO()
    show_terminal(findings, Console(file=out, width=120))
    assert "\x1b" not in out.getvalue()
    valid(builder.data())


def test_escapes() -> None:
    assert markdown("a|b <c> `d` *e* [f](g)") == "a\\|b &lt;c&gt; \\`d\\` \\*e\\* \\[f\\](g)"
    assert plain("a\x1b[31m\n b\u202ec") == "a\ufffd[31m b\ufffdc"
    assert fenced(["```", "x"])[0] == "````text"


def test_rich_markup_in_names_is_text() -> None:
    builder = StudyBuilder({**STUDY, "notice": "[bold]not markup[/bold]"}).arm("none")
    out = io.StringIO()
    show_terminal(analyse(builder.data()), Console(file=out, width=80))
    assert "[bold]not markup[/bold]" in out.getvalue()


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_terminal_shows_what_matters(width: int) -> None:
    out = io.StringIO()
    show_terminal(analyse(full().data()), Console(file=out, width=width))
    text = out.getvalue()
    assert max(len(line) for line in text.splitlines()) <= width
    flat = " ".join(text.split())
    for words in ("Results", "What the pool holds", "Verdict", "Serve with 'mtp'", "dflash: failed"):
        assert words in flat


def test_files_are_written_whole(tmp_path: Path) -> None:
    findings = analyse(full().data())
    write_json(findings, tmp_path / "report.json")
    write_markdown(findings, tmp_path / "report.md")
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8")) == report(findings)
    assert (tmp_path / "report.md").read_text(encoding="utf-8") == report_markdown(findings)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.json", "report.md"]


def test_a_lone_surrogate_does_not_break_the_files(tmp_path: Path) -> None:
    builder = full()
    builder.boots[-1] = replace(builder.boots[-1], reason="bad \ud800 text")
    write_json(analyse(builder.data()), tmp_path / "report.json")
    write_markdown(analyse(builder.data()), tmp_path / "report.md")


def test_a_folder_that_is_gone_is_said(tmp_path: Path) -> None:
    from kvantage.core import LedgerError

    with pytest.raises(LedgerError, match="the report cannot be written"):
        write_json(analyse(full().data()), tmp_path / "gone" / "report.json")


def test_the_same_findings_give_the_same_report() -> None:
    assert report_json(analyse(full().data())) == report_json(analyse(full().data()))


def test_every_gate_is_explained() -> None:
    from kvantage.analysis.gates import PHASE_GATES

    text = (ROOT / "docs" / "report.md").read_text(encoding="utf-8")
    for gate in {name for gates in PHASE_GATES.values() for name in gates}:
        assert f"| `{gate}` |" in text


def both_phases() -> StudyBuilder:
    """A ladder and a sweep in both arms; the drafter reuses no prefix, and is capped at two at once."""
    asked = {
        "ttft": {"lengths": [1000, 4000], "documents": 3, "output_tokens": 4},
        "sweep": {
            "prompts": {"code": "builtin"},
            "concurrency": [1, 2, 4],
            "rounds": 4,
            "output_tokens": 65,
            "ttft_limit": "2s",
        },
    }
    builder = StudyBuilder({**STUDY, "phases": asked, "policy": None})
    for arm, rates, most in (("none", (20.0, 18.0, 16.0), 8), ("mtp", (30.0, 14.0, 20.0), 2)):
        spec = None if arm == "none" else Speculation(method="mtp", drafts=3)
        builder.arm(arm, spec, pool=100_000, facts={"effective_max_running": most})
        first = [Request(output=4, ttft_s=9.0, prompt=1000, rate=50.0)]
        builder.cell(arm, "ttft", "first", 1, first)
        for length in (1000, 4000):
            requests = rung(length, length / 4000 + 0.05, cached=(0, 0) if spec else None)
            builder.cell(arm, "ttft", str(length), 1, requests)
        for concurrency, rate in zip((1, 2, 4), rates, strict=True):
            requests = loop(rate, concurrency)
            builder.cell(arm, "sweep", "code", concurrency, drafting(requests, 3, 2.0) if spec else requests)
    return builder


def test_the_ladder_and_the_sweep_are_in_every_report() -> None:
    data = both_phases().data()
    found = valid(data)
    jsonschema.validate(found, _strict(report_schema()), cls=jsonschema.Draft202012Validator)
    ladder = found["ttft"][1]
    assert (ladder["arm"], ladder["prefix_reuse_sound"]) == ("mtp", False)
    assert ladder["first_request"]["compiled"] is True
    assert [each["document_tokens"]["value"] for each in ladder["lengths"]] == [1000, 4000]
    assert [each["missed_requests"]["value"] for each in ladder["lengths"][0]["repeats"]] == [3, 3]
    sweep = found["sweep"][1]
    assert [row["kind"] for row in sweep["rows"]] == ["steady", "steady", "queue"]
    assert sweep["stops_paying"]["after_concurrency"] == 1
    assert sweep["stops_paying"]["by_concurrency"] == 2
    assert sweep["left_out_as_queues"] == [{"concurrency": 4}]
    assert sweep["rows"][2]["steady_ratio"]["missing"].startswith("refused: mtp measured a queue")
    queue = next(
        cell for cell in found["arms"]["mtp"]["cells"] if (cell["phase"], cell["concurrency"]) == ("sweep", 4)
    )
    assert (queue["status"], queue["queue"]) == (
        "ok",
        "offered concurrency 4 > effective 2: the rest waited",
    )
    for path, _ in _numbers({"ttft": found["ttft"], "sweep": found["sweep"]}):
        keys = {"block", "concurrency", "repeat", "stream", "after_concurrency", "by_concurrency"}
        assert path[-1] in {"value", "low", "high"} | keys, path


@pytest.mark.parametrize("width", [60, 100, 200])
def test_the_ladder_and_the_sweep_are_told_in_words(width: int) -> None:
    findings = analyse(both_phases().data())
    text = report_markdown(findings)
    out = io.StringIO()
    show_terminal(findings, Console(file=out, width=width))
    for shown in (text.replace("\\", ""), out.getvalue()):
        flat = " ".join(shown.split())
        for words in (
            "First tokens by length",
            "Sweep over concurrency",
            "code: between 1 and 2; 4 left out: a queue",
            "no prefix reuse: 0 of 3,000 prompt tokens served",
            "an engine that compiles",
        ):
            assert words in flat, words
    assert "queue \\[" in text


def test_reports_of_1_0_are_still_valid() -> None:
    """A report written before the ladder and the sweep obeys the schema of today."""
    found = valid(full().data())
    for name in ("ttft", "sweep"):
        del found[name]
    for arm in found["arms"].values():
        for cell in arm["cells"]:
            del cell["queue"]
    found["schema_version"] = "1.0"
    jsonschema.validate(found, report_schema(), cls=jsonschema.Draft202012Validator)
