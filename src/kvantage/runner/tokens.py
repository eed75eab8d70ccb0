"""How the model counts tokens: its own tokenizer where its folder is at hand, else the server itself."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path

from kvantage.core import ArmFailed, Server
from kvantage.study.paths import locate
from kvantage.workloads.documents import Count
from kvantage.workloads.tokens import TokenCounter


def counter_for(model: str, server: Server) -> Count:
    """A function from a text to its number of tokens. Raises ArmFailed when neither can tell."""
    folder = Path(locate(model))
    if (folder / "tokenizer.json").is_file():
        return TokenCounter(folder).count
    count = _ServerCounter(server)
    count("one")
    return count


class _ServerCounter:
    def __init__(self, server: Server) -> None:
        self._url = f"{server.url}/tokenize"
        self._model = server.served_name
        self._headers = {"Content-Type": "application/json", **server.headers}

    def __call__(self, text: str) -> int:
        body = {"model": self._model, "prompt": text, "content": text, "add_special_tokens": False}
        request = urllib.request.Request(self._url, json.dumps(body).encode(), self._headers)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                told = json.load(answer)
            return int(told["count"] if "count" in told else len(told["tokens"]))
        except (OSError, urllib.error.URLError, ValueError, KeyError, TypeError) as error:
            raise ArmFailed(
                f"tokens cannot be counted: there is no tokenizer.json, and {self._url} says {error}",
                hint="give `model:` as a folder that holds tokenizer.json",
            ) from error
