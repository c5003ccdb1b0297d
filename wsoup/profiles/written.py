"""Putting a profile in place: whole or not at all, with reports of its own and images out of git."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from wsoup.disk.artifacts import Artifacts
from wsoup.disk.store import replacing


def write(text: str, *, out: Path) -> list[str]:
    """Write a profile to `out`; what was done beside it, one line each.

    Images below the folder of `out` that git would offer to add are named in its .gitignore: DVC reads them where they
    lie. `dvc metrics diff` compares with the last commit. Where that holds the reports of another world (a fresh clone
    has those of the toy world), they are removed, so that the first commit of the user's own makes the comparison
    theirs. Reports that git does not hold as they stand are left alone.
    """
    other = _world(out.read_text(encoding="utf-8")) if out.is_file() else None
    with replacing(out) as temporary:
        temporary.write_text(text, encoding="utf-8")
    folder, world, said = out.resolve().parent, _world(text), []
    if world is not None and (ignored := _ignore(list(world[1].values()), folder=folder)):
        said.append(f".gitignore names {', '.join(ignored)}: images stay out of git")
    reports = folder / Artifacts().reports
    if other is not None and other != world and reports.is_dir() and _committed(reports):
        shutil.rmtree(reports)
        said.append(
            f"removed {Artifacts().reports}/, the last commit's, which are of other datasets: commit now "
            '(`git commit -am "My images"`), and `dvc metrics diff` compares your runs'
        )
    return said


def _ignore(roots: Sequence[str], *, folder: Path) -> list[str]:
    """Add folders of images below `folder` to its .gitignore, where git neither holds nor ignores them."""
    lines = []
    for root in roots:
        path = Path(root)
        if not path.is_dir() or folder not in path.resolve().parents:
            continue
        place = path.resolve().relative_to(folder).as_posix()
        unknown = _git("ls-files", "--others", "--exclude-standard", "--directory", "--", place, folder=folder)
        if unknown and not _git("ls-files", "--", place, folder=folder):
            lines.append(f"/{place}/")
    if lines:
        file = folder / ".gitignore"
        before = file.read_text(encoding="utf-8") if file.exists() else ""
        end = "" if before.endswith("\n") or not before else "\n"
        with replacing(file) as temporary:
            temporary.write_text(before + end + "".join(f"{line}\n" for line in lines), encoding="utf-8")
    return lines


def _world(text: str) -> Any:
    """Where the images of a params.yaml come from; None where it does not say."""
    try:
        params = yaml.safe_load(text)
        return [params["source"], {name: section["root"] for name, section in params["datasets"].items()}]
    except (yaml.YAMLError, KeyError, TypeError, AttributeError):
        return None


def _committed(folder: Path) -> bool:
    """Whether git holds all that is in a folder, as it stands."""
    changed = _git("status", "--porcelain", "--ignored", "--", ".", folder=folder)
    return changed == "" and bool(_git("ls-files", "--", ".", folder=folder))


def _git(*arguments: str, folder: Path) -> str | None:
    """What a git command prints; None where there is no repository, or no git."""
    try:
        ran = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return ran.stdout.strip()
