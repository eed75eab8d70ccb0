"""Execute the documentation's notebook and keep what it shows: `python scripts/run_notebook.py`.

It runs in a folder of its own, for real; the documentation shows what came of it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[1] / "docs" / "notebooks" / "a-run.ipynb"


def executed(path: Path, folder: Path) -> Any:
    """The notebook with its outputs, run in `folder`. Raises CellExecutionError where a cell fails."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    client.execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # when it ran, to the microsecond: noise in every diff
    notebook.metadata.pop("language_info", None)
    return notebook


if __name__ == "__main__":
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else NOTEBOOK
    with tempfile.TemporaryDirectory() as name:
        nbformat.write(executed(place, Path(name)), place)
