"""What the documentation shows of a terminal, from real runs: `python scripts/terminal_outputs.py`.

Each text is kept in docs/results/terminal/, and stands in the page that names it in a comment. Names of
folders of the machine are shortened; nothing else is changed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.cli.simulated import study  # noqa: E402
from tests.cli.terminal import KVANTAGE, Terminal  # noqa: E402
from tests.ledgers import write_run  # noqa: E402

from kvantage.core import ExitCode  # noqa: E402

KEPT = ROOT / "docs" / "results" / "terminal"
MARK = re.compile(
    r"<!-- real output: results/terminal/(?P<name>[\w.-]+) -->\n```text\n(?P<text>.*?)```", re.S
)


def main() -> None:
    """Make every output anew, and put it into its page."""
    KEPT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kept, text in outputs(folder).items():
            (KEPT / kept).write_text(shortened(text, folder), encoding="utf-8")
    for page in sorted((ROOT / "docs").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        made = MARK.sub(pasted, text)
        if made != text:
            page.write_text(made, encoding="utf-8")


def pasted(match: re.Match[str]) -> str:
    """The block with what is kept under its name."""
    text = (KEPT / match["name"]).read_text(encoding="utf-8")
    return f"<!-- real output: results/terminal/{match['name']} -->\n```text\n{text}```"


def outputs(folder: Path) -> dict[str, str]:
    """The texts by name, from runs in `folder`."""
    made = {
        "init.txt": said(folder, "init", "tonight.yaml", "--model", "Qwen/Qwen3-8B", "--engine", "vllm",
                         "--hardware", "h100", "--drafters",
                         "ngram,eagle3:RedHatAI/Qwen3-8B-speculator.eagle3:3", "--yes"),
        "init.yaml.txt": "",
        "doctor.txt": said(folder, "doctor"),
    }  # fmt: skip
    made["init.yaml.txt"] = (folder / "tonight.yaml").read_text()
    study(folder, output_tokens=900, speed=1)
    words = (*KVANTAGE, "run", "study.yaml", "--out", "runs/study")
    with Terminal(words, 80, 24, folder) as terminal:
        assert terminal.shows("ngram: repeat documents at 2:", 240)
        assert terminal.until(lambda: any(" AL 2." in line for line in terminal.display()), 60)
        made["watch.txt"] = "\n".join(terminal.display()).rstrip() + "\n"
        assert terminal.ends(240) == 0
    made["watch-idle.txt"] = said(folder, "watch", "runs/study")
    made["export.txt"] = said(folder, "export", "runs/study")
    write_run(folder / "before", {"none": 1.0, "mtp": 1.5}, seed=1)
    write_run(folder / "after", {"none": 1.0, "mtp": 1.5 * 0.95}, seed=3)
    compared = said(folder, "compare", "before", "after", code=int(ExitCode.REGRESSION))
    made["compare.txt"] = f"$ kvantage compare before after\n{compared}$ echo $?\n3\n"
    return made


def said(folder: Path, *words: str, code: int = 0) -> str:
    """What a command prints that ends with this exit code."""
    done = subprocess.run(
        [*KVANTAGE, *words], cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "NO_COLOR": "1"},
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return done.stdout


def shortened(text: str, folder: Path) -> str:
    """Without this machine's folders."""
    for path, word in ((folder, "."), (ROOT, "~/kvantage"), (Path.home(), "~")):
        text = text.replace(str(path.resolve()), word).replace(str(path), word)
    return text


if __name__ == "__main__":
    main()
