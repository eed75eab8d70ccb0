"""What a server said of itself at its own addresses, kept in a file: /server_info, /props, /slots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvantage.core import ArmSettings, Facts, Reading
from kvantage.engines.llamacpp import facts as llamacpp
from kvantage.engines.numbers import count
from kvantage.engines.sglang import facts as sglang
from kvantage.engines.vllm import facts as vllm
from kvantage.engines.vllm.boot import boot_log
from kvantage.inspection.document import Document


def read_server(name: str, data: Any, engine: str | None) -> Document:
    """The facts of a server, by the engine's own reader."""
    if isinstance(data, Mapping) and isinstance(data.get("version"), str) and len(data) == 1:
        return Document(name, "server", engine, data["version"])
    found = _facts(data, engine)
    if (longest := _longest(data)) is not None:
        reading = Reading.of(longest, "tokens", "config", note="max_model_len of its list of models")
        return Document(name, "server", engine, readings={"context_length": reading})
    if found is None:
        return Document(name, "server", engine)
    readings = {word: reading for word, reading in found.readings.items() if word != "dropped_blocks"}
    warnings = list(found.warnings)
    details: dict[str, Any] = {"speculation": dict(found.speculation), "prefix_caching": found.prefix_caching}
    if engine == "sglang":
        states = sglang.Told(info=data).states
        length = sglang.accept_length_of(states, bool(found.speculation))
        readings["acceptance_length"] = length
        if not length.known and len(states) > 1:
            warnings.append(f"acceptance length: {length.missing}")
    if engine == "llamacpp" and isinstance(data, list):
        details["speculative"] = [slot.get("speculative") for slot in data if isinstance(slot, Mapping)]
    return Document(name, "server", engine, found.engine_version, readings, None, tuple(warnings), details)


def _longest(data: Any) -> int | None:
    """The context length that a list of models gives; None where there is no list, or they differ."""
    listed = data.get("data") if isinstance(data, Mapping) else None
    models = [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
    lengths = {count(one.get("max_model_len")) for one in models}
    return lengths.pop() if len(lengths) == 1 else None


def _facts(data: Any, engine: str | None) -> Facts | None:
    if engine == "sglang":
        return sglang.facts(sglang.Told(info=data))
    if engine == "vllm" and isinstance(data, Mapping) and isinstance(data.get("vllm_config"), Mapping):
        return vllm.facts(vllm.Told(ArmSettings("inspected", "vllm", ""), info=data))
    if engine == "vllm" and isinstance(data, Mapping) and isinstance(data.get("vllm_config"), str):
        # the text form of /server_info: the same words as the log's first line
        log = boot_log(["Initializing a V1 LLM engine with config: " + data["vllm_config"]])
        return vllm.facts(vllm.Told(ArmSettings("inspected", "vllm", ""), log=log))
    if engine == "llamacpp" and isinstance(data, list):
        return llamacpp.facts(llamacpp.Told(slots=[slot for slot in data if isinstance(slot, Mapping)]))
    if engine == "llamacpp" and "default_generation_settings" in data:
        return llamacpp.facts(llamacpp.Told(props=data))
    return None
