"""Makes a copy of vLLM's environment accept wrong drafts, so that a lossy drafter can be caught in the act.

Python imports this file first where its folder is on PYTHONPATH. It changes one function of the engine in the
server's own processes: the real verification runs, and now and then the first draft that it would have
refused is accepted, so that everything after it really is another continuation.

KVANTAGE_WRONG_TOKENS   wrong tokens for each token of greedy answers, such as 0.001; or a file that says so,
                        read at each step
KVANTAGE_WRONG_SAMPLED  share of the drafts of sampled answers that are accepted unseen, such as 0.3
KVANTAGE_WRONG_SEED     seeds the choice
KVANTAGE_WRONG_LOG      a file that gets one line for each wrong token
KVANTAGE_MEND           mends the CPU build's own fault first: its kernel that spreads temperatures over
                        drafts writes into a copy that is thrown away, so that drafts are verified at a
                        temperature of whatever lies in memory (0.32.0; found by the exactness phase)
"""

from __future__ import annotations

import importlib.abc
import os
import random
import sys

MODULE = "vllm.v1.sample.rejection_sampler"


class _Spoiled(importlib.abc.Loader):
    def __init__(self, loader):
        self.loader = loader

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        self.loader.exec_module(module)
        if os.environ.get("KVANTAGE_MEND"):
            mend(module)
        spoil(module)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name != MODULE:
            return None
        for finder in sys.meta_path:
            if finder is not self and (spec := finder.find_spec(name, path, target)):
                spec.loader = _Spoiled(spec.loader)
                return spec
        return None


def mend(module):
    """Spread a value of each request over its drafts in plain torch."""

    def expand_batch_to_tokens(x, cu_num_tokens, num_tokens, replace_from=0, replace_to=0):
        counts = cu_num_tokens.diff(prepend=cu_num_tokens.new_zeros(1)).long()
        kept = x.clone()
        kept[kept == replace_from] = replace_to
        return kept.repeat_interleave(counts, output_size=num_tokens)

    module.expand_batch_to_tokens = expand_batch_to_tokens


def spoil(module):
    """Put the wrong rule before the right one."""
    right = module.rejection_sample
    rng = random.Random(int(os.environ.get("KVANTAGE_WRONG_SEED", "0")))
    told = os.environ.get("KVANTAGE_WRONG_TOKENS", "0")
    share = float(os.environ.get("KVANTAGE_WRONG_SAMPLED", "0"))
    log = os.environ.get("KVANTAGE_WRONG_LOG")
    seen = {"tokens": 0.0, "refused": 0.0}

    def rate():
        if os.sep not in told:
            return float(told)
        with open(told) as file:  # noqa: PTH123
            return float(file.read() or 0)

    def wrong(row_logits, draft):
        row_logits[draft] = row_logits.max() + 100.0
        if log:
            with open(log, "a") as file:  # noqa: PTH123
                file.write("wrong\n")

    def rejection_sample(
        draft_token_ids,
        num_draft_tokens,
        max_spec_len,
        cu_num_draft_tokens,
        draft_probs,
        target_logits,
        bonus_token_ids,
        sampling_metadata,
        *more,
        **named,
    ):
        target_logits = target_logits.clone()
        best = target_logits.argmax(dim=-1).tolist()
        drafts = draft_token_ids.tolist()
        temperatures = sampling_metadata.temperature
        start = 0
        for request, number in enumerate(num_draft_tokens):
            rows = range(start, start + number)
            start += number
            greedy = temperatures is None or float(temperatures[request]) < 1e-5
            if not greedy:
                for row in rows:
                    if rng.random() < share:
                        wrong(target_logits[row], drafts[row])
                continue
            refused = next((row for row in rows if drafts[row] != best[row]), None)
            seen["tokens"] += 1 + (number if refused is None else refused - rows.start)
            if refused is not None:
                seen["refused"] += 1
                if rng.random() < rate() * seen["tokens"] / seen["refused"]:
                    wrong(target_logits[refused], drafts[refused])
        return right(
            draft_token_ids,
            num_draft_tokens,
            max_spec_len,
            cu_num_draft_tokens,
            draft_probs,
            target_logits,
            bonus_token_ids,
            sampling_metadata,
            *more,
            **named,
        )

    module.rejection_sample = rejection_sample


if any(name.startswith(("KVANTAGE_WRONG_", "KVANTAGE_MEND")) for name in os.environ):
    sys.meta_path.insert(0, _Finder())
