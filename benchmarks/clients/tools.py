"""Each client: how it is installed, how it is told to make a load, and where it says what it measured."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True)
class Load:
    """`streams` at once, `requests` in all, of `tokens` tokens each.

    `out` is the folder that the tool writes into, `book` the address of a text to make prompts of. Where
    `several` tokens come in a chunk, a client that can ask for counts does.
    """

    url: str
    tokenizer: Path
    streams: int
    requests: int
    tokens: int
    out: Path
    book: str = ""
    several: bool = False


@dataclass(frozen=True)
class Reported:
    """What a tool says: milliseconds, and tokens over all requests. None where it does not say."""

    ttft_ms: float | None
    itl_ms: float | None
    tokens: float | None
    requests: float | None = None


@dataclass(frozen=True)
class Tool:
    """`packages` go into an environment of its own; `command` gets that environment's `bin`.

    `output` is the file with the tool's own figures, `part` the way to them where the file holds more.
    """

    name: str
    packages: tuple[str, ...]
    command: Callable[[Path, Load], list[str]]
    read: Callable[[Load], Reported]
    output: str
    part: tuple[str | int, ...] = ()


def _kvantage(bin_: Path, load: Load) -> list[str]:
    here = Path(__file__).with_name("ours.py")
    return [
        sys.executable,
        str(here),
        load.url,
        str(load.streams),
        str(load.requests),
        str(load.tokens),
        str(load.out),
        "counts" if load.several else "plain",
    ]


def _read_kvantage(load: Load) -> Reported:
    said = json.loads((load.out / "ours.json").read_text())
    return Reported(said["ttft_ms"], said["itl_ms"], said["tokens"], said["requests"])


def _vllm(bin_: Path, load: Load) -> list[str]:
    # The community build for CPUs lacks the metadata that the `vllm` command asks for: its function then.
    shim = (
        "import argparse; from vllm.benchmarks import serve; parser = argparse.ArgumentParser(); "
        "serve.add_cli_args(parser); serve.main(parser.parse_args())"
    )
    return [
        str(bin_ / "python"), "-c", shim, "--backend", "openai-chat", "--base-url", load.url,
        "--endpoint", "/v1/chat/completions", "--model", "golden", "--tokenizer", str(load.tokenizer),
        "--dataset-name", "random", "--random-input-len", "16", "--random-output-len", str(load.tokens),
        "--num-prompts", str(load.requests), "--max-concurrency", str(load.streams), "--ignore-eos",
        "--save-result", "--result-dir", str(load.out), "--result-filename", "vllm.json", "--disable-tqdm",
    ]  # fmt: skip


def _read_vllm(load: Load) -> Reported:
    said = json.loads((load.out / "vllm.json").read_text())
    return Reported(said["mean_ttft_ms"], said["mean_itl_ms"], said["total_output_tokens"], said["completed"])


def _aiperf(bin_: Path, load: Load) -> list[str]:
    return [
        str(bin_ / "aiperf"), "profile", "--model", "golden", "--url", load.url, "--endpoint-type", "chat",
        "--streaming", "--concurrency", str(load.streams), "--request-count", str(load.requests),
        "--tokenizer", str(load.tokenizer), "--synthetic-input-tokens-mean", "16",
        "--synthetic-input-tokens-stddev", "0", "--output-tokens-mean", str(load.tokens),
        "--output-tokens-stddev", "0", "--use-server-token-count", "--artifact-dir", str(load.out),
        "--ui", "none",
    ]  # fmt: skip


def _read_aiperf(load: Load) -> Reported:
    said = json.loads(next(load.out.rglob("profile_export_aiperf.json")).read_text())

    def average(name: str) -> float | None:
        found = said.get(name)
        return None if found is None else float(found["avg"])

    each, count = average("output_sequence_length"), average("request_count")
    tokens = each * count if each is not None and count is not None else None
    return Reported(average("time_to_first_token"), average("inter_token_latency"), tokens, count)


def _guidellm(bin_: Path, load: Load) -> list[str]:
    return [
        str(bin_ / "guidellm"), "run",
        "--backend", f"kind=openai_http,target={load.url},model=golden,request_format=/v1/chat/completions",
        "--profile", f"kind=concurrent,streams={load.streams}",
        "--constraint", f"kind=max_requests,count={load.requests}",
        "--tokenizer", f"kind=huggingface_auto,model={load.tokenizer}",
        "--data", f"kind=synthetic_text,prompt_tokens=16,output_tokens={load.tokens}",
        "--output", f"kind=json,path={load.out / 'guidellm.json'}", "--disable-console-interactive",
    ]  # fmt: skip


def _read_guidellm(load: Load) -> Reported:
    said = json.loads((load.out / "guidellm.json").read_text())
    metrics = said["benchmarks"][0]["metrics"]

    def mean(name: str) -> float:
        return float(metrics[name]["successful"]["mean"])

    count = float(metrics["request_totals"]["successful"])
    return Reported(
        mean("time_to_first_token_ms"),
        mean("inter_token_latency_ms"),
        mean("output_token_count") * count,
        count,
    )


def _inference_perf(bin_: Path, load: Load) -> list[str]:
    config = {
        "api": {"type": "completion", "streaming": True},
        "server": {"type": "vllm", "model_name": "golden", "base_url": load.url, "ignore_eos": True},
        "tokenizer": {"pretrained_model_name_or_path": str(load.tokenizer)},
        "data": {
            "type": "random",
            "input_distribution": {
                "min": 16, "max": 16, "mean": 16, "std_dev": 0, "total_count": load.requests,
            },
            "output_distribution": {
                "min": load.tokens, "max": load.tokens, "mean": load.tokens, "std_dev": 0,
                "total_count": load.requests,
            },
        },
        "load": {
            "type": "concurrent",
            "stages": [{"num_requests": load.requests, "concurrency_level": load.streams}],
            "num_workers": 1,
            "worker_max_concurrency": load.streams,
        },
        "report": {"request_lifecycle": {"summary": True, "per_stage": True, "per_request": False}},
        "storage": {"local_storage": {"path": str(load.out)}},
    }  # fmt: skip
    path = load.out / "config.yml"
    path.write_text(yaml.safe_dump(config))
    return [str(bin_ / "inference-perf"), "--config_file", str(path)]


def _read_inference_perf(load: Load) -> Reported:
    said = json.loads(next(load.out.rglob("summary_lifecycle_metrics.json")).read_text())["successes"]
    latency = said["latency"]
    count = float(said["count"])
    return Reported(
        latency["time_to_first_token"]["mean"] * 1e3,
        latency["inter_token_latency"]["mean"] * 1e3,
        said["output_len"]["mean"] * count,
        count,
    )


def _genai_bench(bin_: Path, load: Load) -> list[str]:
    return [
        str(bin_ / "genai-bench"), "benchmark", "--api-backend", "openai", "--api-base", load.url,
        "--api-key", "none", "--api-model-name", "golden", "--model-tokenizer", str(load.tokenizer),
        "--task", "text-to-text", "--traffic-scenario", f"D(16,{load.tokens})",
        "--num-concurrency", str(load.streams), "--max-requests-per-run", str(load.requests),
        "--max-time-per-run", "5", "--experiment-base-dir", str(load.out),
    ]  # fmt: skip


def _read_genai_bench(load: Load) -> Reported:
    runs = [path for path in load.out.rglob("*.json") if "concurrency" in path.name]
    said = json.loads(runs[0].read_text())["aggregated_metrics"]
    stats: dict[str, Any] = said["stats"]
    count = float(said["num_completed_requests"])
    return Reported(
        stats["ttft"]["mean"] * 1e3,
        stats["tpot"]["mean"] * 1e3,
        stats["num_output_tokens"]["mean"] * count,
        count,
    )


def _llama_benchy(bin_: Path, load: Load) -> list[str]:
    return [
        str(bin_ / "llama-benchy"), "--base-url", f"{load.url}/v1", "--model", "golden",
        "--tokenizer", str(load.tokenizer), "--pp", "16", "--tg", str(load.tokens),
        "--concurrency", str(load.streams), "--runs", str(max(1, load.requests // load.streams)),
        "--book-url", load.book, "--latency-mode", "none", "--no-warmup", "--skip-coherence",
        "--format", "csv",
        "--save-result", str(load.out / "benchy.csv"),
    ]  # fmt: skip


def _read_llama_benchy(load: Load) -> Reported:
    with (load.out / "benchy.csv").open() as lines:
        prompt, answer = list(csv.DictReader(lines))[:2]
    # it gives a rate a request instead of a latency a token, and no count of tokens
    return Reported(float(prompt["e2e_ttft_mean"]), 1e3 / float(answer["t_s_req_mean"]), None)


TOOLS: tuple[Tool, ...] = (
    Tool("kvantage", (), _kvantage, _read_kvantage, "ours.json"),
    Tool("vllm", (), _vllm, _read_vllm, "vllm.json"),
    Tool("aiperf", ("aiperf==0.13.0",), _aiperf, _read_aiperf, "profile_export_aiperf.json"),
    Tool(
        "guidellm",
        ("guidellm==0.8.1",),
        _guidellm,
        _read_guidellm,
        "guidellm.json",
        ("benchmarks", 0, "metrics"),
    ),
    Tool(
        "inference-perf",
        ("inference-perf==0.7.0",),
        _inference_perf,
        _read_inference_perf,
        "summary_lifecycle_metrics.json",
    ),
    Tool(
        "genai-bench",
        ("genai-bench==0.0.5",),
        _genai_bench,
        _read_genai_bench,
        "*concurrency*.json",
        ("aggregated_metrics",),
    ),
    Tool("llama-benchy", ("llama-benchy==0.4.0",), _llama_benchy, _read_llama_benchy, "benchy.csv"),
)
