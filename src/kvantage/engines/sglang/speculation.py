"""An arm's speculation as SGLang's flags."""

from __future__ import annotations

from kvantage.core import Speculation, UsageError
from kvantage.engines.spelling import did_you_mean
from kvantage.engines.words import Words

ALGORITHMS = {
    "ngram": "NGRAM",
    "draft_model": "STANDALONE",
    "eagle3": "EAGLE3",
    "mtp": "NEXTN",
    "dflash": "DFLASH",
}
"""NEXTN is SGLang's name for a checkpoint's own prediction head; it resolves to EAGLE."""

CHAINS = frozenset({"draft_model", "eagle3", "mtp"})
"""Drafters that propose one token after another: k steps, one branch, D = k + 1 (topk 1 forces that)."""

OPTIONS = frozenset(
    {
        "accept-threshold-acc",
        "accept-threshold-single",
        "adaptive",
        "adaptive-config",
        "attention-mode",
        "dflash-block-size",
        "draft-attention-backend",
        "draft-load-format",
        "draft-model-quantization",
        "draft-sink-size",
        "draft-window-size",
        "dsa-topk-backend",
        "eagle-topk",
        "moe-a2a-backend",
        "moe-runner-backend",
        "ngram-capacity",
        "ngram-external-corpus-max-tokens",
        "ngram-external-corpus-path",
        "ngram-external-sam-budget",
        "ngram-match-type",
        "ngram-max-bfs-breadth",
        "ngram-max-trie-depth",
        "ngram-min-bfs-breadth",
        "num-draft-tokens",
        "num-steps",
        "token-map",
        "use-block-verification",
        "use-rejection-sampling",
    }
)
"""What may stand under `speculation.options`: SGLang's `--speculative-...` flags without that beginning."""

_KV_DTYPES = {
    "auto": "auto",
    "bf16": "bfloat16",
    "bfloat16": "bfloat16",
    "fp8": "fp8_e4m3",
    "fp8_e4m3": "fp8_e4m3",
    "fp8_e5m2": "fp8_e5m2",
}


def kv_dtype_name(dtype: str, what: str, *, further: frozenset[str] = frozenset()) -> str:
    """SGLang's name of a KV type. Raises UsageError for one that it has not, with those that it has."""
    if dtype in further:
        return dtype
    try:
        return _KV_DTYPES[dtype.lower()]
    except KeyError:
        known = ", ".join(sorted({*_KV_DTYPES, *further}))
        raise UsageError(f"{what}: SGLang has no KV cache of `{dtype}`", hint=f"one of {known}") from None


def add_speculation(words: Words, speculation: Speculation) -> None:
    """The flags of a drafter. `drafts` is k; SGLang's num-draft-tokens is the width D = k + 1.

    Options win over what follows from `drafts`. Raises UsageError for an option that SGLang has not.
    """
    if not speculation.on:
        return
    method, k = speculation.method, speculation.drafts or 1
    by = f"speculation `{method}`"
    words.add("speculative-algorithm", ALGORITHMS[method], by=by)
    if speculation.draft is not None:
        words.add("speculative-draft-model-path", speculation.draft, by="speculation.draft")
    if speculation.draft_revision is not None:
        words.add("speculative-draft-model-revision", speculation.draft_revision, by="draft_revision")
    for name, value in speculation.options.items():
        plain = name.replace("_", "-").removeprefix("speculative-")
        if plain not in OPTIONS:
            raise UsageError(
                f"speculation option `{name}` is not known to SGLang", hint=did_you_mean(plain, OPTIONS)
            )
        words.add(f"speculative-{plain}", value, by=f"speculation option `{name}`")
    if method in CHAINS:
        words.add_unless_given("speculative-num-steps", k, by=by)
        words.add_unless_given("speculative-eagle-topk", 1, by=by)
    if not words.has("speculative-dflash-block-size"):
        words.add_unless_given("speculative-num-draft-tokens", k + 1, by=by)
    if speculation.draft_kv_dtype is not None:
        dtype = kv_dtype_name(speculation.draft_kv_dtype, "draft_kv_dtype")
        words.add("speculative-draft-kv-cache-dtype", dtype, by="draft_kv_dtype")
