"""Where the noise comes from: boots, prompts or repeats, and what more of each would buy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kvantage.analysis.effect import BootEffect
from kvantage.analysis.stats import CONFIDENCE, t_quantile
from kvantage.core.columns import Floats, Ints

MORE_REQUESTS = 100


@dataclass(frozen=True)
class Split:
    """Standard deviations of the logarithm of a ratio, by the level at which it varies.

    boot     between boots, over what a boot's requests explain
    prompt   between prompts: how much the ratio depends on what is asked. It is in no interval: the prompts
             are those of the study
    repeat   between repeats of one prompt in one boot; where each prompt ran once a boot, what is left
    requests paired requests a boot, on average
    mixed    True where prompts are not the same in every boot, so that prompt and repeat are not told apart
             and stand together in `repeat`
    """

    boot: float
    prompt: float | None
    repeat: float
    boots: int
    requests: float
    mixed: bool

    def half_width(self, boots: int, requests: float, confidence: float = CONFIDENCE) -> float:
        """Half of the interval of the log-ratio to be expected of such a study; infinite with one boot."""
        if boots < 2:
            return math.inf
        variance = self.boot**2 / boots + self.repeat**2 / (boots * max(1.0, requests))
        return t_quantile(boots - 1, confidence) * math.sqrt(variance)

    @property
    def words(self) -> str:
        """The split in a few words, in percent."""
        parts = [f"boots {_share(self.boot)}"]
        if self.prompt is not None:
            parts.append(f"prompts {_share(self.prompt)}")
        parts.append(f"{'prompts and repeats' if self.mixed else 'repeats'} {_share(self.repeat)}")
        return ", ".join(parts)

    @property
    def advice(self) -> str:
        """Whether one more boot or a hundred more requests would narrow the interval more."""
        now = self.half_width(self.boots, self.requests)
        boot = self.half_width(self.boots + 1, self.requests)
        asked = self.half_width(self.boots, self.requests + MORE_REQUESTS / self.boots)
        if not now:
            return "the interval has no width to narrow"
        more, fewer = _narrowed(boot, now), _narrowed(asked, now)
        name = _ordinal(self.boots + 1)
        if boot < asked:
            return (
                f"a {name} boot buys more than {MORE_REQUESTS} more requests: the interval would narrow by "
                f"{more}, against {fewer}"
            )
        return (
            f"{MORE_REQUESTS} more requests buy more than a {name} boot: the interval would narrow by "
            f"{fewer}, against {more}"
        )


def split_variance(effects: Sequence[BootEffect]) -> Split | None:
    """The split of the ratios of several boots, by the moments of a two-way layout; None with one boot, and
    with one request a boot.

    Where the boots share their prompts, what a prompt adds in every boot is taken out first (it does not
    vary between boots). Where they do not, requests are nested in boots.
    """
    boots = [effect for effect in effects if effect.requests.size]
    if len(effects) < 2 or len(boots) < len(effects) or all(effect.requests.size < 2 for effect in boots):
        return None
    means = np.array([effect.log for effect in effects])
    per_boot = float(np.mean([effect.requests.size for effect in effects]))
    shared = _shared(effects)
    if shared is None:
        inside = _pooled([effect.requests for effect in effects])
        noise = inside / per_boot
        return Split(_root(_variance(means) - noise), None, _root(inside), len(effects), per_boot, True)
    table, counts, repeats = shared
    number = table.shape[1]
    boot_means, prompt_means = table.mean(axis=1), table.mean(axis=0)
    rest = table - boot_means[:, None] - prompt_means[None, :] + table.mean()
    left = float((rest**2).sum()) / ((len(effects) - 1) * (number - 1))
    each = left * float(counts.mean())
    if repeats is not None:
        each = max(each, repeats)
    # the boot's own part by the boots' ratios, the requests' share of them taken off
    boot = _variance(means) - left / number
    prompt = _variance(prompt_means) - left / len(effects)
    return Split(_root(boot), _root(prompt), _root(each), len(effects), per_boot, False)


def _shared(effects: Sequence[BootEffect]) -> tuple[Floats, Ints, float | None] | None:
    """(boots x prompts of means, their counts, variance of repeats) over the prompts that all boots have."""
    names, code = np.unique(np.concatenate([effect.prompts for effect in effects]), return_inverse=True)
    boot = np.repeat(np.arange(len(effects)), [effect.requests.size for effect in effects])
    place, shape = boot * len(names) + code, (len(effects), len(names))
    logs = np.concatenate([effect.requests for effect in effects])
    counts = np.bincount(place, minlength=shape[0] * shape[1])
    sums = np.bincount(place, weights=logs, minlength=shape[0] * shape[1])
    means = sums / np.maximum(counts, 1)
    squares = float(((logs - means[place]) ** 2).sum())
    degrees = logs.size - int((counts > 0).sum())
    common = (counts.reshape(shape) > 0).all(axis=0)
    if common.sum() < 2:
        return None
    table = means.reshape(shape)[:, common]
    return table, counts.reshape(shape)[:, common], squares / degrees if degrees else None


def _pooled(groups: Sequence[Floats]) -> float:
    """The variance within groups, pooled; 0 where no group has two values."""
    degrees = sum(group.size - 1 for group in groups)
    squares = sum(float(((group - group.mean()) ** 2).sum()) for group in groups)
    return squares / degrees if degrees else 0.0


def _variance(values: Floats) -> float:
    return float(values.var(ddof=1))


def _root(value: float) -> float:
    return math.sqrt(max(0.0, value))


def _share(sd: float) -> str:
    return f"{(math.exp(sd) - 1) * 100:.1f} %"


def _narrowed(after: float, now: float) -> str:
    return f"{max(0.0, 1 - after / now) * 100:.0f} %"


def _ordinal(number: int) -> str:
    words = (
        "",
        "first",
        "second",
        "third",
        "fourth",
        "fifth",
        "sixth",
        "seventh",
        "eighth",
        "ninth",
        "tenth",
    )
    return words[number] if number < len(words) else f"{number}th"
