"""For mkdocs: pages and files of the repository that the documentation links to are in the site as well.

A link that leads out of docs/ is right on the repository's own pages; here what it leads to is added to the
site, at the same place under `repository/`, and the link is turned to it. A link to nothing stays as it is,
and the strict build fails on it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
OUTSIDE = "repository"
LINK = re.compile(r"\[(?P<text>[^\]\n]*)\]\((?P<to>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")
PLAIN = {".md", ".yaml", ".json", ".txt", ".csv", ".py", ".html", ".png", ".svg", ""}
FOLDER = "README.md"


def on_files(files: Files, config: Any) -> Files:
    """Add what is linked to from docs/, and from what was added by that."""
    waiting = [ROOT / "docs" / file.src_uri for file in files if file.src_uri.endswith(".md")]
    waiting.append(ROOT / "README.md")
    waiting.append(ROOT / "CHANGELOG.md")
    waiting.append(ROOT / "CONTRIBUTING.md")
    seen: set[Path] = set()
    while waiting:
        page = waiting.pop()
        if page in seen:
            continue
        seen.add(page)
        if not _inside(page):
            _add(files, config, page)
        if page.suffix == ".md":
            waiting += [target for target in _targets(page) if not _inside(target)]
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Turn links that lead out of docs/, or that stand in a page from outside, to their place in the site."""
    here = page.file.src_uri
    outside = here.startswith(f"{OUTSIDE}/")
    source = ROOT / (here.removeprefix(f"{OUTSIDE}/") if outside else f"docs/{here}")

    def turned(match: re.Match[str]) -> str:
        target = _target(source, match["to"])
        if target is None and (source.parent / match["to"]).is_dir():
            return match["text"]  # a folder without a page is for the repository alone
        if target is None or (not outside and _inside(target)):
            return match[0]
        place = posixpath.relpath(_uri(target), posixpath.dirname(here) or ".")
        return f"[{match['text']}]({place}{match['anchor'] or ''})"

    return LINK.sub(turned, markdown)


def _targets(page: Path) -> list[Path]:
    found = (_target(page, match["to"]) for match in LINK.finditer(page.read_text(encoding="utf-8")))
    return [target for target in found if target is not None]


def _target(source: Path, link: str) -> Path | None:
    """The file of this repository that a link leads to; None for an address, or where there is none."""
    if "://" in link or link.startswith(("mailto:", "#")):
        return None
    target = Path(posixpath.normpath(posixpath.join(source.parent.as_posix(), link)))
    if target.is_dir():
        target = target / FOLDER
    if not target.is_file() or ROOT not in target.parents or target.suffix not in PLAIN:
        return None
    return target


def _inside(path: Path) -> bool:
    return ROOT / "docs" in path.parents


def _uri(path: Path) -> str:
    relative = path.relative_to(ROOT).as_posix()
    return relative.removeprefix("docs/") if _inside(path) else f"{OUTSIDE}/{relative}"


def _add(files: Files, config: Any, path: Path) -> None:
    uri = _uri(path)
    if files.get_file_from_path(uri) is None:
        files.append(File.generated(config, uri, abs_src_path=str(path)))
