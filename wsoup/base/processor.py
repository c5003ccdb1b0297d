"""What this machine's processor can do. Decides no result."""

from functools import cache

BF16 = {"avx512_bf16", "amx_bf16"}
"""Flags of x86 processors that multiply bf16 faster than fp32; others convert each number first, which is slower."""


@cache
def has_fast_bf16(cpuinfo: str = "/proc/cpuinfo") -> bool:
    """Whether products in bf16 are fast here; False where Linux does not say."""
    try:
        with open(cpuinfo, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return False
    for line in lines:
        name, _, flags = line.partition(":")
        if name.strip() == "flags":
            # All cores of a machine have the same, so the first is enough.
            return not BF16.isdisjoint(flags.split())
    return False
