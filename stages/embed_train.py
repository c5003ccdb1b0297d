"""Image features of the source's few-shot training images, the only images that selection sees.

Also the soup of the bare class name for that template and encoder: one empty member for each seed, so that methods
without a soup are no special case.
"""

from wsoup.core.member import Member
from wsoup.core.soup import Soup
from wsoup.disk import store
from wsoup.disk.files import Artifacts
from wsoup.disk.shards import Owner
from wsoup.images.split import embed_split
from wsoup.params.inputs import EmbedParams, EncoderParams
from wsoup.params.section import Name, Sections, Seeds, load
from wsoup.pipeline import stage
from wsoup.towers.features import read_features


class Wanted(Sections):
    """The sections of params.yaml that this stage reads."""

    source: Name
    seeds: Seeds
    encoder: EncoderParams
    embed: EmbedParams


def main(owner: Owner) -> None:
    """Embed the training images of all seeds in the order of the source's manifest; write the class-name soup."""
    params = load(Wanted)
    artifacts = Artifacts()
    source = params.source
    embed_split(source, split="train", encoder=params.encoder, params=params.embed, owner=owner)
    about = read_features(artifacts.features(source, split="train")).attributes
    with store.replacing(artifacts.soups("class_name")) as folder:
        for seed in params.seeds:
            soup = Soup("class_name", seed, about["template"], about["encoder"], (Member(""),))
            soup.save(folder / f"seed{seed}.json")


if __name__ == "__main__":
    stage.run(main)
