"""A profile is written to a file, and image folders beside it are kept out of git."""

from pathlib import Path

from wsoup.disk.store import write_bytes
from wsoup.params.reading import parse_yaml
from wsoup.pipeline.profiles.templates import template
from wsoup.runtime.git import git


def unchanged(out: Path, *, text: str) -> bool:
    """Whether a file has nothing of the user's: it is this profile, or the params.yaml of a fresh clone."""
    return out.is_file() and out.read_bytes() in (template("demo").encode(), text.encode())


def write(text: str, *, out: Path) -> list[str]:
    """Write a profile to `out` atomically; returns one line on each thing done besides.

    Folders of images inside the project that git would offer to add go into .gitignore: DVC reads them in place.
    """
    write_bytes(out, text.encode())
    ignored = _ignore(text, folder=out.resolve().parent)
    if not ignored:
        return []
    return [f".gitignore names {', '.join(ignored)}: images stay out of git"]


def _ignore(text: str, *, folder: Path) -> list[str]:
    """Add image folders below `folder` to its .gitignore if `git add` would take any of their files."""
    datasets = parse_yaml(text, origin="params.yaml")["datasets"]
    new = []
    for dataset in datasets.values():
        root = Path(dataset.get("root", dataset["watch"])).resolve()
        if folder not in root.parents:
            continue
        inside = root.relative_to(folder).as_posix()
        # Git's own list, so that a folder whose files are ignored or tracked already gets no line.
        if git("ls-files", "--others", "--exclude-standard", "--directory", "--", inside, folder=folder):
            new.append(f"/{inside}/")
    if new:
        file = folder / ".gitignore"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        lines += new
        content = "".join(f"{line}\n" for line in lines)
        write_bytes(file, content.encode())
    return new
