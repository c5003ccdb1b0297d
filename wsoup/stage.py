"""What every stage script shares: its command line, its one-line errors, its progress bar, its part of the work."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from typing import TypeVar

import typer
from tqdm import tqdm

from wsoup.errors import ParamsError, WsoupError

T = TypeVar("T")


def run(main: Callable[..., None]) -> None:
    """Run a stage's `main` from the command line: a WsoupError is one line on stderr and exit code 1."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    try:
        app()
    except WsoupError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(1) from None


def progress(items: Iterable[T], *, label: str, total: int | None = None, unit: str = "it") -> Iterable[T]:
    """A progress bar on stderr; on anything but a terminal one line every ten seconds at most."""
    interval = 0.2 if sys.stderr.isatty() else 10.0
    return tqdm(items, desc=label, total=total, unit=unit, mininterval=interval, file=sys.stderr, dynamic_ncols=True)


def part_of_work() -> tuple[int, int]:
    """(i, n): this process does every n-th shard beginning with i.

    Read from ``WSOUP_SHARD_INDEX`` / ``WSOUP_NUM_SHARDS``, else ``SLURM_ARRAY_TASK_ID`` / ``SLURM_ARRAY_TASK_COUNT``,
    else ``RANK`` / ``WORLD_SIZE``; (0, 1) where none is set.
    """
    for index_key, count_key in (
        ("WSOUP_SHARD_INDEX", "WSOUP_NUM_SHARDS"),
        ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT"),
        ("RANK", "WORLD_SIZE"),
    ):
        if count_key in os.environ and index_key in os.environ:
            try:
                index, count = int(os.environ[index_key]), int(os.environ[count_key])
            except ValueError:
                index, count = -1, 0
            if not 0 <= index < count:
                raise ParamsError(
                    f"{index_key}={os.environ[index_key]} of {count_key}={os.environ[count_key]}: "
                    "must be whole numbers with 0 <= index < count"
                )
            return index, count
    return 0, 1
