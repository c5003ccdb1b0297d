"""Image features of the source's few-shot training images, the only images that selection sees."""

from wsoup.disk.shards import Owner
from wsoup.images.features import embed_split
from wsoup.params.inputs import EmbedParams, EncoderParams
from wsoup.params.section import Name, Sections, load
from wsoup.pipeline import stage


class Wanted(Sections):
    """The sections of params.yaml that this stage reads."""

    source: Name
    encoder: EncoderParams
    embed: EmbedParams


def main(owner: Owner) -> None:
    """Embed the training images of all seeds in the order of the source's manifest."""
    params = load(Wanted)
    embed_split(params.source, split="train", encoder=params.encoder, params=params.embed, owner=owner)


if __name__ == "__main__":
    stage.run(main)
