"""`wsoup bench`: will this machine do?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wsoup.cli.options import Device

bench_app = typer.Typer(help="Will this machine do? Time wsoup beside the plain way.", no_args_is_help=True)

Model = Annotated[str, typer.Option(help="An open_clip model; its weights are random.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@bench_app.command("text")
def bench_text(
    model: Model = "ViT-B-16",
    classes: Annotated[int, typer.Option(help="How many of ImageNet's class names.")] = 1000,
    words: Annotated[int, typer.Option(help="Words in the pool.")] = 10_000,
    descriptors: Annotated[Path | None, typer.Option(help="Also time a pool of descriptors, one a line.")] = None,
    rounds: Annotated[int, typer.Option(help="How often both are timed, in turn.")] = 3,
    block: Annotated[
        int | None, typer.Option(help="Candidates in a round (default: 32 on a CPU, 128 elsewhere).")
    ] = None,
    device: Device = "auto",
    precision: Annotated[str, typer.Option(help="fp32, bf16 or fp16; several with commas.")] = "fp32",
    as_json: AsJson = False,
) -> None:
    """Scoring a pool: texts with shared beginnings, beside encode_text at the full context.

    Example: wsoup bench text --model ViT-B-16 --classes 1000
    """
    from wsoup.bench import common, text
    from wsoup.search.rank import pools
    from wsoup.towers.encoder import choose_device

    candidates = {"words": pools.common_words(words)}
    if descriptors is not None:
        candidates["descriptors"] = pools.descriptors([descriptors])
    result = text.bench_text(
        model,
        pools=candidates,
        classes=classes,
        device=choose_device(device),
        precisions=[name.strip() for name in precision.split(",")],
        rounds=rounds,
        block=block,
    )
    common.show(result, as_json=as_json)


@bench_app.command("images")
def bench_images(
    model: Model = "ViT-B-16",
    count: Annotated[int, typer.Option(help="Images, drawn for the purpose.")] = 256,
    batch_size: Annotated[int, typer.Option(help="Images in a batch; a CPU takes it in parts.")] = 64,
    device: Device = "auto",
    precision: Annotated[str, typer.Option(help="fp32, bf16 or fp16.")] = "fp32",
    as_json: AsJson = False,
) -> None:
    """Decoding, preprocessing and encoding images, beside the plain loop.

    Example: wsoup bench images --model ViT-B-16 --batch-size 256
    """
    from wsoup.bench import common, images
    from wsoup.towers.encoder import choose_device

    where = choose_device(device)
    result = images.bench_images(model, count=count, device=where, precision=precision, batch_size=batch_size)
    common.show(result, as_json=as_json)
