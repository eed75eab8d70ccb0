"""Secrets are masked wherever a command or an environment is shown or kept."""

import pytest

from kvantage.core import masked_argv, masked_env, masked_text, secret_name


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "OPENAI_API_KEY",
        "api-key",
        "apikey",
        "Authorization",
        "DB_PASSWORD",
        "AWS_SECRET",
        "hf-token",
        "KEY",
    ],
)
def test_secret_names(name: str) -> None:
    assert secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "max-num-batched-tokens",
        "kv_cache_size_tokens",
        "spec-tokens",
        "tokenizer",
        "mask_token",
        "pad_token",
        "KEYBOARD",
        "monkey",
        "image_token",
        "VLLM_LOG_STATS_INTERVAL",
    ],
)
def test_names_that_only_look_so(name: str) -> None:
    assert not secret_name(name)


def test_commands() -> None:
    argv = ("serve", "--api-key", "a", "b", "--port", "80", "--hf-token=x", "--max-num-seqs", "4")
    assert masked_argv(argv) == (
        *("serve", "--api-key", "***", "***", "--port", "80"),
        *("--hf-token=***", "--max-num-seqs", "4"),
    )
    assert masked_argv(("--header", "Authorization: Bearer abc.def")) == (
        "--header",
        "Authorization: Bearer ***",
    )


def test_environments() -> None:
    shown = masked_env(
        {"HF_TOKEN": "hf_aaa", "EMPTY_KEY": "", "URL": "http://user:pass@host/x", "N": "hf_" + "a" * 20}
    )
    assert shown == {"HF_TOKEN": "***", "EMPTY_KEY": "", "URL": "http://***@host/x", "N": "***"}


def test_text() -> None:
    assert masked_text("sk-" + "a1" * 10 + " is one, sk-short is none") == "*** is one, sk-short is none"
