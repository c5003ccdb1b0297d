"""What every stage script shares: its command line, its one-line errors, its progress bar, its part of the work.

Where and how fast a stage runs is never in params.yaml, because it may not change a result. Every script takes
``--device``, ``--processes``, ``--shard-index`` and ``--num-shards``; under ``dvc repro`` the same come from
``WSOUP_DEVICE``, ``WSOUP_PROCESSES``, ``WSOUP_SHARD_INDEX`` and ``WSOUP_NUM_SHARDS``.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import typer
from tqdm import tqdm

from wsoup.errors import ParamsError, WsoupError
from wsoup.runtime.shards import Shards
from wsoup.store import cache_dir

EXECUTION_OPTIONS = {
    "--device": "WSOUP_DEVICE",
    "--processes": "WSOUP_PROCESSES",
    "--shard-index": "WSOUP_SHARD_INDEX",
    "--num-shards": "WSOUP_NUM_SHARDS",
}
ARRAY_VARIABLES = (
    ("WSOUP_SHARD_INDEX", "WSOUP_NUM_SHARDS"),
    ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT"),
    ("RANK", "WORLD_SIZE"),
)


def run(main: Callable[..., None]) -> None:
    """Run a stage's `main` from the command line: a WsoupError is one line on stderr and exit code 1."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for option in EXECUTION_OPTIONS:
        parser.add_argument(option)
    execution, rest = parser.parse_known_args()
    for option, variable in EXECUTION_OPTIONS.items():
        value = getattr(execution, option[2:].replace("-", "_"))
        if value is not None:
            os.environ[variable] = value
    epilog = "Also: --device cuda|cpu, --processes N, --shard-index I --num-shards N (or WSOUP_... variables)."
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(epilog=epilog)(main)
    began = time.monotonic()
    try:
        app(rest, standalone_mode=False)
    except typer.Exit as stop:
        raise SystemExit(stop.exit_code) from None
    except WsoupError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    except Exception as error:
        if hasattr(error, "format_message"):  # a usage error of the command line
            print(f"usage: {error.format_message()}", file=sys.stderr)
            raise SystemExit(2) from None
        raise
    _note_timing(rest, seconds=time.monotonic() - began)


def progress(
    items: Iterable[Any] | None = None, *, label: str, total: int | None = None, initial: int = 0, unit: str = "it"
) -> Any:
    """A progress bar on stderr; on anything but a terminal a line every ten seconds at most."""
    interval = 0.2 if sys.stderr.isatty() else 10.0
    return tqdm(
        items, desc=label, total=total, initial=initial, unit=unit, mininterval=interval, file=sys.stderr, ncols=100
    )


def part_of_work() -> tuple[int, int]:
    """(i, n): this process does every n-th shard beginning with i; (0, 1) where nothing says otherwise.

    Read from the options above, else ``SLURM_ARRAY_TASK_ID`` / ``SLURM_ARRAY_TASK_COUNT``, else ``RANK`` /
    ``WORLD_SIZE``.
    """
    for index_name, count_name in ARRAY_VARIABLES:
        if index_name in os.environ and count_name in os.environ:
            try:
                index, count = int(os.environ[index_name]), int(os.environ[count_name])
            except ValueError:
                index, count = -1, 0
            if not 0 <= index < count:
                raise ParamsError(
                    f"{index_name}={os.environ[index_name]}, {count_name}={os.environ[count_name]}: "
                    "must be whole numbers with 0 <= index < count"
                )
            return index, count
    return 0, 1


def finish_shards(
    work: Sequence[Shards],
    *,
    task: Callable[[int, int], Mapping[str, np.ndarray]],
    label: str,
    unit: str,
    bar: bool = True,
) -> None:
    """Do all missing shards, alone, with other processes, or as one part of an array job.

    With ``--processes N`` this script is started N times on the first GPUs, each doing its part. As part i of n the
    process ends here with exit code 0 after its own part: the stage's outs are written by whoever runs it whole.

    Args:
        work: the sets of shards, for example one per seed.
        task: (number of the set, shard number) -> arrays; a pure function.
        label: for the progress bar.
        unit: what a shard is.
        bar: False where the task shows its own, finer progress.
    """
    index, count = part_of_work()
    processes = int(os.environ.get("WSOUP_PROCESSES", "1"))
    if count == 1 and processes > 1 and not all(shards.complete() for shards in work):
        _start_parts(processes)
    missing = [(s, i) for s, shards in enumerate(work) for i in shards.mine(part=(index, count))]
    done = sum(shards.n for shards in work) - len(missing) if count == 1 else 0
    if done and missing:
        print(f"{label}: {done} of {done + len(missing)} {unit}s were finished before; going on", file=sys.stderr)
    for s, i in progress(missing, label=label, unit=unit) if bar else missing:
        work[s].save(i, task(s, i))
    if count > 1:
        print(f"{label}: part {index} of {count} is done; run the stage whole to collect the parts", file=sys.stderr)
        raise typer.Exit(0)


def _start_parts(processes: int) -> None:
    """Start this script `processes` times, each on its own GPU where there are GPUs, and wait for all."""
    running = []
    for i in range(processes):
        environment = {**os.environ, "WSOUP_SHARD_INDEX": str(i), "WSOUP_NUM_SHARDS": str(processes)}
        visible = [gpu for gpu in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if gpu]
        if visible or _gpu_count():
            environment["CUDA_VISIBLE_DEVICES"] = visible[i % len(visible)] if visible else str(i % _gpu_count())
        running.append(subprocess.Popen([sys.executable, *sys.argv], env=environment))
    failed = [i for i, process in enumerate(running) if process.wait() != 0]
    if failed:
        raise WsoupError(f"parts {failed} of {processes} failed (see above); finished shards are kept: run again")


def _gpu_count() -> int:
    import torch

    return torch.cuda.device_count()


def _note_timing(arguments: list[str], *, seconds: float) -> None:
    """Append seconds and peak memory to ``.cache/wsoup/timings.jsonl``, which the report shows; never an output."""
    # DVC tells the stage's name; without DVC it is the script and its first argument.
    script = "@".join([Path(sys.argv[0]).stem, *(a for a in arguments[:1] if not a.startswith("-"))])
    usage = resource.getrusage(resource.RUSAGE_SELF)
    line = {
        "stage": os.environ.get("DVC_STAGE", script),
        "seconds": round(seconds, 2),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 2),
        "peak_mib": round(usage.ru_maxrss / 1024),
        "cores": os.cpu_count(),
        "device": os.environ.get("WSOUP_DEVICE", "auto"),
        "time": int(time.time()),
    }
    cache_dir().mkdir(parents=True, exist_ok=True)
    with open(cache_dir() / "timings.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps(line, sort_keys=True) + "\n")
