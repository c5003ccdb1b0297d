"""Heads beside their rivals on folders of photographs.

python -m benchmarks.heads PHOTOS... --model M --pretrained P --cache FOLDER
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import torch
import typer

from benchmarks.heads.folders import folders
from benchmarks.heads.judging import judged
from benchmarks.heads.photos import photo_set
from benchmarks.heads.rivals import RIVALS
from benchmarks.heads.tables import tables
from wsoup.api.encoders import EncoderOptions
from wsoup.api.hub import DEFAULTS
from wsoup.cli import common
from wsoup.disk.store import write_bytes


def main(
    photos: Annotated[list[str], typer.Argument(help="Folders of <class>/<image>, or with train/ and test/ of such.")],
    cache: Annotated[Path, typer.Option(help="Where features and results are kept, outside the repository.")],
    targets: Annotated[list[str] | None, typer.Option("--target", help="More folders, only as other styles.")] = None,
    model: common.Model = None,
    pretrained: common.Pretrained = None,
    config: common.Config = None,
    image_mean: common.ImageMean = None,
    image_std: common.ImageStd = None,
    interpolation: common.Interpolation = None,
    draws: Annotated[int, typer.Option(min=1, help="Draws of classes and photos.")] = 2,
    first: Annotated[int, typer.Option(min=0, help="The first draw.")] = 0,
    cones: Annotated[list[float] | None, typer.Option("--cone", help="c of folders.in_cone (default: 0).")] = None,
    classes: Annotated[int, typer.Option(help="Only folders of up to so many classes; 0 for all.")] = 0,
    rivals: Annotated[bool, typer.Option(help="Whether rivals are fitted, too, which takes most of the time.")] = True,
    device: common.Device = "cpu",
) -> None:
    """Compare heads with rivals on small folders drawn from folders of photos."""
    torch.set_num_threads(1)
    options = EncoderOptions(model, pretrained, config, image_mean, image_std, interpolation)
    encoder = options.load(device=device, origin="benchmarks.heads", defaults=DEFAULTS)
    sets = [photo_set(root, encoder=encoder, cache=cache) for root in photos]
    further = [photo_set(root, encoder=encoder, cache=cache) for root in targets or []]
    drawn = folders(sets, targets=sets + further, draws=range(first, first + draws), cones=cones or [0.0])
    of_rivals = list(RIVALS) if rivals else []
    results = [judged(folder, rivals=of_rivals) for folder in drawn if len(folder.class_names) <= (classes or math.inf)]
    lines = [json.dumps(asdict(result)) for result in results]
    write_bytes(cache / "results.jsonl", "\n".join(lines).encode())
    print("\n\n".join(tables(results)))


if __name__ == "__main__":
    typer.run(main)
