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
    resolved = _resolved(value, schema)
    if "patternProperties" in resolved:
        (inner,) = resolved["patternProperties"].values()
        yield from _blocks(f"{key}.<name>", inner, schema)
    elif "discriminator" in resolved:
        yield from _kinds(key, resolved, schema)
    else:
        rows, later = _rows(key, resolved, schema)
        yield rows
        for name, inner in later:
            yield f"### {name}\n\n{inner.get('description', '')}\n"
            yield from _blocks(name, inner, schema)


def _rows(key: str, resolved: Schema, schema: Schema) -> tuple[str, list[tuple[str, Schema]]]:
    """Rows of plain keys, those of plain sections within them too; and what needs tables of its own."""
    if "properties" not in resolved:
        return _row(key, resolved, schema), []
    rows, later = "", []
    for name, inner in resolved["properties"].items():
        child, place = _resolved(inner, schema), f"{key}.{name}"
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
                if "properties" in _resolved(one, schema):
                    more, further = _rows(deeper, _resolved(one, schema), schema)
                    rows, later = rows + more, later + further
    return rows, later


def _kinds(key: str, resolved: Schema, schema: Schema) -> Iterator[str]:
    """What a kind is, then the keys of all kinds: those that several share once."""
    kinds = {kind: _resolved({"$ref": at}, schema) for kind, at in resolved["discriminator"]["mapping"].items()}
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
    resolved = _resolved(value, schema)
    if "const" in resolved:
        return f"`{resolved['const']}`"
    if "enum" in resolved:
        return ", ".join(f"`{x}`" for x in resolved["enum"])
    if "anyOf" in resolved:
        return " or ".join(_values(one, schema) for one in resolved["anyOf"])
    if "prefixItems" in resolved:
        return f"[{', '.join(_values(one, schema) for one in resolved['prefixItems'])}]"
    if resolved.get("type") == "array":
        return f"list of {_values(resolved['items'], schema)}"
    if resolved.get("type") == "object":
        return f"{{{', '.join(resolved['properties'])}}}" if "properties" in resolved else "mapping"
    plain = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true, false"}
    name = plain.get(resolved.get("type", ""), str(resolved.get("type", "any")))
    return f"{name}{_bounds(resolved)}"


def _bounds(resolved: Schema) -> str:
    said = []
    for key, sign in (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"), ("exclusiveMaximum", "<")):
        if key in resolved and abs(resolved[key]) < ENDLESS:
            bound = resolved[key]
            said.append(f"{sign} {int(bound):,}" if float(bound).is_integer() else f"{sign} {bound:g}")
    return f" {', '.join(said)}" if said else ""


def _resolved(value: Schema, schema: Schema) -> Schema:
    """What a reference stands for; the value itself where it is none."""
    reference = value.get("$ref")
    return value if reference is None else schema["$defs"][reference.rpartition("/")[2]]
