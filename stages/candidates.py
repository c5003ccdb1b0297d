"""Stage candidates: the pools of words and descriptors, one bare text a line."""

from __future__ import annotations

from wsoup.disk.artifacts import Artifacts
from wsoup.disk.shards import Owner
from wsoup.params.base.section import Sections, load
from wsoup.pipeline import stage
from wsoup.search.rank import pools
from wsoup.search.rank.params import CandidatesParams


class Wanted(Sections):
    """What this stage reads of params.yaml."""

    candidates: CandidatesParams


def main(owner: Owner) -> None:
    """Write both pools."""
    wanted, artifacts = load(Wanted).candidates, Artifacts()
    count = wanted.words.count
    words = pools.words_from_file(wanted.words.path, count=count) if wanted.words.path else pools.common_words(count)
    pools.write_pool(artifacts.pool("words"), words)
    pools.write_pool(artifacts.pool("descriptors"), pools.descriptors(wanted.descriptors.paths))


if __name__ == "__main__":
    stage.run(main)
