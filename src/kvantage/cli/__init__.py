"""The command line: one thin file a command, imported when it is called."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Sequence

import click

from kvantage.cli.lazy import Entry, LazyGroup, ReaderLeft
from kvantage.version import __version__

BEGIN, MEASURE, READ = "Begin", "Measure", "Read"
COMMANDS = {
    "quickstart": Entry(
        "kvantage.cli.quickstart", "Compare four arms on a toy model, on this machine.", BEGIN
    ),
    "init": Entry("kvantage.cli.init", "Write a study file, by a few questions or by flags.", BEGIN),
    "doctor": Entry(
        "kvantage.cli.doctor", "Say what is installed, reachable or too old, and what to do.", BEGIN
    ),
    "check": Entry("kvantage.cli.check", "Read a study file and say what it asks for.", BEGIN),
    "plan": Entry(
        "kvantage.cli.plan", "Predict pools, sessions and speeds before anything is started.", BEGIN
    ),
    "run": Entry("kvantage.cli.run", "Run a study: every arm, the same work, a report.", MEASURE),
    "watch": Entry("kvantage.cli.watch", "Look at a run that is at work in another shell.", MEASURE),
    "probe": Entry(
        "kvantage.cli.probe", "Say what a running server is, and what to change to measure it.", MEASURE
    ),
    "measure": Entry("kvantage.cli.attach", "Measure one arm on a server that runs already.", MEASURE),
    "exactness": Entry(
        "kvantage.cli.exactness", "Say whether two servers, or two runs, give the same answers.", MEASURE
    ),
    "report": Entry("kvantage.cli.report", "Report again from what was measured.", READ),
    "compare": Entry("kvantage.cli.compare", "Compare runs, or a run with published figures.", READ),
    "export": Entry("kvantage.cli.export", "Write what was measured as Parquet, CSV or JSON tables.", READ),
    "inspect": Entry(
        "kvantage.cli.inspect", "Say what a server's log, metrics, answers or config mean.", READ
    ),
    "engines": Entry("kvantage.cli.engines", "Show the study's words against each engine's flags."),
    "calibrate": Entry("kvantage.cli.calibrate", "Prove how exactly this machine times a stream."),
    "golden": Entry("kvantage.cli.golden", "Serve streams whose times and tokens are known."),
    "completion": Entry("kvantage.cli.completion", "Print what makes your shell complete kvantage's words."),
}


@click.group(
    cls=LazyGroup,
    entries=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="`kvantage COMMAND --help` has examples. Every option can be given by a variable, such as"
    " KVANTAGE_RUN_OUT for `run --out`. Colours: NO_COLOR. Exit codes: docs/exit-codes.md.",
)
@click.version_option(__version__, "-V", "--version", prog_name="kvantage", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")
def cli() -> None:
    """Which way of speculating should this server run?

    kvantage starts your server once for each way (an 'arm'), gives all of them the same work, and says what
    each drafter costs (KV pool, start-up, exactness) and what it buys (speed).

    \b
      kvantage quickstart               on a toy model, in minutes, no GPU needed
      kvantage init                     writes a study file for your own model and server
      kvantage run study.yaml           measures it, and reports
    """


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command and exit with its code: see docs/exit-codes.md. `--debug` may stand anywhere."""
    sys.exit(invoke(list(sys.argv[1:] if argv is None else argv)))


def invoke(argv: list[str]) -> int:
    """Run a command and return its exit code; errors are said on stderr in one paragraph.

    Not called `run`: importing the command of that name would take its place.
    """
    words, debug = _without_debug(argv)
    try:
        outcome = cli.main(words, prog_name="kvantage", standalone_mode=False)
    except SystemExit as leaving:
        return _code(leaving.code)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        return 130
    except ReaderLeft:
        # Python would complain again when it flushes stdout at exit.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        return _report(error, debug)
    return outcome if isinstance(outcome, int) else 0


def _report(error: Exception, debug: bool) -> int:
    """Say what went wrong; returns the exit code."""
    from kvantage.core import ExitCode, KvantageError

    if debug:
        import traceback

        traceback.print_exception(error)
    if isinstance(error, KvantageError):
        click.echo(f"kvantage: {error}", err=True)
        return int(error.exit_code)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        place = f" ({error.filename})" if error.filename else ""
        click.echo(f"kvantage: the disk is full{place}; what was finished is kept", err=True)
        return int(ExitCode.STORAGE)
    hint = "" if debug else "\n  Run it again with --debug for the traceback."
    click.echo(f"kvantage: a fault of kvantage itself: {type(error).__name__}: {error}{hint}", err=True)
    return int(ExitCode.BUG)


def _without_debug(argv: list[str]) -> tuple[list[str], bool]:
    end = argv.index("--") if "--" in argv else len(argv)
    words = [word for word in argv[:end] if word != "--debug"]
    asked = len(words) < end or os.environ.get("KVANTAGE_DEBUG", "") not in ("", "0")
    return [*words, *argv[end:]], asked


def _code(code: object) -> int:
    """What `sys.exit(code)` means as an exit status."""
    if code is None:
        return 0
    if isinstance(code, int):
        return code
    click.echo(str(code), err=True)
    return 1
