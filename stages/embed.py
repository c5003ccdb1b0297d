"""Image features of a dataset's test images: manifest -> Zarr (N, D), L2-normalised, with labels."""

from wsoup.disk.shards import Owner
from wsoup.images.split import embed_split
from wsoup.params.inputs import EmbedParams, EncoderParams
from wsoup.params.section import Sections, load
from wsoup.pipeline import stage


class Wanted(Sections):
    """The sections of params.yaml that this stage reads."""

    encoder: EncoderParams
    embed: EmbedParams


def main(owner: Owner, dataset: str) -> None:
    """Embed the test images of DATASET in the order of its manifest."""
    params = load(Wanted)
    embed_split(dataset, split="test", encoder=params.encoder, params=params.embed, owner=owner)


if __name__ == "__main__":
    stage.run(main)
