"""Freed memory is reused without page faults in every process of wsoup.

Each test runs in its own process, because malloc is shared by the whole process.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from project import ROOT

from wsoup.runtime import memory

BLOCKS = """
import resource
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(4):
        bytearray(b"x") * (100 << 20)  # the product is touched, and freed at once
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
"""
PAGES = 4 * 100 * 256
"""Pages of 4 KiB that `faults` touches."""
glibc = pytest.mark.skipif(not memory.is_glibc(), reason="only glibc's malloc is configured")


def faults(code: str, **variables: str) -> list[int]:
    """Integers that `code` prints in a new process."""
    environment = {k: v for k, v in os.environ.items() if k != "WSOUP_KEEP_MEMORY" and not k.startswith("MALLOC_")}
    done = subprocess.run(
        [sys.executable, "-c", f"{BLOCKS}\n{code}"],
        env={**environment, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return [int(text) for text in done.stdout.split()]


PROCESSES = {
    "a stage": "import runpy\ntry: runpy.run_path('stages', run_name='__main__')\nexcept SystemExit: pass",
    "a worker of Ray": "from wsoup.runtime.on_ray import Worker; Worker('.', {})",
    "a command": "import sys, wsoup.cli.app as a\nsys.argv = ['wsoup', 'x']\ntry: a.main()\nexcept SystemExit: pass",
}


@glibc
@pytest.mark.parametrize("kind", PROCESSES)
def test_freed_blocks_are_reused(kind):
    first, again = faults(f"{PROCESSES[kind]}\nprint(faults(), faults())")
    assert first < PAGES // 3 > again, "only the first of four blocks is new"
    assert again < PAGES // 100


@glibc
@pytest.mark.parametrize("variables", [{"WSOUP_KEEP_MEMORY": "0"}, {"MALLOC_ARENA_MAX": "2"}])
def test_malloc_is_not_touched_if_disabled_or_configured_by_the_user(variables):
    (again,) = faults(
        "from wsoup.runtime.memory import keep_memory; keep_memory(); faults(); print(faults())", **variables
    )
    assert again > PAGES // 2


@glibc
def test_malloc_of_a_callers_process_is_restored_afterwards():
    code = """
from wsoup.runtime.memory import kept_memory
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
    assert held >= 90, "MiB that are kept"
    assert left <= 10, "MiB after they were returned"
    assert after > PAGES // 2
