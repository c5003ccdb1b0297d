"""`wsoup bench`: time this machine."""

from pathlib import Path
from typing import Annotated

import typer

from wsoup.cli.common import Device

bench_app = typer.Typer(help="Time wsoup on this machine, compared with plain open_clip.", no_args_is_help=True)

Model = Annotated[str, typer.Option(help="An open_clip model; its weights are random.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@bench_app.command("text")
def bench_text(
    model: Model = "ViT-B-16",
    classes: Annotated[int, typer.Option(help="How many of ImageNet's class names.")] = 1000,
    words: Annotated[int, typer.Option(help="Words in the pool.")] = 10_000,
    descriptors: Annotated[Path | None, typer.Option(help="Also time a pool of descriptors, one per line.")] = None,
    rounds: Annotated[int, typer.Option(help="Timings of each way, in turn.")] = 3,
    block: Annotated[
        int | None, typer.Option(help="Candidates in a round (default: 32 on a CPU, 128 elsewhere).")
    ] = None,
    device: Device = "auto",
    precision: Annotated[str, typer.Option(help="fp32, bf16 or fp16; several with commas.")] = "fp32",
    as_json: AsJson = False,
) -> None:
    """Time scoring of a pool, which shares beginnings of texts, compared with encode_text at the full context.

    Example: wsoup bench text --model ViT-B-16 --classes 1000
    """
    from wsoup.cli import throughput
    from wsoup.search.rank.pools import common_words
    from wsoup.search.rank.pools import descriptors as read_descriptors
    from wsoup.towers.encoder import choose_device

    pools = {"words": common_words(words)}
    if descriptors is not None:
        pools["descriptors"] = read_descriptors([descriptors])
    precisions = [name.strip() for name in precision.split(",")]
    where = choose_device(device)
    result = throughput.bench_text(
        model, pools=pools, classes=classes, device=where, precisions=precisions, rounds=rounds, block=block
    )
    throughput.show(result, as_json=as_json)


@bench_app.command("images")
def bench_images(
    model: Model = "ViT-B-16",
    count: Annotated[int, typer.Option(help="Number of drawn images.")] = 256,
    batch_size: Annotated[int, typer.Option(help="Images in a batch; a CPU splits it.")] = 64,
    device: Device = "auto",
    precision: Annotated[str, typer.Option(help="fp32, bf16 or fp16.")] = "fp32",
    as_json: AsJson = False,
) -> None:
    """Time decoding, preprocessing and encoding of images, compared with a plain loop.

    Example: wsoup bench images --model ViT-B-16 --batch-size 256
    """
    from wsoup.cli import throughput
    from wsoup.towers.encoder import choose_device

    where = choose_device(device)
    result = throughput.bench_images(model, count=count, device=where, precision=precision, batch_size=batch_size)
    throughput.show(result, as_json=as_json)
