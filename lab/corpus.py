"""Gather the training text: the Python standard library, its documentation, and Jane Austen.

    python lab/corpus.py OUT [--debs DIR]

fetches four Debian packages with `apt-get download` (a Debian machine, no root needed), unpacks
them, and writes OUT/corpus.json.xz: `{"code": [...], "code_held": [...], "prose": [...],
"prose_held": [...]}`, every entry `{"name", "text"}`. The held-out part is chosen by a hash of the
file's name and is never trained on. Nothing of this is committed.

Licences: the library and its documentation PSF-2.0; the novels are in the public domain (the R
package around them is MIT).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import re
import struct
import subprocess
import zlib
from pathlib import Path

PACKAGES = (
    "libpython3.11-stdlib",
    "libpython3.11-minimal",
    "libpython3.11-testsuite",
    "idle-python3.11",
    "python3.11-doc",
    "r-cran-janeaustenr",
)
HELD_OUT = 0.06  # share of the files of each kind


def fetch(folder: Path) -> Path:
    """Download and unpack the packages; returns the folder that holds their files."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = [name for name in PACKAGES if not list(folder.glob(f"{name}_*.deb"))]
    if missing:
        subprocess.run(["apt-get", "download", *missing], cwd=folder, check=True)
    root = folder / "x"
    for package in sorted(folder.glob("*.deb")):
        subprocess.run(["dpkg", "-x", str(package), str(root)], check=True)
    return root


def code_files(root: Path) -> list[dict[str, str]]:
    """Python sources that read like code: no tables of data, no foreign alphabets."""
    kept, seen = [], set()
    for path in sorted(root.rglob("*.py")):
        name = str(path.relative_to(root))
        if re.search(r"encodings/|cjk|unicode|bad_|badsyntax|lib2to3/tests/data|pydoc_data", name):
            continue
        data = path.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        if digest in seen or not 400 <= len(data) <= 400_000:
            continue
        seen.add(digest)
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            continue
        digits = sum(c.isdigit() for c in text)
        foreign = sum(ord(c) > 127 for c in text)
        if digits > 0.12 * len(text) or foreign > 0.005 * len(text):
            continue
        kept.append({"name": name, "text": text.replace("\t", "    ").strip() + "\n"})
    return kept


def documentation(root: Path) -> list[dict[str, str]]:
    """The library's documentation, as the text it is written in."""
    kept = []
    for path in sorted(root.rglob("*.rst.txt")):
        text = path.read_text("utf-8", errors="ignore")
        if len(text) > 1500 and "/whatsnew/changelog" not in str(path):
            kept.append({"name": str(path.relative_to(root)), "text": text.strip() + "\n"})
    return kept


def novels(root: Path) -> list[dict[str, str]]:
    """The novels, out of the R package's serialised lines, in pieces of about 20,000 characters."""
    data = next(root.rglob("janeaustenr/data/Rdata.rdb")).read_bytes()
    kept: list[dict[str, str]] = []
    at = book = 0
    while at + 4 < len(data):
        body = data[at + 4 :]
        if body[:1] in b"Z2" and body[0] != 0x78:
            body = body[1:]
        engine = zlib.decompressobj()
        raw = engine.decompress(body)
        at = len(data) - len(engine.unused_data)
        lines, spot = [], 0
        while (spot := raw.find(b"\x00\x09", spot)) >= 0:
            size = struct.unpack(">i", raw[spot + 2 : spot + 6])[0] if spot + 6 <= len(raw) else -1
            if 0 <= size <= 400 and spot >= 2 and raw[spot - 2] in (0, 0x04):
                lines.append(raw[spot + 6 : spot + 6 + size].decode("utf-8", errors="ignore"))
                spot += 6 + size
            else:
                spot += 1
        book += 1
        piece: list[str] = []
        for line in lines:
            piece.append(line)
            if sum(map(len, piece)) > 20_000 and not line:
                kept.append({"name": f"austen/{book}/{len(kept)}", "text": _unwrap(piece)})
                piece = []
        if len(piece) > 40:
            kept.append({"name": f"austen/{book}/{len(kept)}", "text": _unwrap(piece)})
    return kept


def _unwrap(lines: list[str]) -> str:
    paragraphs = re.split(r"\n\s*\n", "\n".join(lines).replace("_", "").replace("--", " - "))
    return "\n\n".join(" ".join(p.split()) for p in paragraphs if p.strip()) + "\n"


def held(name: str) -> bool:
    """Whether a file is kept for evaluation."""
    return int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) < HELD_OUT * 2**32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--debs", type=Path, default=Path("lab/build/debs"))
    arguments = parser.parse_args()
    root = fetch(arguments.debs)
    code, prose = code_files(root), documentation(root) + novels(root)
    corpus = {
        "code": [f for f in code if not held(f["name"])],
        "code_held": [f for f in code if held(f["name"])],
        "prose": [f for f in prose if not held(f["name"])],
        "prose_held": [f for f in prose if held(f["name"])],
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    with lzma.open(arguments.out / "corpus.json.xz", "wt", preset=4) as file:
        json.dump(corpus, file)
    for kind, files in corpus.items():
        print(kind, len(files), "files", sum(len(f["text"]) for f in files), "characters")


if __name__ == "__main__":
    main()
