"""The scored pools of words and descriptors as one ranking, for soups of pool ``mixed``: scores/mixed.parquet."""

from wsoup.disk import store
from wsoup.disk.artifacts import Artifacts
from wsoup.disk.shards import Owner
from wsoup.params.section import Sections
from wsoup.pipeline import stage
from wsoup.search.rank.ranking import mixed


class Wanted(Sections):
    """This stage reads nothing of params.yaml."""


def main(owner: Owner) -> None:
    """Join the two tables of scores."""
    artifacts = Artifacts()
    table, attributes = mixed(artifacts.scores("words"), artifacts.scores("descriptors"))
    store.write_table(artifacts.scores("mixed"), table, attributes={**attributes, "made_with": dict(owner.packages)})
    print(f"{artifacts.scores('mixed')}: {len(table)} scores of words and descriptors")


if __name__ == "__main__":
    stage.run(main)
