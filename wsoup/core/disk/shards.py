"""The finished parts of a long stage, kept until its outs are in place, so that a killed run goes on where it was.

A part (shard) is a pure task: (inputs, number) -> named arrays, one file each. It belongs to whatever decided it: the
inputs, the code of the stage and the versions of its packages. When one of these is another, the part is not used.
DVC's cache is where finished results live; here lies only what was interrupted.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wsoup.core.disk import code
from wsoup.core.disk.store import (
    cache_dir,
    fingerprint,
    pack_arrays,
    read_checked,
    read_json,
    unpack_arrays,
    write_checked,
    write_json,
)
from wsoup.core.errors import MismatchError, MissingError

ABOUT = "about.json"


@dataclass(frozen=True)
class Owner:
    """Whose resume state it is.

    Attributes:
        name: of the stage, with its item: ``score@words``.
        code: digest of each of its modules.
        packages: version of each package that decides its numbers.
    """

    name: str
    code: Mapping[str, str]
    packages: Mapping[str, str]

    @classmethod
    def of(cls, script: Path, *, name: str) -> Owner:
        """The owner of what a script makes."""
        return cls(name, code.digests(script), code.packages(script))

    @property
    def folder(self) -> Path:
        """Where all of its resume state lies."""
        return cache_dir() / self.name

    def about(self, *, inputs: str) -> dict[str, Any]:
        """What its state says of itself, for `changed_since` later; `inputs` is the fingerprint of the inputs."""
        return {"stage": self.name, "inputs": inputs, "code": dict(self.code), "packages": dict(self.packages)}

    def changed_since(self, about: Mapping[str, Any]) -> str | None:
        """Which of code and packages is another than when its state was begun, as that has it; None: neither.

        Raises KeyError, TypeError or AttributeError where `about` is not what `about` gives.
        """
        theirs, ours = about["packages"], self.packages
        changed = [f"{name} {theirs.get(name)} -> {ours[name]}" for name in ours if theirs.get(name) != ours[name]]
        if about["code"] != dict(self.code):
            return f"code of {self.name!r} changed"
        return f"packages of {self.name!r} changed ({', '.join(changed)})" if changed else None


class Shards:
    """The parts of one set of inputs, under ``.cache/wsoup/<stage>/<fingerprint>/``.

    Shard boundaries come from params, never from the number of workers, so any split of the work over processes gives
    the same bytes.

    Args:
        owner: the stage that does the work.
        inputs: everything but code and packages that decides the result, as a JSON value.
        n: number of shards.
    """

    def __init__(self, owner: Owner, *, inputs: Any, n: int) -> None:
        self.owner, self.inputs, self.n = owner, fingerprint(inputs), n
        self.folder = owner.folder / fingerprint([self.inputs, dict(owner.code), dict(owner.packages)])

    def path(self, shard: int) -> Path:
        """Where shard number `shard` lies once it is finished."""
        return self.folder / f"{shard:05d}.part"

    def running(self, shard: int) -> Path:
        """Where the state of a shard lies that saves itself now and then while it is worked on."""
        return self.folder / f"{shard:05d}.running"

    def done(self, shard: int) -> bool:
        """Whether that shard is finished and whole; a damaged one is named and dropped."""
        return self._read(shard) is not None

    def missing(self) -> list[int]:
        """The shards still to be done."""
        return [i for i in range(self.n) if not self.done(i)]

    def save(self, shard: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Put a finished shard in place."""
        write_checked(self.path(shard), pack_arrays(arrays))
        self.running(shard).unlink(missing_ok=True)

    def load(self) -> list[dict[str, np.ndarray]]:
        """All shards in order; all must be finished."""
        parts = [self._read(i) for i in range(self.n)]
        lost = [i for i, part in enumerate(parts) if part is None]
        if lost:
            raise MissingError(f"{self.folder}: part {lost[0]} of {self.n} is not there; run the stage again")
        return [part for part in parts if part is not None]

    def begin(self) -> None:
        """Say whose parts these are, and drop those of the same inputs whose code or packages are others by now."""
        for about in sorted(self.owner.folder.glob(f"*/{ABOUT}")):
            if about.parent != self.folder and (why := self._outdated(about)):
                print(f"{why} since it was interrupted: starting again", file=sys.stderr)
                shutil.rmtree(about.parent, ignore_errors=True)
        if not (self.folder / ABOUT).exists():
            write_json(self.folder / ABOUT, {**self.owner.about(inputs=self.inputs), "n": self.n})

    def _outdated(self, about: Path) -> str | None:
        """What changed since other parts of the same inputs were made; None where these are of other inputs."""
        try:
            found = read_json(about)
            if found["inputs"] != self.inputs:
                return None
            return self.owner.changed_since(found)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return f"{about} cannot be read; what it is about is unknown"

    def _read(self, shard: int) -> dict[str, np.ndarray] | None:
        path = self.path(shard)
        if not path.exists():
            return None
        try:
            return unpack_arrays(read_checked(path), origin=path)
        except MismatchError as error:
            print(f"{error}: it is done again", file=sys.stderr)
            path.unlink(missing_ok=True)
            return None
