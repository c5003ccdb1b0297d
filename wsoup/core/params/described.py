"""JSON Schema says of a field what stands below it in the code."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from pydantic import BaseModel


class Described(BaseModel):
    """Reads these texts when a schema is asked for; pydantic's own way reads them at every start of every stage."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> Any:
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema)["properties"]
        for name, text in _texts_below_fields(cls):
            properties[cls.model_fields[name].alias or name]["description"] = text
        return schema


def _texts_below_fields(model: type[Described]) -> Iterator[tuple[str, str]]:
    """Of the bases first, so that the model's own words count."""
    for base in reversed([base for base in model.__mro__ if issubclass(base, Described)]):
        (code,) = ast.parse(inspect.getsource(base)).body
        for field, below in pairwise(code.body):  # type: ignore[attr-defined]
            match field, below:
                case ast.AnnAssign(ast.Name(name)), ast.Expr(ast.Constant(str(text))) if name in model.model_fields:
                    yield name, inspect.cleandoc(text)
