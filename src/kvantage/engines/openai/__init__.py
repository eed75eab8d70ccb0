"""A server that already runs: SGLang, vLLM, llama.cpp, or any that speaks OpenAI's protocol."""

from kvantage.engines.openai.engine import OpenAi

__all__ = ["OpenAi"]
