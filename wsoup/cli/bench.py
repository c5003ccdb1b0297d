"""`wsoup bench`: will this machine do?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from wsoup.core.errors import ParamsError

bench_app = typer.Typer(help="Will this machine do? Ours beside the plain way, in one run.", no_args_is_help=True)

Model = Annotated[str, typer.Option(help="An open_clip model; its weights are random.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1.")]
Precision = Annotated[str, typer.Option(help="fp32, bf16, fp16 (autocast).")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@bench_app.command("text")
def bench_text(
    model: Model = "ViT-B-16",
    classes: Annotated[int, typer.Option(help="How many of ImageNet's class names.")] = 1000,
    words: Annotated[int, typer.Option(help="Words of the pool.")] = 10_000,
    descriptors: Annotated[Path | None, typer.Option(help="A pool of descriptors, one a line.")] = None,
    rounds: Annotated[int, typer.Option(help="Timings of each way, in turn.")] = 3,
    block: Annotated[int | None, typer.Option(help="Candidates in a round; 32 on a CPU, 128 elsewhere.")] = None,
    device: Device = "auto",
    precision: Annotated[str, typer.Option(help="fp32, bf16, fp16 (autocast); several with commas.")] = "fp32",
    as_json: AsJson = False,
) -> None:
    """Scoring a pool: texts through shared prefixes beside encode_text at 77 tokens.

    Example: wsoup bench text --model ViT-B-16 --classes 1000
    """
    from wsoup.bench.text import bench_text as measure
    from wsoup.search.rank import pools

    found = {"words": pools.common_words(words)}
    if descriptors is not None:
        found["descriptors"] = pools.descriptors([descriptors])
    chosen = [_device(device, name.strip()) for name in precision.split(",")]
    where, dtypes = chosen[0][0], [dtype for _, dtype in chosen]
    result = measure(model, pools=found, classes=classes, device=where, dtypes=dtypes, rounds=rounds, block=block)
    _print_result(result, as_json=as_json)


@bench_app.command("search")
def bench_search(
    model: Model = "ViT-B-16",
    classes: Annotated[int, typer.Option(help="How many of ImageNet's class names.")] = 1000,
    patience: Annotated[int, typer.Option(help="Candidates tried.")] = 250,
    device: Device = "auto",
    precision: Precision = "fp32",
    as_json: AsJson = False,
) -> None:
    """One word chain of Algorithm 2, beside the one-by-one loop at 77 tokens."""
    from wsoup.bench.search import bench_search as measure
    from wsoup.search.rank import pools

    where, dtype = _device(device, precision)
    pool = pools.common_words(patience + 1)
    result = measure(model, words=pool, classes=classes, patience=patience, device=where, dtype=dtype)
    _print_result(result, as_json=as_json)


@bench_app.command("images")
def bench_images(
    model: Model = "ViT-B-16",
    count: Annotated[int, typer.Option(help="Images, drawn for the purpose.")] = 256,
    batch_size: Annotated[int, typer.Option(help="Images in a batch, of which a CPU takes parts.")] = 64,
    device: Device = "auto",
    precision: Precision = "fp32",
    as_json: AsJson = False,
) -> None:
    """Decoding, preprocessing and encoding images, beside the plain loop."""
    from wsoup.bench.images import bench_images as measure

    where, dtype = _device(device, precision)
    _print_result(measure(model, count=count, device=where, dtype=dtype, batch_size=batch_size), as_json=as_json)


@bench_app.command("train")
def bench_train(
    model: Model = "ViT-B-16",
    classes: Annotated[int, typer.Option(help="How many of ImageNet's class names.")] = 100,
    batch_size: Annotated[int, typer.Option(help="Images in a step.")] = 16,
    repeats: Annotated[int, typer.Option(help="Measured steps of each way, in turn.")] = 3,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """One training step, beside the plain way: 77 tokens and a separate teacher."""
    from wsoup.bench.train import bench_train, render

    where, _ = _device(device, "fp32")
    result = bench_train(model=model, n_classes=classes, batch_size=batch_size, repeats=repeats, device=str(where))
    print(json.dumps(result, indent=2) if as_json else render(result))


def _device(name: str, precision: str) -> tuple[Any, Any]:
    """torch device and autocast dtype."""
    from wsoup.towers.encoder import AUTOCAST, choose_device

    if precision not in AUTOCAST:
        raise ParamsError(f"precision {precision!r} must be one of {', '.join(AUTOCAST)}")
    return choose_device(name), AUTOCAST[precision]


def _print_result(result: dict[str, Any], *, as_json: bool) -> None:
    from wsoup.bench.common import table

    if as_json:
        print(json.dumps(result, indent=2))
    else:
        Console().print(table(result), highlight=False)
