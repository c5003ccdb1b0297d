"""Which part of a stage's shards this process does: all of them, or every n-th as one process of several."""

from __future__ import annotations

import os
import subprocess
import sys

from wsoup.errors import ParamsError, WsoupError

ARRAY_VARIABLES = (
    ("WSOUP_SHARD_INDEX", "WSOUP_NUM_SHARDS"),
    ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT"),
    ("RANK", "WORLD_SIZE"),
)


def part_of_work() -> tuple[int, int]:
    """(i, n): this process does every n-th shard beginning with i; (0, 1) where nothing says otherwise.

    Read from ``WSOUP_SHARD_INDEX`` / ``WSOUP_NUM_SHARDS``, else ``SLURM_ARRAY_TASK_ID`` / ``SLURM_ARRAY_TASK_COUNT``
    (an array may begin at any number and go in steps), else ``RANK`` / ``WORLD_SIZE``.
    """
    for index_name, count_name in ARRAY_VARIABLES:
        if index_name in os.environ and count_name in os.environ:
            try:
                index, count = int(os.environ[index_name]), int(os.environ[count_name])
                if index_name == "SLURM_ARRAY_TASK_ID":
                    first, step = (
                        int(os.environ.get(f"SLURM_ARRAY_TASK_{k}", d)) for k, d in (("MIN", 0), ("STEP", 1))
                    )
                    index = (index - first) // step
            except ValueError:
                index, count = -1, 0
            if not 0 <= index < count:
                raise ParamsError(
                    f"{index_name}={os.environ[index_name]}, {count_name}={os.environ[count_name]}: "
                    "must be whole numbers with 0 <= index < count"
                )
            return index, count
    return 0, 1


def processes_wanted() -> int:
    """How many processes ``WSOUP_PROCESSES`` asks for."""
    text = os.environ.get("WSOUP_PROCESSES", "1")
    if not text.isdecimal() or int(text) < 1:
        raise ParamsError(f"WSOUP_PROCESSES={text}: must be a whole number, 1 or more")
    return int(text)


def start_parts(processes: int) -> None:
    """Start this program `processes` times, each on its own GPU where there are GPUs, and wait for all."""
    running = []
    for i in range(processes):
        environment = {**os.environ, "WSOUP_SHARD_INDEX": str(i), "WSOUP_NUM_SHARDS": str(processes)}
        visible = [gpu for gpu in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if gpu]
        if visible or _gpu_count():
            environment["CUDA_VISIBLE_DEVICES"] = visible[i % len(visible)] if visible else str(i % _gpu_count())
        running.append(subprocess.Popen([*sys.orig_argv], env=environment))
    failed = [i for i, process in enumerate(running) if process.wait() != 0]
    if failed:
        raise WsoupError(f"parts {failed} of {processes} failed (see above); finished shards are kept: run again")


def _gpu_count() -> int:
    import torch

    return torch.cuda.device_count()
