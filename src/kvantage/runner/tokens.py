"""How the model counts tokens: its own tokenizer where its folder is at hand, else the server itself.

A server that has no `/tokenize` is asked twice for one token: what it counts of a long and a short prompt
gives the characters of a token. Documents are then of about the length asked, and the same in every arm.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from kvantage.core import ArmFailed, Server
from kvantage.study.paths import locate
from kvantage.workloads.documents import Count
from kvantage.workloads.load import shipped_prompts
from kvantage.workloads.tokens import TokenCounter


def counter_for(model: str, server: Server) -> Count:
    """A function from a text to its number of tokens. Raises ArmFailed when nothing can tell."""
    folder = Path(locate(model))
    if (folder / "tokenizer.json").is_file():
        return TokenCounter(folder).count
    count = _ServerCounter(server)
    try:
        count("one")
    except ArmFailed:
        return _Estimate(server).count
    return count


class _ServerCounter:
    def __init__(self, server: Server) -> None:
        self._server = server

    def __call__(self, text: str) -> int:
        body = {"model": self._server.served_name, "prompt": text, "content": text}
        told = _post(self._server, "/tokenize", {**body, "add_special_tokens": False})
        try:
            return int(told["count"] if "count" in told else len(told["tokens"]))
        except (ValueError, KeyError, TypeError) as error:
            raise ArmFailed(f"{self._server.url}/tokenize answers without a count") from error


class _Estimate:
    """Characters of a token, from what the server counts of two prompts."""

    def __init__(self, server: Server) -> None:
        texts = [str(prompt.messages[0]["content"]) for prompt in shipped_prompts("prose")]
        short, long = texts[0][:8], "\n".join(texts)[:4000]
        counted = self._prompt_tokens(server, long) - self._prompt_tokens(server, short)
        if counted <= 0:
            raise ArmFailed(
                f"tokens cannot be counted: there is no tokenizer.json, and {server.url} counts none",
                hint="give `model:` as a folder that holds tokenizer.json",
            )
        self._characters = (len(long) - len(short)) / counted

    def count(self, text: str) -> int:
        """About as many tokens as the server would count."""
        return round(len(text) / self._characters)

    def _prompt_tokens(self, server: Server, text: str) -> int:
        messages = [{"role": "user", "content": text}]
        body = {"model": server.served_name, "messages": messages, "max_tokens": 1}
        usage = _post(server, "/v1/chat/completions", body).get("usage")
        count = usage.get("prompt_tokens") if isinstance(usage, dict) else None
        return count if isinstance(count, int) else 0


def _post(server: Server, path: str, body: dict[str, Any]) -> dict[str, Any]:
    headers = {"Content-Type": "application/json", **server.headers}
    request = urllib.request.Request(f"{server.url}{path}", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            told = json.load(answer)
    except (OSError, urllib.error.URLError, ValueError) as error:
        raise ArmFailed(
            f"tokens cannot be counted: there is no tokenizer.json, and {server.url}{path} says {error}",
            hint="give `model:` as a folder that holds tokenizer.json",
        ) from error
    return told if isinstance(told, dict) else {}
