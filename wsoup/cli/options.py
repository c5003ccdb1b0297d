"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Rgb = tuple[float, float, float] | None
ParamsFile = Annotated[Path, typer.Option("--params", help="The params file.")]
WeightsIn = Annotated[Path, typer.Option("--params", help="The params file that says where local weights are.")]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there; it is kept beside it.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")]
Model = Annotated[
    str | None, typer.Option(help="An open_clip model, or hf:NAME of transformers (default: the one it was made with).")
]
Pretrained = Annotated[str | None, typer.Option(help="Its tag or weights file (default: the same).")]
Config = Annotated[str | None, typer.Option(help="Its open_clip JSON config, for a local model.")]
ImageMean = Annotated[Rgb, typer.Option(help="Mean of red, green and blue, for a local model (default: the same).")]
ImageStd = Annotated[Rgb, typer.Option(help="Their standard deviation (default: the same).")]
Interpolation = Annotated[str | None, typer.Option(help="bicubic or bilinear, for a local model (default: the same).")]
Mode = Annotated[
    str | None,
    typer.Option(
        help="centroid (the mean text, normalised; the default) or score_mean (the mean of the scores). The run's own "
        "soup is used as report.mode says."
    ),
]
Template = Annotated[str | None, typer.Option(help="Prompt template with one {} (default: the soup's).")]
BatchSize = Annotated[int, typer.Option(min=1, help="Photos in one forward pass.")]
