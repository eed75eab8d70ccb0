"""Environment variables of an arm. Secrets stay outside: a study holds `${NAME}`, never the value."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from kvantage.core import UsageError

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SECRET = re.compile(
    r"(?:^|[_-])(?:token|secret|passw(?:or)?d|credentials?|(?:api|access|private|auth)[_-]?key)$",
    re.IGNORECASE,
)


def is_secret(name: str, value: object) -> bool:
    """True when a variable, flag or option holds a secret: HF_TOKEN, api-key, DB_PASSWORD; never a number."""
    spelled_out = isinstance(value, str) and not references(value) and not value.isdecimal()
    return spelled_out and bool(_SECRET.search(name))


def references(text: str) -> tuple[str, ...]:
    """The names in `text` that are taken from the environment."""
    return tuple(_REFERENCE.findall(text))


def resolve_env(env: Mapping[str, str], environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """`env` with every `${NAME}` replaced from `environ` (the process's own by default).

    Only for starting a process: what is recorded and shown is `env` as it was. Raises UsageError when a
    variable is not set.
    """
    known = os.environ if environ is None else environ
    resolved: dict[str, str] = {}
    for name, text in env.items():
        missing = [one for one in references(text) if one not in known]
        if missing:
            raise UsageError(
                f"the environment variable {missing[0]} is not set",
                where=f"env.{name}",
                hint=f"export {missing[0]}=... before you start kvantage; its value is not recorded.",
            )
        resolved[name] = _REFERENCE.sub(lambda match: known[match[1]], text)
    return resolved
