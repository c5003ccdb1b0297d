"""How many threads a process computes with, and how they wait. Decides no result.

**Waiting.** Small tensors make tens of thousands of parallel sections, microseconds each. Between two of them a thread
of GNU's OpenMP spins, by default for milliseconds: good on idle cores, but where another process wants the core, most
of the run's processor time. A thousand turns last about as long as waking a sleeping thread does.

**Number.** OpenMP starts a thread for each core of the process's affinity. A container's quota (``--cpus=1``) leaves
the affinity as it is and stops all threads once it is spent, so the quota counts too.
"""

import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SPINS = "1000"
"""GOMP_SPINCOUNT of a process whose user has set neither that nor OMP_WAIT_POLICY."""
SMALL = 1 << 28
"""Products below which work is small: some 10 ms on one core."""


def prepare() -> None:
    """Before torch is imported, set the variables that OpenMP reads then; a user's own win."""
    if "torch" in sys.modules:
        return
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)
    if cores() < _affinity():
        os.environ.setdefault("OMP_NUM_THREADS", str(cores()))


def cores(cgroups: str = "/sys/fs/cgroup", *, own: str = "/proc/self/cgroup") -> int:
    """Cores that this process may keep busy: of its affinity, or fewer by its cgroup's quota, rounded up.

    Args:
        cgroups: where cgroups are mounted: version 2 there, version 1 in the folder ``cpu``.
        own: lines ``number:controllers:path``, the cgroups of this process.
    """
    allowed = float(_affinity())
    for line in _text(own).splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:  # version 2
            folder = cgroups
        elif "cpu" in controllers.split(","):
            folder = os.path.join(cgroups, "cpu")
        else:
            continue
        # Each folder on the way down may limit all below it.
        allowed = min(allowed, _quota(folder))
        for name in path.split("/"):
            if name:
                folder = os.path.join(folder, name)
                allowed = min(allowed, _quota(folder))
    return max(1, math.ceil(allowed))


@contextmanager
def one_thread_for(products: int) -> Iterator[None]:
    """Compute with one thread within the block, if so few products cost less than handing them out would."""
    import torch

    before = torch.get_num_threads()
    if products < SMALL:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _affinity() -> int:
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quota(folder: str) -> float:
    """Cores by the quota of one cgroup; infinite where it has none, or is not to be seen from here."""
    numbers: list[str] = []
    for name in ("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us"):  # one of version 2, or two of version 1
        numbers += _text(os.path.join(folder, name)).split()
    if len(numbers) != 2 or numbers[0] in ("max", "-1"):
        return float("inf")
    quota, period = numbers
    return float(quota) / float(period)


def _text(path: str) -> str:
    """A file's text; none where it cannot be read, as on other systems than Linux."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
