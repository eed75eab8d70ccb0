"""Every table of a study as files, with the dictionary beside them."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from kvantage.analysis import Findings
from kvantage.core import LedgerError
from kvantage.core.columns import StudyData
from kvantage.frames.build import frame, frames_library
from kvantage.frames.dictionary import TABLES, dictionary_markdown

if TYPE_CHECKING:
    import polars as pl

Format = Literal["parquet", "csv", "json"]
FORMATS: tuple[Format, ...] = get_args(Format)


def export(data: StudyData, findings: Findings, folder: Path, form: Format) -> dict[str, int]:
    """Write each table to `folder` as `NAME.FORM`, and `dictionary.md` and `dictionary.json`.

    Returns the rows of each. CSV holds lists as JSON text, and null as an empty field (an empty text is
    `""`). Raises UsageError without polars, LedgerError where the folder cannot be written.
    """
    frames_library()
    rows = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for one in TABLES:
            made = frame(one.name, data, findings)
            _write(made, folder / f"{one.name}.{form}", form)
            rows[one.name] = made.height
        (folder / "dictionary.md").write_text(dictionary_markdown(), encoding="utf-8")
        page = {
            "schema_version": "1.0",
            "kvantage_version": data.kvantage_version,
            "simulated": data.simulated,
            "notice": findings.notice,
            "format": form,
            "tables": [{**asdict(one), "rows": rows[one.name]} for one in TABLES],
        }
        (folder / "dictionary.json").write_text(json.dumps(page, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise LedgerError(
            f"cannot be written: {error.strerror or error}", where=str(error.filename or folder)
        ) from error
    return rows


def _write(made: pl.DataFrame, path: Path, form: Format) -> None:
    if form == "parquet":
        made.write_parquet(path)
    elif form == "json":
        made.write_json(path)
    else:
        _flat(made).write_csv(path, quote_style="non_numeric", null_value="")


def _flat(made: pl.DataFrame) -> pl.DataFrame:
    """Lists as JSON text: a CSV field holds no list."""
    library = frames_library()
    flat = made
    for name, kind in made.schema.items():
        if isinstance(kind, library.List):
            texts = [None if one is None else json.dumps(list(one)) for one in made[name].to_list()]
            flat = flat.with_columns(library.Series(name, texts, dtype=library.String))
    return flat
