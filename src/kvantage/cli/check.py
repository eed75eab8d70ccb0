"""`kvantage check STUDY`: read a study file and say what it asks for. Starts nothing."""

from __future__ import annotations

import json
from pathlib import Path

import click

from kvantage.study import Study, load_study


@click.command(short_help="Read a study file and say what it asks for.")
@click.argument("study", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="The study as JSON, defaults filled in.")
def command(study: Path, as_json: bool) -> None:
    """Read a study file and say what it asks for. Nothing is started.

    \b
      kvantage check study.yaml
    """
    asked = load_study(study)
    click.echo(json.dumps(asked.to_json(), indent=2) if as_json else summary(asked))


def summary(study: Study) -> str:
    """What a study asks for, in a few lines."""
    revision = f" at {study.model.revision}" if study.model.revision else ""
    lines = [f"{study.name}: {study.model.path}{revision} on {study.engine.name}", "", "arms"]
    width = max(map(len, (*study.arm_names, *study.phase_names)))
    for name in study.arm_names:
        lines.append(f"  {name:<{width}}  {_arm(study, name)}")
    lines += ["", "phases"]
    lines += [f"  {phase:<{width}}  {_phase(study, phase)}" for phase in study.phase_names]
    for warning in study.warnings():
        lines += ["", f"note: {warning}"]
    return "\n".join(lines)


def _arm(study: Study, name: str) -> str:
    if name == study.control_arm:
        return "the control"
    differences = study.declared_differences(study.control_arm, name)
    if not differences:
        return "as the control"
    return ", ".join(f"{one.field.removeprefix('speculation.')} {_value(one.b)}" for one in differences)


def _value(value: object) -> str:
    return "left out" if value is None else str(value)


def _phase(study: Study, phase: str) -> str:
    sizes = getattr(study.phases, phase).model_dump(mode="json")
    return ", ".join(f"{name} {_sizes(value)}" for name, value in sizes.items() if value is not None)


def _sizes(value: object) -> str:
    if isinstance(value, dict):
        return " + ".join(value)
    if isinstance(value, list):
        return "/".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)
