"""Why a server died, in its log's own words."""

import pytest

from kvantage.engines.startup import exit_words
from kvantage.engines.vllm.death import explain_death
from tests.engines.vllm.data import LOGS, lines


@pytest.mark.parametrize(
    ("name", "first"),
    [
        (
            "vllm-0.26-h200/dflash-fp8.log",
            "RuntimeError: FlashAttention only supports fp16, bf16, and fp8_e4m3 data type",
        ),
        ("vllm-0.32-cpu/f_synth.log", "AssertionError: Synthetic acceptance not supported with CPU sampling"),
        ("vllm-0.32-cpu/f_draftkv8.log", "double free or corruption (!prev)"),
    ],
)
def test_captured_deaths(name: str, first: str) -> None:
    told = explain_death(lines(name))
    assert told[0] == first
    assert 2 <= len(told) <= 5
    assert all(len(line) <= 500 for line in told)


@pytest.mark.parametrize(
    ("log", "first"),
    [
        (
            ["usage: api_server.py [-h]", "api_server.py: error: unrecognized arguments: --nonsense-flag 3"],
            "api_server.py: error: unrecognized arguments: --nonsense-flag 3",
        ),
        (
            ["api_server.py: error: argument --dtype: invalid choice: 'bf17' (choose from auto, half)"],
            "api_server.py: error: argument --dtype: invalid choice: 'bf17' (choose from auto, half)",
        ),
        (
            [
                "(APIServer pid=9) Traceback (most recent call last):",
                '(APIServer pid=9)   File "/x/socket.py", line 1, in bind',
                "(APIServer pid=9) OSError: [Errno 98] Address already in use",
            ],
            "OSError: [Errno 98] Address already in use",
        ),
        (
            [
                "(APIServer pid=7) pydantic_core._pydantic_core.ValidationError: 1 validation error"
                " for VllmConfig",
                "(APIServer pid=7)   Value error, --per-request-spec-decode-metrics requires"
                " speculative decoding."
                " [type=value_error, input_value=ArgsKwargs(()), input_type=ArgsKwargs]",
            ],
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig"
            " Value error, --per-request-spec-decode-metrics requires speculative decoding.",
        ),
        (
            [
                "(EngineCore pid=5) ERROR 11-30 01:28:17 [core.py:1330] EngineCore failed to start.",
                "(EngineCore pid=5) ERROR 11-30 01:28:17 [core.py:1330] torch.OutOfMemoryError: CUDA"
                " out of memory."
                " Tried to allocate 2.00 GiB.",
                "(APIServer pid=2) RuntimeError: Engine core initialization failed. See root cause above.",
            ],
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        ),
        (
            [
                "(Worker pid=3) ERROR 11-30 01:28:17 [x.py:1] ValueError: No common block size for"
                " 16 (CPU_ATTN: [32])."
            ],
            "ValueError: No common block size for 16 (CPU_ATTN: [32]).",
        ),
        (
            ["cannot start /nowhere/python: No such file or directory"],
            "cannot start /nowhere/python: No such file or directory",
        ),
    ],
)
def test_other_deaths(log: list[str], first: str) -> None:
    assert explain_death(log)[0] == first


def test_the_last_words_where_nothing_tells() -> None:
    log = [f"line {number}" for number in range(20)]
    assert explain_death([*log, "", "  "]) == ("line 15", "line 16", "line 17", "line 18", "line 19")
    assert explain_death([]) == ()


def test_warnings_of_a_healthy_boot_are_no_cause() -> None:
    healthy = [line for line in lines("vllm-0.26-h200/none.log") if "WARNING" in line]
    assert any("ModuleNotFoundError" in line for line in healthy)
    assert not any("elftools" in line for line in explain_death([*healthy, "INFO:     Shutting down"]))


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name)
def test_every_log_can_be_asked(path) -> None:  # type: ignore[no-untyped-def]
    assert explain_death(path.read_text().split("\n"))


def test_how_it_ended() -> None:
    assert exit_words(-9) == "it was killed (signal 9): often the system, for lack of memory"
    assert exit_words(-11) == "it died of signal 11"
    assert exit_words(2) == "it ended with status 2"
