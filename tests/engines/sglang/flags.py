"""SGLang's own command-line parser, rebuilt from what its argparse declares (tests/data/sglang)."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any, NoReturn

from tests.engines.cases import DATA


class Refused(Exception):  # noqa: N818
    """The parser's own words."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Refused(message)


def parse(version: str, argv: Sequence[str]) -> argparse.Namespace:
    """Parse flags as that version does: names, prefixes, values, choices. Raises Refused."""
    parser = _Parser(prog="sglang", add_help=False)
    lines = (DATA / "sglang" / f"flags-{version}.jsonl").read_text().split("\n")
    for line in lines:
        if line:
            row = json.loads(line)
            options: dict[str, Any] = {"required": row.get("required", False)}
            if row.get("nargs") == 0:
                options["action"] = "store_true"
            else:
                options["type"] = {"int": int, "float": float}.get(row.get("type", ""), str)
                options |= {name: row[name] for name in ("nargs", "choices") if name in row}
            parser.add_argument(*row["names"], **options)
    return parser.parse_args(list(argv))
