"""The pool as SGLang computes it (0.5.17 to 0.5.23): one cell a token, the drafter's part inside it."""

from __future__ import annotations

from collections.abc import Sequence

from kvantage.planner.dtypes import kv_dtype
from kvantage.planner.layers import Latent
from kvantage.planner.memory import GIB, Demand, Left, Pool, Rank, smallest

SPECULATIVE_RUNNING = 48
"""Every speculative algorithm sets the running requests to this where the person sets none."""
MIB = 2**20
FP8_SCALES = 1.25
"""What an FP8 draft KV costs at most beside its values: a 32-bit scale for each 16 of them."""
SLOTS = {"extra_buffer": 5, "extra_buffer_lazy": 4, "no_buffer": 3}
"""State slots a running request needs, by radix strategy; 1 with the radix cache off."""


def default_fraction(total: int, chunk: int | None, tp: int) -> float:
    """The fraction that is taken where none is given: (gpu - reserved) / gpu.

    reserved MB = 512 + 1.5 * max(chunk, 2048) + 1024 * tp / 8, at least 10 GiB on devices above 60 GiB.
    """
    reserved = (512 + 1.5 * max(chunk or 0, 2048) + 1024 * tp / 8) * MIB
    if total > 60 * GIB:
        reserved = max(reserved, 10 * GIB)
    return max(0.0, (total - reserved) / total)


def left(demand: Demand, ranks: Sequence[Rank]) -> Left:
    """free after the weights - free before them * (1 - fraction), on the smallest rank."""
    rank = smallest(ranks)
    fraction = demand.settings.memory_fraction
    named = "as asked"
    if fraction is None:
        fraction = default_fraction(rank.total, demand.settings.chunked_prefill, demand.tp)
        named = "the engine's own"
    media = 100 * MIB if "vision_config" in demand.target.fields.outer else 0

    def at(free: int) -> int:
        return max(0, int(free * fraction) - rank.weights - rank.draft_weights - media)

    return Left(
        at(rank.free),
        at(rank.free_low or rank.free),
        at(rank.free_high or rank.free),
        False,
        f"memory fraction {fraction:.2f} ({named}) of what is free before loading, less the weights",
    )


def cell(demand: Demand) -> tuple[int, int]:
    """(target, draft) bytes a token and rank, as the engine charges them.

    An EAGLE or draft model, and DFlash where its KV has no dtype of its own, is charged as so many of the
    target's layers, whatever its own geometry (0.5.17: four pools of real servers, within 0.1 %).
    """
    target = demand.target_bytes()
    if windows := demand.window_bytes():
        target += int(_ratio(demand) * windows)
    method = demand.speculation.method
    if method in ("eagle3", "draft_model") or (method == "dflash" and not own_dtype(demand)):
        return target, _as_target_layers(demand, target)
    if method == "mtp" and not demand.target.sparse:
        demand.draft_bytes()  # refuses where no head is declared
        layers = len(demand.target.attention_layers) or 1
        return target, int(target / layers)
    if method == "mtp":
        heads = max(1, len(demand.target.mtp.layers))
        return target, demand.draft_bytes() // heads
    return target, demand.draft_bytes()


def own_dtype(demand: Demand) -> bool:
    """Whether the drafter's KV has a dtype of its own, which came with 0.5.23."""
    return demand.speculation.draft_kv_dtype not in (None, "auto")


def _as_target_layers(demand: Demand, target: int) -> int:
    layers = len(demand.target.attention_layers) or 1
    return int(target * len(demand.need_drafter().layers) / layers)


def page_size(demand: Demand) -> int:
    """1 by default; 64 under sparse attention, times the tokens that its indexer pools."""
    if demand.settings.page_size:
        return demand.settings.page_size
    for layer in demand.target.layers:
        if isinstance(layer.attention, Latent) and layer.attention.sparse:
            return 64 * (layer.attention.indexer.pool if layer.attention.indexer else 1)
    return 1


def slots_a_request(demand: Demand) -> int:
    """S: state slots that one running request needs."""
    if demand.settings.prefix_caching is False or demand.flag("disable-radix-cache"):
        return 1
    strategy = str(demand.flag("mamba-radix-cache-strategy", "mamba-scheduler-strategy") or "auto")
    if strategy == "auto":
        strategy = "no_buffer" if demand.flag("disable-overlap-schedule") else "extra_buffer"
    return SLOTS.get(strategy, 5)


def predict_least(demand: Demand, rest: int) -> Pool:
    """The pool in `rest` bytes if a drafter's own FP8 KV also costs scales, which no log of one has told."""
    unsure = demand.drafter is not None and own_dtype(demand) and demand.draft_kv.size == 1
    return predict(demand, rest, FP8_SCALES if unsure else 1.0)


def predict_most(demand: Demand, rest: int) -> Pool:
    """The pool in `rest` bytes if DFlash is charged by the target's layers also where its KV has a dtype.

    Which of the two 0.5.23 does is not known; the published pools' ratio speaks for it (docs/planner.md).
    """
    if demand.speculation.method != "dflash" or not own_dtype(demand):
        return predict(demand, rest)
    target, draft = cell(demand)
    other = float(_as_target_layers(demand, target) * demand.draft_kv.size / demand.kv.size)
    return predict(demand, rest, min(1.0, other / draft) if draft else 1.0)


def predict(demand: Demand, rest: int, draft_factor: float = 1.0) -> Pool:
    """The pool in `rest` bytes of one rank: tokens, state slots, request cap."""
    target, draft = cell(demand)
    draft = int(draft * draft_factor)
    page = page_size(demand)
    running = demand.settings.max_running_requests
    if running is None and demand.speculation.on:
        running = SPECULATIVE_RUNNING
    room, slots, intermediate, state_cap = rest, 0, 0, None
    state = 0
    notes = []
    if demand.target.state_layers or demand.target.state_problem:
        state = demand.state_bytes(_ssm_size(demand))
        room, slots, intermediate, state_cap = _with_states(demand, rest, state, running)
    tokens = max(0, room) // (target + draft) if target + draft else 0
    tokens = tokens // page * page
    ceiling = demand.settings.pool_tokens
    capped = None
    if ceiling is not None and ceiling < tokens:
        tokens, capped = ceiling // page * page, "the ceiling asked for"
    context = demand.settings.context_length or demand.target.max_length or 1
    most = (
        min(max(2048, min(4096, tokens * 512 // max(1, context))), tokens // 2)
        if running is None
        else running
    )
    most = min(most, max(0, tokens // 2))
    if state_cap is not None and state_cap < most:
        most = state_cap
        capped = capped or "the state cache"
        notes.append(f"running requests are capped to {most} by the state cache ({slots} slots)")
    own = demand.target_bytes() + demand.draft_bytes()
    return Pool(
        tokens=tokens,
        block_tokens=page,
        token_bytes=target,
        draft_bytes=draft,
        ideal_tokens=max(0, rest - state * max(1, most or 1)) // own if own else 0,
        state_slots=slots,
        state_slot_bytes=state,
        intermediate_bytes=intermediate,
        max_running=most,
        windows=demand.window_bytes(),
        capped_by=capped,
        notes=tuple(notes),
    )


def _with_states(demand: Demand, rest: int, state: int, running: int | None) -> tuple[int, int, int, int]:
    """(bytes left for tokens, K state slots, intermediate bytes, request cap).

    With r the memory ratio and D the tokens verified in a step: B = rest * r / (1 + r);
    no speculation K = (B - p) // p; with it K = (B - p (1 + D)) // (p (1 + D / S)), and each running
    request (one more, for padding) keeps D intermediate states.
    """
    ratio = float(demand.flag("mamba-full-memory-ratio") or 0.9)
    per_request = slots_a_request(demand)
    verified = demand.drafts + 1 if demand.speculation.on else 0
    explicit = demand.flag("max-mamba-cache-size")
    replay = bool(demand.flag("enable-linear-replayssm-spec"))
    budget = rest * ratio / (1 + ratio)
    if explicit is not None:
        slots = int(explicit)
    elif per_request == 1 and running is not None:
        slots = running
    elif verified and not replay:
        slots = int((budget - state * (1 + verified)) // (state * (1 + verified / per_request)))
    else:
        slots = int((budget - state) // state)
    slots = max(0, slots)
    cap = slots // per_request
    intermediate = 0
    if verified and not replay:
        intermediate = state * verified * (min(running or cap, cap) + 1)
    return rest - intermediate - (slots + 1) * state, slots, intermediate, cap


def _ratio(demand: Demand) -> float:
    """Windowed slots a full slot; without any full layer the windowed pool is all there is."""
    if not demand.target_bytes():
        return 1.0
    given = demand.flag("swa-full-tokens-ratio")
    return 0.8 if given is None else float(given)


def _ssm_size(demand: Demand) -> int | None:
    given = demand.flag("mamba-ssm-dtype")
    return int(kv_dtype(str(given)).size) if given else None
