"""docs/params.md: every key of params.yaml with its values, its default and what it is, from the JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "params.md"
HEAD = """# Every key of params.yaml

Made from `data/params.schema.json` by `python -m wsoup.check.whole`. Editors that know YAML schemas complete and check
the file by it; `wsoup check` says in one line what is wrong. `<name>` is any name of letters, digits, `-` and `_`.
A key without a default has to be given.
"""
TABLE = "| key | values | default | |\n|---|---|---|---|\n"
ENDLESS = 2**31
"""Bounds from here on are those of a machine and say nothing."""
Schema = Mapping[str, Any]


def markdown(schema: Schema) -> str:
    """The page; `schema` is that of `wsoup.check.whole.Params`."""
    parts = [HEAD]
    for section, value in schema["properties"].items():
        parts.append(f"## {section}\n\n{value.get('description', '')}\n")
        parts += [f"{TABLE if row.startswith('| `') else ''}{row}" for row in _blocks(section, value, schema)]
    return "\n".join(parts).rstrip("\n") + "\n"


def _blocks(key: str, value: Schema, schema: Schema) -> Iterator[str]:
    """Tables of a section: its own keys, and those of what it holds by name or by kind."""
    found = _named(value, schema)
    if "patternProperties" in found:
        (inner,) = found["patternProperties"].values()
        yield from _blocks(f"{key}.<name>", inner, schema)
    elif "discriminator" in found:
        yield from _kinds(key, found, schema)
    else:
        rows, later = _rows(key, found, schema)
        yield rows
        for name, inner in later:
            yield f"### {name}\n\n{inner.get('description', '')}\n"
            yield from _blocks(name, inner, schema)


def _rows(key: str, found: Schema, schema: Schema) -> tuple[str, list[tuple[str, Schema]]]:
    """Rows of plain keys, those of plain sections within them too; and what needs tables of its own."""
    if "properties" not in found:
        return _row(key, found, schema), []
    rows, later = "", []
    for name, inner in found["properties"].items():
        child, place = _named(inner, schema), f"{key}.{name}"
        if "patternProperties" in child or "discriminator" in child:
            later.append((place, inner))
        elif "properties" in child:
            more, further = _rows(place, child, schema)
            rows, later = rows + more, later + further
        else:
            rows += _row(place, inner, schema)
            inside = [(place, one) for one in child.get("anyOf", ())]
            inside += [(f"{place}[]", child["items"])] if "items" in child else []
            for deeper, one in inside:
                if "properties" in _named(one, schema):
                    more, further = _rows(deeper, _named(one, schema), schema)
                    rows, later = rows + more, later + further
    return rows, later


def _kinds(key: str, found: Schema, schema: Schema) -> Iterator[str]:
    """What a kind is, then the keys of all kinds: those that several share once."""
    kinds = {kind: _named({"$ref": at}, schema) for kind, at in found["discriminator"]["mapping"].items()}
    lines = [f"| `{kind}` | {' '.join(one['description'].split())} |\n" for kind, one in kinds.items()]
    yield f"| {key}.kind | |\n|---|---|\n{''.join(lines)}"
    rows: dict[str, list[str]] = {}
    for kind, one in kinds.items():
        for name, value in one["properties"].items():
            if name != "kind":
                rows.setdefault(_row(f"{key}.{name}", value, schema), []).append(kind)
    yield "".join(
        row if len(of) == len(kinds) else f"{row.removesuffix(' |' + chr(10))} ({', '.join(of)}) |\n"
        for row, of in rows.items()
    )


def _row(key: str, value: Schema, schema: Schema) -> str:
    default = f"`{json.dumps(value['default'])}`" if "default" in value else ""
    about = " ".join(value.get("description", "").split()).replace("|", "\\|")
    return f"| `{key}` | {_values(value, schema)} | {default} | {about} |\n"


def _values(value: Schema, schema: Schema) -> str:
    found = _named(value, schema)
    if "const" in found:
        return f"`{found['const']}`"
    if "enum" in found:
        return ", ".join(f"`{x}`" for x in found["enum"])
    if "anyOf" in found:
        return " or ".join(_values(one, schema) for one in found["anyOf"])
    if "prefixItems" in found:
        return f"[{', '.join(_values(one, schema) for one in found['prefixItems'])}]"
    if found.get("type") == "array":
        return f"list of {_values(found['items'], schema)}"
    if found.get("type") == "object":
        return f"{{{', '.join(found['properties'])}}}" if "properties" in found else "mapping"
    plain = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true, false"}
    name = plain.get(found.get("type", ""), str(found.get("type", "any")))
    return f"{name}{_bounds(found)}"


def _bounds(found: Schema) -> str:
    said = []
    for key, sign in (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"), ("exclusiveMaximum", "<")):
        if key in found and abs(found[key]) < ENDLESS:
            said.append(f"{sign} {int(found[key]):,}" if float(found[key]).is_integer() else f"{sign} {found[key]:g}")
    return f" {', '.join(said)}" if said else ""


def _named(value: Schema, schema: Schema) -> Schema:
    """What a reference stands for; the value itself where it is none."""
    reference = value.get("$ref")
    return value if reference is None else schema["$defs"][reference.rpartition("/")[2]]
