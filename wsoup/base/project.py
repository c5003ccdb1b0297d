"""wsoup's own files: profiles, the paper's tables, the toy world, stages and dvc.yaml.

They are at the top of a checkout, or inside an installed wsoup, where `setup.py` puts them. Either way they are found
here, whatever the working folder.
"""

from importlib.resources import files
from pathlib import Path

from wsoup.base.errors import MissingError

FILES = (
    "params.yaml",
    "dvc.yaml",
    ".dvcignore",
    "data/*.txt",
    "data/params.schema.json",
    "data/profiles/*.yaml",
    "data/paper/*",
    "data/published/*",
    "data/plots/*.json",
    "data/figures/*.json",
    "data/toy/.gitignore",
    "data/toy/*.txt",
    "data/toy/*.json",
    "data/toy/*.safetensors",
    "data/toy/*.yaml",
    "data/toy/*.py",
    "data/toy/*.lock",
    "stages/*.py",
)
"""Files of a checkout that an installed wsoup includes, as patterns relative to the top."""
INSIDE = "_project"
"""Their folder inside the package."""


def root() -> Path:
    """The checkout, or the folder of these files in the installed package.

    Raises:
        MissingError: neither exists.
    """
    package = Path(str(files("wsoup")))
    # Inside first: what lies beside an installed package is not wsoup's.
    for folder in (package / INSIDE, package.parent):
        if (folder / "dvc.yaml").is_file() and (folder / "data" / "profiles").is_dir():
            return folder
    raise MissingError(
        f"{package} lacks wsoup's own files ({INSIDE}/); install it again from its checkout or wheel: pip install "
        "--force-reinstall PATH"
    )


def file(name: str) -> Path:
    """One of these files or folders, by its path in a checkout."""
    return root() / name


def file_names() -> list[str]:
    """Paths of all `FILES`, relative to `root`, sorted."""
    top = root()
    paths = set()
    for pattern in FILES:
        for path in top.glob(pattern):
            if path.is_file():
                paths.add(path.relative_to(top).as_posix())
    return sorted(paths)
