"""How params.yaml and dvc.yaml are read: YAML 1.2 of bounded size, as DVC reads it.

ruamel.yaml is DVC's own reader. PyYAML reads YAML 1.1, where ``k0: 010`` is 8, ``1e3`` a string and ``no`` a boolean:
a run would have other params than those DVC records.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import CollectionEndEvent, CollectionStartEvent
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode

from wsoup.base.errors import MissingError, ParamsError, one_line
from wsoup.disk.files import read_text

LARGEST_FILE = 200_000
"""Characters of params.yaml; the paper's has 10,000."""
MOST_VALUES = 50_000
"""Values in params.yaml with its aliases expanded: a few lines of them can stand for 10^9."""
DEEPEST = 100
"""Mappings and sequences in each other that are read in C: beyond some thousands it crashes the process."""


def read_yaml(path: str | Path) -> Mapping[str, Any]:
    """params.yaml as a mapping of bounded size with unique keys; nothing else is checked.

    Raises:
        MissingError: no such file.
        DataError: not a regular file.
        ParamsError: unreadable, not YAML, or too large.
    """
    try:
        # A character has at most 4 bytes.
        text = read_text(path, kind=ParamsError, largest=4 * LARGEST_FILE)
    except MissingError:
        raise MissingError(f"{path} does not exist; write one with `wsoup profile demo --out params.yaml`") from None
    return parse_yaml(text, origin=str(path))


def parse_yaml(text: str, *, origin: str) -> Mapping[str, Any]:
    """`read_yaml` of a string, for example of another revision; `origin` names it in errors."""
    if len(text) > LARGEST_FILE:
        raise ParamsError(
            f"{origin} has {len(text):,} characters, params have {LARGEST_FILE:,} at most; is it the right file?"
        )
    value: object = None
    try:
        node = _parsed(text)
        if node is not None:
            value = YAML(typ="safe", pure=True).constructor.construct_document(node)
    except (YAMLError, ValueError, RecursionError) as error:  # dates, numbers and depth that Python does not have
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" in line {mark.line + 1}"
        problem = getattr(error, "problem", error)
        raise ParamsError(one_line(f"{origin} is not YAML{where}: {problem}")) from None
    if not isinstance(value, Mapping):
        raise ParamsError(f"{origin} must hold sections (key: value), found {type(value).__name__}")
    return value


@lru_cache(maxsize=32)  # a command reads params.yaml, dvc.yaml and templates again and again
def _parsed(text: str) -> Node | None:
    """A YAML document before construction, checked: constructing a merged key multiplies it, too."""
    if re.search(r"(?m)^%", text):
        raise ValueError("it has a line that begins with %; params are YAML 1.2, as DVC reads them: take that line out")
    node = _composed(text)
    if node is not None and _count_values(node, counts={}) > MOST_VALUES:
        raise ValueError(f"with its aliases (*name) it stands for more than {MOST_VALUES:,} values; write them out")
    return node


def _composed(text: str) -> Node | None:
    """A YAML document as nodes, read in C, which takes a fifth of the time.

    What is deep or wrong is read in Python, which survives any depth and says more of an error.
    """
    with suppress(YAMLError):
        if not _is_deep(text):
            return YAML(typ="safe").compose(text)
    return YAML(typ="safe", pure=True).compose(text)


def _is_deep(text: str) -> bool:
    """Whether more than `DEEPEST` mappings and sequences lie in each other; what follows them is not read."""
    depth = 0
    for event in YAML(typ="safe").parse(text):
        depth += isinstance(event, CollectionStartEvent)
        depth -= isinstance(event, CollectionEndEvent)
        if depth > DEEPEST:
            return True
    return False


def _count_values(node: Node, *, counts: dict[int, int | None]) -> int:
    """Values in a node with its aliases expanded. `counts` holds those of nodes seen, None while one is being counted.

    Raises:
        ValueError: the node contains itself.
    """
    if isinstance(node, ScalarNode):
        return 1
    if id(node) not in counts:
        counts[id(node)] = None
        total = 1
        for child in _children(node):
            total += _count_values(child, counts=counts)
        counts[id(node)] = total
    count = counts[id(node)]
    if count is None:
        raise ValueError(f"the value in line {node.start_mark.line + 1} holds itself by an alias (*name)")
    return count


def _children(node: Node) -> list[Node]:
    """The items of a sequence, or the keys and values of a mapping."""
    if not isinstance(node, MappingNode):
        return list(node.value)
    children: list[Node] = []
    for pair in node.value:
        children += pair
    return children
