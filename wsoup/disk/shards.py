"""Shards: finished pieces of a long stage's work, each in a file of its own.

A run that was killed continues where it stopped. The name of a shard is a digest of everything that it depends on:
inputs, code and packages. The shards of the last finished run are kept, so that with another seed or one more word only
what is new is computed; a finished run removes all others of its stage.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from wsoup.base.errors import MismatchError
from wsoup.disk.cache_folder import cache_dir
from wsoup.disk.checked import read_checked, write_checked
from wsoup.disk.code import digest, modules, packages
from wsoup.disk.store import fingerprint

KEPT_BYTES = 1 << 30
"""Larger shards of a finished stage are not kept."""
FILE = re.compile(r"[0-9a-f]{20}\.(part|running)")
"""Name of a finished shard, or of the state of one that saves its progress."""


@dataclass(frozen=True)
class Owner:
    """The stage that resume state belongs to.

    Attributes:
        name: of the stage, with its item: ``score@words``.
        code: the digest of its script and of all that it imports (`wsoup.disk.code`).
        packages: versions of the packages that may change its numbers.
        used: shards that this run has asked for and that a finished run keeps.
    """

    name: str
    code: str
    packages: Mapping[str, str]
    used: set[Path] = field(default_factory=set, compare=False, repr=False)

    @classmethod
    def of(cls, script: Path, *, name: str) -> Owner:
        """The owner of a script's state."""
        return cls(name, digest(modules(script)), packages(script))

    def using(self, file: Path) -> Owner:
        """The stage where it also uses a module that its script does not import by name, such as a kind of soup."""
        return replace(self, code=fingerprint([self.code, digest(modules(file))]))

    @cached_property
    def version(self) -> str:
        """A digest of code and packages."""
        return fingerprint([self.code, dict(self.packages)])

    @property
    def folder(self) -> Path:
        """The folder of all of its resume state, with one folder inside for each version."""
        return cache_dir() / self.name

    def path(self, inputs: object, *, suffix: str) -> Path:
        """The file of a shard with these inputs: ``.part`` finished, ``.running`` half done."""
        return self.folder / self.version / f"{fingerprint(inputs)}{suffix}"

    def outdated(self) -> bool:
        """Whether shards of other code or packages are there."""
        return any(folder.name != self.version for folder in self.folder.glob("*/"))

    def begun(self) -> bool:
        """Whether there is anything to continue from."""
        return any((self.folder / self.version).glob("*"))

    def finished(self) -> None:
        """Remove all shards but those that this run used; those, too, if they are larger than `KEPT_BYTES`.

        Only files and folders that have the names of shards.
        """
        kept = {path for path in self.used if path.exists()}
        if sum(path.stat().st_size for path in kept) > KEPT_BYTES:
            kept = set()
        # Those of other code and packages, too: nobody can use them any more.
        for path in self.folder.glob("*/*"):
            if FILE.fullmatch(path.name) and path not in kept:
                path.unlink(missing_ok=True)
        for folder in [*self.folder.glob("*/"), self.folder]:
            with suppress(OSError):  # not empty
                folder.rmdir()


@dataclass(frozen=True)
class Shard:
    """One piece of a stage's work.

    Attributes:
        owner: the stage.
        inputs: everything that the result depends on but code and packages, as a JSON value. It comes from params,
            never from the number of workers, so that any distribution of the work gives the same bytes.
        compute: gives the result; on a cluster it must be a pure function that can be pickled.
        size: steps of the progress bar.
    """

    owner: Owner
    inputs: object
    compute: Callable[[], bytes]
    size: int = 1

    @cached_property
    def path(self) -> Path:
        """The file of the finished shard."""
        return self.owner.path(self.inputs, suffix=".part")

    def done(self) -> bool:
        """Whether the shard is finished and intact; a damaged one is reported and removed."""
        try:
            # Reading it is how damage shows: resume state is not synced, so a power cut may leave an empty file.
            return self.path.exists() and read_checked(self.path) is not None
        except MismatchError as error:
            print(f"{error}: computing it again", file=sys.stderr)
            self.path.unlink(missing_ok=True)
            return False

    def save(self, payload: bytes) -> None:
        """Save the result, which ends the state of the running shard."""
        write_checked(self.path, payload)
        # In this order a kill between the two costs nothing.
        self.path.with_suffix(".running").unlink(missing_ok=True)

    def load(self) -> bytes:
        """The result. MissingError or MismatchError if there is none that is intact."""
        return read_checked(self.path)
