"""Count, encode and decode with a model's own tokenizer."""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer


class TokenCounter:
    """The tokenizer of a model folder; special tokens are never added around a text.

    Raises FileNotFoundError when the folder holds no `tokenizer.json`, ValueError when it can't be
    read.
    """

    def __init__(self, folder: str | Path) -> None:
        path = Path(folder) / "tokenizer.json"
        if not path.is_file():
            raise FileNotFoundError(f"{path}: no tokenizer.json in the model folder")
        try:
            self._tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises bare Exception
            raise ValueError(f"{path}: not a tokenizer: {error}") from error

    def count(self, text: str) -> int:
        """The number of tokens of a text."""
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def encode(self, text: str) -> list[int]:
        """The token ids of a text."""
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: list[int]) -> str:
        """The text of token ids, special tokens included."""
        return str(self._tokenizer.decode(ids, skip_special_tokens=False))
