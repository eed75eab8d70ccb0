"""Responses and streams: the server's own counts, and times where a capture has them."""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kvantage.client import StreamReading, decode_rate, read_exchange
from kvantage.client.exchange import Exchange
from kvantage.core import Reading, Usage
from kvantage.engines import engine_named
from kvantage.engines.acceptance import DEAD_LENGTH, SpeculationCounts
from kvantage.engines.llamacpp.timings import Timings, timings_of
from kvantage.engines.openai.usage import tokens_per_second
from kvantage.engines.recognise import version_of_answer
from kvantage.engines.sglang.usage import speculation_counts
from kvantage.inspection.document import Document

_STAMP = re.compile(r"(\d+\.\d+) (?=data:|event:|:)", re.ASCII)
CACHE_FLAGS = {"vllm": "--enable-prompt-tokens-details", "sglang": "--enable-cache-report"}
"""Without these flags a server leaves cached tokens out of its usage."""


def read_responses(name: str, answers: Sequence[Mapping[str, Any]], engine: str | None) -> list[Document]:
    """One document a response; a list of several is numbered."""
    if len(answers) == 1:
        return [read_response(name, answers[0], engine)]
    return [read_response(f"{name}#{place}", answer, engine) for place, answer in enumerate(answers, start=1)]


def read_response(name: str, answer: Mapping[str, Any], engine: str | None) -> Document:
    """A whole response. An error inside is said, and counts nothing."""
    error = answer if answer.get("object") == "error" else answer.get("error")
    if error:
        said = error.get("message") if isinstance(error, Mapping) else error
        return Document(name, "response", engine, warnings=(f"the request failed: {said}",))
    usage = usage_of(answer, engine)
    readings = usage_readings(usage, engine)
    warnings = list(usage_warnings(usage, answer))
    if engine is None and (rate := tokens_per_second(answer)) is not None:
        readings["decode_tok_s"] = Reading.of(rate, "tok/s", "request", note="as the server timed it")
    if engine == "llamacpp":
        timings = timings_of(answer)
        readings |= timing_readings(timings)
        warnings += timing_warnings(timings)
    warnings += text_warnings(*_texts(answer))
    return Document(
        name, "response", engine, version_of_answer(answer), readings, per_position(usage), tuple(warnings)
    )


def read_stream(name: str, text: str, engine: str | None) -> Document:
    """A stream of events, with or without the seconds since its request before each line."""
    exchange, timed = _exchange(text)
    reading = read_exchange(exchange)
    usage = usage_of(reading.final, engine)
    readings = usage_readings(usage, engine)
    if timed:
        readings |= _times(exchange, reading, usage.output_tokens)
    warnings = list(usage_warnings(usage, reading.final))
    foreign = _is_foreign(reading, text)
    if foreign:
        warnings.insert(
            0,
            "a stream in another form than OpenAI's chat or completions: its counts are read, where it has"
            " any, and its text and times are not",
        )
    elif reading.status == "failed":
        code = f" (code {reading.error_code})" if reading.error_code is not None else ""
        warnings.insert(0, f"the request failed and counts in no throughput: {reading.error}{code}")
    else:
        warnings += text_warnings(reading.content, reading.reasoning, reading.finish_reason)
    if engine == "llamacpp":
        timings = timings_of(reading.final)
        readings = timing_readings(timings) | readings
        warnings += timing_warnings(timings)
    details = {
        "status": "unknown" if foreign else reading.status,
        "events": reading.events,
        "comments": reading.comments,
        "done": reading.done,
        "content": reading.content,
        "reasoning": reading.reasoning,
        "finish_reason": reading.finish_reason,
        "error_code": reading.error_code,
    }
    version = version_of_answer(reading.final)
    return Document(name, "stream", engine, version, readings, per_position(usage), tuple(warnings), details)


def _is_foreign(reading: StreamReading, text: str) -> bool:
    """True for whole events without a choice in any: /responses, /messages, /completion, and others'.

    Such a stream has an end of its own, of which nothing is known here.
    """
    ended_oddly = reading.error is not None and reading.error.startswith("the stream ended after 0 chunks")
    return ended_oddly and reading.events > 0 and '"choices"' not in text


def _exchange(text: str) -> tuple[Exchange, bool]:
    """The stream as the client would have stored it. A capture may begin each event with its time."""
    body = bytearray()
    times, ends = array("q"), array("q")
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        stamp = _STAMP.match(line)
        rest = line[stamp.end() :] if stamp else line
        body += rest.encode("utf-8", "surrogatepass") + b"\n"
        if _is_whole(rest):
            # A posted capture may have lost the blank lines between its events.
            body += b"\n"
        if stamp:
            times.append(round(float(stamp[1]) * 1e9))
            ends.append(len(body))
    body += b"\n"
    timed = len(times) > 0
    if not timed or ends[-1] < len(body):
        times.append(times[-1] if timed else 0)
        ends.append(len(body))
    exchange = Exchange(
        intended_ns=0,
        begun_ns=0,
        sent_ns=0,
        end_ns=times[-1],
        http_status=200,
        headers=(("content-type", "text/event-stream"),),
        body=bytes(body),
        read_ns=times,
        read_ends=ends,
    )
    return exchange, timed


def _is_whole(line: str) -> bool:
    """True for a data line that is an event by itself."""
    if not line.startswith("data:"):
        return False
    data = line[5:].strip()
    if data == "[DONE]":
        return True
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def _times(exchange: Exchange, reading: StreamReading, output: int | None) -> dict[str, Reading]:
    found = {}
    if reading.first_ns is not None:
        note = "first content or reasoning; times as the capture has them"
        found["ttft_s"] = Reading.of((reading.first_ns - exchange.sent_ns) / 1e9, "s", "client", note=note)
    rate, _, guessed = decode_rate(reading.chunks.times_ns, reading.chunks.tokens, output)
    if rate is not None:
        note = "tokens after the first chunk / their time" + (
            ", its first chunk taken as 1" if guessed else ""
        )
        found["decode_tok_s"] = Reading.of(rate, "tok/s", "client", note=note)
    return found


def usage_of(answer: Mapping[str, Any], engine: str | None) -> Usage:
    """The counts, by the engine's own reader; an unknown server's by all names that servers use."""
    return engine_named(engine or "openai").read_usage(answer)


def usage_readings(usage: Usage, engine: str | None) -> dict[str, Reading]:
    """Counts of one request."""
    found: dict[str, Reading] = {}
    for name, value in (
        ("prompt_tokens", usage.prompt_tokens),
        ("completion_tokens", usage.output_tokens),
        ("reasoning_tokens", usage.reasoning_tokens),
        ("accepted_tokens", usage.accepted_tokens),
        ("drafted_tokens", usage.drafted_tokens),
        ("spec_steps", usage.spec_steps),
    ):
        if value is not None:
            found[name] = Reading.of(value, "steps" if name == "spec_steps" else "tokens", "request")
    if usage.cached_tokens is not None:
        found["cached_tokens"] = Reading.of(usage.cached_tokens, "tokens", "request")
    else:
        flag = CACHE_FLAGS.get(engine or "", "a flag of the server")
        found["cached_tokens"] = Reading.absent(f"not reported, which is not zero ({flag} makes it so)")
    counts = SpeculationCounts(
        usage.spec_steps, usage.accepted_tokens, usage.drafted_tokens, usage.acceptance_histogram
    )
    if counts.acceptance_length is not None:
        note = "incl. bonus token: 1 + accepted / steps of this request"
        found["acceptance_length"] = Reading.of(counts.acceptance_length, "tokens/step", "request", note=note)
    elif engine == "sglang" and usage.spec_steps and usage.output_tokens:
        length = usage.output_tokens / usage.spec_steps
        note = (
            "incl. bonus token: completion_tokens / spec_verify_ct, as SGLang defines it for a request; it"
            " holds the prefill's token and the cut at the end"
        )
        found["acceptance_length"] = Reading.of(length, "tokens/step", "request", note=note)
    if counts.acceptance_rate is not None:
        found["draft_acceptance_rate"] = Reading.of(counts.acceptance_rate, "accepted/drafted", "request")
    if counts.drafts_per_step is not None:
        found["draft_tokens_per_step"] = Reading.of(counts.drafts_per_step, "tokens/step", "request")
    if usage.queue_s is not None:
        found["queue_s"] = Reading.of(usage.queue_s, "s", "request")
    return found


def per_position(usage: Usage) -> tuple[float, ...] | None:
    """From the histogram, where there is one."""
    return SpeculationCounts(histogram=usage.acceptance_histogram).per_position


def usage_warnings(usage: Usage, answer: Mapping[str, Any]) -> Iterator[str]:
    """Counts that are impossible, or that say something happened."""
    if usage.cached_tokens is not None and usage.prompt_tokens and usage.cached_tokens > usage.prompt_tokens:
        yield (
            f"{usage.cached_tokens} cached tokens of a prompt of {usage.prompt_tokens}: the request was"
            " retracted and prefilled again"
        )
    if usage.retractions:
        yield f"the request was retracted {usage.retractions} times"
    metrics = answer.get("metrics")
    told = metrics.get("speculative_decoding") if isinstance(metrics, Mapping) else None
    if isinstance(told, Mapping) and told.get("num_draft_tokens") and usage.drafted_tokens is None:
        yield (
            "speculation counts contradict each other, or the length of the output, and are refused:"
            f" {told.get('num_spec_steps')} steps, {told.get('num_accepted_draft_tokens')} of"
            f" {told.get('num_draft_tokens')} drafts accepted, {usage.output_tokens} tokens sent"
        )
    for broken in speculation_counts(answer).broken():
        yield f"speculation counts contradict each other and are refused: {broken}"
    if usage.drafted_tokens and usage.spec_steps and usage.accepted_tokens is not None:
        length = 1 + usage.accepted_tokens / usage.spec_steps
        if round(length, 2) <= DEAD_LENGTH:
            yield f"dead drafter: {usage.accepted_tokens} of {usage.drafted_tokens} drafts accepted"


def timing_readings(timings: Timings) -> dict[str, Reading]:
    """What llama.cpp's timings give beside the counts."""
    found: dict[str, Reading] = {}
    if timings.tok_s is not None:
        found["decode_tok_s"] = Reading.of(timings.tok_s, "tok/s", "request", note="as the server timed it")
    if timings.rounds and timings.drafter_length is not None:
        cut = _cut(timings)
        length = timings.delivered_length if cut else timings.drafter_length
        note = "incl. bonus token; delivered: (output - 1) / rounds" if cut else "incl. bonus token"
        if length is not None:
            found["acceptance_length"] = Reading.of(length, "tokens/step", "request", note=note)
    elif timings.acceptance_rate is not None and timings.length_estimate is not None:
        note = (
            f"an estimate: output / (output - accepted); llama.cpp does not tell its steps, of which there"
            f" were at least {timings.least_steps}"
        )
        found["acceptance_length"] = Reading.of(timings.length_estimate, "tokens/step", "computed", note=note)
    return found


def timing_warnings(timings: Timings) -> Iterator[str]:
    """A cached prompt, a reply that was cut inside a draft."""
    if timings.prompt_was_cached:
        yield "the prompt came from the cache (one token computed): its prefill speed says nothing"
    if _cut(timings):
        length = timings.drafter_length
        drafter = f"; the drafter's own length is {length:.2f}" if length else ""
        yield (
            f"the reply was cut inside a draft ({timings.accepted} accepted, {timings.output_tokens} sent):"
            f" never take output - accepted for steps here{drafter}"
        )


def _cut(timings: Timings) -> bool:
    if timings.accepted is None or timings.output_tokens is None:
        return False
    return timings.accepted + (timings.rounds or 0) > timings.output_tokens


def text_warnings(content: str, reasoning: str, finish: str | None) -> Iterator[str]:
    """A budget that went to reasoning leaves no answer to check."""
    if reasoning and not content:
        why = " (finish_reason `length`)" if finish == "length" else ""
        yield (
            f"no answer, only reasoning{why}: its speed counts, a check of its answer is void, and"
            " exactness must compare the reasoning"
        )


def _texts(answer: Mapping[str, Any]) -> tuple[str, str, str | None]:
    choices = answer.get("choices")
    first = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], Mapping) else {}
    message = first.get("message")
    said: Mapping[str, Any] = message if isinstance(message, Mapping) else {}
    reasoning = said.get("reasoning_content") or said.get("reasoning") or ""
    finish = first.get("finish_reason")
    return (
        str(said.get("content") or first.get("text") or ""),
        str(reasoning),
        finish if isinstance(finish, str) else None,
    )
