"""One soup of params.yaml for every seed: a ranked pool -> soups/<name>/seed<k>.json. A shard is a chain of a seed."""

from wsoup.disk import store
from wsoup.disk.shards import Owner
from wsoup.params.section import load, one_of
from wsoup.pipeline import stage
from wsoup.runtime.work import finish_by_group
from wsoup.search.grow.all_kinds import Soups
from wsoup.search.grow.search import Search, peak_of
from wsoup.search.rank.ranking import read_ranked
from wsoup.search.rank.source import load_source
from wsoup.towers.run import Run, SourceParams


class Wanted(SourceParams):
    """The sections of params.yaml that this stage reads."""

    soups: Soups


def main(owner: Owner, name: str) -> None:
    """Build the soup NAME of section `soups` for every seed."""
    params = load(Wanted)
    definition = one_of("soups", params.soups, name)
    run = Run.of(owner, params)
    source = load_source(run)
    scores = run.artifacts.scores(definition.pool)
    searches: dict[int, Search] = {}
    for seed in run.seeds:
        ranked = read_ranked(scores, seed=seed, encoder_id=run.encoder.id)
        searches[seed] = Search(definition, ranked, source, seed)
    shards = {seed: search.shards(owner) for seed, search in searches.items()}
    parts = finish_by_group(shards, label=f"soup {name}", unit="part")
    members = []
    with store.replacing(run.artifacts.soups(name)) as folder:
        for seed, search in searches.items():
            soup = search.soup(parts[seed], made_with=owner.packages)
            soup.save(folder / f"seed{seed}.json")
            others = ", ..." if len(soup.members) > 1 else ""
            members.append(f"{len(soup.members)} of seed {seed} ({soup.members[0].text!r}{others})")
    peak = peak_of(part for of_seed in parts.values() for part in of_seed)
    # In a file of its own, which only the report reads: another device must not make anything anew.
    store.write_checked_object(run.artifacts.memory("soup", name), {"peak_device_mib": peak})
    print(f"members: {', '.join(members)}")
    print(f"soup {name}: {source.text_encoder.encoded}")


if __name__ == "__main__":
    stage.run(main)
