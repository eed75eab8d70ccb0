"""What the tables hold: every column with its type, its unit and its meaning. The frames are built by it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Kind = Literal["text", "integer", "number", "truth", "texts", "integers"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column. `kind` is what a value is; null, in any column, is 'not reported' and never zero."""

    name: str
    kind: Kind
    unit: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table: what one row is, and its columns in order."""

    name: str
    row: str
    columns: tuple[Column, ...]


def _columns(text: str) -> Iterator[Column]:
    for line in text.strip().splitlines():
        name, kind, unit, meaning = (part.strip() for part in line.split("|", 3))
        assert kind in ("text", "integer", "number", "truth", "texts", "integers"), line
        yield Column(name, kind, "" if unit == "-" else unit, meaning)  # type: ignore[arg-type]


_ARM = """
arm            | text    | -      | the arm's name in the study
block          | integer | -      | which boot of the arm, from 0
"""
_CELL = f"""
{_ARM.strip()}
phase          | text    | -      | ttft, probes, short, sweep, cold, repeat, ...
workload       | text    | -      | which prompts, or `documents`
concurrency    | integer | -      | requests in flight
"""
_READING = """
name           | text    | -      | which quantity; docs/report.md and docs/inspect.md say what the words mean
value          | number  | in `unit` | the figure; null where it is missing
unit           | text    | -      | its unit
source         | text    | -      | where it is from: request, counter delta, log window, gauge, config, ...
low            | number  | in `unit` | lower end of its interval or range, where there is one
high           | number  | in `unit` | upper end
note           | text    | -      | what the figure covers
missing        | text    | -      | why there is no figure
"""
_REQUESTS = f"""
request        | integer | -      | number of the row, from 0; `chunks` refers to it
{_CELL.strip()}
chain          | text    | -      | the unit of resuming that it was sent in
attempt        | integer | -      | which attempt at the chain, from 0
repeat         | integer | -      | the wave's or repeat's number
stream         | integer | -      | its place in the wave
prompt_id      | text    | -      | which prompt; the same in every arm
warmup         | truth   | -      | sent to warm up: in no speed
simulated      | truth   | -      | from a simulator, or with simulated acceptance
ok             | truth   | -      | ended as it should
error          | text    | -      | why it failed; null where it did not
finish_reason  | text    | -      | the server's word for why it ended
intended_ns    | integer | ns     | when the schedule wanted it sent, on the machine's monotonic clock
sent_ns        | integer | ns     | when its last byte was handed to the socket
first_ns       | integer | ns     | first delta of content or reasoning; null where none came
first_content_ns | integer | ns   | first delta of content
end_ns         | integer | ns     | the stream's end, error or deadline
prompt_tokens  | integer | tokens | by the server's usage
output_tokens  | integer | tokens | by the server's usage, reasoning included
reasoning_tokens | integer | tokens | by the server's usage
cached_tokens  | integer | tokens | prompt tokens that came from the prefix cache
accepted_tokens | integer | tokens | drafts accepted, where the server counts by request
drafted_tokens | integer | tokens | drafts proposed
spec_steps     | integer | steps  | verification steps
histogram      | integers | steps | place i: steps that accepted i drafts
queue_s        | number  | s      | time in the server's queue, where it says so
retractions    | integer | -      | times that it was preempted, where the server says so
expected_low   | integer | tokens | the least that a sound prefix cache serves of it
expected_high  | integer | tokens | the most
client_lag_ns  | integer | ns     | the client's own largest delay while the stream was open
content        | text    | -      | the answer; from a server, not to be trusted as markup
reasoning      | text    | -      | the reasoning
checks         | text    | JSON   | what looked at the answer found
"""
_CHUNKS = """
request        | integer | -      | which row of `requests`
chunk          | integer | -      | its number in the stream, from 0
time_ns        | integer | ns     | when its last byte was read, on the clock of `requests`
tokens         | integer | tokens | how many it carried; null where the server does not say
"""
_CELLS = f"""
{_CELL.strip()}
status         | text    | -      | ok or void
reasons        | texts   | -      | the gates that voided it, each as `gate: reason`
finding        | text    | -      | what a void cell shows all the same
queue          | text    | -      | why a closed loop measured a queue; its figures are the queue's
simulated      | truth   | -      | from a simulator, or with simulated acceptance
measured_at    | text    | UTC    | when it was measured
requests       | integer | requests | measured requests
warmups        | integer | requests | warm-ups, in no figure
decode_tok_s   | number  | tok/s  | steady rate of one user, median over requests
steady_tok_s   | number  | tok/s  | all users together while every slot was decoding
e2e_tok_s      | number  | tok/s  | output tokens / time with a request in flight
ttft_s         | number  | s      | send to first content or reasoning, median
itl_chunk_s    | number  | s      | gap between chunks, median
itl_token_s    | number  | s      | the same by token
acceptance_length | number | tokens | tokens a step, the bonus included; by decode step where that is known
acceptance_source | text | -      | where it is from: request, counter delta, log window
acceptance_rate | number | 1      | accepted / proposed drafts
prompt_tokens  | integer | tokens | sum over the measured requests
output_tokens  | integer | tokens | sum
cached_tokens  | integer | tokens | sum
client_lag_s   | number  | s      | the client's own delay at p99
notes          | texts   | -      | what a reader should know of it
"""
_WINDOWS = f"""
window         | integer | -      | number of the row, from 0; `counters` refers to it
{_CELL.strip()}
chain          | text    | -      | the unit of resuming
attempt        | integer | -      | which attempt
complete       | truth   | -      | false: it was broken off, and is used nowhere
started_ns     | integer | ns     | its beginning, on the clock of `requests`
ended_ns       | integer | ns     | its end
running_max    | number  | requests | most requests that the server said were running
waiting_max    | number  | requests | most that it said were waiting
pool_usage_max | number  | 1      | most of the pool that it said was in use
lag_p99_ns     | integer | ns     | the client's own delay at p99
own_cpu_s      | number  | s      | processor time that kvantage took
"""
_COUNTERS = """
window         | integer | -      | which row of `windows`
name           | text    | -      | drafts, accepted_tokens, prefix_hits, preemptions, ... (see core.Snapshot)
value          | number  | as named | what the counter moved by from before the cell to after it
"""
_BOOTS = f"""
{_ARM.strip()}
fingerprint    | text    | -      | a hash of what the arm is
status         | text    | -      | running, ok, failed or interrupted
started_at     | text    | UTC    | when its start began
ready_s        | number  | s      | from its start to its first answer
engine         | text    | -      | the engine
engine_version | text    | -      | as it says
prefix_caching | truth   | -      | whether its prefix cache is on, as it says
simulated      | truth   | -      | from a simulator, or with simulated acceptance
reason         | text    | -      | why it failed
log_lines      | texts   | -      | the log's own words for it
provenance     | text    | JSON   | command, versions, hashes, machine
"""
_GATES = f"""
{_CELL.strip()}
gate           | text    | -      | the gate that failed; a cell without a row passed them all
reason         | text    | -      | why
"""
_SETTINGS = f"""
{_ARM.strip()}
name           | text    | -      | a setting of the engine, as resolved by it
value          | text    | JSON   | its value
"""

TABLES: tuple[Table, ...] = (
    Table("requests", "one request, in the order in which they were finished", tuple(_columns(_REQUESTS))),
    Table("chunks", "one chunk of a stream", tuple(_columns(_CHUNKS))),
    Table("cells", "one cell as the analysis judged it: arm x boot x phase x workload x concurrency",
          tuple(_columns(_CELLS))),
    Table("gates", "one gate that voided a cell", tuple(_columns(_GATES))),
    Table("windows", "one attempt at a cell: what surrounded it", tuple(_columns(_WINDOWS))),
    Table("counters", "one counter of the server in a window", tuple(_columns(_COUNTERS))),
    Table("boots", "one start of an arm's server", tuple(_columns(_BOOTS))),
    Table("facts", "one thing that a server said of itself after it booted",
          tuple(_columns(f"{_ARM.strip()}\n{_READING.strip()}"))),
    Table("settings", "one resolved setting of a boot's engine", tuple(_columns(_SETTINGS))),
)  # fmt: skip


def table(name: str) -> Table:
    """The table of that name. Raises KeyError."""
    return {one.name: one for one in TABLES}[name]


def dictionary_markdown(heading: str = "#") -> str:
    """The dictionary as a page."""
    lines = [f"{heading} Data dictionary", "", "Null is 'not reported' or 'does not apply', never zero.", ""]
    for one in TABLES:
        lines += [f"{heading}# `{one.name}`", "", f"A row is {one.row}.", ""]
        lines += ["| column | type | unit | meaning |", "|---|---|---|---|"]
        lines += [
            f"| `{column.name}` | {column.kind} | {column.unit or '–'} | {column.meaning} |"
            for column in one.columns
        ]
        lines.append("")
    return "\n".join(lines)
