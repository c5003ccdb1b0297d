"""Make data/*.schema.json, and from that of params docs/params.md: `python docs/make_params.py`."""

import ast
import inspect
import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from wsoup.core.soup import Soup
from wsoup.params.section import Section
from wsoup.pipeline.params import Params

PAGE = Path(__file__).parent / "params.md"
SCHEMA = Path(__file__).parents[1] / "data" / "params.schema.json"
"""The first line of params.yaml and of every profile names it."""
SOUP_SCHEMA = SCHEMA.with_name("soup.schema.json")
HEAD = """# Every key of params.yaml

Generated from `data/params.schema.json` by `python docs/make_params.py`; do not edit. Editors that support YAML
schemas complete and check params.yaml with it, and `wsoup check` names what is wrong in one line. `<name>` is any name
of letters, digits, `-` and `_`. A key without a default is required.
"""
TABLE = "| key | values | default | |\n|---|---|---|---|\n"
UNBOUNDED = 2**31
"""Bounds from here on come from the machine and are not shown."""
PLAIN = {"string": "text", "integer": "integer", "number": "number", "boolean": "true, false"}
SIGNS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
Schema = Mapping[str, Any]


class Described(GenerateJsonSchema):
    """Fields of sections are described by their docstrings; pydantic's own way parses the source at every start."""

    def model_schema(self, schema: Any) -> dict[str, Any]:
        """As pydantic's, with descriptions."""
        described, model = super().model_schema(schema), schema["cls"]
        for name, text in docstrings(model):
            described["properties"][model.model_fields[name].alias or name]["description"] = text
        return described


def docstrings(model: type[Section]) -> Iterator[tuple[str, str]]:
    """(field, docstring) pairs, base classes first, so that a subclass overrides them."""
    for cls in reversed([cls for cls in model.__mro__ if issubclass(cls, Section)]):
        (definition,) = ast.parse(inspect.getsource(cls)).body
        for field, docstring in pairwise(definition.body):  # type: ignore[attr-defined]
            match field, docstring:
                case ast.AnnAssign(ast.Name(name)), ast.Expr(ast.Constant(str(text))) if name in model.model_fields:
                    yield name, inspect.cleandoc(text)


def markdown(schema: Schema) -> str:
    """The page; `schema` is that of `wsoup.pipeline.params.Params`."""
    parts = [HEAD]
    for section, value in _inlined(schema, schema["$defs"])["properties"].items():
        parts.append(f"## {section}\n")
        is_one_key = value.get("type") in ("string", "array")  # whose row has the description
        if not is_one_key:
            parts.append(f"{value.get('description', '')}\n")
        parts += [f"{TABLE if row.startswith('| `') else ''}{row}" for row in _blocks(section, value)]
    return "\n".join(parts).rstrip("\n") + "\n"


def _inlined(part: Any, definitions: Schema) -> Any:
    """A part of the schema with its references resolved; a description beside a reference wins."""
    if isinstance(part, list):
        return [_inlined(item, definitions) for item in part]
    if not isinstance(part, dict):
        return part
    resolved = definitions[part["$ref"].rpartition("/")[2]] | part if "$ref" in part else part
    return {key: _inlined(value, definitions) for key, value in resolved.items() if key not in ("$ref", "$defs")}


def _blocks(key: str, value: Schema) -> Iterator[str]:
    """Tables of a section: its own keys, and those of its items by name or kind."""
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
    """Rows of plain keys, with those of plain sections inside; sections that need their own tables go to `later`."""
    if "patternProperties" in value or "discriminator" in value:
        later.append((key, value))
    elif "properties" in value:
        for name, inner in value["properties"].items():
            yield from _rows(f"{key}.{name}", inner, later)
    else:
        yield _row(key, value)
        inner = [(key, choice) for choice in value.get("anyOf", ())] + [(f"{key}[]", value.get("items", {}))]
        for inner_key, section in inner:
            if "properties" in section:
                yield from _rows(inner_key, section, later)


def _kinds(key: str, value: Schema) -> Iterator[str]:
    """A description of each kind, then the keys of all kinds; a key that several kinds share comes once."""
    kinds = dict(sorted((section["properties"]["kind"]["const"], section) for section in value["oneOf"]))
    lines = [f"| `{kind}` | {' '.join(section['description'].split())} |\n" for kind, section in kinds.items()]
    yield f"| {key}.kind | |\n|---|---|\n{''.join(lines)}"
    rows: dict[str, list[str]] = {}
    for kind, section in kinds.items():
        for name in (name for name in section["properties"] if name != "kind"):
            rows.setdefault(_row(f"{key}.{name}", section["properties"][name]), []).append(kind)
    yield "".join(
        row if len(users) == len(kinds) else f"{row.removesuffix(' |' + chr(10))} ({', '.join(users)}) |\n"
        for row, users in rows.items()
    )


def _row(key: str, value: Schema) -> str:
    default = f"`{json.dumps(value['default'])}`" if "default" in value else ""
    about = " ".join(value.get("description", "").split()).replace("|", "\\|")
    return f"| `{key}` | {_values(value)} | {default} | {about} |\n"


def _values(value: Schema) -> str:
    match value:
        case {"const": constant}:
            return f"`{constant}`"
        case {"enum": choices}:
            return ", ".join(f"`{choice}`" for choice in choices)
        case {"anyOf": choices}:
            return " or ".join(map(_values, choices))
        case {"prefixItems": [item, *_] as items}:
            return f"[{len(items)} x {_values(item)}]"
        case {"type": "array", "items": items}:
            return f"list of {_values(items)}"
        case {"type": "object"}:
            return f"{{{', '.join(value['properties'])}}}" if "properties" in value else "mapping"
    return f"{PLAIN.get(value.get('type', ''), str(value.get('type', 'any')))}{_bounds(value)}"


def _bounds(value: Schema) -> str:
    shown = {key: _number(value[key]) for key in SIGNS if key in value and abs(value[key]) < UNBOUNDED}
    if shown.keys() == {"minimum", "maximum"}:
        return f" {shown['minimum']} to {shown['maximum']}"
    bounds = [f"{SIGNS[key]} {number}" for key, number in shown.items()]
    return f" {', '.join(bounds)}" if bounds else ""


def _number(value: float) -> str:
    return f"{int(value):,}" if float(value).is_integer() else f"{value:g}"


def schema() -> str:
    """JSON Schema of params.yaml, with its keys as in the file."""
    return json.dumps(Params.model_json_schema(schema_generator=Described), indent=2, ensure_ascii=False) + "\n"


def soup_schema() -> str:
    """JSON Schema of soup files: the fields of `Soup`, and what a file must have besides."""
    made = TypeAdapter(Soup).json_schema()
    made["additionalProperties"] = False
    made["$defs"]["Member"]["required"] = ["text", "trace"]
    made["properties"]["encoder"] |= {"required": ["model"], "properties": {"model": {"type": "string"}}}
    return json.dumps(made, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    SOUP_SCHEMA.write_text(soup_schema(), encoding="utf-8")
    SCHEMA.write_text(schema(), encoding="utf-8")
    PAGE.write_text(markdown(json.loads(schema())), encoding="utf-8")
