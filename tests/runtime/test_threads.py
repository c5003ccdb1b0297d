"""Threads follow the quota of a container, and wait without burning a core that another process wants."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from wsoup.runtime.threads import SMALL, SPINS, cores, one_thread_for

AFFINITY = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
SHOWN = "import os, wsoup; print(*map(os.environ.get, ('OMP_NUM_THREADS', 'GOMP_SPINCOUNT')))"


@pytest.fixture
def limit(tmp_path):
    """Cores under a cgroup of our own making: `limit(own, {file: text})`."""

    def limited(own: str, files: dict[str, str]) -> int:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        (tmp_path / "own").write_text(own)
        return cores(str(tmp_path), own=str(tmp_path / "own"))

    return limited


@pytest.mark.parametrize(
    ("own", "files"),
    [
        ("0::/\n", {"cpu.max": "50000 100000\n"}),  # version 2, half a core, in a container
        ("0::/a b/c\n", {"a b/cpu.max": "100000 100000\n", "a b/c/cpu.max": "max 100000\n"}),  # by a folder above
        ("4:memory:/x\n3:cpu,cpuacct:/\n", {"cpu/cpu.cfs_quota_us": "20000\n", "cpu/cpu.cfs_period_us": "100000\n"}),
        ("3:cpu:/not/seen\n", {"cpu/cpu.cfs_quota_us": "100000\n", "cpu/cpu.cfs_period_us": "100000\n"}),
    ],
)
def test_a_quota_of_one_core_or_less_is_one_core(limit, own, files):
    assert limit(own, files) == 1


@pytest.mark.parametrize(
    ("own", "files"),
    [
        ("", {}),
        ("0::/\n", {"cpu.max": "max 100000\n"}),
        ("0::/\n", {"cpu.max": f"{AFFINITY}00000 100000\n"}),
        ("3:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}),
        ("3:memory:/\n", {"cpu.max": "1000 100000\n", "cpu/cpu.max": "1000 100000\n"}),  # of no cgroup of ours
    ],
)
def test_without_a_quota_the_affinity_counts(limit, own, files):
    assert limit(own, files) == AFFINITY


@pytest.mark.skipif(AFFINITY < 2, reason="needs two cores")
def test_a_part_of_a_core_is_a_core(limit):
    assert limit("0::/\n", {"cpu.max": "110000 100000\n"}) == 2


def started(*before: str, **variables: str) -> list[str]:
    """OMP_NUM_THREADS and GOMP_SPINCOUNT of a process that imports wsoup."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "MKL_"))}
    command = [*before, sys.executable, "-c", SHOWN]
    done = subprocess.run(command, env=kept | variables, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_waiting_threads_sleep_soon_unless_the_user_says_otherwise():
    assert started()[1] == SPINS
    assert started(GOMP_SPINCOUNT="7")[1] == "7"
    assert started(OMP_WAIT_POLICY="active")[1] == "None"


@pytest.mark.skipif(AFFINITY < 2, reason="needs two cores")
@pytest.mark.parametrize("quota", [50_000, 100_000])
def test_in_a_real_cgroup(quota):
    mount = Path("/sys/fs/cgroup/cpu" if Path("/sys/fs/cgroup/cpu").is_dir() else "/sys/fs/cgroup")
    group = mount / f"wsoup-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    try:
        if (group / "cpu.cfs_quota_us").exists():
            (group / "cpu.cfs_quota_us").write_text(str(quota))
        elif (group / "cpu.max").exists():
            (group / "cpu.max").write_text(f"{quota} 100000")
        else:
            pytest.skip("this cgroup limits no cores")
        inside = ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]
        assert started(*inside)[0] == "1"
        assert started(*inside, OMP_NUM_THREADS="2")[0] == "2", "a user's own variable wins"
    finally:
        group.rmdir()


def test_one_thread_is_for_a_block_of_small_work_only():
    import torch

    before = torch.get_num_threads()
    with one_thread_for(SMALL - 1):
        assert torch.get_num_threads() == 1
    with one_thread_for(SMALL):
        assert torch.get_num_threads() == before
    assert torch.get_num_threads() == before
