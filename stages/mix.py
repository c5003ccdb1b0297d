"""The pools of words and descriptors, scored, as one ranking: scores/mixed.parquet for soups of pool ``mixed``."""

from __future__ import annotations

from wsoup.core.disk import store
from wsoup.core.disk.artifacts import Artifacts
from wsoup.core.disk.shards import Owner
from wsoup.core.params.section import Sections
from wsoup.pipeline import stage
from wsoup.search.rank.ranking import mixed


class Wanted(Sections):
    """What this stage reads of params.yaml: nothing."""


def main(owner: Owner) -> None:
    """Join the two tables of scores."""
    artifacts = Artifacts()
    table, attributes = mixed(artifacts.scores("words"), artifacts.scores("descriptors"))
    store.write_table(artifacts.scores("mixed"), table, attributes={**attributes, "made_with": dict(owner.packages)})
    print(f"{artifacts.scores('mixed')}: {len(table)} scores of words and descriptors")


if __name__ == "__main__":
    stage.run(main)
