"""Stage fewshot: the source's manifest -> one table per seed of its few-shot training images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wsoup import store
from wsoup.datasets.fewshot import split_of_seed
from wsoup.params.whole import load_params
from wsoup.runtime import stage


def main(
    source: str,
    manifest: Annotated[Path, typer.Option()],
    out: Annotated[Path, typer.Option(help="folder for seed<k>.parquet")],
) -> None:
    """Write the few-shot split of every seed of SOURCE."""
    params = load_params()
    table = store.read_table(store.require(manifest, made_by=f"prepare@{source}"))
    for seed in params.seeds:
        attributes = {"dataset": source, "seed": seed, "shots": params.fewshot.shots}
        store.write_table(out / f"seed{seed}.parquet", split_of_seed(table, seed=seed), attributes=attributes)


if __name__ == "__main__":
    stage.run(main)
