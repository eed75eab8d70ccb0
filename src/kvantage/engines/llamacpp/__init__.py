"""llama.cpp: its llama-server, with n-grams, a draft model, EAGLE3, MTP or DFlash."""

from kvantage.engines.llamacpp.engine import Llamacpp

__all__ = ["Llamacpp"]
