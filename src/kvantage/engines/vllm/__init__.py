"""vLLM 0.26 to 0.33, CUDA and CPU builds."""

from kvantage.engines.vllm.engine import Vllm

__all__ = ["Vllm"]
