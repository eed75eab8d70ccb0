"""The published four-arm study on two machines, as commands."""

from __future__ import annotations

import shlex
from pathlib import Path

from click.testing import CliRunner

from kvantage.cli import cli
from tests.engines.sglang.flags import parse

EXAMPLE = Path(__file__).parents[3] / "examples" / "two-gb10-glm-5.3-flash.yaml"


def test_two_machines_exact_commands_for_four_arms() -> None:
    result = CliRunner().invoke(cli, ["run", str(EXAMPLE), "--dry-run"])
    assert result.exit_code == 0, result.output
    commands = [line for line in result.output.split("\n") if line.strip().startswith("machine ")]
    told = []
    for line in commands:
        argv = shlex.split(line.partition(": ")[2])
        assert argv[:3] == ["python3", "-m", "sglang.launch_server"]
        parsed = parse("0.5.23", argv[3:])
        assert (parsed.nnodes, parsed.tp_size, parsed.max_running_requests) == (2, 2, 4)
        told.append((parsed.served_model_name, parsed.node_rank))
    assert told == [(arm, rank) for arm in ("none", "mtp", "dflash-bf16", "dflash-fp8") for rank in (0, 1)]
