"""Image features of the source's few-shot training images, the only images that selection sees."""

from __future__ import annotations

from wsoup.core.disk.shards import Owner
from wsoup.core.params.encoder import EmbedParams, EncoderParams
from wsoup.core.params.section import Name, Sections, load
from wsoup.images.features import embed_split
from wsoup.pipeline import stage


class Wanted(Sections):
    """What this stage reads of params.yaml."""

    source: Name
    encoder: EncoderParams
    embed: EmbedParams


def main(owner: Owner) -> None:
    """Embed the training images of all seeds, as the source's manifest lists them."""
    params = load(Wanted)
    embed_split(params.source, split="train", encoder=params.encoder, params=params.embed, owner=owner)


if __name__ == "__main__":
    stage.run(main)
