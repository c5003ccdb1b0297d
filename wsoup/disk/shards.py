"""Resume state: the finished shards of a long stage, so that a run that was killed continues where it stopped.

A shard is the result of a pure task, (inputs, number) -> named arrays, in a file of its own. Its key has everything
that it depends on: the inputs, the stage's code and the versions of its packages. Shards are removed once the stage's
outs are in place; finished results are in DVC's cache.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wsoup.base.errors import MismatchError, MissingError
from wsoup.disk import code
from wsoup.disk.store import (
    cache_dir,
    fingerprint,
    pack_arrays,
    read_checked,
    read_json,
    unpack_arrays,
    write_checked,
    write_json,
)

ABOUT = "about.json"


@dataclass(frozen=True)
class Owner:
    """The stage that resume state belongs to.

    Attributes:
        name: of the stage, with its item: ``score@words``.
        code: digests of its script and rooms.
        packages: versions of the packages that may change its numbers.
    """

    name: str
    code: Mapping[str, str]
    packages: Mapping[str, str]

    @classmethod
    def of(cls, script: Path, *, name: str) -> Owner:
        """The owner of a script's state."""
        return cls(name, code.digests(script), code.packages(script))

    @property
    def folder(self) -> Path:
        """The folder of all of its resume state."""
        return cache_dir() / self.name

    def about(self, *, inputs: str) -> dict[str, Any]:
        """The note beside its state, for `changed_since`; `inputs` is the fingerprint of the inputs."""
        return {"stage": self.name, "inputs": inputs, "code": dict(self.code), "packages": dict(self.packages)}

    def changed_since(self, about: Mapping[str, Any]) -> str | None:
        """What changed in code or packages since a note was written; None if nothing did.

        Raises KeyError, TypeError or AttributeError if `about` is no such note.
        """
        theirs, ours = about["packages"], self.packages
        changed = [f"{name} {theirs.get(name)} -> {ours[name]}" for name in ours if theirs.get(name) != ours[name]]
        if about["code"] != dict(self.code):
            return f"code of {self.name!r} changed"
        return f"packages of {self.name!r} changed ({', '.join(changed)})" if changed else None


class Shards:
    """The shards of one set of inputs, in ``.cache/wsoup/<stage>/<fingerprint>/``.

    Shard boundaries come from params, never from the number of workers, so that any distribution of the work gives the
    same bytes.

    Args:
        owner: the stage that does the work.
        inputs: everything the result depends on but code and packages, as a JSON value.
        n: number of shards.
    """

    def __init__(self, owner: Owner, *, inputs: Any, n: int) -> None:
        self.owner, self.inputs, self.n = owner, fingerprint(inputs), n
        self.folder = owner.folder / fingerprint([self.inputs, dict(owner.code), dict(owner.packages)])

    def path(self, shard: int) -> Path:
        """The file of a finished shard."""
        return self.folder / f"{shard:05d}.part"

    def running(self, shard: int) -> Path:
        """The file for the state of an unfinished shard that saves its progress."""
        return self.folder / f"{shard:05d}.running"

    def done(self, shard: int) -> bool:
        """Whether a shard is finished and intact; a damaged one is reported and removed."""
        return self._read(shard) is not None

    def missing(self) -> list[int]:
        """Numbers of the shards that are not done."""
        return [i for i in range(self.n) if not self.done(i)]

    def save(self, shard: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Save a finished shard."""
        write_checked(self.path(shard), pack_arrays(arrays))
        self.running(shard).unlink(missing_ok=True)

    def load(self) -> list[dict[str, np.ndarray]]:
        """All shards, in order; MissingError unless all are finished."""
        shards = [arrays for i in range(self.n) if (arrays := self._read(i)) is not None]
        if (missing := self.n - len(shards)) > 0:
            raise MissingError(f"{self.folder}: {missing} of {self.n} shards are missing; run the stage again")
        return shards

    def begin(self) -> None:
        """Write the note, and remove shards of the same inputs whose code or packages have changed."""
        for about in sorted(self.owner.folder.glob(f"*/{ABOUT}")):
            if about.parent != self.folder and (change := self._outdated(about)):
                print(f"{change} since it was interrupted: starting again", file=sys.stderr)
                shutil.rmtree(about.parent, ignore_errors=True)
        if not (self.folder / ABOUT).exists():
            write_json(self.folder / ABOUT, {**self.owner.about(inputs=self.inputs), "n": self.n})

    def _outdated(self, about: Path) -> str | None:
        """What changed since other shards of these inputs were made; None if they are of other inputs."""
        try:
            note = read_json(about)
            return self.owner.changed_since(note) if note["inputs"] == self.inputs else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return f"{about} cannot be read, and may have changed"

    def _read(self, shard: int) -> dict[str, np.ndarray] | None:
        path = self.path(shard)
        if not path.exists():
            return None
        try:
            return unpack_arrays(read_checked(path), origin=path)
        except MismatchError as error:
            print(f"{error}: computing it again", file=sys.stderr)
            path.unlink(missing_ok=True)
            return None
