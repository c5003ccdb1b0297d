"""Image features of a dataset's test images: manifest -> Zarr (N, D), L2-normalised, labels beside."""

from __future__ import annotations

from wsoup.core.disk.shards import Owner
from wsoup.core.params.encoder import EmbedParams, EncoderParams
from wsoup.core.params.section import Sections, load
from wsoup.images.features import embed_split
from wsoup.pipeline import stage


class Wanted(Sections):
    """What this stage reads of params.yaml."""

    encoder: EncoderParams
    embed: EmbedParams


def main(owner: Owner, dataset: str) -> None:
    """Embed the test images of DATASET, as its manifest lists them."""
    params = load(Wanted)
    embed_split(dataset, split="test", encoder=params.encoder, params=params.embed, owner=owner)


if __name__ == "__main__":
    stage.run(main)
