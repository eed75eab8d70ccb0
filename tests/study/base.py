"""A small right study, and ways to make it wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvantage.core import StudyError
from kvantage.study import Study, study_from_text

ROOT = Path(__file__).parents[2]

BASE = """\
model: org/target
engine: fast
common:
  context_length: 4096
control: none
arms:
  none: {}
  mtp: {speculation: {method: mtp, drafts: 3}}
phases:
  probes: {}
  short: {}
  cold: {document_tokens: 2k}
  repeat: {output_tokens: 256}
policy:
  maximise: {phase: short, workload: code}
"""


def read(text: str = BASE, folder: Path = Path(), **options: bool) -> Study:
    return study_from_text(text, folder=folder, name="study.yaml", **options)


def changed(old: str, new: str) -> str:
    """The right study with one line changed."""
    assert BASE.count(old) == 1, old
    return BASE.replace(old, new)


def refusal(text: str, folder: Path = Path(), **options: bool) -> str:
    """What a wrong study is told."""
    with pytest.raises(StudyError) as caught:
        read(text, folder, **options)
    return str(caught.value)
