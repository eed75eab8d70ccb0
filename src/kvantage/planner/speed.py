"""How long a step takes, and so how fast an arm decodes: bytes over bandwidth, plus what does not shrink.

T(B, t, L) = layers * overhead + all-reduces + max((W(B t) + B L kv + B state) / bandwidth, FLOP / compute)

for B sequences of length L that each verify t tokens; W counts the experts that B t tokens touch. One
measured pair replaces what is only estimated here (`Calibration`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kvantage.core import Reading, UsageError
from kvantage.planner.acceptance import Acceptance
from kvantage.planner.layers import Latent
from kvantage.planner.machine import Machine
from kvantage.planner.memory import Demand
from kvantage.planner.weights import Weights, drafter_parameters

CORRELATION = (0.4, 0.7, 1.0)
"""Experts that t drafts of one sequence touch are those of t ** c independent tokens: least, middle, uniform.

Neighbouring tokens choose alike: steps of 1.75 plain ones at 8 tokens, reported of a 288-expert model on two
GB10s, fit c = 0.7. Sequences do not: B of them count as B. Fit it where a pair was measured.
"""

EAGER_US = (500.0, 1500.0, 4500.0)
"""A layer's launches where an accelerator is driven without graphs (`eager`), in microseconds.

Seen on an H200 under SGLang 0.5.17: 0.8 to 1.2 ms a layer of a Qwen3 shape, 2.8 to 4.2 ms of a GLM-5 shape.
"""


def expected_experts(experts: int, active: int, tokens: float) -> float:
    """E (1 - (1 - topk / E)^t): experts that t tokens touch on average under uniform routing."""
    return experts * (1.0 - float((1 - active / experts) ** tokens))


@dataclass(frozen=True)
class Span:
    """A time in seconds with its ends."""

    value: float
    low: float
    high: float

    def scaled(self, factor: float) -> Span:
        """The same, times a number."""
        return Span(self.value * factor, self.low * factor, self.high * factor)


@dataclass(frozen=True)
class Calibration:
    """What was measured on this stack. `plain_s` is a plain step at batch 1 (1 / tok/s without drafts).

    `rho` maps (method, drafts) to the measured ratio of steps: AL * plain speed / speculative speed.
    """

    plain_s: float | None = None
    plain_length: int = 1
    rho: Mapping[tuple[str, int], float] = field(default_factory=dict)


@dataclass(frozen=True)
class Steps:
    """The step times of one arm on one machine.

    `weights` are the target's; `pass_bytes` is what one pass of the drafter reads on one rank, None where its
    size is not known (then the drafter's own time is taken as 2 to 12 % of a plain step a pass).
    """

    demand: Demand
    machine: Machine
    weights: Weights
    calibration: Calibration = field(default_factory=Calibration)

    def plain(self, batch: int = 1, length: int = 1) -> Span:
        """A step that yields one token a sequence."""
        return _span(lambda end: self._forward(batch, 1, length, end) + self._shift(end))

    def speculative(self, batch: int = 1, length: int = 1) -> Span:
        """A step that drafts and verifies k + 1 tokens a sequence."""
        method, drafts = self.demand.speculation.method, self.demand.drafts
        if not drafts:
            return self.plain(batch, length)
        raw = _span(lambda end: self._draft(batch, length, end) + self._verify(batch, length, end))
        known = self.calibration.rho.get((method, drafts))
        if known is None:
            known = self._scaled_rho(method, drafts)
            if known is None:
                return raw
        base = self._verify_ratio(1, self.calibration.plain_length)
        here = self._verify_ratio(batch, length)
        rho = known * here / base
        plain = self.plain(batch, length)
        return Span(plain.value * rho, plain.low * rho * 0.97, plain.high * rho * 1.03)

    def rho(self, batch: int = 1, length: int = 1) -> Span:
        """The time of a speculative step in plain ones: also the acceptance length that breaks even."""
        if not self.demand.drafts:
            return Span(1.0, 1.0, 1.0)
        plain = [self._forward(batch, 1, length, end) + self._shift(end) for end in range(3)]
        spec = self.speculative(batch, length)
        if (self.demand.speculation.method, self.demand.drafts) in self.calibration.rho:
            ratio = spec.value / plain[1]
            return Span(ratio, ratio * 0.97, ratio * 1.03)
        ratios = sorted(
            (self._draft(batch, length, end) + self._verify(batch, length, end)) / plain[end]
            for end in range(3)
        )
        middle = spec.value / plain[1]
        return Span(middle, min(middle, ratios[0]), max(middle, ratios[-1]))

    def decode(self, acceptance: Acceptance | None, batch: int = 1, length: int = 1) -> Reading:
        """Steady decode rate of all `batch` sequences together, tok/s, with its range."""
        if not self.demand.drafts:
            step = self.plain(batch, length)
            return Reading.of(
                batch / step.value, "tok/s", "predicted", low=batch / step.high, high=batch / step.low
            )
        if acceptance is None:
            raise UsageError("a speculative arm needs an acceptance length")
        step = self.speculative(batch, length)
        return Reading.of(
            batch * acceptance.value / step.value,
            "tok/s",
            "predicted",
            low=batch * acceptance.low / step.high,
            high=batch * acceptance.high / step.low,
            note=f"acceptance {acceptance.value:.2f} ({acceptance.source})",
        )

    def prefill(self, tokens: int) -> Span:
        """Time of one prefill step of that many tokens: their arithmetic, or reading the weights."""

        def at(end: int) -> float:
            flop = 2 * self.weights.active * tokens / self.demand.tp
            compute = flop / (self._figure("compute_tflops", 2 - end) * 1e12)
            read = self._weight_bytes(1, tokens, 2) / (self._figure("bandwidth_gb_s", 2 - end) * 1e9)
            return max(compute, read) + self._fixed(end, tokens)

        return _span(at)

    def parts(self, batch: int = 1, length: int = 1) -> dict[str, float]:
        """Shares of a plain step, 0 to 1: dense and expert weights, KV, state, overhead, all-reduces."""
        bandwidth = self._figure("bandwidth_gb_s", 1) * 1e9
        tp = self.demand.tp
        experts = self._expert_bytes(batch, 1, 1)
        seconds = {
            "dense weights": (self._weight_bytes(batch, 1, 1) - experts) / bandwidth,
            "experts": experts / bandwidth,
            "KV": batch * self._kv_bytes(length) / bandwidth,
            "state": 2 * batch * (self.demand.target.state_bytes(tp) or 0) / bandwidth,
            "overhead": self._layers() * self._layer_s(1),
            "links": self._links(1, batch),
            "calibrated rest": max(0.0, self._shift(1)),
        }
        whole = sum(seconds.values())
        return {name: part / whole for name, part in seconds.items() if part > 0}

    # One end of the range: 0 the fastest, 1 the middle, 2 the slowest.

    def _forward(self, batch: int, verified: int, length: int, end: int) -> float:
        tokens = batch * verified
        tp = self.demand.tp
        read = self._weight_bytes(batch, verified, end) + batch * self._kv_bytes(length)
        read += 2 * batch * (self.demand.target.state_bytes(tp) or 0)
        bandwidth = self._figure("bandwidth_gb_s", 2 - end) * 1e9
        flop = 2 * self.weights.active * tokens / tp
        compute = flop / (self._figure("compute_tflops", 2 - end) * 1e12)
        return max(read / bandwidth, compute) + self._fixed(end, tokens)

    def _verify(self, batch: int, length: int, end: int) -> float:
        return self._forward(batch, self.demand.drafts + 1, length, end) + self._shift(end)

    def _draft(self, batch: int, length: int, end: int) -> float:
        """The drafter's own passes: one for a block drafter, k for one that goes token by token."""
        speculation, tp = self.demand.speculation, self.demand.tp
        if speculation.method == "ngram":
            return (0.0, 0.0005, 0.002)[end]
        passes = 1 if speculation.method == "dflash" else self.demand.drafts
        bandwidth = self._figure("bandwidth_gb_s", 2 - end) * 1e9
        kv = batch * self._draft_kv_bytes(length)
        layers = len(self.demand.target.mtp.layers)
        if speculation.method == "mtp":
            share = 1 / max(1, len(self.demand.target.layers))
            layer = (self.weights.dense + self.weights.expert * self.weights.active_experts) * share
            read = (layer * self.weights.size + self.weights.head * 2) / tp
        else:
            drafter = self.demand.need_drafter()
            layers = len(drafter.layers)
            parameters = drafter_parameters(drafter)
            if parameters is None:
                return passes * (0.02, 0.05, 0.12)[end] * self._forward(batch, 1, length, end)
            read = (parameters * 2 + self.weights.head * 2) / tp
        overhead = layers * self._layer_s(end) + 2 * layers * self._hop(end)
        return passes * ((read + kv) / bandwidth + overhead)

    def _draft_kv_bytes(self, length: int) -> float:
        """What a drafter's pass reads of one sequence's context: windowed layers only their window."""
        whole = self.demand.draft_bytes() * length
        drafter = self.demand.drafter
        if drafter is None or not drafter.window or not drafter.layers or length <= drafter.window:
            return whole
        share = drafter.windowed_layers / len(drafter.layers)
        return whole * (1 - share) + self.demand.draft_bytes() * drafter.window * share

    def _verify_ratio(self, batch: int, length: int) -> float:
        """The roofline's own rho, by which a measured one is moved to another batch or length."""
        plain = self._forward(batch, 1, length, 1) + self._shift(1)
        return (self._draft(batch, length, 1) + self._verify(batch, length, 1)) / plain

    def _scaled_rho(self, method: str, drafts: int) -> float | None:
        """A measured rho at another k, moved in proportion of what drafting and verifying add."""
        near = [(k, rho) for (name, k), rho in self.calibration.rho.items() if name == method]
        if not near:
            return None
        k, rho = min(near, key=lambda pair: abs(pair[0] - drafts))
        return 1 + (rho - 1) * (drafts + 1) / (k + 1)

    def _shift(self, end: int) -> float:
        """What a measured plain step adds to (or takes from) the estimate, at every batch and length."""
        if self.calibration.plain_s is None:
            return 0.0
        return self.calibration.plain_s - self._forward(1, 1, self.calibration.plain_length, end)

    def _weight_bytes(self, batch: int, verified: int, end: int) -> float:
        weights = self.weights
        dense = (weights.dense + weights.head) * weights.size / self.demand.tp
        return dense + self._expert_bytes(batch, verified, end)

    def _expert_bytes(self, batch: int, verified: int, end: int) -> float:
        weights = self.weights
        if not weights.experts:
            return 0.0
        tokens = batch * verified ** CORRELATION[end]
        touched = expected_experts(weights.experts, weights.active_experts, tokens)
        return touched * weights.expert * weights.expert_layers * weights.size / self.demand.tp

    def _kv_bytes(self, length: int) -> float:
        """What a step reads of one sequence on one rank: sparse attention its top k and all its indexers."""
        demand = self.demand
        chosen = demand.target.fields.integer("index_topk") or 0
        total = 0.0
        for layer in demand.target.layers:
            each = layer.token_bytes(demand.kv, demand.tp, scaled=demand.scaled)
            match layer.attention:
                case Latent(indexer=None, sparse=True) if chosen:
                    total += each * min(length, chosen)
                case Latent(sparse=True) as latent if chosen and latent.indexer:
                    index = latent.indexer.token_bytes()
                    total += (each - index) * min(length, chosen) + index * length
                case _:
                    total += each * min(length, layer.window or length)
        return total

    def _fixed(self, end: int, tokens: int) -> float:
        return self._layers() * self._layer_s(end) + self._links(end, tokens)

    def _links(self, end: int, tokens: int) -> float:
        """Two all-reduces a layer where ranks share it: a hop each, and the activations over the link."""
        if self.demand.tp < 2:
            return 0.0
        hidden = self.demand.target.fields.integer("hidden_size") or 0
        sent = tokens * hidden * 2 / (self._figure("link_gb_s", 2 - end) * 1e9)
        return 2 * self._layers() * (self._hop(end) + sent)

    def _hop(self, end: int) -> float:
        return self._figure("hop_us", end) * 1e-6 if self.demand.tp > 1 else 0.0

    def _layers(self) -> int:
        return len(self.demand.target.layers)

    def _layer_s(self, end: int) -> float:
        """Seconds that launching one layer costs."""
        if self.demand.settings.eager and not self.machine.processor:
            return EAGER_US[end] * 1e-6
        return self._figure("layer_us", end) * 1e-6

    def _figure(self, name: str, end: int) -> float:
        figure = self.machine.figure(name)
        return (figure.low, figure.value, figure.high)[end]


def _span(at: Callable[[int], float]) -> Span:
    fast, middle, slow = (max(1e-9, at(end)) for end in range(3))
    return Span(middle, min(fast, middle, slow), max(fast, middle, slow))
