"""kvantage: what a speculative drafter costs and what it buys, measured on your own LLM server."""

__version__ = "0.1.0"
