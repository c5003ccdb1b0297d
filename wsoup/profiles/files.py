"""params.yaml as text: templates, values filled in with comments kept, and writing a profile to a file.

Lists and sections are in block style, without quotes, null or long lines, because DVC's writer writes them so: `dvc exp
run -S` then changes the lines of the values set and no other. After a list comes a key at once: what follows it, a
comment or an empty line, DVC would lose with the old list.
"""

import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from wsoup.base import project
from wsoup.base.errors import ParamsError, one_line
from wsoup.base.outputs import claim
from wsoup.disk.store import write_bytes
from wsoup.params.section import parse_yaml
from wsoup.runtime.process import git

DATA = project.file("data")
FOLDER = DATA / "profiles"
NOTHING_TO_WATCH = "data/nothing_to_watch.txt"
SCHEMA = "# yaml-language-server: $schema={}params.schema.json\n"
"""The first line of every params.yaml, for editors, which look beside the file."""


def template(name: str) -> str:
    """A params.yaml of data/profiles; ``demo`` is the toy world's and is used as it is, others go through `filled`."""
    text = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    return text.replace(SCHEMA.format("../"), SCHEMA.format("data/"), 1)


def filled(text: str, values: Mapping[str, Any], *, head: str | None = None) -> str:
    """Set values in a params.yaml; comments and other sections stay as they are.

    Args:
        text: the params.yaml.
        values: dotted key -> new value; None removes the key.
        head: comment lines that replace the first ones.

    Raises:
        ParamsError: a section that cannot be read by itself, for example for an alias to another one.
    """
    for path, value in values.items():
        text = _with(text, path.split("."), value)
    return text if head is None else re.sub(r"\A(#.*\n)+", lambda _: SCHEMA.format("data/") + head, text)


def _with(text: str, keys: list[str], value: Any) -> str:
    """The text with one value set; only its section is read and written."""
    start, stop = _section(text, keys[0])
    yaml, out = YAML(), io.StringIO()
    yaml.width, yaml.preserve_quotes = 10_000, True
    try:
        node = document = yaml.load(text[start:stop])
        for key in keys[:-1]:
            node = node[key]
        if value is None:
            del node[keys[-1]]
        else:
            node[keys[-1]] = value
        yaml.dump(document, out)
    except YAMLError as error:
        raise ParamsError(f"section {keys[0]} of params.yaml: {one_line(error, limit=200)}; edit it by hand") from None
    return text[:start] + out.getvalue() + text[stop:]


def _section(text: str, name: str) -> tuple[int, int]:
    """Where a section begins and ends, without the empty lines and comments before the next one."""
    begin = re.search(rf"(?m)^{name}:", text)
    if begin is None:
        raise ParamsError(f"params.yaml has no section {name!r} at the beginning of a line; edit it by hand")
    after = re.compile(r"(?m)^[^\s#-]").search(text, begin.end())
    section = text[begin.start() : after.start() if after else len(text)]
    return begin.start(), begin.start() + len(re.sub(r"(?m)(^[ \t]*(#.*)?\n)*\Z", "", section))


def descriptor_pool(path: str, *, watch: str) -> dict[str, Any]:
    """Values for `filled`: a pool of descriptors, and what DVC watches for it."""
    return {"candidates.descriptors.paths": [path], "candidates.watch": watch}


def write(text: str, *, out: Path, force: bool = False) -> list[str]:
    """Write a profile to `out` atomically; returns one line on each thing done besides.

    An existing file is replaced only with `force`; the unchanged params.yaml of a fresh clone without asking. Folders
    of images inside the project that git would offer to add go into .gitignore: DVC reads them in place.
    """
    existing = out.read_bytes() if out.is_file() else b""
    known = existing in (template("demo").encode(), text.encode())
    if not known:
        claim([("--out", out)], force=force)
    write_bytes(out, text.encode())
    ignored = _ignore(text, folder=out.resolve().parent)
    return [f".gitignore names {', '.join(ignored)}: images stay out of git"] if ignored else []


def _ignore(text: str, *, folder: Path) -> list[str]:
    """Add image folders below `folder` to its .gitignore unless git already tracks or ignores them."""
    datasets = parse_yaml(text, origin="params.yaml")["datasets"].values()
    roots = [Path(dataset.get("root", dataset["watch"])) for dataset in datasets]
    below = [place.relative_to(folder) for place in map(Path.resolve, roots) if folder in place.parents]
    new = [f"/{place.as_posix()}/" for place in below if _untracked(str(place), folder=folder)]
    if new:
        file = folder / ".gitignore"
        existing = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        write_bytes(file, "".join(f"{line}\n" for line in (*existing, *new)).encode())
    return new


def _untracked(place: str, *, folder: Path) -> bool:
    """Whether `git add` would take a folder of which git tracks nothing yet."""
    others = git("ls-files", "--others", "--exclude-standard", "--directory", "--", place, folder=folder)
    return bool(others) and not git("ls-files", "--", place, folder=folder)
