"""What was run, for readers: the README's tables, the plot, and each tool's own figures, kept small."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from plot import draw
from setups import SETUPS, Setup
from tools import TOOLS, Tool

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
LONGEST_LIST = 16
NOISE = {"pdf", "percentile_cis", "mean_ci", "mode", "variance", "percentiles"}
BUSY_CORES = 0.1


def publish(out: Path) -> None:
    """Rewrite README.md's tables, results/ and errors.svg from the rows in `out`."""
    results = HERE / "results"
    shutil.rmtree(results, ignore_errors=True)
    readme = (HERE / "README.md").read_text()
    rows: list[dict[str, Any]] = []
    for setup in SETUPS:
        mine = _rows(out / setup.name)
        for row in mine:
            _keep(out / setup.name / f"{row['tool']}-{row['streams']}", results / setup.name, row)
        if mine:
            readme = _between(readme, setup.name, _words(setup, mine))
        rows += mine
    if not rows:
        raise SystemExit(f"there are no rows in {out}")
    (HERE / "README.md").write_text(_between(readme, "taken", _taken(rows)))
    (results / "results.json").write_text(json.dumps(rows, indent=1) + "\n")
    draw([row for row in rows if row["setup"] == "one"], HERE / "errors.svg")


def _rows(folder: Path) -> list[dict[str, Any]]:
    order = {tool.name: place for place, tool in enumerate(TOOLS)}
    rows = [json.loads(path.read_text()) for path in folder.glob("*/row.json")]
    return sorted(
        (row for row in rows if "setup" in row), key=lambda row: (order[row["tool"]], row["streams"])
    )


def _taken(rows: Sequence[dict[str, Any]]) -> str:
    machine = rows[-1]["machine"]
    versions = {row["tool"]: row["version"] for row in rows}
    days = sorted({row["taken_at"][:10] for row in rows})
    busy = [row for row in rows if _is_busy(row)]
    text = (
        f"Taken {' to '.join(dict.fromkeys((days[0], days[-1])))} on {machine['cores']} cores of "
        f"{machine['cpu']}, Linux {machine['kernel']}, Python {machine['python']} (kvantage, vLLM): "
        + ", ".join(f"{name} {version}" for name, version in versions.items())
        + ". "
    )
    if not busy:
        most = max(row["others_cores"] for row in rows)
        return text + f"Whatever else ran on the machine took at most {most:.0%} of a core meanwhile."
    return text + (
        f"**{len(busy)} of {len(rows)} rows, marked \\*, were taken while something else took more than "
        f"{BUSY_CORES:.0%} of a core (at most {max(row['others_cores'] or 0 for row in busy):.1f} cores), or "
        "it is not known: they are not fit to be quoted.**"
    )


def _is_busy(row: dict[str, Any]) -> bool:
    """Whether something else took a good part of the machine meanwhile, or that is not known."""
    return row["others_cores"] is None or row["others_cores"] > BUSY_CORES


def _words(setup: Setup, rows: Sequence[dict[str, Any]]) -> str:
    return f"{table(rows)}\n{_leanest(rows)}" if setup.tokens_per_chunk == 1 else token_table(rows)


def _figure(form: str, *way: str) -> Callable[[dict[str, Any]], str]:
    def write(row: dict[str, Any]) -> str:
        value: Any = row
        for name in way:
            value = value.get(name) if isinstance(value, dict) else None
        if value is None:
            return "-"
        text = format(value, form)
        return text if any(digit in text for digit in "123456789") else text.replace("-", "+")

    return write


def _tokens(row: dict[str, Any]) -> str:
    return f"{_figure(',.0f', 'said', 'tokens')(row)} / {_figure(',.0f', 'true_tokens')(row)}"


def _client(row: dict[str, Any]) -> str:
    return row["tool"] + (" \\*" if _is_busy(row) else "")


COLUMNS: tuple[tuple[str, Callable[[dict[str, Any]], str]], ...] = (
    ("client", _client),
    ("streams", _figure("d", "streams")),
    ("TTFT error, ms", _figure("+.2f", "ttft_error_ms")),
    ("ITL error, ms", _figure("+.3f", "itl_error_ms")),
    ("tokens said / true", _tokens),
    ("request rate, share of the possible", _figure(".3f", "request_share")),
    ("CPU ms / 1,000 chunks", _figure(".1f", "cpu_ms_per_1000_chunks")),
    ("with start-up", _figure(".0f", "whole_cpu_ms_per_1000_chunks")),
    ("memory, MiB", _figure(".0f", "memory_mib")),
    ("server late, ms p99", _figure(".2f", "server_lag_ms_p99")),
)

TOKEN_COLUMNS: tuple[tuple[str, Callable[[dict[str, Any]], str]], ...] = (
    *COLUMNS[:2],
    ("TTFT said / true, ms", lambda row: _pair(row, "ttft_ms", ".1f")),
    ("time a token said / true, ms", lambda row: _pair(row, "itl_ms", ".2f")),
    ("tokens said / true", _tokens),
    ("server late, ms p99", _figure(".2f", "server_lag_ms_p99")),
)


def _pair(row: dict[str, Any], name: str, form: str) -> str:
    return f"{_figure(form, 'said', name)(row)} / {_figure(form, f'true_{name}')(row)}"


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Errors, rate and cost: one line a tool and load."""
    return _table(COLUMNS, rows)


def token_table(rows: Sequence[dict[str, Any]]) -> str:
    """What each tool says beside what is true."""
    return _table(TOKEN_COLUMNS, rows)


def _table(
    columns: Sequence[tuple[str, Callable[[dict[str, Any]], str]]], rows: Sequence[dict[str, Any]]
) -> str:
    lines = ["| " + " | ".join(name for name, _ in columns) + " |", "|---" * len(columns) + "|"]
    lines += ["| " + " | ".join(write(row) for _, write in columns) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _leanest(rows: Sequence[dict[str, Any]]) -> str:
    """kvantage's CPU beside that of the peer that takes least, with start-up and without."""
    said = []
    for streams in sorted({row["streams"] for row in rows}):
        at = {row["tool"]: row for row in rows if row["streams"] == streams and "request_share" in row}
        ours = at.pop("kvantage", None)
        if ours is None or not at:
            continue
        parts = []
        for name, words in (
            ("whole_cpu_ms_per_1000_chunks", "with start-up"),
            ("cpu_ms_per_1000_chunks", "without"),
        ):
            peer = min(at.values(), key=lambda row: row[name])
            share = ours[name] / peer[name]
            parts.append(
                f"{words} {ours[name]:.1f} against {peer[name]:.1f} ms ({peer['tool']}; {share:.2f} of it)"
            )
        said.append(f"{streams} streams: {', '.join(parts)}")
    return "CPU of 1,000 chunks, kvantage against the peer that takes least: " + "; ".join(said) + ".\n"


def _between(text: str, name: str, body: str) -> str:
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    if begin not in text or end not in text:
        raise SystemExit(f"README.md has no place for {name!r}: {begin} ... {end}")
    head, _, rest = text.partition(begin)
    return f"{head}{begin}\n{body.rstrip()}\n{end}{rest.partition(end)[2]}"


def _keep(run: Path, into: Path, row: dict[str, Any]) -> None:
    """The command and the tool's own figures, without this machine's paths."""
    tool = next(each for each in TOOLS if each.name == row["tool"])
    folder = into / f"{row['tool']}-{row['streams']}"
    folder.mkdir(parents=True, exist_ok=True)
    clean = _without_paths(run)
    (folder / "command.txt").write_text(clean((run / "command.txt").read_text()))
    found = next(iter(sorted(run.rglob(tool.output))), None)
    if found is None:
        return
    if found.suffix == ".csv":
        (folder / found.name).write_text(clean(found.read_text()))
    else:
        (folder / "said.json").write_text(clean(json.dumps(_figures(tool, found), indent=1)) + "\n")


def _figures(tool: Tool, path: Path) -> Any:
    said = json.loads(path.read_text())
    for step in tool.part:
        said = said[step]
    return _slim(said)


def _slim(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _slim(each)
            for name, each in value.items()
            if name not in NOISE and not (isinstance(each, list) and len(each) > LONGEST_LIST)
        }
    return [_slim(each) for each in value] if isinstance(value, list) else value


def _without_paths(run: Path) -> Callable[[str], str]:
    """Folders of this machine as words: OUT, REPOSITORY, ENVIRONMENT."""

    def clean(text: str) -> str:
        text = re.sub(r"/[^\s\"',=]*/bin/", "ENVIRONMENT/bin/", text)
        text = text.replace(str(run.resolve()), "OUT").replace(str(REPOSITORY), "REPOSITORY")
        return re.sub(
            r"(?<![\w/:.])/(?:home|root|work|tmp|var|opt|usr|Users|mnt|data)/[^\s\"',]*", "PATH", text
        )

    return clean
