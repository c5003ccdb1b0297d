"""Stage gpt_descriptors: GPT-descriptor files -> every dataset's descriptors by its own class names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wsoup import store
from wsoup.params.whole import load_params
from wsoup.runtime import stage
from wsoup.search import gpt


def main(manifests: Annotated[Path, typer.Option()], out: Annotated[Path, typer.Option()]) -> None:
    """Write {dataset: {class name: [descriptor, ...]}} for the datasets that name a file in gpt_descriptors."""
    found = {}
    for name, dataset in load_params().datasets.items():
        if dataset.gpt_descriptors is not None:
            manifest = store.require(manifests / f"{name}.parquet", made_by=f"prepare@{name}")
            class_names = store.table_attributes(manifest)["class_names"]
            path = dataset.gpt_descriptors
            found[name] = gpt.matched(gpt.read(path), class_names=class_names, origin=path)
    store.write_json(out, found)


if __name__ == "__main__":
    stage.run(main)
