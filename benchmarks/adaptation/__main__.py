"""Adaptation without labels on piles of photographs.

python -m benchmarks.adaptation PHOTOS... --model M --pretrained P --cache FOLDER
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import torch
import typer

from benchmarks.adaptation.judging import judged
from benchmarks.adaptation.piles import every_other, in_cone, piles, together, with_random_texts
from benchmarks.adaptation.tables import tables
from benchmarks.heads.photos import PhotoSet, photo_set
from wsoup.api.encoders import EncoderOptions
from wsoup.api.hub import DEFAULTS
from wsoup.cli import common
from wsoup.disk.store import write_bytes
from wsoup.photos import adaptation
from wsoup.towers.encoder import Encoder


def main(
    photos: Annotated[list[str], typer.Argument(help="Folders of <class>/<image>, or with train/ and test/ of such.")],
    cache: Annotated[Path, typer.Option(help="Where features and results are kept, outside the repository.")],
    even: Annotated[list[str] | None, typer.Option(help="More folders, every other class, from the first on.")] = None,
    odd: Annotated[list[str] | None, typer.Option(help="... from the second on.")] = None,
    mixed: Annotated[bool, typer.Option("--mixed", help="All PHOTOS together, which have the same classes.")] = False,
    model: common.Model = None,
    pretrained: common.Pretrained = None,
    config: common.Config = None,
    image_mean: common.ImageMean = None,
    image_std: common.ImageStd = None,
    interpolation: common.Interpolation = None,
    draws: Annotated[int, typer.Option(min=1, help="Draws of classes and photos.")] = 6,
    first: Annotated[int, typer.Option(min=0, help="The first draw.")] = 0,
    cone: Annotated[float, typer.Option(min=0, help="Length of a constant added to all photos, and to texts.")] = 0.0,
    random: Annotated[bool, typer.Option("--random", help="Directions drawn at random in place of texts.")] = False,
    information: Annotated[
        float, typer.Option(min=0, help="Smallest information of the texts, for the trade of gains and losses.")
    ] = adaptation.INFORMATION,
    device: common.Device = "cpu",
) -> None:
    """Adapt to piles drawn from folders of photos, and count what it gains and loses."""
    torch.set_num_threads(1)
    options = EncoderOptions(model, pretrained, config, image_mean, image_std, interpolation)
    encoder = options.load(device=device, origin="benchmarks.adaptation", defaults=DEFAULTS)
    sets = _read(photos, encoder=encoder, cache=cache)
    if mixed:
        sets = [together(sets)]
    sets += [every_other(one, first=0) for one in _read(even or [], encoder=encoder, cache=cache)]
    sets += [every_other(one, first=1) for one in _read(odd or [], encoder=encoder, cache=cache)]
    adaptation.INFORMATION = information
    results = []
    for pile in piles(sets, draws=range(first, first + draws)):
        if random:
            pile = with_random_texts(pile)
        results.append(judged(in_cone(pile, length=cone) if cone else pile))
    lines = [json.dumps(asdict(result)) for result in results]
    write_bytes(cache / "adaptation.jsonl", "\n".join(lines).encode())
    print("\n\n".join(tables(results)))
    adapted = [result for result in results if not result.note]
    n_doubted = sum(result.doubted for result in adapted)
    print(f"\n{len(adapted)} of {len(results)} piles are adapted to; in {n_doubted} of these the note doubts the texts")


def _read(roots: Sequence[str], *, encoder: Encoder, cache: Path) -> list[PhotoSet]:
    """Sets named by their folder's own name, so that draws are the same wherever the photos lie."""
    return [replace(photo_set(root, encoder=encoder, cache=cache), name=Path(root).name) for root in roots]


if __name__ == "__main__":
    typer.run(main)
