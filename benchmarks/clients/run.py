"""The same server and the same loads for every client, and what each makes of them.

    python benchmarks/clients/run.py --tokenizer FOLDER                    # every tool; environments are made
    python benchmarks/clients/run.py --tokenizer FOLDER --tools kvantage,vllm --streams 16,64
    python benchmarks/clients/run.py --tokenizer FOLDER --cores both       # clients free to use every core

The golden server runs on the last processor; its own log is the truth. Raw outputs stay in `--out`, with
`results.json` and `table.md` over everything that was run into that folder.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from tools import TOOLS, Load, Reported, Tool

from kvantage.golden import GoldenProcess

TTFT_MS, STEP_MS, CHUNKS = 50.0, 20.0, 64


class Book(BaseHTTPRequestHandler):
    """A text for the tool that downloads one to make prompts of."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"*** START OF BOOK\n\n" + b"The river ran north under quiet stone. " * 20_000)

    def log_message(self, *words: object) -> None:
        pass


def environment(tool: Tool, root: Path) -> Path:
    """The `bin` of a tool's own environment, made when it is not there."""
    if tool.name == "vllm":
        return Path(sys.executable).parent
    folder = root / tool.name
    if tool.packages and not (folder / "bin" / "pip").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(folder / "bin" / "pip"), "install", "-q", *tool.packages], check=True)
    return folder / "bin"


def watch(process: subprocess.Popen[bytes], limit_s: float) -> tuple[list[tuple[float, float]], float]:
    """((monotonic s, CPU s of the whole tree) samples, most memory in MiB) until it ends or is too long."""
    root, samples, most, begun = psutil.Process(process.pid), [], 0.0, time.monotonic()
    while process.poll() is None:
        used, memory = 0.0, 0
        try:
            for each in [root, *root.children(recursive=True)]:
                times = each.cpu_times()
                used += times.user + times.system
                used += times.children_user + times.children_system
                memory += each.memory_info().rss
        except psutil.Error:
            continue
        samples.append((time.monotonic(), used))
        most = max(most, memory / 2**20)
        if time.monotonic() - begun > limit_s:
            process.kill()
        time.sleep(0.1)
    return samples, most


def log_of(url: str) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"{url}/golden/log", timeout=60) as answer:
        return list(json.load(answer)["requests"])


def measure(
    tool: Tool, bin_: Path, load: Load, cpus: set[int], server_cpus: set[int], load_name: str
) -> dict[str, Any]:
    """One tool, one load: what it said against what the server wrote."""
    flags = ("--ttft-ms", str(TTFT_MS), "--step-ms", str(STEP_MS), "--tokens", str(load.tokens))
    with GoldenProcess(*flags, cpus=server_cpus) as golden:
        load = replace(load, url=golden.url)
        command = tool.command(bin_, load)
        (load.out / "command.txt").write_text(" ".join(command) + "\n")
        env = {**os.environ, "OPENAI_API_KEY": "none"}
        env["PATH"] = f"{bin_}:{env['PATH']}"
        with (load.out / "stdout.txt").open("wb") as output:
            process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, env=env, cwd=load.out
            )
            os.sched_setaffinity(process.pid, cpus)
            samples, memory = watch(process, 240)
        requests = [each for each in log_of(golden.url) if each["written_ns"]]
    row: dict[str, Any] = {
        "tool": tool.name,
        "load": load_name,
        "streams": load.streams,
        "exit": process.returncode,
    }
    try:
        said = tool.read(load)
    except (OSError, StopIteration, KeyError, ValueError, IndexError, TypeError) as error:
        row["error"] = f"{type(error).__name__}: {error}"
        said = Reported(None, None, None)
    if not requests:
        return row
    requests.sort(key=lambda each: each["arrived_ns"])
    measured = requests[-load.requests :]  # some tools try one request first
    ttft = [(each["written_ns"][0] - each["arrived_ns"]) / 1e6 for each in measured]
    begin, end = measured[0]["arrived_ns"] / 1e9, max(each["written_ns"][-1] for each in measured) / 1e9
    chunks = sum(len(each["written_ns"]) for each in measured)
    at, used = zip(*samples, strict=True)
    # The tools parse while they receive; kvantage does so afterwards, so its CPU counts up to its exit.
    stop = at[-1] if tool.name == "kvantage" else end
    cpu_s = float(np.interp(stop, at, used) - np.interp(begin, at, used))
    ideal_s = len(measured) / load.streams * (TTFT_MS + (CHUNKS - 1) * STEP_MS) / 1e3
    late = np.concatenate([np.subtract(each["written_ns"], each["due_ns"]) for each in measured]) / 1e6
    tokens = sum(sum(each["tokens"]) for each in requests)
    row |= {
        "true_ttft_ms": float(np.mean(ttft)),
        "said": vars(said),
        "ttft_error_ms": None if said.ttft_ms is None else said.ttft_ms - float(np.mean(ttft)),
        "itl_error_ms": None if said.itl_ms is None else said.itl_ms - STEP_MS,
        "true_tokens": tokens,
        "request_share": ideal_s / (end - begin),
        "cpu_ms_per_1000_chunks": cpu_s / chunks * 1e6,
        "whole_cpu_ms_per_1000_chunks": used[-1] / chunks * 1e6,
        "memory_mib": memory,
        "server_lag_ms_p99": float(np.percentile(late, 99)),
        "requests": len(measured),
    }
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown: one line a tool and load."""
    lines = [
        "| client | streams | TTFT error, ms | ITL error, ms | tokens said / true "
        "| request rate, share of the possible | CPU ms / 1,000 chunks | with start-up | memory, MiB "
        "| server late, ms p99 |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]

    def figure(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    for row in rows:
        said = row.get("said", {})
        lines.append(
            f"| {row['tool']} | {row['streams']} | {figure(row.get('ttft_error_ms'), '.2f')} "
            f"| {figure(row.get('itl_error_ms'), '.3f')} "
            f"| {figure(said.get('tokens'), ',.0f')} / {figure(row.get('true_tokens'), ',.0f')} "
            f"| {figure(row.get('request_share'), '.3f')} "
            f"| {figure(row.get('cpu_ms_per_1000_chunks'), '.1f')} "
            f"| {figure(row.get('whole_cpu_ms_per_1000_chunks'), '.0f')} "
            f"| {figure(row.get('memory_mib'), '.0f')} | {figure(row.get('server_lag_ms_p99'), '.2f')} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokenizer", type=Path, required=True, help="a folder with a tokenizer.json")
    parser.add_argument("--tools", default=",".join(tool.name for tool in TOOLS))
    parser.add_argument("--streams", default="16,64,256")
    parser.add_argument("--waves", type=int, default=4, help="requests, as a multiple of the streams")
    parser.add_argument("--tokens-per-chunk", type=int, default=1)
    parser.add_argument("--cores", choices=("one", "both"), default="one")
    parser.add_argument("--envs", type=Path, default=Path("build/clients-envs"))
    parser.add_argument("--out", type=Path, default=Path("build/clients"))
    asked = parser.parse_args()
    every = os.sched_getaffinity(0)
    server = {max(every)}
    client = every if asked.cores == "both" else {min(every)}
    books = HTTPServer(("127.0.0.1", 0), Book)
    threading.Thread(target=books.serve_forever, daemon=True).start()
    rows = []
    for name in asked.tools.split(","):
        tool = next(each for each in TOOLS if each.name == name)
        bin_ = environment(tool, asked.envs.resolve())
        for streams in map(int, asked.streams.split(",")):
            out = (asked.out / asked.cores / f"{name}-{streams}").resolve()
            out.mkdir(parents=True, exist_ok=True)
            load = Load("", asked.tokenizer.resolve(), streams, streams * asked.waves, CHUNKS, out)
            load = replace(load, book=f"http://127.0.0.1:{books.server_port}/book.txt")
            rows.append(measure(tool, bin_, load, client, server, asked.cores))
            print(json.dumps(rows[-1]), flush=True)
            (out / "row.json").write_text(json.dumps(rows[-1], indent=1))
    every_row = [json.loads(path.read_text()) for path in (asked.out / asked.cores).glob("*/row.json")]
    order = {tool.name: place for place, tool in enumerate(TOOLS)}
    every_row.sort(key=lambda row: (order[row["tool"]], row["streams"]))
    (asked.out / asked.cores / "results.json").write_text(json.dumps(every_row, indent=1))
    (asked.out / asked.cores / "table.md").write_text(table(every_row))
    print(table(every_row))


if __name__ == "__main__":
    main()
