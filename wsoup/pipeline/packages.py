"""data/packages.yaml: the versions of the packages that decide numbers (`wsoup packages`).

dvc.yaml lists them among each stage's params, so another version is a change like any other. DVC reads that file and
not what is installed, so every stage, `wsoup check` and `make setup` compare the two.
"""

from collections.abc import Mapping
from pathlib import Path

from wsoup.base.errors import MismatchError, MissingError
from wsoup.disk import code
from wsoup.params.reading import read_yaml

VERSIONS = Path("data/packages.yaml")
VERSIONS_HEAD = (
    "# The packages that decide numbers, in the versions that the results here belong to (`wsoup packages`).\n"
)
GROUPS = {
    "numpy": ("numpy",),
    "models": ("numpy", "open_clip_torch", "pillow", "torch", "torchvision"),
    "words": ("wordfreq",),
}
"""Packages by the name that dvc.yaml has for them together. A group is one line in dvc.lock."""


def versions_yaml(installed: Mapping[str, str]) -> str:
    """Text of data/packages.yaml, without a version's build (2.9.1+cpu is 2.9.1)."""
    import yaml  # not to be waited for where versions are only compared

    grouped = {}
    for group, names in GROUPS.items():
        public = [f"{name} {installed[name].partition('+')[0]}" for name in names]
        grouped[group] = ", ".join(public)
    return VERSIONS_HEAD + yaml.safe_dump(grouped, sort_keys=False, width=120)


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
    # A group is one text, because DVC writes a line to dvc.lock for each value of each stage.
    recorded = {}
    for group in read_yaml(VERSIONS).values():
        for entry in str(group).split(","):
            words = entry.split()
            if words:
                recorded[words[0]] = words[-1]
    differing = code.differing(installed, recorded)
    if differing:
        raise MismatchError(
            f"{'; '.join(differing)}, in {VERSIONS}, to which the results here belong: install those versions, or run "
            "`wsoup packages --accept` and `dvc repro`, which runs again what they decide"
        )
