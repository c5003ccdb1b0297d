"""params.yaml as text: templates, and values filled in with comments kept.

Lists and sections are in block style, without quotes, null or long lines, because DVC's writer writes them so: `dvc exp
run -S` then changes the lines of the values set and no other. After a list comes a key at once: what follows it, a
comment or an empty line, DVC would lose with the old list.
"""

import io
import re
from collections.abc import Mapping

from ruamel.yaml import YAML, RoundTripRepresenter, ScalarNode

from wsoup.base import project

FOLDER = project.file("data/profiles")
SCHEMA = "# yaml-language-server: $schema={}params.schema.json\n"
"""The first line of every params.yaml, for editors, which look beside the file."""


def template(name: str) -> str:
    """A params.yaml of data/profiles; ``demo`` is the toy world's and is used as it is, others go through `filled`."""
    text = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    return text.replace(SCHEMA.format("../"), SCHEMA.format("data/"), 1)


def filled(text: str, values: Mapping[str, object], *, head: str | None = None) -> str:
    """Set values in one of wsoup's own params.yaml; comments and other sections stay as they are.

    Args:
        text: the params.yaml.
        values: dotted key -> new value; None removes the key.
        head: comment lines that replace the first ones.
    """
    by_section: dict[str, dict[str, object]] = {}
    for path, value in values.items():
        by_section.setdefault(path.partition(".")[0], {})[path] = value
    for section, own in by_section.items():
        # Only the section goes through the parser, and every other byte of the file stays as it is.
        start, stop = _section(text, section)
        text = text[:start] + _set(text[start:stop], own) + text[stop:]
    if head is None:
        return text
    first_lines = SCHEMA.format("data/") + head
    # A function, because `re.sub` would take a backslash in the text for an escape.
    return re.sub(r"\A(#.*\n)+", lambda _: first_lines, text)


def _set(section: str, values: Mapping[str, object]) -> str:
    """The text of a section with its values set; None removes the key."""
    yaml = YAML()
    yaml.Representer = _Representer
    yaml.preserve_quotes = True  # and lines are broken where DVC breaks them
    document = yaml.load(section)
    for path, value in values.items():
        *outer, key = path.split(".")
        node = document
        for name in outer:
            node = node[name]
        if value is None:
            del node[key]
        else:
            node[key] = value
    out = io.StringIO()
    yaml.dump(document, out)
    return out.getvalue()


class _Representer(RoundTripRepresenter):
    """Writes numbers that YAML 1.1 reads as numbers too: without a point, ``1e-05`` is a text to PyYAML."""

    def represent_float(self, data: float) -> ScalarNode:
        """As YAML 1.1 writes it: 1.0e-05."""
        text = repr(data)
        if "." not in text:
            text = text.replace("e", ".0e", 1)
        return self.represent_scalar("tag:yaml.org,2002:float", text)


_Representer.add_representer(float, _Representer.represent_float)


def _section(text: str, name: str) -> tuple[int, int]:
    """Where a section begins and ends, without the empty lines and comments before the next one."""
    start = text.index(f"\n{name}:") + 1
    # A dash belongs to the section: DVC's writer does not indent the items of a list.
    after = re.compile(r"(?m)^[^\s#-]").search(text, start + 1)
    stop = after.start() if after else len(text)
    section = re.sub(r"(?m)(^[ \t]*(#.*)?\n)*\Z", "", text[start:stop])
    return start, start + len(section)
