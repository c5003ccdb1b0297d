"""Putting a profile in place: whole or not at all, with reports of its own and images out of git."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wsoup.core.disk.artifacts import Artifacts
from wsoup.core.disk.store import kept_aside, write_bytes
from wsoup.core.errors import ParamsError
from wsoup.core.params.section import parse_yaml
from wsoup.profiles import toy
from wsoup.runtime.git import git


def write(text: str, *, out: Path, force: bool = False) -> list[str]:
    """Write a profile to `out`; what was done beside it, one line each.

    With `force` alone it replaces another file, which is kept beside it; but the toy world's own, as clones have it.

    Images below the folder of `out` that git would offer to add are named in its .gitignore: DVC reads them where they
    lie. `dvc metrics diff` compares with the last commit. Where that holds the reports of the toy world, as in a fresh
    clone, they are removed, so that the first commit of the user's own makes the comparison theirs. Reports that git
    does not hold as they stand are left alone.
    """
    stood = out.read_bytes() if out.is_file() else b""
    fresh = stood == toy.demo().encode()
    kept = "" if fresh or stood == text.encode() else kept_aside(out, force=force)
    write_bytes(out, text.encode())
    folder, world, said = out.resolve().parent, _world(text), [kept] if kept else []
    if ignored := _ignore(world.get("roots", {}), folder=folder):
        said.append(f".gitignore names {', '.join(ignored)}: images stay out of git")
    reports = folder / Artifacts().reports
    if fresh and world != _world(toy.demo()) and reports.is_dir() and _committed(reports):
        shutil.rmtree(reports)
        said.append(
            f"removed {Artifacts().reports}/, the last commit's, which are of other datasets: commit now "
            '(`git commit -am "My images"`), and `dvc metrics diff` compares your runs'
        )
    return said


def _world(text: str) -> dict[str, Any]:
    """Where the images of a params.yaml come from; empty where it does not say."""
    try:
        params = parse_yaml(text, origin="params.yaml")
        roots = {name: section["root"] for name, section in params["datasets"].items()}
        return {"source": params["source"], "roots": roots}
    except (ParamsError, KeyError, TypeError, AttributeError):
        return {}


def _ignore(roots: Mapping[str, str], *, folder: Path) -> list[str]:
    """Add folders of images below `folder` to its .gitignore, where git neither holds nor ignores them."""
    places = [Path(root).resolve() for root in roots.values() if Path(root).is_dir()]
    below = [place.relative_to(folder).as_posix() for place in places if folder in place.parents]
    lines = [f"/{place}/" for place in below if _offered(place, folder=folder)]
    if lines:
        file = folder / ".gitignore"
        known = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        write_bytes(file, "".join(f"{line}\n" for line in (*known, *lines)).encode())
    return lines


def _offered(place: str, *, folder: Path) -> bool:
    """Whether `git add` would take a folder of which git holds nothing yet."""
    unknown = git("ls-files", "--others", "--exclude-standard", "--directory", "--", place, folder=folder)
    return bool(unknown) and not git("ls-files", "--", place, folder=folder)


def _committed(folder: Path) -> bool:
    """Whether git holds all that is in a folder, as it stands."""
    changed = git("status", "--porcelain", "--ignored", "--", ".", folder=folder)
    return changed == "" and bool(git("ls-files", "--", ".", folder=folder))
