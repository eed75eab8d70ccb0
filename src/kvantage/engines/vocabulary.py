"""The vocabulary of a study against each engine's own flags: what `kvantage engines` prints."""

from __future__ import annotations

from collections.abc import Mapping

ENGINES = ("vllm", "sglang", "llamacpp")
"""Engines that kvantage starts. `openai` attaches, and has no flags."""

SETTINGS: Mapping[str, Mapping[str, str]] = {
    "tensor_parallel_size": {"vllm": "--tensor-parallel-size", "sglang": "--tp-size", "llamacpp": ""},
    "nodes": {"vllm": "", "sglang": "--nnodes --node-rank --dist-init-addr", "llamacpp": ""},
    "memory_fraction": {
        "vllm": "--gpu-memory-utilization",
        "sglang": "--mem-fraction-static",
        "llamacpp": "",
    },
    "pool_bytes": {
        "vllm": "--kv-cache-memory-bytes",
        "sglang": "",
        "llamacpp": "--ctx-size --kv-unified",
    },
    "pool_tokens": {
        "vllm": "--num-gpu-blocks-override",
        "sglang": "--max-total-tokens",
        "llamacpp": "--ctx-size --kv-unified",
    },
    "kv_dtype": {
        "vllm": "--kv-cache-dtype",
        "sglang": "--kv-cache-dtype",
        "llamacpp": "--cache-type-k --cache-type-v",
    },
    "dtype": {"vllm": "--dtype", "sglang": "--dtype", "llamacpp": ""},
    "context_length": {"vllm": "--max-model-len", "sglang": "--context-length", "llamacpp": "--ctx-size"},
    "chunked_prefill": {
        "vllm": "--max-num-batched-tokens --enable-chunked-prefill",
        "sglang": "--chunked-prefill-size",
        "llamacpp": "--batch-size --ubatch-size",
    },
    "max_running_requests": {
        "vllm": "--max-num-seqs",
        "sglang": "--max-running-requests",
        "llamacpp": "--parallel",
    },
    "page_size": {"vllm": "--block-size", "sglang": "--page-size", "llamacpp": ""},
    "prefix_caching": {
        "vllm": "--enable-prefix-caching",
        "sglang": "--disable-radix-cache",
        "llamacpp": "--no-cache-prompt",
    },
    "eager": {"vllm": "--enforce-eager", "sglang": "--disable-cuda-graph", "llamacpp": ""},
}
"""Each word of `common` and of arms; '' where the engine has none (the word is refused there, or idle)."""

SPECULATION: Mapping[str, Mapping[str, str]] = {
    "ngram": {"vllm": "method ngram", "sglang": "NGRAM", "llamacpp": "ngram-map-k"},
    "draft_model": {"vllm": "method draft_model", "sglang": "STANDALONE", "llamacpp": "draft-simple"},
    "eagle3": {"vllm": "method eagle3", "sglang": "EAGLE3", "llamacpp": "draft-eagle3"},
    "mtp": {"vllm": "method mtp", "sglang": "NEXTN", "llamacpp": "draft-mtp"},
    "dflash": {"vllm": "method dflash", "sglang": "DFLASH", "llamacpp": "draft-dflash"},
    "drafts: k": {
        "vllm": "num_speculative_tokens k",
        "sglang": "--speculative-num-draft-tokens k+1",
        "llamacpp": "--spec-draft-n-max k",
    },
    "draft": {
        "vllm": "model",
        "sglang": "--speculative-draft-model-path",
        "llamacpp": "--spec-draft-model",
    },
    "draft_kv_dtype": {
        "vllm": "kv_cache_dtype",
        "sglang": "--speculative-draft-kv-cache-dtype (0.5.23)",
        "llamacpp": "--spec-draft-type-k --spec-draft-type-v",
    },
}
"""Methods and their words: in vLLM fields of --speculative-config, in SGLang --speculative-algorithm, in
llama.cpp --spec-type."""

PINS: Mapping[str, Mapping[str, str]] = {
    "seed": {"vllm": "--seed", "sglang": "--random-seed", "llamacpp": "--seed"},
    "samplers": {
        "vllm": "--generation-config vllm",
        "sglang": "--sampling-defaults openai",
        "llamacpp": "in each request",
    },
    "running requests": {"vllm": "", "sglang": "--max-running-requests 48", "llamacpp": "--parallel 4"},
    "prefill delaying": {"vllm": "", "sglang": "--min-free-slots-delay 1", "llamacpp": ""},
    "memory": {"vllm": "", "sglang": "", "llamacpp": "--fit off --cache-ram 0"},
    "cached tokens": {
        "vllm": "--enable-prompt-tokens-details",
        "sglang": "--enable-cache-report",
        "llamacpp": "always",
    },
    "counters": {"vllm": "always", "sglang": "--enable-metrics", "llamacpp": "--metrics --slots"},
    "acceptance": {
        "vllm": "--per-request-spec-decode-metrics summary",
        "sglang": "--decode-log-interval 1",
        "llamacpp": "--verbosity 4",
    },
}
"""What kvantage sets in every arm unless the arm does."""
