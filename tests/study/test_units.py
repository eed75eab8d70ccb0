import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvantage.study.units import (
    parse_bytes,
    parse_duration,
    parse_exact_tokens,
    parse_tokens,
    show,
    show_bytes,
    show_duration,
)

PARSERS = (parse_tokens, parse_exact_tokens, parse_bytes, parse_duration)


@pytest.mark.parametrize(
    ("typed", "tokens"),
    [
        (128000, 128_000),
        ("128000", 128_000),
        ("128_000", 128_000),
        ("128k", 128_000),
        ("128 k", 128_000),
        ("128Ki", 131_072),
        ("1.5k", 1500),
        ("1M", 1_000_000),
        ("0.5Mi", 524_288),
    ],
)
def test_a_count_of_tokens_has_one_reading(typed: object, tokens: int) -> None:
    assert parse_tokens(typed) == tokens


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("128K", "`128K` has no unit of ours: `k` is 1,000, `Ki` is 1,024, `M` is 1,000,000"),
        ("1m", "has no unit of ours"),
        ("1.0001k", "is not a whole number of tokens"),
        ("-1", "needs a number of tokens"),
        ("", "needs a number of tokens"),
        (True, "not `true`"),
        (None, "not nothing"),
        ([1], "not a list"),
        ("12 tokens", "those of tokens are k, M, Ki, Mi"),
        (1.5, "is not a whole number of tokens"),
        ("9" * 50, "needs a number of tokens"),
    ],
)
def test_other_counts_are_refused_with_a_reason(typed: object, said: str) -> None:
    with pytest.raises(ValueError, match=said.replace("(", r"\(").replace(")", r"\)")):
        parse_tokens(typed)


def test_a_context_of_256k_is_two_numbers_and_so_refused() -> None:
    assert parse_exact_tokens(262144) == parse_exact_tokens("256Ki") == 262_144
    with pytest.raises(ValueError, match="may be 256,000 or 262,144 here: write 256000 or 262144"):
        parse_exact_tokens("256k")
    with pytest.raises(ValueError, match="may be 1,000,000 or 1,048,576"):
        parse_exact_tokens("1M")


@pytest.mark.parametrize(
    ("typed", "size"), [("96MiB", 96 << 20), ("2GiB", 2 << 30), ("1.5GiB", 3 << 29), ("7B", 7), (5, 5)]
)
def test_sizes_in_bytes(typed: object, size: int) -> None:
    assert parse_bytes(typed) == size


def test_decimal_bytes_are_refused_with_both_readings() -> None:
    with pytest.raises(ValueError, match="may mean GiB or powers of 1,000: write 2GiB or 2000000000"):
        parse_bytes("2GB")
    with pytest.raises(ValueError, match="write 96MiB or 96000000"):
        parse_bytes("96m")


@pytest.mark.parametrize(
    ("typed", "seconds"),
    [("2h", 7200), ("90m", 5400), ("45s", 45), ("1h30m", 5400), ("1.5h", 5400), ("1d", 86400), ("0.5s", 0.5)],
)
def test_durations(typed: str, seconds: float) -> None:
    assert parse_duration(typed) == seconds


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (90, "`90` of what"),
        ("90", "`90` of what"),
        ("2 hours", "needs a duration"),
        ("30m1h", "the largest first"),
        ("1h1h", "name each unit once"),
        ("0s", "above 0"),
        ("9999d", "at most a year"),
        (None, "needs a duration"),
    ],
)
def test_other_durations_are_refused(typed: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_duration(typed)


@given(st.integers(min_value=0, max_value=2**60))
def test_bytes_are_read_back_as_shown(count: int) -> None:
    assert parse_bytes(show_bytes(count)) == count


@given(st.integers(min_value=1, max_value=366 * 86400))
def test_whole_seconds_are_read_back_as_shown(seconds: int) -> None:
    assert parse_duration(show_duration(float(seconds))) == seconds


@given(st.floats(min_value=0.001, max_value=1e7, allow_nan=False))
def test_fractions_of_seconds_are_read_back_as_shown(seconds: float) -> None:
    assert parse_duration(show_duration(seconds)) == pytest.approx(seconds)


@given(st.integers(min_value=0, max_value=10**12), st.sampled_from(["", "k", "Ki", "M", "Mi"]))
def test_units_of_tokens_multiply(count: int, unit: str) -> None:
    scale = {"": 1, "k": 1000, "Ki": 1024, "M": 1000**2, "Mi": 1024**2}[unit]
    assert parse_tokens(f"{count}{unit}") == count * scale


@given(st.one_of(st.text(), st.none(), st.booleans(), st.floats(), st.integers(), st.lists(st.integers())))
def test_any_value_is_read_or_refused_in_words(value: object) -> None:
    for parse in PARSERS:
        said = ""
        try:
            count = parse(value)
        except ValueError as error:
            count, said = 0, str(error)
        assert count >= 0
        assert "invalid" not in said
    assert len(show(value)) <= 62
