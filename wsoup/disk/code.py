"""What a stage's result depends on, its code and packages, and the shards of its work that are finished.

DVC does not follow imports, so dvc.yaml lists rooms (folders of wsoup) by hand. This module follows a script's imports
by parsing the source, and a test compares. Rooms that change no result (progress bars, Ray, checks, the command line)
are in `UNDECIDING` and are not followed. An ``__init__.py`` holds only a docstring, so it does not count.

A shard is one piece of a long stage's work, in a file of its own, so that a run that was killed continues where it
stopped. Its name is a digest of everything that it depends on: inputs, code and packages. The shards of the last
finished run are kept, so that with another seed or one more word only what is new is computed; a finished run removes
all others of its stage.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path

from wsoup.base.errors import MismatchError
from wsoup.disk.store import cache_dir, fingerprint, read_checked, write_checked

ROOT = Path(__file__).parents[2]
"""The folder of this wsoup: a checkout, or where packages are installed."""
KINDS = ROOT / "wsoup" / "search" / "grow"
"""The folder whose modules are listed one by one: a stage soup depends on its own kind of soup, on no other."""
UNDECIDING = ("base", "check", "pipeline", "runtime")
"""Rooms that stages import and that change no result."""
DECIDING = {
    "torch": ("torch",),
    "open_clip": ("open_clip_torch", "torchvision", "pillow"),
    "PIL": ("pillow",),
    "numpy": ("numpy",),
    "wordfreq": ("wordfreq",),
}
"""Imported name -> the distributions whose versions may change numbers where it is imported."""
DISTRIBUTIONS = frozenset().union(*DECIDING.values())
KEPT_BYTES = 1 << 30
"""Larger shards of a finished stage are not kept."""
FILE = re.compile(r"[0-9a-f]{20}\.(part|running)")
"""Name of a finished shard, or of the state of one that saves its progress."""


@cache
def imports(path: Path) -> tuple[frozenset[Path], frozenset[str]]:
    """Files of wsoup that a file imports directly, also inside functions, and the names of other packages."""
    modules: set[Path | None] = set()
    packages: set[str] = set()
    for node in _statements(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        modules |= {_module_file(name) for name in names if name.split(".")[0] == "wsoup"}
        packages |= {name.split(".")[0] for name in names}
    return frozenset(file for file in modules if file is not None), frozenset(packages)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements inside a module or a statement; faster than `ast.walk`, which also walks expressions."""
    for part in ("body", "handlers", "orelse", "finalbody", "cases"):
        for inner in getattr(node, part, ()):
            yield inner
            yield from _statements(inner)


def _module_file(name: str) -> Path | None:
    """wsoup.a.b -> its file; None for a package or a name inside a module."""
    file = ROOT / (name.replace(".", "/") + ".py")
    return file if file.is_file() else None


def modules(script: Path) -> list[Path]:
    """The script and every file of wsoup that its result depends on, sorted."""
    seen, todo = {script}, [script]
    while todo:
        new = {file for file in imports(todo.pop())[0] if file.parent.name not in UNDECIDING} - seen
        seen |= new
        todo += new
    return sorted(seen)


def rooms(script: Path) -> list[str]:
    """The folders of wsoup with `modules`, as dvc.yaml lists them; of `KINDS`, the modules themselves."""
    places = {file if file.parent == KINDS else file.parent for file in modules(script) if file != script}
    return sorted(place.relative_to(ROOT).as_posix() for place in places)


def kinds() -> list[str]:
    """The modules of `KINDS`, as dvc.yaml lists them: ``wsoup/search/grow/chains.py``."""
    return sorted(file.relative_to(ROOT).as_posix() for file in KINDS.glob("[a-z]*.py"))


def digest(room: str) -> str:
    """A digest of the names and bytes of the Python files in a room, which may be a single module."""
    sha = hashlib.sha256()
    for file in [ROOT / room] if room.endswith(".py") else sorted((ROOT / room).rglob("*.py")):
        if file.name != "__init__.py":
            sha.update(f"{file.relative_to(ROOT).as_posix()}\0".encode() + file.read_bytes() + b"\0")
    return sha.hexdigest()[:16]


def digests(script: Path) -> dict[str, str]:
    """A digest of the script and of each of its `rooms`."""
    own = hashlib.sha256(script.read_bytes()).hexdigest()[:16]
    return {f"{script.parent.name}/{script.name}": own, **{room: digest(room) for room in rooms(script)}}


def packages(script: Path) -> dict[str, str]:
    """Versions of the packages that may change a script's numbers, by distribution."""
    imported = {name for file in modules(script) for name in imports(file)[1]}
    return installed({d for name, distributions in DECIDING.items() if name in imported for d in distributions})


def installed(distributions: Set[str] = DISTRIBUTIONS) -> dict[str, str]:
    """Installed versions, sorted by distribution."""
    return {name: version(name) for name in sorted(distributions)}


def differing(ours: Mapping[str, str], theirs: Mapping[str, object]) -> list[str]:
    """A clause for each version that differs; builds of one version (2.9.1+cpu, 2.9.1+cu128) are equal.

    >>> differing({"numpy": "2.4.6", "torch": "2.9.1+cpu"}, {"numpy": "2.5.0", "torch": "2.9.1"})
    ['numpy 2.4.6 is installed, not 2.5.0']
    """
    public = {name: number.partition("+")[0] for name, number in ours.items()}
    return [
        f"{name} {number} is installed, not {str(theirs.get(name)).partition('+')[0]}"
        for name, number in public.items()
        if number != str(theirs.get(name)).partition("+")[0]
    ]


# -------------------------------------------------------------------------------------------------------------- shards


@dataclass(frozen=True)
class Owner:
    """The stage that resume state belongs to.

    Attributes:
        name: of the stage, with its item: ``score@words``.
        code: digests of its script and rooms.
        packages: versions of the packages that may change its numbers.
        used: shards that this run has asked for and that a finished run keeps.
    """

    name: str
    code: Mapping[str, str]
    packages: Mapping[str, str]
    used: set[Path] = field(default_factory=set, compare=False, repr=False)

    @classmethod
    def of(cls, script: Path, *, name: str) -> Owner:
        """The owner of a script's state."""
        return cls(name, digests(script), packages(script))

    @cached_property
    def version(self) -> str:
        """A digest of code and packages."""
        return fingerprint([dict(self.code), dict(self.packages)])

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
            return self.path.exists() and read_checked(self.path) is not None
        except MismatchError as error:
            print(f"{error}: computing it again", file=sys.stderr)
            self.path.unlink(missing_ok=True)
            return False

    def save(self, payload: bytes) -> None:
        """Save the result, which ends the state of the running shard."""
        write_checked(self.path, payload)
        self.path.with_suffix(".running").unlink(missing_ok=True)

    def load(self) -> bytes:
        """The result. MissingError or MismatchError if there is none that is intact."""
        return read_checked(self.path)
