"""How many bytes an element of a KV cache takes, by the names that people and engines give the dtypes."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from kvantage.core import UsageError


@dataclass(frozen=True)
class KvDtype:
    """A KV dtype: `size` is bytes an element, block scales included where the format has them.

    `family` is what a dtype-dependent layout asks for: `float`, `fp8`, `int8` or `fp4`.
    """

    name: str
    size: Fraction
    family: str

    def bytes(self, elements: int) -> int:
        """Bytes of that many elements, rounded up to whole bytes."""
        return ceil(self.size * elements)


# Block formats carry a scale each 16 (NVFP4: one FP8 byte) or 32 elements (MX: one E8M0 byte; q8_0 and
# relatives: one or two fp16 a block of 32, as their published block layouts say).
DTYPES: dict[str, KvDtype] = {
    dtype.name: dtype
    for dtype in (
        KvDtype("bf16", Fraction(2), "float"),
        KvDtype("fp16", Fraction(2), "float"),
        KvDtype("fp32", Fraction(4), "float"),
        KvDtype("fp8_e4m3", Fraction(1), "fp8"),
        KvDtype("fp8_e5m2", Fraction(1), "fp8"),
        KvDtype("int8", Fraction(1), "int8"),
        KvDtype("int4", Fraction(1, 2), "fp4"),
        KvDtype("mxfp8", Fraction(33, 32), "fp8"),
        KvDtype("nvfp4", Fraction(9, 16), "fp4"),
        KvDtype("mxfp4", Fraction(17, 32), "fp4"),
        KvDtype("q8_0", Fraction(34, 32), "int8"),
        KvDtype("q5_1", Fraction(24, 32), "fp4"),
        KvDtype("q5_0", Fraction(22, 32), "fp4"),
        KvDtype("q4_1", Fraction(20, 32), "fp4"),
        KvDtype("q4_0", Fraction(18, 32), "fp4"),
        KvDtype("iq4_nl", Fraction(18, 32), "fp4"),
    )
}

_ALIASES = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "f16": "fp16",
    "float32": "fp32",
    "float": "fp32",
    "f32": "fp32",
    "fp8": "fp8_e4m3",
    "fp8_inc": "fp8_e4m3",
    "fp8_ds_mla": "fp8_e4m3",
    "float8_e4m3fn": "fp8_e4m3",
    "float8_e4m3": "fp8_e4m3",
    "float8_e5m2": "fp8_e5m2",
    "e4m3": "fp8_e4m3",
    "e5m2": "fp8_e5m2",
    "fp4": "nvfp4",
    "nvfp4_ds_mla": "nvfp4",
    "fp4_mx_block16": "nvfp4",
}


def kv_dtype(name: str) -> KvDtype:
    """The dtype of that name, in any common spelling. Raises UsageError that lists the known ones."""
    plain = name.lower().removeprefix("torch.").replace("-", "_")
    plain = _ALIASES.get(plain, plain)
    if plain not in DTYPES:
        raise UsageError(f"`{name}` is not a KV dtype that we know; known are {', '.join(DTYPES)}")
    return DTYPES[plain]
