"""The project's own files: profiles, the paper's tables, the toy world, stages and dvc.yaml.

In a checkout they lie at its top. An installed wsoup carries them inside, where `setup.py` puts them: they are written
once. Either way they are read through here, whatever folder the user is in.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from wsoup.core.errors import MissingError

FILES = (
    "params.yaml",
    "dvc.yaml",
    ".dvcignore",
    "data/*.txt",
    "data/params.schema.json",
    "data/profiles/*.yaml",
    "data/paper/*",
    "data/toy/.gitignore",
    "data/toy/*.txt",
    "data/toy/*.json",
    "data/toy/*.yaml",
    "data/toy/*.py",
    "data/toy/*.lock",
    "stages/*.py",
)
"""What an installed wsoup carries of its checkout, as patterns relative to the top."""
INSIDE = "_project"
"""Folder within the package."""


def root() -> Path:
    """The folder that holds the project's files: the checkout, or their place in the installed package.

    Raises:
        MissingError: neither is there.
    """
    package = Path(str(files("wsoup")))
    for folder in (package / INSIDE, package.parent):
        if (folder / "dvc.yaml").is_file() and (folder / "data" / "profiles").is_dir():
            return folder
    raise MissingError(
        f"{package} lacks wsoup's own files ({INSIDE}/); install it again: pip install --force-reinstall wsoup"
    )


def file(name: str) -> Path:
    """One of the project's files or folders, by its path in the checkout."""
    return root() / name


def listed() -> list[str]:
    """Paths of all of `FILES`, relative to `root`, sorted."""
    top = root()
    paths = {path.relative_to(top).as_posix() for pattern in FILES for path in top.glob(pattern) if path.is_file()}
    return sorted(paths)
