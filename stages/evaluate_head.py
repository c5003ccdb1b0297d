"""One head, all seeds, on the test images of the source and of datasets with its classes: counts as Parquet."""

import pyarrow as pa

from wsoup.disk import store
from wsoup.disk.artifacts import Artifacts
from wsoup.disk.shards import Owner
from wsoup.evaluate.heads import head_line
from wsoup.heads.head import Head
from wsoup.heads.params import Heads
from wsoup.params.section import Sections, Seeds, load
from wsoup.pipeline import stage


class Wanted(Sections):
    """The sections of params.yaml that this stage reads."""

    seeds: Seeds
    heads: Heads


def main(owner: Owner, name: str) -> None:
    """Evaluate NAME, a head of section `heads`; datasets with other classes have no row."""
    params, artifacts = load(Wanted), Artifacts()
    heads = {seed: Head.load(artifacts.head(name, seed=seed)) for seed in params.seeds}
    encoder, soup = heads[params.seeds[0]].encoder, params.heads[name].soup
    tests = [store.read_features(path, encoder=encoder) for path in artifacts.tests()]
    lines = [
        line
        for test in tests
        for seed, head in heads.items()
        if (line := head_line(head, name=name, soup=soup, seed=seed, test=test)) is not None
    ]
    attributes = {
        "encoder": dict(encoder),
        "parameters": round(sum(head.fitted.n_numbers for head in heads.values()) / len(heads)),
        "members_kl": [],
        "soup": soup,
        "left_out": [[head.kind, head.n_correct, head.n_images] for head in heads.values()],
        "made_with": dict(owner.packages),
    }
    out = artifacts.results / "heads" / f"{name}.parquet"
    store.write_table(out, pa.Table.from_pylist(lines), attributes=attributes)
    print(f"{out}: {name} on {', '.join(dict.fromkeys(line['dataset'] for line in lines))}")


if __name__ == "__main__":
    stage.run(main)
