"""params.yaml as text: templates, values filled in with comments kept, and writing a profile to a file."""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from wsoup.base import project
from wsoup.base.errors import ParamsError
from wsoup.disk.artifacts import Artifacts
from wsoup.disk.store import kept_aside, write_bytes
from wsoup.params.section import dump, parse_yaml
from wsoup.runtime.git import git

DATA = project.file("data")
FOLDER = DATA / "profiles"
NOTHING_TO_WATCH = "data/nothing_to_watch.txt"
SCHEMA = "# yaml-language-server: $schema=data/params.schema.json\n"
"""The first line of every params.yaml, for editors."""


def template(name: str) -> str:
    """A params.yaml of data/profiles; ``demo`` is the toy world's and is used as it is, others go through `filled`."""
    return (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")


def filled(text: str, values: Mapping[str, str | None], *, head: str | None = None) -> str:
    """Replace values in a params.yaml and keep its comments.

    Args:
        text: the params.yaml.
        values: dotted key -> new value: YAML on one line, or whole lines from `block` and `lines`; None removes the
            key.
        head: comment lines that replace the first ones.
    """
    for path, value in values.items():
        text = _replaced(text, path, value)
    return text if head is None else re.sub(r"\A(#.*\n)+", lambda _: SCHEMA + head, text)


def _replaced(text: str, path: str, value: str | None) -> str:
    node: Any = yaml.compose(text)
    for name in path.split("."):
        key, node = next((key, inner) for key, inner in node.value if key.value == name)
    end = end_of(node)
    after = text.index("\n", end)
    if value is None:
        return text[: _line_start(text, key)] + text[after + 1 :]
    if value.endswith("\n"):
        return text[: _line_start(text, node)] + value + text[after + 1 :]
    comment = text[end:after].lstrip()
    width = after - node.start_mark.index - len(comment)  # comments stay in their column while there is room
    return text[: node.start_mark.index] + (f"{value:{width - 2}}  {comment}" if comment else value) + text[after:]


def end_of(node: Any) -> int:
    """Index of the end of a node's last value."""
    while isinstance(node, yaml.MappingNode) and not node.flow_style:
        node = node.value[-1][1]
    return int(node.end_mark.index)


def _line_start(text: str, node: yaml.Node) -> int:
    return text.rindex("\n", 0, node.start_mark.index) + 1


def block(sections: Mapping[str, Mapping[str, Any]]) -> str:
    """Sections by name, indented by two spaces, one key per line."""
    return "".join(f"  {one_line(name)}:\n{lines(section, indent=4)}" for name, section in sections.items())


def lines(values: Mapping[str, Any], *, indent: int) -> str:
    """Values by name, one per line."""
    return "".join(f"{'':{indent}}{one_line(name)}: {one_line(value)}\n" for name, value in values.items())


def one_line(value: Any) -> str:
    """A value as YAML on one line, keys in their order."""
    text = dump(value, default_flow_style=True, width=float("inf"), sort_keys=False)
    return text.removesuffix("...\n").strip()


def descriptor_pool(path: str, *, watch: str) -> dict[str, str]:
    """Values for `filled`: a pool of descriptors, and what DVC watches for it."""
    pool = {"paths": [path], "period": True}
    return {"candidates.descriptors": one_line(pool), "candidates.watch": one_line(watch)}


def write(text: str, *, out: Path, force: bool = False) -> list[str]:
    """Write a profile to `out` atomically; returns one line on each thing done besides.

    An existing file is replaced only with `force`, and a copy is kept beside it; the unchanged params.yaml of a fresh
    clone is replaced without asking.

    Folders of images inside the project that git would offer to add go into .gitignore: DVC reads them in place. `dvc
    metrics diff` compares with the last commit: in a fresh clone that is the toy world's, so its reports are removed
    and the comparison starts with the user's first commit. Uncommitted or changed reports are left alone.
    """
    existing = out.read_bytes() if out.is_file() else b""
    demo = template("demo")
    fresh = existing == demo.encode()
    kept = "" if fresh or existing == text.encode() else kept_aside(out, force=force)
    write_bytes(out, text.encode())
    folder, images, done = out.resolve().parent, _images(text), [kept] if kept else []
    if ignored := _ignore(images.get("roots", {}), folder=folder):
        done.append(f".gitignore names {', '.join(ignored)}: images stay out of git")
    reports = folder / Artifacts().reports
    if fresh and images != _images(demo) and reports.is_dir() and _committed(reports):
        shutil.rmtree(reports)
        done.append(
            f"removed {Artifacts().reports}/, the last commit's, which are of other datasets: commit now "
            '(`git commit -am "My images"`), and `dvc metrics diff` compares your runs'
        )
    return done


def _images(text: str) -> dict[str, Any]:
    """The source and the root of every dataset of a params.yaml; empty if it does not name them."""
    try:
        params = parse_yaml(text, origin="params.yaml")
        roots = {name: section["root"] for name, section in params["datasets"].items()}
        return {"source": params["source"], "roots": roots}
    except (ParamsError, KeyError, TypeError, AttributeError):
        return {}


def _ignore(roots: Mapping[str, str], *, folder: Path) -> list[str]:
    """Add image folders below `folder` to its .gitignore unless git already tracks or ignores them."""
    places = [Path(root).resolve() for root in roots.values() if Path(root).is_dir()]
    below = [place.relative_to(folder).as_posix() for place in places if folder in place.parents]
    new = [f"/{place}/" for place in below if _untracked(place, folder=folder)]
    if new:
        file = folder / ".gitignore"
        existing = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        write_bytes(file, "".join(f"{line}\n" for line in (*existing, *new)).encode())
    return new


def _untracked(place: str, *, folder: Path) -> bool:
    """Whether `git add` would take a folder of which git tracks nothing yet."""
    others = git("ls-files", "--others", "--exclude-standard", "--directory", "--", place, folder=folder)
    return bool(others) and not git("ls-files", "--", place, folder=folder)


def _committed(folder: Path) -> bool:
    """Whether everything in a folder is committed and unchanged."""
    changed = git("status", "--porcelain", "--ignored", "--", ".", folder=folder)
    return changed == "" and bool(git("ls-files", "--", ".", folder=folder))
