"""What every section of params.yaml shares: no unknown keys, no change after loading; and names for files."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]
"""A name that serves in stage and file names: letters, digits, dash and underscore."""


PositiveInt = Annotated[int, Field(ge=1, strict=True)]


Fraction = Annotated[float, Field(ge=0, le=1)]


class Section(BaseModel):
    """Base of all sections: no unknown keys, no change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)
