"""What the processor can do is read from what Linux says of it."""

from __future__ import annotations

import pytest

from wsoup.base.processor import has_fast_bf16


@pytest.mark.parametrize(
    ("flags", "fast"),
    [
        ("fpu avx2 fma", False),
        ("fpu avx2 avx512f avx512_vnni", False),
        ("fpu avx512f avx512_bf16", True),
        ("fpu amx_bf16 amx_tile", True),
    ],
)
def test_fast_bf16_is_a_flag_of_the_processor(tmp_path, flags, fast):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\nmodel name\t: avx512_bf16 in a name\nflags\t\t: {flags}\nbugs\t\t: amx_bf16\n")
    assert has_fast_bf16(str(cpuinfo)) is fast


def test_without_linuxs_word_it_is_not_fast(tmp_path):
    assert not has_fast_bf16(str(tmp_path / "none"))
    arm = tmp_path / "cpuinfo"
    arm.write_text("processor\t: 0\nFeatures\t: fp asimd bf16\n")
    assert not has_fast_bf16(str(arm))
