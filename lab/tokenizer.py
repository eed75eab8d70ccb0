"""Train the one tokenizer of all nano models: byte-level BPE of 2,048 tokens, digits one by one.

python lab/tokenizer.py lab/build      # reads corpus.json.xz, writes tokenizer.json there
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from kvantage.workloads.documents import make_document, recall_question

VOCABULARY = 2048
END, START_TURN, END_TURN, MASK = "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|mask|>"
SPECIAL = [END, START_TURN, END_TURN, MASK]
PLAIN = ["<tool_call>", "</tool_call>"]  # one token each, but kept in the text

SPLIT = (
    r"'(?:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def sample(corpus: dict[str, list[dict[str, str]]]) -> list[str]:
    """A few million characters: code, prose and archives, in shares like those of training."""
    rng = random.Random("tokenizer")
    texts: list[str] = []
    for kind, size in (("code", 3_000_000), ("prose", 2_000_000)):
        files, taken = corpus[kind][:], 0
        rng.shuffle(files)
        for file in files:
            if taken > size:
                break
            texts.append(file["text"][:30_000])
            taken += len(texts[-1])
    for number in range(400):
        document = make_document(f"tokenizer:{number}", 1500, lambda text: len(text) // 4)
        texts.append(document.text + "\n" + recall_question(document))
    return texts


def train(texts: list[str]) -> Tokenizer:
    """The tokenizer of these texts."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(PLAIN),
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in PLAIN])
    assert tokenizer.get_vocab_size() == VOCABULARY
    return tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    with lzma.open(folder / "corpus.json.xz", "rt") as file:
        corpus = json.load(file)
    tokenizer = train(sample(corpus))
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    text = corpus["code_held"][0]["text"]
    print("characters a token, held-out code:", len(text) / len(tokenizer.encode(text).ids))
    text = corpus["prose_held"][0]["text"]
    print("characters a token, held-out prose:", len(text) / len(tokenizer.encode(text).ids))
    print("mask token:", tokenizer.token_to_id(MASK))


if __name__ == "__main__":
    main()
