"""A study on a simulated engine that takes seconds, for whatever looks at a run from outside."""

from __future__ import annotations

from pathlib import Path

MODEL = Path(__file__).parents[1] / "data" / "configs" / "qwen3-8b"


def study(folder: Path, *, output_tokens: int = 160, speed: float = 2, more: str = "") -> Path:
    """Write study.yaml into `folder`: two arms, short answers and one wave with its repeat."""
    path = folder / "study.yaml"
    path.write_text(f"""
model: {MODEL}
engine: {{name: sim, like: vllm, hardware: h100, speed: {speed}, acceptance: {{ngram: 2.2}}}}
common: {{context_length: 32768, max_running_requests: 4, pool_tokens: 20000}}
control: none
arms: {{none: {{}}, ngram: {{speculation: {{ngram: 3}}}}}}
phases:
  short: {{prompts: {{code: builtin}}, warmup: 1, repeats: 2, output_tokens: {output_tokens}}}
  cold: {{document_tokens: 1000, concurrency: [2], output_tokens: 16}}
  repeat: {{output_tokens: {output_tokens}}}
{more}""")
    return path
