"""Facts about memory: what was given back is used again without a page fault, in each process of wsoup.

In processes of their own, because malloc is one for all of a process.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from project import ROOT

from wsoup.runtime import process

BLOCKS = """
import resource
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(4):
        bytearray(b"x") * (100 << 20)  # what is multiplied is touched, and given back at once
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
"""
PAGES = 4 * 100 * 256
"""Of 4 KiB, in what `faults` touches."""
glibc = pytest.mark.skipif(not process.is_glibc(), reason="malloc of another C library is left alone")


def faults(code: str, **variables: str) -> list[int]:
    """What a new process prints after the blocks were asked for once."""
    environment = {k: v for k, v in os.environ.items() if k != "WSOUP_KEEP_MEMORY" and not k.startswith("MALLOC_")}
    done = subprocess.run(
        [sys.executable, "-c", f"{BLOCKS}\n{code}"],
        env={**environment, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return [int(text) for text in done.stdout.split()]


DOORS = {
    "a stage": "import stages",
    "a worker of Ray": "from wsoup.runtime.on_ray import Worker; Worker('.', {})",
    "a command": "import sys, wsoup.cli.app as a\nsys.argv = ['wsoup', 'x']\ntry: a.main()\nexcept SystemExit: pass",
}


@glibc
@pytest.mark.parametrize("door", DOORS)
def test_blocks_are_used_again(door):
    first, again = faults(f"{DOORS[door]}\nprint(faults(), faults())")
    assert first < PAGES // 3 > again, "one block in four is new"
    assert again < PAGES // 100


@glibc
@pytest.mark.parametrize("variables", [{"WSOUP_KEEP_MEMORY": "0"}, {"MALLOC_ARENA_MAX": "2"}])
def test_malloc_is_left_alone_where_that_is_asked_for_or_the_user_has_set_it_up(variables):
    (again,) = faults("import stages; faults(); print(faults())", **variables)
    assert again > PAGES // 2


@glibc
def test_in_somebody_elses_process_it_is_as_usual_afterwards():
    code = """
from wsoup.runtime.process import kept_memory
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4 >> 10
before = resident()
with kept_memory():
    faults()
    print(faults())
    print(resident() - before)
print(resident() - before)
print(faults())
"""
    within, held, left, after = faults(code)
    assert within < PAGES // 100
    assert held >= 90, "MiB: it is kept"
    assert left <= 10, "and given back"
    assert after > PAGES // 2
