"""From a study file to a Study, or to one error that names everything that is wrong."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from kvantage.core import UsageError
from kvantage.study.checks import checks
from kvantage.study.source import Problem, Source, parse_source, read_source
from kvantage.study.study import Study
from kvantage.study.words import no_such, problems

S = TypeVar("S", bound=Study)


def load_study(path: str | Path, *, paths_must_exist: bool = True) -> Study:
    """Read a study file. Raises StudyError with `file:line: field` for each thing that is wrong.

    With `paths_must_exist=False` folders and files that it names are not looked for.
    """
    file = Path(path)
    study = validate(Study, read_source(file), folder=file.parent, paths_must_exist=paths_must_exist)
    study._path = file
    return study


def study_from_text(text: str, *, folder: Path, name: str = "study", paths_must_exist: bool = True) -> Study:
    """The same from text; `folder` is what its paths are relative to. Raises StudyError."""
    return validate(Study, parse_source(text, name), folder=folder, paths_must_exist=paths_must_exist)


def packaged_study(name: str) -> Path:
    """The file of a study that ships with kvantage: `quickstart`, `quickstart-amx`. Raises UsageError."""
    folder = Path(str(resources.files("kvantage"))) / "studies"
    names = sorted(file.stem for file in folder.glob("*.yaml"))
    if name not in names:
        raise UsageError(no_such("packaged study", name, names))
    return folder / f"{name}.yaml"


def validate(kind: type[S], source: Source, *, folder: Path | None, paths_must_exist: bool) -> S:
    """A study from plain values. Raises StudyError."""
    try:
        study = kind.model_validate(
            source.value,
            context={
                "folder": folder,
                "paths_must_exist": paths_must_exist,
                "served_elsewhere": _served_elsewhere(source.value),
            },
        )
    except ValidationError as error:
        raise source.error([*problems(error, kind), *_control_not_there(source, error)]) from None
    found = checks(study)
    if found:
        raise source.error(found)
    study._source = source
    return study


def _served_elsewhere(value: Any) -> bool:
    """Whether models may lie on another machine, or in a container, than this study file."""
    if not isinstance(value, dict):
        return False
    boot = value.get("boot")
    own = isinstance(boot, dict) and bool(boot.get("start") or boot.get("manual"))
    return own or bool(value.get("hosts") or value.get("attach"))


def _control_not_there(source: Source, error: ValidationError) -> list[Problem]:
    """The one check between fields that is worth making when other fields are wrong too."""
    arms, control = source.value.get("arms"), source.value.get("control")
    name = control.get("arm") if isinstance(control, dict) else control
    if not isinstance(arms, dict) or not isinstance(name, str) or name in arms:
        return []
    if any(one["loc"] and one["loc"][0] == "control" for one in error.errors()):
        return []
    return [Problem(("control",), no_such("arm", name, arms))]
