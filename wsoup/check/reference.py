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
PLAIN = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true, false"}
SIGNS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
Schema = Mapping[str, Any]


def markdown(schema: Schema) -> str:
    """The page; `schema` is that of `wsoup.check.whole.Params`."""
    parts = [HEAD]
    for section, value in _inlined(schema, schema["$defs"])["properties"].items():
        parts.append(f"## {section}\n\n{value.get('description', '')}\n")
        parts += [f"{TABLE if row.startswith('| `') else ''}{row}" for row in _blocks(section, value)]
    return "\n".join(parts).rstrip("\n") + "\n"


def _inlined(part: Any, named: Schema) -> Any:
    """A part of the schema with what its references stand for in their place; descriptions beside these win."""
    if isinstance(part, list):
        return [_inlined(one, named) for one in part]
    if not isinstance(part, dict):
        return part
    whole = named[part["$ref"].rpartition("/")[2]] | part if "$ref" in part else part
    return {key: _inlined(one, named) for key, one in whole.items() if key not in ("$ref", "$defs")}


def _blocks(key: str, value: Schema) -> Iterator[str]:
    """Tables of a section: its own keys, and those of what it holds by name or by kind."""
    if "patternProperties" in value:
        (inner,) = value["patternProperties"].values()
        yield from _blocks(f"{key}.<name>", inner)
    elif "discriminator" in value:
        yield from _kinds(key, value)
    else:
        later: list[tuple[str, Schema]] = []
        yield "".join(_rows(key, value, later))
        for name, inner in later:
            yield f"### {name}\n\n{inner.get('description', '')}\n"
            yield from _blocks(name, inner)


def _rows(key: str, value: Schema, later: list[tuple[str, Schema]]) -> Iterator[str]:
    """Rows of plain keys, those of plain sections within them too; what needs tables of its own goes to `later`."""
    if "patternProperties" in value or "discriminator" in value:
        later.append((key, value))
    elif "properties" in value:
        for name, inner in value["properties"].items():
            yield from _rows(f"{key}.{name}", inner, later)
    else:
        yield _row(key, value)
        inside = [(key, one) for one in value.get("anyOf", ())] + [(f"{key}[]", value.get("items", {}))]
        for deeper, one in inside:
            if "properties" in one:
                yield from _rows(deeper, one, later)


def _kinds(key: str, value: Schema) -> Iterator[str]:
    """What a kind is, then the keys of all kinds: those that several share once."""
    kinds = dict(sorted((one["properties"]["kind"]["const"], one) for one in value["oneOf"]))
    lines = [f"| `{kind}` | {' '.join(one['description'].split())} |\n" for kind, one in kinds.items()]
    yield f"| {key}.kind | |\n|---|---|\n{''.join(lines)}"
    rows: dict[str, list[str]] = {}
    for kind, one in kinds.items():
        for name in (name for name in one["properties"] if name != "kind"):
            rows.setdefault(_row(f"{key}.{name}", one["properties"][name]), []).append(kind)
    yield "".join(
        row if len(of) == len(kinds) else f"{row.removesuffix(' |' + chr(10))} ({', '.join(of)}) |\n"
        for row, of in rows.items()
    )


def _row(key: str, value: Schema) -> str:
    default = f"`{json.dumps(value['default'])}`" if "default" in value else ""
    about = " ".join(value.get("description", "").split()).replace("|", "\\|")
    return f"| `{key}` | {_values(value)} | {default} | {about} |\n"


def _values(value: Schema) -> str:
    match value:
        case {"const": one}:
            return f"`{one}`"
        case {"enum": several}:
            return ", ".join(f"`{one}`" for one in several)
        case {"anyOf": several}:
            return " or ".join(map(_values, several))
        case {"prefixItems": several}:
            return f"[{', '.join(map(_values, several))}]"
        case {"type": "array", "items": items}:
            return f"list of {_values(items)}"
        case {"type": "object"}:
            return f"{{{', '.join(value['properties'])}}}" if "properties" in value else "mapping"
    return f"{PLAIN.get(value.get('type', ''), str(value.get('type', 'any')))}{_bounds(value)}"


def _bounds(value: Schema) -> str:
    said = [
        f"{sign} {int(value[key]):,}" if float(value[key]).is_integer() else f"{sign} {value[key]:g}"
        for key, sign in SIGNS.items()
        if key in value and abs(value[key]) < ENDLESS
    ]
    return f" {', '.join(said)}" if said else ""
