"""Which code and package versions the results in a folder belong to; every stage compares them with what would run.

data/packages.yaml records the versions of the packages that decide numbers. dvc.yaml lists them among each stage's
params, so another version is a change like any other. DVC reads that file and not what is installed, so every stage,
`wsoup check` and `make setup` compare the two.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from wsoup.base.errors import MismatchError, MissingError
from wsoup.disk import code, store
from wsoup.params.section import read_yaml

VERSIONS = Path("data/packages.yaml")


def code_file(room: str) -> str:
    """Path of a room's digest in a pipeline folder.

    >>> code_file("wsoup/search/rank")
    'code/search/rank.json'
    """
    return f"code/{room.removeprefix('wsoup/')}.json"


def is_of_this_wsoup(folder: Path, *, rooms: Iterable[str]) -> bool:
    """Whether the digests in a pipeline folder, which DVC has hashed, are those of the installed rooms."""
    files = {room: folder / code_file(room) for room in rooms}
    return all(file.is_file() and store.read_json(file) == code.digest(room) for room, file in files.items())


def check_packages(installed: Mapping[str, str]) -> None:
    """Compare installed versions with those that this folder's results belong to, if there is a dvc.yaml to record any.

    Raises:
        MismatchError: other versions are installed; names all of them.
        MissingError: data/packages.yaml does not exist.
    """
    if not VERSIONS.is_file():
        if not Path("dvc.yaml").is_file():
            return
        raise MissingError(f"{VERSIONS} does not exist: `wsoup packages --accept` writes the installed versions there")
    differing = package_differences(installed)
    if differing:
        raise MismatchError(
            f"{'; '.join(differing)}, in {VERSIONS}, to which the results here belong: install those versions, or run "
            "`wsoup packages --accept` and `dvc repro`, which runs again what they decide"
        )


def package_differences(installed: Mapping[str, str]) -> list[str]:
    """One clause for each package that is installed in another version than data/packages.yaml records."""
    entries = [entry.split() for group in read_yaml(VERSIONS).values() for entry in str(group).split(",")]
    return code.differing(installed, {entry[0]: entry[-1] for entry in entries if entry})
