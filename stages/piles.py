"""Targets' test features without labels, and the piles of them that adaptation is tried on; the labels lie apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from wsoup.adapt.params import Adaptations
from wsoup.core.disk import store
from wsoup.core.disk.artifacts import Artifacts
from wsoup.core.disk.shards import Owner
from wsoup.core.params.section import Sections, Seeds, load
from wsoup.evaluate import piles
from wsoup.pipeline import stage

SEEN = ("regime", "seed", "batch", "images")
"""Columns that adaptation is given."""


class Wanted(Sections):
    """What this stage reads of params.yaml."""

    seeds: Seeds
    adapt: Adaptations


def main(owner: Owner) -> None:
    """Write a folder for stage `adapt`, in which no label is, and what is right for the report; empty without `adapt`.

    The images of each dataset stand in a drawn order, so that their places say nothing, either.
    """
    params, artifacts = load(Wanted), Artifacts()
    key = []
    with store.replacing(artifacts.piles) as folder:
        folder.mkdir()
        for path in artifacts.tests() if params.adapt else ():
            test = store.read_features(path)
            about = test.attributes
            if about["role"] == "source":
                continue
            order = piles.order(len(test.labels), dataset=about["dataset"])
            nothing = np.full(len(order), -1)
            unlabelled = replace(test, features=test.features[order], labels=nothing, rows=nothing)
            store.write_features(folder / f"{about['dataset']}.zarr", unlabelled)
            lines = [line for s in params.seeds for line in piles.lines(test.labels[order], about=about, seed=s)]
            seen = [{name: line[name] for name in SEEN} for line in lines]
            store.write_table(folder / f"{about['dataset']}.parquet", pa.Table.from_pylist(seen))
            key += lines
    with store.replacing(artifacts.results / "piles") as folder:
        folder.mkdir()
        if key:
            store.write_table(folder / "labels.parquet", pa.Table.from_pylist(key))
    print(f"{artifacts.piles}: {len(key)} piles of {len({line['dataset'] for line in key})} datasets")


if __name__ == "__main__":
    stage.run(main)
