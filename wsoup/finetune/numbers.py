"""Numbers of section `finetune`: how large each may be."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from wsoup.params.section import PositiveInt

Count = Annotated[PositiveInt, Field(le=10_000)]
"""Tokens, blocks or members; the model sets much lower limits."""
Iterations = Annotated[PositiveInt, Field(le=100_000_000)]
Images = Annotated[PositiveInt, Field(le=65_536)]
# The bounds keep products of several such numbers within float32.
Positive = Annotated[float, Field(gt=0, le=1e15)]
NonNegative = Annotated[float, Field(ge=0, le=1e15)]
