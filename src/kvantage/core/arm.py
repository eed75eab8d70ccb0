"""What an arm asks of a server, in words that belong to no engine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

ALLOW_SIMULATED = "allow_simulated"
"""The engine option under which acceptance that is made up is measured and marked. It changes nothing of what
an arm is.
"""

Method = Literal["none", "ngram", "draft_model", "eagle3", "mtp", "dflash"]


@dataclass(frozen=True, slots=True)
class Speculation:
    """How an arm drafts. `drafts` is k: draft tokens proposed in one step, the bonus token not counted."""

    method: Method = "none"
    drafts: int | None = None
    draft: str | None = None
    draft_revision: str | None = None
    draft_kv_dtype: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.method == "none" and (self.drafts or self.draft or self.draft_kv_dtype):
            raise ValueError("speculation `none` takes no drafts, draft or draft_kv_dtype")
        if self.method != "none" and (self.drafts is None or self.drafts < 1):
            raise ValueError(f"speculation `{self.method}` needs `drafts: k`, at least 1")
        if self.method in ("draft_model", "eagle3", "dflash") and not self.draft:
            raise ValueError(f"speculation `{self.method}` needs `draft:`, the drafter's folder or name")

    @property
    def on(self) -> bool:
        """True when anything drafts."""
        return self.method != "none"


@dataclass(frozen=True, slots=True)
class Samplers:
    """Every sampler field, pinned in every arm, so that a checkpoint's own defaults change nothing."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int | None = None
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The engine-neutral vocabulary. None means: left to the engine, and read back."""

    tensor_parallel_size: int | None = None
    nodes: int | None = None
    memory_fraction: float | None = None
    pool_bytes: int | None = None
    pool_tokens: int | None = None
    kv_dtype: str | None = None
    dtype: str | None = None
    context_length: int | None = None
    chunked_prefill: int | None = None
    max_running_requests: int | None = None
    page_size: int | None = None
    prefix_caching: bool | None = None
    eager: bool | None = None


@dataclass(frozen=True, slots=True)
class ArmSettings:
    """Everything that an engine needs to start one arm, and that decides what the arm is.

    `contents` are hashes of what lies at `model` and at the drafter's path, where they are local folders.
    """

    name: str
    engine: str
    model: str
    revision: str | None = None
    settings: ServerSettings = field(default_factory=ServerSettings)
    speculation: Speculation = field(default_factory=Speculation)
    samplers: Samplers = field(default_factory=Samplers)
    flags: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    engine_options: Mapping[str, Any] = field(default_factory=dict)
    contents: Mapping[str, str] = field(default_factory=dict)

    def identity(self) -> dict[str, Any]:
        """What the arm is, as plain JSON.

        Its name is left out, since renaming an arm does not change it, and so is the path of a local model
        whose content is known: moving it does not either.
        """
        plain = asdict(self)
        del plain["name"], plain["contents"]
        plain["engine_options"].pop(ALLOW_SIMULATED, None)
        if "model" in self.contents:
            plain["model"] = self.contents["model"]
        if "draft" in self.contents:
            plain["speculation"]["draft"] = self.contents["draft"]
        return plain

    def fingerprint(self) -> str:
        """A hash of `identity()`: results are kept under it, so that one arm's change spares the others."""
        text = json.dumps(self.identity(), sort_keys=True, separators=(",", ":"), default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]
