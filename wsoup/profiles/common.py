"""What the profiles share: their folder, and params.yaml as text with its comments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from wsoup.disk import project

DATA = project.file("data")
FOLDER = DATA / "profiles"
NOTHING_TO_WATCH = "data/nothing_to_watch.txt"
OWN_DESCRIPTORS = "data/toy/descriptors.txt"
"""A few hundred descriptors of everyday things, for those who bring none."""


def template(name: str) -> str:
    """A profile's text, with ``@PART@`` where `filled` puts something."""
    return (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")


def filled(text: str, **parts: str) -> str:
    """The text with every ``@PART@`` replaced."""
    for name, part in parts.items():
        text = text.replace(f"@{name}@", part)
    return text


def block(sections: Mapping[str, Mapping[str, Any]]) -> str:
    """Sections by name two spaces in, one key a line."""
    lines = []
    for name, section in sections.items():
        lines += [f"  {one_line(name)}:", *(f"    {key}: {one_line(value)}" for key, value in section.items())]
    return "\n".join(lines) + "\n"


def lines(sections: Mapping[str, Mapping[str, Any]], *, indent: int) -> str:
    """Sections by name, one a line."""
    return "".join(f"{'':{indent}}{one_line(name)}: {one_line(section)}\n" for name, section in sections.items())


def descriptors(paths: Sequence[str], *, watch: str) -> str:
    """The lines of section candidates that name the pool of descriptors."""
    section = one_line({"paths": list(paths), "period": True})
    return (
        f"  descriptors: {section}  # text files, or GPT JSON {{class: [...]}}\n"
        f"  watch: {one_line(watch)}  # what DVC watches\n"
    )


def one_line(value: Any) -> str:
    """A value in YAML on one line, keys in their order."""
    text = yaml.safe_dump(value, default_flow_style=True, width=float("inf"), sort_keys=False)
    return text.removesuffix("...\n").strip()
