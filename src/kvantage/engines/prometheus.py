"""Prometheus text as samples, through the format's own parser library."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample


def samples(text: str, prefixes: Collection[str]) -> Iterator[Sample]:
    """The finite samples of metrics whose names begin so, in their order.

    A line that is not in Prometheus' form, and one that has no end (it may be cut off in its number), is
    passed over; comments and `_created` twins say nothing here. Exporters that may not use colons write
    `sglang_x` for `sglang:x`: such names come back with the colon.
    """
    beginnings = tuple({prefix for name in prefixes for prefix in (name, name.replace(":", "_", 1))})
    for line in text.split("\n")[:-1]:
        if not line.startswith(beginnings):
            continue
        try:
            families = list(text_string_to_metric_families(line.rstrip("\r") + "\n"))
        except (ValueError, IndexError, KeyError):
            continue
        for family in families:
            for sample in family.samples:
                if math.isfinite(sample.value) and not sample.name.endswith("_created"):
                    yield sample._replace(name=_with_colon(sample.name, prefixes))


def _with_colon(name: str, prefixes: Collection[str]) -> str:
    for prefix in prefixes:
        written = prefix.replace(":", "_", 1)
        if written != prefix and name.startswith(written):
            return prefix + name[len(written) :]
    return name
