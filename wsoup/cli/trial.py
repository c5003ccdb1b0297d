"""`wsoup try`: a soup and a head for a folder of photos, judged, without a pipeline."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from wsoup.cli import options


def try_command(
    photos: Annotated[str, typer.Argument(help="A folder of <class>/<image>, or with train/ and test/ of such.")],
    model: options.Model = None,
    pretrained: options.Pretrained = None,
    config: options.Config = None,
    image_mean: options.ImageMean = None,
    image_std: options.ImageStd = None,
    interpolation: options.Interpolation = None,
    template: Annotated[str, typer.Option(help="Prompt template with one {}.")] = "a photo of a {}.",
    shots: Annotated[int, typer.Option(min=1, help="Photos of each class for the head; the others judge.")] = 16,
    words: Annotated[int, typer.Option(min=1, max=10_000, help="Random common words in the soup.")] = 64,
    seed: Annotated[int, typer.Option(min=0, help="Of the words and the shots.")] = 1,
    out: Annotated[Path, typer.Option(help="The folder to write.")] = Path("tried"),
    force: options.Force = False,
    batch_size: options.BatchSize = 64,
    device: options.Device = "auto",
) -> None:
    """Try a soup and a head on labelled photos: is either better than class names, and which to use.

    Writes soup.json, head.safetensors, classes.txt and a contact sheet. The default model is ViT-B-32 / openai.

    Example: wsoup try photos --model ViT-B-32 --pretrained openai
    """
    from wsoup.api.classify_encoder import Given
    from wsoup.api.trial import trial
    from wsoup.core.disk.store import kept_aside

    kept_aside(out, force=force)
    given = Given(model, pretrained, config, image_mean, image_std, interpolation)
    encoder = given.load(device=device, origin="wsoup try", known={"model": "ViT-B-32", "pretrained": "openai"})
    tried = trial(photos, encoder=encoder, shots=shots, m=words, seed=seed, template=template, batch_size=batch_size)
    tried.save(out)
    for line in tried.notes:
        print(line, file=sys.stderr)
    for name, accuracy in tried.accuracies().items():
        print(f"{name:<32} {accuracy}")
    print(f"\n{tried.verdict()}")
    use = f"--head {out / 'head.safetensors'}" if tried.wants_head else f"--soup {out / 'soup.json'}"
    classes = "" if tried.wants_head else f" --classes {out / 'classes.txt'}"
    where = {"model": model, "pretrained": pretrained, "config": config}
    named = "".join(f" --{name} {shlex.quote(value)}" for name, value in where.items() if value is not None)
    print(f"look at {out / 'sheet.html'}; next: wsoup classify PHOTOS {use}{classes}{named} > predictions.csv")
