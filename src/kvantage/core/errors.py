"""Errors for the person: what is wrong, where, and what to do."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the process's exit status means. Documented in docs/exit-codes.md."""

    OK = 0
    BUG = 1
    USAGE = 2
    REGRESSION = 3
    NOTHING_MEASURED = 4
    PARTIAL = 5
    STORAGE = 6
    INTERRUPTED = 130


class KvantageError(Exception):
    """Something that the person can act on.

    `message` says what is wrong, `where` the file, line, field, arm or boot, `hint` what to do.
    """

    exit_code = ExitCode.BUG

    def __init__(self, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text}\n  {self.hint}" if self.hint else text


class UsageError(KvantageError):
    """The command line, a path or a setting is wrong; nothing was started."""

    exit_code = ExitCode.USAGE


class StudyError(UsageError):
    """The study file is wrong; `where` is `file:line: field`."""


class ArmFailed(KvantageError):  # noqa: N818
    """One arm cannot be measured (it did not boot, died, or is not what was asked); the others go on.

    `log_lines` are the server's own words that say why.
    """

    exit_code = ExitCode.PARTIAL

    def __init__(
        self,
        message: str,
        *,
        where: str | None = None,
        hint: str | None = None,
        log_lines: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message, where=where, hint=hint)
        self.log_lines = log_lines


class LedgerError(KvantageError):
    """The ledger cannot be written or read: a full disk, a wrong file, another run at work on it."""

    exit_code = ExitCode.STORAGE
