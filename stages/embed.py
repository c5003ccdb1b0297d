"""Image features of one split of one dataset: manifest -> Zarr (N, D), L2-normalised, labels beside."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from wsoup import store
from wsoup.errors import DataError
from wsoup.images.features import embed_images
from wsoup.params.whole import load_params
from wsoup.runtime import stage
from wsoup.towers import load_encoder

Option = Annotated[Path, typer.Option()]


def main(dataset: str, split: str, manifest: Option, out: Option) -> None:
    """Embed SPLIT (train or test) of DATASET, as listed in MANIFEST, into OUT."""
    params = load_params()
    table = store.read_table(store.require(manifest, made_by=f"prepare@{dataset}"))
    rows = np.flatnonzero(np.asarray(table["split"]) == split)
    if not len(rows):
        raise DataError(f"{manifest} lists no {split} images of {dataset}; check datasets.{dataset} in params.yaml")
    chosen = table.take(rows)
    encoder = load_encoder(params.encoder)
    embedded = embed_images(
        encoder,
        root=params.datasets[dataset].root,
        paths=chosen["path"].to_pylist(),
        digests=chosen["digest"].to_pylist(),
        batch_size=params.embed.batch_size,
        on_bad_image=params.embed.on_bad_image,
        label=f"embed {dataset} {split}",
    )
    attributes = {
        **store.table_attributes(manifest),
        "split": split,
        "encoder": encoder.id,
        "preprocessing": encoder.preprocessing,
        "skipped": [embedded.skipped[i] for i in sorted(embedded.skipped)],
    }
    kept = rows[embedded.positions]
    labels = np.asarray(table["label"])[kept]
    store.write_features(out, store.ImageFeatures(embedded.features, labels, kept, attributes))
    for text in attributes["skipped"]:
        print(f"skipped: {text}")
    print(f"{out}: {len(labels)} images, {embedded.features.shape[1]} dimensions, {encoder.id['model']}")


if __name__ == "__main__":
    stage.run(main)
