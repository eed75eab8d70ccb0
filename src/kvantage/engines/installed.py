"""Which engines there are on this machine, found without starting or importing one."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass

from kvantage.core import ArmSettings, UsageError


@dataclass(frozen=True, slots=True)
class Installed:
    """An engine and what was found of it. `version` is None where it is not here.

    `where` is its interpreter or program; `doubt` says what of it is outside of what kvantage was proven
    with; `todo` how to come by it.
    """

    engine: str
    version: str | None = None
    where: str | None = None
    doubt: str | None = None
    todo: str | None = None


def installed() -> tuple[Installed, ...]:
    """Each engine that kvantage starts: what of it is here, in the environment that a study would use."""
    return (_vllm(), _sglang(), _llamacpp())


def _vllm() -> Installed:
    from kvantage.engines.vllm.build import INSTALL, NEWEST, OLDEST, build_of

    try:
        build = build_of(ArmSettings("seen", "vllm", "-"))
    except UsageError as error:
        return Installed("vllm", doubt=error.message, todo=INSTALL)
    doubt = None
    if build.release != (0, 0) and not OLDEST <= build.release <= NEWEST:
        doubt = f"proven with {_dotted(OLDEST)} to {_dotted(NEWEST)}"
    elif not build.at_least(0, 32):
        doubt = "it does not count acceptance per request (0.32 does); its counters are used"
    kind = "CPU build, " if build.cpu else ""
    return Installed("vllm", build.version, f"{kind}{build.python}", doubt)


def _sglang() -> Installed:
    from kvantage.engines.sglang.version import DRAFT_KV_DTYPE, older_than

    try:
        version = importlib.metadata.version("sglang")
    except importlib.metadata.PackageNotFoundError:
        return Installed(
            "sglang",
            doubt="not installed beside kvantage",
            todo="name where it is: `engine: {name: sglang, python: /path/to/python}`, or a `launcher`",
        )
    old = older_than(version, DRAFT_KV_DTYPE)
    return Installed("sglang", version, doubt="no `draft_kv_dtype`: that needs 0.5.23" if old else None)


def _llamacpp() -> Installed:
    from kvantage.engines.llamacpp.command import found_server
    from kvantage.engines.llamacpp.help import abilities_of

    server = found_server()
    if server is None:
        return Installed(
            "llamacpp",
            doubt="no llama-server on the PATH or beside kvantage",
            todo="pip install 'kvantage[llamacpp]', or `engine: {name: llamacpp, server: /path}`",
        )
    try:
        able = abilities_of((server,))
    except (OSError, UsageError) as error:
        return Installed("llamacpp", doubt=f"{server} does not run: {error}", todo="try another build of it")
    return Installed("llamacpp", able.version or "version not told", server)


def _dotted(release: tuple[int, int]) -> str:
    return ".".join(map(str, release))
