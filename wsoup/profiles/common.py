"""What the profiles share: params.yaml as text, whose values are put in place while its comments stay."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from wsoup.core.disk import project
from wsoup.core.params.yaml12 import dump

DATA = project.file("data")
FOLDER = DATA / "profiles"
NOTHING_TO_WATCH = "data/nothing_to_watch.txt"
SCHEMA = "# yaml-language-server: $schema=data/params.schema.json\n"
"""The first line of every params.yaml, for editors."""


def template(name: str) -> str:
    """A profile's text: a params.yaml whose values `filled` replaces."""
    return (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")


def filled(text: str, values: Mapping[str, str | None], *, head: str | None = None) -> str:
    """A params.yaml with other values, comments kept.

    Args:
        text: the params.yaml.
        values: dotted key -> its value: YAML on one line, or whole lines as `block` and `lines` make them; None takes
            the key out.
        head: comment lines that take the place of the first ones.
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
        return text[: _line(text, key)] + text[after + 1 :]
    if value.endswith("\n"):
        return text[: _line(text, node)] + value + text[after + 1 :]
    comment = text[end:after].lstrip()
    width = after - node.start_mark.index - len(comment)  # comments stay in their column while there is room
    return text[: node.start_mark.index] + (f"{value:{width - 2}}  {comment}" if comment else value) + text[after:]


def end_of(node: Any) -> int:
    """Where the last value of a node ends."""
    while isinstance(node, yaml.MappingNode) and not node.flow_style:
        node = node.value[-1][1]
    return int(node.end_mark.index)


def _line(text: str, node: yaml.Node) -> int:
    """Where the line begins on which a node stands."""
    return text.rindex("\n", 0, node.start_mark.index) + 1


def block(sections: Mapping[str, Mapping[str, Any]]) -> str:
    """Sections by name two spaces in, one key a line."""
    return "".join(f"  {one_line(name)}:\n{lines(section, indent=4)}" for name, section in sections.items())


def lines(values: Mapping[str, Any], *, indent: int) -> str:
    """Values by name, one a line."""
    return "".join(f"{'':{indent}}{one_line(name)}: {one_line(value)}\n" for name, value in values.items())


def descriptors(*paths: str, watch: str) -> dict[str, str]:
    """What `filled` puts into section candidates for a pool of descriptors."""
    pool = {"paths": list(paths), "period": True}
    return {"candidates.descriptors": one_line(pool), "candidates.watch": one_line(watch)}


def one_line(value: Any) -> str:
    """A value in YAML on one line, keys in their order."""
    text = dump(value, default_flow_style=True, width=float("inf"), sort_keys=False)
    return text.removesuffix("...\n").strip()
