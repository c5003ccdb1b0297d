"""The finished parts of a long stage, kept until its outs are in place."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from wsoup.store import cache_dir, fingerprint, read_arrays, write_arrays


class Shards:
    """The finished parts of a long stage, kept outside the DVC outs so that a killed run goes on where it was.

    A shard is a pure task: (inputs, shard number) -> arrays, one file each under
    ``.cache/wsoup/<stage>/<fingerprint of the inputs>/``. Shard boundaries come from params, never from the number of
    workers, so any split of the work over processes gives the same bytes.

    Args:
        stage: the stage's name.
        inputs: everything that decides the result, as a JSON value.
        n: number of shards.
    """

    def __init__(self, stage: str, *, inputs: Any, n: int) -> None:
        self.folder = cache_dir() / stage / fingerprint(inputs)
        self.n = n

    def path(self, shard: int) -> Path:
        """Where shard number `shard` lies once it is finished."""
        return self.folder / f"{shard:05d}.safetensors"

    def done(self, shard: int) -> bool:
        """Whether that shard is finished."""
        return self.path(shard).exists()

    def mine(self, *, part: tuple[int, int]) -> list[int]:
        """The shards still to be done by process i of n: `part` is (i, n), (0, 1) for all."""
        index, count = part
        return [i for i in range(self.n) if i % count == index and not self.done(i)]

    def save(self, shard: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Put a finished shard in place."""
        write_arrays(self.path(shard), arrays)

    def complete(self) -> bool:
        """Whether every shard, of every process, is in place."""
        return all(self.done(i) for i in range(self.n))

    def load(self) -> list[dict[str, np.ndarray]]:
        """All shards in order."""
        return [read_arrays(self.path(i)) for i in range(self.n)]
