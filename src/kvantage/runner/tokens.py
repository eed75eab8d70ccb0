"""How the model counts tokens: its own tokenizer where its folder is at hand, else the server itself."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path

from kvantage.core import ArmFailed
from kvantage.study.paths import locate
from kvantage.workloads.documents import Count
from kvantage.workloads.tokens import TokenCounter


def counter_for(model: str, url: str, served_name: str) -> Count:
    """A function from a text to its number of tokens. Raises ArmFailed when neither can tell."""
    folder = Path(locate(model))
    if (folder / "tokenizer.json").is_file():
        return TokenCounter(folder).count
    count = _ServerCounter(url, served_name)
    count("one")
    return count


class _ServerCounter:
    def __init__(self, url: str, served_name: str) -> None:
        self._url = f"{url}/tokenize"
        self._model = served_name

    def __call__(self, text: str) -> int:
        body = {"model": self._model, "prompt": text, "add_special_tokens": False}
        request = urllib.request.Request(
            self._url, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return int(json.load(answer)["count"])
        except (OSError, urllib.error.URLError, ValueError, KeyError, TypeError) as error:
            raise ArmFailed(
                f"tokens cannot be counted: there is no tokenizer.json, and {self._url} says {error}",
                hint="give `model:` as a folder that holds tokenizer.json",
            ) from error
