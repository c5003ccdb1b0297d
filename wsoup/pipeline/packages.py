"""Which versions of the packages that decide numbers the results of a folder belong to: data/packages.yaml.

dvc.yaml lists them among each stage's params, so another version is a change like any other. DVC reads the file, not
what is installed: every stage, `wsoup check` and `make setup` hold the one against the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

from wsoup.core.disk import code
from wsoup.core.disk.store import write_bytes
from wsoup.core.errors import MismatchError, MissingError
from wsoup.core.params.section import read_yaml

VERSIONS = Path("data/packages.yaml")
GROUPS = {
    "numpy": ("numpy",),
    "models": ("numpy", "open_clip_torch", "pillow", "torch", "torchvision"),
    "words": ("wordfreq",),
}
"""Packages that come together, as dvc.yaml names them. A group is one line in dvc.lock."""
HEAD = "# The packages that decide numbers, in the versions that the results here belong to (`wsoup packages`).\n"


def check(installed: Mapping[str, str]) -> None:
    """Hold installed versions against those that this folder's results belong to.

    Where there is no dvc.yaml nothing is recorded, and nothing is held against anything.

    Raises:
        MismatchError: another version is installed; all are named.
        MissingError: the file is not there.
    """
    if not VERSIONS.is_file():
        if not Path("dvc.yaml").is_file():
            return
        raise MissingError(f"{VERSIONS} does not exist: `wsoup packages --accept` writes the installed versions there")
    differing = differences(installed)
    if differing:
        raise MismatchError(
            f"{'; '.join(differing)}, in {VERSIONS}, to which the results here belong: install those versions, or run "
            "`wsoup packages --accept` and `dvc repro`, which runs again what they decide"
        )


def differences(installed: Mapping[str, str]) -> list[str]:
    """One clause for each package that is installed in another version than the file says."""
    entries = [entry.split() for group in read_yaml(VERSIONS).values() for entry in str(group).split(",")]
    return code.differing(installed, {entry[0]: entry[-1] for entry in entries if entry})


def accept() -> None:
    """Write the installed versions: from now on they are those that results here belong to."""
    write_bytes(VERSIONS, as_yaml(code.installed()).encode())


def as_yaml(installed: Mapping[str, str]) -> str:
    """The file's text, without the build of a version (2.9.1+cpu is 2.9.1)."""
    public = {name: number.partition("+")[0] for name, number in installed.items()}
    grouped = {group: ", ".join(f"{name} {public[name]}" for name in names) for group, names in GROUPS.items()}
    return HEAD + yaml.safe_dump(grouped, sort_keys=False, width=120)
