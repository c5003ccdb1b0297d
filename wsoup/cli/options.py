"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ParamsFile = Annotated[Path, typer.Option("--params", help="The params file.")]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there; it is kept beside it.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")]
