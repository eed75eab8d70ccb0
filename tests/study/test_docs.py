import re

from kvantage.core import ExitCode
from kvantage.study.arm import METHODS
from kvantage.study.fields import DTYPES
from kvantage.study.phases import PHASES
from kvantage.study.settings import SamplerSettings, Settings
from kvantage.study.study import Study
from tests.study.base import ROOT, read, refusal

PAGE = (ROOT / "docs" / "study-file.md").read_text()


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.S)
    assert found
    return found[1]


def test_the_pages_study_loads_and_its_errors_are_real() -> None:
    text = block("yaml")
    assert read(text).arm_names == ("none", "eagle3")
    wrong = text.replace("context_length", "contxt_length").replace("control: none", "control: nome")
    assert "kvantage: " + refusal(wrong) + "\n" == block("text")


def test_the_page_names_every_field_type_method_and_phase() -> None:
    words = [*Study.model_fields, *Settings.model_fields, *SamplerSettings.model_fields]
    words += [*DTYPES, *METHODS, *PHASES]
    assert [word for word in words if f"`{word}`" not in PAGE] == []


def test_exit_codes_are_all_on_their_page() -> None:
    page = (ROOT / "docs" / "exit-codes.md").read_text()
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|", page, re.M)
    assert [(int(code), name) for code, name in rows] == [(int(code), code.name) for code in ExitCode]
