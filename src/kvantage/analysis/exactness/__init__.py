"""Does speculation change the answers, by more than the server changes its own?"""

from kvantage.analysis.exactness.arithmetic import (
    NEAR_ULPS,
    Divergence,
    bf16_ulp,
    classify_gap,
    equivalence_interval,
    fisher_p,
    placeholder_logprobs,
)
from kvantage.analysis.exactness.classes import EXACTNESS_CLASSES, ExactnessClass, at_worst, worse

__all__ = [
    "EXACTNESS_CLASSES",
    "NEAR_ULPS",
    "Divergence",
    "ExactnessClass",
    "at_worst",
    "bf16_ulp",
    "classify_gap",
    "equivalence_interval",
    "fisher_p",
    "placeholder_logprobs",
    "worse",
]
