"""params.yaml as text: templates, values filled in with comments kept, finetuned methods, and writing it to a file.

Lists and sections are in block style, without quotes, null or long lines, because DVC's writer writes them so: `dvc exp
run -S` then changes the lines of the values set and no other. After a list comes a key at once: what follows it, a
comment or an empty line, DVC would lose with the old list.

Methods are at the paper's settings or at the toy world's scales: data/paper/methods.yaml is the one list of them, and
data/toy/scales.yaml holds everything that the toy world changes.
"""

import io
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import yaml
from ruamel.yaml import YAML

from wsoup.base import project
from wsoup.base.errors import ParamsError
from wsoup.base.outputs import claim
from wsoup.disk.store import write_bytes
from wsoup.params.section import parse_yaml
from wsoup.runtime.process import git

DATA = project.file("data")
FOLDER = DATA / "profiles"
NOTHING_TO_WATCH = "data/nothing_to_watch.txt"
SCHEMA = "# yaml-language-server: $schema={}params.schema.json\n"
"""The first line of every params.yaml, for editors, which look beside the file."""
HEAD = """\
# The toy world with more finetuned methods (`wsoup profile demo --methods {group}`): those of
# data/paper/methods.yaml at the scales of data/toy/scales.yaml. All of them take about an hour on two cores.
"""
ITERATIONS = 150
PAPER_ITERATIONS = 750
GROUPS = ("core", "few-shot", "diversity", "parameter-efficiency", "all")
"""Values of `--methods`: the four methods that most people want, a table of the paper, or everything."""


def template(name: str) -> str:
    """A params.yaml of data/profiles; ``demo`` is the toy world's and is used as it is, others go through `filled`."""
    text = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    return text.replace(SCHEMA.format("../"), SCHEMA.format("data/"), 1)


def filled(text: str, values: Mapping[str, Any], *, head: str | None = None) -> str:
    """Set values in one of wsoup's own params.yaml; comments and other sections stay as they are.

    Args:
        text: the params.yaml.
        values: dotted key -> new value; None removes the key.
        head: comment lines that replace the first ones.
    """
    for path, value in values.items():
        section, *keys = path.split(".")
        start, stop = _section(text, section)
        yaml, out = YAML(), io.StringIO()
        yaml.preserve_quotes = True  # and lines are broken where DVC breaks them
        node = document = yaml.load(text[start:stop])
        *outer, key = section, *keys
        for name in outer:
            node = node[name]
        if value is None:
            del node[key]
        else:
            node[key] = value
        yaml.dump(document, out)
        text = text[:start] + out.getvalue() + text[stop:]
    return text if head is None else re.sub(r"\A(#.*\n)+", lambda _: SCHEMA.format("data/") + head, text)


def _section(text: str, name: str) -> tuple[int, int]:
    """Where a section begins and ends, without the empty lines and comments before the next one."""
    start = text.index(f"\n{name}:") + 1
    after = re.compile(r"(?m)^[^\s#-]").search(text, start + 1)
    section = text[start : after.start() if after else len(text)]
    return start, start + len(re.sub(r"(?m)(^[ \t]*(#.*)?\n)*\Z", "", section))


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


def demo(group: str | None = None) -> str:
    """The toy world's params.yaml; with one of `GROUPS`, those finetuned methods, trained for longer."""
    if group is None:
        return template("demo")
    values = {"finetune.iterations": ITERATIONS, "finetune.methods": of_toy(group)}
    return filled(template("demo"), values, head=HEAD.format(group=group))


def of_paper(group: str, *, soups: Collection[str] | None = None) -> dict[str, dict[str, Any]]:
    """Section finetune.methods of one of `GROUPS`, at the paper's settings.

    Args:
        group: one of `GROUPS`.
        soups: leave out methods that need any other soup; None keeps all.

    Raises:
        ParamsError: no such group.
    """
    if group not in GROUPS:
        raise ParamsError(f"--methods {group!r} must be one of {', '.join(GROUPS)}")
    chosen = {}
    for name, method in _read("paper/methods.yaml").items():
        groups, soup = method.pop("group"), method["soup"]
        if group in ("all", *groups) and (soups is None or soup in ("class_name", *soups)):
            chosen[name] = method
        if group not in ("diversity", "all"):  # the figure of accuracy during training is theirs
            method.pop("snapshots", None)
    return chosen


def of_toy(group: str) -> dict[str, dict[str, Any]]:
    """The same at the scales of data/toy/scales.yaml, without methods that need a soup that the toy world lacks."""
    scales = _read("toy/scales.yaml")
    chosen = {
        name: _scaled(method, scales)
        for name, method in of_paper(group, soups=("descriptor", "word")).items()
        if name not in scales["left_out"]
    }
    for name, snapshots in scales["snapshots"].items():
        if name in chosen:
            chosen[name]["snapshots"] = snapshots
    return chosen


def _scaled(method: dict[str, Any], scales: dict[str, Any]) -> dict[str, Any]:
    tune, loss = dict(method["tune"]), dict(method["loss"])
    for key in tune.keys() & {"blocks", "depth"}:
        tune[key] = min(tune[key], scales["most_blocks"])
    if "teacher_logit_scale" in loss:
        loss["teacher_logit_scale"] = scales["teacher_logit_scale"]
    scaled = {**method, "tune": tune, "loss": loss}
    if "iterations" in scaled:
        scaled["iterations"] = scaled["iterations"] * scales["iterations"] // PAPER_ITERATIONS
    rates = scales["rates"].get(loss["kind"]) or scales["rates"].get(tune["kind"])
    return scaled | (dict(zip(("learning_rate", "prompt_factor"), rates, strict=True)) if rates else {})


def _read(path: str) -> Any:
    return yaml.safe_load((DATA / path).read_text(encoding="utf-8"))
