"""SGLang, from its oldest log lines to 0.5.23."""

from kvantage.engines.sglang.engine import Sglang

__all__ = ["Sglang"]
