"""The soup of the bare class name: one empty member per seed, so that plain methods are no special case."""

from wsoup.disk import store
from wsoup.disk.artifacts import Artifacts
from wsoup.disk.shards import Owner
from wsoup.params.section import Name, Sections, Seeds, load
from wsoup.pipeline import stage
from wsoup.soup.member import Member
from wsoup.soup.soup import Soup


class Wanted(Sections):
    """The sections of params.yaml that this stage reads."""

    source: Name
    seeds: Seeds


def main(owner: Owner) -> None:
    """Write the class-name soup of every seed, for the template and encoder of the source's training features."""
    params, artifacts = load(Wanted), Artifacts()
    about = store.read_features(
        artifacts.features(params.source, split="train"), of=(params.source, "train")
    ).attributes
    with store.replacing(artifacts.soups("class_name")) as folder:
        for seed in params.seeds:
            soup = Soup("class_name", seed, about["template"], about["encoder"], (Member(""),))
            soup.save(folder / f"seed{seed}.json")


if __name__ == "__main__":
    stage.run(main)
