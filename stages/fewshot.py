"""The source's manifest -> a table of few-shot training images for each seed."""

from wsoup.datasets.fewshot import split_of_seed
from wsoup.disk import store
from wsoup.disk.files import Artifacts
from wsoup.disk.shards import Owner
from wsoup.params.inputs import FewshotParams
from wsoup.params.section import Name, Sections, Seeds, load
from wsoup.pipeline import stage


class Wanted(Sections):
    """The sections of params.yaml that this stage reads."""

    source: Name
    seeds: Seeds
    fewshot: FewshotParams


def main(owner: Owner) -> None:
    """Write the few-shot split of every seed of the source."""
    params = load(Wanted)
    artifacts = Artifacts()
    source = params.source
    manifest = store.require(artifacts.manifest(source), made_by=f"prepare@{source}")
    table = store.read_table(manifest, columns=["path", "label", "seeds"])
    for seed in params.seeds:
        attributes = {"dataset": source, "seed": seed, "shots": params.fewshot.shots}
        split = split_of_seed(table, seed=seed)
        store.write_table(artifacts.split(source, seed=seed), split, attributes=attributes)


if __name__ == "__main__":
    stage.run(main)
