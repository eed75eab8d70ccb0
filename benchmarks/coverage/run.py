"""How often intervals hold the truth, how often looks are wrong, and how many boots they save. Simulated.

    python -m benchmarks.coverage.run            # about two minutes of one core; writes results.json
    python -m benchmarks.coverage.run --quick    # a tenth of the studies

The studies are simulated, what judges them is kvantage's own inference.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.coverage.studies import LOUD, QUIET, World, draw, truth_of
from scipy import special, stats

from kvantage.analysis.inference import infer
from kvantage.analysis.spending import Spending
from kvantage.analysis.stats import t_quantile

HERE = Path(__file__).parent
RATIO = 1.15
MARGIN = 0.03
LAST = 6
EFFECTS = (1.0, 1.01, 1.02, 1.03, 1.05, 1.08, 1.12, 1.2, 1.3, 1.5, 2.0)


def bounds(hits: int, number: int) -> tuple[float, float]:
    """Clopper-Pearson's 95 % interval of a share."""
    low = 0.0 if hits == 0 else float(special.betaincinv(hits, number - hits + 1, 0.025))
    high = 1.0 if hits == number else float(special.betaincinv(hits + 1, number - hits, 0.975))
    return low, high


def worlds() -> list[tuple[str, World]]:
    """The mix of studies, each kind as often as the others."""
    found = []
    for boots in (3, 4, 6):
        for noise, sd in (("quiet", QUIET), ("loud", LOUD)):
            found += [
                (f"{noise}, plain", World(boots, sd)),
                (f"{noise}, two modes", World(boots, sd, modes=True)),
                (f"{noise}, drift 5 %, abba", World(boots, sd, drift=0.05)),
                (f"{noise}, drift 5 %, randomised", World(boots, sd, drift=0.05, order="randomised")),
                (f"{noise}, a tenth void", World(boots, sd, void=0.1)),
                (f"{noise}, modes, drift and void", World(boots, sd, modes=True, drift=0.05, void=0.1)),
            ]
    return found


def coverage(number: int, mix: Sequence[tuple[str, World]], seed: int) -> dict[str, Any]:
    """Of `number` studies in all, how many 95 % intervals over boots hold the truth, and by kind."""
    rng = np.random.default_rng(seed)
    hits: dict[str, list[bool]] = {}
    widths = []
    without = 0
    for place in range(number):
        name, world = mix[place % len(mix)]
        effects = draw(world, RATIO, rng)
        if len(effects) < 2:
            without += 1
            continue
        found = infer(effects)
        assert found.low is not None
        assert found.high is not None
        truth = math.exp(truth_of(world, RATIO))
        widths.append(math.log(found.high / found.low) / 2)
        held = found.low <= truth <= found.high
        for key in ("all", name, f"{world.boots} boots, {found.method}"):
            hits.setdefault(key, []).append(held)
    rows = {}
    for key, held in hits.items():
        low, high = bounds(sum(held), len(held))
        rows[key] = {"studies": len(held), "covered": sum(held) / len(held), "low": low, "high": high}
    return {
        "studies": number,
        "without_two_sound_boots": without,
        "median_half_width": float(np.median(widths)),
        "rows": rows,
    }


def naive(number: int, seed: int) -> list[dict[str, Any]]:
    """What other intervals would cover: a percentile bootstrap over boots, and one boot's requests."""
    rng = np.random.default_rng(seed)
    rows = []
    for boots in (2, 3, 6, 10, 20):
        values = rng.normal(0, QUIET, (number, boots))
        drawn = values[np.arange(number)[:, None, None], rng.integers(boots, size=(number, 500, boots))].mean(
            2
        )
        low, high = np.quantile(drawn, [0.025, 0.975], axis=1)
        held = int(((low <= 0) & (high >= 0)).sum())
        rows.append({"interval": f"percentile bootstrap over {boots} boots", "covered": held / number})
    for noise, sd in (("quiet", QUIET), ("loud", LOUD)):
        held = 0
        for _ in range(number):
            world = World(1, sd)
            found = infer(draw(world, RATIO, rng))
            assert found.low is not None
            assert found.high is not None
            held += found.low <= RATIO <= found.high
        said = f"t within one boot, taken for the arm's ratio ({noise} boots)"
        rows.append({"interval": said, "covered": held / number})
    return rows


def false_decisions(number: int, seed: int) -> list[dict[str, Any]]:
    """How often a study of equal arms, looked at after 3 to 6 boots, tells any two apart; and how often two
    arms exactly the margin apart are called tied.
    """
    rng = np.random.default_rng(seed)
    spending = Spending(LAST, 0.95)
    rows = []
    for arms in (2, 3, 4):
        logs = rng.normal(0, QUIET, (number, arms, LAST))
        wrong = np.zeros(number, dtype=bool)
        for boots in range(spending.first, LAST + 1):
            low, high = _pair_intervals(logs[:, :, :boots], spending)
            wrong |= ((low > 0) | (high < 0)).any(axis=1)
        rows.append(_share(f"{arms} equal arms told apart", wrong))
    edge = math.log(1 + MARGIN)
    for sd in (QUIET / 4, QUIET / 2):
        logs = rng.normal(0, sd, (number, 2, LAST))
        logs[:, 1] += edge
        wrong = np.zeros(number, dtype=bool)
        for boots in range(spending.first, LAST + 1):
            low, high = _pair_intervals(logs[:, :, :boots], spending)
            wrong |= ((low > -edge) & (high < edge)).any(axis=1)
        rows.append(_share(f"arms 3 % apart called tied (boots {sd:.1%})", wrong))
    return rows


def unspent(number: int, seed: int) -> dict[str, Any]:
    """The same without a rule: 95 % intervals looked at after each block from the second on."""
    rng = np.random.default_rng(seed)
    logs = rng.normal(0, QUIET, (number, 2, LAST))
    wrong = np.zeros(number, dtype=bool)
    for boots in range(2, LAST + 1):
        differences = logs[:, 1, :boots] - logs[:, 0, :boots]
        half = t_quantile(boots - 1) * differences.std(axis=1, ddof=1) / math.sqrt(boots)
        wrong |= np.abs(differences.mean(axis=1)) > half
    return _share("2 equal arms, 95 % at every look and no rule", wrong)


def _pair_intervals(logs: np.ndarray, spending: Spending) -> tuple[np.ndarray, np.ndarray]:
    """Ends of every pair's interval at a look, as `sequential.look` takes them."""
    boots, arms = logs.shape[2], logs.shape[1]
    pairs = [(a, b) for a in range(arms) for b in range(a + 1, arms)]
    differences = np.stack([logs[:, b] - logs[:, a] for a, b in pairs], axis=1)
    shared = Spending(spending.last, 1 - (1 - spending.confidence) / len(pairs), spending.first)
    half = t_quantile(boots - 1, 1 - shared.alpha(boots)) * differences.std(axis=2, ddof=1) / math.sqrt(boots)
    middle = differences.mean(axis=2)
    return middle - half, middle + half


def _share(name: str, wrong: np.ndarray) -> dict[str, Any]:
    low, high = bounds(int(wrong.sum()), len(wrong))
    return {"name": name, "studies": len(wrong), "share": float(wrong.mean()), "low": low, "high": high}


def boots_saved(number: int, seed: int) -> list[dict[str, Any]]:
    """Boots that the looks use for two arms by the true ratio, and a fixed design with the same power."""
    rng = np.random.default_rng(seed)
    rows = []
    for noise, sd in (("quiet", QUIET), ("loud", LOUD)):
        for rule in ("kvantage's", "equal shares", "always valid"):
            for effect in EFFECTS:
                differences = math.log(effect) + rng.normal(0, sd * math.sqrt(2), (number, LAST))
                used, right = _run(differences, rule)
                power = float(right.mean())
                rows.append(
                    {
                        "noise": noise,
                        "sd_boot": sd,
                        "rule": rule,
                        "ratio": effect,
                        "boots": float(used.mean()),
                        "told_apart": power,
                        "fixed_boots_of_equal_power": _fixed(math.log(effect), sd * math.sqrt(2), power),
                    }
                )
    return rows


def planned(number: int, seed: int) -> list[dict[str, Any]]:
    """A study planned for 80 % power: the ratio that it is planned for, the boots of a fixed design with that
    power, and what the looks use at that ratio and at larger ones.
    """
    rows = []
    for noise, sd in (("quiet", QUIET), ("loud", LOUD)):
        rng = np.random.default_rng(seed)
        draws = rng.normal(0, sd * math.sqrt(2), (number, LAST))
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            power = float(_run(draws + middle, "kvantage's")[1].mean())
            low, high = (middle, high) if power < 0.8 else (low, middle)
        fixed = _fixed(high, sd * math.sqrt(2), 0.8)
        assert fixed is not None
        for times in (1.0, 1.5, 2.0, 3.0, 5.0):
            used, right = _run(draws + high * times, "kvantage's")
            rows.append(
                {
                    "noise": noise,
                    "sd_boot": sd,
                    "planned_for": math.exp(high),
                    "true_ratio": math.exp(high * times),
                    "fixed_boots": fixed,
                    "fixed_boots_whole": math.ceil(fixed),
                    "boots": float(used.mean()),
                    "told_apart": float(right.mean()),
                    "saved": 1 - float(used.mean()) / fixed,
                }
            )
    return rows


def _run(differences: np.ndarray, rule: str) -> tuple[np.ndarray, np.ndarray]:
    """(boots used, whether the faster arm was told apart) of each study; a tie stops it too."""
    number = len(differences)
    edge = math.log(1 + MARGIN)
    open_ = np.ones(number, dtype=bool)
    used, right = np.full(number, LAST), np.zeros(number, dtype=bool)
    for boots in range(3, LAST + 1):
        seen = differences[:, :boots]
        error = seen.std(axis=1, ddof=1) / math.sqrt(boots)
        middle = seen.mean(axis=1)
        half = _critical(rule, boots) * error
        apart = middle - half > 0
        done = open_ & (apart | (middle + half < 0) | ((middle - half > -edge) & (middle + half < edge)))
        right |= open_ & apart
        used[done] = boots
        open_ &= ~done
    return used, right


def _critical(rule: str, boots: int) -> float:
    """How many standard errors a look's interval is wide."""
    if rule == "kvantage's":
        return t_quantile(boots - 1, Spending(LAST, 0.95).level(boots).confidence)
    if rule == "equal shares":  # the union bound: each look 0.05 / 4
        return t_quantile(boots - 1, 1 - 0.05 / (LAST - 2))
    return _mixture(boots, 0.05)


def _mixture(boots: int, alpha: float, prior: float = 100.0) -> float:
    """The t beyond which a mixture over effects N(0, prior x variance) is 1 / alpha: valid at every number of
    boots, however many. Right-Haar prior on the scale (as in Lai 1976); infinite where it cannot be reached.
    """
    degrees, shrink = boots - 1, 1 + boots * prior
    if shrink ** (degrees / 2) <= 1 / alpha:
        return math.inf
    goal = (math.sqrt(shrink) / alpha) ** (2 / (degrees + 1))
    square = (goal - 1) / (1 / degrees - goal / (shrink * degrees))
    return math.sqrt(square) if square > 0 else math.inf


def _fixed(effect: float, sd: float, power: float) -> float | None:
    """The boots of a fixed design, looked at once at 95 %, with that power: between whole numbers by line."""
    if effect <= 0 or not 0.06 < power < 0.999:
        return None
    before = 0.0
    for boots in range(2, 200):
        shift = effect / sd * math.sqrt(boots)
        now = float(stats.nct.sf(t_quantile(boots - 1), boots - 1, shift)) if shift < 30 else 1.0
        if now >= power:
            share = (power - before) / (now - before) if now > before else 1.0
            return max(2.0, boots - 1 + share)
        before = now
    return None


def main(argv: Iterable[str]) -> None:
    """Run everything and write results.json."""
    part = 10 if "--quick" in argv else 1
    bootstrap = [
        (f"{noise}, bootstrap{', two modes' if modes else ''}", World(boots, sd, modes=modes))
        for boots in (10, 12)
        for noise, sd in (("quiet", QUIET), ("loud", LOUD), ("no boot noise", 0.0))
        for modes in (False, True)
    ]
    timeouts = [
        (f"{noise}, time-outs", World(6, sd, timeouts=True))
        for noise, sd in (("quiet", QUIET), ("loud", LOUD))
    ]
    found = {
        "simulated": True,
        "over_boots": coverage(2000 // part, worlds(), 1),
        "bootstrap": coverage(2000 // part, bootstrap, 2),
        "timeouts": coverage(1000 // part, timeouts, 3),
        "naive": naive(2000 // part, 4),
        "false_decisions": [*false_decisions(20000 // part, 5), unspent(20000 // part, 6)],
        "boots_saved": boots_saved(20000 // part, 7),
        "planned": planned(20000 // part, 8),
    }
    (HERE / "results.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for name in ("over_boots", "bootstrap", "timeouts"):
        for key, row in found[name]["rows"].items():  # type: ignore[index]
            span = f"{row['covered']:.3f} ({row['low']:.3f} to {row['high']:.3f})"
            print(f"{name:<11} {key:<40} {span} of {row['studies']}")
    for row in found["naive"]:  # type: ignore[union-attr]
        print(row)
    for row in found["false_decisions"]:  # type: ignore[union-attr]
        print(row)
    for row in found["planned"]:  # type: ignore[union-attr]
        print(row)


if __name__ == "__main__":
    main(sys.argv[1:])
