from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvantage.core import StudyError
from kvantage.study.source import parse_source, read_source


def value(text: str) -> object:
    return parse_source(text, "study.yaml").value


def refusal(text: str) -> str:
    with pytest.raises(StudyError) as caught:
        parse_source(text, "study.yaml")
    return str(caught.value)


def test_words_that_yaml_1_1_reads_as_truth_are_text() -> None:
    assert value("on: off\nno: yes\nNone: none\ny: n\n") == {
        "on": "off",
        "no": "yes",
        "None": "none",
        "y": "n",
    }
    assert value("a: true\nb: False\nc: ~\nd:\n") == {"a": True, "b": False, "c": None, "d": None}
    assert value("null: 1\n1: 2\n") == {"null": 1, "1": 2}


def test_numbers_are_decimal_and_times_and_dates_are_text() -> None:
    assert value("a: 010\nb: 1:30\nc: 2026-01-01\nd: 1_000\ne: 0x10\nf: 0o17") == {
        "a": 10,
        "b": "1:30",
        "c": "2026-01-01",
        "d": "1_000",
        "e": 16,
        "f": 15,
    }
    assert value("a: .inf\nb: .nan\nc: 1e999\nd: 1e3\ne: .5") == {
        "a": ".inf",
        "b": ".nan",
        "c": "1e999",
        "d": 1000.0,
        "e": 0.5,
    }


def test_lines_are_kept_for_keys_and_items() -> None:
    source = parse_source("a:\n  b:\n    - 1\n    - 2\nc: {d: 1}\n", "s.yaml")
    assert source.line(("a", "b", 1)) == 4
    assert source.line(("c", "d", "e")) == 5
    assert source.where(("a", "b", 1)) == "s.yaml:4: a.b[1]"
    assert source.where(("c", "d", "default")) == "s.yaml:5: c.d"
    assert source.where(("z",)) == "s.yaml:1"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "study.yaml: the study is empty"),
        ("# nothing\n", "study.yaml: the study is empty"),
        ("- a\n", "study.yaml:1: a study is `field: value` lines; see docs/study-file.md"),
        ("a:\n\tb: 1\n", "study.yaml:2: a tab is used to indent"),
        ("a: 1\nb: 2\na: 3\n", "study.yaml:3: a: is given twice (the first is on line 1)"),
        ("a: 1\n---\nb: 2\n", "study.yaml:2: a second document begins"),
        ("a: b: c\n", "study.yaml:1: a `:` stands where none can"),
        ("a: [1, 2\nb: 3\n", "Is a `:`, a `,` or a closing bracket missing"),
        ("a: {b: ${C}}\n", "Between braces, `${NAME}` needs quotes: '${NAME}'."),
        ("a: *b\n", "Text that begins with `*` needs quotes"),
        (
            "a: !!python/object/apply:os.system ['true']\n",
            "the tag `!!python/object/apply:os.system` is not used",
        ),
        ("a: !secret x\n", "study.yaml:1: a: the tag `!secret` is not used in a study: leave it out"),
        ("a: &x {b: 1}\nc: {<<: *x}\n", "merge keys are not read"),
        ("? [a]\n: b\n", "a field's name is a word"),
        ("a: &x [*x]\n", "far more than a study does"),
        ("[" * 5000, "is nested too deeply"),
    ],
)
def test_what_is_not_a_study_is_refused_with_its_line(text: str, said: str) -> None:
    assert said in refusal(text)


def test_an_alias_bomb_is_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert "far more than a study does" in refusal("\n".join(lines))


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path, said in [(tmp_path / "none.yaml", "there is no such file"), (tmp_path, "this is a folder")]:
        with pytest.raises(StudyError, match=said):
            read_source(path)
    (tmp_path / "latin.yaml").write_bytes(b"notice: caf\xe9\n")
    with pytest.raises(StudyError, match="is not UTF-8 text"):
        read_source(tmp_path / "latin.yaml")
    (tmp_path / "bom.yaml").write_bytes(b"\xef\xbb\xbfnotice: a\r\nseed: 1\r\n")
    assert read_source(tmp_path / "bom.yaml").value == {"notice": "a", "seed": 1}


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        read = value(text)
    except StudyError as error:
        said = str(error)
    else:
        assert isinstance(read, dict)
        said = "study.yaml"
    assert said.startswith("study.yaml")
