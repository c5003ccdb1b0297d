"""Test features of targets without labels, and the piles of them for adaptation; labels are stored apart."""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from wsoup.adapt.params import Adaptations
from wsoup.disk import store
from wsoup.disk.artifacts import Artifacts
from wsoup.disk.shards import Owner
from wsoup.evaluate import piles
from wsoup.params.section import Sections, Seeds, load
from wsoup.pipeline import stage

SEEN = ("regime", "seed", "batch", "images")
"""Columns that adaptation sees."""


class Wanted(Sections):
    """The sections of params.yaml that this stage reads."""

    seeds: Seeds
    adapt: Adaptations


def main(owner: Owner) -> None:
    """Write a folder without labels for stage adapt, and the labels for the report; both are empty without `adapt`.

    The images of each dataset are in random order, so that positions reveal no labels.
    """
    params, artifacts = load(Wanted), Artifacts()
    labelled = []
    with store.replacing(artifacts.piles) as folder:
        folder.mkdir()
        for path in artifacts.tests() if params.adapt else ():
            test = store.read_features(path)
            about = test.attributes
            if about["role"] == "source":
                continue
            order = piles.order(len(test.labels), dataset=about["dataset"])
            unknown = np.full(len(order), -1)
            unlabelled = replace(test, features=test.features[order], labels=unknown, rows=unknown)
            store.write_features(folder / f"{about['dataset']}.zarr", unlabelled)
            lines = [line for s in params.seeds for line in piles.lines(test.labels[order], about=about, seed=s)]
            store.write_table(folder / f"{about['dataset']}.parquet", pa.Table.from_pylist(lines).select(SEEN))
            labelled += lines
    with store.replacing(artifacts.results / "piles") as folder:
        folder.mkdir()
        if labelled:
            store.write_table(folder / "labels.parquet", pa.Table.from_pylist(labelled))
    print(f"{artifacts.piles}: {len(labelled)} piles of {len({line['dataset'] for line in labelled})} datasets")


if __name__ == "__main__":
    stage.run(main)
