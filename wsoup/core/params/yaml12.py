"""YAML 1.2 as DVC reads it: ``010`` is 10, ``1e3`` a number, and yes, no, on, off and ``1:30`` are texts.

PyYAML reads YAML 1.1, where ``k0: 010`` is 8: a run would have other params than those that DVC records.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

BOOL = re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$")
INT = re.compile(r"^[-+]?(?:0b[01_]+|0o?[0-7_]+|[0-9_]+|0x[0-9a-fA-F_]+)$")
FLOAT = re.compile(
    r"^(?:[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+"
    r"|[-+]?\.[0-9_]+(?:[eE][-+][0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)
OTHER = ("bool", "int", "float")
"""Kinds of scalars that the two versions tell by other rules."""


class Loader(yaml.SafeLoader):
    """A document by these rules; one that says it is of another version is refused."""

    def get_single_node(self) -> yaml.Node | None:
        """The document's node, of which nothing is made yet."""
        node: yaml.Node | None = super().get_single_node()
        if getattr(self, "yaml_version", None) not in (None, (1, 2)):
            raise ValueError("it says %YAML 1.1; params are YAML 1.2, as DVC reads them: take that line out")
        return node

    def whole(self, node: yaml.ScalarNode) -> int:
        """A number by its prefix; zeros before a decimal one say nothing."""
        text = self.construct_scalar(node).replace("_", "")
        return int(text, 0) if text.lstrip("+-")[1:2] in ("b", "o", "x") else int(text)


class Dumper(yaml.SafeDumper):
    """Writes texts in quotes wherever either version would read something else."""


Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in rules if tag.rpartition(":")[2] not in OTHER]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for kind, pattern, first in (("bool", BOOL, "tTfF"), ("int", INT, "-+0123456789"), ("float", FLOAT, "-+0123456789.")):
    for rules in (Loader, Dumper):
        rules.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", pattern, list(first))
Loader.add_constructor("tag:yaml.org,2002:int", Loader.whole)


def dump(value: Any, **how: Any) -> str:
    """`yaml.safe_dump` by `Dumper`."""
    return str(yaml.dump(value, Dumper=Dumper, **how))
